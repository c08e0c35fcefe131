//! The login uid of a task is set, and the record of it is written.
use super::{AuditFeatures, Enabling, features, settings, terminal, write};
use crate::{
    login::UNSET,
    task::{Task, attention},
};
use audit::kind;
use interfaces::monitor::Privileges;
use vfs::{Capabilities, Errno, security};

/// Sets the login uid of a task (`/proc/PID/loginuid`).
///
/// # Errors
/// `EPERM`: a user has logged in already, and the task may not control audit or a feature forbids the change.
pub fn log_in(task: &Task, user: u32) -> Result<(), Errno> {
    let old = (task.login.user(), task.login.session());
    let may_change = || {
        let who = task.credentials();
        let on = features().on;
        on & AuditFeatures::LOGIN_IMMUTABLE == 0
            && (on & AuditFeatures::ONLY_UNSET_LOGIN == 0 || user == UNSET)
            && who.has(Capabilities::AUDIT_CONTROL)
            && security::has(&who.subject, Privileges::AUDIT_CONTROL)
    };
    let result = task.login.set(user, may_change);
    // Rules ask for the login uid.
    task.raise_attention(attention::RELOAD);
    if settings().enabled != Enabling::Off {
        let session = if result.is_ok() { task.login.session() } else { old.1 };
        write(task, kind::LOGIN, |text, facts| {
            let [real, ..] = facts.users;
            text.put(format_args!("pid={} uid={real}", facts.process));
            text.put_subject(facts);
            text.put(format_args!(
                " old-auid={} auid={} tty={} old-ses={} ses={} res={}",
                old.0,
                user,
                terminal(task),
                old.1,
                session,
                u8::from(result.is_ok())
            ));
        });
    }
    result
}
