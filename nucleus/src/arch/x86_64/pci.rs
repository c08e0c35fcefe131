//! PCI: configuration space by ports 0xcf8 and 0xcfc, the functions found at boot and who has them.
//!
//! One spin lock guards the port pair. Source: PCI Local Bus 3.0, 3.2.2.3.2.
use super::cpu;
use crate::{device::DeviceError, spin::SpinLock};
use alloc::vec::Vec;
use pci::Config;
pub use pci::Function;
use sync::class::LockClass;

const ADDRESS: u16 = 0xcf8;
const DATA: u16 = 0xcfc;

static PORTS_CLASS: LockClass = LockClass::new("nucleus.pci.ports");
static PORTS: SpinLock<()> = SpinLock::new(&PORTS_CLASS, ());
static FUNCTIONS_CLASS: LockClass = LockClass::new("nucleus.pci.functions");
static FUNCTIONS: SpinLock<Functions> =
    SpinLock::new(&FUNCTIONS_CLASS, Functions { found: Vec::new(), open: Vec::new() });

#[derive(Debug)]
struct Functions {
    found: Vec<Function>,
    /// Addresses of those that somebody has.
    open: Vec<u16>,
}

/// Configuration space behind the ports.
struct Ports;

impl Config for Ports {
    fn read(&self, address: u16, offset: u16) -> u32 {
        let _ports = PORTS.lock();
        select(address, offset);
        // SAFETY: the data port of configuration space; reading there is harmless for every function we read.
        unsafe { cpu::in32(DATA) }
    }

    fn write(&self, address: u16, offset: u16, value: u32) {
        let _ports = PORTS.lock();
        select(address, offset);
        // SAFETY: `libs/pci` writes command bits, BARs being measured and MSI-X control, nothing else.
        unsafe { cpu::out32(DATA, value) };
    }
}

fn select(address: u16, offset: u16) {
    let word = 1 << 31 | u32::from(address) << 8 | u32::from(offset & 0xfc);
    // SAFETY: selects a register, `PORTS` is held.
    unsafe { cpu::out32(ADDRESS, word) };
}

/// Finds every function, if there is a PCI host at all.
pub fn init() {
    if has_host() {
        let found = pci::scan(&Ports);
        FUNCTIONS.lock().found = found;
    }
}

fn has_host() -> bool {
    const PROBE: u32 = 1 << 31;
    let _ports = PORTS.lock();
    // SAFETY: the address port of the PCI host, or nothing.
    unsafe { cpu::out32(ADDRESS, PROBE) };
    // SAFETY: as above.
    unsafe { cpu::in32(ADDRESS) == PROBE }
}

/// Every function found.
pub fn functions() -> Vec<Function> {
    FUNCTIONS.lock().found.clone()
}

/// Opens a function for one owner: memory decoding and bus mastering on, INTx off.
///
/// # Errors
/// [`DeviceError::NotFound`] where there is none, `Refused` where it is open already.
pub fn open(address: u16) -> Result<(), DeviceError> {
    let mut functions = FUNCTIONS.lock();
    if !functions.found.iter().any(|function| function.address == address) {
        return Err(DeviceError::NotFound);
    }
    if functions.open.contains(&address) {
        return Err(DeviceError::Refused);
    }
    functions.open.push(address);
    drop(functions);
    pci::enable(&Ports, address);
    Ok(())
}

/// Closes a function: MSI-X and bus mastering off.
pub fn close(address: u16) {
    pci::disable(&Ports, address);
    FUNCTIONS.lock().open.retain(|&open| open != address);
}

/// Reads a configuration byte, word or long; all ones where there is none.
pub fn read_part(address: u16, offset: u16, bytes: u8) -> u32 {
    pci::read_part(&Ports, address, offset, bytes)
}

/// Physical address and bytes of memory BAR `index`.
///
/// # Errors
/// [`DeviceError::NotFound`] where it is empty or of ports.
pub fn bar(address: u16, index: u8) -> Result<(u64, u64), DeviceError> {
    pci::bar(&Ports, address, index).ok_or(DeviceError::NotFound)
}

/// Entries of the function's MSI-X table.
pub fn msix_entries(address: u16) -> u16 {
    pci::msix_entries(&Ports, address)
}

/// Physical address of MSI-X table entry `entry`.
pub fn msix_entry(address: u16, entry: u16) -> Option<u64> {
    pci::msix_entry(&Ports, address, entry)
}

/// Turns MSI-X on for the function.
pub fn msix_enable(address: u16) {
    pci::msix_enable(&Ports, address);
}
