//! The last sender of a signal to the audit daemon, which the daemon asks for before it ends or reads its settings anew.
use super::{backlog, facts::facts};
use crate::{
    login::UNSET,
    object::Process,
    signal::number::{SIGHUP, SIGTERM, SIGUSR1, SIGUSR2},
    task::Task,
};
use alloc::{format, string::String};
use rt::{lock_class, sync::Mutex};

lock_class! {
    static LAST_LOCK = "audit.signaller";
}

/// The sender of a signal.
#[derive(Clone, Debug)]
pub struct Signaller {
    /// Its login uid, or its user if no user has logged in.
    pub user: u32,
    /// Its process id.
    pub process: u32,
    /// Its label; empty without one.
    pub context: String,
}

static LAST: Mutex<Signaller> =
    Mutex::new(&LAST_LOCK, Signaller { user: UNSET, process: UNSET, context: String::new() });

/// Returns the last sender.
pub fn last_signaller() -> Signaller {
    LAST.lock().clone()
}

/// Notes a signal that a task may send, if it is one for the daemon to act on.
#[inline]
pub fn note_signal(task: &Task, target: &Process, signal: u8) {
    if backlog::is_daemon(target) && matches!(signal, SIGHUP | SIGTERM | SIGUSR1 | SIGUSR2) {
        note(task);
    }
}

#[cold]
fn note(task: &Task) {
    let facts = facts(task);
    let [real, ..] = facts.users;
    let user = if facts.login == UNSET { real } else { facts.login };
    let context = facts.context.map(|context| format!("{context}")).unwrap_or_default();
    *LAST.lock() = Signaller { user, process: facts.process, context };
}
