//! The information of the boot loader: memory map, modules, command line, ACPI root (PVH `hvm_start_info`).
//!
//! It is parsed once into a [`BootInfo`], which owns all its data but the command line. Source: Xen's
//! `public/arch-x86/hvm/start_info.h`. Layouts, little-endian:
//!
//! ```text
//! start information   magic u32, version u32, flags u32, modules u32, modules at u64, command line at u64,
//!                     ACPI root at u64, memory map at u64, entries of the map u32, 0 u32
//! entry of the map    start u64, bytes u64, kind u32, 0 u32
//! module              start u64, bytes u64, command line at u64, 0 u64
//! ```
use crate::{Bytes, List, Memory};

/// A range of physical addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhysRange {
    /// First byte.
    pub start: u64,
    /// First byte after it.
    pub end: u64,
}

impl PhysRange {
    /// Returns the number of bytes in the range.
    pub fn bytes(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Returns the whole pages that contain the range.
    fn widened(self) -> PhysRange {
        let end = self.end.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX / PAGE * PAGE);
        PhysRange { start: self.start / PAGE * PAGE, end }
    }

    /// Returns the whole pages within the range.
    fn narrowed(self) -> PhysRange {
        let start = self.start.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
        PhysRange { start, end: self.end / PAGE * PAGE }
    }
}

/// A list of non-empty ranges. A range that finds no room is lost, which wastes memory but is safe.
pub type Ranges = List<PhysRange, 64>;

impl Ranges {
    fn add(&mut self, range: PhysRange) {
        if range.start < range.end {
            self.push(range);
        }
    }

    /// Removes `hole` from every range, splitting a range that contains it.
    fn remove(&mut self, hole: PhysRange) {
        let before = core::mem::take(self);
        for range in before.as_slice() {
            self.add(PhysRange { start: range.start, end: range.end.min(hole.start) });
            self.add(PhysRange { start: range.start.max(hole.end), end: range.end });
        }
    }
}

/// The information of the boot loader.
#[derive(Clone, Copy, Debug, Default)]
pub struct BootInfo {
    /// All usable RAM, in whole pages, for the direct map and the frame table.
    pub ram: Ranges,
    /// RAM that is not in use: `ram` without the first megabyte, the kernel image and the modules.
    pub free: Ranges,
    /// Other parts of low memory that may be read (ACPI tables) and must be mapped too.
    pub map_also: Ranges,
    /// Modules in order; never given to the frame allocator.
    pub modules: Ranges,
    /// Physical address of the command line; 0 if none was given.
    pub command_line: u64,
    /// Physical address of the ACPI root pointer; 0 if none was given.
    pub rsdp: u64,
    /// A page below 640 KiB for starting processors; 0 if there is none.
    pub trampoline: u64,
}

const MAGIC: u32 = 0x336e_c578;
const INFO_BYTES: usize = 56;
const MEMORY_ENTRY_BYTES: usize = 24;
const MODULE_ENTRY_BYTES: usize = 32;
const KIND_RAM: u32 = 1;
const KIND_ACPI: u32 = 3;
const KIND_ACPI_NVS: u32 = 4;
const PAGE: u64 = 4096;

impl BootInfo {
    /// Parses the start information at `at`. `kernel` is the range of the image, and `low_end` the end of
    /// the memory that can be read at boot.
    ///
    /// # Errors
    /// The reason why the kernel cannot run.
    pub fn parse(
        memory: Memory<'_>,
        at: u64,
        kernel: PhysRange,
        low_end: u64,
    ) -> Result<BootInfo, &'static str> {
        let info = Bytes(memory(at, INFO_BYTES).ok_or("no start information")?);
        if info.u32(0) != MAGIC {
            return Err("not booted by PVH");
        }
        if info.u32(4) == 0 || info.u32(48) == 0 {
            return Err("the loader gave no memory map");
        }
        let mut boot =
            BootInfo { command_line: info.u64(24), rsdp: info.u64(32), ..BootInfo::default() };
        for entry in entries(memory, info.u64(40), info.u32(48), MEMORY_ENTRY_BYTES) {
            boot.add_memory(range_of(entry), entry.u32(16), low_end);
        }
        for entry in entries(memory, info.u64(16), info.u32(12), MODULE_ENTRY_BYTES) {
            boot.modules.add(range_of(entry));
        }
        boot.choose_free(kernel);
        Ok(boot)
    }

    fn add_memory(&mut self, range: PhysRange, kind: u32, low_end: u64) {
        const MIB: u64 = 1 << 20;
        // QEMU puts the ACPI tables into a reserved range at the end of low memory.
        let is_small = range.bytes() <= 16 * MIB;
        let may_hold_tables = range.end <= low_end && range.start >= MIB && is_small;
        match kind {
            KIND_RAM => self.ram.add(range.narrowed()),
            KIND_ACPI | KIND_ACPI_NVS => self.map_also.add(range.widened()),
            _ if may_hold_tables => self.map_also.add(range.widened()),
            _ => {}
        }
    }

    fn choose_free(&mut self, kernel: PhysRange) {
        self.free = self.ram;
        self.free.remove(PhysRange { start: 0, end: 1 << 20 });
        self.free.remove(kernel);
        for module in self.modules.as_slice() {
            self.free.remove(module.widened());
        }
        let mut ram = self.ram.as_slice().iter();
        let low = ram.find(|range| range.start < 0x9_0000 && range.end >= 0x9000);
        self.trampoline = low.map_or(0, |range| range.start.max(0x8000));
    }
}

/// Iterates over the readable ones of `count` entries of `bytes` bytes from `at`.
fn entries<'a>(
    memory: Memory<'a>,
    at: u64,
    count: u32,
    bytes: usize,
) -> impl Iterator<Item = Bytes<'a>> {
    let place = move |index| at.checked_add(u64::from(index) * bytes as u64);
    (0..count).map_while(move |index| memory(place(index)?, bytes).map(Bytes))
}

fn range_of(entry: Bytes<'_>) -> PhysRange {
    PhysRange { start: entry.u64(0), end: entry.u64(0).saturating_add(entry.u64(8)) }
}
