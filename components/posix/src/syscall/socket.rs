//! Sockets: there is no address family yet, and programs are told so.
use super::{Call, Entry};
use linux_raw_sys::general as raw;
use vfs::Errno;

const NONE: &str = "any address family (EAFNOSUPPORT)";

/// The family's calls.
pub const CALLS: &[Entry] = &[
    Entry::partial(raw::__NR_socket, "socket", NONE, socket),
    Entry::partial(raw::__NR_socketpair, "socketpair", NONE, socket),
];

fn socket(_: &mut Call<'_>) -> Result<u64, Errno> {
    Err(Errno::EAFNOSUPPORT)
}
