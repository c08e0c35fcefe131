//! Threads of the runtime: spawn, park, kick, priority (K6, M1).
use crate::{NoMemory, time::Instant, world};
use alloc::boxed::Box;
pub use program::{CpuTime, Policy};
pub use sync::Outcome as Woken;

/// The name of a thread: plain data that is never reused (slot and generation).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub u64);

/// A set of processors, with one bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Affinity(pub u64);

impl Affinity {
    /// All processors.
    pub const ANY: Affinity = Affinity(u64::MAX);
}

/// Starts a thread that runs `body`. The thread ends when `body` returns.
///
/// # Errors
/// [`NoMemory`] if the stack or the thread object was refused.
pub fn spawn(
    name: &str,
    policy: Policy,
    body: impl FnOnce() + Send + 'static,
) -> Result<ThreadId, NoMemory> {
    world::thread::spawn(name, policy, Box::new(Box::new(body))).map(ThreadId)
}

/// Returns the calling thread. Cost as a system call: none (kept in thread-local memory).
pub fn current() -> ThreadId {
    ThreadId(world::thread::current())
}

/// Gives the processor to another ready thread of the same priority.
pub fn yield_now() {
    world::thread::yield_now();
}

/// Blocks until [`unpark`] (a token is kept if it came before), or the deadline.
pub fn park(deadline: Option<Instant>) -> Woken {
    world::thread::park(deadline.map(|at| at.0), sync::Sleep::Uninterruptible)
}

/// As [`park`], until a [`kick`] at the latest.
pub fn park_interruptible(deadline: Option<Instant>) -> Woken {
    world::thread::park(deadline.map(|at| at.0), sync::Sleep::Interruptible)
}

/// Lets `thread` return from [`park`], now or the next time. Unknown threads are ignored.
pub fn unpark(thread: ThreadId) {
    world::thread::unpark(thread.0);
}

/// Forces `thread`'s running or next [`crate::user::Context::run`] to return [`crate::user::Trap::Kicked`],
/// or its interruptible wait to return [`Woken::Kicked`]. The kick is kept until one of the two
/// consumes it. Unknown threads are ignored.
pub fn kick(thread: ThreadId) {
    world::thread::kick(thread.0);
}

/// Consumes a pending kick of the calling thread. Returns whether there was one.
pub fn take_kick() -> bool {
    world::thread::take_kick()
}

/// Changes the scheduling policy of `thread`.
pub fn set_policy(thread: ThreadId, policy: Policy) {
    world::thread::set_policy(thread.0, policy);
}

/// Restricts `thread` to the processors in `affinity`. Returns `false`, and changes nothing, if none of
/// them exists.
pub fn set_affinity(thread: ThreadId, affinity: Affinity) -> bool {
    world::thread::set_affinity(thread.0, affinity.0)
}

/// Returns the processor time used by `thread`, or `None` if it has ended.
pub fn cpu_time(thread: ThreadId) -> Option<CpuTime> {
    world::thread::cpu_time(thread.0)
}

/// Returns the number of running processors, and the number of the calling thread's processor (a hint).
pub fn processors() -> (usize, usize) {
    world::thread::processors()
}
