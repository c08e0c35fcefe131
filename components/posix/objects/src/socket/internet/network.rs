//! The network stack that sockets use, and its errors.
use super::wakes::SocketWakes;
use alloc::sync::Arc;
use core::net::SocketAddr;
use interfaces::sockets::{
    DatagramProtocol, DatagramQueue, LinkTaps, Network, NetworkAdministration, SocketError,
    SocketFamilies, SocketOwner,
};
use rt::sync::Once;
use vfs::Errno;

/// The network stack, once the system has one.
pub(super) static NETWORK: Once<Arc<dyn Network>> = Once::new();

/// Gives the personality the network stack that sockets use. A second one is ignored; before the first, a system has neither
/// AF_INET nor AF_INET6.
pub fn set_network(network: Arc<dyn Network>) {
    if NETWORK.set(network).is_err() {
        log::warn!("a second network stack is not used");
    }
}

/// Returns the administration of the network stack; `None` if there is no stack.
pub fn administration() -> Option<Arc<dyn NetworkAdministration>> {
    NETWORK.get().map(|network| network.administration())
}

/// Returns the maker of taps of the network stack; `None` if there is no stack.
pub(in crate::socket) fn taps() -> Option<Arc<dyn LinkTaps>> {
    NETWORK.get().map(|network| network.taps())
}

/// Returns the owner of the stack's socket for the socket of a user with this number.
pub(super) fn owner(user: u32, number: u64) -> SocketOwner {
    SocketOwner { user, inode: number }
}

/// Returns whether this host has `address`, so that a socket can be bound to it. The stack is asked through a socket of its own.
pub(super) fn is_local(mut address: SocketAddr) -> bool {
    if address.ip().is_unspecified() || address.ip().is_loopback() {
        return true;
    }
    let Some(network) = NETWORK.get() else { return false };
    let queue = Arc::new(DatagramQueue::new(SocketWakes::new(), 0));
    let (families, owner) = (SocketFamilies::Both, SocketOwner::default());
    let Ok(probe) = network.open_datagram(queue, DatagramProtocol::Udp, families, owner) else {
        return false;
    };
    address.set_port(0);
    let found = probe.bind(address).is_ok();
    probe.close();
    found
}

/// Returns the number that a program is told of the stack's error.
pub(super) fn errno(error: SocketError) -> Errno {
    match error {
        SocketError::Refused => Errno::ECONNREFUSED,
        SocketError::NetworkUnreachable => Errno::ENETUNREACH,
        SocketError::HostUnreachable => Errno::EHOSTUNREACH,
        SocketError::HostDown => Errno::EHOSTDOWN,
        SocketError::Isolated => Errno::ENONET,
        SocketError::Unsupported => Errno::EOPNOTSUPP,
        SocketError::NoProtocol => Errno::ENOPROTOOPT,
        SocketError::Protocol => Errno::EPROTO,
        SocketError::MessageSize => Errno::EMSGSIZE,
        SocketError::Forbidden => Errno::EACCES,
        SocketError::InUse => Errno::EADDRINUSE,
        SocketError::NoAddress => Errno::EADDRNOTAVAIL,
        SocketError::Family => Errno::EAFNOSUPPORT,
        SocketError::NoDestination => Errno::EDESTADDRREQ,
        SocketError::Invalid => Errno::EINVAL,
        SocketError::NoMemory => Errno::ENOBUFS,
        SocketError::NoInterface => Errno::ENODEV,
        SocketError::Reset => Errno::ECONNRESET,
        SocketError::BrokenPipe => Errno::EPIPE,
        SocketError::Aborted => Errno::ECONNABORTED,
        SocketError::TimedOut => Errno::ETIMEDOUT,
        SocketError::NetworkDown => Errno::ENETDOWN,
    }
}
