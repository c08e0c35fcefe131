//! Intel VT-d, the IOMMU of a PC: which function of PCI reaches which memory.
//!
//! ```text
//! root table   1 a machine   256 entries of 16 bytes: the context table of a bus
//! context      1 a bus       256 entries of 16 bytes: what a function (device << 3 | function) reaches
//! window       1 a driver    2 or 3 levels of 512 entries over leaves of 512: frames lent, each at its own address
//! ```
//! A [`Unit`] is the hardware and the first two; a function reaches nothing, all of memory, or a [`Window`]. All tables of a
//! window are built with it, for all of memory, so that lending allocates nothing and cannot lack memory. An entry
//! counts in the bits that hardware ignores how often its frame is lent. Legacy mode; invalidation by a queue where interrupts are remapped ([`Route`]),
//! by registers where the hardware cannot do that.
//! The owner of a unit keeps others from it meanwhile; a window is changed by any number of threads at once, entry by entry.
//! Source: Intel Virtualization Technology for Directed I/O, revision 3.4, chapters 3, 6, 7, 9 and 11.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod entries;
mod interrupts;
mod unit;

#[cfg(test)]
mod tests;

pub use interrupts::Route;
pub use unit::{Reach, Unit, Window};

use core::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Entries of a table.
pub const ENTRIES: usize = 512;
/// A frame as a table.
pub type Table = [AtomicU64; ENTRIES];

/// The machine beneath the logic here.
pub trait Machine {
    /// Reads a register of `width` (4, 8) bytes.
    fn read(&self, register: usize, width: usize) -> u64;
    /// Writes one.
    fn write(&self, register: usize, width: usize, value: u64);
    /// A new frame, zeroed and flushed; `None` where there is no memory.
    fn allocate(&self) -> Option<u32>;
    /// Gives back a frame that [`Machine::allocate`] gave.
    fn free(&self, frame: u32);
    /// The memory of such a frame.
    fn table(&self, frame: u32) -> &Table;
    /// Writes `entry` out of the processor's caches.
    fn flush(&self, entry: &AtomicU64);
}

/// The accesses of a device to a frame that is lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Access {
    /// Read it.
    Read = 1,
    /// Write it.
    Write = 2,
    /// Both.
    Both = 3,
}

/// An access that the hardware stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The function: `bus << 8 | device << 3 | function`.
    pub function: u16,
    /// The page that it aimed at, or the entry of an interrupt message that was refused.
    pub address: u64,
    /// It wrote.
    pub is_write: bool,
    /// Why not (chapter 7.2.3).
    pub reason: u8,
}

/// Reasons from here on are those of interrupt messages.
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

/// Sets entry `index` of the table in `frame`, so that hardware sees it.
fn set(machine: &impl Machine, is_coherent: bool, frame: u32, index: usize, value: u64) {
    let Some(entry) = machine.table(frame).get(index) else { return };
    entry.store(value, Relaxed);
    if !is_coherent {
        machine.flush(entry);
    }
}

fn get(machine: &impl Machine, frame: u32, index: usize) -> u64 {
    machine.table(frame).get(index).map_or(0, |entry| entry.load(Relaxed))
}
