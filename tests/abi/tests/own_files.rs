//! A process that gave up its rights still opens its own descriptors: `/proc/self/fd` and `/dev/stdin` after setuid, when
//! the files of `/proc/self` belong to root.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    identity::{NOBODY, become_user},
    *,
};
use std::{fs, os::unix::fs::PermissionsExt, sync::mpsc, thread};

/// A file with `contents` that anyone may read and write.
fn open_file(scratch: &Scratch, contents: &[u8]) -> i32 {
    fs::set_permissions(scratch.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let path = scratch.file("f", contents);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    open(&path, libc::O_RDONLY, 0).unwrap()
}

fn access(path: &str, how: i32) -> Result<i64, i32> {
    check(unsafe { libc::access(c(path).as_ptr(), how) })
}

#[test]
fn own_descriptors_open_after_setuid() {
    isolated(|| {
        let scratch = Scratch::new();
        let fd = open_file(&scratch, b"here");
        become_user(NOBODY);
        assert_eq!(stat("/proc/self/fd").unwrap().st_uid, 0, "it is root's now");
        let thread = must(unsafe { libc::syscall(libc::SYS_gettid) });
        for folder in [
            "/proc/self/fd".to_owned(),
            "/proc/thread-self/fd".to_owned(),
            format!("/proc/self/task/{thread}/fd"),
            "/dev/fd".to_owned(),
        ] {
            let again = open(format!("{folder}/{fd}"), libc::O_RDWR, 0).unwrap();
            assert_eq!(read(again, 9), Ok(b"here".to_vec()), "{folder}");
            close(again);
            let names: Vec<_> = fs::read_dir(&folder)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            assert!(names.contains(&fd.to_string()), "{folder}: {names:?}");
            assert!(fs::read_link(format!("{folder}/{fd}")).unwrap().ends_with("f"));
            assert_eq!(access(&folder, libc::R_OK | libc::W_OK | libc::X_OK), Ok(0));
        }
        let report = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap();
        assert!(report.starts_with("pos:\t0\n"), "{report}");
    });
}

#[test]
fn standard_input_opens_after_setuid() {
    isolated(|| {
        let scratch = Scratch::new();
        let fd = open_file(&scratch, b"typed");
        must(unsafe { libc::dup2(fd, libc::STDIN_FILENO) });
        become_user(NOBODY);
        let again = open("/dev/stdin", libc::O_RDONLY, 0).unwrap();
        assert_eq!(read(again, 9), Ok(b"typed".to_vec()));
        // The file's own permissions count.
        fs::read("/proc/self/environ").expect_err("its file belongs to root");
        let (end, other) = pipe();
        assert!(open(format!("/proc/self/fd/{end}"), libc::O_RDONLY, 0).is_ok(), "made by us");
        close(other);
    });
}

#[test]
fn what_was_opened_with_more_rights_is_not_opened_again() {
    isolated(|| {
        let scratch = Scratch::new();
        let secret = scratch.file("secret", b"key");
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        let fd = open(&secret, libc::O_RDONLY, 0).unwrap();
        let (end, _) = pipe();
        become_user(NOBODY);
        for fd in [fd, end] {
            let again = open(format!("/proc/self/fd/{fd}"), libc::O_RDONLY, 0);
            assert_eq!(again, Err(libc::EACCES));
        }
    });
}

#[test]
fn descriptors_of_another_process_stay_closed() {
    isolated(|| {
        let scratch = Scratch::new();
        let fd = open_file(&scratch, b"here");
        let process = std::process::id();
        become_user(NOBODY);
        // Same user, but a process of its own: the files belong to root.
        let child = fork(|| {
            let path = format!("/proc/{process}/fd");
            assert_eq!(open(format!("{path}/{fd}"), libc::O_RDONLY, 0), Err(libc::EACCES));
            assert_eq!(open(&path, libc::O_RDONLY, 0), Err(libc::EACCES));
            assert_eq!(access(&path, libc::X_OK), Err(libc::EACCES));
            assert!(open(format!("/proc/self/fd/{fd}"), libc::O_RDONLY, 0).is_ok());
        });
        assert_eq!(wait(child), Ended::Exited(0));
        // A thread is of the same process.
        let (send, receive) = mpsc::channel();
        let other = thread::spawn(move || {
            send.send(must(unsafe { libc::syscall(libc::SYS_gettid) })).unwrap();
            thread::park();
        });
        let thread = receive.recv().unwrap();
        let path = format!("/proc/self/task/{thread}/fd/{fd}");
        assert!(open(path, libc::O_RDONLY, 0).is_ok());
        other.thread().unpark();
        other.join().unwrap();
    });
}
