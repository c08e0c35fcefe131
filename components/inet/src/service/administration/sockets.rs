//! Tables of sockets.
use crate::{
    service::{
        inet::Inet,
        streams::{self, records::bare},
    },
    sockets::bindings::{self, Binding},
};
use alloc::vec::Vec;
use core::net::SocketAddr;
use interfaces::sockets::{
    ConnectionState, DatagramProtocol, SocketFamilies, SocketProtocol, SocketRecord,
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
    let any = bindings::unspecified(binding.families);
    let local = SocketAddr::new(binding.address.unwrap_or(any), binding.port);
    let has_peer = binding.peer.is_some();
    let state = if has_peer { ConnectionState::Established } else { ConnectionState::Closed };
    SocketRecord {
        is_version6: binding.families != SocketFamilies::V4,
        is_version6_only: binding.families == SocketFamilies::V6,
        user: binding.user,
        interface: binding.interface.map_or(0, |index| index.0),
        cookie,
        ..bare(local, binding.peer, state)
    }
}
