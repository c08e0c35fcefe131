//! The data of clocks and timers. The operations are in [`super::clock`] and [`super::timers`].
use alloc::collections::BTreeMap;

/// Nanoseconds in a second.
pub const SECOND_NS: u64 = 1_000_000_000;

/// A clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The time of day.
    Realtime,
    /// The time since boot.
    Monotonic,
    /// Processor time of a process, by id.
    Process(u32),
    /// Processor time of a thread, by id.
    Thread(u32),
}

/// Names an entry of the heap while it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub(super) slot: u32,
    pub(super) serial: u64,
}

/// The state of a timer on some clock, armed or not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Schedule {
    /// Time of the next expiration on the timer's clock.
    pub deadline_ns: Option<u64>,
    /// Time between expirations; 0 if there is only one.
    pub interval_ns: u64,
    pub(super) token: Option<Token>,
}

/// Receiver of a POSIX timer's signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notify {
    /// No signal is sent.
    None,
    /// The process gets this signal.
    Process(u8),
    /// This thread gets this signal.
    Thread(u32, u8),
}

/// A POSIX timer.
#[derive(Clone, Copy, Debug)]
pub struct PosixTimer {
    /// The clock of the timer.
    pub clock: Clock,
    /// The clock of its deadline: a relative deadline does not move when the wall clock is set.
    pub base: Clock,
    /// The receiver of its signal.
    pub notify: Notify,
    /// `si_value`.
    pub value: u64,
    /// Number of expirations beyond the one whose signal was taken last.
    pub overrun: u32,
    /// The schedule of its expirations.
    pub schedule: Schedule,
}

/// The timers of a process.
#[derive(Default)]
pub struct ProcessTimers {
    pub(super) interval: [Schedule; 3],
    pub(super) posix: BTreeMap<i32, PosixTimer>,
    /// The id to try first for the next POSIX timer, so that a signal that outlives its timer is not taken for
    /// another's.
    pub(super) next_id: i32,
    pub(super) limit: Schedule,
}

impl ProcessTimers {
    /// Makes timers of which none is armed.
    pub fn new() -> ProcessTimers {
        ProcessTimers::default()
    }
}
