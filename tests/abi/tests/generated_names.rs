//! The answers of calls that create, move and remove names in generated trees such as /proc, and of calls with names
//! that do not exist.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use libc::{EBUSY, EEXIST, EINVAL, EISDIR, ENOENT, ENOTDIR, EPERM, EXDEV};
use std::ptr::null;

const NO_REPLACE: u32 = 1;
const EXCHANGE: u32 = 2;

fn rename(from: &str, to: &str, flags: u32) -> Result<i64, i32> {
    let (from, to, cwd) = (c(from), c(to), libc::AT_FDCWD);
    let call = libc::SYS_renameat2;
    check(unsafe { libc::syscall(call, cwd, from.as_ptr(), cwd, to.as_ptr(), flags) })
}

fn link(from: &str, to: &str) -> Result<i64, i32> {
    check(unsafe { libc::link(c(from).as_ptr(), c(to).as_ptr()) })
}

fn unlink(path: &str) -> Result<i64, i32> {
    check(unsafe { libc::unlink(c(path).as_ptr()) })
}

fn rmdir(path: &str) -> Result<i64, i32> {
    check(unsafe { libc::rmdir(c(path).as_ptr()) })
}

fn mkdir(path: &str) -> Result<i64, i32> {
    check(unsafe { libc::mkdir(c(path).as_ptr(), 0o700) })
}

fn symlink(path: &str) -> Result<i64, i32> {
    check(unsafe { libc::symlink(c"x".as_ptr(), c(path).as_ptr()) })
}

fn touch(path: &str) -> Result<i64, i32> {
    check(unsafe { libc::utimensat(libc::AT_FDCWD, c(path).as_ptr(), null(), 0) })
}

#[test]
fn a_name_that_is_none_is_busy_or_there_already() {
    isolated(|| {
        for scratch in [Scratch::in_memory(), Scratch::on_disk()] {
            scratch.file("f", b"");
            std::fs::create_dir(scratch.path("d")).unwrap();
            let at = |name: &str| scratch.path(name).to_str().unwrap().to_owned();
            for flags in [0, NO_REPLACE, EXCHANGE] {
                for dots in ["d/.", "d/..", ".", ".."] {
                    assert_eq!(rename(&at(dots), &at("f"), flags), Err(EBUSY), "{dots}");
                    let refusal = if flags == NO_REPLACE { EEXIST } else { EBUSY };
                    assert_eq!(rename(&at("f"), &at(dots), flags), Err(refusal), "{dots}");
                }
                assert_eq!(rename(&at("none"), &at("f"), flags), Err(ENOENT));
                assert!(rename(&at("f/"), &at("f"), flags).is_err());
            }
            assert_eq!(rename(&at("f"), &at("d"), EXCHANGE | NO_REPLACE), Err(EINVAL));
        }
    });
}

#[test]
fn nothing_moves_in_a_generated_tree() {
    isolated(|| {
        let scratch = Scratch::new();
        scratch.file("f", b"");
        let at = |name: &str| scratch.path(name).to_str().unwrap().to_owned();
        for path in ["/proc/self/status", "/proc/sys/kernel/hostname", "/sys/kernel", "/proc/self"]
        {
            let other = format!("{path}x");
            assert_eq!(rename(path, &at("q"), 0), Err(EXDEV), "{path}");
            assert_eq!(rename(&at("f"), path, 0), Err(EXDEV), "{path}");
            let refusal = if path.starts_with("/sys") { EPERM } else { ENOENT };
            assert_eq!(rename(path, &other, 0), Err(refusal), "{path}");
            assert_eq!((rename(path, path, 0), rename(path, path, EXCHANGE)), (Ok(0), Ok(0)));
            assert_eq!(rename(path, path, NO_REPLACE), Err(EEXIST));
            assert_eq!(rename(&other, path, 0), Err(ENOENT));
        }
        assert_eq!(rename("/proc/self/status", "/proc/self/stat", 0), Err(EPERM));
    });
}

#[test]
fn a_name_that_is_there_comes_before_where_it_is() {
    isolated(|| {
        let scratch = Scratch::new();
        scratch.file("f", b"");
        let file = scratch.path("f").to_str().unwrap().to_owned();
        for path in ["/proc/self/status", "/proc/sys/kernel/hostname", "/sys/kernel", "/proc"] {
            assert_eq!(link(&file, path), Err(EEXIST), "{path}");
            assert_eq!((mkdir(path), symlink(path)), (Err(EEXIST), Err(EEXIST)), "{path}");
        }
        for path in ["/proc/self/status", "/proc/sys/kernel/hostname", "/proc/self"] {
            let other = format!("{path}x");
            assert_eq!((link(&file, &other), link(path, &other)), (Err(ENOENT), Err(ENOENT)));
            assert_eq!((mkdir(&other), symlink(&other)), (Err(ENOENT), Err(ENOENT)));
        }
        let (there, other) = ("/sys/block", "/sys/other");
        assert_eq!(link(&file, other), Err(EXDEV));
        assert_eq!(link("/sys/devices/system/cpu/online", other), Err(EPERM));
        assert_eq!((mkdir(other), symlink(other)), (Err(EPERM), Err(EPERM)));
        let node = |path: &str| check(unsafe { libc::mknod(c(path).as_ptr(), 0o100600, 0) });
        assert_eq!((node(other), node(there)), (Err(libc::EACCES), Err(EEXIST)));
    });
}

#[test]
fn what_cannot_be_taken_away_is_told_by_its_kind() {
    isolated(|| {
        assert_eq!((unlink("/sys/kernel"), rmdir("/sys/kernel")), (Err(EISDIR), Err(EPERM)));
        assert_eq!((unlink("/proc/self"), rmdir("/proc/self")), (Err(EPERM), Err(ENOTDIR)));
        let pts = "/dev/pts/ptmx";
        assert_eq!((unlink(pts), rmdir(pts)), (Err(EPERM), Err(ENOTDIR)));
        let own = "/proc/self/status";
        assert_eq!((unlink(own), rmdir(own)), (Err(EPERM), Err(EPERM)));
        assert_eq!((unlink("/proc/none"), rmdir("/sys/none")), (Err(ENOENT), Err(ENOENT)));
    });
}

#[test]
fn times_of_generated_files_may_be_set() {
    isolated(|| {
        for path in ["/proc", "/proc/self/status", "/proc/sys/kernel/hostname", "/sys/kernel"] {
            assert_eq!(touch(path), Ok(0), "{path}");
        }
        assert_eq!(touch("/proc/self/."), Err(EPERM));
        let mode = |path: &str| check(unsafe { libc::chmod(c(path).as_ptr(), 0o600) });
        assert_eq!(mode("/proc/self/status"), Err(EPERM));
        assert_eq!(mode("/proc/sys/kernel/hostname"), Err(EPERM));
    });
}
