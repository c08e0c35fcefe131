//! Threads of the runtime: spawn, park, kick, priority (K6, M1).
use crate::{NoMemory, time::Instant, world};
use alloc::boxed::Box;
pub use program::{CpuTime, Policy};
pub use sync::Outcome as Woken;

/// Names a thread; plain data, never reused (slot and generation).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub u64);

/// A set of processors, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Affinity(pub u64);

impl Affinity {
    /// Any processor.
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

/// The calling thread. Cost as a system call: none (kept in thread-local memory).
pub fn current() -> ThreadId {
    ThreadId(world::thread::current())
}

/// Gives the processor to another ready thread of the same priority.
pub fn yield_now() {
    world::thread::yield_now();
}

/// Blocks until [`unpark`] (a token is kept if it came before), the deadline, or, where
/// `interruptible`, a [`kick`].
pub fn park(deadline: Option<Instant>, interruptible: bool) -> Woken {
    world::thread::park(deadline.map(|at| at.0), interruptible)
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

/// Consumes a pending kick of the calling thread and says whether there was one.
pub fn take_kick() -> bool {
    world::thread::take_kick()
}

/// Changes how `thread` is scheduled.
pub fn set_policy(thread: ThreadId, policy: Policy) {
    world::thread::set_policy(thread.0, policy);
}

/// Restricts `thread` to the processors in `affinity` (at least one must exist, else ignored and `false`).
pub fn set_affinity(thread: ThreadId, affinity: Affinity) -> bool {
    world::thread::set_affinity(thread.0, affinity.0)
}

/// Processor time used by `thread`, or `None` if it has ended.
pub fn cpu_time(thread: ThreadId) -> Option<CpuTime> {
    world::thread::cpu_time(thread.0)
}

/// Number of processors running, and the number of the one we are on (a hint).
pub fn processors() -> (usize, usize) {
    world::thread::processors()
}
