//! Mach's event: assert the wait, check the condition, then block (K6, M3).
//!
//! A counter moves at each signal; a ticket is its value. A wait blocks only while the counter
//! still is what the ticket says, so a signal between ticket and wait is never lost. Signals look
//! for waiters after moving the counter, waiters announce themselves before comparing it; both
//! sides are sequentially consistent, so one of the two sees the other.
use crate::{
    Outcome, Platform,
    atomic::{AtomicU32, Ordering::*},
};
use core::marker::PhantomData;

/// The event's state when a waiter began to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u32);

/// Something to wait for.
#[derive(Debug)]
pub struct RawEvent<P: Platform> {
    signals: AtomicU32,
    waiters: AtomicU32,
    platform: PhantomData<fn() -> P>,
}

impl<P: Platform> RawEvent<P> {
    const_constructor! {
        /// An event nobody waits for.
        pub fn new() -> RawEvent<P> {
            RawEvent { signals: AtomicU32::new(0), waiters: AtomicU32::new(0), platform: PhantomData }
        }
    }

    /// To be taken before the condition is checked.
    #[inline]
    pub fn ticket(&self) -> Ticket {
        Ticket(self.signals.load(SeqCst))
    }

    /// Blocks until there was a signal since `ticket`, the deadline (monotonic nanoseconds), or a
    /// kick where `interruptible`.
    ///
    /// # Panics
    /// With `check`: with a spin lock held.
    #[track_caller]
    pub fn wait(&self, ticket: Ticket, deadline_ns: Option<u64>, interruptible: bool) -> Outcome {
        #[cfg(feature = "check")]
        crate::check::may_block::<P>();
        self.waiters.fetch_add(1, SeqCst);
        let mut outcome = Outcome::Signalled;
        while self.signals.load(SeqCst) == ticket.0 {
            outcome = P::wait(&self.signals, ticket.0, deadline_ns, interruptible);
            if outcome != Outcome::Signalled {
                break;
            }
        }
        self.waiters.fetch_sub(1, Relaxed);
        outcome
    }

    /// Wakes every waiter.
    #[inline]
    pub fn signal(&self) {
        self.signal_up_to(u32::MAX);
    }

    /// Wakes one waiter. Threads that hold a ticket and do not wait yet will see the signal too.
    #[inline]
    pub fn signal_one(&self) {
        self.signal_up_to(1);
    }

    #[inline]
    fn signal_up_to(&self, count: u32) {
        self.signals.fetch_add(1, SeqCst);
        if self.waiters.load(SeqCst) != 0 {
            P::wake(&self.signals, count);
        }
    }
}

#[cfg(not(loom))]
impl<P: Platform> Default for RawEvent<P> {
    fn default() -> Self {
        RawEvent::new()
    }
}
