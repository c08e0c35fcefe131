//! The operations that the algorithms need from their world: a futex, the current thread's number,
//! the time.
use crate::atomic::AtomicU32;

/// The reason why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A wake-up came, or the word did not hold the expected value.
    Signalled,
    /// The deadline passed.
    TimedOut,
    /// A kick came, and the wait was interruptible.
    Kicked,
}

/// Whether a kick ends a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sleep {
    /// A kick ends the wait.
    Interruptible,
    /// A kick that comes is kept for later.
    #[default]
    Uninterruptible,
}

/// Blocking and waking.
pub trait Platform {
    /// Number of times a blocking lock spins before it blocks. Zero suits a single processor.
    const SPINS: u32 = 200;

    /// Blocks while `word` holds `expected`, until woken, the deadline (monotonic nanoseconds) or a
    /// kick. Comparing and going to sleep are one step with respect to [`Platform::wake`].
    fn wait(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>, sleep: Sleep) -> Outcome;
    /// Wakes up to `count` threads that wait on `word`; returns how many. `word` is only an
    /// address here: its memory may be gone already.
    fn wake(word: &AtomicU32, count: u32) -> u32;
    /// Returns a unique number of the calling thread.
    fn current() -> u64;
    /// Returns the monotonic time.
    fn now_ns() -> u64;
    /// Calls `visit` with the calling thread's list of held locks; the list is not visited again
    /// before `visit` returns (interrupts that take locks are held off). Where there is no list
    /// (before threads exist) `visit` is not called and nothing is checked.
    #[cfg(feature = "check")]
    fn held(visit: &mut dyn FnMut(&mut crate::check::HeldLocks)) {
        let _ = visit;
    }
}
