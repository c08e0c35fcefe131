//! The count of tasks that share an [`FsContext`], and its use in an exec.
//!
//! [`FsHold`] is a task's use of a context. [`FsExec`] tells an exec whether another process uses the context, and
//! keeps other tasks from joining until the exec has ended. If another process can change a program's root or working
//! directory, the program does not get the rights of its file. Source: Linux, `check_unsafe_exec` and `copy_fs`.
use super::context::FsContext;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use vfs::Errno;

/// The number of tasks, in the low bits.
const COUNT: u64 = (1 << 31) - 1;
/// Flag: a process of the users executes a program, and no task may join.
const IN_EXEC: u64 = 1 << 31;
/// Added at each change, so that a comparison detects that one user joined and another left.
const CHANGE: u64 = 1 << 32;

/// Tells whether other processes use the context of a process that executes a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Only the process's own threads use it, and no task joins until the exec has ended.
    Own,
    /// Other processes use it.
    Shared,
}

/// The number of tasks that use a context.
#[derive(Default)]
pub struct Users(AtomicU64);

impl Users {
    fn add_first(&self) {
        self.0.fetch_add(CHANGE + 1, Ordering::AcqRel);
    }
    fn join(&self) -> Result<(), Errno> {
        let one_more = |users: u64| (users & IN_EXEC == 0).then(|| users.wrapping_add(CHANGE + 1));
        let joined = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more);
        joined.map(drop).map_err(|_| Errno::EAGAIN)
    }
    fn leave(&self) {
        self.0.fetch_add(CHANGE - 1, Ordering::AcqRel);
    }
    fn begin_exec(&self, own_users: impl Fn() -> usize) -> Sharing {
        loop {
            let users = self.0.load(Ordering::Acquire);
            if users & COUNT > own_users() as u64 {
                return Sharing::Shared;
            }
            let marked = (users | IN_EXEC).wrapping_add(CHANGE);
            let (done, seen) = (Ordering::AcqRel, Ordering::Acquire);
            if self.0.compare_exchange(users, marked, done, seen).is_ok() {
                return Sharing::Own;
            }
        }
    }
    fn end_exec(&self) {
        self.0.fetch_and(!IN_EXEC, Ordering::AcqRel);
    }
}

/// A task's use of a context, counted until the task has ended.
pub struct FsHold {
    context: Arc<FsContext>,
    is_counted: bool,
}

impl FsHold {
    /// Makes the first task's use of a context.
    pub fn first(context: Arc<FsContext>) -> FsHold {
        context.users().add_first();
        FsHold { context, is_counted: true }
    }
    /// Makes the use of a task that has ended and looks up no more names.
    pub fn ended(context: Arc<FsContext>) -> FsHold {
        FsHold { context, is_counted: false }
    }
    /// Makes one more task's use of it (`CLONE_FS`).
    ///
    /// # Errors
    /// `EAGAIN` while a process of its users executes a program.
    pub fn join(context: Arc<FsContext>) -> Result<FsHold, Errno> {
        context.users().join()?;
        Ok(FsHold { context, is_counted: true })
    }
    /// Returns the context.
    pub fn context(&self) -> &Arc<FsContext> {
        &self.context
    }
}

impl Drop for FsHold {
    fn drop(&mut self) {
        if self.is_counted {
            self.context.users().leave();
        }
    }
}

/// An exec by a user of a context, until it drops.
pub struct FsExec {
    context: Arc<FsContext>,
    sharing: Sharing,
}

impl FsExec {
    /// Begins an exec of a process of which `own_users()` tasks use `context`. The process has no other exec under way.
    pub fn begin(context: Arc<FsContext>, own_users: impl Fn() -> usize) -> FsExec {
        let sharing = context.users().begin_exec(own_users);
        FsExec { context, sharing }
    }
    /// Returns whether other processes use the context.
    pub fn sharing(&self) -> Sharing {
        self.sharing
    }
}

impl Drop for FsExec {
    fn drop(&mut self) {
        if self.sharing == Sharing::Own {
            self.context.users().end_exec();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    #[test]
    fn an_exec_keeps_others_from_joining_and_lets_its_own_leave() {
        let users = Users::default();
        users.add_first();
        users.join().unwrap();
        assert_eq!(users.begin_exec(|| 2), Sharing::Own);
        assert_eq!(users.join(), Err(Errno::EAGAIN));
        users.leave();
        users.end_exec();
        assert_eq!(users.join(), Ok(()));
        assert_eq!(users.begin_exec(|| 1), Sharing::Shared);
        assert_eq!(users.join(), Ok(()), "an exec that gains nothing refuses nobody");
    }

    #[test]
    fn a_user_that_comes_while_another_goes_is_noticed() {
        let users = Users::default();
        users.add_first();
        users.join().unwrap();
        let round = Cell::new(0);
        let sharing = users.begin_exec(|| {
            round.set(round.get() + 1);
            if round.get() == 1 {
                // A thread of the executing process joins, is counted, and leaves again; the other process stays.
                users.join().unwrap();
                users.leave();
                return 2;
            }
            1
        });
        assert_eq!((sharing, round.get()), (Sharing::Shared, 2));
    }
}
