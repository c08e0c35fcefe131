//! Inspection of another process: the permission checks, and the data that is read (ptrace(2), "Ptrace access mode
//! checking").
//!
//! [`look`] checks the rights and reads the data in one step: no exec of the process replaces its credentials and its
//! memory between the two. The data is that of the program whose rights were checked.
use crate::{object::Process, task::Task};
use alloc::sync::Arc;
use interfaces::monitor::ObjectAccess;
use memory::{AddressSpace, Dumpable};
use vfs::{
    Credentials, Errno,
    credentials::Capabilities,
    security::{self, flows},
};

/// The ids of the caller that are compared, and the capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Real ids and permitted capabilities (`PTRACE_MODE_REALCREDS`): system calls.
    Real,
    /// File-system ids and effective capabilities (`PTRACE_MODE_FSCREDS`): files of `/proc`.
    Files,
}

/// The process, or one task of it, that is inspected.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    process: &'a Process,
    task: Option<&'a Arc<Task>>,
}

impl<'a> Target<'a> {
    /// Makes a target of the process, with the credentials of its oldest task.
    pub fn process(process: &'a Process) -> Target<'a> {
        Target { process, task: None }
    }
    /// Makes a target of one task of `process`.
    pub fn task(process: &'a Process, task: &'a Arc<Task>) -> Target<'a> {
        Target { process, task: Some(task) }
    }
    /// Returns the task, unless it has ended.
    fn alive(self) -> Option<Arc<Task>> {
        let state = self.process.signals.lock();
        let is_it = |task: &&Arc<Task>| self.task.is_none_or(|wanted| Arc::ptr_eq(task, wanted));
        state.tasks.iter().find(is_it).cloned()
    }
}

/// Returns the result of `take` for `target`, if `caller` may inspect it. `take` must not wait.
///
/// # Errors
/// `EPERM`; `ESRCH` if it has ended, or does not exist for the caller.
///
/// # Locks
/// Holds the commit of the target's exec guard; `take` may take locks of `process`.
pub fn look<T>(
    caller: &Task,
    mode: Mode,
    target: Target<'_>,
    take: impl FnOnce(&Arc<Task>) -> T,
) -> Result<T, Errno> {
    let _commit = target.process.exec_guard.hold_commit();
    let task = target.alive().ok_or(Errno::ESRCH)?;
    check(caller, mode, &task)?;
    flows::reads(|| Some(task.process.label()));
    Ok(take(&task))
}

/// Returns the memory of `target`, if `caller` may inspect it, and with [`ObjectAccess::Write`] also change it.
///
/// # Errors
/// Those of [`look`]; `ESRCH` if it has none.
pub fn memory(
    caller: &Task,
    target: Target<'_>,
    access: ObjectAccess,
) -> Result<Arc<AddressSpace>, Errno> {
    let found: Result<_, Errno> = look(caller, Mode::Real, target, |task| {
        if access == ObjectAccess::Write {
            caller.visible().check_change(&task.process)?;
            flows::writes(|| Some(task.process.label()));
        }
        Ok(task.process.try_memory())
    })?;
    found.and_then(|memory| memory.ok_or(Errno::ESRCH))
}

/// Checks that `caller` may inspect `task`, whose process has no exec under way. A process that does not exist for the caller is
/// not told from one that has ended.
fn check(caller: &Task, mode: Mode, task: &Task) -> Result<(), Errno> {
    if Arc::ptr_eq(&caller.process, &task.process) {
        return Ok(());
    }
    caller.visible().check(&task.process)?;
    // The credentials are read before the flag: a task that changes them clears it first.
    let (own, their) = (caller.credentials(), task.credentials());
    if !security::may_inspect(&own.subject, &their.subject) {
        return Err(Errno::EPERM);
    }
    if own.has(Capabilities::SYS_PTRACE) {
        return Ok(());
    }
    let memory = task.process.try_memory();
    let is_dumpable = memory.is_none_or(|memory| memory.dumpable() == Dumpable::Yes);
    if is_dumpable && is_equal_or_stronger(&own, mode, &their) { Ok(()) } else { Err(Errno::EPERM) }
}

fn is_equal_or_stronger(own: &Credentials, mode: Mode, their: &Credentials) -> bool {
    let (user, group, capabilities) = match mode {
        Mode::Real => (own.user.real, own.group.real, own.capabilities.permitted),
        Mode::Files => (own.user.fs, own.group.fs, own.capabilities.effective),
    };
    let users = [their.user.real, their.user.effective, their.user.saved];
    let groups = [their.group.real, their.group.effective, their.group.saved];
    users.iter().all(|id| *id == user)
        && groups.iter().all(|id| *id == group)
        && capabilities.contains(their.capabilities.permitted)
}
