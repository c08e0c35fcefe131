//! The lock kit for components (M3): [`Mutex`], [`RwLock`], [`Event`], [`Once`].
//!
//! The algorithms are in `libs/sync`, model-checked there; this module gives them the world's
//! `wait`/`wake` (a futex on the lock's own word: plain data in, plain data out). Every lock has a
//! class, declared once as a `static` by [`lock_class!`](crate::lock_class), under whose name
//! statistics and order checks are kept.
use crate::{thread::Woken, time::Instant, world};
use core::sync::atomic::AtomicU32;
pub use sync::class::LockClass;
pub use sync::event::Ticket;
pub use sync::static_ref::StaticRef;

/// The wait and wake operations of this world, for the algorithms of `libs/sync`.
#[derive(Clone, Copy, Debug, Default)]
pub struct World;

impl sync::Platform for World {
    fn wait(
        word: &AtomicU32,
        expected: u32,
        deadline_ns: Option<u64>,
        sleep: sync::Sleep,
    ) -> sync::Outcome {
        world::thread::wait_on(word, expected, deadline_ns, sleep)
    }
    fn wake(word: &AtomicU32, count: u32) -> u32 {
        world::thread::wake(word, count)
    }
    fn current() -> u64 {
        world::thread::current()
    }
    fn now_ns() -> u64 {
        world::time::now_ns()
    }
    #[cfg(feature = "check")]
    fn held(visit: &mut dyn FnMut(&mut sync::check::HeldLocks)) {
        world::thread::held_locks(visit);
    }
}

/// A blocking mutual-exclusion lock.
pub type Mutex<T> = sync::mutex::Mutex<T, World>;
/// The guard of a locked [`Mutex`].
pub type MutexGuard<'a, T> = sync::mutex::Guard<'a, T, World>;
/// A blocking reader/writer lock; writers are preferred so that they do not starve.
pub type RwLock<T> = sync::rwlock::RwLock<T, World>;
/// The guard of an [`RwLock`] that is locked shared.
pub type ReadGuard<'a, T> = sync::rwlock::ReadGuard<'a, T, World>;
/// The guard of an [`RwLock`] that is locked exclusively.
pub type WriteGuard<'a, T> = sync::rwlock::WriteGuard<'a, T, World>;
/// A value that is initialised at its first use.
pub type Once<T> = sync::once::Once<T, World>;

/// An event to wait for (Mach's event): take a [`Ticket`], check the condition, wait with the ticket.
/// A signal between ticket and wait is never lost.
#[derive(Debug)]
pub struct Event(sync::event::RawEvent<World>);

impl Event {
    /// Makes a new event.
    pub const fn new() -> Event {
        Event(sync::event::RawEvent::new())
    }
    /// Returns a ticket. Take it before the condition is checked.
    pub fn ticket(&self) -> Ticket {
        self.0.ticket()
    }
    /// Blocks until signalled since `ticket`, or the deadline.
    pub fn wait(&self, ticket: Ticket, deadline: Option<Instant>) -> Woken {
        self.0.wait(ticket, deadline.map(|at| at.0))
    }
    /// As [`Event::wait`], until a [`kick`](crate::thread::kick) at the latest.
    pub fn wait_interruptible(&self, ticket: Ticket, deadline: Option<Instant>) -> Woken {
        self.0.wait_interruptible(ticket, deadline.map(|at| at.0))
    }
    /// Wakes every waiter. Costs one atomic step if there is none.
    pub fn signal(&self) {
        self.signal_awaited();
    }
    /// Wakes every waiter as [`Event::signal`] does. Returns whether there may have been one.
    pub fn signal_awaited(&self) -> bool {
        self.0.signal()
    }
    /// Wakes one waiter.
    pub fn signal_one(&self) {
        self.0.signal_one();
    }
}

impl Default for Event {
    fn default() -> Self {
        Event::new()
    }
}

/// Declares lock classes: `lock_class!(static PAGES = "vnode.pages");`
#[macro_export]
macro_rules! lock_class {
    ($($(#[$meta:meta])* $visibility:vis static $name:ident = $text:literal;)+) => {
        $($(#[$meta])* $visibility static $name: $crate::sync::LockClass = $crate::sync::LockClass::new($text);)+
    };
}
