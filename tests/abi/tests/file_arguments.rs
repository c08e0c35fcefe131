//! Tests which error comes first if several arguments of calls on files are wrong (`./x campaign arguments`
//! found these cases).
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use std::ptr::null_mut;

/// An address outside the range of programs.
const KERNEL: *mut i64 = 0xffff_8000_0000_0000_usize as *mut i64;

fn splice(from: (i32, *mut i64), to: (i32, *mut i64)) -> Result<i64, i32> {
    check(unsafe { libc::splice(from.0, from.1, to.0, to.1, 8, 0) } as i64)
}

#[test]
fn splice_looks_at_positions_before_modes() {
    let scratch = Scratch::new();
    let unreadable = open(scratch.file("file", b"x"), libc::O_WRONLY, 0).expect("it was just made");
    let (reader, writer) = pipe();
    let mut position = 0;
    for place in [&raw mut position, KERNEL] {
        let none = null_mut();
        assert_eq!(splice((unreadable, none), (writer, place)), Err(libc::ESPIPE));
        assert_eq!(splice((writer, place), (writer, none)), Err(libc::ESPIPE));
        assert_eq!(splice((reader, none), (reader, place)), Err(libc::ESPIPE));
    }
    assert_eq!(splice((unreadable, KERNEL), (writer, null_mut())), Err(libc::EFAULT));
    assert_eq!(splice((unreadable, null_mut()), (writer, null_mut())), Err(libc::EBADF));
    [unreadable, reader, writer].into_iter().for_each(close);
}

#[test]
fn directories_and_files_of_records_are_not_spliced() {
    let scratch = Scratch::new();
    let folder = open(scratch.path(""), libc::O_RDONLY, 0).expect("it was just made");
    let event = must(unsafe { libc::eventfd(1, libc::EFD_NONBLOCK) }) as i32;
    let notes = must(unsafe { libc::inotify_init1(libc::IN_NONBLOCK) }) as i32;
    let timer =
        must(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK) }) as i32;
    let (reader, writer) = pipe();
    for source in [folder, event, notes, timer] {
        assert_eq!(splice((source, null_mut()), (writer, null_mut())), Err(libc::EINVAL));
    }
    [folder, event, notes, timer, reader, writer].into_iter().for_each(close);
}

#[test]
fn only_files_that_send_signals_take_o_async() {
    let scratch = Scratch::new();
    let file = open(scratch.file("file", b"x"), libc::O_RDWR, 0).expect("it was just made");
    let (reader, writer) = pipe();
    for (fd, expected) in [(file, 0), (reader, libc::O_ASYNC)] {
        must(unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_ASYNC | libc::O_APPEND) });
        let flags = must(unsafe { libc::fcntl(fd, libc::F_GETFL) }) as i32;
        assert_eq!(flags & (libc::O_ASYNC | libc::O_APPEND), expected | libc::O_APPEND);
    }
    [file, reader, writer].into_iter().for_each(close);
}
