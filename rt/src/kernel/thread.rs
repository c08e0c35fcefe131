//! Threads of the kernel world.
use crate::{
    NoMemory,
    ring::{Bell, WakeHandler},
    thread::Policy,
};
use nucleus::arch::{percpu, smp};
#[cfg(feature = "check")]
pub(crate) use nucleus::thread::held_locks;
pub(crate) use nucleus::thread::{
    cpu_time, current_number as current, kick, park, set_affinity, set_policy, spawn, take_kick,
    unpark, wait_on, wake, yield_now,
};

/// Attends a bell: each thread that rings enters the nucleus, which calls the handler on it.
pub(crate) fn set_handler(
    bell: Bell,
    _name: &str,
    _policy: Policy,
    handler: WakeHandler,
) -> Result<(), NoMemory> {
    nucleus::thread::set_handler(bell.word().ok_or(NoMemory)?, handler);
    bell.ring();
    // The bell is handled for ever, so its memory stays.
    core::mem::forget(bell);
    Ok(())
}

pub(crate) fn processors() -> (usize, usize) {
    (smp::online(), percpu::cpu())
}
