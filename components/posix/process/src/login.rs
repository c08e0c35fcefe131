//! [`Login`]: the audit login uid and session of a task (`/proc/PID/loginuid` and `sessionid`): the user that logged in, whatever
//! user the task became since. A task gets them from its creator and keeps them over exec.
//! Source: Linux `kernel/audit.c`, `audit_set_loginuid`.
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use vfs::Errno;

/// Value for "no user has logged in" and "no session" (`AUDIT_UID_UNSET`, `AUDIT_SID_UNSET`).
pub const UNSET: u32 = u32::MAX;

/// Number of the last session.
static LAST_SESSION: AtomicU32 = AtomicU32::new(0);

/// The user in the low half of a word and the session in the high one, so that both change in one step.
pub struct Login(AtomicU64);

impl Login {
    /// Makes the state of a task for which no user has logged in.
    pub const fn none() -> Login {
        Login(AtomicU64::new(u64::MAX))
    }

    /// Returns the login uid, or [`UNSET`].
    pub fn user(&self) -> u32 {
        self.0.load(Ordering::Relaxed) as u32
    }

    /// Returns the session, or [`UNSET`].
    pub fn session(&self) -> u32 {
        (self.0.load(Ordering::Relaxed) >> 32) as u32
    }

    /// Begins a session of `user`; [`UNSET`] ends the one there is.
    ///
    /// # Errors
    /// `EPERM` where a user has logged in already, unless the caller `may_change` that (CAP_AUDIT_CONTROL).
    pub fn set(&self, user: u32, may_change: impl FnOnce() -> bool) -> Result<(), Errno> {
        if self.user() != UNSET && !may_change() {
            return Err(Errno::EPERM);
        }
        let session = if user == UNSET { UNSET } else { next_session() };
        self.0.store(u64::from(session) << 32 | u64::from(user), Ordering::Relaxed);
        Ok(())
    }

    /// Copies the values of `creator`.
    pub(super) fn inherit(&self, creator: &Login) {
        self.0.store(creator.0.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Returns the number of a new session, never [`UNSET`].
fn next_session() -> u32 {
    let next = || LAST_SESSION.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    match next() {
        UNSET => next(),
        session => session,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_starts_without_and_inherits_both_numbers() {
        let (creator, child) = (Login::none(), Login::none());
        assert_eq!((child.user(), child.session()), (UNSET, UNSET));
        creator.0.store(7 << 32 | 1000, Ordering::Relaxed);
        child.inherit(&creator);
        assert_eq!((child.user(), child.session()), (1000, 7));
    }

    #[test]
    fn the_number_of_no_session_is_left_out() {
        LAST_SESSION.store(UNSET - 1, Ordering::Relaxed);
        assert_eq!(next_session(), 0);
        assert_eq!(next_session(), 1);
    }
}
