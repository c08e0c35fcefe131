//! Devices of the kernel world.
use crate::device::each::note;
pub(crate) use crate::device::each::{
    port_read_all, port_read_list, port_write_all, port_write_list,
};
pub(crate) use nucleus::{
    arch::pci::close as pci_close,
    device::{
        Registers as MmioHandle, bind_msix as pci_msix, close_ports as ports_close,
        map_bar as pci_bar, open_line as interrupt_open, open_ports as ports_open,
        open_transport as mmio_open, read_port as port_read, transports as virtio_mmio_devices,
        write_port as port_write,
    },
    dma::DmaBuffer as DmaHandle,
    irq::Interrupt as InterruptHandle,
};

use crate::{
    NoMemory,
    device::{DeviceError, Loan, PciAddress, PciFunction},
};
use alloc::vec::Vec;
use nucleus::arch::{iommu::Access, pci};

/// The memory of a domain's devices.
pub(crate) type WindowHandle = nucleus::capability::Lender;

pub(crate) fn window_holds_loans(window: &WindowHandle) -> bool {
    window.loans.to.window.is_some()
}

/// Returns every function of the machine.
pub(crate) fn pci_functions() -> Vec<PciFunction> {
    let describe = |found: pci::Function| PciFunction {
        address: PciAddress(found.address),
        vendor: found.id as u16,
        device: (found.id >> 16) as u16,
        class: found.class,
        subsystem: (found.subsystem >> 16) as u16,
    };
    pci::functions().into_iter().map(describe).collect()
}

pub(crate) fn pci_open(address: u16) -> Result<(), DeviceError> {
    pci::open(address, None)
}

pub(crate) fn pci_read(address: u16, offset: u16, bytes: u8) -> u32 {
    pci::read_part(&pci::Ports, address, offset, bytes)
}

pub(crate) fn pci_msix_entries(address: u16) -> u16 {
    pci::msix_entries(&pci::Ports, address)
}

pub(crate) fn frame_device_address(frame: u32) -> u64 {
    u64::from(frame) * crate::PAGE_BYTES as u64
}

pub(crate) fn window_lend(window: &WindowHandle, loans: &[Loan]) -> Result<(), NoMemory> {
    let access = |loan: &Loan| if loan.is_written { Access::Write } else { Access::Read };
    let Some(window) = &window.loans.to.window else { return Ok(()) };
    window.lend(loans.iter().map(|loan| (loan.frame.0, access(loan))))
}

pub(crate) fn window_take_back(window: &WindowHandle, loans: &[Loan]) {
    if let Some(window) = &window.loans.to.window {
        window.take_back(loans.iter().map(|loan| loan.frame.0));
    }
}

pub(crate) fn window_take_back_all(window: &WindowHandle) {
    window.loans.take_back_all();
}

/// Reads the port, then writes the receipt. Nothing ends a component of the kernel world between
/// the two.
pub(crate) fn port_read8_noted(number: u16, dma: &DmaHandle, at: usize, receipt: u32) -> u8 {
    let value = port_read(number, 1);
    note(dma.words(), at, receipt, value as u8);
    value as u8
}

/// Writes the port, then the receipt, as [`port_read8_noted`] does.
pub(crate) fn port_write8_noted(number: u16, value: u8, dma: &DmaHandle, at: usize, receipt: u32) {
    port_write(number, 1, u32::from(value));
    note(dma.words(), at, receipt, value);
}

/// Always true: components of the kernel world do not end before the system does.
pub(crate) const fn lives() -> bool {
    true
}

/// Returns `None`: no component of the kernel world is succeeded by another.
pub(crate) fn kept() -> Option<DmaHandle> {
    None
}
