//! Signal masks of tasks and what follows from changing them.
use super::{
    number::{SignalSet, UNBLOCKABLE, bit},
    state::{ProcessSignals, TaskSignals},
};
use crate::task::{Task, attention};

/// Sets the mask of the calling task. Signals of the process that only it would have taken are
/// offered to the others.
pub fn set_mask(task: &Task, mask: SignalSet) {
    change_mask(task, |_| mask);
}

/// [`set_mask`] to what `change` makes of the task's state.
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

/// Puts back the mask a temporary one replaced, if there is one.
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

/// Makes the task's attention say whether a signal can be taken. Under `process.signals`.
pub fn refresh(state: &ProcessSignals, task: &Task) {
    tell(state, task, &task.signals.lock());
}

/// [`refresh`] with the task's own state at hand.
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

/// The terminal asks: a background write or read with this signal ignored or blocked is not stopped.
pub fn is_ignored_or_blocked(task: &Task, signal: u8) -> bool {
    let state = task.process.signals.lock();
    state.actions.lock().is_ignored(signal) || task.signals.lock().mask & bit(signal) != 0
}
