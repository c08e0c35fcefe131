//! Devices: a component reaches those that the system description grants it, and no others.
//!
//! A component finds its devices with [`pci_functions`] and [`virtio_mmio_devices`] and opens them; opening may be refused.
//! Registers are reached through [`Mmio`] and [`Ports`], which check every offset; interrupts are waited for in threads, or
//! signalled at an endpoint (M2).
use crate::{
    NoMemory,
    memory::{Frame, FrameId},
    message::Endpoint,
    thread::Woken,
    time::Instant,
    words, world,
};
use alloc::{sync::Arc, vec::Vec};
pub use program::{DeviceError, MmioDevice, PciAddress, PciFunction};

/// Returns every PCI function that this component may see.
pub fn pci_functions() -> Vec<PciFunction> {
    world::device::pci_functions()
}

/// Returns every virtio-mmio transport that this component may see.
pub fn virtio_mmio_devices() -> Vec<MmioDevice> {
    world::device::virtio_mmio_devices()
}

/// An opened PCI function: its configuration space, BARs and interrupts.
#[derive(Debug)]
pub struct PciDevice {
    function: PciFunction,
}

impl PciDevice {
    /// Opens a function: enables memory space and bus mastering. Only one opener at a time.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn open(function: PciFunction) -> Result<PciDevice, DeviceError> {
        world::device::pci_open(function.address.0)?;
        Ok(PciDevice { function })
    }
    /// Returns the function that was opened.
    pub fn function(&self) -> PciFunction {
        self.function
    }
    /// Reads a configuration byte, word or long (`bytes` is 1, 2 or 4); all ones beyond the end.
    pub fn read_config(&self, offset: u16, bytes: u8) -> u32 {
        world::device::pci_read(self.function.address.0, offset, bytes)
    }
    /// Maps memory BAR `index` (0 to 5).
    ///
    /// # Errors
    /// [`DeviceError::NotFound`] if the BAR is empty or an I/O BAR.
    pub fn bar(&self, index: u8) -> Result<Mmio, DeviceError> {
        world::device::pci_bar(self.function.address.0, index).map(Mmio)
    }
    /// Binds MSI-X table entry `entry` to a new interrupt and enables MSI-X.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn msix(&self, entry: u16) -> Result<Interrupt, DeviceError> {
        world::device::pci_msix(self.function.address.0, entry).map(Interrupt)
    }
    /// Returns the number of entries of the MSI-X table; zero if the function has none.
    pub fn msix_entries(&self) -> u16 {
        world::device::pci_msix_entries(self.function.address.0)
    }
}

impl Drop for PciDevice {
    fn drop(&mut self) {
        world::device::pci_close(self.function.address.0);
    }
}

/// A mapped region of device registers. A load at a misaligned offset or beyond the end reads all ones; a store there has
/// no effect.
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
        self.0.bytes()
    }
    /// Reads one byte.
    pub fn read8(&self, offset: usize) -> u8 {
        self.0.read(offset, 1) as u8
    }
    /// Reads two bytes.
    pub fn read16(&self, offset: usize) -> u16 {
        self.0.read(offset, 2) as u16
    }
    /// Reads four bytes.
    pub fn read32(&self, offset: usize) -> u32 {
        self.0.read(offset, 4) as u32
    }
    /// Reads eight bytes.
    pub fn read64(&self, offset: usize) -> u64 {
        self.0.read(offset, 8)
    }
    /// Writes one byte.
    pub fn write8(&self, offset: usize, value: u8) {
        self.0.write(offset, 1, u64::from(value));
    }
    /// Writes two bytes.
    pub fn write16(&self, offset: usize, value: u16) {
        self.0.write(offset, 2, u64::from(value));
    }
    /// Writes four bytes.
    pub fn write32(&self, offset: usize, value: u32) {
        self.0.write(offset, 4, u64::from(value));
    }
    /// Writes eight bytes.
    pub fn write64(&self, offset: usize, value: u64) {
        self.0.write(offset, 8, value);
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
    /// [`DeviceError::Refused`] if the nucleus or another owns one of them.
    pub fn open(first: u16, count: u16) -> Result<Ports, DeviceError> {
        world::device::ports_open(first, count)?;
        Ok(Ports { first, count })
    }
    /// Returns the first of the `width` ports at `offset`; `None` beyond the range.
    #[inline]
    fn place(&self, offset: u16, width: u8) -> Option<u16> {
        let fits = u32::from(offset) + u32::from(width) <= u32::from(self.count);
        fits.then(|| self.first + offset)
    }
    #[inline]
    fn read(&self, offset: u16, width: u8) -> u32 {
        self.place(offset, width).map_or(u32::MAX, |port| world::device::port_read(port, width))
    }
    #[inline]
    fn write(&self, offset: u16, width: u8, value: u32) {
        if let Some(port) = self.place(offset, width) {
            world::device::port_write(port, width, value);
        }
    }
    /// Reads a byte; all ones beyond the range. Cost as a system call: none if the component's ports are accessed by plain
    /// instructions, which is the rule; else one. The same is true of the other accesses below.
    #[inline]
    pub fn read8(&self, offset: u16) -> u8 {
        self.read(offset, 1) as u8
    }
    /// Reads a word; all ones beyond the range.
    #[inline]
    pub fn read16(&self, offset: u16) -> u16 {
        self.read(offset, 2) as u16
    }
    /// Reads a long; all ones beyond the range.
    #[inline]
    pub fn read32(&self, offset: u16) -> u32 {
        self.read(offset, 4)
    }
    /// Writes a byte; has no effect beyond the range.
    #[inline]
    pub fn write8(&self, offset: u16, value: u8) {
        self.write(offset, 1, value.into());
    }
    /// Writes a word; has no effect beyond the range.
    #[inline]
    pub fn write16(&self, offset: u16, value: u16) {
        self.write(offset, 2, value.into());
    }
    /// Writes a long; has no effect beyond the range.
    #[inline]
    pub fn write32(&self, offset: u16, value: u32) {
        self.write(offset, 4, value);
    }
    /// Fills `out` with bytes read from one port, one after the other; with all ones beyond the range.
    pub fn read8_all(&self, offset: u16, out: &mut [u8]) {
        match self.place(offset, 1) {
            Some(port) => world::device::port_read_all(port, out),
            None => out.fill(u8::MAX),
        }
    }
    /// Writes `data` to one port, one byte after the other; has no effect beyond the range.
    pub fn write8_all(&self, offset: u16, data: &[u8]) {
        if let Some(port) = self.place(offset, 1) {
            world::device::port_write_all(port, data);
        }
    }
    /// Reads a byte from the port at each offset, in this order. Reads nothing if any offset is beyond the range.
    pub fn read8_list(&self, list: &mut [(u16, u8)]) {
        if list.iter().all(|&(offset, _)| offset < self.count) {
            world::device::port_read_list(self.first, list);
        }
    }
    /// Writes bytes, each to the port at its offset, in this order. Writes nothing if any offset is beyond the range.
    pub fn write8_list(&self, list: &[(u16, u8)]) {
        if list.iter().all(|&(offset, _)| offset < self.count) {
            world::device::port_write_list(self.first, list);
        }
    }
}

/// Accesses of several ports, or of a port and a receipt, done one by one, for worlds without a shorter way.
#[cfg(not(all(target_os = "none", skerry_process)))]
pub(crate) mod each {
    use crate::{
        words,
        world::device::{port_read, port_write},
    };
    use core::sync::atomic::AtomicU64;

    /// Writes the receipt of an access of a port at offset `at` of `words`.
    pub(crate) fn note(words: &[AtomicU64], at: usize, receipt: u32, value: u8) {
        words::store_all(words, at, [u64::from(receipt) << 32 | u64::from(value)]);
    }

    pub(crate) fn port_read_all(number: u16, out: &mut [u8]) {
        out.fill_with(|| port_read(number, 1) as u8);
    }
    pub(crate) fn port_write_all(number: u16, data: &[u8]) {
        data.iter().for_each(|&value| port_write(number, 1, value.into()));
    }
    pub(crate) fn port_read_list(first: u16, list: &mut [(u16, u8)]) {
        list.iter_mut().for_each(|(offset, value)| *value = port_read(first + *offset, 1) as u8);
    }
    pub(crate) fn port_write_list(first: u16, list: &[(u16, u8)]) {
        list.iter().for_each(|&(offset, value)| port_write(first + offset, 1, value.into()));
    }
}

/// The place for the receipt of a port access: eight aligned bytes of a buffer. The receipt is `number << 32` and the byte
/// that was read or written. Access and receipt are one step: a component that is ended is ended before the access or after
/// both.
#[derive(Clone, Copy, Debug)]
pub struct Receipt<'b> {
    /// The buffer that holds the receipt.
    pub buffer: &'b DmaBuffer,
    /// Offset of the receipt in the buffer.
    pub offset: usize,
    /// A number that differs from those of earlier accesses.
    pub number: u32,
}

impl Receipt<'_> {
    fn place(&self) -> Option<usize> {
        self.buffer.place(self.offset, 8).filter(|at| at.is_multiple_of(8))
    }
}

impl Ports {
    /// Reads a byte as [`Ports::read8`] does, with a receipt. Returns `None` beyond the range or the buffer. Cost as a
    /// system call: one.
    pub fn read8_noted(&self, offset: u16, receipt: Receipt<'_>) -> Option<u8> {
        let at = receipt.place().filter(|_| offset < self.count)?;
        let (memory, number) = (&receipt.buffer.memory, receipt.number);
        Some(world::device::port_read8_noted(self.first + offset, memory, at, number))
    }
    /// Writes a byte as [`Ports::write8`] does, with a receipt; has no effect beyond the range or the buffer. Cost as a
    /// system call: one.
    pub fn write8_noted(&self, offset: u16, value: u8, receipt: Receipt<'_>) {
        if let Some(at) = receipt.place().filter(|_| offset < self.count) {
            let (memory, number) = (&receipt.buffer.memory, receipt.number);
            world::device::port_write8_noted(self.first + offset, value, memory, at, number);
        }
    }
}

impl Drop for Ports {
    fn drop(&mut self) {
        world::device::ports_close(self.first, self.count);
    }
}

/// An interrupt, for which one thread at a time may wait.
#[derive(Debug)]
pub struct Interrupt(pub(crate) world::device::InterruptHandle);

impl Interrupt {
    /// Takes a global interrupt line, which is level- or edge-triggered as the platform says.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn open(line: u32) -> Result<Interrupt, DeviceError> {
        world::device::interrupt_open(line).map(Interrupt)
    }
    /// Blocks until the interrupt has come since the last wait. A line is masked when it comes and stays so until
    /// [`Interrupt::acknowledge`]; MSI-X needs no acknowledgement.
    pub fn wait(&self, deadline: Option<Instant>) -> Woken {
        self.0.wait(deadline.map(|at| at.0), sync::Sleep::Uninterruptible)
    }
    /// Signals `bits` at `endpoint` whenever the interrupt comes from now on, so that the endpoint's receiver handles it;
    /// at once if it has come since the last wait. A line is masked then, as after a wait. Cost as a system call: one; none
    /// when the interrupt comes.
    ///
    /// # Errors
    /// [`DeviceError::Refused`] if the endpoint was taken away.
    pub fn bind(&self, endpoint: &Endpoint, bits: u64) -> Result<(), DeviceError> {
        self.0.bind_to(&endpoint.0, bits)
    }
    /// Unmasks a line, so that it can interrupt again.
    pub fn acknowledge(&self) {
        self.0.acknowledge();
    }
    /// Ends an [`Interrupt::wait`] under way; used when a driver stops.
    pub fn wake(&self) {
        self.0.wake();
    }
}

/// Physically contiguous zeroed memory that is shared with a device, or a part of such memory. It offers only copies and
/// atomic access.
#[derive(Clone, Debug)]
pub struct DmaBuffer {
    pub(crate) memory: Arc<world::device::DmaHandle>,
    first: usize,
    bytes: usize,
}

/// Returns the component's memory that outlives it: a successor finds there what its predecessor left. Returns `None` if
/// there is none: in worlds in which no component ends before the system, or if the system description grants none. Its
/// contents must be checked like outside input. Devices reach it if the component may have memory that devices reach.
pub fn kept() -> Option<DmaBuffer> {
    world::device::kept().map(DmaBuffer::of)
}

impl DmaBuffer {
    fn of(memory: world::device::DmaHandle) -> DmaBuffer {
        let bytes = memory.bytes();
        DmaBuffer { memory: Arc::new(memory), first: 0, bytes }
    }
    /// Allocates at least `bytes` (rounded up to whole pages, contiguous).
    ///
    /// # Errors
    /// [`DeviceError::NoMemory`].
    pub fn allocate(bytes: usize) -> Result<DmaBuffer, DeviceError> {
        Ok(DmaBuffer::of(world::device::DmaHandle::allocate(bytes)?))
    }
    /// Returns the `bytes` bytes from `first`, which must be a multiple of 8; `None` if the buffer is shorter.
    pub fn part(&self, first: usize, bytes: usize) -> Option<DmaBuffer> {
        let is_inside = first.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        let memory = (is_inside && first.is_multiple_of(8)).then(|| self.memory.clone())?;
        Some(DmaBuffer { memory, first: self.first + first, bytes })
    }
    /// Returns the offset in the whole memory of the `length` bytes at `offset`; `None` beyond the end.
    #[inline]
    fn place(&self, offset: usize, length: usize) -> Option<usize> {
        let is_inside = offset.checked_add(length).is_some_and(|end| end <= self.bytes);
        is_inside.then_some(self.first + offset)
    }
    /// Returns the address by which the device reaches byte 0.
    #[inline]
    pub fn device_address(&self) -> u64 {
        self.memory.device_address() + self.first as u64
    }
    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// Copies from the buffer to `out`. Bytes beyond the end are not copied.
    #[inline]
    pub fn read(&self, offset: usize, out: &mut [u8]) {
        if let Some(at) = self.place(offset, out.len()) {
            words::read(self.memory.words(), at, out);
        }
    }
    /// Copies `data` into the buffer. Bytes beyond the end are not copied. Eight aligned bytes are stored in one step.
    #[inline]
    pub fn write(&self, offset: usize, data: &[u8]) {
        if let Some(at) = self.place(offset, data.len()).filter(|_| world::device::lives()) {
            words::write(self.memory.words(), at, data);
        }
    }
    /// Loads the aligned two bytes at `offset` with acquire ordering; zero beyond the end.
    #[inline]
    pub fn load16(&self, offset: usize) -> u16 {
        self.place(offset, 2).map_or(0, |at| words::load(self.memory.words(), at, 2) as u16)
    }
    /// Stores the aligned two bytes at `offset` with release ordering; has no effect beyond the end.
    #[inline]
    pub fn store16(&self, offset: usize, value: u16) {
        if let Some(at) = self.place(offset, 2).filter(|_| world::device::lives()) {
            words::store16(self.memory.words(), at, value);
        }
    }
    /// Loads the aligned four bytes at `offset`; zero beyond the end.
    #[inline]
    pub fn load32(&self, offset: usize) -> u32 {
        self.place(offset, 4).map_or(0, |at| words::load(self.memory.words(), at, 4) as u32)
    }
    /// Loads the aligned eight bytes at `offset`; zero beyond the end.
    #[inline]
    pub fn load64(&self, offset: usize) -> u64 {
        self.place(offset, 8).map_or(0, |at| words::load(self.memory.words(), at, 8))
    }
    /// Stores the aligned eight bytes at `offset` in one step, after all earlier stores.
    #[inline]
    pub fn store64(&self, offset: usize, value: u64) {
        core::sync::atomic::fence(core::sync::atomic::Ordering::Release);
        self.store_all(offset, [value]);
    }
    /// Stores `values`, eight bytes each, from the aligned `offset`, in any order; has no effect beyond the end.
    #[inline]
    pub fn store_all<const N: usize>(&self, offset: usize, values: [u64; N]) {
        if let Some(at) = self.place(offset, 8 * N).filter(|_| world::device::lives()) {
            words::store_all(self.memory.words(), at, values);
        }
    }
}

/// Executes a full memory barrier between processor and device (virtio's rule before reading `avail_event`).
pub fn fence() {
    core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
}

/// A frame that is lent to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loan {
    /// Number of the frame.
    pub frame: FrameId,
    /// The device writes the frame; otherwise it reads it.
    pub is_written: bool,
}

/// The memory that an isolated component's devices can reach, as its clients hold it to lend frames: the component's own
/// [`DmaBuffer`]s and the frames lent here. Without an IOMMU (the default window) devices reach all memory. A component of the
/// process world gets it with a message ([`crate::message::Capability::Lender`]).
#[derive(Clone, Debug, Default)]
pub struct DmaWindow(pub(crate) world::device::WindowHandle);

impl DmaWindow {
    /// Lends each of `loans`. Its frame stays allocated, and the device reaches it, until it has been taken back as often
    /// as it was lent; rights of several loans of a frame add up. Cost as a system call: one.
    ///
    /// # Errors
    /// [`NoMemory`] if a frame would have more than 1,023 loans at once; then nothing was lent.
    pub fn lend(&self, loans: &[Loan]) -> Result<(), NoMemory> {
        world::device::window_lend(&self.0, loans)
    }
    /// Takes `loans` back: afterwards no device reaches them by this window. Cost as a system call: one.
    pub fn take_back(&self, loans: &[Loan]) {
        world::device::window_take_back(&self.0, loans);
    }
    /// Takes back all that a component lent by this right. Without an IOMMU nothing else keeps the devices from the frames, so the
    /// caller makes sure that the driver has let go of them.
    #[cfg(all(target_os = "none", not(skerry_process)))]
    pub fn take_back_all(&self) {
        world::device::window_take_back_all(&self.0);
    }
    /// Returns whether a loan is a reference to its frame. Without an IOMMU it is none, and nothing is kept from the device.
    pub fn holds_loans(&self) -> bool {
        world::device::window_holds_loans(&self.0)
    }
}

/// Returns the address by which a device reaches byte 0 of `frame`, as long as the frame is kept. In the kernel world a device
/// reaches every frame. In the process world it reaches the frames that a client lent by the `DmaWindow`, and not those that
/// the component has of its own: a device's memory there is a [`DmaBuffer`]. Returns `None` if no device reaches the frame.
#[inline]
pub fn frame_address(frame: &Frame) -> Option<u64> {
    let number = frame.id().0;
    #[cfg(all(target_os = "none", skerry_process))]
    if !world::memory::is_lent(number) {
        return None;
    }
    Some(world::device::frame_device_address(number))
}
