//! Job control: a process stops as a whole and goes on as a whole, and its parent is told.
use super::{
    Info, SIGCHLD, SIGCONT, STOPPING, SignalSet,
    action::{self, flags},
    bit,
    info::ChildCode,
    state::{ProcessSignals, StopState},
};
use crate::process::{Process, Task, object::ticks, task::attention, tree};
use alloc::sync::Arc;

/// A change of a child its parent is to hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Stopped by this signal.
    Stopped(u8),
    /// Continued.
    Continued,
}

/// What the mere sending of `signal` does, whether or not it is blocked or ignored: a stop takes
/// back a pending SIGCONT, SIGCONT takes back pending stops and continues a stopped process.
/// Under `process.signals`; the change returned is to be told once that is released.
pub fn anticipate(process: &Process, state: &mut ProcessSignals, signal: u8) -> Option<Change> {
    if bit(signal) & STOPPING != 0 {
        discard(state, bit(SIGCONT));
    } else if signal == SIGCONT {
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

fn resume(process: &Process, state: &mut ProcessSignals) -> Option<Change> {
    let before = core::mem::replace(&mut state.stop, StopState::Running);
    if before == StopState::Running {
        return None;
    }
    state.stopped_tasks = 0;
    for task in &state.tasks {
        task.lower_attention(attention::STOP);
    }
    process.stop_event.signal();
    if !matches!(before, StopState::Stopped(_)) {
        return None;
    }
    state.stop_report = None;
    state.continue_report = true;
    Some(Change::Continued)
}

/// Stops the process by `signal`: every task stops as it comes by. Under `process.signals`.
pub fn begin(state: &mut ProcessSignals, signal: u8) {
    if state.stop != StopState::Running || state.exit.is_some() {
        return;
    }
    state.stop = StopState::Stopping(signal);
    state.stopped_tasks = 0;
    state.continue_report = false;
    for task in &state.tasks {
        task.summon(attention::STOP);
    }
}

/// Stands still until the process goes on or ends; called on the task's own thread.
pub fn stand_still(task: &Arc<Task>) {
    let process = &task.process;
    let mut state = process.signals.lock();
    if state.stop == StopState::Running {
        task.lower_attention(attention::STOP);
        return;
    }
    state.stopped_tasks += 1;
    let change = check_complete(&mut state);
    drop(state);
    if let Some(change) = change {
        tell_parent(process, change);
    }
    loop {
        let ticket = process.stop_event.ticket();
        if task.attention() & attention::STOP == 0 || task.is_ending() {
            return;
        }
        process.stop_event.wait(ticket, None, false);
    }
}

/// If the last running task has just stopped (or ended), the process is stopped. Under `process.signals`.
pub fn check_complete(state: &mut ProcessSignals) -> Option<Change> {
    match state.stop {
        StopState::Stopping(signal)
            if state.stopped_tasks >= state.tasks.len() && !state.tasks.is_empty() =>
        {
            state.stop = StopState::Stopped(signal);
            state.stop_report = Some(signal);
            Some(Change::Stopped(signal))
        }
        _ => None,
    }
}

/// Sends the parent SIGCHLD (unless SA_NOCLDSTOP) and wakes its waits.
///
/// Locks: none may be held.
pub fn tell_parent(process: &Process, change: Change) {
    let Some(parent) = tree::process(process.parent_id()) else { return };
    let (code, status) = match change {
        Change::Stopped(signal) => (ChildCode::Stopped, i32::from(signal)),
        Change::Continued => (ChildCode::Continued, i32::from(SIGCONT)),
    };
    let action = parent.action(SIGCHLD);
    if action.handler != action::IGNORE && action.flags & flags::NOCLDSTOP == 0 {
        let time = process.cpu_time();
        let times = (ticks(time.user_ns), ticks(time.system_ns));
        let _ = super::send_to_process(
            &parent,
            Info::child(code, process.id(), process.real_user(), status, times),
        );
    }
    parent.child_event.signal();
}
