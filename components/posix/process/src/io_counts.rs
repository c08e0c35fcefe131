//! Counts of the I/O of tasks, as reported by getrusage(2) and `/proc/PID/io` (proc(5)).
use core::{
    array,
    ops::AddAssign,
    sync::atomic::{AtomicU64, Ordering},
};

/// The counters, in the order of `/proc/PID/io`.
#[derive(Clone, Copy, Debug)]
pub enum Count {
    /// Bytes returned by calls like read(2).
    CharactersRead,
    /// Bytes written by calls like write(2).
    CharactersWritten,
    /// Such calls.
    ReadCalls,
    /// Such calls.
    WriteCalls,
    /// Bytes that had to be read from storage.
    BytesRead,
    /// Bytes of pages that were to be written to storage.
    BytesWritten,
    /// Bytes of written pages that were dropped before they were stored.
    BytesCancelled,
}

const COUNTS: usize = 7;
/// The names of the counts in proc(5).
pub const NAMES: [&str; COUNTS] =
    ["rchar", "wchar", "syscr", "syscw", "read_bytes", "write_bytes", "cancelled_write_bytes"];

/// The counts of one task; only its own thread adds to them.
#[derive(Debug, Default)]
pub struct IoCounts([AtomicU64; COUNTS]);

/// The values of the counts, indexed by [`Count`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Io(pub [u64; COUNTS]);

impl IoCounts {
    /// Makes counts of zero.
    pub const fn new() -> IoCounts {
        IoCounts([const { AtomicU64::new(0) }; COUNTS])
    }
    pub(crate) fn add(&self, count: Count, more: u64) {
        if let Some(place) = self.0.get(count as usize) {
            place.store(place.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        }
    }
    /// Counts a call that read `bytes`.
    pub fn note_read(&self, bytes: u64) {
        self.add(Count::CharactersRead, bytes);
        self.add(Count::ReadCalls, 1);
    }
    /// Counts a call that wrote `bytes`.
    pub fn note_written(&self, bytes: u64) {
        self.add(Count::CharactersWritten, bytes);
        self.add(Count::WriteCalls, 1);
    }
    /// Returns the present counts.
    pub fn get(&self) -> Io {
        Io(array::from_fn(|at| self.0.get(at).map_or(0, |count| count.load(Ordering::Relaxed))))
    }
}

impl Io {
    /// Adds to one counter.
    pub(crate) fn add(&mut self, count: Count, more: u64) {
        if let Some(place) = self.0.get_mut(count as usize) {
            *place = place.wrapping_add(more);
        }
    }
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
