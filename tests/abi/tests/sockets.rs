//! Sockets.
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "test programs call the C library in most lines"
)]

use abi::*;

/// Beyond every family that Linux knows.
const NO_FAMILY: i32 = 99;

#[test]
fn a_family_that_is_not_there_is_said_to_be_none() {
    let mut pair = [-1; 2];
    let socket = check(unsafe { libc::socket(NO_FAMILY, libc::SOCK_STREAM, 0) });
    assert_eq!(socket, Err(libc::EAFNOSUPPORT));
    let socket =
        check(unsafe { libc::socketpair(NO_FAMILY, libc::SOCK_STREAM, 0, pair.as_mut_ptr()) });
    assert_eq!(socket, Err(libc::EAFNOSUPPORT));
}
