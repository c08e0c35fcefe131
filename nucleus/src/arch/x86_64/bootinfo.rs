//! What the boot loader tells: memory map, modules, command line, ACPI root (PVH `hvm_start_info`).
//!
//! Parsed once, with the first tables, into a [`BootInfo`] that owns everything it says; nothing
//! of the loader's memory is needed after.
use super::boot::{self, FIRST_MAP_END, phys_to_virt};

/// A range of physical addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhysRange {
    /// First byte.
    pub start: u64,
    /// First byte after it.
    pub end: u64,
}

impl PhysRange {
    /// Bytes in it.
    pub fn bytes(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

const MAX_RANGES: usize = 64;

/// A short list of ranges, without a heap.
#[derive(Clone, Copy, Debug)]
pub struct Ranges {
    list: [PhysRange; MAX_RANGES],
    count: usize,
}

impl Ranges {
    const fn new() -> Ranges {
        Ranges { list: [PhysRange { start: 0, end: 0 }; MAX_RANGES], count: 0 }
    }

    /// The ranges.
    pub fn as_slice(&self) -> &[PhysRange] {
        &self.list[..self.count]
    }

    /// Adds a range unless it is empty or the list is full (memory is then lost, not misused).
    fn push(&mut self, range: PhysRange) {
        if range.start < range.end && self.count < MAX_RANGES {
            self.list[self.count] = range;
            self.count += 1;
        }
    }

    /// Takes `hole` out of every range, splitting where it lies inside one.
    fn remove(&mut self, hole: PhysRange) {
        let before = *self;
        self.count = 0;
        for range in before.as_slice() {
            self.push(PhysRange { start: range.start, end: range.end.min(hole.start) });
            self.push(PhysRange { start: range.start.max(hole.end), end: range.end });
        }
    }
}

/// A module the loader brought.
#[derive(Clone, Copy, Debug)]
pub struct Module {
    /// Where it is; never given to the frame allocator.
    pub range: PhysRange,
}

/// What the boot loader told.
#[derive(Clone, Copy, Debug)]
pub struct BootInfo {
    /// All usable RAM in whole pages, for the direct map and the frame table.
    pub ram: Ranges,
    /// RAM that nobody has: `ram` without the first megabyte, the kernel image and the modules.
    pub free: Ranges,
    /// Whatever else the map lists below 4 GiB that may be read (ACPI tables), to be mapped too.
    pub map_also: Ranges,
    /// Modules in order.
    pub modules: Ranges,
    /// Physical address of the ACPI root pointer, 0 where none was given.
    pub rsdp: u64,
    /// A page below 640 KiB for starting processors, 0 where there is none.
    pub trampoline: u64,
}

const MAGIC: u32 = 0x336e_c578;

#[derive(Clone, Copy)]
#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    modules: u32,
    modules_at: u64,
    command_line_at: u64,
    rsdp_at: u64,
    memory_map_at: u64,
    memory_map_entries: u32,
    reserved: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct MemoryEntry {
    start: u64,
    bytes: u64,
    kind: u32,
    reserved: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct ModuleEntry {
    start: u64,
    bytes: u64,
    command_line_at: u64,
    reserved: u64,
}

const KIND_RAM: u32 = 1;
const KIND_ACPI: u32 = 3;
const KIND_ACPI_NVS: u32 = 4;
const PAGE: u64 = 4096;

/// Reads a structure of the loader's at a physical address; `None` beyond the first map.
///
/// # Safety
/// Boot's first tables are loaded and nothing writes there.
unsafe fn read<T: Copy>(physical: u64) -> Option<T> {
    if physical == 0 || physical.checked_add(size_of::<T>() as u64)? > FIRST_MAP_END {
        return None;
    }
    let at = phys_to_virt(physical) as *const T;
    // SAFETY: mapped (checked), nobody writes there; `T` is one of the plain structures above.
    Some(unsafe { at.read_unaligned() })
}

/// Parses the loader's information; also keeps the command line in `params`.
///
/// # Panics
/// Where it is not PVH start information of version 1 or has no memory map: there is nothing to run on.
///
/// # Safety
/// Once, on the boot processor, with boot's first tables.
pub unsafe fn parse(start_info: u64) -> BootInfo {
    // SAFETY: as the caller says.
    let info = unsafe { read::<StartInfo>(start_info) }.expect("no start information");
    assert_eq!(info.magic, MAGIC, "not booted by PVH");
    assert!(info.version >= 1 && info.memory_map_entries > 0, "the loader gave no memory map");
    // SAFETY: as the caller says.
    unsafe { keep_command_line(info.command_line_at) };
    let mut boot = BootInfo {
        ram: Ranges::new(),
        free: Ranges::new(),
        map_also: Ranges::new(),
        modules: Ranges::new(),
        rsdp: info.rsdp_at,
        trampoline: 0,
    };
    for index in 0..u64::from(info.memory_map_entries) {
        // SAFETY: as the caller says.
        let entry = unsafe {
            read::<MemoryEntry>(info.memory_map_at + index * size_of::<MemoryEntry>() as u64)
        };
        if let Some(entry) = entry {
            boot.add_memory(&entry);
        }
    }
    for index in 0..u64::from(info.modules) {
        // SAFETY: as the caller says.
        let entry = unsafe {
            read::<ModuleEntry>(info.modules_at + index * size_of::<ModuleEntry>() as u64)
        };
        if let Some(entry) = entry {
            boot.modules.push(PhysRange {
                start: entry.start,
                end: entry.start.saturating_add(entry.bytes),
            });
        }
    }
    boot.choose_free();
    boot
}

impl BootInfo {
    fn add_memory(&mut self, entry: &MemoryEntry) {
        let end = entry.start.saturating_add(entry.bytes);
        match entry.kind {
            KIND_RAM => {
                self.ram.push(PhysRange {
                    start: entry.start.next_multiple_of(PAGE),
                    end: end / PAGE * PAGE,
                });
            }
            KIND_ACPI | KIND_ACPI_NVS => {
                self.map_also.push(PhysRange {
                    start: entry.start / PAGE * PAGE,
                    end: end.next_multiple_of(PAGE),
                });
            }
            // QEMU puts the ACPI tables into a reserved range at the end of low memory.
            _ if end <= FIRST_MAP_END && entry.start >= 1 << 20 && entry.bytes <= 16 << 20 => {
                self.map_also.push(PhysRange {
                    start: entry.start / PAGE * PAGE,
                    end: end.next_multiple_of(PAGE),
                });
            }
            _ => {}
        }
    }

    fn choose_free(&mut self) {
        self.free = self.ram;
        self.free.remove(PhysRange { start: 0, end: 1 << 20 });
        self.free.remove(boot::kernel_range());
        for module in &self.modules.list[..self.modules.count] {
            self.free.remove(PhysRange {
                start: module.start / PAGE * PAGE,
                end: module.end.next_multiple_of(PAGE),
            });
        }
        let low =
            self.ram.as_slice().iter().find(|range| range.start < 0x9_0000 && range.end >= 0x9000);
        self.trampoline = low.map_or(0, |range| range.start.max(0x8000));
    }
}

/// # Safety
/// As [`read`].
unsafe fn keep_command_line(physical: u64) {
    let mut line = [0u8; crate::params::MAX_BYTES];
    let mut length = 0;
    while length < line.len() {
        // SAFETY: as the caller says.
        match unsafe { read::<u8>(physical + length as u64) } {
            Some(byte) if physical != 0 && byte != 0 => line[length] = byte,
            _ => break,
        }
        length += 1;
    }
    // SAFETY: boot runs this once on one processor.
    unsafe { crate::params::set(&line[..length]) };
}
