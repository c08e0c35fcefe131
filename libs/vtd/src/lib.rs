//! Intel VT-d, the IOMMU of a PC: it limits the memory that each PCI function reaches.
//!
//! ```text
//! root table   1 a machine   256 entries of 16 bytes: the context table of a bus
//! context      1 a bus       256 entries of 16 bytes: the memory of a function (device << 3 | function)
//! window       1 a driver    2 or 3 levels of 512 entries over leaves of 512: frames lent, each at its own address
//! ```
//! A [`Unit`] is the hardware and the first two; a function reaches nothing, all of memory, or a [`FrameWindow`]. All tables of a
//! window are built with it, for all of memory, so that lending allocates nothing and cannot lack memory. An entry counts the
//! loans of its frame in bits that hardware ignores. The unit works in legacy mode. If interrupts are remapped ([`Route`]) it
//! is flushed by the queue, otherwise by registers. The owner of a unit keeps other threads from it; a window may be changed by
//! any number of threads at once, entry by entry. Source: Intel Virtualization Technology for Directed I/O, revision 3.4,
//! chapters 3, 6, 7, 9 and 11.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod entries;
mod interrupts;
mod unit;

#[cfg(test)]
mod tests;

pub use interrupts::Route;
pub use unit::{FrameWindow, Reach, Unit};

use core::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Entries of a table.
pub const ENTRIES: usize = 512;
/// The contents of a frame that is a table.
pub type TranslationTable = [AtomicU64; ENTRIES];

/// The machine that this library works on.
pub trait Machine {
    /// Reads a register of `width` (4, 8) bytes.
    fn read(&self, register: usize, width: usize) -> u64;
    /// Writes a register.
    fn write(&self, register: usize, width: usize, value: u64);
    /// Allocates a frame, zeroed and flushed; `None` if there is no memory.
    fn allocate(&self) -> Option<u32>;
    /// Frees a frame from [`Machine::allocate`].
    fn free(&self, frame: u32);
    /// Returns the memory of such a frame.
    fn table(&self, frame: u32) -> &TranslationTable;
    /// Flushes `entry` from the processor's caches.
    fn flush(&self, entry: &AtomicU64);
}

/// The accesses that a device may make to a lent frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Access {
    /// The device may read the frame.
    Read = 1,
    /// The device may write the frame.
    Write = 2,
    /// The device may read and write the frame.
    Both = 3,
}

/// An access that the hardware blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The function: `bus << 8 | device << 3 | function`.
    pub function: u16,
    /// The page of the access, or the entry of a refused interrupt message.
    pub address: u64,
    /// The access was a write.
    pub is_write: bool,
    /// Reason of the refusal (chapter 7.2.3).
    pub reason: u8,
}

/// First of the reasons that belong to interrupt messages.
const INTERRUPTS: u8 = 0x20;

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { function, address, is_write, reason } = *self;
        let (bus, device, number) = (function >> 8, function >> 3 & 31, function & 7);
        let access = match reason {
            INTERRUPTS.. => "interrupt message",
            _ if is_write => "write",
            _ => "read",
        };
        write!(
            f,
            "{access} of {address:#x} by device {bus:02x}:{device:02x}.{number}, reason {reason}"
        )
    }
}

/// The way in which the hardware reads its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coherency {
    /// It reads through the caches of the processors.
    Cached,
    /// It reads memory, so a changed entry must be flushed out of the caches.
    Uncached,
}

/// Sets entry `index` of the table in `frame`, so that the hardware sees it.
fn set(machine: &impl Machine, coherency: Coherency, frame: u32, index: usize, value: u64) {
    let Some(entry) = machine.table(frame).get(index) else { return };
    entry.store(value, Relaxed);
    if coherency == Coherency::Uncached {
        machine.flush(entry);
    }
}

fn get(machine: &impl Machine, frame: u32, index: usize) -> u64 {
    machine.table(frame).get(index).map_or(0, |entry| entry.load(Relaxed))
}
