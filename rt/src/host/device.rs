//! Devices of the host world: models that a test registered through [`super::control`].
//!
//! The address space of devices holds the frames (each at its number times the page size) and the
//! DMA buffers (from 1 TiB up). One lock guards the tables; models are called without it.
pub(crate) use super::control::lives;
use crate::device::each::note;
pub(crate) use crate::device::each::{
    port_read_all, port_read_list, port_write_all, port_write_list,
};

use super::{
    control::DeviceRegisters,
    memory::{frame_release, frame_retain, frame_words, is_live, may_allocate},
    message::{self, EndpointHandle},
    thread::{lock, wait},
};
use crate::{
    NoMemory, PAGE_BYTES,
    device::{DeviceError, Loan, MmioDevice, PciAddress, PciFunction},
    memory::FrameId,
    thread::Woken,
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Condvar, LazyLock, Mutex, Weak, atomic::AtomicU64},
};

/// The start of DMA buffers in the devices' address space.
const DMA_BASE: u64 = 1 << 40;

pub(crate) struct Pci {
    pub(crate) function: PciFunction,
    pub(crate) config: Arc<dyn DeviceRegisters>,
    pub(crate) bars: [Option<(usize, Arc<dyn DeviceRegisters>)>; 6],
    pub(crate) msix: Vec<Arc<Line>>,
    pub(crate) is_open: bool,
}

pub(crate) struct MmioModel {
    pub(crate) device: MmioDevice,
    pub(crate) registers: Arc<dyn DeviceRegisters>,
}

pub(crate) struct PortModel {
    pub(crate) count: u16,
    pub(crate) registers: Arc<dyn DeviceRegisters>,
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

/// Calls `visit` with the tables, under their lock.
pub(crate) fn with_tables<R>(visit: impl FnOnce(&mut Tables) -> R) -> R {
    visit(&mut lock(&TABLES))
}

#[derive(Debug, Default)]
struct LineState {
    /// The endpoint that the interrupt signals, and the bits.
    bound: Option<(EndpointHandle, u64)>,
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
        self.tell();
    }

    /// Signals the bound endpoint if the interrupt came and is not masked, and wakes waiting
    /// threads.
    fn tell(&self) {
        let mut state = lock(&self.state);
        if let Some((endpoint, bits)) = state.bound.clone()
            && state.is_pending
            && !state.is_masked
        {
            (state.is_pending, state.is_masked) = (false, !self.is_message);
            drop(state);
            message::signal(&endpoint, bits);
        }
        self.changed.notify_all();
    }

    fn take(self: &Arc<Line>) -> Result<InterruptHandle, DeviceError> {
        if std::mem::replace(&mut lock(&self.state).is_taken, true) {
            return Err(DeviceError::Refused);
        }
        Ok(InterruptHandle(self.clone()))
    }
}

/// An interrupt that was taken; given back when dropped.
#[derive(Debug)]
pub(crate) struct InterruptHandle(Arc<Line>);

impl Drop for InterruptHandle {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        (state.is_taken, state.bound) = (false, None);
    }
}

/// Mapped registers.
pub(crate) struct MmioHandle {
    bytes: usize,
    registers: Arc<dyn DeviceRegisters>,
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

/// A buffer shared with devices.
#[derive(Clone, Debug)]
pub(crate) struct DmaHandle(Arc<Dma>);

impl Drop for Dma {
    fn drop(&mut self) {
        with_tables(|tables| tables.dma.remove(&self.address));
    }
}

fn pci<R>(address: u16, visit: impl FnOnce(&mut Pci) -> R) -> Result<R, DeviceError> {
    with_tables(|tables| tables.pci.get_mut(&PciAddress(address)).map(visit))
        .ok_or(DeviceError::NotFound)
}

pub(crate) fn pci_functions() -> Vec<PciFunction> {
    with_tables(|tables| tables.pci.values().map(|pci| pci.function).collect())
}

pub(crate) fn virtio_mmio_devices() -> Vec<MmioDevice> {
    with_tables(|tables| tables.mmio.values().map(|model| model.device).collect())
}

pub(crate) fn pci_open(address: u16) -> Result<(), DeviceError> {
    let was_open = pci(address, |pci| std::mem::replace(&mut pci.is_open, true))?;
    if was_open { Err(DeviceError::Refused) } else { Ok(()) }
}

pub(crate) fn pci_close(address: u16) {
    // A model that was removed meanwhile needs no closing.
    let _ = pci(address, |pci| pci.is_open = false);
}

pub(crate) fn pci_read(address: u16, offset: u16, bytes: u8) -> u32 {
    match pci(address, |pci| pci.config.clone()) {
        Ok(config) => config.read(usize::from(offset), usize::from(bytes)) as u32,
        Err(_) => u32::MAX,
    }
}

pub(crate) fn pci_bar(address: u16, index: u8) -> Result<MmioHandle, DeviceError> {
    let bar = pci(address, |pci| pci.bars.get(usize::from(index)).cloned().flatten())?;
    let (bytes, registers) = bar.ok_or(DeviceError::NotFound)?;
    Ok(MmioHandle { bytes, registers })
}

pub(crate) fn pci_msix(address: u16, entry: u16) -> Result<InterruptHandle, DeviceError> {
    let line = pci(address, |pci| pci.msix.get(usize::from(entry)).cloned())?;
    line.ok_or(DeviceError::NotFound)?.take()
}

pub(crate) fn pci_msix_entries(address: u16) -> u16 {
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

fn is_inside(offset: usize, length: usize, bytes: usize) -> bool {
    offset.checked_add(length).is_some_and(|end| end <= bytes)
}

fn can_access(offset: usize, width: usize, bytes: usize) -> bool {
    offset.is_multiple_of(width) && is_inside(offset, width, bytes)
}

impl MmioHandle {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn read(&self, offset: usize, width: usize) -> u64 {
        let is_good = can_access(offset, width, self.bytes);
        if is_good { self.registers.read(offset, width) } else { u64::MAX }
    }

    pub(crate) fn write(&self, offset: usize, width: usize, value: u64) {
        if can_access(offset, width, self.bytes) && lives() {
            self.registers.write(offset, width, value);
        }
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

fn port(number: u16) -> Option<(Arc<dyn DeviceRegisters>, usize)> {
    with_tables(|tables| {
        let (first, model) = tables.ports.range(..=number).next_back()?;
        let offset = number - first;
        (offset < model.count).then(|| (model.registers.clone(), usize::from(offset)))
    })
}

pub(crate) fn port_read(number: u16, width: u8) -> u32 {
    port(number)
        .filter(|_| lives())
        .map_or(u32::MAX, |(registers, offset)| registers.read(offset, usize::from(width)) as u32)
}

pub(crate) fn port_write(number: u16, width: u8, value: u32) {
    if let Some((registers, offset)) = port(number).filter(|_| lives()) {
        registers.write(offset, usize::from(width), u64::from(value));
    }
}

pub(crate) fn kept() -> Option<DmaHandle> {
    super::control::kept()
}

/// Reads the port and writes the receipt in one step, as in the process world.
pub(crate) fn port_read8_noted(number: u16, dma: &DmaHandle, at: usize, receipt: u32) -> u8 {
    let Some((registers, offset)) = port(number).filter(|_| lives()) else { return u8::MAX };
    let value = registers.read(offset, 1) as u8;
    note(dma.words(), at, receipt, value);
    value
}

/// Writes the port and the receipt in one step, as [`port_read8_noted`] does.
pub(crate) fn port_write8_noted(number: u16, value: u8, dma: &DmaHandle, at: usize, receipt: u32) {
    if let Some((registers, offset)) = port(number).filter(|_| lives()) {
        registers.write(offset, 1, u64::from(value));
        note(dma.words(), at, receipt, value);
    }
}

pub(crate) fn interrupt_open(line: u32) -> Result<InterruptHandle, DeviceError> {
    let line = with_tables(|tables| tables.lines.get(&line).cloned());
    line.ok_or(DeviceError::NotFound)?.take()
}

impl InterruptHandle {
    pub(crate) fn wait(&self, deadline_ns: Option<u64>, _: sync::Sleep) -> Woken {
        let line = &self.0;
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
            (state, is_early) = wait(&line.changed, state, deadline_ns);
            if !is_early {
                return Woken::TimedOut;
            }
        }
    }

    pub(crate) fn acknowledge(&self) {
        lock(&self.0.state).is_masked = false;
        self.0.tell();
    }

    pub(crate) fn bind_to(&self, endpoint: &EndpointHandle, bits: u64) -> Result<(), DeviceError> {
        lock(&self.0.state).bound = Some((endpoint.clone(), bits));
        self.0.tell();
        Ok(())
    }

    pub(crate) fn wake(&self) {
        lock(&self.0.state).is_woken = true;
        self.0.changed.notify_all();
    }
}

impl DmaHandle {
    pub(crate) fn allocate(bytes: usize) -> Result<DmaHandle, DeviceError> {
        may_allocate()?;
        let bytes =
            bytes.max(1).checked_next_multiple_of(PAGE_BYTES).ok_or(DeviceError::NoMemory)?;
        let words = (0..bytes / 8).map(|_| AtomicU64::new(0)).collect();
        Ok(DmaHandle(with_tables(|tables| {
            let address = DMA_BASE + tables.next_dma;
            tables.next_dma += (bytes + PAGE_BYTES) as u64;
            let dma = Arc::new(Dma { address, words });
            tables.dma.insert(address, Arc::downgrade(&dma));
            dma
        })))
    }

    pub(crate) fn device_address(&self) -> u64 {
        self.0.address
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.words.len() * 8
    }

    pub(crate) fn words(&self) -> &[AtomicU64] {
        &self.0.words
    }
}

pub(crate) fn frame_device_address(frame: u32) -> u64 {
    u64::from(frame) * PAGE_BYTES as u64
}

/// Accesses memory as a device does: calls `part` for each piece of the range, with the words of
/// one buffer or frame and the offset in it. Returns `false` if a part of the range is not memory.
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
    let is_good = is_inside(offset, length, dma.words.len() * 8);
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
        if !is_live(number) {
            return false;
        }
        part(frame_words(number), offset, count, done);
        done += count;
    }
    true
}

/// Number of loans of each frame: for reading, for writing.
pub(crate) type Loans = BTreeMap<FrameId, [usize; 2]>;
/// A window that records the loans; `None` if devices reach everything.
pub(crate) type WindowHandle = Option<Arc<Mutex<Loans>>>;

pub(crate) fn window_holds_loans(window: &WindowHandle) -> bool {
    window.is_some()
}

pub(crate) fn window_lend(window: &WindowHandle, loans: &[Loan]) -> Result<(), NoMemory> {
    const MOST: usize = 1023;
    let Some(window) = window else { return Ok(()) };
    let mut lent = lock(window);
    let mut after = lent.clone();
    for Loan { frame, is_written } in loans {
        let counts = after.entry(*frame).or_default();
        counts[usize::from(*is_written)] += 1;
        if counts[0] + counts[1] > MOST {
            return Err(NoMemory);
        }
    }
    loans.iter().for_each(|loan| frame_retain(loan.frame.0));
    *lent = after;
    Ok(())
}

pub(crate) fn window_take_back(window: &WindowHandle, loans: &[Loan]) {
    let Some(window) = window else { return };
    let mut lent = lock(window);
    for Loan { frame, is_written } in loans {
        let counts = lent.get_mut(frame).expect("taken back, and was not lent");
        let count = &mut counts[usize::from(*is_written)];
        *count = count.checked_sub(1).expect("taken back more often than lent");
        if *counts == [0, 0] {
            lent.remove(frame);
        }
        frame_release(frame.0);
    }
}
