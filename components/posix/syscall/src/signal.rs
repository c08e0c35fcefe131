//! Calls about signals: actions, masks, sending, waiting, the alternate stack.
use super::entry::Entry;
use alloc::{collections::BTreeSet, sync::Arc, vec::Vec};
use linux_raw_sys::general as raw;
use process::{
    Process, Task, audit,
    call::Call,
    signal::{
        self, IGNORED_BY_DEFAULT, Info, LAST, SIGCONT, SIGKILL, SIGSEGV, SignalSet, UNBLOCKABLE,
        action::{self, Action, flags},
        bit, deliver,
        frame::{self, StackWords},
        info::{self, UserInfo},
        mask,
    },
    time::clock::Timespec,
    tree, visible,
};
use rt::thread::Woken;
use vfs::{Credentials, Errno, credentials::Capabilities};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_rt_sigaction, "rt_sigaction", rt_sigaction),
    Entry::whole(raw::__NR_rt_sigprocmask, "rt_sigprocmask", rt_sigprocmask),
    Entry::whole(raw::__NR_rt_sigreturn, "rt_sigreturn", rt_sigreturn),
    Entry::whole(raw::__NR_rt_sigpending, "rt_sigpending", rt_sigpending),
    Entry::whole(raw::__NR_rt_sigtimedwait, "rt_sigtimedwait", rt_sigtimedwait),
    Entry::whole(raw::__NR_rt_sigsuspend, "rt_sigsuspend", rt_sigsuspend),
    Entry::whole(raw::__NR_rt_sigqueueinfo, "rt_sigqueueinfo", rt_sigqueueinfo),
    Entry::whole(raw::__NR_rt_tgsigqueueinfo, "rt_tgsigqueueinfo", rt_tgsigqueueinfo),
    Entry::whole(raw::__NR_sigaltstack, "sigaltstack", sigaltstack),
    Entry::whole(raw::__NR_pause, "pause", pause),
    Entry::whole(raw::__NR_kill, "kill", kill),
    Entry::whole(raw::__NR_tkill, "tkill", tkill),
    Entry::whole(raw::__NR_tgkill, "tgkill", tgkill),
    Entry::whole(raw::__NR_restart_syscall, "restart_syscall", restart_syscall),
];

const SET_BYTES: u64 = size_of::<SignalSet>() as u64;

fn check_set_bytes(bytes: u64) -> Result<(), Errno> {
    if bytes == SET_BYTES { Ok(()) } else { Err(Errno::EINVAL) }
}

/// Decodes a signal number; 0 is allowed.
pub(super) fn decode_signal(number: i32) -> Result<u8, Errno> {
    u8::try_from(number).ok().filter(|signal| *signal <= LAST).ok_or(Errno::EINVAL)
}

fn rt_sigaction(call: &mut Call<'_>) -> Result<u64, Errno> {
    let [_, new_at, old_at, bytes, ..] = call.args();
    check_set_bytes(bytes)?;
    let (memory, process) = (call.memory, &call.task.process);
    // A bad address is reported before a bad signal, as on Linux.
    let mut new = Action::default();
    if new_at != 0 {
        new = memory.read(new_at)?;
    }
    let signal = decode_signal(call.int(0))?;
    if signal == 0 || new_at != 0 && bit(signal) & UNBLOCKABLE != 0 {
        return Err(Errno::EINVAL);
    }
    let mut old = Action::default();
    let place = if old_at != 0 { Some(&mut old) } else { None };
    if new_at == 0 {
        place.into_iter().for_each(|place| *place = process.action(signal));
    } else {
        new.mask &= !UNBLOCKABLE;
        new.flags &= flags::KNOWN;
        replace_action(process, signal, &new, place);
    }
    if old_at != 0 {
        memory.commit(old_at, &old)?;
    }
    Ok(0)
}

/// Sets an action, after the previous one was passed to `old`; signals that are ignored from now on are removed from the
/// queues.
#[inline]
fn replace_action(process: &Process, signal: u8, new: &Action, old: Option<&mut Action>) {
    let mut state = process.signals.lock();
    {
        let mut actions = state.actions.lock();
        if let Some(old) = old {
            *old = actions.get(signal);
        }
        actions.set(signal, *new);
    }
    let is_ignored = new.handler == action::IGNORE
        || new.handler == action::DEFAULT && bit(signal) & IGNORED_BY_DEFAULT != 0;
    if is_ignored {
        state.queue.discard(bit(signal));
        for task in &state.tasks {
            task.signals.lock().queue.discard(bit(signal));
        }
    }
}

fn rt_sigprocmask(call: &mut Call<'_>) -> Result<u64, Errno> {
    let [_, new_at, old_at, bytes, ..] = call.args();
    check_set_bytes(bytes)?;
    let old = call.task.signals.lock().mask;
    if new_at != 0 {
        let given: SignalSet = call.memory.read(new_at)?;
        let new = match call.uint(0) {
            raw::SIG_BLOCK => old | given,
            raw::SIG_UNBLOCK => old & !given,
            raw::SIG_SETMASK => given,
            _ => return Err(Errno::EINVAL),
        };
        if new != old {
            mask::set_mask(call.task, new);
        }
    }
    if old_at != 0 {
        call.memory.commit(old_at, &old)?;
    }
    Ok(0)
}

fn rt_sigreturn(call: &mut Call<'_>) -> Result<u64, Errno> {
    match frame::pop((call.task, call.memory), call.context) {
        Ok(rax) => Ok(rax),
        Err(_) => {
            signal::force(call.task, Info::kernel(SIGSEGV));
            Ok(0)
        }
    }
}

fn rt_sigpending(call: &mut Call<'_>) -> Result<u64, Errno> {
    if call.word(1) > SET_BYTES {
        return Err(Errno::EINVAL);
    }
    let pending = deliver::pending(call.task) & call.task.signals.lock().mask;
    let bytes = pending.to_le_bytes();
    let wanted = bytes.get(..call.word(1) as usize).unwrap_or(&bytes);
    call.memory.write_bytes(call.word(0), wanted)?;
    Ok(0)
}

fn rt_sigtimedwait(call: &mut Call<'_>) -> Result<u64, Errno> {
    let [set_at, info_at, timeout_at, bytes, ..] = call.args();
    check_set_bytes(bytes)?;
    let memory = call.memory;
    let wanted = memory.read::<SignalSet>(set_at)? & !UNBLOCKABLE;
    let timeout = match timeout_at {
        0 => None,
        at => Some(memory.read::<Timespec>(at)?.to_ns()?),
    };
    let found = wait_for(call.task, wanted, timeout)?;
    // As on Linux, the signal was taken even if the address is bad.
    if info_at != 0 {
        memory.commit(info_at, &UserInfo::from(found))?;
    }
    Ok(u64::from(found.number()))
}

fn wait_for(task: &Arc<Task>, wanted: SignalSet, timeout_ns: Option<u64>) -> Result<Info, Errno> {
    if let Some(info) = deliver::take_wanted(task, wanted) {
        return Ok(info);
    }
    if timeout_ns == Some(0) {
        return Err(Errno::EAGAIN);
    }
    let deadline = timeout_ns.map(|ns| rt::time::now().after_ns(ns));
    deliver::set_waited(task, Some(wanted));
    let woken = match task.has_signal() {
        true => Woken::Kicked,
        false => rt::thread::park_interruptible(deadline),
    };
    let found = deliver::take_wanted(task, wanted);
    deliver::set_waited(task, None);
    match (found, woken) {
        (Some(info), _) => Ok(info),
        (None, Woken::TimedOut) => Err(Errno::EAGAIN),
        (None, _) => Err(Errno::EINTR),
    }
}

fn rt_sigsuspend(call: &mut Call<'_>) -> Result<u64, Errno> {
    check_set_bytes(call.word(1))?;
    let set = call.memory.read::<SignalSet>(call.word(0))?;
    signal::set_temporary_mask(call.task, set);
    wait_for_any(call.task);
    Err(Errno::RestartUnhandled)
}

fn pause(call: &mut Call<'_>) -> Result<u64, Errno> {
    wait_for_any(call.task);
    Err(Errno::RestartUnhandled)
}

fn wait_for_any(task: &Task) {
    while !task.has_signal() {
        if rt::thread::park_interruptible(None) == Woken::Kicked {
            return;
        }
    }
}

fn sigaltstack(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (new_at, old_at) = (call.word(0), call.word(1));
    let rsp = call.context.registers.rsp;
    let memory = call.memory;
    let new = match new_at {
        0 => None,
        at => Some(memory.read::<StackWords>(at)?),
    };
    let mut signals = call.task.signals.lock();
    let old = signals.stack;
    if let Some(words) = new {
        if frame::is_on_stack(&old, rsp) {
            return Err(Errno::EPERM);
        }
        signals.stack = frame::decode_stack(&words)?;
    }
    drop(signals);
    if old_at != 0 {
        memory.commit(old_at, &frame::stack_words(&old, rsp))?;
    }
    Ok(0)
}

fn restart_syscall(call: &mut Call<'_>) -> Result<u64, Errno> {
    let restart = call.task.take_restart().ok_or(Errno::EINTR)?;
    call.with(restart.args, restart.handler)
}

/// Checks that the caller may signal `target`, by its user and by its label.
///
/// # Errors
/// `EPERM`; `ESRCH` if the target does not exist for the caller.
pub(super) fn check_permission(task: &Task, target: &Process, signal: u8) -> Result<(), Errno> {
    if task.process.id() == target.id() {
        return Ok(());
    }
    task.visible().check(target)?;
    let own = task.credentials();
    check_user(task, &own, target, signal)?;
    visible::check_signal(target, &own.subject)
        .inspect_err(|_| audit::refused_process(task, "signal", target, &own.subject))?;
    audit::note_signal(task, target, signal);
    Ok(())
}

/// Checks that the caller is privileged, has the user of `target`, or sends SIGCONT within the session.
fn check_user(task: &Task, own: &Credentials, target: &Process, signal: u8) -> Result<(), Errno> {
    if own.has(Capabilities::KILL) {
        return Ok(());
    }
    if signal == SIGCONT && target.session().id() == task.process.session().id() {
        return Ok(());
    }
    let their = match target.tasks().first() {
        Some(task) => task.credentials().user,
        None => vfs::credentials::Ids::all(target.real_user()),
    };
    let is_same = [own.user.real, own.user.effective]
        .iter()
        .any(|id| *id == their.real || *id == their.saved);
    if is_same { Ok(()) } else { Err(Errno::EPERM) }
}

/// Returns the signal; 0 is allowed. A missing target is reported before an invalid number.
fn signal_for(number: i32, is_there: impl FnOnce() -> bool) -> Result<u8, Errno> {
    decode_signal(number).map_err(|error| if is_there() { error } else { Errno::ESRCH })
}

/// Returns whether kill(2) of `id` has a target.
fn is_target(task: &Task, id: i32) -> bool {
    match id {
        0 | -1 => true,
        i32::MIN => false,
        id if id < 0 => !task.visible().group(id.unsigned_abs()).is_empty(),
        id => task.visible().process_of(id as u32).is_some(),
    }
}

fn kill(call: &mut Call<'_>) -> Result<u64, Errno> {
    let signal = signal_for(call.int(1), || is_target(call.task, call.int(0)))?;
    let own = &call.task.process;
    let info = Info::from_process(signal, info::SI_USER, own.id(), call.task.real_user());
    let group = match call.int(0) {
        0 => own.group(),
        -1 => return kill_all(call.task, info),
        i32::MIN => return Err(Errno::ESRCH),
        id if id < 0 => id.unsigned_abs(),
        id => return kill_one(call.task, id as u32, info),
    };
    kill_many(call.task, || call.task.visible().group(group), info)
}

/// Signals all processes except the caller and process 1. Processes that may not be signalled are skipped without an error.
fn kill_all(task: &Task, info: Info) -> Result<u64, Errno> {
    let own = task.process.id();
    let is_other = |process: &Process| process.id() != tree::INIT && process.id() != own;
    match kill_many(task, || task.visible().all(is_other), info) {
        Err(Errno::EPERM) => Ok(0),
        other => other,
    }
}

fn kill_one(task: &Task, id: u32, info: Info) -> Result<u64, Errno> {
    if id == task.process.id() {
        if info.number() != 0 {
            signal::send_to_own_process(task, info)?;
        }
        return Ok(0);
    }
    let target = task.visible().process_of(id).ok_or(Errno::ESRCH)?;
    check_permission(task, &target, info.number())?;
    if info.number() != 0 {
        signal::send_to_process(&target, info)?;
    }
    Ok(0)
}

/// Signals the processes that `find` returns. SIGKILL is also sent to their children that were made meanwhile: a killed
/// process makes none.
///
/// # Errors
/// No process could be signalled: `ESRCH` if there was none.
fn kill_many(task: &Task, find: impl Fn() -> Vec<Arc<Process>>, info: Info) -> Result<u64, Errno> {
    let mut result = Err(Errno::ESRCH);
    let mut seen = BTreeSet::new();
    loop {
        let mut has_sent = false;
        for target in find().iter().filter(|target| seen.insert(target.id())) {
            match check_permission(task, target, info.number()) {
                Ok(()) => {
                    result = Ok(0);
                    if info.number() != 0 {
                        has_sent |= signal::send_to_process(target, info).is_ok();
                    }
                }
                Err(errno) if result.is_err() => result = Err(errno),
                Err(_) => {}
            }
        }
        if !has_sent || info.number() != SIGKILL || task.is_ending() {
            return result;
        }
    }
}

fn tkill(call: &mut Call<'_>) -> Result<u64, Errno> {
    send_to_thread(call, None, call.int(0), call.int(1))
}

fn tgkill(call: &mut Call<'_>) -> Result<u64, Errno> {
    if call.int(0) <= 0 {
        return Err(Errno::EINVAL);
    }
    send_to_thread(call, Some(call.int(0)), call.int(1), call.int(2))
}

fn send_to_thread(
    call: &Call<'_>,
    group: Option<i32>,
    thread: i32,
    signal: i32,
) -> Result<u64, Errno> {
    let (target, life) = find_thread(call.task, group, thread)?;
    let signal = decode_signal(signal)?;
    check_permission(call.task, &target.process, signal)?;
    if signal != 0 {
        let own = call.task;
        let info = Info::from_process(signal, info::SI_TKILL, own.process.id(), own.real_user());
        send_to_known(&target, life, info)?;
    }
    Ok(0)
}

/// Tells whether a thread is alive, or has ended and is only remembered by its process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ThreadLife {
    Running,
    Ended,
}

/// Sends to a thread; one that has ended gets nothing, and that is not an error.
fn send_to_known(target: &Arc<Task>, life: ThreadLife, info: Info) -> Result<(), Errno> {
    match life {
        ThreadLife::Running => signal::send_to_task(target, info),
        ThreadLife::Ended => Ok(()),
    }
}

/// Returns the thread; a first thread that has ended is found until its process was waited for.
fn find_thread(
    caller: &Task,
    group: Option<i32>,
    thread: i32,
) -> Result<(Arc<Task>, ThreadLife), Errno> {
    let id = u32::try_from(thread).ok().filter(|id| *id != 0).ok_or(Errno::EINVAL)?;
    let found = match caller.visible().task(id) {
        Some(task) => (task, ThreadLife::Running),
        None => (caller.visible().known_task(id).ok_or(Errno::ESRCH)?, ThreadLife::Ended),
    };
    match group {
        Some(group) if found.0.process.id() != group as u32 => Err(Errno::ESRCH),
        _ => Ok(found),
    }
}

/// The target of a signal with information, which only the sender itself may get from any source.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SignalTarget {
    /// The calling thread.
    Own,
    /// Another thread or process.
    Other,
}

impl SignalTarget {
    /// Returns whether `target` is the id of the calling thread or process, `own`.
    pub(super) fn of(target: u32, own: u32) -> SignalTarget {
        if target == own { SignalTarget::Own } else { SignalTarget::Other }
    }
}

/// Checks the information that a program gives with a signal. It must not look like that of the kernel or of kill(2), except
/// to the caller itself.
///
/// # Errors
/// `E2BIG` if there is more than can be stored, `EPERM`.
pub(super) fn check_info(given: UserInfo, target: SignalTarget) -> Result<Info, Errno> {
    if !given.is_whole() {
        return Err(Errno::E2BIG);
    }
    let info = given.info;
    if (info.code >= 0 || info.code == info::SI_TKILL) && target == SignalTarget::Other {
        return Err(Errno::EPERM);
    }
    Ok(info.unmarked())
}

/// Reads the information at argument `info`, with the signal that is argument `number`.
fn read_info(
    call: &Call<'_>,
    (number, info): (usize, usize),
    target: SignalTarget,
) -> Result<Info, Errno> {
    let mut whole = call.memory.read::<UserInfo>(call.word(info))?;
    whole.info.signal = call.int(number);
    check_info(whole, target)
}

fn rt_sigqueueinfo(call: &mut Call<'_>) -> Result<u64, Errno> {
    let id = call.uint(0);
    let info = read_info(call, (1, 2), SignalTarget::of(id, call.task.id()))?;
    signal_for(info.signal, || call.task.visible().process_of(id).is_some())?;
    kill_one(call.task, id, info)
}

fn rt_tgsigqueueinfo(call: &mut Call<'_>) -> Result<u64, Errno> {
    let info = read_info(call, (2, 3), SignalTarget::of(call.uint(1), call.task.id()));
    // A bad address is reported before a bad target, and that before invalid information.
    let is_read = matches!(info, Ok(_) | Err(Errno::EPERM));
    if is_read && (call.int(0) <= 0 || call.int(1) <= 0) {
        return Err(Errno::EINVAL);
    }
    let info = info?;
    let (target, life) = find_thread(call.task, Some(call.int(0)), call.int(1))?;
    decode_signal(info.signal)?;
    check_permission(call.task, &target.process, info.number())?;
    if info.number() != 0 {
        send_to_known(&target, life, info)?;
    }
    Ok(0)
}
