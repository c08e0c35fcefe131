//! Devices of the kernel world.
use crate::{
    device::{DeviceError, MmioDevice, PciAddress, PciFunction},
    memory::FrameId,
    thread::Woken,
    time::Instant,
};
use alloc::vec::Vec;
use nucleus::{arch::pci, device, dma::DmaBuffer, irq::Interrupt};

/// Mapped registers.
pub(crate) type MmioHandle = device::Registers;
/// An interrupt taken.
pub(crate) type InterruptHandle = Interrupt;
/// A DMA buffer.
pub(crate) type DmaHandle = DmaBuffer;

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

pub(crate) fn virtio_mmio_devices() -> Vec<MmioDevice> {
    let describe = |found: device::Transport| MmioDevice {
        base: found.base,
        bytes: found.bytes,
        interrupt: found.line,
    };
    device::transports().into_iter().map(describe).collect()
}

pub(crate) fn pci_open(address: PciAddress) -> Result<(), DeviceError> {
    pci::open(address.0)
}

pub(crate) fn pci_close(address: PciAddress) {
    pci::close(address.0);
}

pub(crate) fn pci_read(address: PciAddress, offset: u16, bytes: u8) -> u32 {
    pci::read_part(&pci::Ports, address.0, offset, bytes)
}

pub(crate) fn pci_bar(address: PciAddress, index: u8) -> Result<MmioHandle, DeviceError> {
    device::map_bar(address.0, index)
}

pub(crate) fn pci_msix(address: PciAddress, entry: u16) -> Result<InterruptHandle, DeviceError> {
    device::bind_msix(address.0, entry)
}

pub(crate) fn pci_msix_entries(address: PciAddress) -> u16 {
    pci::msix_entries(&pci::Ports, address.0)
}

pub(crate) fn mmio_open(base: u64, bytes: u64) -> Result<MmioHandle, DeviceError> {
    device::open_transport(base, bytes)
}

pub(crate) fn mmio_bytes(mmio: &MmioHandle) -> usize {
    mmio.bytes()
}

pub(crate) fn mmio_read(mmio: &MmioHandle, offset: usize, width: usize) -> u64 {
    mmio.read(offset, width)
}

pub(crate) fn mmio_write(mmio: &MmioHandle, offset: usize, width: usize, value: u64) {
    mmio.write(offset, width, value);
}

pub(crate) fn ports_open(first: u16, count: u16) -> Result<(), DeviceError> {
    device::open_ports(first, count)
}

pub(crate) fn ports_close(first: u16, count: u16) {
    device::close_ports(first, count);
}

pub(crate) fn port_read8(number: u16) -> u8 {
    device::read_port(number, 1) as u8
}

pub(crate) fn port_write8(number: u16, value: u8) {
    device::write_port(number, 1, u32::from(value));
}

pub(crate) fn interrupt_open(line: u32) -> Result<InterruptHandle, DeviceError> {
    device::open_line(line)
}

pub(crate) fn interrupt_wait(interrupt: &InterruptHandle, deadline: Option<Instant>) -> Woken {
    interrupt.wait(deadline.map(|at| at.0), false)
}

pub(crate) fn interrupt_acknowledge(interrupt: &InterruptHandle) {
    interrupt.acknowledge();
}

pub(crate) fn interrupt_wake(interrupt: &InterruptHandle) {
    interrupt.wake();
}

pub(crate) fn dma_allocate(bytes: usize) -> Result<DmaHandle, DeviceError> {
    DmaBuffer::allocate(bytes).ok_or(DeviceError::NoMemory)
}

pub(crate) fn dma_address(dma: &DmaHandle) -> u64 {
    dma.device_address()
}

pub(crate) fn dma_bytes(dma: &DmaHandle) -> usize {
    dma.bytes()
}

pub(crate) fn dma_read(dma: &DmaHandle, offset: usize, out: &mut [u8]) {
    dma.read(offset, out);
}

pub(crate) fn dma_write(dma: &DmaHandle, offset: usize, data: &[u8]) {
    dma.write(offset, data);
}

pub(crate) fn dma_load16(dma: &DmaHandle, offset: usize) -> u16 {
    dma.load16(offset)
}

pub(crate) fn dma_store16(dma: &DmaHandle, offset: usize, value: u16) {
    dma.store16(offset, value);
}

pub(crate) fn frame_device_address(id: FrameId) -> u64 {
    u64::from(id.0) * crate::PAGE_BYTES as u64
}
