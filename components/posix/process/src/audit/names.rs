//! The hook of vfs by which the names that a task uses are noted.
use crate::task::Task;
use vfs::{Principal, uses::NameUse};

/// Hears of a name that a task uses ([`vfs::uses::report`]).
pub fn name_used(caller: &dyn Principal, used: &NameUse<'_>) {
    if let Some(task) = Task::of(caller) {
        task.names.note(used);
    }
}
