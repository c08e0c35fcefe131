//! The nucleus's spin lock: a test-and-test-and-set word with class, statistics and checks ([`RawSpin`]), and the value that it
//! guards ([`Lock`]); and a plain one ([`ByteLock`]).
//!
//! Only the nucleus spins. A *hold-off* keeps interrupts or preemption off as long as the lock is held, from before the lock is
//! taken until after it is released.
#[cfg(feature = "check")]
use crate::check::{self, LockKind};
use crate::{
    Platform,
    atomic::{AtomicU32, Ordering::*, spin_loop},
    class::{ClassRef, LockClass, Wait},
};
use core::{
    cell::UnsafeCell,
    fmt,
    marker::PhantomData,
    ops::{Deref, DerefMut},
    sync::atomic::AtomicBool,
};

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

/// A spin lock of one byte, without class and checks: for what is locked at each switch or in a panic.
#[derive(Debug, Default)]
pub struct ByteLock(AtomicBool);

impl ByteLock {
    /// Makes a free lock.
    pub const fn new() -> ByteLock {
        ByteLock(AtomicBool::new(false))
    }

    /// Spins until the lock is taken. The loop is inlined too, because a call would cost the paths on which it is free the
    /// saving of registers.
    #[inline(always)]
    pub fn take(&self) {
        while self.0.swap(true, Acquire) {
            while self.0.load(Relaxed) {
                core::hint::spin_loop();
            }
        }
    }

    /// Takes the lock if it is free. Returns whether it did.
    #[inline]
    pub fn try_take(&self) -> bool {
        self.0.compare_exchange(false, true, Acquire, Relaxed).is_ok()
    }

    /// Releases the lock.
    #[inline]
    pub fn release(&self) {
        self.0.store(false, Release);
    }

    /// Returns the address of the byte. To release the lock is to store 0 there.
    #[inline(always)]
    pub fn as_ptr(&self) -> *mut u8 {
        self.0.as_ptr().cast()
    }
}

/// A value whose lock spins. The default value of `H` keeps interrupts or preemption off until it is dropped.
pub struct Lock<T, H, P: Platform> {
    raw: RawSpin<P>,
    value: UnsafeCell<T>,
    holdoff: PhantomData<fn() -> H>,
}

// SAFETY: the raw lock gives the value to one processor at a time.
unsafe impl<T: Send, H, P: Platform> Sync for Lock<T, H, P> {}
// SAFETY: a lock owns its value.
unsafe impl<T: Send, H, P: Platform> Send for Lock<T, H, P> {}

impl<T, H, P: Platform> Lock<T, H, P> {
    const_constructor! {
        /// Makes a free lock of `class` around `value`.
        pub fn new(class: &'static LockClass, value: T) -> Lock<T, H, P> {
            Lock { raw: RawSpin::new(class), value: UnsafeCell::new(value), holdoff: PhantomData }
        }
    }

    /// Spins until the lock is taken, under `holdoff`.
    #[inline(always)]
    #[track_caller]
    pub fn lock_under(&self, holdoff: H) -> Guard<'_, T, H, P> {
        self.raw.lock();
        Guard { lock: self, _holdoff: holdoff }
    }
}

impl<T, H: Default, P: Platform> Lock<T, H, P> {
    /// Spins until the lock is taken.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> Guard<'_, T, H, P> {
        self.lock_under(H::default())
    }
}

impl<T, H, P: Platform> fmt::Debug for Lock<T, H, P> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Lock").field("is_locked", &self.raw.is_locked()).finish_non_exhaustive()
    }
}

/// The right to the value while this lives.
pub struct Guard<'a, T, H, P: Platform> {
    lock: &'a Lock<T, H, P>,
    /// Dropped after the lock is released (`drop` below runs before the fields').
    _holdoff: H,
}

impl<T, H, P: Platform> Deref for Guard<'_, T, H, P> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: we hold the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T, H, P: Platform> DerefMut for Guard<'_, T, H, P> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: we hold the lock, and the guard is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T, H, P: Platform> Drop for Guard<'_, T, H, P> {
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.unlock();
    }
}

impl<T: fmt::Debug, H, P: Platform> fmt::Debug for Guard<'_, T, H, P> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(to)
    }
}
