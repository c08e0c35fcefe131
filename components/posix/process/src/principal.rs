//! Tasks and processes as those on whose behalf files and memory are used ([`Principal`]).
use crate::{io_counts::Count, object::Process, task::Task, user_memory::User};
use alloc::sync::{Arc, Weak};
use core::any::Any;
use interfaces::monitor::Privileges;
use vfs::{
    Capabilities, Principal, StorageIo,
    security::{self, SecuritySubject},
};

fn count_of(io: StorageIo) -> Count {
    match io {
        StorageIo::Read => Count::BytesRead,
        StorageIo::Write => Count::BytesWritten,
        StorageIo::Cancelled => Count::BytesCancelled,
    }
}

impl Principal for Task {
    /// Only the task's own thread calls this: [`crate::io_counts::IoCounts`] have one writer.
    fn charge(&self, io: StorageIo, bytes: u64) {
        self.io.add(count_of(io), bytes);
    }
    fn is_ending(&self) -> bool {
        Task::is_ending(self)
    }
    fn has(&self, wanted: Capabilities) -> bool {
        self.credentials().has(wanted)
    }
    fn sees_hidden_names(&self) -> bool {
        security::has(&self.credentials().subject, Privileges::READ_UP)
    }
    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl Task {
    /// Returns the task that a file is used for; `None` if no task is.
    pub fn of(caller: &dyn Principal) -> Option<&Task> {
        caller.as_any()?.downcast_ref()
    }
}

impl User {
    /// Returns the account of the real user of `caller`, or root's where no task calls.
    pub fn of_caller(caller: &dyn Principal) -> Arc<User> {
        let of_kernel = || User::of(0, SecuritySubject::kernel().level());
        Task::of(caller).map_or_else(of_kernel, |task| task.account())
    }
}

/// Returns whether the limits of users hold for `caller`; they do not where no task calls.
#[cold]
pub fn is_unprivileged(caller: &dyn Principal) -> bool {
    Task::of(caller).is_some_and(Task::is_unprivileged)
}

/// A process stands for its tasks where memory is used and no task is at hand, as in the faults of the personality's own
/// access.
impl Principal for Process {
    fn charge(&self, io: StorageIo, bytes: u64) {
        self.usage.lock().io.add(count_of(io), bytes);
    }
    fn is_ending(&self) -> bool {
        self.oldest_task().is_none_or(|task| task.is_ending())
    }
    fn has(&self, wanted: Capabilities) -> bool {
        self.oldest_task().is_some_and(|task| task.credentials().has(wanted))
    }
    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl Process {
    /// Returns the process that a file or memory is used for: that of the task, if a task is. `None` if no process is.
    pub fn of(caller: &dyn Principal) -> Option<&Process> {
        match Task::of(caller) {
            Some(task) => Some(&task.process),
            None => caller.as_any()?.downcast_ref(),
        }
    }
    /// Returns the process as the owner of an address space.
    pub(crate) fn as_owner(self: &Arc<Self>) -> Weak<dyn Principal> {
        let owner: Weak<Process> = Arc::downgrade(self);
        owner
    }
}
