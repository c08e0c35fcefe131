//! Job control for the ABI tests: groups, sessions, foreground, stops, and signals that are counted.
use crate::{
    check, isolated, must,
    pty::{Pty, ioctl_number},
};
use std::sync::atomic::{AtomicI32, Ordering};

/// Number of times that [`count`] handled each signal.
static SIGNALS: [AtomicI32; 65] = [const { AtomicI32::new(0) }; 65];

/// A signal handler that counts.
pub extern "C" fn count(signal: i32) {
    SIGNALS[signal as usize].fetch_add(1, Ordering::SeqCst);
}

/// A signal handler that does nothing.
pub extern "C" fn nothing(_: i32) {}

/// Returns how often `signal` was handled by [`count`].
pub fn counted(signal: i32) -> i32 {
    SIGNALS[signal as usize].load(Ordering::SeqCst)
}

/// Runs a test's body in a process of its own; one that hangs ends by SIGALRM.
///
/// # Panics
/// Panics if the body panicked or died.
#[track_caller]
pub fn limited(body: impl FnOnce()) {
    isolated(|| {
        // SAFETY: plain numbers.
        unsafe { libc::alarm(180) };
        body();
    });
}

/// Sleeps for this many milliseconds.
pub fn pause_ms(ms: u64) {
    std::thread::sleep(std::time::Duration::from_millis(ms));
}

/// Ignores a signal.
pub fn ignore(signal: i32) {
    // SAFETY: ignoring has no conditions.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Resets a signal to its default action.
pub fn reset(signal: i32) {
    // SAFETY: the default action has no conditions.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Returns the calling process's group.
pub fn group() -> i32 {
    // SAFETY: no conditions.
    unsafe { libc::getpgrp() }
}

/// Returns the calling process's number.
pub fn id() -> i32 {
    // SAFETY: no conditions.
    unsafe { libc::getpid() }
}

/// Makes a session of the calling process's own.
///
/// # Errors
/// The error number.
pub fn setsid() -> Result<i64, i32> {
    // SAFETY: no conditions.
    check(unsafe { libc::setsid() })
}

/// Puts a process into a group.
///
/// # Errors
/// The error number.
pub fn setpgid(process: i32, group: i32) -> Result<i64, i32> {
    // SAFETY: plain numbers.
    check(unsafe { libc::setpgid(process, group) })
}

/// Returns the group of a process.
///
/// # Errors
/// The error number.
pub fn getpgid(process: i32) -> Result<i64, i32> {
    // SAFETY: a plain number.
    check(unsafe { libc::getpgid(process) })
}

/// Returns the session of a process.
///
/// # Errors
/// The error number.
pub fn getsid(process: i32) -> Result<i64, i32> {
    // SAFETY: a plain number.
    check(unsafe { libc::getsid(process) })
}

/// Makes a new session with the slave as its controlling terminal.
///
/// # Panics
/// Panics if the caller leads a process group, or another session has the terminal.
#[track_caller]
pub fn lead(pty: &Pty) {
    setsid().expect("setsid");
    must(ioctl_number(pty.slave, libc::TIOCSCTTY, 0).expect("TIOCSCTTY"));
}

/// Moves the calling process into a group of its own.
#[track_caller]
pub fn own_group() {
    assert_eq!(setpgid(0, 0), Ok(0));
}

/// Makes `group` the foreground of a terminal.
///
/// # Errors
/// The error number.
pub fn set_foreground(fd: i32, group: i32) -> Result<i64, i32> {
    // SAFETY: plain numbers.
    check(unsafe { libc::tcsetpgrp(fd, group) })
}

/// Returns the foreground group of a terminal.
///
/// # Errors
/// The error number.
pub fn foreground(fd: i32) -> Result<i64, i32> {
    // SAFETY: plain numbers.
    check(unsafe { libc::tcgetpgrp(fd) })
}

/// Waits for a change of `child` that `options` name. Returns the status word, or -1 if there is none yet.
///
/// # Panics
/// Panics if there is no such child.
#[track_caller]
pub fn change(child: i32, options: i32) -> i32 {
    let mut status = 0;
    loop {
        // SAFETY: room for the status.
        match check(unsafe { libc::waitpid(child, &mut status, options) }) {
            Err(libc::EINTR) => {}
            Err(number) => panic!("waitpid: {number}"),
            Ok(0) => return -1,
            Ok(_) => return status,
        }
    }
}

/// Waits until `child` is stopped. Returns the signal that stopped it.
///
/// # Panics
/// Panics if the child ended instead.
#[track_caller]
pub fn stopped_by(child: i32) -> i32 {
    let status = change(child, libc::WUNTRACED);
    assert!(libc::WIFSTOPPED(status), "{status:#x}");
    libc::WSTOPSIG(status)
}

/// Sends a signal to a process, or to the group of a negative one.
#[track_caller]
pub fn send(target: i32, signal: i32) {
    // SAFETY: plain numbers.
    must(unsafe { libc::kill(target, signal) });
}
