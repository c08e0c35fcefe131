//! The calls that change a process's users and groups, each answering its error number
//! (setuid(2), setreuid(2), setresuid(2), setfsuid(2), setgroups(2), credentials(7)).
use crate::{Ended, check, fork, wait};

/// Number of the user and the group `nobody`, without rights.
pub const NOBODY: u32 = 65534;

/// Defines safe calls that take user or group ids only.
macro_rules! calls_of_ids {
    ($($(#[$doc:meta])* $name:ident($($id:ident),*);)*) => {$(
        $(#[$doc])*
        /// Calls the system call of this name.
        ///
        /// # Errors
        /// The error number.
        pub fn $name($($id: u32),*) -> Result<i64, i32> {
            // SAFETY: plain numbers.
            check(unsafe { libc::$name($($id),*) })
        }
    )*};
}

calls_of_ids! {
    /// Sets the effective user, and all three if the caller may.
    setuid(user);
    /// Sets the effective group, and all three if the caller may.
    setgid(group);
    /// Sets the effective user.
    seteuid(user);
    /// Sets the real and the effective user; `u32::MAX` leaves one as it is.
    setreuid(real, effective);
    /// Sets the real and the effective group; `u32::MAX` leaves one as it is.
    setregid(real, effective);
    /// Sets all three users; `u32::MAX` leaves one as it is.
    setresuid(real, effective, saved);
    /// Sets all three groups; `u32::MAX` leaves one as it is.
    setresgid(real, effective, saved);
}

/// Sets the user that counts for files; answers the former one, whether it was changed or not.
pub fn setfsuid(user: u32) -> i32 {
    // SAFETY: a plain number.
    unsafe { libc::setfsuid(user) }
}

/// Sets the supplementary groups.
///
/// # Errors
/// The error number.
pub fn setgroups(groups: &[u32]) -> Result<i64, i32> {
    // SAFETY: the slice is readable for its length.
    check(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })
}

/// Asks for the supplementary groups, with `room` as the size of the buffer. Returns the number of groups.
///
/// # Errors
/// The error number.
///
/// # Panics
/// Panics if `found` is shorter than `room`.
pub fn getgroups(room: i32, found: &mut [u32]) -> Result<i64, i32> {
    assert!(usize::try_from(room).unwrap_or(0) <= found.len(), "room for {room} groups");
    // SAFETY: `found` is writable for the number of groups that is told, and a negative one is refused.
    check(unsafe { libc::getgroups(room, found.as_mut_ptr()) })
}

/// Gives up all rights but those of `user` and the supplementary `groups`.
///
/// # Panics
/// Panics if the caller may not give them up.
#[track_caller]
pub fn become_user_with(user: u32, groups: &[u32]) {
    assert_eq!(setgroups(groups), Ok(0));
    assert_eq!(setresgid(user, user, user), Ok(0));
    assert_eq!(setresuid(user, user, user), Ok(0));
}

/// Gives up all rights but those of `user`.
///
/// # Panics
/// Panics if the caller may not give them up.
#[track_caller]
pub fn become_user(user: u32) {
    become_user_with(user, &[]);
}

/// Runs `body` in a child as `user`, whose group is the same number, with supplementary `groups`.
///
/// # Panics
/// Panics if the child did not exit with status 0.
#[track_caller]
pub fn as_user(user: u32, groups: &[u32], body: impl FnOnce()) {
    let child = fork(|| {
        become_user_with(user, groups);
        body();
    });
    assert_eq!(wait(child), Ended::Exited(0));
}
