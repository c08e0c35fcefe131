//! Limits of the pipes of a user: `pipe-max-size`, `pipe-user-pages-soft` (pipe(7)).
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{identity::as_user, pages::PAGE, *};
use std::fs;

/// Numbers of users that no other process has, so that only the test's pipes count.
const USERS: [u32; 3] = [54_321, 54_322, 54_323];
const DESCRIPTORS: u64 = 4096;

fn setting(name: &str) -> usize {
    let text = fs::read_to_string(format!("/proc/sys/fs/{name}")).unwrap();
    text.trim().parse().expect("a number")
}

fn pipe() -> [i32; 2] {
    let mut ends = [0; 2];
    must(unsafe { libc::pipe(ends.as_mut_ptr()) });
    ends
}

fn size(end: i32) -> usize {
    must(unsafe { libc::fcntl(end, libc::F_GETPIPE_SZ) }) as usize
}

fn resize(end: i32, bytes: usize) -> Result<usize, i32> {
    let size = unsafe { libc::fcntl(end, libc::F_SETPIPE_SZ, bytes) };
    check(size).map(|size| size as usize)
}

/// Runs `test` as an ordinary user, with a high limit of descriptors.
fn with_pipes_of(user: u32, test: impl FnOnce()) {
    isolated(|| {
        let most = libc::rlimit { rlim_cur: DESCRIPTORS, rlim_max: DESCRIPTORS };
        must(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const most) });
        as_user(user, &[], test);
    });
}

/// Makes pipes and grows them until that is refused. Returns their write ends.
fn take_all() -> Vec<i32> {
    let (mut all, largest) = (Vec::new(), setting("pipe-max-size"));
    loop {
        let [_, end] = pipe();
        all.push(end);
        match resize(end, largest) {
            Ok(size) => assert_eq!(size, largest),
            Err(error) => {
                assert_eq!(error, libc::EPERM);
                return all;
            }
        }
    }
}

#[test]
fn above_the_soft_limit_a_new_pipe_of_a_user_is_small_and_none_grows() {
    with_pipes_of(USERS[0], || {
        let soft = setting("pipe-user-pages-soft");
        let large = take_all();
        let grown = large.len() - 1;
        let pages: usize = large.iter().take(grown).map(|&end| size(end) / PAGE).sum();
        assert!(pages <= soft, "{pages} pages, and {soft} are the limit");
        while size(pipe()[1]) > 2 * PAGE {}
        // A few pages may be left below the limit: not enough for a pipe of the default size, enough for a
        // small one to grow.
        while resize(pipe()[1], 4 * PAGE).is_ok() {}
        let [_, small] = pipe();
        assert_eq!(size(small), 2 * PAGE);
        assert_eq!(resize(small, 4 * PAGE), Err(libc::EPERM));
        assert_eq!(resize(small, PAGE), Ok(PAGE), "smaller is always allowed");
        assert_eq!(unsafe { libc::write(small, [1; 100].as_ptr().cast(), 100) }, 100);
    });
}

#[test]
fn a_pipe_that_is_closed_or_made_smaller_counts_less() {
    with_pipes_of(USERS[1], || {
        let large = take_all();
        let largest = setting("pipe-max-size");
        let last = *large.last().unwrap();
        assert_eq!(resize(last, largest), Err(libc::EPERM));
        for &end in &large[..2] {
            assert_eq!(resize(end, PAGE), Ok(PAGE));
        }
        assert_eq!(resize(last, largest), Ok(largest));
        let other = *take_all().last().unwrap();
        for &end in &large[2..4] {
            // The other end has the previous number.
            must(unsafe { libc::close(end - 1) });
            must(unsafe { libc::close(end) });
        }
        assert_eq!(resize(other, largest), Ok(largest));
    });
}

#[test]
fn no_pipe_of_an_ordinary_user_is_larger_than_the_limit() {
    let largest = setting("pipe-max-size");
    with_pipes_of(USERS[2], || {
        assert_eq!(resize(pipe()[1], largest), Ok(largest));
        assert_eq!(resize(pipe()[1], largest + 1), Err(libc::EPERM));
        assert_eq!(resize(pipe()[1], (1 << 31) - 1), Err(libc::EPERM));
        let beyond = unsafe { libc::fcntl(pipe()[1], libc::F_SETPIPE_SZ, -1) };
        assert_eq!(check(beyond), Err(libc::EINVAL));
    });
}

#[test]
fn the_limits_of_pipes_can_be_read() {
    assert!(setting("pipe-user-pages-soft") >= 1024);
    assert_eq!(setting("pipe-user-pages-hard"), 0);
    assert_eq!(setting("pipe-max-size"), 1 << 20);
}
