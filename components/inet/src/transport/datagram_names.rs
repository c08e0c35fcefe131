//! Addresses that programs give to sockets of datagrams: families, scopes, permission.
use crate::{
    base::address::{AddressScope, Family},
    ip::{path::Path, stack::Cast},
    sockets::{
        bindings::includes,
        datagram_end::{DatagramEnd, DatagramState},
        errors::SocketError,
    },
    tables::{configuration::Configuration, interface::InterfaceIndex, routes::RouteKind},
};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use interfaces::sockets::{DatagramProtocol, IpOptions, SocketFamilies};
use packet::protocol;

/// The use of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScopeUse {
    /// As the local one.
    Bind,
    /// As the peer.
    Connect,
    /// As the destination of one packet.
    Send,
}

/// Returns the only interface of a socket's packets.
pub(crate) fn interface_of(state: &DatagramState<Path>) -> Option<InterfaceIndex> {
    state.link.or(state.options.interface).map(InterfaceIndex)
}

/// Returns the protocol of a socket's packets.
pub(crate) fn protocol_of(socket: &DatagramEnd<Path>) -> u8 {
    match (socket.protocol, socket.families) {
        (DatagramProtocol::Udp, _) => protocol::UDP,
        (DatagramProtocol::UdpLite, _) => protocol::UDP_LITE,
        (DatagramProtocol::Ping, SocketFamilies::V4) => protocol::ICMP,
        (DatagramProtocol::Ping, _) => protocol::ICMPV6,
        (DatagramProtocol::Raw(number), _) => number,
    }
}

/// Checks that a socket can send to the family of `address`.
pub(crate) fn check_family(families: SocketFamilies, address: IpAddr) -> Result<(), SocketError> {
    match (includes(families, Family::of(address)), families) {
        (true, _) => Ok(()),
        // An address of IPv4 that is mapped, and a socket of IPv6 alone.
        (false, SocketFamilies::V6) => Err(SocketError::NetworkUnreachable),
        (false, _) => Err(SocketError::Family),
    }
}

/// Returns the interface that the scope of a link-local address names; `None` for other addresses.
///
/// # Errors
/// [`SocketError::Invalid`] if a link-local address has no scope and the socket no interface, or both differ.
pub(crate) fn scope_of(
    state: &DatagramState<Path>,
    end: SocketAddr,
    scope_use: ScopeUse,
) -> Result<Option<u32>, SocketError> {
    let SocketAddr::V6(six) = end else { return Ok(None) };
    if AddressScope::of(IpAddr::V6(*six.ip())) != AddressScope::Link {
        return Ok(None);
    }
    let options = &state.options;
    let own = interface_of(state).map(|index| index.0);
    let of_group = options.group_interface6.filter(|_| six.ip().is_multicast());
    match (six.scope_id(), own) {
        (0, None) => match scope_use {
            ScopeUse::Send => Ok(of_group),
            ScopeUse::Connect => of_group.map(Some).ok_or(SocketError::Invalid),
            ScopeUse::Bind => Err(SocketError::Invalid),
        },
        (0, own) => Ok(own),
        // The scope of a bind or of a packet takes the place of the socket's interface (`__inet6_bind`, `udpv6_sendmsg`).
        (scope, Some(own)) if scope != own && scope_use == ScopeUse::Connect => {
            Err(SocketError::Invalid)
        }
        (scope, _) => Ok(Some(scope)),
    }
}

/// Returns the destination that `end` stands for: the unspecified address is this host.
pub(crate) fn named(state: &DatagramState<Path>, end: SocketAddr) -> SocketAddr {
    if !end.ip().is_unspecified() {
        return end;
    }
    let family = Family::of(end.ip());
    let own = state.source.filter(|source| Family::of(*source) == family);
    let host = match family {
        Family::V4 => own.unwrap_or(Ipv4Addr::LOCALHOST.into()),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(host, end.port())
}

/// Returns the kind of an address that a socket is to be bound to: of a host, of a group, of all hosts of a link.
///
/// # Errors
/// [`SocketError::NoAddress`] if this host has no such address; [`SocketError::NoInterface`] if its interface is none.
pub(crate) fn can_bind(
    configuration: &Configuration,
    (address, link): (IpAddr, Option<u32>),
    options: &IpOptions,
) -> Result<Cast, SocketError> {
    if address.is_unspecified() {
        return Ok(Cast::Unicast);
    }
    let interface = match link {
        Some(number) => {
            let found = configuration.interface(InterfaceIndex(number));
            Some(found.ok_or(SocketError::NoInterface)?)
        }
        None => None,
    };
    let kind = configuration.local_kind(address);
    let is_all = address == IpAddr::V4(Ipv4Addr::BROADCAST);
    if address.is_multicast() {
        return Ok(Cast::Multicast);
    }
    if is_all || kind == Some(RouteKind::Broadcast) {
        return Ok(Cast::Broadcast);
    }
    let is_there = interface.is_none_or(|one| one.address(address).is_some());
    let is_local = kind == Some(RouteKind::Local) && is_there;
    let may = is_local || options.binds_foreign;
    if may { Ok(Cast::Unicast) } else { Err(SocketError::NoAddress) }
}
