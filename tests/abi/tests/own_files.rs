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

/// Makes a file with `contents` that every user may read and write.
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
        // A thread belongs to the same process.
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

#[test]
fn a_descriptors_link_leads_to_what_it_is_now() {
    /// Returns the target of an open link.
    fn target(link: i32) -> Result<String, i32> {
        let mut text = [0u8; 100];
        let (at, bytes) = (text.as_mut_ptr().cast(), text.len());
        let count = check(unsafe { libc::readlinkat(link, c"".as_ptr(), at, bytes) } as i64)?;
        Ok(String::from_utf8_lossy(&text[..count as usize]).into_owned())
    }
    isolated(|| {
        let file = open("/dev/null", libc::O_RDONLY, 0).unwrap();
        let name = format!("/proc/self/fd/{file}");
        let mode = || fs::symlink_metadata(&name).unwrap().permissions().mode() & 0o777;
        let link = open(&name, libc::O_PATH | libc::O_NOFOLLOW, 0).unwrap();
        assert_eq!((target(link), mode()), (Ok("/dev/null".into()), 0o500));
        let other = open("/dev/zero", libc::O_RDWR, 0).unwrap();
        must(unsafe { libc::dup2(other, file) });
        assert_eq!((target(link), mode()), (Ok("/dev/zero".into()), 0o700));
        close(file);
        assert_eq!(target(link), Err(libc::ENOENT));
        assert_eq!(open(&name, libc::O_RDONLY, 0), Err(libc::ENOENT));
        for wrong in ["+1", "01", "-1", "4294967297", "1x"] {
            let opened = open(format!("/proc/self/fd/{wrong}"), libc::O_PATH, 0);
            assert_eq!(opened, Err(libc::ENOENT), "{wrong}");
        }
    });
}

#[test]
fn names_of_a_process_go_with_it() {
    isolated(|| {
        let child = fork(|| {
            unsafe { libc::pause() };
        });
        let names =
            ["", "/stat", "/fd", "/cwd", "/task"].map(|name| format!("/proc/{child}{name}"));
        for _ in 0..2 {
            names.iter().for_each(|name| assert!(stat(name).is_ok(), "{name}"));
        }
        let folder = open(&names[0], libc::O_PATH, 0).unwrap();
        must(unsafe { libc::kill(child, libc::SIGKILL) });
        wait(child);
        names.iter().for_each(|name| assert_eq!(stat(name).err(), Some(libc::ENOENT), "{name}"));
        let opened = unsafe { libc::openat(folder, c"stat".as_ptr(), libc::O_RDONLY) };
        assert!([libc::ENOENT, libc::ESRCH].contains(&check(opened).unwrap_err()));
    });
}
