//! [`TimedTable`]: a table behind a lock, whose next deadline is known without the lock.
use core::{
    ops::{Deref, DerefMut},
    sync::atomic::{AtomicU64, Ordering},
};
use rt::sync::{LockClass, Mutex, MutexGuard};

/// A table behind a lock. The holder of the lock publishes the table's next deadline when it lets go.
pub struct TimedTable<T> {
    table: Mutex<T>,
    next_ns: AtomicU64,
    deadline: fn(&T) -> u64,
}

impl<T> TimedTable<T> {
    /// Makes the table. `deadline` returns the time before which nothing is to do, in nanoseconds; `u64::MAX` for never.
    pub fn new(class: &'static LockClass, table: T, deadline: fn(&T) -> u64) -> TimedTable<T> {
        let next_ns = AtomicU64::new(deadline(&table));
        TimedTable { table: Mutex::new(class, table), next_ns, deadline }
    }
    /// Takes the lock.
    pub fn lock(&self) -> TimedGuard<'_, T> {
        TimedGuard { guard: self.table.lock(), of: self }
    }
    /// Returns the table's deadline in nanoseconds, as the last holder of the lock left it. Takes no lock.
    #[inline]
    pub fn next_ns(&self) -> u64 {
        self.next_ns.load(Ordering::SeqCst)
    }
}

/// A table whose lock is held.
pub struct TimedGuard<'t, T> {
    guard: MutexGuard<'t, T>,
    of: &'t TimedTable<T>,
}

impl<T> Deref for TimedGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for TimedGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T> Drop for TimedGuard<'_, T> {
    fn drop(&mut self) {
        let next_ns = (self.of.deadline)(&self.guard);
        // The lock is still held, so that no other thread stores.
        if self.of.next_ns.load(Ordering::Relaxed) != next_ns {
            self.of.next_ns.store(next_ns, Ordering::SeqCst);
        }
    }
}
