//! Scheduling calls: priorities, policies, processor affinity.
use super::entry::Entry;
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::Ordering;
use linux_raw_sys::general as raw;
use proc::procfs::SLICE_MS;
use process::{Process, Task, call::Call, futex::inherit, limits::Resource, tree};
use rt::thread::Policy;
use vfs::{Errno, credentials::Capabilities};

mod attributes;

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_sched_yield, "sched_yield", sched_yield),
    Entry::whole(raw::__NR_sched_setscheduler, "sched_setscheduler", sched_setscheduler),
    Entry::whole(raw::__NR_sched_getscheduler, "sched_getscheduler", sched_getscheduler),
    Entry::whole(raw::__NR_sched_setparam, "sched_setparam", sched_setparam),
    Entry::whole(raw::__NR_sched_getparam, "sched_getparam", sched_getparam),
    Entry::whole(raw::__NR_sched_get_priority_max, "sched_get_priority_max", |call| {
        priority_range(call).map(|r| r.1)
    }),
    Entry::whole(raw::__NR_sched_get_priority_min, "sched_get_priority_min", |call| {
        priority_range(call).map(|r| r.0)
    }),
    Entry::partial(
        raw::__NR_sched_setattr,
        "sched_setattr",
        "SCHED_DEADLINE and utilization clamps",
        attributes::set,
    ),
    Entry::whole(raw::__NR_sched_getattr, "sched_getattr", attributes::get),
    Entry::whole(raw::__NR_sched_rr_get_interval, "sched_rr_get_interval", sched_rr_get_interval),
    Entry::whole(raw::__NR_sched_setaffinity, "sched_setaffinity", sched_setaffinity),
    Entry::whole(raw::__NR_sched_getaffinity, "sched_getaffinity", sched_getaffinity),
    Entry::whole(raw::__NR_getpriority, "getpriority", getpriority),
    Entry::whole(raw::__NR_setpriority, "setpriority", setpriority),
    Entry::whole(raw::__NR_getcpu, "getcpu", getcpu),
];

const RESET_ON_FORK: u32 = 0x4000_0000;
const PRIORITY_MAX: u32 = 99;
const NICE_LIMIT_BASE: i64 = 20;
const MASK_BYTES: usize = 8;

fn sched_yield(_: &mut Call<'_>) -> Result<u64, Errno> {
    rt::thread::yield_now();
    Ok(0)
}

/// Returns the task `id`, 0 being the caller. A first task that has ended can be named until its process was waited for.
fn named(call: &Call<'_>, id: i32) -> Result<Arc<Task>, Errno> {
    match u32::try_from(id) {
        Ok(0) => Ok(call.task.clone()),
        Ok(id) => call.task.visible().known_task(id).ok_or(Errno::ESRCH),
        Err(_) => Err(Errno::EINVAL),
    }
}

/// Does the same as [`named`] for calls that fail with `ESRCH` for a negative number, too.
fn named_or_nobody(call: &Call<'_>, id: i32) -> Result<Arc<Task>, Errno> {
    named(call, id).map_err(|_| Errno::ESRCH)
}

/// Checks that the caller may change the scheduling of `target`.
///
/// # Errors
/// `EPERM`.
fn check_change(call: &Call<'_>, target: &Task) -> Result<(), Errno> {
    if !owns(call, target) {
        return Err(Errno::EPERM);
    }
    call.task.visible().check_change(&target.process)
}

fn owns(call: &Call<'_>, target: &Task) -> bool {
    let (own, their) = (call.task.credentials(), target.credentials());
    own.has(Capabilities::SYS_NICE)
        || own.user.effective == their.user.real
        || own.user.effective == their.user.effective
}

fn is_real_time(policy: u32) -> bool {
    policy == raw::SCHED_FIFO || policy == raw::SCHED_RR
}

/// The scheduling that a call asks for.
struct Wanted {
    policy: u32,
    priority: u32,
    is_reset_on_fork: bool,
}

fn set_policy(call: &Call<'_>, target: &Arc<Task>, wanted: Wanted) -> Result<u64, Errno> {
    let Wanted { policy, priority, is_reset_on_fork } = wanted;
    let fits = match policy {
        raw::SCHED_FIFO | raw::SCHED_RR => (1..=PRIORITY_MAX).contains(&priority),
        raw::SCHED_NORMAL | raw::SCHED_BATCH | raw::SCHED_IDLE => priority == 0,
        _ => false,
    };
    if !fits {
        return Err(Errno::EINVAL);
    }
    let is_privileged = call.task.credentials().has(Capabilities::SYS_NICE);
    let is_allowed = is_privileged
        || owns(call, target)
            && may_take(target, policy, priority)
            && (is_reset_on_fork || !target.is_reset_on_fork.load(Ordering::Relaxed));
    if !is_allowed {
        return Err(Errno::EPERM);
    }
    call.task.visible().check_change(&target.process)?;
    let before_policy = target.policy.swap(policy, Ordering::Relaxed);
    let before_priority = target.real_time_priority.swap(priority, Ordering::Relaxed);
    target.is_reset_on_fork.store(is_reset_on_fork, Ordering::Relaxed);
    // As on Linux, a task whose policy and priority do not change keeps its place in its run queue.
    if (before_policy, before_priority) != (policy, priority) {
        target.follow_policy();
        inherit::priority_changed(target);
    }
    Ok(0)
}

/// Returns whether the policy may be set: without privileges a real-time policy is allowed within RLIMIT_RTPRIO and may
/// be kept with a priority that is no higher, and a task may leave SCHED_IDLE if RLIMIT_NICE allows its nice value
/// (sched(7)).
fn may_take(target: &Task, policy: u32, priority: u32) -> bool {
    let limits = &target.process.limits;
    let before = target.policy.load(Ordering::Relaxed);
    if is_real_time(policy) {
        let limit = limits.soft(Resource::RealTimePriority);
        let is_raise = priority > target.real_time_priority.load(Ordering::Relaxed);
        return (policy == before || limit > 0) && (!is_raise || u64::from(priority) <= limit);
    }
    before != raw::SCHED_IDLE
        || policy == raw::SCHED_IDLE
        || allows_nice(target, target.nice.load(Ordering::Relaxed))
}

/// Returns whether RLIMIT_NICE allows `nice`.
fn allows_nice(target: &Task, nice: i32) -> bool {
    (NICE_LIMIT_BASE - i64::from(nice)) as u64 <= target.process.limits.soft(Resource::Nice)
}

/// Reads the priority at `address` for the task `id`. A negative one, which is never valid, is refused together with the
/// policy.
fn read_priority(call: &Call<'_>, id: i32, address: u64) -> Result<u32, Errno> {
    if address == 0 || id < 0 {
        return Err(Errno::EINVAL);
    }
    call.memory.read(address)
}

fn sched_setscheduler(call: &mut Call<'_>) -> Result<u64, Errno> {
    let policy = call.uint(1);
    if call.int(1) < 0 {
        return Err(Errno::EINVAL);
    }
    let priority = read_priority(call, call.int(0), call.word(2))?;
    let target = named(call, call.int(0))?;
    let is_reset_on_fork = policy & RESET_ON_FORK != 0;
    let policy = policy & !RESET_ON_FORK;
    set_policy(call, &target, Wanted { policy, priority, is_reset_on_fork })
}

fn sched_getscheduler(call: &mut Call<'_>) -> Result<u64, Errno> {
    let target = named(call, call.int(0))?;
    let is_reset = target.is_reset_on_fork.load(Ordering::Relaxed);
    let flag = if is_reset { RESET_ON_FORK } else { 0 };
    Ok(u64::from(target.policy.load(Ordering::Relaxed) | flag))
}

fn sched_setparam(call: &mut Call<'_>) -> Result<u64, Errno> {
    let priority = read_priority(call, call.int(0), call.word(1))?;
    let target = named(call, call.int(0))?;
    let policy = target.policy.load(Ordering::Relaxed);
    let is_reset_on_fork = target.is_reset_on_fork.load(Ordering::Relaxed);
    set_policy(call, &target, Wanted { policy, priority, is_reset_on_fork })
}

fn sched_getparam(call: &mut Call<'_>) -> Result<u64, Errno> {
    if call.word(1) == 0 {
        return Err(Errno::EINVAL);
    }
    let priority = named(call, call.int(0))?.real_time_priority.load(Ordering::Relaxed);
    call.memory.write(call.word(1), &priority)?;
    Ok(0)
}

fn priority_range(call: &Call<'_>) -> Result<(u64, u64), Errno> {
    match call.uint(0) {
        raw::SCHED_FIFO | raw::SCHED_RR => Ok((1, u64::from(PRIORITY_MAX))),
        raw::SCHED_NORMAL | raw::SCHED_BATCH | raw::SCHED_IDLE | raw::SCHED_DEADLINE => Ok((0, 0)),
        _ => Err(Errno::EINVAL),
    }
}

fn sched_rr_get_interval(call: &mut Call<'_>) -> Result<u64, Errno> {
    const NS_A_MILLISECOND: u64 = 1_000_000;
    let target = named(call, call.int(0))?;
    let slice = match target.policy.load(Ordering::Relaxed) {
        raw::SCHED_FIFO => 0,
        raw::SCHED_RR => SLICE_MS.size() as u64 * NS_A_MILLISECOND,
        _ => Policy::SLICE_NS,
    };
    call.memory.write(call.word(1), &[0u64, slice])?;
    Ok(0)
}

fn present_mask() -> u64 {
    let count = rt::thread::processors().0.min(64) as u32;
    u64::MAX >> (64 - count.max(1))
}

fn sched_setaffinity(call: &mut Call<'_>) -> Result<u64, Errno> {
    let mut bytes = [0; MASK_BYTES];
    let given = (call.uint(1) as usize).min(MASK_BYTES);
    let place = bytes.get_mut(..given).ok_or(Errno::EINVAL)?;
    call.memory.read_bytes(call.word(2), place)?;
    let target = named_or_nobody(call, call.int(0))?;
    check_change(call, &target)?;
    let mask = u64::from_le_bytes(bytes) & present_mask();
    if mask == 0 {
        return Err(Errno::EINVAL);
    }
    target.affinity.store(mask, Ordering::Relaxed);
    target.follow_affinity();
    Ok(0)
}

fn sched_getaffinity(call: &mut Call<'_>) -> Result<u64, Errno> {
    let room = call.uint(1) as usize;
    if room < MASK_BYTES || !room.is_multiple_of(MASK_BYTES) {
        return Err(Errno::EINVAL);
    }
    let target = named_or_nobody(call, call.int(0))?;
    let mask = target.affinity.load(Ordering::Relaxed) & present_mask();
    call.memory.write(call.word(2), &mask)?;
    Ok(MASK_BYTES as u64)
}

/// Returns the tasks that `which` and `who` of getpriority(2) name.
fn named_tasks(call: &Call<'_>) -> Result<Vec<Arc<Task>>, Errno> {
    let who = call.uint(1);
    let own = &call.task;
    let visible = own.visible();
    let found = match call.uint(0) {
        raw::PRIO_PROCESS => {
            return Ok(alloc::vec![named_or_nobody(call, who as i32)?]);
        }
        raw::PRIO_PGRP => {
            let group = if who == 0 { own.process.group() } else { who };
            let tree = tree::read();
            tree.known_tasks(tree.group(group).filter(|process| visible.has(process)))
        }
        raw::PRIO_USER => {
            let user = if who == 0 { own.credentials().user.real } else { who };
            let is_wanted = |process: &Process| process.real_user() == user;
            let tree = tree::read();
            tree.known_tasks(tree.processes().filter(|it| is_wanted(it) && visible.has(it)))
        }
        _ => return Err(Errno::EINVAL),
    };
    if found.is_empty() { Err(Errno::ESRCH) } else { Ok(found) }
}

/// Returns whether getpriority or setpriority is about the calling task.
fn is_own_priority(call: &Call<'_>) -> bool {
    call.uint(0) == raw::PRIO_PROCESS && call.int(1) == 0
}

fn getpriority(call: &mut Call<'_>) -> Result<u64, Errno> {
    let nice = |task: &Arc<Task>| task.nice.load(Ordering::Relaxed);
    let lowest = match is_own_priority(call) {
        true => nice(call.task),
        false => named_tasks(call)?.iter().map(nice).min().unwrap_or(0),
    };
    Ok((NICE_LIMIT_BASE - i64::from(lowest)) as u64)
}

fn setpriority(call: &mut Call<'_>) -> Result<u64, Errno> {
    let nice = call.int(2).clamp(-20, 19);
    if is_own_priority(call) && nice == call.task.nice.load(Ordering::Relaxed) {
        return Ok(0);
    }
    for task in named_tasks(call)? {
        check_change(call, &task)?;
        let is_raise = nice < task.nice.load(Ordering::Relaxed);
        let is_privileged = call.task.credentials().has(Capabilities::SYS_NICE);
        if is_raise && !allows_nice(&task, nice) && !is_privileged {
            return Err(Errno::EACCES);
        }
        task.nice.store(nice, Ordering::Relaxed);
        task.follow_policy();
    }
    Ok(0)
}

fn getcpu(call: &mut Call<'_>) -> Result<u64, Errno> {
    let memory = call.memory;
    if call.word(0) != 0 {
        memory.write(call.word(0), &(rt::thread::processors().1 as u32))?;
    }
    if call.word(1) != 0 {
        memory.write(call.word(1), &0u32)?;
    }
    Ok(0)
}
