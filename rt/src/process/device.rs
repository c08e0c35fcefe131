//! Devices of the process world: the component's granted devices, opened by kernel calls.
//!
//! The nucleus maps registers and buffers, and the component accesses them in place. A port access with a receipt
//! is a kernel call; other port accesses are in [`port`](super::port). A handle's mapping lasts as long as the
//! handle; registers stay mapped until the component ends.
pub(crate) use super::port::{
    port_read, port_read_all, port_read_list, port_write, port_write_all, port_write_list,
    ports_close, ports_open,
};

use super::{
    call::{Handle, ask, ask_with_memory, until},
    memory::Taken,
    message::EndpointHandle,
    pools,
};
use crate::{
    NoMemory, PAGE_BYTES,
    device::{DeviceError, Loan, MmioDevice, PciAddress, PciFunction},
    thread::Woken,
};
use alloc::{sync::Arc, vec::Vec};
use calls::{Call, KEPT, NO_HANDLE, Status, space::PAGE_LIST_MAX};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Mapped registers. Address and length stay valid as long as the component runs.
#[derive(Debug)]
pub(crate) struct MmioHandle {
    address: usize,
    bytes: usize,
}

/// An interrupt that was taken.
#[derive(Debug)]
pub(crate) struct InterruptHandle(Handle);

/// A buffer shared with a device, mapped as long as the handle lives.
#[derive(Debug)]
pub(crate) struct DmaHandle {
    address: usize,
    bytes: usize,
    device_address: u64,
    _handle: Handle,
    _taken: Taken,
}

pub(crate) fn pci_functions() -> Vec<PciFunction> {
    let describe = |[place, class, _]: [u64; 3]| PciFunction {
        address: PciAddress(place as u16),
        vendor: (place >> 16) as u16,
        device: (place >> 32) as u16,
        class: class as u32,
        subsystem: (place >> 48) as u16,
    };
    (0..).map_while(|index| ask(Call::PciFunction, &[index]).ok()).map(describe).collect()
}

pub(crate) fn virtio_mmio_devices() -> Vec<MmioDevice> {
    let describe =
        |[base, bytes, line]: [u64; 3]| MmioDevice { base, bytes, interrupt: line as u32 };
    (0..).map_while(|index| ask(Call::Transport, &[index]).ok()).map(describe).collect()
}

pub(crate) fn pci_open(address: u16) -> Result<(), DeviceError> {
    ask(Call::PciOpen, &[u64::from(address)])?;
    Ok(())
}

pub(crate) fn pci_close(address: u16) {
    // The call fails only for a function that was taken away, which is closed already.
    let _ = ask(Call::PciClose, &[u64::from(address)]);
}

pub(crate) fn pci_read(address: u16, offset: u16, bytes: u8) -> u32 {
    let arguments = [u64::from(address), u64::from(offset), u64::from(bytes)];
    ask(Call::PciRead, &arguments).map_or(u32::MAX, |[value, ..]| value as u32)
}

fn registers([address, bytes, _]: [u64; 3]) -> MmioHandle {
    MmioHandle { address: address as usize, bytes: bytes as usize }
}

pub(crate) fn pci_bar(address: u16, index: u8) -> Result<MmioHandle, DeviceError> {
    Ok(registers(ask(Call::PciBar, &[u64::from(address), u64::from(index)])?))
}

pub(crate) fn pci_msix(address: u16, entry: u16) -> Result<InterruptHandle, DeviceError> {
    let [handle, ..] = ask(Call::PciMsix, &[u64::from(address), u64::from(entry)])?;
    Ok(InterruptHandle(Handle(handle)))
}

pub(crate) fn pci_msix_entries(address: u16) -> u16 {
    let entries = ask(Call::PciMsixEntries, &[u64::from(address)]);
    entries.map_or(0, |[entries, ..]| entries as u16)
}

pub(crate) fn mmio_open(base: u64, bytes: u64) -> Result<MmioHandle, DeviceError> {
    let [address, ..] = ask(Call::TransportOpen, &[base, bytes])?;
    Ok(registers([address, bytes, 0]))
}

fn is_inside(offset: usize, length: usize, bytes: usize) -> bool {
    offset.checked_add(length).is_some_and(|end| end <= bytes)
}

impl MmioHandle {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn place(&self, offset: usize, width: usize) -> Option<usize> {
        let is_good = is_inside(offset, width, self.bytes) && offset.is_multiple_of(width);
        is_good.then_some(self.address + offset)
    }

    pub(crate) fn read(&self, offset: usize, width: usize) -> u64 {
        let Some(at) = self.place(offset, width) else { return u64::MAX };
        match width {
            // SAFETY: mapped registers, in range and aligned (checked).
            1 => u64::from(unsafe { (at as *const u8).read_volatile() }),
            // SAFETY: as above.
            2 => u64::from(unsafe { (at as *const u16).read_volatile() }),
            // SAFETY: as above.
            4 => u64::from(unsafe { (at as *const u32).read_volatile() }),
            // SAFETY: as above.
            _ => unsafe { (at as *const u64).read_volatile() },
        }
    }

    pub(crate) fn write(&self, offset: usize, width: usize, value: u64) {
        let Some(at) = self.place(offset, width) else { return };
        match width {
            // SAFETY: mapped registers, in range and aligned (checked); what the device may reach is what
            // the nucleus lets it reach.
            1 => unsafe { (at as *mut u8).write_volatile(value as u8) },
            // SAFETY: as above.
            2 => unsafe { (at as *mut u16).write_volatile(value as u16) },
            // SAFETY: as above.
            4 => unsafe { (at as *mut u32).write_volatile(value as u32) },
            // SAFETY: as above.
            _ => unsafe { (at as *mut u64).write_volatile(value) },
        }
    }
}

/// Reads or writes a port and writes the receipt, by one kernel call.
fn noted(call: Call, number: u16, value: u8, dma: &DmaHandle, at: usize, receipt: u32) -> u8 {
    let word = (dma.address + at) as u64;
    let arguments = [u64::from(number), 1, u64::from(value), word, u64::from(receipt)];
    // SAFETY: the word is one of the buffer's (checked by the caller), which others write at any time.
    let answer = unsafe { ask_with_memory(call, &arguments) };
    answer.map_or(u8::MAX, |[value, ..]| value as u8)
}

pub(crate) fn port_read8_noted(number: u16, dma: &DmaHandle, at: usize, receipt: u32) -> u8 {
    noted(Call::PortRead, number, 0, dma, at, receipt)
}

pub(crate) fn port_write8_noted(number: u16, value: u8, dma: &DmaHandle, at: usize, receipt: u32) {
    noted(Call::PortWrite, number, value, dma, at, receipt);
}

/// The memory that outlives the component was mapped.
static IS_KEPT_KNOWN: AtomicBool = AtomicBool::new(false);

pub(crate) fn kept() -> Option<DmaHandle> {
    let [address, bytes, device_address] = ask(Call::MapRegion, &[KEPT]).ok()?;
    let (address, bytes) = (address as usize, bytes as usize);
    // This memory stays mapped even when the handle is dropped.
    let is_known = IS_KEPT_KNOWN.swap(true, Ordering::Relaxed);
    core::mem::forget(Taken::new(if is_known { 0 } else { bytes }));
    let _taken = Taken::new(0);
    Some(DmaHandle { address, bytes, device_address, _handle: Handle(NO_HANDLE), _taken })
}

pub(crate) fn interrupt_open(line: u32) -> Result<InterruptHandle, DeviceError> {
    let [handle, ..] = ask(Call::InterruptOpen, &[u64::from(line)])?;
    Ok(InterruptHandle(Handle(handle)))
}

impl InterruptHandle {
    pub(crate) fn wait(&self, deadline_ns: Option<u64>, _: sync::Sleep) -> Woken {
        match ask(Call::InterruptWait, &[self.0.0, until(deadline_ns)]) {
            Ok(_) => Woken::Signalled,
            Err(Status::TimedOut) => Woken::TimedOut,
            Err(other) => panic!("waiting for an interrupt: {other:?}"),
        }
    }

    pub(crate) fn bind_to(&self, endpoint: &EndpointHandle, bits: u64) -> Result<(), DeviceError> {
        ask(Call::InterruptBind, &[self.0.0, endpoint.number(), bits])?;
        Ok(())
    }

    pub(crate) fn acknowledge(&self) {
        // The call fails only for an interrupt that was taken away, which stays masked.
        let _ = ask(Call::InterruptAcknowledge, &[self.0.0]);
    }

    pub(crate) fn wake(&self) {
        let _ = ask(Call::InterruptWake, &[self.0.0]);
    }
}

impl DmaHandle {
    pub(crate) fn allocate(bytes: usize) -> Result<DmaHandle, DeviceError> {
        let bytes =
            bytes.max(1).checked_next_multiple_of(PAGE_BYTES).ok_or(DeviceError::NoMemory)?;
        let [address, device_address, handle] = ask(Call::DmaAllocate, &[bytes as u64])?;
        let address = address as usize;
        let (_handle, _taken) = (Handle(handle), Taken::new(bytes));
        Ok(DmaHandle { address, bytes, device_address, _handle, _taken })
    }

    #[inline]
    pub(crate) fn device_address(&self) -> u64 {
        self.device_address
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: mapped by the nucleus, page-aligned and that long, until the handle is dropped; words
        // that the device writes at any time are atomics.
        unsafe { core::slice::from_raw_parts(self.address as *const AtomicU64, self.bytes / 8) }
    }
}

/// Always true: a component that was ended executes nothing.
pub(crate) const fn lives() -> bool {
    true
}

#[inline]
pub(crate) fn frame_device_address(frame: u32) -> u64 {
    u64::from(frame) * PAGE_BYTES as u64
}

/// The right to lend to a driver's devices; the default is to none.
pub(crate) type WindowHandle = Arc<Handle>;

/// Always true: a lent frame is kept, also without an IOMMU.
pub(crate) fn window_holds_loans(_window: &WindowHandle) -> bool {
    true
}

pub(crate) fn window_lend(window: &WindowHandle, loans: &[Loan]) -> Result<(), NoMemory> {
    let mut done = 0;
    for some in loans.chunks(PAGE_LIST_MAX) {
        if lend(window, some, 0).is_err() {
            window_take_back(window, loans.get(..done).unwrap_or_default());
            return Err(NoMemory);
        }
        done += some.len();
    }
    Ok(())
}

pub(crate) fn window_take_back(window: &WindowHandle, loans: &[Loan]) {
    for some in loans.chunks(PAGE_LIST_MAX) {
        // The frames of a driver that has ended are back already.
        let _ = lend(window, some, 1);
    }
}

fn lend(window: &WindowHandle, loans: &[Loan], is_back: u64) -> Result<(), NoMemory> {
    let mut list = [0; PAGE_LIST_MAX];
    for (place, loan) in list.iter_mut().zip(loans) {
        let at = pools::show(loan.frame.0).ok_or(NoMemory)?;
        *place = at | u64::from(loan.is_written);
    }
    let arguments = [window.0, list.as_ptr() as u64, loans.len() as u64, is_back];
    ask(Call::Lend, &arguments).map(|_| ()).map_err(|_| NoMemory)
}
