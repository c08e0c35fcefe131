//! seccomp and its older form, prctl(`PR_SET_SECCOMP`): a task gives up system calls, for itself or for all tasks of its
//! process.
use super::{barrier::visit_processors, entry::Entry};
use alloc::{sync::Arc, vec::Vec};
use bitflags::bitflags;
use bpf::INSTRUCTIONS_MAX;
use core::sync::atomic::Ordering;
use linux_raw_sys::general as raw;
use process::{
    Task,
    call::Call,
    files::{anonymous::SECCOMP_NOTIFY, install::install_anonymous},
    seccomp::{
        Confinement, Filter, Logging, Prepared, audit,
        listener::{self, Notices, Patience},
    },
};
use vfs::{Errno, credentials::Capabilities};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[Entry::whole(raw::__NR_seccomp, "seccomp", |call| {
    operate(call, call.uint(0), call.uint(1), call.word(2))
})];

const SET_MODE_STRICT: u32 = 0;
const SET_MODE_FILTER: u32 = 1;
const GET_ACTION_AVAIL: u32 = 2;
const GET_NOTIF_SIZES: u32 = 3;

bitflags! {
    /// Flags `SECCOMP_FILTER_FLAG_...`; the values are Linux's.
    #[derive(Clone, Copy)]
    struct Flags: u32 {
        /// All tasks of the process get the filter.
        const TSYNC = 1;
        /// Calls that the filter refuses are logged.
        const LOG = 2;
        /// Speculation need not be prevented; it never is.
        const SPEC_ALLOW = 4;
        /// The result is a file that listens to the filter.
        const NEW_LISTENER = 8;
        /// With `TSYNC`: if a task cannot get the filter, the call fails with `ESRCH` and does not return that task's id.
        const TSYNC_ESRCH = 16;
        /// A task whose call a listener has received is interrupted by its end only.
        const WAIT_KILLABLE_RECV = 32;
    }
}

/// Decodes the flags and refuses invalid combinations: the caller could not tell whether the result is a descriptor or a
/// thread.
fn decode_flags(bits: u32) -> Result<Flags, Errno> {
    let flags = Flags::from_bits(bits).ok_or(Errno::EINVAL)?;
    let listens = flags.contains(Flags::NEW_LISTENER);
    let is_ambiguous =
        listens && flags.contains(Flags::TSYNC) && !flags.contains(Flags::TSYNC_ESRCH);
    if is_ambiguous || flags.contains(Flags::WAIT_KILLABLE_RECV) && !listens {
        return Err(Errno::EINVAL);
    }
    Ok(flags)
}

fn operate(call: &Call<'_>, operation: u32, flags: u32, address: u64) -> Result<u64, Errno> {
    match operation {
        SET_MODE_STRICT if flags == 0 && address == 0 => set_strict(call.task),
        SET_MODE_FILTER => {
            let flags = decode_flags(flags)?;
            let prepared = prepare(call, address)?;
            match flags.contains(Flags::NEW_LISTENER) {
                true => set_filter_and_listen(call, prepared, flags),
                false => set_filter(call.task, prepared, None, flags),
            }
        }
        GET_ACTION_AVAIL if flags == 0 => {
            let action = call.memory.read::<u32>(address)?;
            if audit::is_available(action) { Ok(0) } else { Err(Errno::EOPNOTSUPP) }
        }
        GET_NOTIF_SIZES if flags == 0 => {
            call.memory.write(address, &listener::SIZES)?;
            Ok(0)
        }
        _ => Err(Errno::EINVAL),
    }
}

/// Does prctl(`PR_SET_SECCOMP`, `mode`, `filter`).
pub(super) fn set_by_prctl(call: &Call<'_>, mode: u64, filter: u64) -> Result<u64, Errno> {
    match mode {
        1 => operate(call, SET_MODE_STRICT, 0, 0),
        2 => operate(call, SET_MODE_FILTER, 0, filter),
        _ => Err(Errno::EINVAL),
    }
}

/// Does prctl(`PR_GET_SECCOMP`).
pub(super) fn mode(task: &Task) -> u64 {
    task.guard().map_or(0, |guard| u64::from(guard.mode()))
}

/// Reads the program that a `struct sock_fprog` at `address` describes: a count in 16 bits, and the program's address
/// eight bytes further.
fn prepare(call: &Call<'_>, address: u64) -> Result<Prepared, Errno> {
    let [count, program] = call.memory.read::<[u64; 2]>(address)?;
    let count = usize::from(count as u16);
    if !(1..=INSTRUCTIONS_MAX).contains(&count) {
        return Err(Errno::EINVAL);
    }
    let task = call.task;
    let is_confined = task.no_new_privileges.load(Ordering::Relaxed);
    if !is_confined && !task.credentials().has(Capabilities::SYS_ADMIN) {
        return Err(Errno::EACCES);
    }
    if program == 0 {
        return Err(Errno::EINVAL);
    }
    Prepared::new(&call.memory.read_array::<u64>(program, count)?)
}

fn set_strict(task: &Task) -> Result<u64, Errno> {
    let _state = task.process.signals.lock();
    if task.guard().is_some() {
        return Err(Errno::EINVAL);
    }
    task.set_guard(Confinement::Strict);
    Ok(0)
}

/// Does the same as [`set_filter`], and returns the listener's descriptor.
fn set_filter_and_listen(call: &Call<'_>, prepared: Prepared, flags: Flags) -> Result<u64, Errno> {
    let patience = match flags.contains(Flags::WAIT_KILLABLE_RECV) {
        true => Patience::Killable,
        false => Patience::Interruptible,
    };
    let (notices, file) = Notices::new(patience);
    let flags_of_file = raw::O_RDWR | raw::O_CLOEXEC;
    let fd = install_anonymous(call.task, file, &SECCOMP_NOTIFY, flags_of_file)?;
    set_filter(call.task, prepared, Some(notices), flags).inspect_err(|_| {
        let _ = call.files.close(fd as i32, call.caller());
    })?;
    Ok(fd)
}

/// Puts a filter before those of the task. If another task of the process cannot get it, no task does, and the result is
/// that task's id. No task that gets one has an exec under way: its rights would be decided without the filter.
fn set_filter(
    task: &Arc<Task>,
    prepared: Prepared,
    notices: Option<Arc<Notices>>,
    flags: Flags,
) -> Result<u64, Errno> {
    let _decision = match flags.contains(Flags::TSYNC) {
        true => Some(task.process.exec_guard.decide(|| task.is_ending())?),
        false => None,
    };
    // The variable is declared outside the lock: a filter that no task gets is dropped after it, because that wakes the
    // pollers of its listener.
    let filter;
    let others = {
        let state = task.process.signals.lock();
        let before = match task.guard() {
            None => None,
            Some(Confinement::Filtered(filter)) => Some(filter),
            Some(Confinement::Strict) => return Err(Errno::EINVAL),
        };
        if notices.is_some() && before.as_ref().is_some_and(|chain| chain.has_listener()) {
            return Err(Errno::EBUSY);
        }
        let logging = if flags.contains(Flags::LOG) { Logging::On } else { Logging::Off };
        filter = Filter::new(prepared, logging, notices, before.clone())?;
        let may_follow = |other: &&Arc<Task>| !Arc::ptr_eq(other, task) && !other.is_ending();
        let others: Vec<Arc<Task>> = match flags.contains(Flags::TSYNC) {
            true => state.tasks.iter().filter(may_follow).cloned().collect(),
            false => Vec::new(),
        };
        let is_apart = |other: &&Arc<Task>| !is_behind(other, before.as_deref());
        if let Some(apart) = others.iter().find(is_apart) {
            let is_silent = flags.contains(Flags::TSYNC_ESRCH);
            return if is_silent { Err(Errno::ESRCH) } else { Ok(u64::from(apart.id())) };
        }
        for other in &others {
            // This comes first: a task that has the filter without it could execute a program with more rights under the
            // filter.
            let is_confined = task.no_new_privileges.load(Ordering::Relaxed);
            other.no_new_privileges.fetch_or(is_confined, Ordering::Relaxed);
            other.set_guard(Confinement::Filtered(filter.clone()));
        }
        task.set_guard(Confinement::Filtered(filter.clone()));
        others
    };
    if !others.is_empty() {
        have_looked(task, &others);
    }
    Ok(0)
}

/// Returns whether all filters of `task` are also in the chain `before`.
fn is_behind(task: &Task, before: Option<&Filter>) -> bool {
    match task.guard() {
        None => true,
        Some(Confinement::Filtered(own)) => before.is_some_and(|chain| chain.descends_from(&own)),
        Some(Confinement::Strict) => false,
    }
}

/// Makes `others`, whose attention says that they have another guard, check it before they make another call.
///
/// A task in a call checks its attention at the call's end, and is not kicked: that would interrupt the call. A task in
/// its program is kicked out of it. A visit to each processor comes between setting the attention and reading the state of
/// the tasks, as neither they nor this thread have a barrier there, and another one after the kicks, as those are not
/// waited for.
fn have_looked(task: &Task, others: &[Arc<Task>]) {
    visit_processors(task);
    for other in others.iter().filter(|other| other.is_in_user_mode()) {
        other.summon(0);
    }
    visit_processors(task);
}
