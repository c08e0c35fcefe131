//! The slow path back to user mode: acts on every bit of a [`Task`]'s attention.
//!
//! Restart rules (signal(7)): an interrupted call is made again if no handler runs; if one runs,
//! a [`Restart`] by flag is made again only under SA_RESTART, and others but those made again always become `EINTR`. A call is
//! made again by moving rip back over the two bytes of `syscall`.
use super::{
    action::{self, Action, DefaultEffect, default_effect, flags},
    frame,
    info::Info,
    mask,
    number::{SIGSEGV, SIGSTOP, SignalSet, bit},
    send, stop,
};
use crate::{
    call::Restart,
    rseq,
    status::ExitStatus,
    task::{Task, attention},
    time::timers,
    tree,
};
use alloc::sync::Arc;
use linux_raw_sys::general::__NR_restart_syscall;
use memory::AddressSpace;
use rt::user::Context;
use vfs::ErrorNumber;

const SYSCALL_BYTES: u64 = 2;

/// A system call that a signal or a stop interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// Number of the call.
    pub number: u64,
    /// The way in which the call goes on.
    pub restart: Restart,
}

/// The next step of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The task enters user mode.
    Run,
    /// The task ends.
    End,
}

/// Acts on stops, signals and the end of the group, until user mode can be entered.
pub fn before_user(
    task: &Arc<Task>,
    memory: &AddressSpace,
    context: &mut Context,
    mut interrupted: Option<Interrupted>,
) -> Next {
    if interrupted.is_none() && task.attention() & attention::MASK != 0 {
        mask::restore_mask(task);
    }
    let _ = rt::thread::take_kick();
    loop {
        let why = task.attention();
        if why & attention::EXIT != 0 {
            return Next::End;
        }
        if why & attention::STOP != 0 {
            stop::stand_still(task);
        } else if let Some(taken) = take(task) {
            act((task, memory), context, &mut interrupted, &taken);
        } else if let Some(call) = interrupted.take() {
            restart(context, call);
        } else if why & attention::MASK != 0 {
            mask::restore_mask(task);
        } else {
            return Next::Run;
        }
    }
}

/// A signal that a task took from a queue.
struct TakenSignal {
    info: Info,
    /// The action, before SA_RESETHAND was applied.
    action: Action,
    /// Value of [`ProcessSignals::continues`](super::state::ProcessSignals::continues) at that time.
    continues: u64,
}

/// Takes the next signal with its action (SA_RESETHAND applied); clears the attention if none is left.
fn take(task: &Arc<Task>) -> Option<TakenSignal> {
    if task.attention() & attention::SIGNAL == 0 {
        return None;
    }
    let mut state = task.process.signals.lock();
    let taken = {
        let mut signals = task.signals.lock();
        let wanted = !signals.mask;
        let taken = signals.queue.take(wanted).or_else(|| state.queue.take(wanted));
        mask::tell(&state, task, &signals);
        taken
    };
    let info = taken?;
    let mut actions = state.actions.lock();
    let action = actions.get(info.number());
    if action.flags & flags::RESETHAND != 0 && action.handler > action::IGNORE {
        actions.set_default(info.number());
    }
    drop(actions);
    let continues = state.continues;
    drop(state);
    Some(TakenSignal { info: delivered(task, info), action, continues })
}

fn act(
    (task, memory): (&Arc<Task>, &AddressSpace),
    context: &mut Context,
    interrupted: &mut Option<Interrupted>,
    taken: &TakenSignal,
) {
    let TakenSignal { info, action, continues } = taken;
    match action.handler {
        action::IGNORE => {}
        action::DEFAULT => act_by_default(task, info.number(), *continues),
        _ => {
            if let Some(call) = interrupted.take() {
                interrupt(context, call, action.flags);
            }
            if task.rseq.is_there() && rseq::interrupt(task, memory, context).is_err() {
                fail(task, info.number());
            }
            if frame::push((task, memory), context, info, action).is_err() {
                fail(task, info.number());
            }
        }
    }
}

/// Handles a frame that could not be pushed: sends SIGSEGV, and ends the task if that was the signal.
fn fail(task: &Arc<Task>, signal: u8) {
    if signal == SIGSEGV {
        task.process.signals.lock().actions.lock().set_default(SIGSEGV);
    }
    send::force(task, Info::kernel(SIGSEGV));
}

fn act_by_default(task: &Arc<Task>, signal: u8, continues: u64) {
    match default_effect(signal) {
        DefaultEffect::Ignore | DefaultEffect::Continue => {}
        // The action became the default one after the signal was sent: process 1 ignores it.
        // Nothing is dumped below, as on Linux with a core limit of 0.
        _ if task.process.signals.lock().is_unkillable => {}
        DefaultEffect::Terminate | DefaultEffect::Dump => end(task, ExitStatus::Signalled(signal)),
        DefaultEffect::Stop => {
            let is_useless =
                signal != SIGSTOP && tree::read().is_orphaned(task.process.group(), None);
            if !is_useless {
                stop::begin(&mut task.process.signals.lock(), signal, continues);
            }
        }
    }
}

fn end(task: &Arc<Task>, status: ExitStatus) {
    send::begin_exit(&task.process, &mut task.process.signals.lock(), status);
}

/// Called if a handler runs: the call fails with `EINTR`, or is made again after the handler.
fn interrupt(context: &mut Context, call: Interrupted, action_flags: u64) {
    let is_restarted = match call.restart {
        Restart::Always => true,
        Restart::ByFlag => action_flags & flags::RESTART != 0,
        Restart::Unhandled | Restart::Continued => false,
    };
    if is_restarted {
        again(context, call.number);
    } else {
        context.registers.rax = crate::call::failure(ErrorNumber::EINTR);
    }
}

/// Called if no handler runs: the call is made again.
fn restart(context: &mut Context, call: Interrupted) {
    let is_continued = call.restart == Restart::Continued;
    again(context, if is_continued { u64::from(__NR_restart_syscall) } else { call.number });
}

fn again(context: &mut Context, number: u64) {
    context.registers.rax = number;
    context.registers.rip = context.registers.rip.wrapping_sub(SYSCALL_BYTES);
}

/// Takes a signal for which the calling task waits (sigtimedwait) from its queues.
pub fn take_wanted(task: &Task, wanted: SignalSet) -> Option<Info> {
    let mut state = task.process.signals.lock();
    let mut signals = task.signals.lock();
    let taken = signals.queue.take(wanted).or_else(|| state.queue.take(wanted));
    mask::tell(&state, task, &signals);
    drop(signals);
    drop(state);
    taken.map(|info| delivered(task, info))
}

/// Returns `info` in the form for the program, and tells a POSIX timer of its delivery.
fn delivered(task: &Task, info: Info) -> Info {
    if info.is_of_timer() {
        timers::signal_taken(&task.process, &info);
    }
    info.unmarked()
}

/// Returns the signals pending for `task`, blocked or not.
pub fn pending(task: &Task) -> SignalSet {
    let shared = task.process.signals.lock().queue.pending();
    shared | task.signals.lock().queue.pending()
}

/// Unblocks `wanted` while the task waits for these signals (`Some`), or ends that.
pub fn set_waited(task: &Arc<Task>, wanted: Option<SignalSet>) {
    let state = task.process.signals.lock();
    {
        let mut signals = task.signals.lock();
        match wanted {
            Some(set) => {
                signals.waited = set & signals.mask;
                signals.mask &= !set;
            }
            None => {
                signals.mask |= signals.waited;
                signals.waited = 0;
            }
        }
    }
    mask::refresh(&state, task);
}

/// Returns whether `signal` is pending for `task` or its process.
pub fn is_pending(task: &Task, signal: u8) -> bool {
    let shared = task.process.signals.lock().queue.pending();
    (shared | task.signals.lock().queue.pending()) & bit(signal) != 0
}
