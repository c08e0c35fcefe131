//! A blocking lock for many readers or one writer; a waiting writer keeps new readers waiting, so
//! writers do not starve.
//!
//! The state word counts readers in its low 30 bits (all ones: a writer has it) and has one bit for
//! waiting readers and one for waiting writers. Readers sleep on the state word, writers on
//! `writer_turn`, a counter that moves each time a writer is called. The last one out calls a
//! writer if any waits, else all readers. Source: the algorithm of Rust's std
//! (`sys/sync/rwlock/futex.rs`).
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

const READER: u32 = 1;
const COUNT: u32 = (1 << 30) - 1;
const WRITER: u32 = COUNT;
const MOST_READERS: u32 = COUNT - 1;
const READERS_WAIT: u32 = 1 << 30;
const WRITERS_WAIT: u32 = 1 << 31;

fn is_unlocked(state: u32) -> bool {
    state & COUNT == 0
}

/// Returns whether a reader may take the lock. It must not pass a waiting thread, be it woken or
/// new. While readers have the lock, readers wait only behind a writer, so the last reader to leave
/// need not look for waiting readers.
fn is_open_to_reader(state: u32) -> bool {
    state & COUNT < MOST_READERS && state & (READERS_WAIT | WRITERS_WAIT) == 0
}

/// A reader/writer lock around a `T`.
pub struct RwLock<T: ?Sized, P: Platform> {
    state: AtomicU32,
    writer_turn: AtomicU32,
    class: ClassRef,
    platform: PhantomData<fn() -> P>,
    value: UnsafeCell<T>,
}

/// The right to read the value.
pub struct ReadGuard<'a, T: ?Sized, P: Platform> {
    lock: &'a RwLock<T, P>,
    not_send: PhantomData<*const ()>,
}

/// The right to change the value.
pub struct WriteGuard<'a, T: ?Sized, P: Platform> {
    lock: &'a RwLock<T, P>,
    not_send: PhantomData<*const ()>,
}

// SAFETY: readers share `&T` between threads (`Sync`), a writer moves it (`Send`).
unsafe impl<T: ?Sized + Send + Sync, P: Platform> Sync for RwLock<T, P> {}
// SAFETY: owning the lock is owning the value.
unsafe impl<T: ?Sized + Send, P: Platform> Send for RwLock<T, P> {}
// SAFETY: a shared guard gives `&T` only.
unsafe impl<T: ?Sized + Sync, P: Platform> Sync for ReadGuard<'_, T, P> {}
// SAFETY: a shared guard gives `&T` only.
unsafe impl<T: ?Sized + Sync, P: Platform> Sync for WriteGuard<'_, T, P> {}

impl<T, P: Platform> RwLock<T, P> {
    const_constructor! {
        /// Makes a free lock of `class` around `value`.
        pub fn new(class: &'static LockClass, value: T) -> RwLock<T, P> {
            RwLock {
                state: AtomicU32::new(0),
                writer_turn: AtomicU32::new(0),
                class: ClassRef::new(class),
                platform: PhantomData,
                value: UnsafeCell::new(value),
            }
        }
    }

    /// Returns the value; the lock has no other users any more.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized, P: Platform> RwLock<T, P> {
    /// Takes the lock to read, blocking while a writer has it or waits for it.
    ///
    /// # Panics
    /// With `check`: on re-taking (also to read: a writer between would wait for ever), an order
    /// inversion, or a spin lock held.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> ReadGuard<'_, T, P> {
        #[cfg(feature = "check")]
        check::before_blocking::<P>(self.address(), self.class.class, LockKind::Read);
        if self.try_add_reader() {
            self.class.count_hit();
        } else {
            self.read_contended();
        }
        self.read_guard()
    }

    /// Takes the lock to read if no writer has it or waits for it.
    #[inline]
    #[track_caller]
    pub fn try_read(&self) -> Option<ReadGuard<'_, T, P>> {
        if !self.try_add_reader() {
            self.class.count_refusal();
            return None;
        }
        self.class.count_hit();
        Some(self.read_guard())
    }

    /// Takes the lock to write, blocking while another thread has it.
    ///
    /// # Panics
    /// With `check`: on re-taking, an order inversion, or a spin lock held.
    #[inline]
    #[track_caller]
    pub fn write(&self) -> WriteGuard<'_, T, P> {
        #[cfg(feature = "check")]
        check::before_blocking::<P>(self.address(), self.class.class, LockKind::Write);
        if self.state.compare_exchange(0, WRITER, Acquire, Relaxed).is_ok() {
            self.class.count_hit();
        } else {
            self.write_contended();
        }
        self.write_guard()
    }

    /// Takes the lock to write if it is free.
    #[inline]
    #[track_caller]
    pub fn try_write(&self) -> Option<WriteGuard<'_, T, P>> {
        let taken = self.take_if(|state| is_unlocked(state).then_some(state | WRITER));
        if !taken {
            self.class.count_refusal();
            return None;
        }
        self.class.count_hit();
        Some(self.write_guard())
    }

    /// Returns the value, through the only reference to the lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    #[track_caller]
    #[inline]
    fn read_guard(&self) -> ReadGuard<'_, T, P> {
        #[cfg(feature = "check")]
        check::acquired::<P>(self.address(), self.class.class, LockKind::Read);
        ReadGuard { lock: self, not_send: PhantomData }
    }

    #[track_caller]
    #[inline]
    fn write_guard(&self) -> WriteGuard<'_, T, P> {
        #[cfg(feature = "check")]
        check::acquired::<P>(self.address(), self.class.class, LockKind::Write);
        WriteGuard { lock: self, not_send: PhantomData }
    }

    #[inline]
    fn try_add_reader(&self) -> bool {
        self.take_if(|state| is_open_to_reader(state).then(|| state + READER))
    }

    /// Changes the state to the value that `next` returns, if it returns one. Returns whether it
    /// did.
    #[inline]
    fn take_if(&self, next: impl Fn(u32) -> Option<u32>) -> bool {
        let mut state = self.state.load(Relaxed);
        while let Some(taken) = next(state) {
            match self.state.compare_exchange_weak(state, taken, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    #[cold]
    fn read_contended(&self) {
        let mut wait = Wait::<P>::begin(self.class);
        let mut state = self.spin(|state| state & COUNT != WRITER);
        loop {
            if is_open_to_reader(state) {
                match self.state.compare_exchange(state, state + READER, Acquire, Relaxed) {
                    Ok(_) => return wait.end(),
                    Err(now) => state = now,
                }
                continue;
            }
            assert!(state & COUNT != MOST_READERS, "too many readers");
            if state & READERS_WAIT == 0
                && let Err(now) =
                    self.state.compare_exchange(state, state | READERS_WAIT, Relaxed, Relaxed)
            {
                state = now;
                continue;
            }
            wait.reschedule();
            P::wait(&self.state, state | READERS_WAIT, None, Sleep::Uninterruptible);
            state = self.spin(|state| state & COUNT != WRITER);
        }
    }

    #[cold]
    fn write_contended(&self) {
        let mut wait = Wait::<P>::begin(self.class);
        // After this thread has slept, others may wait too, so it keeps their bit when it takes the
        // lock.
        let mut others = 0;
        let mut state = self.spin(is_unlocked);
        loop {
            if is_unlocked(state) {
                match self.state.compare_exchange(state, state | WRITER | others, Acquire, Relaxed)
                {
                    Ok(_) => return wait.end(),
                    Err(now) => state = now,
                }
                continue;
            }
            if state & WRITERS_WAIT == 0
                && let Err(now) =
                    self.state.compare_exchange(state, state | WRITERS_WAIT, Relaxed, Relaxed)
            {
                state = now;
                continue;
            }
            others = WRITERS_WAIT;
            let turn = self.writer_turn.load(Acquire);
            state = self.state.load(Relaxed);
            if is_unlocked(state) || state & WRITERS_WAIT == 0 {
                continue;
            }
            wait.reschedule();
            P::wait(&self.writer_turn, turn, None, Sleep::Uninterruptible);
            state = self.spin(is_unlocked);
        }
    }

    /// Spins a few times, until the state suits or a thread waits already.
    fn spin(&self, is_good: impl Fn(u32) -> bool) -> u32 {
        for _ in 0..P::SPINS {
            let state = self.state.load(Relaxed);
            if is_good(state) || state & (READERS_WAIT | WRITERS_WAIT) != 0 {
                return state;
            }
            spin_loop();
        }
        self.state.load(Relaxed)
    }

    #[inline]
    fn unlock_read(&self) {
        let state = self.state.fetch_sub(READER, Release) - READER;
        if is_unlocked(state) && state & WRITERS_WAIT != 0 {
            self.call_next(state);
        }
    }

    #[inline]
    fn unlock_write(&self) {
        let state = self.state.fetch_sub(WRITER, Release) - WRITER;
        if state != 0 {
            self.call_next(state);
        }
    }

    /// Wakes a writer, or all readers, after the lock was released with waiters. A thread that
    /// takes the lock meanwhile takes over this duty.
    #[cold]
    fn call_next(&self, mut state: u32) {
        if state == WRITERS_WAIT {
            match self.state.compare_exchange(state, 0, Relaxed, Relaxed) {
                Ok(_) => {
                    self.wake_writer();
                    return;
                }
                Err(now) => state = now,
            }
        }
        if state == READERS_WAIT | WRITERS_WAIT {
            if self.state.compare_exchange(state, READERS_WAIT, Relaxed, Relaxed).is_err()
                || self.wake_writer()
            {
                return;
            }
            // No writer was asleep, so the readers are woken.
            state = READERS_WAIT;
        }
        if state == READERS_WAIT && self.state.compare_exchange(state, 0, Relaxed, Relaxed).is_ok()
        {
            P::wake(&self.state, u32::MAX);
        }
    }

    fn wake_writer(&self) -> bool {
        self.writer_turn.fetch_add(1, Release);
        P::wake(&self.writer_turn, 1) > 0
    }

    #[cfg(feature = "check")]
    fn address(&self) -> usize {
        (&raw const self.state).addr()
    }
}

impl<T: ?Sized, P: Platform> Drop for ReadGuard<'_, T, P> {
    #[inline]
    fn drop(&mut self) {
        #[cfg(feature = "check")]
        check::released::<P>(self.lock.address(), self.lock.class.class);
        self.lock.unlock_read();
    }
}

impl<T: ?Sized, P: Platform> Drop for WriteGuard<'_, T, P> {
    #[inline]
    fn drop(&mut self) {
        #[cfg(feature = "check")]
        check::released::<P>(self.lock.address(), self.lock.class.class);
        self.lock.unlock_write();
    }
}

impl<T: ?Sized, P: Platform> Deref for ReadGuard<'_, T, P> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard proves that we are counted as a reader, so no writer has a `&mut`.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized, P: Platform> Deref for WriteGuard<'_, T, P> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard proves that we are the writer; it is borrowed shared.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized, P: Platform> DerefMut for WriteGuard<'_, T, P> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard proves that we are the writer and is borrowed exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized, P: Platform> fmt::Debug for RwLock<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock").finish_non_exhaustive()
    }
}
