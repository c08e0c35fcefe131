//! The audit login uid and session of tasks (`/proc/PID/loginuid` and `sessionid`, proc_pid_loginuid(5)). Run as root.
use abi::{Ended, c, check, fork, identity::become_user, isolated, must, wait};
use libc::*;
use std::{
    fs::{self, OpenOptions},
    os::unix::fs::{FileExt, PermissionsExt},
    process::Command,
};

const UNSET: u32 = u32::MAX;
const AUDIT_CONTROL: u64 = 1 << 30;

fn number(path: &str) -> u32 {
    let text = fs::read_to_string(path).expect("a number of the login");
    text.parse().expect("a number and nothing else")
}

/// Returns the login uid and session of the calling process.
fn login() -> (u32, u32) {
    (number("/proc/self/loginuid"), number("/proc/self/sessionid"))
}

/// Writes `text` in one call. Returns the error number.
fn put(path: &str, text: &str) -> Result<(), i32> {
    let file = OpenOptions::new()
        .write(true)
        .open(path)
        .map_err(|error| error.raw_os_error().unwrap_or(0))?;
    let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
    // SAFETY: the text is readable for its length.
    check(unsafe { libc::write(fd, text.as_ptr().cast(), text.len()) as i64 }).map(|_| ())
}

fn log_in(text: &str) -> Result<(), i32> {
    put("/proc/self/loginuid", text)
}

/// Takes CAP_AUDIT_CONTROL out of the effective set.
fn drop_audit_control() {
    let header = [0x2008_0522u32, 0];
    let mut data = [0u32; 6];
    // SAFETY: a header and two structures of three words.
    must(unsafe { syscall(SYS_capget, header.as_ptr(), data.as_mut_ptr()) });
    data[0] &= !(AUDIT_CONTROL as u32);
    // SAFETY: as above.
    must(unsafe { syscall(SYS_capset, header.as_ptr(), data.as_ptr()) });
}

#[test]
fn the_login_uid_is_for_its_task_to_write_and_the_session_for_nobody() {
    isolated(|| {
        for (name, mode) in [("loginuid", 0o644), ("sessionid", 0o444)] {
            for folder in ["/proc/self", "/proc/thread-self"] {
                let found = fs::metadata(format!("{folder}/{name}")).expect("it is there");
                assert_eq!(found.permissions().mode() & 0o7777, mode, "{folder}/{name}");
            }
        }
        assert_eq!(put("/proc/self/sessionid", "1"), Err(EINVAL));
    });
}

#[test]
fn each_login_begins_a_session_and_the_unset_one_ends_it() {
    isolated(|| {
        assert_eq!(log_in("4294967295"), Ok(()));
        assert_eq!(login(), (UNSET, UNSET));
        assert_eq!(log_in("1000"), Ok(()));
        let (user, first) = login();
        assert_eq!(user, 1000);
        assert_ne!(first, UNSET);
        assert_eq!(log_in("1000\n"), Ok(()));
        assert!(number("/proc/self/sessionid") > first);
        assert_eq!(log_in("+0"), Ok(()));
        assert_eq!(number("/proc/self/loginuid"), 0);
        assert_eq!(log_in("4294967295"), Ok(()));
        assert_eq!(login(), (UNSET, UNSET));
    });
}

#[test]
fn what_is_no_login_uid_is_refused() {
    isolated(|| {
        let before = login();
        for wrong in ["", "\n", "-1", " 1", "1 ", "one", "0x10", "1\n\n", "+"] {
            // An empty write is refused like a text without digits.
            assert_eq!(log_in(wrong), Err(EINVAL), "{wrong:?}");
        }
        assert_eq!(log_in("4294967296"), Err(ERANGE));
        let file = OpenOptions::new().write(true).open("/proc/self/loginuid").expect("it is ours");
        let refused = file.write_at(b"1", 1).expect_err("only whole numbers are taken");
        assert_eq!(refused.raw_os_error(), Some(EINVAL));
        assert_eq!(login(), before);
    });
}

#[test]
fn whoever_has_none_may_set_it_and_then_needs_the_capability() {
    isolated(|| {
        assert_eq!(log_in("4294967295"), Ok(()));
        let child = fork(|| {
            become_user(1000);
            // The files of a process that is not dumpable belong to root. SAFETY: a plain number.
            must(unsafe { prctl(PR_SET_DUMPABLE, 1) });
            assert_eq!(log_in("1000"), Ok(()));
            let before = login();
            for other in ["1000", "1001", "4294967295"] {
                assert_eq!(log_in(other), Err(EPERM), "{other}");
            }
            assert_eq!(login(), before);
        });
        assert_eq!(wait(child), Ended::Exited(0));
        assert_eq!(log_in("1000"), Ok(()));
        drop_audit_control();
        assert_eq!(log_in("1001"), Err(EPERM));
        assert_eq!(log_in("4294967295"), Err(EPERM));
    });
}

#[test]
fn children_and_programs_keep_the_login_whatever_user_they_become() {
    isolated(|| {
        assert_eq!(log_in("1234"), Ok(()));
        let before = login();
        let child = fork(|| {
            become_user(1000);
            assert_eq!(login(), before);
        });
        assert_eq!(wait(child), Ended::Exited(0));
        let said = Command::new("/bin/cat")
            .args(["/proc/self/loginuid", "/proc/self/sessionid"])
            .output()
            .expect("there is a cat");
        let expected = format!("{}{}", before.0, before.1);
        assert_eq!(String::from_utf8_lossy(&said.stdout), expected);
        // A child that logs in changes nothing for its creator.
        let child = fork(|| assert_eq!(log_in("1235"), Ok(())));
        assert_eq!(wait(child), Ended::Exited(0));
        assert_eq!(login(), before);
    });
}

#[test]
fn a_task_sets_its_own_login_only() {
    isolated(|| {
        let parent = format!("/proc/{}/loginuid", std::process::id());
        let child = fork(|| assert_eq!(put(&parent, "1000"), Err(EPERM)));
        assert_eq!(wait(child), Ended::Exited(0));
        // The number is checked after the task is.
        let child = fork(|| assert_eq!(put(&parent, "no number"), Err(EPERM)));
        assert_eq!(wait(child), Ended::Exited(0));
        let before = login();
        let thread = std::thread::spawn(move || {
            assert_eq!(log_in("77"), Err(EPERM));
            assert_eq!(put("/proc/thread-self/loginuid", "78"), Ok(()));
            assert_eq!(number("/proc/thread-self/loginuid"), 78);
            assert_eq!(login(), before);
        });
        thread.join().expect("the thread's assertions hold");
        assert_eq!(login(), before);
        // SAFETY: an access check of a path.
        assert_eq!(check(unsafe { access(c("/proc/self/loginuid").as_ptr(), W_OK) }), Ok(0));
    });
}
