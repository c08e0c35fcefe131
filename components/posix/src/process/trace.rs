//! Who may look into a process and change it as a debugger does (ptrace(2), "Ptrace access mode checking",
//! `PTRACE_MODE_ATTACH_REALCREDS`).
use super::{Process, Task};
use core::sync::atomic::Ordering;
use vfs::{Errno, credentials::Capabilities};

/// `task` may look into `target`.
///
/// # Errors
/// `EPERM`; `ESRCH` where it has ended.
pub fn check(task: &Task, target: &Process) -> Result<(), Errno> {
    if task.process.id() == target.id() {
        return Ok(());
    }
    let own = task.credentials();
    let their = target.tasks().first().map(|task| task.credentials()).ok_or(Errno::ESRCH)?;
    if own.has(Capabilities::SYS_PTRACE) {
        return Ok(());
    }
    let is_user = |id| id == own.user.real;
    let is_group = |id| id == own.group.real;
    let is_same = [their.user.real, their.user.effective, their.user.saved]
        .into_iter()
        .all(is_user)
        && [their.group.real, their.group.effective, their.group.saved].into_iter().all(is_group);
    let is_stronger = own.capabilities.permitted.contains(their.capabilities.permitted);
    let is_dumpable = target.is_dumpable.load(Ordering::Relaxed);
    if is_same && is_stronger && is_dumpable { Ok(()) } else { Err(Errno::EPERM) }
}
