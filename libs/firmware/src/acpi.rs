//! The ACPI tables that the nucleus needs: MADT (processors, I/O APICs, line overrides), FADT (power, PM timer), HPET, DMAR
//! (the IOMMU). Two facts are found in the DSDT's bytes without an AML interpreter: the S5 sleep type and microvm's
//! virtio-mmio transports.
//!
//! Read once at boot into one [`Tables`]. Source: ACPI 6.5, chapters 5.2.5 to 5.2.12 and 6.4.3; Intel VT-d 3.4, chapter 8.
use crate::{Bytes, List, Memory};
use program::MmioDevice;

/// The greatest number of processors that are recorded.
pub const MAX_PROCESSORS: usize = 64;
const MAX_IO_APICS: usize = 4;
const MAX_TRANSPORTS: usize = 32;
const MAX_FUNCTIONS: usize = 256;

/// An I/O APIC.
#[derive(Clone, Copy, Debug, Default)]
pub struct IoApic {
    /// Its number.
    pub id: u8,
    /// Physical address of its registers.
    pub address: u64,
    /// First global line that it has.
    pub first_line: u32,
}

/// The line and the signalling of an ISA interrupt that differ from the default: line of the same number, edge-triggered,
/// active high.
#[derive(Clone, Copy, Debug, Default)]
pub struct Override {
    /// ISA interrupt.
    pub source: u8,
    /// Global line.
    pub line: u32,
    /// MPS INTI flags.
    pub flags: u16,
}

/// A global interrupt line and its signalling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number among all I/O APICs.
    pub global: u32,
    /// The line is level-triggered: it interrupts as long as it is asserted, so it is masked while being handled.
    pub is_level: bool,
    /// The line is active low.
    pub is_active_low: bool,
}

/// An IOMMU.
#[derive(Clone, Copy, Debug, Default)]
pub struct Iommu {
    /// Physical address of its registers.
    pub registers: u64,
    /// The IOMMU serves every PCI function.
    pub serves_all: bool,
    /// Otherwise the functions that it serves: `bus << 8 | device << 3 | function`.
    pub functions: List<u16, MAX_FUNCTIONS>,
    /// Senders of the messages of I/O APICs: number of the I/O APIC, and its function.
    pub io_apics: List<(u8, u16), MAX_IO_APICS>,
}

impl Iommu {
    /// Returns whether memory accesses of `function` go through this IOMMU.
    pub fn serves(&self, function: u16) -> bool {
        self.serves_all || self.functions.as_slice().contains(&function)
    }
}

/// A register of the FADT: in ports or memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Register {
    /// The register does not exist.
    #[default]
    None,
    /// A port.
    Port(u16),
    /// A physical address.
    Memory(u64),
}

impl Register {
    /// Returns the port, if the register is one.
    pub fn port(self) -> Option<u16> {
        if let Register::Port(port) = self { Some(port) } else { None }
    }
}

/// The contents of the tables.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tables {
    /// Local APIC ids of the usable processors.
    pub processors: List<u32, MAX_PROCESSORS>,
    /// I/O APICs.
    pub io_apics: List<IoApic, MAX_IO_APICS>,
    /// Interrupt source overrides.
    pub overrides: List<Override, 16>,
    /// Virtio-mmio transports.
    pub transports: List<MmioDevice, MAX_TRANSPORTS>,
    /// Physical address of the local APIC; 0 if the tables do not give it.
    pub local_apic: u64,
    /// The power management timer, 3.579545 MHz.
    pub pm_timer: Register,
    /// PM1a and PM1b control (fixed hardware).
    pub pm1_control: [Register; 2],
    /// Sleep control (hardware-reduced).
    pub sleep_control: Register,
    /// Reset register, and the value to write to it.
    pub reset: (Register, u8),
    /// `\_S5`'s sleep types for PM1a and PM1b.
    pub sleep_type_5: Option<[u8; 2]>,
    /// Physical address of the HPET.
    pub hpet: Option<u64>,
    /// The VT-d IOMMU, if there is one.
    pub iommu: Option<Iommu>,
}

impl Tables {
    /// Returns the global line of `line`. Below 16 that is an ISA interrupt; other lines belong to PCI or to transports.
    pub fn line(&self, line: u32) -> Line {
        if self.transports.as_slice().iter().any(|transport| transport.interrupt == line) {
            return Line { global: line, is_level: true, is_active_low: false };
        }
        let mut all = self.overrides.as_slice().iter();
        match all.find(|entry| u32::from(entry.source) == line) {
            Some(entry) => Line {
                global: entry.line,
                is_level: entry.flags & 0b1100 == 0b1100,
                is_active_low: entry.flags & 0b11 == 0b11,
            },
            None => Line { global: line, is_level: line >= 16, is_active_low: line >= 16 },
        }
    }
}

impl Tables {
    /// Returns the function from which messages of global line `line` come, if the IOMMU's table gives it.
    pub fn sender(&self, line: u32) -> Option<u16> {
        let before = self.io_apics.as_slice().iter().filter(|one| one.first_line <= line);
        let id = before.max_by_key(|one| one.first_line)?.id;
        let iommu = self.iommu.as_ref()?;
        let (_, sender) = iommu.io_apics.as_slice().iter().find(|(of, _)| *of == id)?;
        Some(*sender)
    }
}

impl Bytes<'_> {
    /// Reads a generic address structure; `None` if its address is 0.
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

impl Tables {
    /// Reads the tables. `rsdp` is the address of the root, or 0 if the loader did not give it.
    pub fn read(memory: Memory<'_>, rsdp: u64) -> Tables {
        let mut tables = Tables::default();
        if let Some(root) = find_root(memory, rsdp) {
            read_root(memory, root, &mut tables);
        }
        tables
    }
}

/// Returns a whole table with a standard header.
fn table_at(memory: Memory<'_>, physical: u64) -> Option<Bytes<'_>> {
    const HEADER_BYTES: usize = 36;
    const MOST_BYTES: usize = 1 << 20;
    let length = Bytes(memory(physical, HEADER_BYTES)?).u32(4) as usize;
    if !(HEADER_BYTES..=MOST_BYTES).contains(&length) {
        return None;
    }
    memory(physical, length).map(Bytes)
}

fn find_root(memory: Memory<'_>, rsdp: u64) -> Option<Bytes<'_>> {
    const BIOS: u64 = 0xe_0000;
    const BIOS_BYTES: usize = 0x2_0000;
    const ROOT_BYTES: usize = 36;
    let is_root = |bytes: &&[u8]| bytes.starts_with(b"RSD PTR ");
    let told = memory(rsdp, ROOT_BYTES).filter(is_root);
    let find = || memory(BIOS, BIOS_BYTES)?.chunks(16).position(|chunk| is_root(&chunk));
    told.or_else(|| memory(BIOS + 16 * find()? as u64, ROOT_BYTES)).map(Bytes)
}

fn read_root(memory: Memory<'_>, root: Bytes<'_>, tables: &mut Tables) {
    let (list, entry_bytes) = match (root.u8(15), root.u64(24)) {
        (2.., xsdt) if xsdt != 0 => (xsdt, 8),
        _ => (u64::from(root.u32(16)), 4),
    };
    let Some(list) = table_at(memory, list) else { return };
    for offset in (36..list.0.len()).step_by(entry_bytes) {
        let at = if entry_bytes == 8 { list.u64(offset) } else { u64::from(list.u32(offset)) };
        let Some(table) = table_at(memory, at) else { continue };
        match &table.get::<4>(0) {
            b"APIC" => read_madt(table, tables),
            b"FACP" => {
                read_fadt(table, tables);
                let dsdt = match table.u64(140) {
                    0 => u64::from(table.u32(40)),
                    address => address,
                };
                if let Some(dsdt) = table_at(memory, dsdt) {
                    read_dsdt(dsdt, tables);
                }
            }
            b"DMAR" => tables.iommu = read_dmar(table),
            b"HPET" => tables.hpet = Some(table.u64(44)).filter(|&address| address != 0),
            _ => {}
        }
    }
}

fn read_madt(madt: Bytes<'_>, tables: &mut Tables) {
    tables.local_apic = u64::from(madt.u32(36));
    let mut offset = 44;
    while offset + 2 <= madt.0.len() {
        let length = usize::from(madt.u8(offset + 1));
        match madt.u8(offset) {
            // The processor is enabled. A processor that may only be brought online, such as one that is unplugged in QEMU,
            // is left out.
            0 if madt.u32(offset + 4) & 1 != 0 => {
                tables.processors.push(u32::from(madt.u8(offset + 3)))
            }
            1 => tables.io_apics.push(IoApic {
                id: madt.u8(offset + 2),
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

/// Reads the IOMMU; `None` if several share the functions, which is not supported.
fn read_dmar(dmar: Bytes<'_>) -> Option<Iommu> {
    const UNIT: u16 = 0;
    const SERVES_ALL: u8 = 1;
    let mut offset = 48;
    let mut found = None;
    while offset + 16 <= dmar.0.len() {
        let length = usize::from(dmar.u16(offset + 2));
        if dmar.u16(offset) == UNIT {
            let segment = dmar.u16(offset + 6);
            if found.is_some() || segment != 0 {
                return None;
            }
            let serves_all = dmar.u8(offset + 4) & SERVES_ALL != 0;
            let mut iommu =
                Iommu { registers: dmar.u64(offset + 8), serves_all, ..Iommu::default() };
            read_scopes(dmar, offset + 16, offset + length, &mut iommu);
            found = Some(iommu);
        }
        if length < 4 {
            break;
        }
        offset += length;
    }
    found
}

/// Reads the functions and I/O APICs that an IOMMU names one by one, except those behind bridges.
fn read_scopes(dmar: Bytes<'_>, start: usize, end: usize, iommu: &mut Iommu) {
    const ENDPOINT: u8 = 1;
    const IO_APIC: u8 = 3;
    const ONE_STEP: usize = 8;
    let mut at = start;
    while at + ONE_STEP <= end.min(dmar.0.len()) {
        let length = usize::from(dmar.u8(at + 1));
        let place = u16::from(dmar.u8(at + 6)) << 3 | u16::from(dmar.u8(at + 7));
        let function = u16::from(dmar.u8(at + 5)) << 8 | place;
        match dmar.u8(at) {
            ENDPOINT if length == ONE_STEP => iommu.functions.push(function),
            IO_APIC if length == ONE_STEP => iommu.io_apics.push((dmar.u8(at + 4), function)),
            _ => {}
        }
        at += length.max(ONE_STEP);
    }
}

fn read_fadt(fadt: Bytes<'_>, tables: &mut Tables) {
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

fn read_dsdt(dsdt: Bytes<'_>, tables: &mut Tables) {
    for at in 36..dsdt.0.len() {
        match dsdt.u8(at) {
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

/// Reads the first two numbers of a package: PackageOp, its length (1 to 4 bytes), count, then integers.
fn read_sleep_package(dsdt: Bytes<'_>, at: usize) -> Option<[u8; 2]> {
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

/// Reads the memory range and the interrupt of the resource template that follows a device's name.
fn read_transport(dsdt: Bytes<'_>, after: usize) -> Option<MmioDevice> {
    const REACH: usize = 128;
    const MEMORY: [u8; 3] = [0x86, 9, 0];
    const INTERRUPT: [u8; 3] = [0x89, 6, 0];
    let memory = (after..after + REACH).find(|&at| dsdt.get::<3>(at) == MEMORY)?;
    let interrupt = (memory + 12..memory + REACH).find(|&at| dsdt.get::<3>(at) == INTERRUPT)?;
    Some(MmioDevice {
        base: u64::from(dsdt.u32(memory + 4)),
        bytes: u64::from(dsdt.u32(memory + 8)),
        interrupt: dsdt.u32(interrupt + 5),
    })
}
