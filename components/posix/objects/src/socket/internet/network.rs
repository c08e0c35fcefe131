//! The network stack that sockets use, and its errors.
use super::wakes::SocketWakes;
use alloc::sync::Arc;
use core::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::atomic::{AtomicBool, Ordering},
};
use interfaces::sockets::{
    DatagramProtocol, DatagramQueue, Ipv4OptionList, LinkRecord, LinkTaps, Network,
    NetworkAdministration, NetworkParameter, OptionSide, RouteQuery, SocketError, SocketFamilies,
    SocketOwner, Tunnels, number,
};
use rt::sync::Once;
use vfs::{
    Credentials, Errno,
    security::{self, Label, Level},
};

/// The network stack, once the system has one.
pub(super) static NETWORK: Once<Arc<dyn Network>> = Once::new();
/// The stack knows the labels of packets.
static HAS_LABELS: AtomicBool = AtomicBool::new(false);

/// Gives the personality the network stack that sockets use. A second one is ignored; before the first, a system has neither
/// AF_INET nor AF_INET6.
pub fn set_network(network: Arc<dyn Network>) {
    if NETWORK.set(network).is_err() {
        log::warn!("a second network stack is not used");
    }
    label_network();
}

/// Gives the stack the labels of packets, if the system has a monitor, when it starts and when another policy was loaded.
pub fn label_network() {
    if let (Some(labels), Some(network)) = (security::packet_labels(), NETWORK.get()) {
        let is_labelled = network.set_labels(labels);
        let is_labelled = is_labelled.inspect_err(|_| log::error!("the network has no labels"));
        HAS_LABELS.store(is_labelled.is_ok(), Ordering::Relaxed);
    }
}

/// Returns whether sockets may be made: packets have labels, or a system has none.
pub(in crate::socket) fn is_safe() -> bool {
    HAS_LABELS.load(Ordering::Relaxed) || !security::is_enforced()
}

/// Returns the administration of the network stack; `None` if there is no stack.
pub fn administration() -> Option<Arc<dyn NetworkAdministration>> {
    NETWORK.get().map(|network| network.administration())
}

/// Returns the maker of taps of the network stack; `None` if there is no stack.
pub(in crate::socket) fn taps() -> Option<Arc<dyn LinkTaps>> {
    NETWORK.get().map(|network| network.taps())
}

/// Returns the maker of tunnels of the network stack; `None` if there is none.
pub fn tunnels() -> Option<Arc<dyn Tunnels>> {
    NETWORK.get().and_then(|network| network.tunnels())
}

/// Returns the value of a parameter of the stack; `default` if there is no stack.
pub(super) fn system_value(parameter: NetworkParameter, default: i32) -> i32 {
    let values = administration().and_then(|stack| stack.parameter(parameter));
    let value = values.and_then(|values| values.first().copied());
    value.and_then(|value| i32::try_from(value).ok()).unwrap_or(default)
}

/// Returns the interface with this name.
pub fn link_named(name: &[u8]) -> Option<LinkRecord> {
    netadmin::link_named(&*administration()?, core::str::from_utf8(name).ok()?).ok()
}

/// Returns the interface with this number.
pub fn link_numbered(number: u32) -> Option<LinkRecord> {
    netadmin::link_numbered(&*administration()?, number).ok()
}

/// Returns the number of the interface that has an address; of several, the first one's.
pub(super) fn interface_of(address: Ipv4Addr) -> Option<u32> {
    let query = RouteQuery::new(address.into());
    let administration = administration()?;
    let route = administration.route_to(&query).ok()?;
    if route.kind != number::KIND_LOCAL {
        return None;
    }
    let all = administration.addresses();
    let own = all.iter().find(|one| one.address == IpAddr::V4(address));
    // All addresses of 127.0.0.0/8 are of the loopback interface, which has only the first.
    own.map(|one| one.interface).or(route.interface)
}

/// Returns whether an address is that of another host (`inet_addr_type`).
fn is_other_host(address: Ipv4Addr) -> bool {
    let is_special = address.is_multicast() || address.is_broadcast() || address.octets()[0] == 0;
    let kind = administration().and_then(|all| all.route_to(&RouteQuery::new(address.into())).ok());
    let is_own = kind.is_some_and(|route| route.kind != number::KIND_UNICAST);
    !is_special && !is_own
}

/// Checks options of a header of IPv4 that a program gives.
///
/// # Errors
/// `EINVAL`.
pub(super) fn header_options(side: OptionSide, bytes: &[u8]) -> Result<Ipv4OptionList, Errno> {
    Ipv4OptionList::checked(bytes, side, &is_other_host).map_err(|_| Errno::EINVAL)
}

/// The maker of a socket, as the stack and the peer know it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SocketMaker {
    /// User id.
    pub(super) user: u32,
    /// The label of the socket.
    pub(super) label: &'static Label,
    /// The level of its subject, which numbers the socket.
    pub(super) level: &'static Level,
}

impl SocketMaker {
    /// Returns a program as the maker of a socket.
    pub(super) fn of(who: &Credentials) -> SocketMaker {
        SocketMaker {
            user: who.user.effective,
            label: who.label_of_socket(),
            level: who.subject.level(),
        }
    }
    /// Returns the owner of the stack's socket for the socket with this number.
    pub(super) fn owner(&self, number: u64) -> SocketOwner {
        SocketOwner { user: self.user, inode: number, label: self.label.secrecy() }
    }
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
pub(in crate::socket) fn errno(error: SocketError) -> Errno {
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
