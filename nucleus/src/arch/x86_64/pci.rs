//! PCI: configuration space by ports 0xcf8 and 0xcfc, the functions found at boot, and their owners.
//!
//! BARs are measured once, before other processors run. Measuring moves a BAR, so drivers must not use the device
//! meanwhile, and QEMU 7.2 may then send another processor's access to the wrong device. One spin lock guards the port
//! pair. Source: PCI Local Bus 3.0, 3.2.2.3.2.
use super::{
    cpu,
    iommu::{self, Window},
};
use crate::{
    device::{self, DeviceError},
    spin::SpinLock,
};
use alloc::vec::Vec;
use pci::{Config, Functions};
pub use pci::{Function, msix_areas, msix_enable, msix_entries, msix_entry, read_part};

const ADDRESS: u16 = 0xcf8;
const DATA: u16 = 0xcfc;

static PORTS: SpinLock<()> = SpinLock::new(class!("nucleus.pci.ports"), ());
static FUNCTIONS: SpinLock<Functions> =
    SpinLock::new(class!("nucleus.pci.functions"), Functions::new(Vec::new()));

/// Configuration space behind the ports.
#[derive(Debug)]
pub struct Ports;

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

/// Finds every function, if the machine has a PCI host.
pub fn init() {
    if has_host() {
        let found = pci::scan(&Ports);
        *FUNCTIONS.lock() = Functions::new(found);
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

/// Returns every function found.
pub fn functions() -> Vec<Function> {
    FUNCTIONS.lock().all().to_vec()
}

/// Returns the function at `address`.
///
/// # Errors
/// [`DeviceError::NotFound`].
pub fn find(address: u16) -> Result<Function, DeviceError> {
    FUNCTIONS.lock().find(address)
}

/// Opens a function for one owner: resets it, then enables memory decoding and bus mastering and disables INTx. The
/// function reaches the memory lent to `window`, or all of memory without a window.
///
/// # Errors
/// [`DeviceError::NotFound`] if it does not exist; `Refused` if it is open already, does not reset, or there is no memory
/// for the IOMMU's tables.
pub fn open(address: u16, window: Option<&Window>) -> Result<(), DeviceError> {
    let function = FUNCTIONS.lock().take(address)?;
    pci::enable(&Ports, address);
    if !reset(&function) || !iommu::attach(address, window) {
        close(address);
        return Err(DeviceError::Refused);
    }
    pci::enable_master(&Ports, address);
    Ok(())
}

/// Resets a function, if that is possible. Returns whether it was reset; it then reaches no memory.
fn reset(function: &Function) -> bool {
    pci::reset_register(&Ports, function).is_none_or(|at| device::reset(at, 1))
}

/// Quiesces and closes a function: resets it, disables MSI-X and bus mastering, and waits until its memory requests are
/// answered. Bus mastering is disabled late, because a reset waits for requests in flight. For a device that has no reset
/// or does not answer it, only this and the IOMMU end its access to memory.
pub fn close(address: u16) {
    let _ = find(address).map(|function| reset(&function));
    pci::disable(&Ports, address);
    device::wait_until(|| !pci::is_busy(&Ports, address));
    iommu::detach(address);
    FUNCTIONS.lock().give_back(address);
}
