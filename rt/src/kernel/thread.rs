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

fn policy_of(policy: Policy) -> thread::Policy {
    match policy {
        Policy::Fair { nice } => thread::Policy::Fair(nice),
        Policy::Fifo(priority) => thread::Policy::Fifo(priority),
        Policy::RoundRobin(priority) => thread::Policy::RoundRobin(priority),
    }
}

fn woken(outcome: sync::Outcome) -> Woken {
    match outcome {
        sync::Outcome::Signalled => Woken::Signalled,
        sync::Outcome::TimedOut => Woken::TimedOut,
        sync::Outcome::Kicked => Woken::Kicked,
    }
}

pub(crate) fn spawn(
    name: &str,
    policy: Policy,
    body: Box<Box<dyn FnOnce() + Send>>,
) -> Result<ThreadId, NoMemory> {
    Ok(ThreadId(nucleus::thread::spawn(name, policy_of(policy), body)?))
}

pub(crate) fn current() -> ThreadId {
    ThreadId(thread::current_number())
}

pub(crate) fn yield_now() {
    thread::yield_now();
}

pub(crate) fn park(deadline: Option<Instant>, interruptible: bool) -> Woken {
    woken(thread::park(deadline.map(|at| at.0), interruptible))
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
    woken(thread::wait_on(word, expected, deadline.map(|at| at.0), interruptible))
}

pub(crate) fn wake(word: &AtomicU32, count: u32) -> u32 {
    thread::wake(word, count)
}

pub(crate) fn set_policy(thread: ThreadId, policy: Policy) {
    thread::set_policy(thread.0, policy_of(policy));
}

pub(crate) fn set_affinity(thread: ThreadId, affinity: Affinity) -> bool {
    thread::set_affinity(thread.0, affinity.0)
}

pub(crate) fn cpu_time(thread: ThreadId) -> Option<CpuTime> {
    let used = thread::cpu_time(thread.0)?;
    Some(CpuTime {
        user_ns: used.user_ns,
        system_ns: used.system_ns,
        voluntary_switches: used.voluntary_switches,
        forced_switches: used.forced_switches,
    })
}

pub(crate) fn processors() -> (usize, usize) {
    (smp::online(), percpu::cpu())
}

#[cfg(feature = "check")]
pub(crate) fn held_locks(visit: &mut dyn FnMut(&mut sync::check::Held)) {
    thread::held_locks(visit);
}
