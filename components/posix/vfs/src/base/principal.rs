//! The task on whose behalf a file is used: [`Principal`].
//!
//! An operation that depends on its caller is given a `&dyn Principal`: by [`crate::Caller`] for names, by the
//! [`crate::io::Sink`] or [`crate::io::Source`] of a transfer, and as an argument elsewhere. vfs knows nothing of tasks; a crate
//! above it gets its own task back by [`Principal::as_any`].
use crate::base::credentials::Capabilities;
use core::any::Any;

/// The kinds of I/O between storage and pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageIo {
    /// Pages are read from storage.
    Read,
    /// Pages became dirty, and will be written.
    Write,
    /// Dirty pages were dropped, and need not be written.
    Cancelled,
}

/// A task on whose behalf a file is used. Holding a reference proves no right: an operation asks for the rights that it needs.
/// The defaults are those of [`NOBODY`].
///
/// # Locks
/// A page cache asks it with no lock of a page held.
pub trait Principal: Send + Sync {
    /// Counts `io` of so many bytes as caused by the task (getrusage(2), proc(5) on `/proc/PID/io`).
    fn charge(&self, io: StorageIo, bytes: u64) {
        let _ = (io, bytes);
    }
    /// Returns whether the task is to end: its long transfers stop.
    fn is_ending(&self) -> bool {
        false
    }
    /// Returns whether it has all of `wanted`.
    fn has(&self, wanted: Capabilities) -> bool {
        let _ = wanted;
        false
    }
    /// Returns whether it finds the names of the hidden directories in multilevel ones.
    fn sees_hidden_names(&self) -> bool {
        false
    }
    /// Returns the task for a downcast by the crate that made it; `None` if there is no task.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

/// No task: see [`NOBODY`].
impl Principal for () {}

/// The principal of the personality's own threads and of tests: it has no task, no account and no right.
pub const NOBODY: &dyn Principal = &();
