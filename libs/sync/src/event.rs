//! Mach's event: assert the wait, check the condition, then block (K6, M3).
//!
//! An event is one word: a count of signals in the upper 31 bits, and in the lowest bit whether a
//! thread may wait. A ticket is the count. A wait sets the low bit and blocks only while the word
//! is its ticket's count with that bit, so a signal between ticket and wait is never lost: it
//! either finds the bit and wakes, or moves the count first and the wait does not block.
//! [`RawEvent::signal`] clears the bit; [`RawEvent::signal_one`] leaves it, since others may go on
//! waiting.
use crate::{
    Outcome, Platform, Sleep,
    atomic::{AtomicU32, Ordering::*},
};
use core::marker::PhantomData;

const WAITERS: u32 = 1;
const SIGNAL: u32 = 2;

/// The event's count when a waiter began to check its condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u32);

/// An event to wait for.
#[derive(Debug)]
pub struct RawEvent<P: Platform> {
    word: AtomicU32,
    platform: PhantomData<fn() -> P>,
}

impl<P: Platform> RawEvent<P> {
    const_constructor! {
        /// Makes an event for which no thread waits.
        pub fn new() -> RawEvent<P> {
            RawEvent { word: AtomicU32::new(0), platform: PhantomData }
        }
    }

    /// Returns a ticket. Take it before the condition is checked.
    #[inline]
    pub fn ticket(&self) -> Ticket {
        Ticket(self.word.load(Acquire) & !WAITERS)
    }

    /// Blocks until there was a signal since `ticket`, or the deadline (monotonic nanoseconds).
    ///
    /// # Panics
    /// With `check`: with a spin lock held.
    #[track_caller]
    pub fn wait(&self, ticket: Ticket, deadline_ns: Option<u64>) -> Outcome {
        self.block(ticket, deadline_ns, Sleep::Uninterruptible)
    }

    /// As [`RawEvent::wait`], until a kick at the latest.
    #[track_caller]
    pub fn wait_interruptible(&self, ticket: Ticket, deadline_ns: Option<u64>) -> Outcome {
        self.block(ticket, deadline_ns, Sleep::Interruptible)
    }

    #[track_caller]
    fn block(&self, ticket: Ticket, deadline_ns: Option<u64>, sleep: Sleep) -> Outcome {
        #[cfg(feature = "check")]
        crate::check::may_block::<P>();
        let awaited = ticket.0 | WAITERS;
        loop {
            match self.word.compare_exchange(ticket.0, awaited, Acquire, Acquire) {
                Ok(_) => {}
                Err(now) if now == awaited => {}
                Err(_) => return Outcome::Signalled,
            }
            let outcome = P::wait(&self.word, awaited, deadline_ns, sleep);
            if outcome != Outcome::Signalled {
                return outcome;
            }
        }
    }

    /// Wakes every waiter. Returns whether there may have been one.
    #[inline]
    pub fn signal(&self) -> bool {
        let mut now = self.word.load(Relaxed);
        loop {
            let next = now.wrapping_add(SIGNAL) & !WAITERS;
            match self.word.compare_exchange_weak(now, next, Release, Relaxed) {
                Ok(_) => break,
                Err(changed) => now = changed,
            }
        }
        let is_awaited = now & WAITERS != 0;
        if is_awaited {
            P::wake(&self.word, u32::MAX);
        }
        is_awaited
    }

    /// Wakes one waiter. Threads that hold a ticket and do not wait yet will see the signal too.
    #[inline]
    pub fn signal_one(&self) {
        if self.word.fetch_add(SIGNAL, Release) & WAITERS != 0 {
            P::wake(&self.word, 1);
        }
    }
}

#[cfg(not(loom))]
impl<P: Platform> Default for RawEvent<P> {
    fn default() -> Self {
        RawEvent::new()
    }
}
