//! futex(2), futex_waitv(2), and the robust list.
use super::entry::Entry;
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::Ordering;
use interfaces::monitor::ObjectAccess;
use linux_raw_sys::general as raw;
use process::{
    Task,
    call::Call,
    futex::{self, Requeue, Scope, VECTOR_MAX, WantedWord, inherit},
    time::clock::{Clock, Timespec},
    trace::{self, Mode, Target},
};
use rt::time::Instant;
use vfs::{Errno, security};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_futex, "futex", futex),
    Entry::whole(raw::__NR_futex_waitv, "futex_waitv", futex_waitv),
    Entry::whole(raw::__NR_set_robust_list, "set_robust_list", set_robust_list),
    Entry::whole(raw::__NR_get_robust_list, "get_robust_list", get_robust_list),
];

const COMMAND_MASK: u32 = 0x7f;

/// Returns whether the command may select its clock by a flag.
fn names_clock(command: u32) -> bool {
    matches!(command, raw::FUTEX_WAIT_BITSET | raw::FUTEX_LOCK_PI2 | raw::FUTEX_WAIT_REQUEUE_PI)
}

/// Returns whether the fourth argument of the command is a time.
fn has_deadline(command: u32) -> bool {
    names_clock(command) || matches!(command, raw::FUTEX_WAIT | raw::FUTEX_LOCK_PI)
}

/// Returns a number of waiters to wake: a number that is not positive counts as 1.
fn at_least_one(count: u32) -> u32 {
    (count as i32).max(1) as u32
}

/// Decodes a number of waiters to wake or to move.
///
/// # Errors
/// `EINVAL` for a negative one.
fn count(word: u64) -> Result<u32, Errno> {
    u32::try_from(word as i32).map_err(|_| Errno::EINVAL)
}

/// Returns the number of words that a command names.
fn words_of(command: u32) -> usize {
    match command {
        raw::FUTEX_REQUEUE
        | raw::FUTEX_CMP_REQUEUE
        | raw::FUTEX_WAKE_OP
        | raw::FUTEX_WAIT_REQUEUE_PI
        | raw::FUTEX_CMP_REQUEUE_PI => 2,
        _ => 1,
    }
}

/// Checks that the caller may be seen at words of files that it cannot store to: a wake changes the waiters, and a waiter is counted
/// by those who wake it. So both need the right to write the file (K1).
///
/// # Errors
/// `EACCES`.
fn check_words(call: &Call<'_>, addresses: &[u64]) -> Result<(), Errno> {
    let who = call.task.credentials();
    let mut files = addresses.iter().filter_map(|address| call.memory.file_only_read(*address));
    files.try_for_each(|file| file.vnode().admit(&who, ObjectAccess::Write))
}

fn futex(call: &mut Call<'_>) -> Result<u64, Errno> {
    let [address, _, _, fourth, second, _] = call.args();
    let (operation, value, last) = (call.uint(1), call.uint(2), call.uint(5));
    let scope =
        if operation & raw::FUTEX_PRIVATE_FLAG != 0 { Scope::Private } else { Scope::Shared };
    let memory = call.memory;
    let command = operation & COMMAND_MASK;
    if scope == Scope::Shared && security::is_enforced() {
        let words = [address, second];
        check_words(call, words.get(..words_of(command)).unwrap_or_default())?;
    }
    if command == raw::FUTEX_WAKE && operation & raw::FUTEX_CLOCK_REALTIME == 0 {
        let woken = futex::wake(memory, address, scope, at_least_one(value), futex::ANY)?;
        return Ok(u64::from(woken));
    }
    // An invalid time is reported first.
    let deadline = if has_deadline(command) { deadline(call)? } else { None };
    if operation & raw::FUTEX_CLOCK_REALTIME != 0 && !names_clock(command) {
        return Err(Errno::ENOSYS);
    }
    match command {
        raw::FUTEX_WAIT => wait(call, scope, futex::ANY, deadline),
        raw::FUTEX_WAIT_BITSET => wait(call, scope, last, deadline),
        raw::FUTEX_WAKE_BITSET => {
            Ok(u64::from(futex::wake(memory, address, scope, at_least_one(value), last)?))
        }
        raw::FUTEX_REQUEUE | raw::FUTEX_CMP_REQUEUE => {
            let (wake, requeue) = (count(u64::from(value))?, count(fourth)?);
            let expected = (command == raw::FUTEX_CMP_REQUEUE).then_some(last);
            let request = Requeue { wake, requeue, expected };
            let (woken, moved) = futex::requeue(memory, address, second, scope, request)?;
            Ok(u64::from(woken) + u64::from(moved))
        }
        raw::FUTEX_WAKE_OP => {
            let counts = (at_least_one(value), at_least_one(fourth as u32));
            let woken = futex::wake_operation(memory, (address, second), scope, counts, last)?;
            Ok(u64::from(woken))
        }
        raw::FUTEX_LOCK_PI | raw::FUTEX_LOCK_PI2 => {
            inherit::lock(call.task, (address, scope), deadline).map(|()| 0)
        }
        raw::FUTEX_TRYLOCK_PI => inherit::try_lock(call.task, (address, scope)).map(|()| 0),
        raw::FUTEX_UNLOCK_PI => inherit::unlock(call.task, (address, scope)).map(|()| 0),
        raw::FUTEX_WAIT_REQUEUE_PI => {
            let words = (address, second, scope);
            inherit::wait_and_lock(call.task, words, value, deadline).map(|()| 0)
        }
        raw::FUTEX_CMP_REQUEUE_PI => {
            let limit = count(fourth)?;
            if value != 1 {
                return Err(Errno::EINVAL);
            }
            inherit::requeue(memory, (address, second, scope), limit, last).map(u64::from)
        }
        _ => Err(Errno::ENOSYS),
    }
}

fn wait(
    call: &mut Call<'_>,
    scope: Scope,
    set: u32,
    deadline: Option<Instant>,
) -> Result<u64, Errno> {
    let (address, value) = (call.word(0), call.uint(2));
    let Some(deadline) = deadline else {
        futex::wait(call.memory, (address, scope), value, set, None).map_err(
            |errno| match errno {
                Errno::RestartUnhandled => Errno::Restart,
                other => other,
            },
        )?;
        return Ok(0);
    };
    let scope_word = u64::from(scope == Scope::Shared);
    timed_wait(call, [address, scope_word, u64::from(value), u64::from(set), deadline.0, 0])
}

/// Returns the deadline. The time of FUTEX_WAIT is relative to now on the monotonic clock, that of FUTEX_LOCK_PI one of the
/// wall clock, and that of other commands one of the clock that their flag names.
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
        raw::FUTEX_LOCK_PI => Clock::Realtime.earliest(ns),
        _ => clock.earliest(ns),
    }))
}

/// Does a wait with a deadline, which restart_syscall continues: address, is shared, value, set, deadline.
fn timed_wait(call: &Call<'_>, args: [u64; 6]) -> Result<u64, Errno> {
    let [address, scope, value, set, deadline, _] = args;
    let scope = if scope == 0 { Scope::Private } else { Scope::Shared };
    match futex::wait(
        call.memory,
        (address, scope),
        value as u32,
        set as u32,
        Some(Instant(deadline)),
    ) {
        Ok(()) => Ok(0),
        Err(Errno::RestartUnhandled) => Err(call.task.restart_as(continue_wait, args)),
        Err(errno) => Err(errno),
    }
}

fn continue_wait(call: &mut Call<'_>) -> Result<u64, Errno> {
    timed_wait(call, call.args())
}

/// `struct futex_waitv`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct RawWanted {
    value: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

impl RawWanted {
    fn decode(&self) -> Result<WantedWord, Errno> {
        let is_private = self.flags & raw::FUTEX_PRIVATE_FLAG != 0;
        if self.flags & !raw::FUTEX_PRIVATE_FLAG != raw::FUTEX_32 || self.reserved != 0 {
            return Err(Errno::EINVAL);
        }
        let expected = u32::try_from(self.value).map_err(|_| Errno::EINVAL)?;
        let scope = if is_private { Scope::Private } else { Scope::Shared };
        Ok(WantedWord { address: self.address, scope, expected })
    }
}

fn futex_waitv(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (count, flags, timeout) = (call.uint(1) as usize, call.uint(2), call.word(3));
    if flags != 0 || !(1..=VECTOR_MAX).contains(&count) || call.word(0) == 0 {
        return Err(Errno::EINVAL);
    }
    let deadline = match timeout {
        0 => None,
        at => {
            let clock = match call.uint(4) {
                raw::CLOCK_REALTIME => Clock::Realtime,
                raw::CLOCK_MONOTONIC => Clock::Monotonic,
                _ => return Err(Errno::EINVAL),
            };
            Some(clock.earliest(call.memory.read::<Timespec>(at)?.to_ns()?))
        }
    };
    let given: Vec<RawWanted> = call.memory.read_array(call.word(0), count)?;
    let words: Vec<WantedWord> = given.iter().map(RawWanted::decode).collect::<Result<_, _>>()?;
    if security::is_enforced() {
        let shared = words.iter().filter(|word| word.scope == Scope::Shared);
        check_words(call, &shared.map(|word| word.address).collect::<Vec<_>>())?;
    }
    match futex::wait_for_any(call.task, &words, deadline) {
        Ok(woken) => Ok(woken as u64),
        Err(Errno::RestartUnhandled) => Err(Errno::Restart),
        Err(error) => Err(error),
    }
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
        id => {
            let visible = call.task.visible();
            u32::try_from(id).ok().and_then(|id| visible.task(id)).ok_or(Errno::ESRCH)?
        }
    };
    let list = |task: &Arc<Task>| task.robust_list.load(Ordering::Relaxed);
    let whole = Target::task(&target.process, &target);
    let list = trace::look(call.task, Mode::Real, whole, list)?;
    let memory = call.memory;
    memory.write(call.word(1), &list)?;
    memory.write(call.word(2), &LIST_HEAD_BYTES)?;
    Ok(0)
}
