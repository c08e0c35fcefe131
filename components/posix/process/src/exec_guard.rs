//! [`ExecGuard`]: makes an exec one step for every thread whose decisions depend on the data that the exec changes.
//!
//! It has two halves, as Linux has `cred_guard_mutex` and `exec_update_lock`:
//!
//! | half | held by | time |
//! | --- | --- | --- |
//! | the decision | execve, and seccomp with `TSYNC` | from the first read of the file to the end of the change |
//! | the commit | execve to write; each inspection of a process to read | while credentials and memory are replaced |
//!
//! The decision may be held during disk reads. The task that waits for it can be killed: an exec ends the other
//! threads of its process, some of which may wait here. The commit is held for a few stores and never during a
//! wait.
//!
//! The crate's page of locks gives their order.
//! Source: Linux, `fs/exec.c`; `docs/rights.md`.
use core::sync::atomic::{AtomicBool, Ordering};
use rt::{
    lock_class,
    sync::{Event, ReadGuard, RwLock, WriteGuard},
};
use vfs::Errno;

lock_class! {
    static COMMIT = "process.commit";
}

/// The guard of one process.
pub struct ExecGuard {
    is_deciding: AtomicBool,
    decided: Event,
    commit: RwLock<()>,
}

/// The right to decide on an exec of the process, or to change data on which such a decision depends.
pub struct Decision<'a>(&'a ExecGuard);

impl ExecGuard {
    pub(super) fn new() -> ExecGuard {
        ExecGuard {
            is_deciding: AtomicBool::new(false),
            decided: Event::new(),
            commit: RwLock::new(&COMMIT, ()),
        }
    }
    /// Waits until no other task of the process has the decision, and takes it.
    ///
    /// # Errors
    /// `Restart` if the calling task `is_ending`: it returns to no program.
    pub fn decide(&self, is_ending: impl Fn() -> bool) -> Result<Decision<'_>, Errno> {
        loop {
            let ticket = self.decided.ticket();
            if !self.is_deciding.swap(true, Ordering::Acquire) {
                return Ok(Decision(self));
            }
            if is_ending() {
                return Err(Errno::Restart);
            }
            self.decided.wait_interruptible(ticket, None);
        }
    }
    /// Keeps an exec from replacing credentials and memory until the returned guard is dropped.
    pub(super) fn hold_commit(&self) -> ReadGuard<'_, ()> {
        self.commit.read()
    }
    /// Forbids inspecting the process until the returned guard is dropped.
    pub(super) fn begin_commit(&self) -> WriteGuard<'_, ()> {
        self.commit.write()
    }
}

impl Drop for Decision<'_> {
    fn drop(&mut self) {
        self.0.is_deciding.store(false, Ordering::Release);
        self.0.decided.signal();
    }
}
