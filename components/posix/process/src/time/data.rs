//! The data of clocks and timers. The operations are in [`super::clock`] and [`super::timers`].
use alloc::collections::BTreeMap;

/// Nanoseconds of a second.
pub const SECOND_NS: u64 = 1_000_000_000;

/// A clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Time of day.
    Realtime,
    /// Since boot.
    Monotonic,
    /// Processor time of a process, by id.
    Process(u32),
    /// Processor time of a thread, by id.
    Thread(u32),
}

/// Names an entry of the heap, for as long as that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub(super) slot: u32,
    pub(super) serial: u64,
}

/// A timer that is armed or not, on some clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Schedule {
    /// Next expiry on the timer's clock.
    pub deadline_ns: Option<u64>,
    /// Time between expiries, 0 for one only.
    pub interval_ns: u64,
    pub(super) token: Option<Token>,
}

/// Receiver of a POSIX timer's signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notify {
    /// Nobody.
    None,
    /// The process, by this signal.
    Process(u8),
    /// This thread, by this signal.
    Thread(u32, u8),
}

/// A POSIX timer.
#[derive(Clone, Copy, Debug)]
pub struct PosixTimer {
    /// Its clock.
    pub clock: Clock,
    /// The clock its deadline counts on: a relative one is not moved by setting the wall clock.
    pub base: Clock,
    /// The receiver of its signal.
    pub notify: Notify,
    /// `si_value`.
    pub value: u64,
    /// Expiries beyond the one whose signal was taken last.
    pub overrun: u32,
    /// When it expires.
    pub schedule: Schedule,
}

/// Timers of a process.
#[derive(Default)]
pub struct ProcessTimers {
    pub(super) interval: [Schedule; 3],
    pub(super) posix: BTreeMap<i32, PosixTimer>,
    /// The id to try first for the next POSIX timer: a signal that outlives its timer is not taken for another's.
    pub(super) next_id: i32,
    pub(super) limit: Schedule,
}

impl ProcessTimers {
    /// None armed.
    pub fn new() -> ProcessTimers {
        ProcessTimers::default()
    }
}
