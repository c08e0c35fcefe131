//! [`DatagramEnd`]: a socket of UDP, of echo requests or of raw packets.
//!
//! The program's part, the queue of what came, is the client's ([`DatagramQueue`]). Packets of a single receiver go there without
//! the lock of the socket.
use super::{
    bindings::{Binding, NumberSpace, PacketEnds},
    bound::Bindings,
    errors::{RemoteError, SocketError},
    listeners::Listeners,
};
use crate::base::address::Family;
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use core::net::IpAddr;
use interfaces::sockets::{
    DatagramProtocol, DatagramQueue, IpOptions, Membership, PathDiscovery, SocketFamilies,
    SocketOwner,
};
use rt::{lock_class, sync::Mutex};

lock_class! {
    static SOCKET = "inet.datagram";
}

/// Offset of the checksum in a message of ICMPv6.
const ICMP6_CHECKSUM: u16 = 2;

/// A cached path: it holds as long as neither the configuration nor the cache of path MTUs changes.
pub struct CachedPath<P> {
    /// Versions of both.
    pub versions: (u64, u64),
    /// The path.
    pub path: P,
    /// The peer, if it is a socket of this host and was looked up.
    pub peer_socket: Option<PeerSocket<P>>,
}

/// A socket of this host that is the peer of another one. It holds as long as the table of sockets does not change.
pub struct PeerSocket<P> {
    /// The version of that table.
    pub version: u64,
    /// The socket.
    pub socket: Weak<DatagramEnd<P>>,
    /// The ends of packets to it.
    pub ends: PacketEnds,
}

/// The part of a socket that its lock guards.
pub struct DatagramState<P> {
    /// Options.
    pub options: IpOptions,
    /// The families of its packets, as the options have them.
    pub families: SocketFamilies,
    /// The binding; its port is zero before the socket is bound.
    pub binding: Binding,
    /// The source of packets; `None` leaves it to the route. It is not the bound address if that is no host's.
    pub source: Option<IpAddr>,
    /// The interface of the link-local address that was bound or connected to.
    pub link: Option<u32>,
    /// The program bound the address itself, so that it stays when the peer goes.
    pub has_own_address: bool,
    /// The program bound the port itself.
    pub has_own_port: bool,
    /// The path to the peer.
    pub path: Option<CachedPath<P>>,
    /// Groups that the socket takes part in.
    pub memberships: Vec<Membership>,
    /// No more packets are received or sent.
    pub is_closed: bool,
}

impl<P> DatagramState<P> {
    /// Returns whether a packet to `group` that came by `interface` is for the socket (`ip_mc_sf_allow`).
    pub fn takes_group(&self, group: IpAddr, interface: u32) -> bool {
        let takes_all = match Family::of(group) {
            Family::V4 => self.options.takes_all_groups,
            Family::V6 => self.options.takes_all_groups6,
        };
        takes_all || self.memberships.contains(&Membership { group, interface })
    }
    /// Returns differentiated services and ECN of packets of `family`.
    pub fn traffic_class(&self, family: Family) -> u8 {
        match family {
            Family::V4 => self.options.type_of_service,
            Family::V6 => self.options.traffic_class,
        }
    }
    /// Returns the discovery of the path's MTU for packets of `family`.
    pub fn discovery(&self, family: Family) -> PathDiscovery {
        match family {
            Family::V4 => self.options.discovery,
            Family::V6 => self.options.discovery6,
        }
    }
    /// Returns whether errors about packets of `family` are queued (`IP_RECVERR`, `IPV6_RECVERR`).
    pub fn queues_errors(&self, family: Family) -> bool {
        match family {
            Family::V4 => self.options.queues_errors,
            Family::V6 => self.options.queues_errors6,
        }
    }
    /// Returns whether the program is told of an error about a packet to `family`: a hard one if it is connected, any one if it
    /// queues them (`__udp4_lib_err`, `raw_err`).
    pub fn is_told(&self, family: Family, error: &RemoteError) -> bool {
        // A socket that looks for the path's MTU is told of it, though the error will not last.
        let is_size = error.error == SocketError::MessageSize;
        let looks = self.discovery(family) != PathDiscovery::Never;
        let queues = self.queues_errors(family);
        if is_size && !looks && family == Family::V4 {
            return false;
        }
        let is_hard = error.is_hard || is_size && looks;
        queues || is_hard && self.binding.peer.is_some()
    }
}

/// A socket of datagrams. `P` is the type of a path.
pub struct DatagramEnd<P> {
    /// The protocol.
    pub protocol: DatagramProtocol,
    /// The families that it was made for.
    pub families: SocketFamilies,
    /// The owner.
    pub owner: SocketOwner,
    /// The client's queue.
    pub queue: Arc<DatagramQueue>,
    /// Its state. The lock is taken before those of the tables.
    pub state: Mutex<DatagramState<P>>,
}

impl<P> DatagramEnd<P> {
    /// Makes a socket that is not bound.
    pub fn new(
        queue: Arc<DatagramQueue>,
        protocol: DatagramProtocol,
        families: SocketFamilies,
        owner: SocketOwner,
    ) -> DatagramEnd<P> {
        // That of ICMPv6 is summed until the program says otherwise.
        let is_icmp6 = protocol == DatagramProtocol::Raw(packet::protocol::ICMPV6);
        let checksum_at = is_icmp6.then_some(ICMP6_CHECKSUM);
        let state = DatagramState {
            options: IpOptions { checksum_at, ..IpOptions::default() },
            families,
            binding: Binding::none(families, &owner),
            source: None,
            link: None,
            has_own_address: false,
            has_own_port: false,
            path: None,
            memberships: Vec::new(),
            is_closed: false,
        };
        DatagramEnd { protocol, families, owner, queue, state: Mutex::new(&SOCKET, state) }
    }
}

/// All sockets of datagrams.
pub struct DatagramEnds<P> {
    /// Sockets of UDP, by port.
    pub udp: Bindings<DatagramEnd<P>>,
    /// Sockets of UDP-Lite, by port.
    pub udp_lite: Bindings<DatagramEnd<P>>,
    /// Sockets of echo requests, by identifier.
    pub ping: Bindings<DatagramEnd<P>>,
    /// Raw sockets.
    pub raw: Listeners<DatagramEnd<P>>,
}

impl<P> Default for DatagramEnds<P> {
    fn default() -> DatagramEnds<P> {
        DatagramEnds {
            udp: Bindings::new(NumberSpace::Ports),
            udp_lite: Bindings::new(NumberSpace::Ports),
            ping: Bindings::new(NumberSpace::Identifiers),
            raw: Listeners::default(),
        }
    }
}

impl<P> DatagramEnds<P> {
    /// Returns the table of a protocol whose sockets have numbers; `None` for raw sockets.
    pub fn bindings(&self, protocol: DatagramProtocol) -> Option<&Bindings<DatagramEnd<P>>> {
        match protocol {
            DatagramProtocol::Udp => Some(&self.udp),
            DatagramProtocol::UdpLite => Some(&self.udp_lite),
            DatagramProtocol::Ping => Some(&self.ping),
            DatagramProtocol::Raw(_) => None,
        }
    }
}
