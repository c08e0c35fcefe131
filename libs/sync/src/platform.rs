//! The needs of the algorithms from their world: a futex, a thread's name, the time.
use crate::atomic::AtomicU32;

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A wake-up, or the word did not hold the expected value.
    Signalled,
    /// The deadline passed.
    TimedOut,
    /// A kick, where the wait was interruptible.
    Kicked,
}

/// Blocking and waking.
pub trait Platform {
    /// Times a blocking lock looks again before it blocks. Zero suits a single processor.
    const SPINS: u32 = 200;

    /// Blocks while `word` holds `expected`, until woken, the deadline (monotonic nanoseconds) or a
    /// kick. Comparing and going to sleep are one step with respect to [`Platform::wake`].
    fn wait(
        word: &AtomicU32,
        expected: u32,
        deadline_ns: Option<u64>,
        interruptible: bool,
    ) -> Outcome;
    /// Wakes up to `count` threads that wait on `word`; returns how many. `word` is only an
    /// address here: its memory may be gone already.
    fn wake(word: &AtomicU32, count: u32) -> u32;
    /// A number of the calling thread, unlike every other's.
    fn current() -> u64;
    /// Monotonic time.
    fn now_ns() -> u64;
    /// Shows the calling thread's list of held locks to `visit`; the list is not visited again
    /// before `visit` returns (interrupts that take locks are held off). Where there is no list
    /// (before threads exist) `visit` is not called and nothing is checked.
    #[cfg(feature = "check")]
    fn held(visit: &mut dyn FnMut(&mut crate::check::Held)) {
        let _ = visit;
    }
}
