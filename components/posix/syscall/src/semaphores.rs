//! semget, semop, semtimedop, semctl (handlers of [`objects::ipc::semaphore`]).
use super::entry::Entry;
use alloc::vec::Vec;
use linux_raw_sys::general as raw;
use objects::ipc::{
    Who,
    layout::{RawSemaphoreLimits, RawSet},
    limits,
    registry::Stat,
    semaphore,
};
use process::{Task, call::Call, time::clock::Timespec};
use rt::time::Instant;
use sysv::semaphores::{SemaphoreOperation, VALUE_MAX};
use vfs::Errno;

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_semget, "semget", semget),
    Entry::whole(raw::__NR_semop, "semop", semop),
    Entry::whole(raw::__NR_semtimedop, "semtimedop", semtimedop),
    Entry::whole(raw::__NR_semctl, "semctl", semctl),
];

const IPC_RMID: i32 = 0;
const IPC_SET: i32 = 1;
const IPC_STAT: i32 = 2;
const IPC_INFO: i32 = 3;
const GETPID: i32 = 11;
const GETVAL: i32 = 12;
const GETALL: i32 = 13;
const GETNCNT: i32 = 14;
const GETZCNT: i32 = 15;
const SETVAL: i32 = 16;
const SETALL: i32 = 17;
const SEM_STAT: i32 = 18;
const SEM_INFO: i32 = 19;
const SEM_STAT_ANY: i32 = 20;

fn semget(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (key, flags) = (call.int(0), call.int(2));
    let count = usize::try_from(call.int(1)).map_err(|_| Errno::EINVAL)?;
    if count as u64 > limits::SEMAPHORES_A_SET.get() {
        return Err(Errno::EINVAL);
    }
    semaphore::obtain(call.task, (key, flags), count).map(|id| id as u64)
}

fn semop(call: &mut Call<'_>) -> Result<u64, Errno> {
    operate(call, None)
}

fn semtimedop(call: &mut Call<'_>) -> Result<u64, Errno> {
    match call.word(3) {
        0 => operate(call, None),
        address => {
            let timeout = call.memory.read::<Timespec>(address)?;
            operate(call, Some(timeout))
        }
    }
}

fn operate(call: &mut Call<'_>, timeout: Option<Timespec>) -> Result<u64, Errno> {
    let (id, count) = (call.int(0), call.uint(2));
    if u64::from(count) > limits::OPERATIONS.get() {
        return Err(Errno::E2BIG);
    }
    if count == 0 {
        return Err(Errno::EINVAL);
    }
    let words = call.memory.read_array::<[u16; 3]>(call.word(1), count as usize)?;
    let deadline: Option<Instant> = match timeout {
        Some(timeout) => Some(rt::time::now().after_ns(timeout.to_ns()?)),
        None => None,
    };
    let operations: Vec<SemaphoreOperation> = words
        .into_iter()
        .map(|[number, change, flags]| SemaphoreOperation {
            number,
            change: change as i16,
            flags: flags as i16,
        })
        .collect();
    semaphore::operate(call.task, id, operations, deadline).map(|()| 0)
}

fn semctl(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (id, command, argument) = (call.int(0), call.int(2), call.word(3));
    if id < 0 {
        return Err(Errno::EINVAL);
    }
    let who = Who::of(call.task);
    match command {
        IPC_INFO | SEM_INFO => {
            let highest = semaphore::registry().highest(&who);
            call.memory.write(argument, &info(command, call.task))?;
            Ok(highest)
        }
        IPC_STAT => stat(call, &who, Stat::Identifier),
        SEM_STAT => stat(call, &who, Stat::Index),
        SEM_STAT_ANY => stat(call, &who, Stat::AnyIndex),
        GETALL => {
            let values = semaphore::registry().get(id, call.task)?.values(call.task)?;
            call.memory.write_bytes(argument, zerocopy::IntoBytes::as_bytes(values.as_slice()))?;
            Ok(0)
        }
        SETALL => set_all(call, id, argument),
        SETVAL => set_value(call, id, argument as i32),
        GETVAL | GETPID | GETNCNT | GETZCNT => look(call, id, command),
        IPC_SET => {
            let wanted: RawSet = call.memory.read(argument)?;
            semaphore::set(id, &who, &wanted.permission).map(|()| 0)
        }
        IPC_RMID => semaphore::remove(id, &who).map(|()| 0),
        _ => Err(Errno::EINVAL),
    }
}

fn stat(call: &Call<'_>, who: &Who, stat: Stat) -> Result<u64, Errno> {
    let (set, answer) = semaphore::registry().stat(call.int(0), stat, who)?;
    call.memory.write(call.word(3), &set.report())?;
    Ok(answer)
}

fn set_all(call: &Call<'_>, id: i32, address: u64) -> Result<u64, Errno> {
    let set = semaphore::registry().get(id, call.task)?;
    set.check_alter(call.task)?;
    let values = call.memory.read_array::<u16>(address, set.count())?;
    if values.iter().any(|value| i32::from(*value) > VALUE_MAX) {
        return Err(Errno::ERANGE);
    }
    set.set_values(call.task, &values).map(|()| 0)
}

fn set_value(call: &Call<'_>, id: i32, value: i32) -> Result<u64, Errno> {
    if !(0..=VALUE_MAX).contains(&value) {
        return Err(Errno::ERANGE);
    }
    let set = semaphore::registry().get(id, call.task)?;
    set.set_value(call.task, call.int(1), value).map(|()| 0)
}

fn look(call: &Call<'_>, id: i32, command: i32) -> Result<u64, Errno> {
    let set = semaphore::registry().get(id, call.task)?;
    set.look(call.task, call.int(1), |set, number| match command {
        GETVAL => set.value(number) as u64,
        GETPID => u64::from(set.process(number)),
        GETNCNT => set.waiting_to_take(number) as u64,
        _ => set.waiting_for_zero(number) as u64,
    })
}

/// Returns `struct seminfo`: the limits; for SEM_INFO with present sums, as `task` sees them, instead of two of them.
fn info(command: i32, task: &Task) -> RawSemaphoreLimits {
    const SEMUSZ: i32 = 20;
    let all = limits::SEMAPHORES.get() as i32;
    let operations = limits::OPERATIONS.get() as i32;
    let (undo_bytes, undo_max) = match command {
        SEM_INFO => {
            let sets = semaphore::registry().shown_to(task).len();
            (sets as i32, semaphore::semaphores(task) as i32)
        }
        _ => (SEMUSZ, VALUE_MAX),
    };
    RawSemaphoreLimits {
        map_entries: limits::SEMAPHORES.default() as i32,
        sets: limits::SEMAPHORE_SETS.get() as i32,
        semaphores: all,
        undo_structures: limits::SEMAPHORES.default() as i32,
        semaphores_a_set: limits::SEMAPHORES_A_SET.get() as i32,
        operations,
        undo_entries: limits::OPERATIONS.default() as i32,
        undo_bytes,
        value_max: VALUE_MAX,
        undo_max,
    }
}
