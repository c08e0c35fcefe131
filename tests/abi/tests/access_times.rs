//! Tests of accesses that change the access time: reads without bytes, mappings, directories,
//! copies.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use std::{fs, os::unix::fs::symlink, path::Path, ptr::null_mut};

/// 9 September 2001, long before any of these files was made.
const LONG_AGO: i64 = 1_000_000_000;

fn accessed(path: &Path) -> i64 {
    let mut stat: libc::stat = unsafe { zeroed() };
    must(unsafe { libc::lstat(c(path).as_ptr(), &mut stat) });
    stat.st_atime
}

/// Returns whether `act` counts as an access to `path`.
fn is_accessed(path: &Path, act: impl FnOnce()) -> bool {
    let time = libc::timespec { tv_sec: LONG_AGO, tv_nsec: 0 };
    let keep = libc::timespec { tv_sec: 0, tv_nsec: libc::UTIME_OMIT };
    let no_follow = libc::AT_SYMLINK_NOFOLLOW;
    let times = [time, keep];
    must(unsafe { libc::utimensat(libc::AT_FDCWD, c(path).as_ptr(), times.as_ptr(), no_follow) });
    assert_eq!(accessed(path), LONG_AGO);
    act();
    accessed(path) != LONG_AGO
}

/// Runs `body` with a folder on a disk and with one in memory.
fn everywhere(body: impl Fn(&Scratch)) {
    isolated(|| {
        body(&Scratch::on_disk());
        body(&Scratch::in_memory());
    });
}

#[test]
fn a_read_at_the_end_is_an_access() {
    everywhere(|scratch| {
        let empty = scratch.file("empty", b"");
        let fd = open(&empty, libc::O_RDONLY, 0).unwrap();
        assert!(is_accessed(&empty, || assert_eq!(read(fd, 1), Ok(vec![]))));
        let short = scratch.file("short", b"1234");
        let fd = open(&short, libc::O_RDONLY, 0).unwrap();
        assert!(is_accessed(&short, || assert_eq!(read(fd, 9).unwrap().len(), 4)));
        assert!(is_accessed(&short, || assert_eq!(read(fd, 9), Ok(vec![]))));
        let mut byte = 0u8;
        let mut at = |offset: i64| unsafe { libc::pread(fd, (&raw mut byte).cast(), 1, offset) };
        assert!(is_accessed(&short, || assert_eq!(must(at(1 << 40) as i64), 0)));
    });
}

#[test]
fn a_read_that_fails_or_is_silent() {
    everywhere(|scratch| {
        let path = scratch.file("f", b"1234");
        let fd = open(&path, libc::O_RDONLY, 0).unwrap();
        let bad = || unsafe { libc::read(fd, 8 as *mut _, 1) } as i64;
        assert!(is_accessed(&path, || assert_eq!(check(bad()), Err(libc::EFAULT))));
        let negative = || unsafe { libc::pread(fd, null_mut(), 1, -1) } as i64;
        assert!(!is_accessed(&path, || assert_eq!(check(negative()), Err(libc::EINVAL))));
        let silent = open(&path, libc::O_RDONLY | libc::O_NOATIME, 0).unwrap();
        assert!(!is_accessed(&path, || assert_eq!(read(silent, 2).unwrap().len(), 2)));
        assert!(!is_accessed(&path, || assert_eq!(read(silent, 9).unwrap().len(), 2)));
        assert!(!is_accessed(&path, || assert_eq!(read(silent, 9), Ok(vec![]))));
        let writer = open(&path, libc::O_WRONLY, 0).unwrap();
        assert!(!is_accessed(&path, || assert_eq!(read(writer, 1), Err(libc::EBADF))));
        assert!(!is_accessed(&path, || assert_eq!(write(writer, b"5"), Ok(1))));
        assert!(!is_accessed(&path, || close(open(&path, libc::O_RDWR, 0).unwrap())));
    });
}

#[test]
fn an_empty_read_of_a_disk_s_file_is_no_access() {
    isolated(|| {
        let scratch = Scratch::on_disk();
        let path = scratch.file("f", b"1234");
        let fd = open(&path, libc::O_RDONLY, 0).unwrap();
        assert!(!is_accessed(&path, || assert_eq!(read(fd, 0), Ok(vec![]))));
        assert!(!is_accessed(&path, || assert_eq!(
            must(unsafe { libc::readv(fd, null_mut(), 0) } as i64),
            0
        )));
        must(unsafe { libc::lseek(fd, 0, libc::SEEK_END) });
        assert!(!is_accessed(&path, || assert_eq!(read(fd, 0), Ok(vec![]))));
    });
}

#[test]
fn a_directory_is_accessed_at_its_end_too() {
    everywhere(|scratch| {
        let path = scratch.path("d");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("f"), "").unwrap();
        let fd = open(&path, libc::O_RDONLY, 0).unwrap();
        let entries = || {
            let mut buffer = [0u8; 4096];
            let (at, most) = (buffer.as_mut_ptr(), buffer.len());
            must(unsafe { libc::syscall(libc::SYS_getdents64, fd, at, most) })
        };
        assert!(is_accessed(&path, || assert!(entries() > 0)));
        assert!(is_accessed(&path, || assert_eq!(entries(), 0)));
        assert!(!is_accessed(&path, || assert!(stat(path.join("f")).is_ok())), "a lookup is none");
        let link = scratch.path("l");
        symlink("d", &link).unwrap();
        assert!(is_accessed(&link, || assert!(stat(&link).is_ok())));
        assert!(is_accessed(&link, || assert!(fs::read_link(&link).is_ok())));
        assert!(!is_accessed(&link, || assert!(fs::symlink_metadata(&link).is_ok())));
    });
}

#[test]
fn mappings_and_copies_are_accesses() {
    everywhere(|scratch| {
        let path = scratch.file("f", &[7; 4096]);
        let fd = open(&path, libc::O_RDONLY, 0).unwrap();
        let map = |protection: i32| {
            let at = unsafe { libc::mmap(null_mut(), 4096, protection, libc::MAP_PRIVATE, fd, 0) };
            assert_ne!(at, libc::MAP_FAILED);
            must(unsafe { libc::munmap(at, 4096) });
        };
        assert!(is_accessed(&path, || map(libc::PROT_NONE)));
        assert!(is_accessed(&path, || map(libc::PROT_READ)));
        let other = open(scratch.file("to", b""), libc::O_RDWR, 0).unwrap();
        let (_end, into) = pipe();
        let splice = |count: i64| {
            let result = check(unsafe {
                libc::splice(fd, null_mut(), into, null_mut(), 1, libc::SPLICE_F_NONBLOCK)
            } as i64);
            assert_eq!(result, Ok(count));
        };
        assert!(is_accessed(&path, || splice(1)));
        let send = |offset: i64, count: i64| {
            let mut offset = offset;
            let sent = unsafe { libc::sendfile(other, fd, &mut offset, 9) };
            assert_eq!(check(sent as i64), Ok(count));
        };
        assert!(is_accessed(&path, || send(0, 9)));
        assert!(is_accessed(&path, || send(4096, 0)), "at the end");
        must(unsafe { libc::lseek(fd, 0, libc::SEEK_END) });
        assert!(is_accessed(&path, || splice(0)), "at the end");
    });
}
