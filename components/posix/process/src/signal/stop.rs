//! Job control: all tasks of a process stop and continue together, and its parent is told.
//!
//! Changes that a wait can report are made under `process.tree`, and the parent's SIGCHLD becomes pending before that is
//! released: wait(2) takes the tree's lock to write, so that a parent to which a change was reported has its signal.
use super::{
    action::{self, flags},
    info::{ChildCode, Info},
    number::{SIGCHLD, SIGCONT, STOPPING, SignalSet, bit},
    send::{Wakes, post_in},
    state::{ProcessSignals, StopState},
};
use crate::{
    object::{Process, ticks},
    task::{Task, attention},
    tree::{self, Tree},
    visible,
};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

/// A change of a child that is to be reported to its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildChange {
    /// The process was stopped by this signal.
    Stopped(u8),
    /// The process was continued.
    Continued,
}

/// Does the effects that sending `signal` has even if it is blocked or ignored: a stop signal removes a pending SIGCONT,
/// SIGCONT removes pending stops and continues a stopped process. The caller holds `process.signals`, and for SIGCONT also
/// `process.tree`; the returned change is to be reported once the former is released.
pub fn anticipate(
    process: &Process,
    state: &mut ProcessSignals,
    signal: u8,
) -> Option<ChildChange> {
    if bit(signal) & STOPPING != 0 {
        discard(state, bit(SIGCONT));
    } else if signal == SIGCONT {
        state.continues = state.continues.wrapping_add(1);
        discard(state, STOPPING);
        return resume(process, state);
    }
    None
}

fn discard(state: &mut ProcessSignals, set: SignalSet) {
    state.queue.discard(set);
    for task in &state.tasks {
        task.signals.lock().queue.discard(set);
    }
}

fn resume(process: &Process, state: &mut ProcessSignals) -> Option<ChildChange> {
    let before = core::mem::replace(&mut state.stop, StopState::Running);
    if before == StopState::Running {
        return None;
    }
    for task in &state.tasks {
        task.lower_attention(attention::STOP);
    }
    process.stop_event.signal();
    if !matches!(before, StopState::Stopped(_)) {
        return None;
    }
    state.stop_report = None;
    state.continue_report = true;
    Some(ChildChange::Continued)
}

/// Begins to stop the process by `signal`, which a task took when `continues` SIGCONTs had been sent: every task stops when it
/// next checks its attention. Has no effect if another SIGCONT was sent meanwhile (Linux `JOBCTL_STOP_DEQUEUED`). The caller
/// holds `process.signals`.
pub fn begin(state: &mut ProcessSignals, signal: u8, continues: u64) {
    let is_undone = state.continues != continues;
    if is_undone || state.stop != StopState::Running || state.exit.is_some() {
        return;
    }
    state.stop = StopState::Stopping(signal);
    state.continue_report = false;
    for task in &state.tasks {
        task.summon(attention::STOP);
    }
}

/// Waits until the process continues or ends; called on the task's own thread.
pub fn stand_still(task: &Arc<Task>) {
    let process = &task.process;
    let mut is_new = true;
    loop {
        let ticket = process.stop_event.ticket();
        if !stands(task) {
            return;
        }
        if core::mem::take(&mut is_new) {
            complete(process);
        }
        process.stop_event.wait(ticket, None);
    }
}

/// Returns whether `task` is to stay stopped; records that in it.
fn stands(task: &Task) -> bool {
    let state = task.process.signals.lock();
    let stands = state.stop != StopState::Running && !task.is_ending();
    task.is_stopped.store(stands, Ordering::Relaxed);
    if state.stop == StopState::Running {
        task.lower_attention(attention::STOP);
    }
    stands
}

/// Called when a task has stopped or ended: if it was the last running one, the process is stopped and its parent told.
///
/// Locks: takes `process.tree`.
pub fn complete(process: &Process) {
    let mut wakes = Wakes::default();
    let tree = tree::read();
    let change = check_complete(&mut process.signals.lock());
    if let Some(change) = change {
        tell_parent(&tree, process, change, &mut wakes);
    }
    drop(tree);
    wakes.deliver();
}

fn check_complete(state: &mut ProcessSignals) -> Option<ChildChange> {
    let StopState::Stopping(signal) = state.stop else { return None };
    let has_stopped = |task: &Arc<Task>| task.is_stopped.load(Ordering::Relaxed);
    if state.tasks.is_empty() || !state.tasks.iter().all(has_stopped) {
        return None;
    }
    state.stop = StopState::Stopped(signal);
    state.stop_report = Some(signal);
    Some(ChildChange::Stopped(signal))
}

/// Sends the parent SIGCHLD (unless SA_NOCLDSTOP) and wakes its waits, if it may know of the change.
pub fn tell_parent(tree: &Tree, process: &Process, change: ChildChange, wakes: &mut Wakes) {
    let Some(parent) = tree.process(process.parent_id()) else { return };
    if visible::is_concealed(process, &parent) {
        return;
    }
    let (code, status) = match change {
        ChildChange::Stopped(signal) => (ChildCode::Stopped, i32::from(signal)),
        ChildChange::Continued => (ChildCode::Continued, i32::from(SIGCONT)),
    };
    let action = parent.action(SIGCHLD);
    if action.handler != action::IGNORE && action.flags & flags::NOCLDSTOP == 0 {
        let time = process.cpu_time();
        let times = (ticks(time.user_ns), ticks(time.system_ns));
        let info = Info::child(code, process.id(), process.real_user(), status, times);
        let _ = post_in(tree, &parent, None, info, wakes);
    }
    wakes.waits.push(parent);
}
