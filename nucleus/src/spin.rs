//! Spin locks of the nucleus, on the word, class, statistics and checks of `libs/sync`.
//!
//! [`SpinLock`] keeps interrupts off while it is held; locks that interrupt handlers take must be of this type. [`PreemptLock`]
//! keeps only preemption off; handlers never take it. No thread may block with either held. [`NoPreempt`] only switches
//! preemption off.
use crate::{
    arch::{cpu, percpu},
    thread,
};
use core::{
    cell::UnsafeCell,
    fmt,
    marker::PhantomData,
    ops::{Deref, DerefMut},
    sync::atomic::AtomicU32,
};
use sync::{class::LockClass, spin::RawSpin};

/// Declares a lock class by its name.
macro_rules! class {
    ($name:literal) => {{
        static CLASS: sync::class::LockClass = sync::class::LockClass::new($name);
        &CLASS
    }};
}

/// The wait and wake operations of the nucleus, for the lock kit.
#[derive(Debug)]
pub struct World;

impl sync::Platform for World {
    fn wait(
        word: &AtomicU32,
        expected: u32,
        deadline_ns: Option<u64>,
        sleep: sync::Sleep,
    ) -> sync::Outcome {
        thread::wait_on(word, expected, deadline_ns, sleep)
    }
    fn wake(word: &AtomicU32, count: u32) -> u32 {
        thread::wake(word, count)
    }
    fn current() -> u64 {
        thread::current_number()
    }
    fn now_ns() -> u64 {
        crate::time::now_ns()
    }
    #[cfg(feature = "check")]
    fn held(visit: &mut dyn FnMut(&mut sync::check::HeldLocks)) {
        thread::held_locks(visit);
    }
}

/// Keeps interrupts off until dropped, and then restores their state.
#[derive(Debug)]
pub struct NoInterrupts {
    were_on: bool,
    /// A guard belongs to the processor that made it.
    not_send: PhantomData<*mut ()>,
}

impl NoInterrupts {
    /// Disables interrupts.
    #[inline]
    pub fn new() -> NoInterrupts {
        let were_on = cpu::interrupts_enabled();
        if were_on {
            cpu::disable_interrupts();
        }
        NoInterrupts { were_on, not_send: PhantomData }
    }
}

impl Default for NoInterrupts {
    #[inline]
    fn default() -> Self {
        NoInterrupts::new()
    }
}

impl Drop for NoInterrupts {
    #[inline]
    fn drop(&mut self) {
        if self.were_on {
            // SAFETY: they were on when this guard was made, and guards nest.
            unsafe { cpu::enable_interrupts() };
        }
    }
}

/// Keeps preemption off until dropped. A reschedule that was wanted meanwhile happens then.
#[derive(Debug)]
pub struct NoPreempt(PhantomData<*mut ()>);

impl NoPreempt {
    /// Disables preemption.
    #[inline]
    pub fn new() -> NoPreempt {
        percpu::preempt_disable();
        NoPreempt(PhantomData)
    }
}

impl Default for NoPreempt {
    #[inline]
    fn default() -> Self {
        NoPreempt::new()
    }
}

impl Drop for NoPreempt {
    #[inline]
    fn drop(&mut self) {
        if percpu::preempt_enable() {
            thread::reschedule_if_wanted();
        }
    }
}

/// A lock whose waiters spin. `H` is [`NoInterrupts`] or [`NoPreempt`]: its default value keeps interrupts or preemption off
/// while the lock is held.
pub struct Lock<T, H> {
    raw: RawSpin<World>,
    value: UnsafeCell<T>,
    holdoff: PhantomData<fn() -> H>,
}

/// A spin lock that keeps interrupts off while held.
pub type SpinLock<T> = Lock<T, NoInterrupts>;
/// A spin lock that keeps preemption off while held; never taken by an interrupt handler.
pub type PreemptLock<T> = Lock<T, NoPreempt>;

// SAFETY: the raw lock gives the value to one processor at a time.
unsafe impl<T: Send, H> Sync for Lock<T, H> {}
// SAFETY: a lock owns its value.
unsafe impl<T: Send, H> Send for Lock<T, H> {}

impl<T, H> Lock<T, H> {
    /// Makes a free lock of `class` around `value`.
    pub const fn new(class: &'static LockClass, value: T) -> Lock<T, H> {
        Lock { raw: RawSpin::new(class), value: UnsafeCell::new(value), holdoff: PhantomData }
    }
}

impl<T, H: Default> Lock<T, H> {
    /// Spins until the lock is taken.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> Guard<'_, T, H> {
        let holdoff = H::default();
        self.raw.lock();
        Guard { lock: self, _holdoff: holdoff }
    }

    /// Takes the lock if it is free.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> Option<Guard<'_, T, H>> {
        let holdoff = H::default();
        self.raw.try_lock().then_some(Guard { lock: self, _holdoff: holdoff })
    }
}

impl<T> SpinLock<T> {
    /// Takes the lock as [`Lock::lock`] does, with interrupts off already; they stay off.
    #[inline(always)]
    pub fn lock_with_interrupts_off(&self) -> Guard<'_, T, NoInterrupts> {
        debug_assert!(!cpu::interrupts_enabled());
        self.raw.lock();
        Guard { lock: self, _holdoff: NoInterrupts { were_on: false, not_send: PhantomData } }
    }
}

impl<T, H> fmt::Debug for Lock<T, H> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Lock").field("is_locked", &self.raw.is_locked()).finish_non_exhaustive()
    }
}

/// The right to the value while this lives.
pub struct Guard<'a, T, H> {
    lock: &'a Lock<T, H>,
    /// Dropped after the lock is released (`drop` below runs before the fields').
    _holdoff: H,
}

impl<T, H> Deref for Guard<'_, T, H> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: we hold the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T, H> DerefMut for Guard<'_, T, H> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: we hold the lock, and the guard is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T, H> Drop for Guard<'_, T, H> {
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.unlock();
    }
}

impl<T: fmt::Debug, H> fmt::Debug for Guard<'_, T, H> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(to)
    }
}
