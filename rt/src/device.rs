//! Devices: what the system description hands to a component, and nothing else reachable.
//!
//! A component finds its devices with [`pci_functions`] and [`virtio_mmio_devices`] and opens them;
//! opening may be refused. Registers are reached through [`Mmio`] and [`Ports`], which check every
//! offset; interrupts are waited for in threads (M2).
use crate::{memory::Frame, thread::Woken, time::Instant, world};
use alloc::vec::Vec;
pub use program::DeviceError;

/// Address of a PCI function: segment 0, `bus << 8 | device << 3 | function`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PciAddress(pub u16);

/// One PCI function found at boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PciFunction {
    /// Where it is.
    pub address: PciAddress,
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
    /// Class, subclass, programming interface, revision.
    pub class: u32,
    /// Subsystem device id.
    pub subsystem: u16,
}

/// One virtio-mmio transport (microvm): from the kernel parameter `virtio_mmio.device=SIZE@BASE:IRQ` or ACPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmioDevice {
    /// Physical address of its registers.
    pub base: u64,
    /// Bytes of registers.
    pub bytes: u64,
    /// Global interrupt number.
    pub interrupt: u32,
}

/// Every PCI function this component may see.
pub fn pci_functions() -> Vec<PciFunction> {
    world::device::pci_functions()
}

/// Every virtio-mmio transport this component may see.
pub fn virtio_mmio_devices() -> Vec<MmioDevice> {
    world::device::virtio_mmio_devices()
}

/// Configuration space of an opened PCI function.
#[derive(Debug)]
pub struct PciDevice {
    function: PciFunction,
}

impl PciDevice {
    /// Opens a function: turns on memory space and bus mastering. One opener at a time.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn open(function: PciFunction) -> Result<PciDevice, DeviceError> {
        world::device::pci_open(function.address)?;
        Ok(PciDevice { function })
    }
    /// What was opened.
    pub fn function(&self) -> PciFunction {
        self.function
    }
    /// Reads a configuration byte, word or long (`bytes` is 1, 2 or 4); all ones beyond the end.
    pub fn read_config(&self, offset: u16, bytes: u8) -> u32 {
        world::device::pci_read(self.function.address, offset, bytes)
    }
    /// Maps memory BAR `index` (0 to 5).
    ///
    /// # Errors
    /// [`DeviceError::NotFound`] where the BAR is empty or an I/O BAR.
    pub fn bar(&self, index: u8) -> Result<Mmio, DeviceError> {
        world::device::pci_bar(self.function.address, index).map(Mmio)
    }
    /// Binds MSI-X table entry `entry` to a new interrupt and enables MSI-X.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn msix(&self, entry: u16) -> Result<Interrupt, DeviceError> {
        world::device::pci_msix(self.function.address, entry).map(Interrupt)
    }
    /// Entries of the MSI-X table, zero where there is none.
    pub fn msix_entries(&self) -> u16 {
        world::device::pci_msix_entries(self.function.address)
    }
}

impl Drop for PciDevice {
    fn drop(&mut self) {
        world::device::pci_close(self.function.address);
    }
}

/// A mapped region of device registers. Offsets beyond its end (or misaligned) read all ones and are not written.
#[derive(Debug)]
pub struct Mmio(pub(crate) world::device::MmioHandle);

impl Mmio {
    /// Maps the registers of a virtio-mmio transport.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn open(device: MmioDevice) -> Result<Mmio, DeviceError> {
        world::device::mmio_open(device.base, device.bytes).map(Mmio)
    }
    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        world::device::mmio_bytes(&self.0)
    }
    /// Reads 1, 2, 4 or 8 bytes as the type's width says.
    pub fn read8(&self, offset: usize) -> u8 {
        world::device::mmio_read(&self.0, offset, 1) as u8
    }
    /// As [`Mmio::read8`].
    pub fn read16(&self, offset: usize) -> u16 {
        world::device::mmio_read(&self.0, offset, 2) as u16
    }
    /// As [`Mmio::read8`].
    pub fn read32(&self, offset: usize) -> u32 {
        world::device::mmio_read(&self.0, offset, 4) as u32
    }
    /// As [`Mmio::read8`].
    pub fn read64(&self, offset: usize) -> u64 {
        world::device::mmio_read(&self.0, offset, 8)
    }
    /// Writes one byte.
    pub fn write8(&self, offset: usize, value: u8) {
        world::device::mmio_write(&self.0, offset, 1, u64::from(value));
    }
    /// Writes two bytes.
    pub fn write16(&self, offset: usize, value: u16) {
        world::device::mmio_write(&self.0, offset, 2, u64::from(value));
    }
    /// Writes four bytes.
    pub fn write32(&self, offset: usize, value: u32) {
        world::device::mmio_write(&self.0, offset, 4, u64::from(value));
    }
    /// Writes eight bytes.
    pub fn write64(&self, offset: usize, value: u64) {
        world::device::mmio_write(&self.0, offset, 8, value);
    }
}

/// A range of I/O ports.
#[derive(Debug)]
pub struct Ports {
    first: u16,
    count: u16,
}

impl Ports {
    /// Takes `count` ports from `first`; one owner at a time.
    ///
    /// # Errors
    /// [`DeviceError::Refused`] where the nucleus or another owns one of them.
    pub fn open(first: u16, count: u16) -> Result<Ports, DeviceError> {
        world::device::ports_open(first, count)?;
        Ok(Ports { first, count })
    }
    /// Reads a byte; all ones beyond the range.
    pub fn read8(&self, offset: u16) -> u8 {
        if offset < self.count { world::device::port_read8(self.first + offset) } else { u8::MAX }
    }
    /// Writes a byte; nothing beyond the range.
    pub fn write8(&self, offset: u16, value: u8) {
        if offset < self.count {
            world::device::port_write8(self.first + offset, value);
        }
    }
}

impl Drop for Ports {
    fn drop(&mut self) {
        world::device::ports_close(self.first, self.count);
    }
}

/// An interrupt, waited for by one thread at a time.
#[derive(Debug)]
pub struct Interrupt(pub(crate) world::device::InterruptHandle);

impl Interrupt {
    /// Takes a global interrupt line (level- or edge-triggered as the platform says).
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn open(line: u32) -> Result<Interrupt, DeviceError> {
        world::device::interrupt_open(line).map(Interrupt)
    }
    /// Blocks until the interrupt has come since the last wait. A line is masked when it comes
    /// and stays so until [`Interrupt::acknowledge`]; MSI-X needs none.
    pub fn wait(&self, deadline: Option<Instant>) -> Woken {
        world::device::interrupt_wait(&self.0, deadline)
    }
    /// Lets a line interrupt again.
    pub fn acknowledge(&self) {
        world::device::interrupt_acknowledge(&self.0);
    }
    /// Ends a [`Interrupt::wait`] under way (used when a driver stops).
    pub fn wake(&self) {
        world::device::interrupt_wake(&self.0);
    }
}

/// Physically contiguous zeroed memory shared with a device; copy and atomic access only.
#[derive(Debug)]
pub struct DmaBuffer(pub(crate) world::device::DmaHandle);

impl DmaBuffer {
    /// Allocates at least `bytes` (rounded up to whole pages, contiguous).
    ///
    /// # Errors
    /// [`DeviceError::NoMemory`].
    pub fn allocate(bytes: usize) -> Result<DmaBuffer, DeviceError> {
        world::device::dma_allocate(bytes).map(DmaBuffer)
    }
    /// Address the device uses for byte 0.
    pub fn device_address(&self) -> u64 {
        world::device::dma_address(&self.0)
    }
    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        world::device::dma_bytes(&self.0)
    }
    /// Copies out; beyond the end nothing.
    pub fn read(&self, offset: usize, out: &mut [u8]) {
        world::device::dma_read(&self.0, offset, out);
    }
    /// Copies in; beyond the end nothing.
    pub fn write(&self, offset: usize, data: &[u8]) {
        world::device::dma_write(&self.0, offset, data);
    }
    /// Loads an aligned word with acquire ordering; zero beyond the end.
    pub fn load16(&self, offset: usize) -> u16 {
        world::device::dma_load16(&self.0, offset)
    }
    /// Stores an aligned word with release ordering.
    pub fn store16(&self, offset: usize, value: u16) {
        world::device::dma_store16(&self.0, offset, value);
    }
}

/// A full memory barrier between processor and device (virtio's rule before reading `avail_event`).
pub fn fence() {
    core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
}

/// A frame lent to a device for as long as this lives.
#[derive(Debug)]
pub struct Lent {
    frame: Frame,
}

impl Lent {
    /// Lends `frame`. With an IOMMU this maps it into the driver's domain.
    pub fn new(frame: Frame) -> Lent {
        Lent { frame }
    }
    /// Address the device uses for the frame's byte 0.
    pub fn device_address(&self) -> u64 {
        world::device::frame_device_address(self.frame.id())
    }
    /// Takes it back.
    pub fn into_frame(self) -> Frame {
        self.frame
    }
}
