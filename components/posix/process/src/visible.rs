//! Mandatory access to processes (K1): those that exist for a subject, and the ones that it may signal or change.
//!
//! A process has the label of its subject ([`Process::label`]). A process that a subject may not read does not exist for it: a
//! call that names the process fails as for a number that nobody has, and no list shows it. Calls look processes up through
//! [`VisibleProcesses`]. Discretionary rules come next, and then [`check_signal`] or [`VisibleProcesses::check_change`].
//!
//! A process that ends or stops tells its parent, which may be of a lower level if the process changed its subject at exec. Such
//! a parent learns only that the process has ended ([`is_concealed`]).
use crate::{audit, object::Process, task::Task, tree};
use alloc::{sync::Arc, vec::Vec};
use interfaces::monitor::{ObjectAccess, Privileges};
use vfs::{
    Errno, Principal,
    security::{self, SecuritySubject},
};

/// Returns whether a process exists for a subject: the subject may read it, or sees all.
pub fn is_visible(process: &Process, to: &SecuritySubject) -> bool {
    security::check(to, process.label(), ObjectAccess::Read).is_ok()
        || security::has(to, Privileges::SEE_ALL)
}

/// Returns whether a process exists for `viewer`; all do where no task looks.
pub fn exists_for(process: &Process, viewer: &dyn Principal) -> bool {
    Task::of(viewer).is_none_or(|task| task.visible().has(process))
}

/// Checks that a subject may send signals to a process: it may write to it. One that sees all may signal processes of any secrecy,
/// but none of a greater grade than its own.
///
/// # Errors
/// `ESRCH` if the process does not exist for the subject; `EPERM`.
pub fn check_signal(process: &Process, by: &SecuritySubject) -> Result<(), Errno> {
    let label = process.label();
    if security::check(by, label, ObjectAccess::Write).is_ok() {
        return Ok(());
    }
    if !is_visible(process, by) {
        return Err(Errno::ESRCH);
    }
    let is_excepted =
        security::has(by, Privileges::SEE_ALL) && security::is_grade_writable(by, label);
    if is_excepted { Ok(()) } else { Err(Errno::EPERM) }
}

/// Returns whether a child's parent may not know more than that the child has ended: the parent may not read the child.
pub fn is_concealed(child: &Process, from: &Process) -> bool {
    if child.label() == from.label() || !security::is_enforced() {
        return false;
    }
    // A parent without a task is about to be replaced by another one.
    from.oldest_task().is_none_or(|task| !is_visible(child, &task.credentials().subject))
}

/// The processes that exist for a task.
#[derive(Clone, Copy)]
pub struct VisibleProcesses<'a>(&'a Task);

impl Task {
    /// Returns the processes that exist for it.
    pub fn visible(&self) -> VisibleProcesses<'_> {
        VisibleProcesses(self)
    }
}

impl VisibleProcesses<'_> {
    /// Returns whether a process is one of them.
    #[inline]
    pub fn has(self, process: &Process) -> bool {
        !security::is_enforced() || is_visible(process, &self.0.credentials().subject)
    }
    /// Returns the process `id`, zombies included.
    pub fn process(self, id: u32) -> Option<Arc<Process>> {
        tree::process(id).filter(|process| self.has(process))
    }
    /// Returns the task `id` if it is alive.
    pub fn task(self, id: u32) -> Option<Arc<Task>> {
        tree::task(id).filter(|task| self.has(&task.process))
    }
    /// Returns the task `id` if it is alive, or the first task of the process `id` even if it has ended.
    pub fn known_task(self, id: u32) -> Option<Arc<Task>> {
        tree::known_task(id).filter(|task| self.has(&task.process))
    }
    /// Returns the process `id`, or the one to which task `id` belongs.
    pub fn process_of(self, id: u32) -> Option<Arc<Process>> {
        tree::process_of(id).filter(|process| self.has(process))
    }
    /// Returns the processes of group `group`.
    pub fn group(self, group: u32) -> Vec<Arc<Process>> {
        tree::read().group(group).filter(|process| self.has(process)).cloned().collect()
    }
    /// Returns all for which `is_wanted` is true, ordered by id.
    pub fn all(self, is_wanted: impl Fn(&Process) -> bool) -> Vec<Arc<Process>> {
        let tree = tree::read();
        tree.processes().filter(|it| is_wanted(it) && self.has(it)).cloned().collect()
    }
    /// Checks that a process still is one of them: it may have changed its subject since it was found.
    ///
    /// # Errors
    /// `ESRCH`.
    pub fn check(self, process: &Process) -> Result<(), Errno> {
        if self.has(process) { Ok(()) } else { Err(Errno::ESRCH) }
    }
    /// Checks that the task may change a process (its scheduling, its limits, its memory): it may write to it.
    ///
    /// # Errors
    /// `EPERM`.
    #[inline]
    pub fn check_change(self, process: &Process) -> Result<(), Errno> {
        if !security::is_enforced() || self.0.process.id() == process.id() {
            return Ok(());
        }
        let own = self.0.credentials();
        security::check(&own.subject, process.label(), ObjectAccess::Write).map_err(|_| {
            audit::refused_process(self.0, "write", process, &own.subject);
            Errno::EPERM
        })
    }
}
