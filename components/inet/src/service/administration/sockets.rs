//! Tables of sockets.
use crate::{
    service::{inet::Inet, streams},
    sockets::bindings::Binding,
};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use interfaces::sockets::{
    CongestionControl, ConnectionState, DatagramProtocol, SocketFamilies, SocketProtocol,
    SocketRecord, SocketTimer,
};

/// Returns the sockets of a protocol.
pub(super) fn all(inet: &Inet, protocol: SocketProtocol) -> Vec<SocketRecord> {
    match protocol {
        SocketProtocol::Tcp => streams::records::all(inet),
        _ => {
            let is_wanted = |of: DatagramProtocol| match of {
                DatagramProtocol::Udp => protocol == SocketProtocol::Udp,
                DatagramProtocol::Ping => protocol == SocketProtocol::Ping,
                DatagramProtocol::Raw(_) => protocol == SocketProtocol::Raw,
            };
            let all = inet.stack().datagram_sockets();
            let wanted = all.iter().filter(|(of, ..)| is_wanted(*of));
            wanted.map(|(_, binding, socket)| datagram(binding, socket.owner.inode)).collect()
        }
    }
}

fn datagram(binding: &Binding, cookie: u64) -> SocketRecord {
    let is_version6 = binding.families != SocketFamilies::V4;
    let any: IpAddr = if is_version6 {
        core::net::Ipv6Addr::UNSPECIFIED.into()
    } else {
        core::net::Ipv4Addr::UNSPECIFIED.into()
    };
    let has_peer = binding.peer.is_some();
    SocketRecord {
        is_version6,
        is_version6_only: binding.families == SocketFamilies::V6,
        local: SocketAddr::new(binding.address.unwrap_or(any), binding.port),
        peer: binding.peer,
        state: if has_peer { ConnectionState::Established } else { ConnectionState::Closed },
        receive_queue: 0,
        send_queue: 0,
        timer: SocketTimer::Off,
        timer_ms: 0,
        retransmits: 0,
        probes: 0,
        user: binding.user,
        inode: 0,
        interface: binding.interface.map_or(0, |index| index.0),
        cookie,
        drops: 0,
        congestion: CongestionControl::default(),
        info: None,
    }
}
