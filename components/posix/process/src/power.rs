//! The end of the machine, as programs ask for it and process 1 brings it about: requests, and the status of process 1.
//!
//! A thread of the kernel waits for either ([`NEWS`]); it is in [`crate::init`]. Source: Linux `kernel/reboot.c`, `kernel/exit.c`.
use crate::signal::number::{SIGTERM, SIGUSR1, SIGUSR2};
use crate::{
    object::Process,
    status::ExitStatus,
    tree::{self, INIT},
};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use rt::{power::Action, sync::Event as News};

/// The actions that [`REQUEST`] counts, from 1 on.
const ACTIONS: [Action; 3] = [Action::Off, Action::Restart, Action::Halt];
/// The wait status of a process that has not ended.
pub(crate) const RUNS: u32 = u32::MAX;

/// Index in [`ACTIONS`] of the first request of a program, counted from 1; 0 means none.
pub(crate) static REQUEST: AtomicU8 = AtomicU8::new(0);
/// Event of a request, of the end of process 1 or, once the machine goes down, of the end of any process.
pub(crate) static NEWS: News = News::new();
/// Process 1 runs a program.
pub(crate) static IS_PROGRAM: AtomicBool = AtomicBool::new(false);
/// Wait status of process 1 after its end; [`RUNS`] before.
pub(crate) static ENDED: AtomicU32 = AtomicU32::new(RUNS);
/// Error number because of which the program of process 1 could not be started; 0 if it could.
pub(crate) static FAILURE: AtomicU64 = AtomicU64::new(0);
/// The machine goes down: each process that ends signals [`NEWS`].
pub(crate) static IS_GOING_DOWN: AtomicBool = AtomicBool::new(false);

/// Requests `action`; only the first request has an effect.
pub fn ask(action: Action) {
    let place = ACTIONS.iter().position(|known| *known == action).unwrap_or(0) as u8 + 1;
    let _ = REQUEST.compare_exchange(0, place, Ordering::AcqRel, Ordering::Relaxed);
    NEWS.signal();
    if let Some(init) = tree::process(INIT) {
        init.child_event.signal();
    }
}

/// Returns the power action that a program asked for, if any.
pub(crate) fn request() -> Option<Action> {
    let place = usize::from(REQUEST.load(Ordering::Acquire)).checked_sub(1)?;
    ACTIONS.get(place).copied()
}

/// Returns whether `process` is process 1 and lives in the kernel.
pub fn is_in_kernel(process: &Process) -> bool {
    process.id() == INIT && !IS_PROGRAM.load(Ordering::Relaxed)
}

/// Called when a program signalled the process 1 that lives in the kernel.
pub fn signalled(signal: u8) {
    match signal {
        SIGTERM => ask(Action::Restart),
        SIGUSR1 => ask(Action::Halt),
        SIGUSR2 => ask(Action::Off),
        _ => {}
    }
}

/// Called when `process` has ended with `status`, and its parent was told.
pub fn process_ended(process: &Process, status: ExitStatus) {
    if process.id() == INIT {
        ENDED.store(status.wait_word(), Ordering::Release);
        NEWS.signal();
    } else if IS_GOING_DOWN.load(Ordering::Relaxed) {
        NEWS.signal();
    }
}
