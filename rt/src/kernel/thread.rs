//! Threads of the kernel world.
use nucleus::arch::{percpu, smp};
#[cfg(feature = "check")]
pub(crate) use nucleus::thread::held_locks;
pub(crate) use nucleus::thread::{
    cpu_time, current_number as current, kick, park, set_affinity, set_policy, spawn, take_kick,
    unpark, wait_on, wake, yield_now,
};

pub(crate) fn processors() -> (usize, usize) {
    (smp::online(), percpu::cpu())
}
