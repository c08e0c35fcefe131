//! Devices of the host world: models that a test registered through [`super::control`].
//!
//! The address space of devices holds the frames (at their number times the page size) and the DMA
//! buffers (from 1 TiB up). One lock guards the tables; models are called without it.
use super::{
    control::Registers,
    memory::{frame_words, is_live, may_allocate},
    thread::{lock, wait},
};
use crate::{
    PAGE_BYTES,
    device::{DeviceError, MmioDevice, PciAddress, PciFunction},
    memory::FrameId,
    thread::Woken,
    time::Instant,
    words,
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Condvar, LazyLock, Mutex, Weak, atomic::AtomicU64},
};

/// Where DMA buffers begin in the devices' address space.
const DMA_BASE: u64 = 1 << 40;

pub(crate) struct Pci {
    pub(crate) function: PciFunction,
    pub(crate) config: Arc<dyn Registers>,
    pub(crate) bars: [Option<(usize, Arc<dyn Registers>)>; 6],
    pub(crate) msix: Vec<Arc<Line>>,
    pub(crate) is_open: bool,
}

pub(crate) struct MmioModel {
    pub(crate) device: MmioDevice,
    pub(crate) registers: Arc<dyn Registers>,
}

pub(crate) struct PortModel {
    pub(crate) count: u16,
    pub(crate) registers: Arc<dyn Registers>,
    pub(crate) is_open: bool,
}

#[derive(Default)]
pub(crate) struct Tables {
    pub(crate) pci: BTreeMap<PciAddress, Pci>,
    pub(crate) mmio: BTreeMap<u64, MmioModel>,
    pub(crate) ports: BTreeMap<u16, PortModel>,
    pub(crate) lines: HashMap<u32, Arc<Line>>,
    dma: BTreeMap<u64, Weak<Dma>>,
    next_dma: u64,
}

static TABLES: LazyLock<Mutex<Tables>> = LazyLock::new(Default::default);

/// Visits the tables.
pub(crate) fn with_tables<R>(visit: impl FnOnce(&mut Tables) -> R) -> R {
    visit(&mut lock(&TABLES))
}

#[derive(Debug, Default)]
struct LineState {
    is_pending: bool,
    is_masked: bool,
    is_woken: bool,
    is_taken: bool,
}

/// An interrupt: a line (masked from its coming to its acknowledgement) or a message.
#[derive(Debug)]
pub(crate) struct Line {
    is_message: bool,
    state: Mutex<LineState>,
    changed: Condvar,
}

impl Line {
    pub(crate) fn new(is_message: bool) -> Arc<Line> {
        Arc::new(Line { is_message, state: Mutex::default(), changed: Condvar::new() })
    }

    pub(crate) fn raise(&self) {
        lock(&self.state).is_pending = true;
        self.changed.notify_all();
    }

    fn take(self: &Arc<Line>) -> Result<InterruptHandle, DeviceError> {
        if std::mem::replace(&mut lock(&self.state).is_taken, true) {
            return Err(DeviceError::Refused);
        }
        Ok(InterruptHandle(self.clone()))
    }
}

/// An interrupt taken; given back when dropped.
#[derive(Debug)]
pub(crate) struct InterruptHandle(Arc<Line>);

impl Drop for InterruptHandle {
    fn drop(&mut self) {
        lock(&self.0.state).is_taken = false;
    }
}

/// Mapped registers.
pub(crate) struct MmioHandle {
    bytes: usize,
    registers: Arc<dyn Registers>,
}

impl std::fmt::Debug for MmioHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MmioHandle").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(crate) struct Dma {
    address: u64,
    words: Box<[AtomicU64]>,
}

pub(crate) type DmaHandle = Arc<Dma>;

impl Drop for Dma {
    fn drop(&mut self) {
        with_tables(|tables| tables.dma.remove(&self.address));
    }
}

fn pci<R>(address: PciAddress, visit: impl FnOnce(&mut Pci) -> R) -> Result<R, DeviceError> {
    with_tables(|tables| tables.pci.get_mut(&address).map(visit)).ok_or(DeviceError::NotFound)
}

pub(crate) fn pci_functions() -> Vec<PciFunction> {
    with_tables(|tables| tables.pci.values().map(|pci| pci.function).collect())
}

pub(crate) fn virtio_mmio_devices() -> Vec<MmioDevice> {
    with_tables(|tables| tables.mmio.values().map(|model| model.device).collect())
}

pub(crate) fn pci_open(address: PciAddress) -> Result<(), DeviceError> {
    let was_open = pci(address, |pci| std::mem::replace(&mut pci.is_open, true))?;
    if was_open { Err(DeviceError::Refused) } else { Ok(()) }
}

pub(crate) fn pci_close(address: PciAddress) {
    // A model that was removed meanwhile needs no closing.
    let _ = pci(address, |pci| pci.is_open = false);
}

pub(crate) fn pci_read(address: PciAddress, offset: u16, bytes: u8) -> u32 {
    match pci(address, |pci| pci.config.clone()) {
        Ok(config) => config.read(usize::from(offset), usize::from(bytes)) as u32,
        Err(_) => u32::MAX,
    }
}

pub(crate) fn pci_bar(address: PciAddress, index: u8) -> Result<MmioHandle, DeviceError> {
    let bar = pci(address, |pci| pci.bars.get(usize::from(index)).cloned().flatten())?;
    let (bytes, registers) = bar.ok_or(DeviceError::NotFound)?;
    Ok(MmioHandle { bytes, registers })
}

pub(crate) fn pci_msix(address: PciAddress, entry: u16) -> Result<InterruptHandle, DeviceError> {
    let line = pci(address, |pci| pci.msix.get(usize::from(entry)).cloned())?;
    line.ok_or(DeviceError::NotFound)?.take()
}

pub(crate) fn pci_msix_entries(address: PciAddress) -> u16 {
    pci(address, |pci| pci.msix.len() as u16).unwrap_or(0)
}

pub(crate) fn mmio_open(base: u64, bytes: u64) -> Result<MmioHandle, DeviceError> {
    let registers = with_tables(|tables| {
        let model = tables.mmio.get(&base).filter(|model| model.device.bytes >= bytes);
        model.map(|model| model.registers.clone())
    });
    registers
        .map(|registers| MmioHandle { bytes: bytes as usize, registers })
        .ok_or(DeviceError::NotFound)
}

pub(crate) fn mmio_bytes(mmio: &MmioHandle) -> usize {
    mmio.bytes
}

fn is_inside(offset: usize, length: usize, bytes: usize) -> bool {
    offset.checked_add(length).is_some_and(|end| end <= bytes)
}

fn can_access(offset: usize, width: usize, bytes: usize) -> bool {
    offset.is_multiple_of(width) && is_inside(offset, width, bytes)
}

pub(crate) fn mmio_read(mmio: &MmioHandle, offset: usize, width: usize) -> u64 {
    let is_good = can_access(offset, width, mmio.bytes);
    if is_good { mmio.registers.read(offset, width) } else { u64::MAX }
}

pub(crate) fn mmio_write(mmio: &MmioHandle, offset: usize, width: usize, value: u64) {
    if can_access(offset, width, mmio.bytes) {
        mmio.registers.write(offset, width, value);
    }
}

pub(crate) fn ports_open(first: u16, count: u16) -> Result<(), DeviceError> {
    with_tables(|tables| {
        let model = tables.ports.get_mut(&first).filter(|model| model.count >= count);
        let model = model.ok_or(DeviceError::NotFound)?;
        let was_open = std::mem::replace(&mut model.is_open, true);
        if was_open { Err(DeviceError::Refused) } else { Ok(()) }
    })
}

pub(crate) fn ports_close(first: u16, _count: u16) {
    with_tables(|tables| {
        if let Some(model) = tables.ports.get_mut(&first) {
            model.is_open = false;
        }
    });
}

fn port(number: u16) -> Option<(Arc<dyn Registers>, usize)> {
    with_tables(|tables| {
        let (first, model) = tables.ports.range(..=number).next_back()?;
        let offset = number - first;
        (offset < model.count).then(|| (model.registers.clone(), usize::from(offset)))
    })
}

pub(crate) fn port_read8(number: u16) -> u8 {
    port(number).map_or(u8::MAX, |(registers, offset)| registers.read(offset, 1) as u8)
}

pub(crate) fn port_write8(number: u16, value: u8) {
    if let Some((registers, offset)) = port(number) {
        registers.write(offset, 1, u64::from(value));
    }
}

pub(crate) fn interrupt_open(line: u32) -> Result<InterruptHandle, DeviceError> {
    let line = with_tables(|tables| tables.lines.get(&line).cloned());
    line.ok_or(DeviceError::NotFound)?.take()
}

pub(crate) fn interrupt_wait(interrupt: &InterruptHandle, deadline: Option<Instant>) -> Woken {
    let line = &interrupt.0;
    let mut state = lock(&line.state);
    loop {
        if std::mem::take(&mut state.is_woken) {
            return Woken::Signalled;
        }
        if state.is_pending && !state.is_masked {
            state.is_pending = false;
            state.is_masked = !line.is_message;
            return Woken::Signalled;
        }
        let is_early;
        (state, is_early) = wait(&line.changed, state, deadline);
        if !is_early {
            return Woken::TimedOut;
        }
    }
}

pub(crate) fn interrupt_acknowledge(interrupt: &InterruptHandle) {
    lock(&interrupt.0.state).is_masked = false;
    interrupt.0.changed.notify_all();
}

pub(crate) fn interrupt_wake(interrupt: &InterruptHandle) {
    lock(&interrupt.0.state).is_woken = true;
    interrupt.0.changed.notify_all();
}

pub(crate) fn dma_allocate(bytes: usize) -> Result<DmaHandle, DeviceError> {
    may_allocate()?;
    let bytes = bytes.max(1).checked_next_multiple_of(PAGE_BYTES).ok_or(DeviceError::NoMemory)?;
    let words = (0..bytes / 8).map(|_| AtomicU64::new(0)).collect();
    Ok(with_tables(|tables| {
        let address = DMA_BASE + tables.next_dma;
        tables.next_dma += (bytes + PAGE_BYTES) as u64;
        let dma = Arc::new(Dma { address, words });
        tables.dma.insert(address, Arc::downgrade(&dma));
        dma
    }))
}

pub(crate) fn dma_address(dma: &DmaHandle) -> u64 {
    dma.address
}

pub(crate) fn dma_bytes(dma: &DmaHandle) -> usize {
    dma.words.len() * 8
}

pub(crate) fn dma_read(dma: &DmaHandle, offset: usize, out: &mut [u8]) {
    if is_inside(offset, out.len(), dma_bytes(dma)) {
        words::read(&dma.words, offset, out);
    }
}

pub(crate) fn dma_write(dma: &DmaHandle, offset: usize, data: &[u8]) {
    if is_inside(offset, data.len(), dma_bytes(dma)) {
        words::write(&dma.words, offset, data);
    }
}

pub(crate) fn dma_load16(dma: &DmaHandle, offset: usize) -> u16 {
    if can_access(offset, 2, dma_bytes(dma)) {
        words::load(&dma.words, offset, 2) as u16
    } else {
        0
    }
}

pub(crate) fn dma_store16(dma: &DmaHandle, offset: usize, value: u16) {
    if can_access(offset, 2, dma_bytes(dma)) {
        words::store(&dma.words, offset, 2, u64::from(value));
    }
}

pub(crate) fn frame_device_address(id: FrameId) -> u64 {
    u64::from(id.0) * PAGE_BYTES as u64
}

/// The device's view of memory: calls `part` with the words of one buffer or frame and the offset
/// there for each piece of the range. `false` where some of it is no memory.
pub(crate) fn device_access(
    address: u64,
    length: usize,
    mut part: impl FnMut(&[AtomicU64], usize, usize, usize),
) -> bool {
    let Some(in_buffers) = address.checked_sub(DMA_BASE) else {
        return frame_access(address, length, part);
    };
    let dma = with_tables(|tables| {
        let (_, dma) = tables.dma.range(..=DMA_BASE + in_buffers).next_back()?;
        dma.upgrade()
    });
    let Some(dma) = dma else { return false };
    let offset = (address - dma.address) as usize;
    let is_good = is_inside(offset, length, dma_bytes(&dma));
    if is_good {
        part(&dma.words, offset, length, 0);
    }
    is_good
}

fn frame_access(
    address: u64,
    length: usize,
    mut part: impl FnMut(&[AtomicU64], usize, usize, usize),
) -> bool {
    let mut done = 0;
    while done < length {
        let at = address + done as u64;
        let Ok(number) = u32::try_from(at / PAGE_BYTES as u64) else { return false };
        let offset = at as usize % PAGE_BYTES;
        let count = (PAGE_BYTES - offset).min(length - done);
        if !is_live(FrameId(number)) {
            return false;
        }
        part(frame_words(FrameId(number)), offset, count, done);
        done += count;
    }
    true
}
