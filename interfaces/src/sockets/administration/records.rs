//! The entries of the tables of a stack.
use super::super::{CongestionControl, ConnectionState, StreamInfo, hardware};
use crate::marshal::Marshal;
use alloc::{borrow::Cow, string::String, vec::Vec};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use labels::SecrecyId;

/// Numbers of rtnetlink(7) that both sides of the interface use.
pub mod number {
    /// `RT_SCOPE_UNIVERSE`: known everywhere.
    pub const SCOPE_UNIVERSE: u8 = 0;
    /// `RT_SCOPE_SITE`.
    pub const SCOPE_SITE: u8 = 200;
    /// `RT_SCOPE_LINK`: known on the link.
    pub const SCOPE_LINK: u8 = 253;
    /// `RT_SCOPE_HOST`: known on this host.
    pub const SCOPE_HOST: u8 = 254;
    /// `RT_SCOPE_NOWHERE`: no scope given.
    pub const SCOPE_NOWHERE: u8 = 255;
    /// `RT_TABLE_DEFAULT`.
    pub const TABLE_DEFAULT: u32 = 253;
    /// `RT_TABLE_MAIN`.
    pub const TABLE_MAIN: u32 = 254;
    /// `RT_TABLE_LOCAL`.
    pub const TABLE_LOCAL: u32 = 255;
    /// `RTN_UNICAST`.
    pub const KIND_UNICAST: u8 = 1;
    /// `RTN_LOCAL`.
    pub const KIND_LOCAL: u8 = 2;
    /// `RTN_BROADCAST`.
    pub const KIND_BROADCAST: u8 = 3;
    /// `RTN_ANYCAST`.
    pub const KIND_ANYCAST: u8 = 4;
    /// `RTN_MULTICAST`.
    pub const KIND_MULTICAST: u8 = 5;
    /// `RTN_BLACKHOLE`.
    pub const KIND_BLACKHOLE: u8 = 6;
    /// `RTN_UNREACHABLE`.
    pub const KIND_UNREACHABLE: u8 = 7;
    /// `RTN_PROHIBIT`.
    pub const KIND_PROHIBIT: u8 = 8;
    /// `RTN_THROW`.
    pub const KIND_THROW: u8 = 9;
    /// `FR_ACT_TO_TBL`.
    pub const RULE_LOOK_UP: u8 = 1;
    /// `FR_ACT_GOTO`.
    pub const RULE_GO_TO: u8 = 2;
    /// `FR_ACT_NOP`.
    pub const RULE_NOTHING: u8 = 3;
    /// `FR_ACT_BLACKHOLE`.
    pub const RULE_BLACKHOLE: u8 = 6;
    /// `FR_ACT_UNREACHABLE`.
    pub const RULE_UNREACHABLE: u8 = 7;
    /// `FR_ACT_PROHIBIT`.
    pub const RULE_PROHIBIT: u8 = 8;
    /// `FIB_RULE_PERMANENT`: the rule cannot be removed.
    pub const RULE_PERMANENT: u32 = 1;
    /// `FIB_RULE_INVERT`: the rule is for packets that do not match.
    pub const RULE_INVERTED: u32 = 2;
    /// `FIB_RULE_UNRESOLVED`: the rule to go on with is not there.
    pub const RULE_UNRESOLVED: u32 = 4;
    /// `FIB_RULE_IIF_DETACHED`: there is no interface of the name by which packets have to come.
    pub const RULE_NO_INPUT: u32 = 8;
    /// `FIB_RULE_OIF_DETACHED`: there is no interface of the name that sockets have to be bound to.
    pub const RULE_NO_OUTPUT: u32 = 16;
    /// `RTPROT_KERNEL`.
    pub const PROTOCOL_KERNEL: u8 = 2;
    /// `RTPROT_BOOT`.
    pub const PROTOCOL_BOOT: u8 = 3;
    /// `RTPROT_RA`.
    pub const PROTOCOL_ADVERTISEMENT: u8 = 9;
    /// `NUD_INCOMPLETE`.
    pub const NEIGHBOUR_INCOMPLETE: u16 = 0x01;
    /// `NUD_REACHABLE`.
    pub const NEIGHBOUR_REACHABLE: u16 = 0x02;
    /// `NUD_STALE`.
    pub const NEIGHBOUR_STALE: u16 = 0x04;
    /// `NUD_DELAY`.
    pub const NEIGHBOUR_DELAY: u16 = 0x08;
    /// `NUD_PROBE`.
    pub const NEIGHBOUR_PROBE: u16 = 0x10;
    /// `NUD_FAILED`.
    pub const NEIGHBOUR_FAILED: u16 = 0x20;
    /// `NUD_NOARP`.
    pub const NEIGHBOUR_NOARP: u16 = 0x40;
    /// `NUD_PERMANENT`.
    pub const NEIGHBOUR_PERMANENT: u16 = 0x80;
    /// `NUD_VALID`: states in which the address on the link is known.
    pub const NEIGHBOUR_VALID: u16 = 0xde;
}

/// The type of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub enum LinkKind {
    /// The loopback interface (`ARPHRD_LOOPBACK`).
    Loopback,
    /// Ethernet (`ARPHRD_ETHER`).
    Ethernet,
    /// Packets of IP without a header of a link, between two ends (`ARPHRD_NONE`).
    Headerless,
}

/// The properties of an interface whose other end is a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub struct TunnelRecord {
    /// `IFF_TUN` or `IFF_TAP`, with those of `IFF_NO_PI`, `IFF_VNET_HDR`, `IFF_MULTI_QUEUE` and so on, and `IFF_PERSIST`.
    pub flags: u32,
    /// The user and the group that may be at the end, beside those that may administer the network.
    pub owner: Option<u32>,
    /// The group.
    pub group: Option<u32>,
    /// Queues with a program at their end.
    pub queues: u32,
    /// Queues that programs have taken out of use.
    pub disabled_queues: u32,
}

/// Counts of an interface (`struct rtnl_link_stats64`), with the names of Linux.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Marshal)]
#[expect(missing_docs, reason = "each field is that of rtnetlink(7) of the same name")]
pub struct LinkCounts {
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub rx_errors: u64,
    pub tx_errors: u64,
    pub rx_dropped: u64,
    pub tx_dropped: u64,
    pub multicast: u64,
    pub rx_frame_errors: u64,
    pub rx_nohandler: u64,
}

/// An address on a link to which an interface receives frames for users, beside those of its groups of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub struct LinkGroupRecord {
    /// The address.
    pub address: [u8; 6],
    /// Sockets that ask for it, and one if it is fixed.
    pub users: u32,
    /// An administrator added it (`SIOCADDMULTI`).
    pub is_fixed: bool,
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq, Marshal)]
pub struct LinkRecord {
    /// Number, from 1.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Type.
    pub kind: LinkKind,
    /// `ARPHRD_*`.
    pub hardware: u16,
    /// `IFF_*`, as SIOCGIFFLAGS tells them, with `IFF_LOWER_UP` (bit 16).
    pub flags: u32,
    /// Bytes of a packet without the header of the link, at most.
    pub mtu: u32,
    /// Smallest MTU that can be set.
    pub mtu_min: u32,
    /// Greatest MTU that can be set.
    pub mtu_max: u32,
    /// Address on the link.
    pub mac: [u8; 6],
    /// Origin of the address: 0 the device, 1 chance, 3 a user (`NET_ADDR_*`).
    pub mac_origin: u8,
    /// Address of all stations of the link.
    pub broadcast: [u8; 6],
    /// Address that the device was made with; `None` if it has none.
    pub permanent_mac: Option<[u8; 6]>,
    /// Packets that wait to be sent, at most (`IFLA_TXQLEN`).
    pub transmit_queue: u32,
    /// RFC 2863 state (`IF_OPER_*`): 0 unknown, 2 down, 6 up.
    pub operational: u8,
    /// The link has a carrier.
    pub has_carrier: bool,
    /// Number of changes of the carrier.
    pub carrier_changes: u32,
    /// Number of queue pairs in use.
    pub queues: u32,
    /// Bits per second divided by a million; `None` if the device does not tell it.
    pub speed_mbit: Option<u32>,
    /// Text that a user gave it (`IFLA_IFALIAS`); empty for none.
    pub alias: String,
    /// Name of the driver; empty for none.
    pub driver: Cow<'static, str>,
    /// Groups of the link that users ask for.
    pub groups: Vec<LinkGroupRecord>,
    /// Properties of an interface whose other end is a program.
    pub tunnel: Option<TunnelRecord>,
    /// Counts.
    pub counts: LinkCounts,
}

impl LinkRecord {
    /// Returns the bytes of its address on the link.
    pub fn address_length(&self) -> usize {
        let has_none = self.kind == LinkKind::Headerless && self.hardware != hardware::ETHERNET;
        if has_none { 0 } else { self.mac.len() }
    }
}

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq, Marshal)]
pub struct AddressRecord {
    /// Number of the interface.
    pub interface: u32,
    /// The address (`IFA_LOCAL` of IPv4).
    pub address: IpAddr,
    /// The other end, if the link has two (`IFA_ADDRESS` of IPv4).
    pub peer: Option<IpAddr>,
    /// Bits of its network.
    pub prefix_length: u8,
    /// `RT_SCOPE_*`.
    pub scope: u8,
    /// `IFA_F_*`.
    pub flags: u32,
    /// Address of all stations of the network.
    pub broadcast: Option<Ipv4Addr>,
    /// Name for the ioctls (`IFA_LABEL`), of IPv4 alone; empty for that of the interface.
    pub label: String,
    /// Metric of the network's route (`IFA_RT_PRIORITY`); zero for the default.
    pub metric: u32,
    /// Seconds until it is deprecated; `None` for never.
    pub preferred_s: Option<u32>,
    /// Seconds until it ends; `None` for never.
    pub valid_s: Option<u32>,
    /// Time of its making since the start, in hundredths of a second.
    pub created_cs: u32,
    /// Time of its last change since the start, in hundredths of a second.
    pub updated_cs: u32,
}

impl AddressRecord {
    /// Returns an entry for an address without a peer, flags and broadcasts, known everywhere and for ever.
    pub fn new(interface: u32, address: IpAddr, prefix_length: u8) -> AddressRecord {
        AddressRecord {
            interface,
            address,
            peer: None,
            prefix_length,
            scope: number::SCOPE_UNIVERSE,
            flags: 0,
            broadcast: None,
            label: String::new(),
            metric: 0,
            preferred_s: None,
            valid_s: None,
            created_cs: 0,
            updated_cs: 0,
        }
    }
}

/// The metrics of a route (`RTAX_*`), by number. One that is zero is not given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Marshal)]
pub struct RouteMetrics([u32; RouteMetrics::LAST]);

impl RouteMetrics {
    /// `RTAX_MTU`.
    pub const MTU: usize = 2;
    /// `RTAX_WINDOW`.
    pub const WINDOW: usize = 3;
    /// `RTAX_RTT`, in eighths of a millisecond.
    pub const ROUND_TRIP: usize = 4;
    /// `RTAX_ADVMSS`: the segment that peers are told.
    pub const ADVERTISED_SEGMENT: usize = 8;
    /// `RTAX_HOPLIMIT`.
    pub const HOP_LIMIT: usize = 10;
    /// `RTAX_FEATURES`.
    pub const FEATURES: usize = 12;
    /// `RTAX_CC_ALGO`: one more than the number of the congestion control.
    pub const CONGESTION: usize = 16;
    /// `RTAX_MAX`.
    pub const LAST: usize = 17;

    /// Returns a metric; zero for one that is not given.
    pub fn get(&self, number: usize) -> u32 {
        number.checked_sub(1).and_then(|place| self.0.get(place).copied()).unwrap_or(0)
    }
    /// Sets a metric. A number that no metric has is ignored.
    pub fn set(&mut self, number: usize, value: u32) {
        if let Some(place) = number.checked_sub(1).and_then(|place| self.0.get_mut(place)) {
            *place = value;
        }
    }
    /// Returns those that are given, by number.
    pub fn given(&self) -> impl Iterator<Item = (usize, u32)> {
        (1..=RouteMetrics::LAST).zip(self.0).filter(|(_, value)| *value != 0)
    }
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, Marshal)]
pub struct RouteRecord {
    /// The table (`RT_TABLE_*`).
    pub table: u32,
    /// First address of the destinations.
    pub destination: IpAddr,
    /// Bits of it that count.
    pub prefix_length: u8,
    /// Type (`RTN_*`).
    pub kind: u8,
    /// Scope (`RT_SCOPE_*`).
    pub scope: u8,
    /// Maker (`RTPROT_*`).
    pub protocol: u8,
    /// Number of the interface; `None` for a route that leads nowhere.
    pub interface: Option<u32>,
    /// Next hop.
    pub gateway: Option<IpAddr>,
    /// Source of packets that have none.
    pub preferred_source: Option<IpAddr>,
    /// Metric (`RTA_PRIORITY`).
    pub metric: u32,
    /// Other metrics.
    pub metrics: RouteMetrics,
    /// The gateway counts as a neighbour, whatever the routes say (`RTNH_F_ONLINK`).
    pub is_on_link: bool,
    /// The ways of a route of several (`RTA_MULTIPATH`), of which the first has the interface and the gateway above; else empty.
    pub ways: Vec<RouteWayRecord>,
    /// Seconds until it ends; `None` for never.
    pub expires_s: Option<u32>,
}

/// One of several ways of a route (`struct rtnexthop`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub struct RouteWayRecord {
    /// Number of the interface. In a request zero leaves it to the gateway.
    pub interface: u32,
    /// Next hop.
    pub gateway: Option<IpAddr>,
    /// The gateway counts as a neighbour, whatever the routes say (`RTNH_F_ONLINK`).
    pub is_on_link: bool,
    /// The interface is down (`RTNH_F_DEAD`). A request leaves it out.
    pub is_dead: bool,
    /// The share of the destinations, from 1 to 256.
    pub weight: u16,
}

/// A routing table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub struct TableRecord {
    /// It is of IPv6.
    pub is_version6: bool,
    /// Number.
    pub number: u32,
}

/// A neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub struct NeighbourRecord {
    /// Number of the interface.
    pub interface: u32,
    /// Address of the neighbour.
    pub address: IpAddr,
    /// Its address on the link; `None` if it is not known.
    pub mac: Option<[u8; 6]>,
    /// State (`NUD_*`).
    pub state: u16,
    /// It is a router (`NTF_ROUTER`).
    pub is_router: bool,
    /// Time since the last use, in milliseconds.
    pub used_ms: u64,
    /// Time since it was last known to receive, in milliseconds.
    pub confirmed_ms: u64,
    /// Time since the last change, in milliseconds.
    pub updated_ms: u64,
    /// Solicitations without an answer.
    pub probes: u32,
}

impl NeighbourRecord {
    /// Returns an entry for a host whose address on the link is not known.
    pub fn new(interface: u32, address: IpAddr, state: u16) -> NeighbourRecord {
        NeighbourRecord {
            interface,
            address,
            mac: None,
            state,
            is_router: false,
            used_ms: 0,
            confirmed_ms: 0,
            updated_ms: 0,
            probes: 0,
        }
    }
}

/// A group that an interface takes part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub struct MembershipRecord {
    /// Number of the interface.
    pub interface: u32,
    /// The group.
    pub group: IpAddr,
    /// Members on this host.
    pub users: u32,
}

/// The protocol of a table of sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub enum SocketProtocol {
    /// TCP with its listeners, half-open requests and connections in TIME-WAIT.
    Tcp,
    /// UDP.
    Udp,
    /// UDP-Lite.
    UdpLite,
    /// Raw sockets. The local port is the number of the protocol.
    Raw,
    /// ICMP echo. The local port is the identifier.
    Ping,
}

/// The timer of a connection that ends first (`/proc/net/tcp`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Marshal)]
#[repr(u8)]
pub enum SocketTimer {
    /// None.
    #[default]
    Off = 0,
    /// Retransmission.
    Retransmit = 1,
    /// Keepalive, or the end of SYN-RECEIVED.
    Keepalive = 2,
    /// The end of TIME-WAIT.
    TimeWait = 3,
    /// The probe of a closed window.
    Probe = 4,
}

/// A socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub struct SocketRecord {
    /// It is one of AF_INET6.
    pub is_version6: bool,
    /// It takes IPv6 alone (`IPV6_V6ONLY`).
    pub is_version6_only: bool,
    /// Local address and port.
    pub local: SocketAddr,
    /// The peer.
    pub peer: Option<SocketAddr>,
    /// State. A datagram socket is `Established` with a peer, else `Closed`.
    pub state: ConnectionState,
    /// Bytes that were received and not read; of a listener, the connections that wait.
    pub receive_queue: u32,
    /// Bytes that were sent and not acknowledged; of a listener, the limit of connections that wait.
    pub send_queue: u32,
    /// The timer that runs.
    pub timer: SocketTimer,
    /// Time until it ends, in milliseconds.
    pub timer_ms: u32,
    /// Retransmissions without an acknowledgement.
    pub retransmits: u8,
    /// Unanswered probes.
    pub probes: u8,
    /// User id of the owner.
    pub user: u32,
    /// Inode of the socket; zero if no program has it.
    pub inode: u64,
    /// Number of the interface that it is bound to; zero for none.
    pub interface: u32,
    /// A number that no other socket of the stack has or had.
    pub cookie: u64,
    /// Packets that were dropped for want of room.
    pub drops: u32,
    /// Segments with payload that a connection did not take: duplicates, those out of its window, and those after its end.
    pub not_taken: u32,
    /// Its congestion control; the default for sockets that have none.
    pub congestion: CongestionControl,
    /// The connection; `None` for other sockets.
    pub info: Option<StreamInfo>,
    /// The secrecy of its packets.
    pub label: SecrecyId,
}
