//! Tests over a configuration space in memory, with realistic and with hostile functions, bridges, BARs and
//! capabilities.
use super::*;
use core::cell::RefCell;
use program::DeviceError;

const BRIDGE_ADDRESS: u16 = 2 << 3;
const BEHIND: u16 = 1 << 8;
const DISK: u16 = 1 << 3;
const EXPRESS_STATUS: u16 = 0x6c;

/// A function: its registers, and the bits of them that can be written.
struct Model {
    address: u16,
    registers: [u32; 64],
    writable: [u32; 64],
}

impl Model {
    fn new(address: u16, values: &[(u16, u32)], writable: &[(u16, u32)]) -> Model {
        let mut model = Model { address, registers: [0; 64], writable: [0; 64] };
        model.writable[usize::from(COMMAND) / 4] = 0xffff;
        values.iter().for_each(|&(at, value)| model.registers[usize::from(at) / 4] = value);
        writable.iter().for_each(|&(at, bits)| model.writable[usize::from(at) / 4] = bits);
        model
    }
}

struct Machine(RefCell<Vec<Model>>);

impl Config for Machine {
    fn read(&self, address: u16, offset: u16) -> u32 {
        let models = self.0.borrow();
        let found = models.iter().find(|model| model.address == address);
        found.map_or(u32::MAX, |model| model.registers[usize::from(offset) / 4])
    }

    fn write(&self, address: u16, offset: u16, value: u32) {
        let mut models = self.0.borrow_mut();
        if let Some(model) = models.iter_mut().find(|model| model.address == address) {
            let at = usize::from(offset) / 4;
            let bits = model.writable[at];
            model.registers[at] = model.registers[at] & !bits | value & bits;
        }
    }
}

/// Makes a virtio disk with a 64-bit BAR of 16 KiB and MSI-X, and a bridge with one function behind it.
fn machine() -> Machine {
    let values = [
        (ID, 0x1042_1af4),
        (CLASS, 0x0100_0001),
        (COMMAND, 1 << 20),
        (FIRST_BAR, 0xfe00_000c),
        (FIRST_BAR + 4, 0x1),
        (FIRST_BAR + 8, 0x6001),
        (SUBSYSTEM, 0x1100_1af4),
        (CAPABILITIES, 0x40),
        // The device's own registers, MSI-X, the common ones in BAR 0 at 0x1000, and PCI Express.
        (0x40, 0x0410_4809),
        (0x48, 0x0003_5411),
        (0x4c, 0x2000),
        (0x50, 0x3000),
        (0x54, 0x0110_6409),
        (0x5c, 0x1000),
        (0x64, 0x0002_0010),
        (EXPRESS_STATUS, 1 << 21),
    ];
    let writable = [(FIRST_BAR, 0xffff_c000), (FIRST_BAR + 4, u32::MAX), (0x48, 0xc000_0000)];
    let disk = Model::new(DISK, &values, &writable);
    let bridge = [(ID, 0x0001_1b36), (HEADER, 0x0001_0000), (BUSES, 0x0001_0100)];
    let bridge = Model::new(BRIDGE_ADDRESS, &bridge, &[]);
    let behind = Model::new(BEHIND, &[(ID, 0x1041_1af4)], &[]);
    Machine(RefCell::new([disk, bridge, behind].into()))
}

fn disk(machine: &Machine) -> Function {
    scan(machine)[0]
}

#[test]
fn functions_are_found_behind_bridges_too() {
    let found: Vec<_> = scan(&machine()).iter().map(|one| (one.address, one.id)).collect();
    assert_eq!(found, [(DISK, 0x1042_1af4), (BRIDGE_ADDRESS, 0x0001_1b36), (BEHIND, 0x1041_1af4)]);
}

#[test]
fn a_bridge_that_names_its_own_bus_ends_the_search() {
    let looped = [(ID, 0x0001_1b36), (HEADER, 0x0001_0000), (BUSES, 0)];
    let machine = Machine(RefCell::new([Model::new(0, &looped, &[])].into()));
    assert_eq!(scan(&machine).len(), 1);
}

#[test]
fn bars_are_measured_and_left_as_they_were() {
    let machine = machine();
    machine.write(DISK, COMMAND, COMMAND_MEMORY);
    let mut bars = [(0, 0); BARS];
    bars[0] = (0x1_fe00_0000, 0x4000);
    assert_eq!(
        disk(&machine).bars,
        bars,
        "0 takes two places, 2 is of ports, the others are empty"
    );
    assert_eq!(machine.read(DISK, FIRST_BAR), 0xfe00_000c);
    assert_eq!(machine.read(DISK, COMMAND) & 0xffff, COMMAND_MEMORY);
    let bridge = scan(&machine)[1];
    assert_eq!(bridge.bars, [(0, 0); BARS], "what lies there in a bridge is something else");
}

#[test]
fn a_function_has_one_owner() {
    let mut functions = Functions::new(scan(&machine()));
    let taken = functions.take(DISK).unwrap();
    assert_eq!(
        (taken.bar(0), taken.bar(2)),
        (Ok((0x1_fe00_0000, 0x4000)), Err(DeviceError::NotFound))
    );
    assert_eq!(taken.bar(6), Err(DeviceError::NotFound));
    assert_eq!(functions.take(DISK), Err(DeviceError::Refused));
    assert_eq!(functions.take(7), Err(DeviceError::NotFound));
    functions.give_back(DISK);
    assert_eq!(functions.take(DISK), Ok(taken));
}

#[test]
fn message_entries_lie_where_the_capability_says() {
    let machine = machine();
    let disk = disk(&machine);
    assert_eq!(msix_entries(&machine, DISK), 4);
    assert_eq!(msix_entry(&machine, &disk, 1), Some(0x1_fe00_2010));
    assert_eq!(msix_entry(&machine, &disk, 4), None);
    assert_eq!(msix_entries(&machine, BEHIND), 0);
    let areas = msix_areas(&machine, &disk);
    assert_eq!(areas, [0x1_fe00_2000..0x1_fe00_2040, 0x1_fe00_3000..0x1_fe00_3008]);
    assert_eq!(msix_areas(&machine, &scan(&machine)[2]), [0..0, 0..0]);
}

#[test]
fn a_virtio_function_is_reset_by_its_status() {
    let machine = machine();
    let found = scan(&machine);
    let registers: Vec<_> = found.iter().map(|one| reset_register(&machine, one)).collect();
    assert_eq!(registers, [Some(0x1_fe00_1014), None, None]);
    let other = Function { id: 0x1042_8086, ..found[0] };
    assert_eq!(reset_register(&machine, &other), None, "nobody says that of other vendors");
    for (what, at, value) in [("outside", 0x5c, 0x4000 - 20), ("no such BAR", 0x58, 6)] {
        let machine = self::machine();
        machine.0.borrow_mut()[0].registers[at / 4] = value;
        assert_eq!(reset_register(&machine, &found[0]), None, "{what}");
    }
}

#[test]
fn a_loop_of_capabilities_ends() {
    let values = [(COMMAND, 1 << 20), (CAPABILITIES, 0x40), (0x40, 0x4009)];
    let machine = Machine(RefCell::new([Model::new(0, &values, &[])].into()));
    assert_eq!(msix_entries(&machine, 0), 0);
}

#[test]
fn a_function_is_enabled_and_stopped() {
    let machine = machine();
    let command = || machine.read(DISK, COMMAND) & 0xffff;
    enable(&machine, DISK);
    assert_eq!(command(), COMMAND_MEMORY | COMMAND_NO_INTX, "it reaches no memory yet");
    enable_master(&machine, DISK);
    msix_enable(&machine, DISK);
    assert_eq!(command(), COMMAND_MEMORY | COMMAND_MASTER | COMMAND_NO_INTX);
    assert_eq!(machine.read(DISK, 0x48), MSIX_ENABLE | 0x0003_5411);
    disable(&machine, DISK);
    assert_eq!(command(), COMMAND_MEMORY | COMMAND_NO_INTX);
    assert_eq!(machine.read(DISK, 0x48), 0x0003_5411);
}

#[test]
fn a_function_says_whether_it_waits_for_memory() {
    let machine = machine();
    assert!(is_busy(&machine, DISK));
    machine.0.borrow_mut()[0].registers[usize::from(EXPRESS_STATUS) / 4] = 0;
    assert!(!is_busy(&machine, DISK));
    assert!(!is_busy(&machine, BEHIND), "it cannot say");
}

#[test]
fn parts_are_read_where_they_lie() {
    let machine = machine();
    assert_eq!(read_part(&machine, DISK, 2, 2), 0x1042);
    assert_eq!(read_part(&machine, DISK, 1, 1), 0x1a);
    assert_eq!(read_part(&machine, DISK, 1, 2), u32::MAX);
    assert_eq!(read_part(&machine, DISK, 256, 4), u32::MAX);
}
