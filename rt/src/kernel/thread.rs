//! Threads of the kernel world.
use crate::{
    NoMemory,
    thread::{Affinity, CpuTime, Policy, ThreadId, Woken},
    time::Instant,
};
use alloc::boxed::Box;
use core::sync::atomic::AtomicU32;
use nucleus::{
    arch::{percpu, smp},
    thread,
};

pub(crate) fn spawn(
    name: &str,
    policy: Policy,
    body: Box<Box<dyn FnOnce() + Send>>,
) -> Result<ThreadId, NoMemory> {
    thread::spawn(name, policy, body).map(ThreadId)
}

pub(crate) fn current() -> ThreadId {
    ThreadId(thread::current_number())
}

pub(crate) fn yield_now() {
    thread::yield_now();
}

pub(crate) fn park(deadline: Option<Instant>, interruptible: bool) -> Woken {
    thread::park(deadline.map(|at| at.0), interruptible)
}

pub(crate) fn unpark(thread: ThreadId) {
    thread::unpark(thread.0);
}

pub(crate) fn kick(thread: ThreadId) {
    thread::kick(thread.0);
}

pub(crate) fn take_kick() -> bool {
    thread::take_kick()
}

pub(crate) fn wait_on(
    word: &AtomicU32,
    expected: u32,
    deadline: Option<Instant>,
    interruptible: bool,
) -> Woken {
    thread::wait_on(word, expected, deadline.map(|at| at.0), interruptible)
}

pub(crate) fn wake(word: &AtomicU32, count: u32) -> u32 {
    thread::wake(word, count)
}

pub(crate) fn set_policy(thread: ThreadId, policy: Policy) {
    thread::set_policy(thread.0, policy);
}

pub(crate) fn set_affinity(thread: ThreadId, affinity: Affinity) -> bool {
    thread::set_affinity(thread.0, affinity.0)
}

pub(crate) fn cpu_time(thread: ThreadId) -> Option<CpuTime> {
    thread::cpu_time(thread.0)
}

pub(crate) fn processors() -> (usize, usize) {
    (smp::online(), percpu::cpu())
}

#[cfg(feature = "check")]
pub(crate) fn held_locks(visit: &mut dyn FnMut(&mut sync::check::Held)) {
    thread::held_locks(visit);
}
