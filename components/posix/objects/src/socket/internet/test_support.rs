//! Tools of the tests of Internet sockets: the real stack, options of calls, addresses.
use super::address::{self, AddressFamily};
use crate::socket::interface::{Receive, Send, SocketAddress};
use alloc::sync::Arc;
use inet::{Inet, RealTime};

pub(super) const SENT: Send = Send {
    is_nonblocking: true,
    is_silent: true,
    is_urgent: false,
    is_more: false,
    is_zero_copy: false,
    is_fast_open: false,
};
pub(super) const READ: Receive = Receive {
    is_nonblocking: true,
    is_peek: false,
    is_whole: false,
    is_urgent: false,
    is_discarding: false,
    is_error_queue: false,
};

pub(super) fn stack() -> Arc<Inet> {
    Inet::new([7; 32], Arc::new(RealTime))
}

/// Returns an IPv4 address and a port as a program gives them.
pub(super) fn given(text: &str) -> SocketAddress {
    address::encode(AddressFamily::V4, text.parse().unwrap())
}
