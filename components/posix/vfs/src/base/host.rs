//! The personality's tasks, as files and address spaces see them: [`Host`].
//!
//! vfs serves threads that it knows nothing of. Where a transfer depends on the task of the calling thread, or memory has to
//! be taken from some task, vfs asks the host, which a file system and a namespace are given when they are made. An address
//! space of `memory` has one, too.
use interfaces::file_system::ReservedFor;

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

/// The keeper of tasks. The defaults are those of a program without tasks.
///
/// # Locks
/// It is asked with no lock of a page held. [`Host::relieve`] may wait for the end of a task.
pub trait Host: Send + Sync {
    /// The calling thread caused `io` of so many bytes: a read of pages from storage, or a write (getrusage(2), proc(5) on
    /// `/proc/PID/io`).
    fn charge(&self, io: StorageIo, bytes: u64) {
        let _ = (io, bytes);
    }
    /// The function by which a file system asks whether the calling thread may use blocks reserved for privileged users.
    fn judge(&self) -> fn(ReservedFor) -> bool {
        |_| false
    }
    /// Whether the program of the calling thread is to end: its long transfers stop.
    fn is_ending(&self) -> bool {
        false
    }
    /// Whether the calling thread may use the memory that is kept for an administrator (`CAP_SYS_ADMIN`).
    fn is_administrator(&self) -> bool {
        false
    }
    /// Makes a task end where memory ran out and nothing can be given back (the out-of-memory killer). Whether to try again.
    fn relieve(&self) -> bool {
        false
    }
}

/// A host without tasks: of generated files, which have no storage, of address spaces without a process, and of tests.
impl Host for () {}
