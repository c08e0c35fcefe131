//! PCI: configuration space by ports 0xcf8 and 0xcfc, the functions found at boot, BARs and MSI-X.
//!
//! Port accesses are dear under TCG, so only bus 0 and buses behind bridges are looked at. One spin
//! lock guards the port pair. Source: PCI Local Bus 3.0, 6.1 to 6.8; PCI-to-PCI bridge 1.2.
use super::cpu;
use crate::spin::SpinLock;
use alloc::vec::Vec;

const ADDRESS: u16 = 0xcf8;
const DATA: u16 = 0xcfc;

const ID: u16 = 0x00;
const COMMAND: u16 = 0x04;
const CLASS: u16 = 0x08;
const HEADER: u16 = 0x0c;
const FIRST_BAR: u16 = 0x10;
const BUSES: u16 = 0x18;
const SUBSYSTEM: u16 = 0x2c;
const CAPABILITIES: u16 = 0x34;
const CAPABILITY_MSIX: u8 = 0x11;

const COMMAND_MEMORY: u32 = 1 << 1;
const COMMAND_MASTER: u32 = 1 << 2;
const COMMAND_NO_INTX: u32 = 1 << 10;

static PORTS_CLASS: sync::class::LockClass = sync::class::LockClass::new("nucleus.pci.ports");
static PORTS: SpinLock<()> = SpinLock::new(&PORTS_CLASS, ());
static FUNCTIONS_CLASS: sync::class::LockClass =
    sync::class::LockClass::new("nucleus.pci.functions");
static FUNCTIONS: SpinLock<Vec<Function>> = SpinLock::new(&FUNCTIONS_CLASS, Vec::new());

/// One function found.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// `bus << 8 | device << 3 | function`.
    pub address: u16,
    /// Vendor in the low half, device in the high.
    pub id: u32,
    /// Class, subclass, interface, revision.
    pub class: u32,
    /// Subsystem vendor in the low half, subsystem in the high.
    pub subsystem: u32,
    /// Somebody has it open.
    pub is_open: bool,
}

/// Reads the aligned long at `offset`.
pub fn read(address: u16, offset: u16) -> u32 {
    let _ports = PORTS.lock();
    select(address, offset);
    // SAFETY: the data port of configuration space; reading there is harmless for every function we read.
    unsafe { cpu::in32(DATA) }
}

/// Writes the aligned long at `offset`.
pub fn write(address: u16, offset: u16, value: u32) {
    let _ports = PORTS.lock();
    select(address, offset);
    // SAFETY: what is written is decided in this file: command bits, BARs being measured, MSI-X control.
    unsafe { cpu::out32(DATA, value) };
}

fn select(address: u16, offset: u16) {
    let word = 1 << 31 | u32::from(address) << 8 | u32::from(offset & 0xfc);
    // SAFETY: selects a register, `PORTS` is held.
    unsafe { cpu::out32(ADDRESS, word) };
}

/// Finds every function, if there is a PCI host at all.
pub fn init() {
    let mut found = Vec::new();
    if has_host() {
        scan_bus(0, 0, &mut found);
    }
    *FUNCTIONS.lock() = found;
}

fn has_host() -> bool {
    const PROBE: u32 = 1 << 31;
    let _ports = PORTS.lock();
    // SAFETY: the address port of the PCI host, or nothing.
    unsafe { cpu::out32(ADDRESS, PROBE) };
    // SAFETY: as above.
    unsafe { cpu::in32(ADDRESS) == PROBE }
}

/// Depth keeps a bridge that names its own bus from looping.
fn scan_bus(bus: u8, depth: u8, found: &mut Vec<Function>) {
    for device in 0..32u16 {
        let first = u16::from(bus) << 8 | device << 3;
        let mut functions = 1;
        let mut number = 0;
        while number < functions {
            let address = first | number;
            number += 1;
            let id = read(address, ID);
            if id as u16 == u16::MAX {
                continue;
            }
            let header = (read(address, HEADER) >> 16) as u8;
            if address == first && header & 0x80 != 0 {
                functions = 8;
            }
            add_function(address, id, header & 0x7f, depth, found);
        }
    }
}

fn add_function(address: u16, id: u32, header: u8, depth: u8, found: &mut Vec<Function>) {
    const BRIDGE: u8 = 1;
    const DEEPEST: u8 = 8;
    let subsystem = if header == 0 { read(address, SUBSYSTEM) } else { 0 };
    found.push(Function { address, id, class: read(address, CLASS), subsystem, is_open: false });
    let bus = (address >> 8) as u8;
    if header == BRIDGE && depth < DEEPEST {
        let secondary = (read(address, BUSES) >> 8) as u8;
        if secondary > bus {
            scan_bus(secondary, depth + 1, found);
        }
    }
}

/// Every function found.
pub fn functions() -> Vec<Function> {
    FUNCTIONS.lock().clone()
}

/// Opens a function for one owner: memory decoding and bus mastering on, INTx off.
///
/// # Errors
/// `None` where there is none, `Some(false)` where it is open already.
pub fn open(address: u16) -> Option<bool> {
    let mut functions = FUNCTIONS.lock();
    let function = functions.iter_mut().find(|function| function.address == address)?;
    if core::mem::replace(&mut function.is_open, true) {
        return Some(false);
    }
    drop(functions);
    let command = read(address, COMMAND) & 0xffff;
    write(address, COMMAND, command | COMMAND_MEMORY | COMMAND_MASTER | COMMAND_NO_INTX);
    Some(true)
}

/// Closes a function: MSI-X and bus mastering off.
pub fn close(address: u16) {
    if let Some(at) = msix_capability(address) {
        write(address, at, read(address, at) & !MSIX_ENABLE);
    }
    let command = read(address, COMMAND) & 0xffff;
    write(address, COMMAND, command & !COMMAND_MASTER);
    if let Some(function) = FUNCTIONS.lock().iter_mut().find(|function| function.address == address)
    {
        function.is_open = false;
    }
}

/// Physical address and bytes of memory BAR `index`; `None` where it is empty or of ports.
pub fn bar(address: u16, index: u8) -> Option<(u64, u64)> {
    const IS_PORTS: u32 = 1;
    const TYPE: u32 = 0b110;
    const TYPE_64: u32 = 0b100;
    if index > 5 {
        return None;
    }
    let offset = FIRST_BAR + 4 * u16::from(index);
    let low = read(address, offset);
    let is_64 = low & TYPE == TYPE_64 && index < 5;
    if low & IS_PORTS != 0 {
        return None;
    }
    let high = if is_64 { read(address, offset + 4) } else { 0 };
    let command = read(address, COMMAND) & 0xffff;
    write(address, COMMAND, command & !COMMAND_MEMORY);
    let low_mask = measure(address, offset, low);
    let high_mask = if is_64 { measure(address, offset + 4, high) } else { u32::MAX };
    write(address, COMMAND, command);
    let base = u64::from(high) << 32 | u64::from(low & !0xf);
    let bytes = (!(u64::from(high_mask) << 32 | u64::from(low_mask & !0xf))).wrapping_add(1);
    (base != 0 && bytes != 0 && low_mask & !0xf != 0).then_some((base, bytes))
}

/// Which bits of a BAR can be written.
fn measure(address: u16, offset: u16, value: u32) -> u32 {
    write(address, offset, u32::MAX);
    let mask = read(address, offset);
    write(address, offset, value);
    mask
}

const MSIX_ENABLE: u32 = 1 << 31;
const MSIX_MASK_ALL: u32 = 1 << 30;

fn msix_capability(address: u16) -> Option<u16> {
    const HAS_LIST: u32 = 1 << 20;
    const MOST: usize = 48;
    if read(address, COMMAND) & HAS_LIST == 0 {
        return None;
    }
    let mut at = read(address, CAPABILITIES) as u16 & 0xfc;
    for _ in 0..MOST {
        if at == 0 {
            return None;
        }
        let word = read(address, at);
        if word as u8 == CAPABILITY_MSIX {
            return Some(at);
        }
        at = (word >> 8) as u16 & 0xfc;
    }
    None
}

/// Entries of the function's MSI-X table.
pub fn msix_entries(address: u16) -> u16 {
    msix_capability(address).map_or(0, |at| ((read(address, at) >> 16) as u16 & 0x7ff) + 1)
}

/// Physical address of MSI-X table entry `entry`.
pub fn msix_entry(address: u16, entry: u16) -> Option<u64> {
    const ENTRY_BYTES: u64 = 16;
    let at = msix_capability(address)?;
    let entries = (read(address, at) >> 16) as u16 & 0x7ff;
    let table = read(address, at + 4);
    let (base, bytes) = bar(address, (table & 7) as u8)?;
    let offset = u64::from(table & !7) + u64::from(entry) * ENTRY_BYTES;
    (entry <= entries && offset + ENTRY_BYTES <= bytes).then_some(base + offset)
}

/// Turns MSI-X on for the function.
pub fn msix_enable(address: u16) {
    if let Some(at) = msix_capability(address) {
        write(address, at, read(address, at) & !MSIX_MASK_ALL | MSIX_ENABLE);
    }
}
