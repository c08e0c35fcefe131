//! Devices for rt: the owners of PCI functions, ports and register regions, and the mappings of these.
//!
//! A function, a port and a transport have one owner at a time. Register regions stay mapped once mapped (uncached,
//! not executable), so a restarted driver finds them again. Each lock here is a leaf.
use crate::{
    arch::{acpi, cpu, pci},
    irq::Interrupt,
    memory, params,
    spin::SpinLock,
    thread, time,
};
use alloc::vec::Vec;
use firmware::{acpi::Line, parameters};
pub use program::{DeviceError, MmioDevice};
use x86::port::Owners;
pub use x86::port::holds;

static MAPPED: SpinLock<Vec<Mapped>> = SpinLock::new(class!("nucleus.device.mapped"), Vec::new());
static PORTS: SpinLock<Owners> = SpinLock::new(class!("nucleus.device.ports"), Owners::new());
static GRANTED_LINES: SpinLock<Vec<u32>> =
    SpinLock::new(class!("nucleus.device.granted_lines"), Vec::new());

#[derive(Clone, Copy, Debug)]
struct Mapped {
    physical: u64,
    bytes: u64,
    at: u64,
}

/// Mapped registers. Address and length stay valid as long as the system runs.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    at: u64,
    bytes: usize,
}

impl Registers {
    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    fn address(&self, offset: usize, width: usize) -> Option<usize> {
        let end = offset.checked_add(width)?;
        (end <= self.bytes && offset.is_multiple_of(width)).then_some(self.at as usize + offset)
    }
    /// Reads `width` (1, 2, 4, 8) bytes; all ones if out of range or misaligned.
    #[inline]
    pub fn read(&self, offset: usize, width: usize) -> u64 {
        let Some(at) = self.address(offset, width) else { return u64::MAX };
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
    /// Writes `width` (1, 2, 4, 8) bytes; has no effect if out of range or misaligned.
    #[inline]
    pub fn write(&self, offset: usize, width: usize, value: u64) {
        let Some(at) = self.address(offset, width) else { return };
        match width {
            // SAFETY: mapped registers, in range and aligned (checked); a device that is trusted with DMA.
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

/// Maps device registers, or finds the mapping made before.
pub fn map(physical: u64, bytes: u64) -> Registers {
    const PAGE: u64 = 4096;
    let covers = |mapped: &Mapped| {
        mapped.physical <= physical && physical + bytes <= mapped.physical + mapped.bytes
    };
    let known = MAPPED.lock().iter().find(|mapped| covers(mapped)).copied();
    let mapped = known.unwrap_or_else(|| {
        let start = physical / PAGE * PAGE;
        let length = (physical + bytes).next_multiple_of(PAGE) - start;
        let mapped =
            Mapped { physical: start, bytes: length, at: memory::map_device(start, length) };
        MAPPED.lock().push(mapped);
        mapped
    });
    Registers { at: mapped.at + (physical - mapped.physical), bytes: bytes as usize }
}

/// Returns every virtio-mmio transport: those of the DSDT, and those of the parameters
/// `virtio_mmio.device=SIZE@BASE:LINE`.
pub fn transports() -> Vec<MmioDevice> {
    let told = acpi::tables().transports.as_slice().iter().copied();
    told.chain(parameters::transports(params::command_line())).collect()
}

/// Maps the registers of a transport.
///
/// # Errors
/// [`DeviceError::NotFound`] if no transport lies there.
pub fn open_transport(base: u64, bytes: u64) -> Result<Registers, DeviceError> {
    let known = transports().into_iter().any(|found| found.base == base && bytes <= found.bytes);
    if known { Ok(map(base, bytes)) } else { Err(DeviceError::NotFound) }
}

/// Resets a virtio device by its status register, `width` bytes at `physical`. Returns whether the device reports
/// that it is reset; it then reaches no memory (VIRTIO 1.2, 2.4).
pub fn reset(physical: u64, width: usize) -> bool {
    let status = map(physical, width as u64);
    status.write(0, width, 0);
    let is_done = wait_until(|| status.read(0, width) == 0);
    if !is_done {
        log::error!("the device at {physical:#x} does not reset");
    }
    is_done
}

/// Waits up to a second until `is_so` returns `true`. Returns whether it did.
pub fn wait_until(is_so: impl Fn() -> bool) -> bool {
    const PATIENCE_NS: u64 = 1_000_000_000;
    let until_ns = time::now_ns() + PATIENCE_NS;
    while !is_so() {
        if time::now_ns() > until_ns {
            return false;
        }
        thread::yield_now();
    }
    true
}

/// Resets the transport at `base` and waits until that is done. It has no bus mastering, so only the reset ends its
/// access to memory.
pub fn quiesce_transport(base: u64) {
    const STATUS: u64 = 0x70;
    while !reset(base + STATUS, 4) {}
}

/// Maps a memory BAR.
///
/// # Errors
/// [`DeviceError::NotFound`] if it is empty or of ports.
pub fn map_bar(address: u16, index: u8) -> Result<Registers, DeviceError> {
    let (base, bytes) = pci::find(address)?.bar(index)?;
    Ok(map(base, bytes))
}

/// Binds MSI-X table entry `entry` to a new interrupt and turns MSI-X on.
///
/// # Errors
/// [`DeviceError::NotFound`] if there is no such entry, `Refused` if vectors ran out.
pub fn bind_msix(address: u16, entry: u16) -> Result<Interrupt, DeviceError> {
    let function = pci::find(address)?;
    let at = pci::msix_entry(&pci::Ports, &function, entry).ok_or(DeviceError::NotFound)?;
    let registers = map(at, 16);
    let source = u32::from(address) << 16 | u32::from(entry);
    let (interrupt, message) =
        Interrupt::message(source, Some(address)).ok_or(DeviceError::Refused)?;
    let words = [message.address as u32, (message.address >> 32) as u32, message.data, 0];
    for (index, word) in words.into_iter().enumerate() {
        registers.write(index * 4, 4, u64::from(word));
    }
    pci::msix_enable(&pci::Ports, address);
    Ok(interrupt)
}

/// Allows components to open `count` ports from `first`.
pub fn grant_ports(first: u16, count: u16) {
    PORTS.lock().grant((first, count));
}

/// Allows components to open `line`.
pub fn grant_line(line: u32) {
    GRANTED_LINES.lock().push(line);
}

/// Takes an interrupt line; a transport's needs no grant.
///
/// # Errors
/// [`DeviceError::Refused`] if it was not granted, [`DeviceError::NotFound`] if no controller
/// has it or vectors ran out.
pub fn open_line(line: u32) -> Result<Interrupt, DeviceError> {
    if !is_transport(line) && !GRANTED_LINES.lock().contains(&line) {
        return Err(DeviceError::Refused);
    }
    take_line(line)
}

fn is_transport(line: u32) -> bool {
    transports().iter().any(|found| found.interrupt == line)
}

/// Takes an interrupt line for a caller that was granted it. The line of a transport is level-triggered.
///
/// # Errors
/// [`DeviceError::NotFound`] if no controller has it or vectors ran out.
pub fn take_line(line: u32) -> Result<Interrupt, DeviceError> {
    let told = acpi::tables().line(line);
    let how = Line { is_level: told.is_level || is_transport(line), ..told };
    Interrupt::line(line, how).ok_or(DeviceError::NotFound)
}

/// Takes `count` ports from `first`.
///
/// # Errors
/// [`DeviceError::Refused`] if one was not granted, or the nucleus or another has it.
pub fn open_ports(first: u16, count: u16) -> Result<(), DeviceError> {
    PORTS.lock().take_granted((first, count)).then_some(()).ok_or(DeviceError::Refused)
}

/// Takes `count` ports from `first` for a caller that was granted them.
///
/// # Errors
/// [`DeviceError::Refused`] if the nucleus or another has one.
pub fn take_ports(first: u16, count: u16) -> Result<(), DeviceError> {
    PORTS.lock().take((first, count)).then_some(()).ok_or(DeviceError::Refused)
}

/// Releases ports.
pub fn close_ports(first: u16, count: u16) {
    PORTS.lock().give_back((first, count));
}

/// Reads `width` (1, 2, else 4) bytes from a port that the caller opened.
pub fn read_port(port: u16, width: u8) -> u32 {
    match width {
        // SAFETY: a port of a device that a component was given; the nucleus's own were refused.
        1 => u32::from(unsafe { cpu::in8(port) }),
        // SAFETY: as above.
        2 => u32::from(unsafe { cpu::in16(port) }),
        // SAFETY: as above.
        _ => unsafe { cpu::in32(port) },
    }
}

/// Writes `width` (1, 2, else 4) bytes to a port that the caller opened.
pub fn write_port(port: u16, width: u8, value: u32) {
    match width {
        // SAFETY: as `read_port`; components with ports are trusted with their devices.
        1 => unsafe { cpu::out8(port, value as u8) },
        // SAFETY: as above.
        2 => unsafe { cpu::out16(port, value as u16) },
        // SAFETY: as above.
        _ => unsafe { cpu::out32(port, value) },
    }
}
