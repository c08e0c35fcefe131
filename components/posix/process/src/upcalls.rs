//! [`Upcalls`]: the calls that processes make to the layers above them.
use crate::{call::CallTable, task::Task};

/// The layers above processes. The first process is made with them, and each child has those of its parent.
pub trait Upcalls: Send + Sync {
    /// The handlers of system calls.
    fn system_calls(&self) -> &'static CallTable;
    /// `task` has ended; called on its thread once nobody finds it by its number, with no lock held.
    fn task_ended(&self, task: &Task);
    /// Memory is short: gives back objects that no program can reach any more. Returns whether memory may have become free.
    /// The caller holds no lock.
    fn collect_unreachable(&self) -> bool;
}
