//! A value that is made at first use. Threads that come meanwhile wait.
//!
//! The state word moves from empty to running (perhaps with waiters) to ready, and back to empty if
//! the maker failed. The value is written before `READY` is published and never after.
use crate::{
    Platform, Sleep,
    atomic::{AtomicU32, Ordering::*},
};
use core::{cell::UnsafeCell, convert::Infallible, fmt, marker::PhantomData, mem::MaybeUninit};

const EMPTY: u32 = 0;
const RUNNING: u32 = 1;
const AWAITED: u32 = 2;
const READY: u32 = 3;

/// A `T` that is made once.
pub struct Once<T, P: Platform> {
    state: AtomicU32,
    platform: PhantomData<fn() -> P>,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: after `READY` the value is only shared (`Sync`); it is made on one thread and may be
// dropped on another (`Send`).
unsafe impl<T: Send + Sync, P: Platform> Sync for Once<T, P> {}
// SAFETY: owning the `Once` is owning the value.
unsafe impl<T: Send, P: Platform> Send for Once<T, P> {}

/// A guard that sets the state back, or forward, when the maker is left in any way.
struct Running<'a, T, P: Platform> {
    once: &'a Once<T, P>,
    next: u32,
}

impl<T, P: Platform> Drop for Running<'_, T, P> {
    fn drop(&mut self) {
        if self.once.state.swap(self.next, Release) == AWAITED {
            P::wake(&self.once.state, u32::MAX);
        }
    }
}

impl<T, P: Platform> Once<T, P> {
    const_constructor! {
        /// Makes an empty cell.
        pub fn new() -> Once<T, P> {
            Once {
                state: AtomicU32::new(EMPTY),
                platform: PhantomData,
                value: UnsafeCell::new(MaybeUninit::uninit()),
            }
        }
    }

    /// Returns the value, if it was made.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        if self.state.load(Acquire) != READY {
            return None;
        }
        // SAFETY: the cell is not written any more once `READY` was published.
        let value = unsafe { &*self.value.get() };
        // SAFETY: the value was written before `READY` was published.
        Some(unsafe { value.assume_init_ref() })
    }

    /// Returns the value, which `make` makes if there is none yet.
    #[inline]
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        match self.get_or_try_init(|| Ok::<T, Infallible>(make())) {
            Ok(value) => value,
            Err(never) => match never {},
        }
    }

    /// Returns the value, which `make` makes if there is none yet. If `make` fails the next caller
    /// tries again.
    ///
    /// # Errors
    /// Those of `make`.
    #[inline]
    pub fn get_or_try_init<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        match self.get() {
            Some(value) => Ok(value),
            None => self.init(make),
        }
    }

    #[cold]
    fn init<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        loop {
            if let Some(value) = self.get() {
                return Ok(value);
            }
            match self.state.compare_exchange(EMPTY, RUNNING, Acquire, Acquire) {
                Ok(_) => break,
                Err(READY) => {}
                Err(_) => self.wait_for_maker(),
            }
        }
        let mut running = Running { once: self, next: EMPTY };
        let value = make()?;
        // SAFETY: the state is `RUNNING` by our doing, so nobody else reads or writes the cell.
        let slot = unsafe { &mut *self.value.get() };
        slot.write(value);
        running.next = READY;
        drop(running);
        // SAFETY: as above; the value is never written again.
        let value = unsafe { &*self.value.get() };
        // SAFETY: written just now.
        Ok(unsafe { value.assume_init_ref() })
    }

    /// Sets the value if there is none yet.
    ///
    /// # Errors
    /// Returns `value` if there is one already.
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init(|| match value.take() {
            Some(value) => value,
            None => unreachable!("the maker is called once"),
        });
        match value {
            None => Ok(()),
            Some(value) => Err(value),
        }
    }

    #[cold]
    fn wait_for_maker(&self) {
        match self.state.compare_exchange(RUNNING, AWAITED, Relaxed, Relaxed) {
            Ok(_) | Err(AWAITED) => {
                P::wait(&self.state, AWAITED, None, Sleep::Uninterruptible);
            }
            Err(_) => {}
        }
    }
}

impl<T, P: Platform> Drop for Once<T, P> {
    fn drop(&mut self) {
        if self.get().is_some() {
            // SAFETY: the value was made, and `&mut self` says nobody uses it.
            unsafe { self.value.get_mut().assume_init_drop() };
        }
    }
}

#[cfg(not(loom))]
impl<T, P: Platform> Default for Once<T, P> {
    fn default() -> Self {
        Once::new()
    }
}

impl<T: fmt::Debug, P: Platform> fmt::Debug for Once<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Once").field(&self.get()).finish()
    }
}
