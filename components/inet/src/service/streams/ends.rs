//! The two ends of a connection in the form of a [`Flow`], and back.
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use labels::SecrecyId;
use tcp::Flow;

/// Returns an address in the form of a [`Flow`].
pub(crate) fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// Returns the address that [`octets`] gave.
pub(crate) fn address(octets: [u8; 16]) -> IpAddr {
    let address = Ipv6Addr::from(octets);
    address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4)
}

/// Returns the flow between two ends.
pub(crate) fn flow(local: SocketAddr, remote: SocketAddr, label: SecrecyId) -> Flow {
    Flow {
        local: octets(local.ip()),
        remote: octets(remote.ip()),
        local_port: local.port(),
        remote_port: remote.port(),
        label,
    }
}

/// Returns the same flow, seen from the other end.
pub(crate) fn reversed(flow: &Flow) -> Flow {
    Flow {
        local: flow.remote,
        remote: flow.local,
        local_port: flow.remote_port,
        remote_port: flow.local_port,
        label: flow.label,
    }
}
