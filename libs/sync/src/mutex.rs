//! A blocking mutual-exclusion lock on one word.
//!
//! States: free, taken, taken with (perhaps) waiters. Uncontended lock and unlock are one atomic
//! step each. Unlock wakes one waiter, which takes the lock as "with waiters", since it cannot know
//! whether it was the last. Not fair: a running thread may overtake a woken one. Source: Drepper,
//! "Futexes Are Tricky" (2011), mutex3.
#[cfg(feature = "check")]
use crate::check::{self, LockKind};
use crate::{
    Platform, Sleep,
    atomic::{AtomicU32, Ordering::*, spin_loop},
    class::{ClassRef, LockClass, Wait},
};
use core::{
    cell::UnsafeCell,
    fmt,
    marker::PhantomData,
    ops::{Deref, DerefMut},
};

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const CONTENDED: u32 = 2;

/// A mutex around a `T`.
pub struct Mutex<T: ?Sized, P: Platform> {
    word: AtomicU32,
    class: ClassRef,
    platform: PhantomData<fn() -> P>,
    value: UnsafeCell<T>,
}

/// The right to a mutex's value; unlocks when dropped.
pub struct Guard<'a, T: ?Sized, P: Platform> {
    mutex: &'a Mutex<T, P>,
    /// Not `Send`: a lock is released by the thread that took it.
    not_send: PhantomData<*const ()>,
}

// SAFETY: the value is reached through a guard only, one thread at a time, so sharing the mutex
// moves the value between threads and no more.
unsafe impl<T: ?Sized + Send, P: Platform> Sync for Mutex<T, P> {}
// SAFETY: owning the mutex is owning the value.
unsafe impl<T: ?Sized + Send, P: Platform> Send for Mutex<T, P> {}
// SAFETY: a shared guard gives `&T` only.
unsafe impl<T: ?Sized + Sync, P: Platform> Sync for Guard<'_, T, P> {}

impl<T, P: Platform> Mutex<T, P> {
    const_constructor! {
        /// Makes a free mutex of `class` around `value`.
        pub fn new(class: &'static LockClass, value: T) -> Mutex<T, P> {
            Mutex {
                word: AtomicU32::new(FREE),
                class: ClassRef::new(class),
                platform: PhantomData,
                value: UnsafeCell::new(value),
            }
        }
    }

    /// Returns the value; the mutex has no other users any more.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized, P: Platform> Mutex<T, P> {
    /// Takes the lock, blocking while another has it.
    ///
    /// # Panics
    /// With `check`: on re-taking, an order inversion, or a spin lock held.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> Guard<'_, T, P> {
        #[cfg(feature = "check")]
        check::before_blocking::<P>(self.address(), self.class.class, LockKind::Mutex);
        if self.word.compare_exchange(FREE, TAKEN, Acquire, Relaxed).is_ok() {
            self.class.count_hit();
        } else {
            self.lock_contended();
        }
        self.guard()
    }

    /// Takes the lock if it is free (conditional acquisition).
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> Option<Guard<'_, T, P>> {
        if self.word.compare_exchange(FREE, TAKEN, Acquire, Relaxed).is_err() {
            self.class.count_refusal();
            return None;
        }
        self.class.count_hit();
        Some(self.guard())
    }

    /// Returns whether the lock is taken now: a hint.
    pub fn is_locked(&self) -> bool {
        self.word.load(Relaxed) != FREE
    }

    /// Returns the value, through the only reference to the mutex.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    #[track_caller]
    #[inline]
    fn guard(&self) -> Guard<'_, T, P> {
        #[cfg(feature = "check")]
        check::acquired::<P>(self.address(), self.class.class, LockKind::Mutex);
        Guard { mutex: self, not_send: PhantomData }
    }

    #[cold]
    fn lock_contended(&self) {
        let mut wait = Wait::<P>::begin(self.class);
        let mut state = self.spin();
        if state == FREE {
            match self.word.compare_exchange(FREE, TAKEN, Acquire, Relaxed) {
                Ok(_) => return wait.end(),
                Err(now) => state = now,
            }
        }
        // A thread that has waited takes the lock as contended, so that other waiters stay known.
        while state == CONTENDED || self.word.swap(CONTENDED, Acquire) != FREE {
            wait.reschedule();
            P::wait(&self.word, CONTENDED, None, Sleep::Uninterruptible);
            state = self.spin();
        }
        wait.end();
    }

    /// Spins a few times while the lock is taken, even ahead of sleeping waiters: these need longer to wake than the
    /// lock is usually held.
    fn spin(&self) -> u32 {
        for _ in 0..P::SPINS {
            let state = self.word.load(Relaxed);
            if state == FREE {
                return state;
            }
            spin_loop();
        }
        self.word.load(Relaxed)
    }

    #[inline]
    fn unlock(&self) {
        if self.word.swap(FREE, Release) == CONTENDED {
            P::wake(&self.word, 1);
        }
    }

    #[cfg(feature = "check")]
    fn address(&self) -> usize {
        (&raw const self.word).addr()
    }
}

impl<T: ?Sized, P: Platform> Drop for Guard<'_, T, P> {
    #[inline]
    fn drop(&mut self) {
        #[cfg(feature = "check")]
        check::released::<P>(self.mutex.address(), self.mutex.class.class);
        self.mutex.unlock();
    }
}

impl<T: ?Sized, P: Platform> Deref for Guard<'_, T, P> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard proves that the lock is ours, so no `&mut` to the value exists but
        // through this guard, which is borrowed shared.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized, P: Platform> DerefMut for Guard<'_, T, P> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard proves that the lock is ours and is borrowed exclusively.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized + fmt::Debug, P: Platform> fmt::Debug for Guard<'_, T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T: ?Sized, P: Platform> fmt::Debug for Mutex<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").field("is_locked", &self.is_locked()).finish_non_exhaustive()
    }
}
