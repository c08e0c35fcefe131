//! TIME-WAIT: the small state that is left of a connection, with a bound on their number.
use super::claims::PortClaim;
use crate::service::kept::flows::KeptSlot;
use alloc::{boxed::Box, collections::VecDeque, sync::Arc};
use core::sync::atomic::{AtomicU64, Ordering};
use interfaces::sockets::{SocketFamilies, StreamOptions};
use rt::{lock_class, sync::Mutex};
use tcp::{Flow, TimeWait};

lock_class! {
    static TABLE = "inet.tcp.waiting";
    pub(super) static WAITING = "inet.tcp.time_wait";
    pub(super) static WAITING_KEPT = "inet.tcp.time_wait.kept";
}

/// A connection in TIME-WAIT.
pub(crate) struct Waiting {
    pub(crate) flow: Flow,
    pub(super) hash: u64,
    pub(super) claim: PortClaim,
    /// The options of the socket, unless they are those that a socket begins with.
    pub(super) options: Option<Box<StreamOptions>>,
    /// `None` after its end.
    pub(super) state: Mutex<Option<TimeWait>>,
    /// The slot for a successor, until the end.
    pub(super) kept: Mutex<Option<KeptSlot>>,
}

/// Connections in TIME-WAIT, each behind the time at which it is looked at, in order.
type ByTime = VecDeque<(u64, Arc<Waiting>)>;

/// The connections in TIME-WAIT, by the time at which they are looked at. All wait equally long, so a new one comes last, but for the
/// time between the reading of the clock and the taking of the lock.
pub(crate) struct WaitingTable {
    by_time: Mutex<ByTime>,
    earliest_ns: AtomicU64,
}

impl WaitingTable {
    pub(crate) fn new() -> WaitingTable {
        let by_time = Mutex::new(&TABLE, VecDeque::new());
        WaitingTable { by_time, earliest_ns: AtomicU64::new(u64::MAX) }
    }
    /// Returns the first time.
    pub(crate) fn earliest_ns(&self) -> u64 {
        self.earliest_ns.load(Ordering::SeqCst)
    }
    /// Returns whether there are fewer than `most` (`tcp_max_tw_buckets`). Further ones end at once, as on Linux.
    pub(super) fn has_room(&self, most: usize) -> bool {
        self.by_time.lock().len() < most
    }
    /// Adds one that is looked at when `deadline_ns` comes.
    pub(super) fn add(&self, deadline_ns: u64, waiting: Arc<Waiting>) {
        let mut by_time = self.by_time.lock();
        let is_last = by_time.back().is_none_or(|(at, _)| *at <= deadline_ns);
        if is_last && !by_time.is_empty() {
            // The first one stays what it is.
            return by_time.push_back((deadline_ns, waiting));
        }
        let place = by_time.partition_point(|(at, _)| *at <= deadline_ns);
        by_time.insert(place, (deadline_ns, waiting));
        self.note_earliest(&by_time);
    }
    fn note_earliest(&self, by_time: &ByTime) {
        let earliest = by_time.front().map_or(u64::MAX, |(at, _)| *at);
        self.earliest_ns.store(earliest, Ordering::SeqCst);
    }
    /// Takes one whose time has come.
    pub(super) fn take_due(&self, now_ns: u64) -> Option<Arc<Waiting>> {
        let mut by_time = self.by_time.lock();
        let is_due = by_time.front().is_some_and(|(at, _)| *at <= now_ns);
        let (_, waiting) = if is_due { by_time.pop_front() } else { None }?;
        self.note_earliest(&by_time);
        Some(waiting)
    }
    /// Returns the number of entries, also of those that ended before their time.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.by_time.lock().len()
    }
}

impl Waiting {
    /// Returns the families of the socket that it was.
    pub(super) fn families(&self) -> SocketFamilies {
        self.claim.families
    }
    /// Returns the time of its end, in nanoseconds; `None` after that.
    pub(super) fn deadline_ns(&self) -> Option<u64> {
        self.state.lock().as_ref().map(TimeWait::deadline)
    }
}
