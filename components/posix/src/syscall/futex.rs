//! futex(2) and the robust list.
use super::{Call, Entry};
use crate::{
    futex::{self, Requeue, Scope},
    process::{trace, tree},
    time::clock::{Clock, Timespec},
};
use core::sync::atomic::Ordering;
use linux_raw_sys::general as raw;
use rt::time::Instant;
use vfs::Errno;

/// The calls of this file.
pub const CALLS: &[Entry] = &[
    Entry::partial(
        raw::__NR_futex,
        "futex",
        "priority inheritance (FUTEX_LOCK_PI and its kin: ENOSYS)",
        futex,
    ),
    Entry::whole(raw::__NR_set_robust_list, "set_robust_list", set_robust_list),
    Entry::whole(raw::__NR_get_robust_list, "get_robust_list", get_robust_list),
];

const COMMAND_MASK: u32 = 0x7f;

fn futex(call: &mut Call<'_>) -> Result<u64, Errno> {
    let [address, _, _, fourth, second, _] = call.args;
    let (operation, value, last) = (call.uint(1), call.uint(2), call.uint(5));
    let scope =
        if operation & raw::FUTEX_PRIVATE_FLAG != 0 { Scope::Private } else { Scope::Shared };
    let memory = call.memory;
    let command = operation & COMMAND_MASK;
    match command {
        raw::FUTEX_WAIT => wait(call, scope, futex::ANY),
        raw::FUTEX_WAIT_BITSET => wait(call, scope, last),
        raw::FUTEX_WAKE => {
            Ok(u64::from(futex::wake(memory, address, scope, value.max(1), futex::ANY)?))
        }
        raw::FUTEX_WAKE_BITSET => {
            Ok(u64::from(futex::wake(memory, address, scope, value.max(1), last)?))
        }
        raw::FUTEX_REQUEUE | raw::FUTEX_CMP_REQUEUE => {
            let limit = u32::try_from(fourth as i32).map_err(|_| Errno::EINVAL)?;
            let expected = (command == raw::FUTEX_CMP_REQUEUE).then_some(last);
            let request = Requeue { wake: value, requeue: limit, expected };
            let (woken, moved) = futex::requeue(memory, address, second, scope, request)?;
            let counted = if expected.is_some() { woken + moved } else { woken };
            Ok(u64::from(counted))
        }
        raw::FUTEX_WAKE_OP => {
            let woken = futex::wake_operation(
                memory,
                (address, second),
                scope,
                (value, fourth as u32),
                last,
            )?;
            Ok(u64::from(woken))
        }
        _ => Err(Errno::ENOSYS),
    }
}

fn wait(call: &mut Call<'_>, scope: Scope, set: u32) -> Result<u64, Errno> {
    let (address, value) = (call.word(0), call.uint(2));
    let Some(deadline) = deadline(call)? else {
        futex::wait(call.task, (address, scope), value, set, None).map_err(
            |errno| match errno {
                Errno::RESTART_NO_HANDLER => Errno::RESTART,
                other => other,
            },
        )?;
        return Ok(0);
    };
    let scope_word = u64::from(scope == Scope::Shared);
    timed_wait(call, [address, scope_word, u64::from(value), u64::from(set), deadline.0, 0])
}

/// FUTEX_WAIT counts from now on the monotonic clock, FUTEX_WAIT_BITSET means a time of the clock
/// its flag names.
fn deadline(call: &Call<'_>) -> Result<Option<Instant>, Errno> {
    if call.word(3) == 0 {
        return Ok(None);
    }
    let operation = call.uint(1);
    let ns = call.memory.read::<Timespec>(call.word(3))?.to_ns()?;
    let clock =
        if operation & raw::FUTEX_CLOCK_REALTIME != 0 { Clock::Realtime } else { Clock::Monotonic };
    Ok(Some(match operation & COMMAND_MASK {
        raw::FUTEX_WAIT => rt::time::now().after_ns(ns),
        _ => clock.earliest(ns),
    }))
}

/// A wait with a deadline, which restart_syscall continues: address, is shared, value, set, deadline.
fn timed_wait(call: &Call<'_>, args: [u64; 6]) -> Result<u64, Errno> {
    let [address, scope, value, set, deadline, _] = args;
    let scope = if scope == 0 { Scope::Private } else { Scope::Shared };
    match futex::wait(
        call.task,
        (address, scope),
        value as u32,
        set as u32,
        Some(Instant(deadline)),
    ) {
        Ok(()) => Ok(0),
        Err(Errno::RESTART_NO_HANDLER) => Err(call.task.restart_as(continue_wait, args)),
        Err(errno) => Err(errno),
    }
}

fn continue_wait(call: &mut Call<'_>) -> Result<u64, Errno> {
    timed_wait(call, call.args)
}

const LIST_HEAD_BYTES: u64 = 24;

fn set_robust_list(call: &mut Call<'_>) -> Result<u64, Errno> {
    if call.word(1) != LIST_HEAD_BYTES {
        return Err(Errno::EINVAL);
    }
    call.task.robust_list.store(call.word(0), Ordering::Relaxed);
    Ok(0)
}

fn get_robust_list(call: &mut Call<'_>) -> Result<u64, Errno> {
    let target = match call.int(0) {
        0 => call.task.clone(),
        id => u32::try_from(id).ok().and_then(tree::task).ok_or(Errno::ESRCH)?,
    };
    trace::check(call.task, &target.process)?;
    let memory = call.memory;
    memory.write(call.word(1), &target.robust_list.load(Ordering::Relaxed))?;
    memory.write(call.word(2), &LIST_HEAD_BYTES)?;
    Ok(0)
}
