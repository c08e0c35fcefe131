//! Tables of sockets.
use crate::{
    service::{
        inet::Inet,
        streams::{
            self,
            records::{bare, is_version6_only},
        },
    },
    sockets::bindings::{self, Binding},
    transport::datagram_control::DatagramHandle,
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
                DatagramProtocol::UdpLite => protocol == SocketProtocol::UdpLite,
                DatagramProtocol::Ping => protocol == SocketProtocol::Ping,
                DatagramProtocol::Raw(_) => protocol == SocketProtocol::Raw,
            };
            let all = inet.stack().datagram_sockets();
            let wanted = all.iter().filter(|(of, ..)| is_wanted(*of));
            wanted.map(|(of, binding, socket)| datagram(*of, binding, socket)).collect()
        }
    }
}

fn datagram(
    protocol: DatagramProtocol,
    binding: &Binding,
    socket: &DatagramHandle,
) -> SocketRecord {
    let any = bindings::unspecified(binding.families);
    let port = match protocol {
        DatagramProtocol::Raw(number) => number.into(),
        DatagramProtocol::Udp | DatagramProtocol::UdpLite | DatagramProtocol::Ping => binding.port,
    };
    let local = SocketAddr::new(binding.address.unwrap_or(any), port);
    let (charged, drops) = socket.queue.usage();
    let has_peer = binding.peer.is_some();
    let state = if has_peer { ConnectionState::Established } else { ConnectionState::Closed };
    SocketRecord {
        is_version6: socket.families != SocketFamilies::V4,
        is_version6_only: is_version6_only(socket.families, local),
        receive_queue: u32::try_from(charged).unwrap_or(u32::MAX),
        // The count that programs see has 32 bits and wraps.
        drops: drops as u32,
        user: socket.owner.user,
        inode: socket.owner.inode,
        interface: binding.interface.map_or(0, |index| index.0),
        cookie: socket.owner.inode,
        label: socket.owner.label,
        ..bare(local, binding.peer, state)
    }
}
