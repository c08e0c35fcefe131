//! Making a signal pending, and waking a thread for it.
//!
//! SIGCONT is sent under `process.tree`, as its parent is told of the continued process ([`stop`]). Wait queues are woken
//! ([`Wakes`]) once the tree is unlocked: their watchers send signals themselves.
use super::{
    action,
    info::{Info, SI_USER},
    number::{SIGCONT, SIGKILL, bit},
    queue::Queued,
    state::ProcessSignals,
    stop,
};
use crate::{
    limits::Resource,
    object::Process,
    power,
    status::ExitStatus,
    task::{Task, attention},
    tree::{self, Tree},
};
use alloc::{sync::Arc, vec::Vec};
use vfs::{Errno, security::flows};

/// Processes to wake once `process.tree` is free.
#[derive(Default)]
pub struct Wakes {
    /// Processes to which a signal was sent.
    pub arrivals: Vec<Arc<Process>>,
    /// Processes with a child whose state changed.
    pub waits: Vec<Arc<Process>>,
}

impl Wakes {
    /// Wakes them.
    ///
    /// Locks: `process.tree` must not be held.
    pub fn deliver(self) {
        for process in &self.arrivals {
            process.signal_arrived.wake();
        }
        for process in &self.waits {
            process.child_event.signal();
        }
    }
}

/// The task of a process that takes a signal.
#[derive(Clone, Copy)]
enum Whom<'a> {
    /// Any task of the process.
    Any,
    /// Any task; this one if it does not block the signal.
    First(&'a Arc<Task>),
    /// This task only.
    Task(&'a Task),
}

impl<'a> From<Option<&'a Arc<Task>>> for Whom<'a> {
    fn from(target: Option<&'a Arc<Task>>) -> Whom<'a> {
        target.map_or(Whom::Any, |task| Whom::Task(task))
    }
}

/// A function that raises attention bits of a task and makes its thread look at them.
type Summon = fn(&Task, u32);

/// Sends to a process: any of its tasks takes the signal.
///
/// # Errors
/// `EAGAIN` if a real-time signal was beyond the limit of pending signals.
pub fn send_to_process(process: &Arc<Process>, info: Info) -> Result<(), Errno> {
    post(process, Whom::Any, &info, Task::summon)
}

/// Does the same as [`send_to_process`]; `first` takes the signal unless it blocks it.
///
/// # Errors
/// As [`send_to_process`].
pub fn send_to_process_of(first: &Arc<Task>, info: Info) -> Result<(), Errno> {
    post(&first.process, Whom::First(first), &info, Task::summon)
}

/// Sends to the calling task's own process; the task must not wait before it enters its program again.
///
/// # Errors
/// As [`send_to_process`].
pub fn send_to_own_process(caller: &Task, info: Info) -> Result<(), Errno> {
    post(&caller.process, Whom::Any, &info, Task::summon_others)
}

/// Sends a signal to one task.
///
/// # Errors
/// As [`send_to_process`].
pub fn send_to_task(task: &Task, info: Info) -> Result<(), Errno> {
    post(&task.process, Whom::Task(task), &info, Task::summon)
}

/// Sends to every process of a group. Returns the number of processes.
pub fn send_to_group(group: u32, info: Info) -> usize {
    let members: Vec<_> = tree::read().group(group).cloned().collect();
    for member in &members {
        let _ = send_to_process(member, info);
    }
    members.len()
}

fn post(
    process: &Arc<Process>,
    target: Whom<'_>,
    info: &Info,
    summon: Summon,
) -> Result<(), Errno> {
    flows::writes(|| Some(process.label()));
    if power::is_in_kernel(process) {
        power::signalled(info.number());
        return Ok(());
    }
    if info.number() == SIGCONT {
        let mut wakes = Wakes::default();
        let result = post_to(&tree::read(), process, target, *info, &mut wakes);
        wakes.deliver();
        return result;
    }
    let (result, _) = post_one(process, target, info, summon);
    process.signal_arrived.wake();
    result
}

/// Sends a signal under `process.tree`. A process 1 that lives in the kernel does not get it: it waits for its children only.
///
/// # Errors
/// As [`send_to_process`].
pub fn post_in(
    tree: &Tree,
    process: &Arc<Process>,
    target: Option<&Arc<Task>>,
    info: Info,
    wakes: &mut Wakes,
) -> Result<(), Errno> {
    post_to(tree, process, target.into(), info, wakes)
}

fn post_to(
    tree: &Tree,
    process: &Arc<Process>,
    target: Whom<'_>,
    info: Info,
    wakes: &mut Wakes,
) -> Result<(), Errno> {
    if power::is_in_kernel(process) {
        return Ok(());
    }
    let (result, change) = post_one(process, target, &info, Task::summon);
    wakes.arrivals.push(process.clone());
    if let Some(change) = change {
        stop::tell_parent(tree, process, change, wakes);
    }
    result
}

fn post_one(
    process: &Process,
    target: Whom<'_>,
    info: &Info,
    summon: Summon,
) -> (Result<(), Errno>, Option<stop::ChildChange>) {
    let mut state = process.signals.lock();
    if state.ended.is_some() || state.exit.is_some() || info.number() == 0 {
        return (Ok(()), None);
    }
    let change = stop::anticipate(process, &mut state, info.number());
    (post_locked(process, &mut state, target, info, summon), change)
}

fn post_locked(
    process: &Process,
    state: &mut ProcessSignals,
    target: Whom<'_>,
    info: &Info,
    summon: Summon,
) -> Result<(), Errno> {
    let signal = info.number();
    if signal == SIGKILL {
        if !state.is_unkillable || info.is_of_kernel() {
            begin_exit(process, state, ExitStatus::Signalled(signal));
        }
        return Ok(());
    }
    let observer = match target {
        Whom::Task(task) => task,
        _ => match state.tasks.first() {
            Some(task) => task,
            None => return Ok(()),
        },
    };
    let is_held_back = {
        let signals = observer.signals.lock();
        (signals.mask | signals.waited) & bit(signal) != 0
    };
    if !is_held_back && is_ignored(state, signal) {
        return Ok(());
    }
    let limit = process.limits.soft(Resource::PendingSignals);
    let queued = match target {
        Whom::Task(task) => task.signals.lock().queue.push(*info, limit),
        _ => state.queue.push(*info, limit),
    };
    match queued {
        Queued::Full => return Err(Errno::EAGAIN),
        Queued::Coalesced => return Ok(()),
        Queued::Added => {}
    }
    match target {
        Whom::Task(task) => wake_if_unblocked(task, signal, summon),
        Whom::First(first) => wake_one(state, Some(first), signal, summon),
        Whom::Any => wake_one(state, None, signal, summon),
    }
    Ok(())
}

/// Returns whether sending `signal` would have no effect, if it is not blocked.
fn is_ignored(state: &ProcessSignals, signal: u8) -> bool {
    let actions = state.actions.lock();
    actions.is_ignored(signal)
        || state.is_unkillable && actions.get(signal).handler == action::DEFAULT
}

fn wake_if_unblocked(task: &Task, signal: u8, summon: Summon) {
    if task.signals.lock().mask & bit(signal) == 0 {
        summon(task, attention::SIGNAL);
    }
}

/// Wakes `first` or the first task that does not block `signal`; if all do, the task that unblocks it first takes it.
fn wake_one(state: &ProcessSignals, first: Option<&Arc<Task>>, signal: u8, summon: Summon) {
    let ready = |task: &&Arc<Task>| task.signals.lock().mask & bit(signal) == 0;
    let first = first.filter(|first| state.tasks.iter().any(|task| Arc::ptr_eq(task, first)));
    if let Some(task) = first.filter(ready).or_else(|| state.tasks.iter().find(ready)) {
        summon(task, attention::SIGNAL);
    }
}

/// Starts the end of the whole group with `status` (the first call counts). The caller holds `process.signals`.
pub fn begin_exit(process: &Process, state: &mut ProcessSignals, status: ExitStatus) {
    if state.exit.is_some() {
        return;
    }
    state.exit = Some(status);
    for task in &state.tasks {
        task.summon(attention::EXIT);
    }
    process.stop_event.signal();
}

/// Makes `info` pending for `task` even if it is blocked or ignored: the running instruction caused it and cannot continue. If
/// it was blocked or ignored, it takes the default action.
pub fn force(task: &Arc<Task>, info: Info) {
    let signal = info.number();
    let mut state = task.process.signals.lock();
    let mut actions = state.actions.lock();
    let mut signals = task.signals.lock();
    let is_blocked = signals.mask & bit(signal) != 0;
    if is_blocked || actions.is_ignored(signal) {
        actions.set_default(signal);
    }
    let is_deadly = actions.get(signal).handler == action::DEFAULT;
    drop(actions);
    signals.mask &= !bit(signal);
    signals.queue.discard(bit(signal));
    let _ = signals.queue.push(info, u64::MAX);
    drop(signals);
    // Process 1 cannot continue either.
    state.is_unkillable &= !is_deadly;
    drop(state);
    task.raise_attention(attention::SIGNAL);
}

/// The kernel signals every process of `group`; 0 is none.
pub fn signal_group(group: u32, number: u8) {
    if group != 0 {
        send_to_group(group, Info::kernel(number));
    }
}

/// Signals an error that `task` makes, as if it had called kill.
pub fn send_own(task: &Task, signal: u8) {
    let info = Info::from_process(signal, SI_USER, task.process.id(), task.real_user());
    let _ = send_to_task(task, info);
}
