//! Changing the signal masks of tasks.
use super::{
    number::{SignalSet, UNBLOCKABLE, bit},
    state::{ProcessSignals, TaskSignals},
};
use crate::task::{Task, attention};

/// Sets the mask of the calling task. Signals of the process that only this task did not block are
/// offered to the other tasks.
pub fn set_mask(task: &Task, mask: SignalSet) {
    change_mask(task, |_| mask);
}

/// Applies `change` to the task's state and does the same as [`set_mask`] with the result.
pub fn change_mask(task: &Task, change: impl FnOnce(&mut TaskSignals) -> SignalSet) {
    let state = task.process.signals.lock();
    let mut signals = task.signals.lock();
    let mask = change(&mut signals);
    signals.mask = mask & !UNBLOCKABLE;
    tell(&state, task, &signals);
    drop(signals);
    offer_to_others(&state, task, mask);
}

/// Blocks `mask` instead of the task's own mask until the call under way has ended (sigsuspend,
/// ppoll, pselect). If the call was interrupted, the handler runs before the mask is put back.
pub fn set_temporary_mask(task: &Task, mask: SignalSet) {
    let state = task.process.signals.lock();
    {
        let mut signals = task.signals.lock();
        signals.saved_mask = Some(signals.mask);
        signals.mask = mask & !UNBLOCKABLE;
    }
    task.raise_attention(attention::MASK);
    refresh(&state, task);
}

/// Restores the mask that a temporary one replaced, if there is one.
pub fn restore_mask(task: &Task) {
    let state = task.process.signals.lock();
    {
        let mut signals = task.signals.lock();
        if let Some(mask) = signals.saved_mask.take() {
            signals.mask = mask;
        }
    }
    task.lower_attention(attention::MASK);
    refresh(&state, task);
}

/// Updates the task's attention: it tells whether a signal can be taken. The caller holds
/// `process.signals`.
pub fn refresh(state: &ProcessSignals, task: &Task) {
    tell(state, task, &task.signals.lock());
}

/// Does the same as [`refresh`] with the locked state of the task.
pub fn tell(state: &ProcessSignals, task: &Task, signals: &TaskSignals) {
    if (signals.queue.pending() | state.queue.pending()) & !signals.mask != 0 {
        task.raise_attention(attention::SIGNAL);
    } else {
        task.lower_attention(attention::SIGNAL);
    }
}

fn offer_to_others(state: &ProcessSignals, task: &Task, mask: SignalSet) {
    let offered = state.queue.pending() & mask;
    if offered == 0 {
        return;
    }
    for other in state.tasks.iter().filter(|other| other.id() != task.id()) {
        if offered & !other.signals.lock().mask != 0 {
            other.summon(attention::SIGNAL);
        }
    }
}

/// Returns whether the task ignores or blocks this signal: the terminal does not stop a background
/// read or write then.
pub fn is_ignored_or_blocked(task: &Task, signal: u8) -> bool {
    let state = task.process.signals.lock();
    state.actions.lock().is_ignored(signal) || task.signals.lock().mask & bit(signal) != 0
}
