//! [`OrphanTable`]: connections in FIN-WAIT-2 that no program holds, by the time of their end.
//!
//! All wait equally long, and the FIN of most comes soon. So an entry is put behind the others, and stays when its connection ends:
//! when its time comes, the connection is looked up. That is cheaper than a timer that is armed and ended again.
use alloc::collections::VecDeque;
use core::sync::atomic::{AtomicU64, Ordering};
use rt::{lock_class, sync::Mutex};
use tcp::Flow;

lock_class! {
    static ORPHANS = "inet.tcp.orphans";
}

/// Entries at most. Further connections have a timer of their own.
const ENTRIES_MAX: usize = 16_384;

/// A connection in FIN-WAIT-2 that no program holds, or that was.
pub(super) struct Orphan {
    deadline_ns: u64,
    pub(super) flow: Flow,
    pub(super) hash: u64,
}

/// The connections in FIN-WAIT-2 that no program holds, and those that were.
pub(crate) struct OrphanTable {
    by_time: Mutex<VecDeque<Orphan>>,
    earliest_ns: AtomicU64,
}

impl OrphanTable {
    pub(crate) fn new() -> OrphanTable {
        let by_time = Mutex::new(&ORPHANS, VecDeque::new());
        OrphanTable { by_time, earliest_ns: AtomicU64::new(u64::MAX) }
    }
    /// Returns the first time.
    pub(crate) fn earliest_ns(&self) -> u64 {
        self.earliest_ns.load(Ordering::SeqCst)
    }
    /// Adds a connection that is looked at when `deadline_ns` comes. Returns whether it did: the others come before it, and there are
    /// not too many.
    pub(super) fn add(&self, deadline_ns: u64, (flow, hash): (Flow, u64)) -> bool {
        let mut by_time = self.by_time.lock();
        let is_last = by_time.back().is_none_or(|last| last.deadline_ns <= deadline_ns);
        if !is_last || by_time.len() >= ENTRIES_MAX {
            return false;
        }
        if by_time.is_empty() {
            self.earliest_ns.store(deadline_ns, Ordering::SeqCst);
        }
        by_time.push_back(Orphan { deadline_ns, flow, hash });
        true
    }
    /// Takes one whose time has come.
    pub(super) fn take_due(&self, now_ns: u64) -> Option<Orphan> {
        let mut by_time = self.by_time.lock();
        let is_due = by_time.front().is_some_and(|first| first.deadline_ns <= now_ns);
        let first = if is_due { by_time.pop_front() } else { None }?;
        let earliest = by_time.front().map_or(u64::MAX, |first| first.deadline_ns);
        self.earliest_ns.store(earliest, Ordering::SeqCst);
        Some(first)
    }
}
