//! Tests with tables and parameters of real machines, and with damaged ones.
use crate::{
    Memory,
    acpi::{Register, Tables},
    boot::{BootInfo, PhysRange},
    parameters, symbols,
};
use proptest::prelude::*;
extern crate std;
use std::{vec, vec::Vec};

/// Physical memory from address 0.
struct Ram(Vec<u8>);

impl Ram {
    fn with<T>(&self, read: impl FnOnce(Memory<'_>) -> T) -> T {
        let bytes = |at: u64, length: usize| {
            let at = usize::try_from(at).ok().filter(|&at| at != 0)?;
            self.0.get(at..at.checked_add(length)?)
        };
        read(&bytes)
    }

    fn put(&mut self, at: usize, parts: &[(usize, &[u8])]) {
        for (offset, part) in parts {
            self.0[at + offset..at + offset + part.len()].copy_from_slice(part);
        }
    }

    fn table(&mut self, at: usize, name: &[u8; 4], bytes: u32, parts: &[(usize, &[u8])]) {
        self.put(at, &[(0, name), (4, &bytes.to_le_bytes())]);
        self.put(at, parts);
    }
}

fn word(value: u32) -> [u8; 4] {
    value.to_le_bytes()
}

fn long(value: u64) -> [u8; 8] {
    value.to_le_bytes()
}

fn machine() -> Ram {
    let mut ram = Ram(vec![0; 0x10_0000]);
    ram.put(0xe_0040, &[(0, b"RSD PTR "), (16, &word(0x1000))]);
    let list = [word(0x2000), word(0x3000), word(0x5000)].concat();
    ram.table(0x1000, b"RSDT", 48, &[(36, &list)]);
    let unplugged = [0, 8, 2, 7, 2, 0, 0, 0];
    let processor = [0, 8, 1, 5, 1, 0, 0, 0];
    let io_apic = [&[1, 12, 0, 0][..], &word(0xfec0_0000), &word(24)].concat();
    let entries = [&unplugged[..], &processor, &io_apic].concat();
    ram.table(0x2000, b"APIC", 72, &[(36, &word(0xfee0_0000)), (44, &entries)]);
    ram.table(0x3000, b"FACP", 276, &[(40, &word(0x4000)), (64, &word(0x604)), (76, &word(0x608))]);
    let sleep = [&b"_S5_"[..], &[0x12, 6, 4, 0x0a, 5, 0, 0, 0]].concat();
    let memory = [&[0x86, 9, 0, 1][..], &word(0xfeb0_0000), &word(512)].concat();
    let transport = [&b"LNRO0005"[..], &memory, &[0x89, 6, 0, 3, 1], &word(27)].concat();
    ram.table(0x4000, b"DSDT", 200, &[(40, &sleep), (100, &transport)]);
    ram.table(0x5000, b"DMAR", 84, &[(48, &[1, 0, 20]), (68, &unit(1, 0xfed9_0000))]);
    ram
}

/// Makes an IOMMU's structure for a DMAR table.
fn unit(flags: u8, registers: u64) -> Vec<u8> {
    [&[0, 0, 16, 0, flags, 0, 0, 0][..], &long(registers)].concat()
}

#[test]
fn the_tables_say_what_the_machine_has() {
    let tables = machine().with(|memory| Tables::read(memory, 0));
    assert_eq!(tables.processors.as_slice(), [5]);
    assert_eq!(tables.local_apic, 0xfee0_0000);
    assert_eq!(tables.io_apics.as_slice()[0].first_line, 24);
    assert_eq!(tables.pm1_control, [Register::Port(0x604), Register::None]);
    assert_eq!(tables.pm_timer, Register::Port(0x608));
    assert_eq!(tables.sleep_type_5, Some([5, 0]));
    let transport = tables.transports.as_slice()[0];
    assert_eq!((transport.base, transport.bytes, transport.interrupt), (0xfeb0_0000, 512, 27));
    let iommu = tables.iommu.unwrap();
    assert!(iommu.registers == 0xfed9_0000 && iommu.serves(0x118));
}

#[test]
fn a_line_is_found_as_the_tables_and_the_buses_say() {
    let mut ram = machine();
    // ISA interrupt 0 is global line 2; 9 is level-triggered and active low.
    let zero = [&[2, 10, 0, 0][..], &word(2), &[0, 0]].concat();
    let nine = [&[2, 10, 0, 9][..], &word(9), &[0xf, 0]].concat();
    let entries = [zero, nine].concat();
    ram.table(0x2000, b"APIC", 64, &[(36, &word(0xfee0_0000)), (44, &entries)]);
    let tables = ram.with(|memory| Tables::read(memory, 0));
    let line = |number: u32| {
        let found = tables.line(number);
        (found.global, found.is_level, found.is_active_low)
    };
    assert_eq!(line(0), (2, false, false));
    assert_eq!(line(4), (4, false, false));
    assert_eq!(line(9), (9, true, true));
    assert_eq!(line(17), (17, true, true), "PCI");
    assert_eq!(line(27), (27, true, false), "a transport's");
}

#[test]
fn an_iommu_serves_the_functions_that_it_names() {
    let mut ram = machine();
    let scopes = [3, 8, 0, 0, 0, 0xff, 0, 0, 1, 8, 0, 0, 0, 1, 3, 2, 1, 10, 0, 0, 0, 0, 1, 0, 2, 0];
    let mut bytes = [unit(0, 0xfed8_0000), scopes.to_vec()].concat();
    bytes[2] = bytes.len() as u8;
    ram.table(0x5000, b"DMAR", 48 + bytes.len() as u32, &[(48, &bytes)]);
    let tables = ram.with(|memory| Tables::read(memory, 0));
    // The I/O APIC with number 0 is the machine's only one, from line 24 on.
    assert_eq!([23, 24, 40].map(|line| tables.sender(line)), [None, Some(0xff00), Some(0xff00)]);
    let iommu = tables.iommu.unwrap();
    assert_eq!(iommu.functions.as_slice(), [1 << 8 | 3 << 3 | 2]);
    assert!(iommu.serves(0x11a) && !iommu.serves(0x8));
}

#[test]
fn of_several_iommus_there_is_none() {
    let several = [unit(0, 0xfed8_0000), unit(1, 0xfed9_0000)].concat();
    for (bytes, units) in [(80, several), (48, Vec::new())] {
        let mut ram = machine();
        ram.table(0x5000, b"DMAR", bytes, &[(48, &units)]);
        assert!(ram.with(|memory| Tables::read(memory, 0)).iommu.is_none());
    }
}

#[test]
fn a_machine_without_tables_has_nothing() {
    let tables = Ram(vec![0; 0x2000]).with(|memory| Tables::read(memory, 0x1000));
    assert!(tables.processors.as_slice().is_empty());
    assert_eq!(tables.hpet, None);
}

fn booted(entries: &[(u64, u64, u32)], modules: &[(u64, u64)]) -> Ram {
    let mut ram = Ram(vec![0; 0x8000]);
    let (map, list) = (0x2000, 0x3000);
    let counts = [word(0x336e_c578), word(1), word(0), word(modules.len() as u32)].concat();
    let places = [long(list), long(0x4000), long(0x5000), long(map)].concat();
    let count = word(entries.len() as u32);
    ram.put(0x1000, &[(0, &counts), (16, &places), (48, &count)]);
    for (index, (start, bytes, kind)) in entries.iter().enumerate() {
        let at = map as usize + 24 * index;
        ram.put(at, &[(0, &long(*start)), (8, &long(*bytes)), (16, &word(*kind))]);
    }
    for (index, (start, bytes)) in modules.iter().enumerate() {
        ram.put(list as usize + 32 * index, &[(0, &long(*start)), (8, &long(*bytes))]);
    }
    ram
}

const KERNEL: PhysRange = PhysRange { start: 0x20_0000, end: 0x40_0000 };

#[test]
fn what_nobody_has_is_free() {
    let ram = booted(&[(0, 0x9_fc00, 1), (0x10_0000, 0x70_0000, 1)], &[(0x50_0800, 0x1000)]);
    let info = ram.with(|memory| BootInfo::parse(memory, 0x1000, KERNEL, 1 << 32)).unwrap();
    let free: Vec<_> = info.free.as_slice().iter().map(|range| (range.start, range.end)).collect();
    let expected = [(0x10_0000, 0x20_0000), (0x40_0000, 0x50_0000), (0x50_2000, 0x80_0000)];
    assert_eq!(free, expected);
    assert_eq!(info.ram.as_slice()[0], PhysRange { start: 0, end: 0x9_f000 });
    assert_eq!((info.trampoline, info.command_line, info.rsdp), (0x8000, 0x4000, 0x5000));
}

#[test]
fn a_small_reserved_range_in_low_memory_is_mapped_too() {
    let ram = booted(&[(0x7fe_0100, 0x1_0000, 2), (0xfd_0000_0000, 0x1000, 2)], &[]);
    let info = ram.with(|memory| BootInfo::parse(memory, 0x1000, KERNEL, 1 << 32)).unwrap();
    assert_eq!(info.map_also.as_slice(), [PhysRange { start: 0x7fe_0000, end: 0x7ff_1000 }]);
}

#[test]
fn another_loader_is_refused() {
    let refused =
        Ram(vec![0; 0x2000]).with(|memory| BootInfo::parse(memory, 0x1000, KERNEL, 1 << 32));
    assert_eq!(refused.err(), Some("not booted by PVH"));
}

#[test]
fn the_last_value_of_a_name_wins() {
    assert_eq!(parameters::find("a=1 b a=2", "a"), Some("2"));
    assert_eq!(parameters::find("a=1 b a=2", "b"), Some(""));
    assert_eq!(parameters::find("a=1 b a=2", "c"), None);
}

#[test]
fn numbers_are_decimal_or_hexadecimal() {
    assert_eq!(parameters::number("0xf4"), Some(0xf4));
    assert_eq!(parameters::number("12"), Some(12));
    assert_eq!(parameters::number("x"), None);
}

#[test]
fn a_command_line_ends_at_a_nul_or_where_it_is_no_text() {
    assert_eq!(parameters::text(b"quiet\0rest"), "quiet");
    assert_eq!(parameters::text(b"quiet\xffrest"), "quiet");
    assert_eq!(parameters::text(b""), "");
}

#[test]
fn parameters_name_transports() {
    let line = "quiet virtio_mmio.device=4K@0xfeb00000:5:1 virtio_mmio.device=bad@1";
    let found: Vec<_> = parameters::transports(line).collect();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].base, found[0].bytes, found[0].interrupt), (0xfeb0_0000, 4096, 5));
}

#[test]
fn an_address_lies_in_the_last_symbol_before_it() {
    let header = [word(symbols::MAGIC), word(2), word(40), word(32)].concat();
    let entries = [word(0x100), word(0), word(0x200), word(4)].concat();
    let table = [&header[..], &entries, b"one\0two\0"].concat();
    assert_eq!(symbols::table_bytes(table.first_chunk().unwrap()), 40);
    assert_eq!(symbols::find(&table, 0xff), None);
    assert_eq!(symbols::find(&table, 0x180), Some(("one", 0x80)));
    assert_eq!(symbols::find(&table, 0x200), Some(("two", 0)));
}

proptest! {
    #[test]
    fn damaged_tables_are_survived(damage in proptest::collection::vec((0usize..0x5100, any::<u8>()), 1..64)) {
        let mut ram = machine();
        for (at, byte) in damage {
            ram.0[at] = byte;
        }
        ram.with(|memory| Tables::read(memory, 0));
    }

    #[test]
    fn damaged_start_information_is_survived(damage in proptest::collection::vec((0x1004usize..0x3100, any::<u8>()), 1..64)) {
        let mut ram = booted(&[(0, 0x9_fc00, 1), (0x10_0000, 0x70_0000, 1)], &[(0x50_0800, 0x1000)]);
        for (at, byte) in damage {
            ram.0[at] = byte;
        }
        let _ = ram.with(|memory| BootInfo::parse(memory, 0x1000, KERNEL, 1 << 32));
    }

    #[test]
    fn any_symbol_table_is_survived(table in proptest::collection::vec(any::<u8>(), 0..256), address: u32) {
        symbols::find(&table, address);
    }
}
