//! The spinning part of the nucleus's lock: a test-and-test-and-set word with class, statistics
//! and checks.
//!
//! Only the nucleus spins. Its guard keeps interrupts and preemption off as long as the lock is
//! held, from before `lock` until after `unlock`.
#[cfg(feature = "check")]
use crate::check::{self, LockKind};
use crate::{
    Platform,
    atomic::{AtomicU32, Ordering::*, spin_loop},
    class::{ClassRef, LockClass, Wait},
};
use core::marker::PhantomData;

/// The word and the class of a spin lock. It has no data of its own.
#[derive(Debug)]
pub struct RawSpin<P: Platform> {
    word: AtomicU32,
    class: ClassRef,
    platform: PhantomData<fn() -> P>,
}

impl<P: Platform> RawSpin<P> {
    const_constructor! {
        /// Makes a free lock of `class`.
        pub fn new(class: &'static LockClass) -> RawSpin<P> {
            RawSpin { word: AtomicU32::new(0), class: ClassRef::new(class), platform: PhantomData }
        }
    }

    /// Spins until the lock is taken. Interrupts whose handlers take it must be off.
    ///
    /// # Panics
    /// With `check`: on re-taking or an order inversion.
    #[inline]
    #[track_caller]
    pub fn lock(&self) {
        #[cfg(feature = "check")]
        check::before::<P>(self.address(), self.class.class);
        if self.take() {
            self.class.count_hit();
        } else {
            self.lock_contended();
        }
        #[cfg(feature = "check")]
        check::acquired::<P>(self.address(), self.class.class, LockKind::Spin);
    }

    /// Takes the lock if it is free.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> bool {
        if !self.take() {
            self.class.count_refusal();
            return false;
        }
        self.class.count_hit();
        #[cfg(feature = "check")]
        check::acquired::<P>(self.address(), self.class.class, LockKind::Spin);
        true
    }

    /// Releases the lock, which the caller has.
    ///
    /// # Panics
    /// With `check`: if the caller does not have it.
    #[inline]
    #[track_caller]
    pub fn unlock(&self) {
        #[cfg(feature = "check")]
        check::released::<P>(self.address(), self.class.class);
        self.word.store(0, Release);
    }

    /// Returns whether the lock is taken: a hint.
    pub fn is_locked(&self) -> bool {
        self.word.load(Relaxed) != 0
    }

    #[inline]
    fn take(&self) -> bool {
        self.word.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }

    #[cold]
    fn lock_contended(&self) {
        let wait = Wait::<P>::begin(self.class);
        loop {
            while self.is_locked() {
                spin_loop();
            }
            if self.take() {
                return wait.end();
            }
        }
    }

    #[cfg(feature = "check")]
    fn address(&self) -> usize {
        (&raw const self.word).addr()
    }
}
