//! Bytes and calls of tasks' I/O, as getrusage(2) and `/proc/PID/io` tell it (proc(5)).
use core::{
    array,
    ops::AddAssign,
    sync::atomic::{AtomicU64, Ordering},
};

/// The counters, in the order of `/proc/PID/io`.
#[derive(Clone, Copy, Debug)]
pub enum Count {
    /// Bytes that calls of the kind of read(2) answered.
    CharactersRead,
    /// Bytes that calls of the kind of write(2) took.
    CharactersWritten,
    /// Such calls.
    ReadCalls,
    /// Such calls.
    WriteCalls,
    /// Bytes that had to be read from storage.
    BytesRead,
    /// Bytes of pages that were to be written to storage.
    BytesWritten,
    /// Those of them that went before they were.
    BytesCancelled,
}

const COUNTS: usize = 7;
/// Their names in proc(5).
pub const NAMES: [&str; COUNTS] =
    ["rchar", "wchar", "syscr", "syscw", "read_bytes", "write_bytes", "cancelled_write_bytes"];

/// Counts of one task, whose own thread alone adds to them.
#[derive(Debug, Default)]
pub struct IoCounts([AtomicU64; COUNTS]);

/// Numbers by [`Count`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Io(pub [u64; COUNTS]);

impl IoCounts {
    /// Nothing yet.
    pub const fn new() -> IoCounts {
        IoCounts([const { AtomicU64::new(0) }; COUNTS])
    }
    pub(crate) fn add(&self, count: Count, more: u64) {
        if let Some(place) = self.0.get(count as usize) {
            place.store(place.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        }
    }
    /// A call read `bytes`.
    pub fn note_read(&self, bytes: u64) {
        self.add(Count::CharactersRead, bytes);
        self.add(Count::ReadCalls, 1);
    }
    /// A call wrote `bytes`.
    pub fn note_written(&self, bytes: u64) {
        self.add(Count::CharactersWritten, bytes);
        self.add(Count::WriteCalls, 1);
    }
    /// The counts now.
    pub fn get(&self) -> Io {
        Io(array::from_fn(|at| self.0.get(at).map_or(0, |count| count.load(Ordering::Relaxed))))
    }
}

impl Io {
    /// Returns the value of one counter.
    pub fn of(&self, count: Count) -> u64 {
        self.0.get(count as usize).copied().unwrap_or_default()
    }
}

impl AddAssign for Io {
    fn add_assign(&mut self, more: Io) {
        self.0.iter_mut().zip(more.0).for_each(|(sum, more)| *sum = sum.wrapping_add(more));
    }
}
