//! [`ByTime`]: things that are looked at after a time that is the same for all.
use alloc::collections::VecDeque;
use core::sync::atomic::{AtomicU64, Ordering};
use rt::sync::{LockClass, Mutex};

/// Things, each behind the time at which it is looked at, in order. A new one comes last, but for the time between the reading of the
/// clock and the taking of the lock.
pub(crate) struct ByTime<T> {
    entries: Mutex<VecDeque<(u64, T)>>,
    earliest_ns: AtomicU64,
}

impl<T> ByTime<T> {
    pub(super) fn new(class: &'static LockClass) -> ByTime<T> {
        let entries = Mutex::new(class, VecDeque::new());
        ByTime { entries, earliest_ns: AtomicU64::new(u64::MAX) }
    }
    /// Returns the first time, in nanoseconds; `u64::MAX` for none.
    pub(super) fn earliest_ns(&self) -> u64 {
        self.earliest_ns.load(Ordering::SeqCst)
    }
    /// Returns the number of things.
    pub(crate) fn count(&self) -> usize {
        self.entries.lock().len()
    }
    /// Adds a thing that is looked at when `deadline_ns` comes.
    pub(super) fn add(&self, deadline_ns: u64, thing: T) {
        let mut entries = self.entries.lock();
        if is_last(&entries, deadline_ns) {
            return self.push(&mut entries, (deadline_ns, thing));
        }
        let place = entries.partition_point(|(at, _)| *at <= deadline_ns);
        entries.insert(place, (deadline_ns, thing));
        self.note_earliest(&entries);
    }
    /// Does the same if no other comes behind it, and there are fewer than `most`. Returns whether it did.
    pub(super) fn add_last(&self, deadline_ns: u64, thing: T, most: usize) -> bool {
        let mut entries = self.entries.lock();
        let is_taken = is_last(&entries, deadline_ns) && entries.len() < most;
        if is_taken {
            self.push(&mut entries, (deadline_ns, thing));
        }
        is_taken
    }
    /// Takes a thing whose time has come.
    pub(super) fn take_due(&self, now_ns: u64) -> Option<T> {
        let mut entries = self.entries.lock();
        let (_, thing) = entries.pop_front_if(|(at, _)| *at <= now_ns)?;
        self.note_earliest(&entries);
        Some(thing)
    }
    fn push(&self, entries: &mut VecDeque<(u64, T)>, entry: (u64, T)) {
        entries.push_back(entry);
        if entries.len() == 1 {
            self.note_earliest(entries);
        }
    }
    fn note_earliest(&self, entries: &VecDeque<(u64, T)>) {
        let earliest = entries.front().map_or(u64::MAX, |(at, _)| *at);
        self.earliest_ns.store(earliest, Ordering::SeqCst);
    }
}

/// Returns whether nothing is looked at after `deadline_ns`.
fn is_last<T>(entries: &VecDeque<(u64, T)>, deadline_ns: u64) -> bool {
    entries.back().is_none_or(|(at, _)| *at <= deadline_ns)
}
