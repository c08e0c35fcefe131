//! Which error a call gives where several arguments are wrong, and what it changes then; `./x campaign arguments` found these.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;

fn epoll() -> i32 {
    must(unsafe { libc::epoll_create1(0) }) as i32
}

#[test]
fn files_that_stand_for_nothing_take_lseek() {
    let timer = must(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, 0) }) as i32;
    let event = must(unsafe { libc::eventfd(0, 0) }) as i32;
    let notes = must(unsafe { libc::inotify_init() }) as i32;
    let signals = {
        let mut set: libc::sigset_t = unsafe { zeroed() };
        unsafe { libc::sigemptyset(&mut set) };
        must(unsafe { libc::signalfd(-1, &set, 0) }) as i32
    };
    for fd in [epoll(), timer, event, notes, signals] {
        for whence in [libc::SEEK_SET, libc::SEEK_CUR, libc::SEEK_END, libc::SEEK_HOLE] {
            assert_eq!(check(unsafe { libc::lseek(fd, -5, whence) }), Ok(0), "{fd} {whence}");
        }
        assert_eq!(check(unsafe { libc::lseek(fd, 0, 9) }), Err(libc::EINVAL));
        close(fd);
    }
}
