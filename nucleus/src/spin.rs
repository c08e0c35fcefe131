//! The hold-offs of the nucleus's spin locks, which are those of `libs/sync`.
//!
//! [`SpinLock`] keeps interrupts off while it is held; locks that interrupt handlers take must be of this type. [`PreemptLock`]
//! keeps only preemption off; handlers never take it. No thread may block with either held. [`NoPreempt`] only switches
//! preemption off.
use crate::{
    arch::{cpu, percpu},
    thread,
};
use core::{marker::PhantomData, sync::atomic::AtomicU32};
use sync::spin;

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

    /// Keeps interrupts off, which are off already.
    #[inline(always)]
    pub fn kept() -> NoInterrupts {
        debug_assert!(!cpu::interrupts_enabled());
        NoInterrupts { were_on: false, not_send: PhantomData }
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

/// A spin lock that keeps interrupts off while held.
pub type SpinLock<T> = spin::Lock<T, NoInterrupts, World>;
/// A spin lock that keeps preemption off while held; never taken by an interrupt handler.
pub type PreemptLock<T> = spin::Lock<T, NoPreempt, World>;
