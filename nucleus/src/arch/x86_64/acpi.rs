//! The ACPI tables the nucleus needs: MADT (processors, I/O APICs, line overrides), FADT (power, PM
//! timer), HPET; and two facts dug out of the DSDT's bytes without an AML interpreter: the S5 sleep
//! type and microvm's virtio-mmio transports.
//!
//! Read once at boot through the first tables, into one [`Tables`] kept for ever.
//! Source: ACPI 6.5, chapters 5.2.5 to 5.2.12 and 6.4.3.
use super::boot::{FIRST_MAP_END, phys_to_virt};
use core::cell::UnsafeCell;

const MAX_PROCESSORS: usize = super::percpu::MAX_CPUS;
const MAX_IO_APICS: usize = 4;
const MAX_TRANSPORTS: usize = 32;

/// One I/O APIC.
#[derive(Clone, Copy, Debug, Default)]
pub struct IoApic {
    /// Physical address of its registers.
    pub address: u64,
    /// First global line.
    pub first_line: u32,
}

/// Where and how an ISA interrupt arrives, where not identity, edge, high.
#[derive(Clone, Copy, Debug, Default)]
pub struct Override {
    /// ISA interrupt.
    pub source: u8,
    /// Global line.
    pub line: u32,
    /// MPS INTI flags.
    pub flags: u16,
}

/// A virtio-mmio transport named by the DSDT.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transport {
    /// Physical address of its registers.
    pub base: u64,
    /// Bytes of registers.
    pub bytes: u64,
    /// Global line.
    pub line: u32,
}

/// A register of the FADT: in ports or memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Register {
    /// Not there.
    #[default]
    None,
    /// A port.
    Port(u16),
    /// A physical address.
    Memory(u64),
}

/// A list of at most `N` without a heap.
#[derive(Clone, Copy, Debug)]
pub struct List<T, const N: usize> {
    items: [T; N],
    count: usize,
}

impl<T: Copy + Default, const N: usize> List<T, N> {
    fn push(&mut self, item: T) {
        if let Some(slot) = self.items.get_mut(self.count) {
            *slot = item;
            self.count += 1;
        }
    }
    /// What is in it.
    pub fn as_slice(&self) -> &[T] {
        &self.items[..self.count]
    }
}

impl<T: Copy + Default, const N: usize> Default for List<T, N> {
    fn default() -> Self {
        List { items: [T::default(); N], count: 0 }
    }
}

/// What the tables said.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tables {
    /// Local APIC ids of the usable processors.
    pub processors: List<u32, MAX_PROCESSORS>,
    /// I/O APICs.
    pub io_apics: List<IoApic, MAX_IO_APICS>,
    /// Interrupt source overrides.
    pub overrides: List<Override, 16>,
    /// Virtio-mmio transports.
    pub transports: List<Transport, MAX_TRANSPORTS>,
    /// Physical address of the local APIC, 0 if not told.
    pub local_apic: u64,
    /// The power management timer, 3.579545 MHz.
    pub pm_timer: Register,
    /// PM1a and PM1b control (fixed hardware).
    pub pm1_control: [Register; 2],
    /// Sleep control (hardware-reduced).
    pub sleep_control: Register,
    /// Reset register and the value to write.
    pub reset: (Register, u8),
    /// `\_S5`'s sleep types for PM1a and PM1b.
    pub sleep_type_5: Option<[u8; 2]>,
    /// Physical address of the HPET.
    pub hpet: Option<u64>,
}

struct Kept(UnsafeCell<Option<Tables>>);

// SAFETY: written by `init` once, while one processor runs; only read after.
unsafe impl Sync for Kept {}

static KEPT: Kept = Kept(UnsafeCell::new(None));

/// Bytes of physical memory, for reading tables at boot; reads outside them give zero.
#[derive(Clone, Copy)]
struct Bytes(&'static [u8]);

impl Bytes {
    /// # Safety
    /// Boot's first tables are loaded; nothing writes to the range.
    unsafe fn at(physical: u64, length: usize) -> Option<Bytes> {
        let end = physical.checked_add(length as u64)?;
        if physical == 0 || end > FIRST_MAP_END {
            return None;
        }
        // SAFETY: mapped (checked) and constant, as the caller says.
        Some(Bytes(unsafe {
            core::slice::from_raw_parts(phys_to_virt(physical) as *const u8, length)
        }))
    }
    /// A whole table with a standard header.
    ///
    /// # Safety
    /// As [`Bytes::at`].
    unsafe fn table(physical: u64) -> Option<Bytes> {
        // SAFETY: as the caller says.
        let header = unsafe { Bytes::at(physical, 36) }?;
        let length = header.u32(4) as usize;
        if !(36..=1 << 20).contains(&length) {
            return None;
        }
        // SAFETY: as the caller says.
        unsafe { Bytes::at(physical, length) }
    }
    fn get<const N: usize>(&self, offset: usize) -> [u8; N] {
        self.0.get(offset..offset + N).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
    }
    fn u8(&self, offset: usize) -> u8 {
        self.get::<1>(offset)[0]
    }
    fn u16(&self, offset: usize) -> u16 {
        u16::from_le_bytes(self.get(offset))
    }
    fn u32(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.get(offset))
    }
    fn u64(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.get(offset))
    }
    /// A generic address structure; `None` where its address is 0.
    fn register(&self, offset: usize) -> Register {
        match (self.u8(offset), self.u64(offset + 4)) {
            (_, 0) => Register::None,
            (0, address) => Register::Memory(address),
            (1, port) => Register::Port(port as u16),
            _ => Register::None,
        }
    }
    fn port(&self, offset: usize) -> Register {
        match self.u32(offset) {
            0 => Register::None,
            port => Register::Port(port as u16),
        }
    }
}

/// Reads the tables. `rsdp` is 0 where the loader did not say.
///
/// # Safety
/// Once, on the boot processor, with boot's first tables.
pub unsafe fn init(rsdp: u64) {
    let mut tables = Tables::default();
    // SAFETY: as the caller says.
    let root = unsafe { find_root(rsdp) };
    if let Some(root) = root {
        // SAFETY: as the caller says.
        unsafe { read_root(root, &mut tables) };
    }
    // SAFETY: the caller says nobody reads yet.
    unsafe { *KEPT.0.get() = Some(tables) };
}

/// What the tables said.
///
/// # Panics
/// Before [`init`].
pub fn tables() -> &'static Tables {
    // SAFETY: never written after boot's `init`.
    unsafe { &*KEPT.0.get() }.as_ref().expect("ACPI tables before acpi::init")
}

/// # Safety
/// As [`Bytes::at`].
unsafe fn find_root(rsdp: u64) -> Option<Bytes> {
    const BIOS: u64 = 0xe_0000;
    const BIOS_BYTES: usize = 0x2_0000;
    let is_root = |bytes: &Bytes| bytes.get::<8>(0) == *b"RSD PTR ";
    // SAFETY: as the caller says.
    let told = unsafe { Bytes::at(rsdp, 36) }.filter(is_root);
    if told.is_some() {
        return told;
    }
    // SAFETY: as the caller says.
    let bios = unsafe { Bytes::at(BIOS, BIOS_BYTES) }?;
    let offset = (0..BIOS_BYTES - 36).step_by(16).find(|&at| bios.get::<8>(at) == *b"RSD PTR ")?;
    Some(Bytes(&bios.0[offset..offset + 36]))
}

/// # Safety
/// As [`Bytes::at`].
unsafe fn read_root(root: Bytes, tables: &mut Tables) {
    let (list, entry_bytes) = match (root.u8(15), root.u64(24)) {
        (2.., xsdt) if xsdt != 0 => (xsdt, 8),
        _ => (u64::from(root.u32(16)), 4),
    };
    // SAFETY: as the caller says.
    let Some(list) = (unsafe { Bytes::table(list) }) else { return };
    for offset in (36..list.0.len()).step_by(entry_bytes) {
        let at = if entry_bytes == 8 { list.u64(offset) } else { u64::from(list.u32(offset)) };
        // SAFETY: as the caller says.
        let Some(table) = (unsafe { Bytes::table(at) }) else { continue };
        match &table.get::<4>(0) {
            b"APIC" => read_madt(table, tables),
            b"FACP" => {
                read_fadt(table, tables);
                let dsdt = match table.u64(140) {
                    0 => u64::from(table.u32(40)),
                    address => address,
                };
                // SAFETY: as the caller says.
                if let Some(dsdt) = unsafe { Bytes::table(dsdt) } {
                    read_dsdt(dsdt, tables);
                }
            }
            b"HPET" => tables.hpet = Some(table.u64(44)).filter(|&address| address != 0),
            _ => {}
        }
    }
}

fn read_madt(madt: Bytes, tables: &mut Tables) {
    tables.local_apic = u64::from(madt.u32(36));
    let mut offset = 44;
    while offset + 2 <= madt.0.len() {
        let length = usize::from(madt.u8(offset + 1));
        match madt.u8(offset) {
            // Enabled, or may be brought online: QEMU's unplugged processors are the latter, and are not there.
            0 if madt.u32(offset + 4) & 1 != 0 => {
                tables.processors.push(u32::from(madt.u8(offset + 3)))
            }
            1 => tables.io_apics.push(IoApic {
                address: u64::from(madt.u32(offset + 4)),
                first_line: madt.u32(offset + 8),
            }),
            2 => tables.overrides.push(Override {
                source: madt.u8(offset + 3),
                line: madt.u32(offset + 4),
                flags: madt.u16(offset + 8),
            }),
            5 => tables.local_apic = madt.u64(offset + 4),
            _ => {}
        }
        if length < 2 {
            return;
        }
        offset += length;
    }
}

fn read_fadt(fadt: Bytes, tables: &mut Tables) {
    const HARDWARE_REDUCED: u32 = 1 << 20;
    const RESET_SUPPORTED: u32 = 1 << 10;
    let flags = fadt.u32(112);
    if flags & HARDWARE_REDUCED != 0 {
        tables.sleep_control = fadt.register(244);
    } else {
        tables.pm1_control = [fadt.port(64), fadt.port(68)];
        tables.pm_timer = fadt.port(76);
    }
    if flags & RESET_SUPPORTED != 0 {
        tables.reset = (fadt.register(116), fadt.u8(128));
    }
}

fn read_dsdt(dsdt: Bytes, tables: &mut Tables) {
    for at in 36..dsdt.0.len() {
        match dsdt.0[at] {
            b'_' if dsdt.get::<4>(at) == *b"_S5_" => {
                tables.sleep_type_5 = tables.sleep_type_5.or(read_sleep_package(dsdt, at + 4));
            }
            b'L' if dsdt.get::<8>(at) == *b"LNRO0005" => {
                if let Some(transport) = read_transport(dsdt, at + 8) {
                    tables.transports.push(transport);
                }
            }
            _ => {}
        }
    }
}

/// The first two numbers of a package: PackageOp, its length (1 to 4 bytes), count, then integers.
fn read_sleep_package(dsdt: Bytes, at: usize) -> Option<[u8; 2]> {
    const PACKAGE: u8 = 0x12;
    const BYTE_PREFIX: u8 = 0x0a;
    if dsdt.u8(at) != PACKAGE {
        return None;
    }
    let mut at = at + 1 + usize::from(dsdt.u8(at + 1) >> 6) + 2;
    let mut next = || {
        let is_prefixed = dsdt.u8(at) == BYTE_PREFIX;
        let value = dsdt.u8(at + usize::from(is_prefixed));
        at += 1 + usize::from(is_prefixed);
        value
    };
    Some([next(), next()])
}

/// The memory range and the interrupt of the resource template that follows a device's name.
fn read_transport(dsdt: Bytes, after: usize) -> Option<Transport> {
    const REACH: usize = 128;
    const MEMORY: [u8; 3] = [0x86, 9, 0];
    const INTERRUPT: [u8; 3] = [0x89, 6, 0];
    let memory = (after..after + REACH).find(|&at| dsdt.get::<3>(at) == MEMORY)?;
    let interrupt = (memory + 12..memory + REACH).find(|&at| dsdt.get::<3>(at) == INTERRUPT)?;
    Some(Transport {
        base: u64::from(dsdt.u32(memory + 4)),
        bytes: u64::from(dsdt.u32(memory + 8)),
        line: dsdt.u32(interrupt + 5),
    })
}
