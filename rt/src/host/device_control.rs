//! Controls of device models: registering them, raising their interrupts, and their access to
//! memory.
use super::{
    device::{Line, MmioModel, Pci, PortModel, device_access, with_tables},
    thread::lock,
};
use crate::{
    device::{DmaWindow, Loan, MmioDevice, PciAddress, PciFunction},
    words,
};
use std::sync::Arc;

/// The registers, or the configuration space, of a model. Called with aligned offsets inside the
/// region and widths 1, 2, 4 or 8, from any thread.
pub trait DeviceRegisters: Send + Sync {
    /// Answers a load.
    fn read(&self, offset: usize, bytes: usize) -> u64;
    /// Takes a store.
    fn write(&self, offset: usize, bytes: usize, value: u64);
}

/// The model of a PCI function.
pub struct PciModel {
    /// The function as discovery reports it; the address must be free.
    pub function: PciFunction,
    /// Its configuration space.
    pub config: Arc<dyn DeviceRegisters>,
    /// Length and registers of each BAR.
    pub bars: [Option<(usize, Arc<dyn DeviceRegisters>)>; 6],
    /// Entries of the MSI-X table.
    pub msix_entries: u16,
}

/// A registered model; it is unplugged when this is dropped.
#[derive(Debug)]
pub struct Plugged(DevicePlace);

#[derive(Debug)]
enum DevicePlace {
    Pci(PciAddress),
    Mmio(u64, u32),
    Ports(u16, Option<u32>),
}

/// Plugs a PCI function in.
pub fn add_pci(model: PciModel) -> Plugged {
    let address = model.function.address;
    let msix = (0..model.msix_entries).map(|_| Line::new(true)).collect();
    let pci = Pci {
        function: model.function,
        config: model.config,
        bars: model.bars,
        msix,
        is_open: false,
    };
    let before = with_tables(|tables| tables.pci.insert(address, pci));
    assert!(before.is_none(), "the PCI address is taken");
    Plugged(DevicePlace::Pci(address))
}

/// Plugs a virtio-mmio transport in, with its interrupt line.
pub fn add_mmio(device: MmioDevice, registers: Arc<dyn DeviceRegisters>) -> Plugged {
    with_tables(|tables| {
        tables.lines.insert(device.interrupt, Line::new(false));
        tables.mmio.insert(device.base, MmioModel { device, registers });
    });
    Plugged(DevicePlace::Mmio(device.base, device.interrupt))
}

/// Plugs a range of ports in, perhaps with an interrupt line.
pub fn add_ports(
    first: u16,
    count: u16,
    line: Option<u32>,
    registers: Arc<dyn DeviceRegisters>,
) -> Plugged {
    with_tables(|tables| {
        if let Some(line) = line {
            tables.lines.insert(line, Line::new(false));
        }
        tables.ports.insert(first, PortModel { count, registers, is_open: false });
    });
    Plugged(DevicePlace::Ports(first, line))
}

impl Drop for Plugged {
    fn drop(&mut self) {
        // The models are dropped without the tables' lock: they may hold devices themselves.
        let removed = with_tables(|tables| match &self.0 {
            DevicePlace::Pci(address) => (tables.pci.remove(address), None, None),
            DevicePlace::Mmio(base, line) => {
                tables.lines.remove(line);
                (None, tables.mmio.remove(base), None)
            }
            DevicePlace::Ports(first, line) => {
                line.map(|line| tables.lines.remove(&line));
                (None, None, tables.ports.remove(first))
            }
        });
        drop(removed);
    }
}

/// Raises entry `entry` of a PCI function's MSI-X table.
pub fn raise_msix(address: PciAddress, entry: u16) {
    let line = with_tables(|tables| {
        tables.pci.get(&address).and_then(|pci| pci.msix.get(usize::from(entry)).cloned())
    });
    if let Some(line) = line {
        line.raise();
    }
}

/// Raises an interrupt line.
pub fn raise_line(line: u32) {
    let line = with_tables(|tables| tables.lines.get(&line).cloned());
    if let Some(line) = line {
        line.raise();
    }
}

/// Reads memory as a device does. Returns `false`, with `out` filled in part, if some of it is not
/// memory.
#[must_use]
pub fn device_read(address: u64, out: &mut [u8]) -> bool {
    device_access(address, out.len(), |memory, offset, count, done| {
        words::read(memory, offset, &mut out[done..done + count]);
    })
}

/// Writes memory as a device does.
#[must_use]
pub fn device_write(address: u64, data: &[u8]) -> bool {
    device_access(address, data.len(), |memory, offset, count, done| {
        words::write(memory, offset, &data[done..done + count]);
    })
}

/// Loads an aligned 16-bit word as a device does, with acquire ordering; zero if there is no
/// memory.
pub fn device_load16(address: u64) -> u16 {
    let mut value = 0;
    let _ = device_access(address, 2, |memory, offset, _, _| {
        value = words::load(memory, offset, 2) as u16;
    });
    value
}

/// Stores an aligned 16-bit word as a device does, with release ordering.
pub fn device_store16(address: u64, value: u16) {
    let _ = device_access(address, 2, |memory, offset, _, _| {
        words::store(memory, offset, 2, u64::from(value));
    });
}

/// Makes a window that records its loans.
pub fn recording_window() -> DmaWindow {
    DmaWindow(Some(Arc::default()))
}

/// Returns whether a device may access the loan's frame by `window`, for reading or for writing as
/// the loan says.
pub fn is_lent(window: &DmaWindow, loan: Loan) -> bool {
    let Some(window) = &window.0 else { return true };
    let lent = lock(window);
    lent.get(&loan.frame).is_some_and(|counts| counts[usize::from(loan.is_written)] > 0)
}

/// Returns the number of frames that are lent to `window` now.
pub fn lent_frames(window: &DmaWindow) -> usize {
    window.0.as_ref().map_or(0, |window| lock(window).len())
}
