//! Interfaces and their addresses.
use crate::base::address::{AddressScope, Prefix};
use alloc::{collections::BTreeMap, string::String, vec::Vec};
use core::net::{IpAddr, Ipv4Addr};
use interfaces::{
    marshal::Marshal,
    marshal_flags,
    sockets::{LinkLabel, hardware},
};
use packet::{MacAddress, ethernet};

/// The number of an interface, not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Marshal)]
pub struct InterfaceIndex(pub u32);

impl InterfaceIndex {
    /// The loopback interface.
    pub const LOOPBACK: InterfaceIndex = InterfaceIndex(1);
    /// Returns `ARPHRD_*` of a card or of loopback of this number.
    pub fn hardware(self) -> u16 {
        if self == InterfaceIndex::LOOPBACK { hardware::LOOPBACK } else { hardware::ETHERNET }
    }
}

bitflags::bitflags! {
    /// Flags of an interface (Linux `if.h`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct InterfaceFlags: u32 {
        /// Switched on.
        const UP = 1 << 0;
        /// Has broadcasts.
        const BROADCAST = 1 << 1;
        /// Loopback.
        const LOOPBACK = 1 << 3;
        /// Has two ends, and no header of a link.
        const POINTOPOINT = 1 << 4;
        /// Has a carrier.
        const RUNNING = 1 << 6;
        /// Resolves no addresses.
        const NOARP = 1 << 7;
        /// Receives all packets.
        const PROMISC = 1 << 8;
        /// Receives packets of all groups.
        const ALLMULTI = 1 << 9;
        /// Has groups.
        const MULTICAST = 1 << 12;
    }
    /// Flags of an address (Linux `if_addr.h`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct AddressFlags: u32 {
        /// Another address of the same network is the source by default.
        const SECONDARY = 0x01;
        /// No duplicates are looked for.
        const NODAD = 0x02;
        /// Another host has the address.
        const DADFAILED = 0x08;
        /// The address is not the source of new connections.
        const DEPRECATED = 0x20;
        /// Duplicates are still looked for. The address is not in use.
        const TENTATIVE = 0x40;
        /// The address has no end.
        const PERMANENT = 0x80;
        /// The address has no route of its network.
        const NOPREFIXROUTE = 0x200;
        /// The address was made by RFC 7217.
        const STABLE_PRIVACY = 0x800;
    }
}

marshal_flags!(InterfaceFlags, AddressFlags);

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq, Marshal)]
pub struct InterfaceAddress {
    /// The address.
    pub address: IpAddr,
    /// Bits of its network.
    pub prefix_length: u8,
    /// The part of the world that knows it.
    pub scope: AddressScope,
    /// Flags.
    pub flags: AddressFlags,
    /// The address of all stations of its network.
    pub broadcast: Option<Ipv4Addr>,
    /// The time at which it becomes deprecated, in nanoseconds.
    pub preferred_until_ns: Option<u64>,
    /// The time at which it ends, in nanoseconds.
    pub valid_until_ns: Option<u64>,
    /// The other end of a link with two, which takes the place of the network.
    pub peer: Option<IpAddr>,
    /// The name by which the ioctls know it; empty for that of the interface.
    pub label: String,
    /// The metric of its network's route; zero for the default.
    pub metric: u32,
    /// The times of its making and of its last change by a user, in nanoseconds.
    pub changed_ns: (u64, u64),
}

impl InterfaceAddress {
    /// Returns an address without end; `None` if it has fewer bits than `prefix_length`, or is no host's.
    pub fn new(address: IpAddr, prefix_length: u8) -> Option<InterfaceAddress> {
        let network = Prefix::new(address, prefix_length)?;
        let is_host = !address.is_multicast()
            && !address.is_unspecified()
            && address != IpAddr::V4(Ipv4Addr::BROADCAST);
        is_host.then(|| InterfaceAddress {
            address,
            prefix_length,
            scope: AddressScope::of(address),
            flags: AddressFlags::PERMANENT,
            broadcast: network.broadcast(),
            preferred_until_ns: None,
            valid_until_ns: None,
            peer: None,
            label: String::new(),
            metric: 0,
            changed_ns: (0, 0),
        })
    }
    /// Returns its network, which is that of the peer if it has one.
    pub fn network(&self) -> Prefix {
        let base = self.peer.unwrap_or(self.address);
        Prefix::new(base, self.prefix_length).unwrap_or_else(|| Prefix::host(base))
    }
    /// Returns whether packets may be sent from it.
    pub fn is_usable(&self) -> bool {
        !self.flags.intersects(AddressFlags::TENTATIVE | AddressFlags::DADFAILED)
    }
}

/// Settings of IPv6, which routers may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub struct Ipv6Settings {
    /// Hop limit of packets.
    pub hop_limit: u8,
    /// MTU of the link for IPv6.
    pub mtu: u32,
    /// Base of the time for which a neighbour is reachable, in milliseconds.
    pub reachable_ms: u32,
    /// Time between solicitations, in milliseconds.
    pub retransmit_ms: u32,
    /// Routers' advertisements are heeded.
    pub is_autoconfigured: bool,
    /// The interface has no IPv6 (`disable_ipv6`).
    pub is_disabled: bool,
}

/// Frames that taps want beside those that the interface receives by itself: the number of wishes for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedFrames {
    /// All frames.
    pub all: u32,
    /// Those to all groups.
    pub groups: u32,
    /// Those to these addresses.
    pub addresses: BTreeMap<MacAddress, u32>,
}

bitflags::bitflags! {
    /// The work that a link takes off the stack.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct LinkOffloads: u8 {
        /// Checksums of TCP and UDP.
        const CHECKSUM = 1;
        /// Cutting of TCP over IPv4. Needs `CHECKSUM`.
        const TCP4 = 2;
        /// Cutting of TCP over IPv6. Needs `CHECKSUM`.
        const TCP6 = 4;
        /// Cutting of UDP. Needs `CHECKSUM`.
        const UDP = 8;
        /// Cutting of TCP by the link's software ([`crate::cut_tcp`]), of what its device does not cut. Needs nothing.
        const CUT_TCP = 16;
    }
}

/// An interface.
#[derive(Clone, Debug, Marshal)]
pub struct Interface {
    /// Its number.
    pub index: InterfaceIndex,
    /// Its name: `eth0`.
    pub name: String,
    /// Length of a packet without its Ethernet header, at most.
    pub mtu: u32,
    /// Flags.
    pub flags: InterfaceFlags,
    /// Type of its hardware (`ARPHRD_*`).
    pub hardware: u16,
    /// Its address on the link.
    pub mac: MacAddress,
    /// Its addresses, in the order in which they came.
    pub addresses: Vec<InterfaceAddress>,
    /// Groups that it is a member of, with the number of members on this host. They come back with the addresses and the sockets.
    #[marshal(skip)]
    pub groups: BTreeMap<IpAddr, u32>,
    /// Frames that taps want. They come back with the taps.
    #[marshal(skip)]
    pub wanted: WantedFrames,
    /// Addresses on the link that an administrator has it receive, in the order in which they came.
    pub fixed_groups: Vec<MacAddress>,
    /// Settings of IPv6.
    pub ipv6: Ipv6Settings,
    /// Packets that wait to be sent, at most, as users see it.
    pub transmit_queue: u32,
    /// Text that a user gave it; empty for none.
    pub alias: String,
    /// The number of changes of the carrier.
    pub carrier_changes: u32,
    /// The work that its card takes off the stack. It comes back with the card.
    #[marshal(skip)]
    pub offloads: LinkOffloads,
    /// The secrecies of its packets. A stack with successors has no labels.
    #[marshal(skip)]
    pub label: LinkLabel,
    /// Its maker gave it the label, which no policy changes.
    #[marshal(skip)]
    pub has_maker_label: bool,
}

impl Interface {
    /// Returns an interface of Ethernet without addresses, switched off.
    pub fn ethernet(index: InterfaceIndex, name: &str, mac: MacAddress, mtu: u32) -> Interface {
        let flags = InterfaceFlags::BROADCAST | InterfaceFlags::MULTICAST;
        Interface::new(index, name, flags, (mac, mtu))
    }
    /// Returns an interface of packets of IP without a header of a link, switched off.
    pub fn headerless(index: InterfaceIndex, name: &str, mtu: u32) -> Interface {
        let flags = InterfaceFlags::POINTOPOINT | InterfaceFlags::NOARP | InterfaceFlags::MULTICAST;
        let mut interface = Interface::new(index, name, flags, ([0; 6], mtu));
        interface.hardware = hardware::NONE;
        interface
    }
    /// Returns the loopback interface without addresses, switched on.
    pub fn loopback() -> Interface {
        let flags = InterfaceFlags::UP | InterfaceFlags::RUNNING | InterfaceFlags::LOOPBACK;
        Interface::new(InterfaceIndex::LOOPBACK, "lo", flags, ([0; 6], 65_536))
    }
    fn new(
        index: InterfaceIndex,
        name: &str,
        flags: InterfaceFlags,
        (mac, mtu): (MacAddress, u32),
    ) -> Interface {
        let is_autoconfigured = !flags.contains(InterfaceFlags::LOOPBACK);
        let ipv6 = Ipv6Settings {
            hop_limit: 64,
            mtu,
            reachable_ms: 30_000,
            retransmit_ms: 1000,
            is_autoconfigured,
            is_disabled: false,
        };
        Interface {
            index,
            name: name.into(),
            mtu,
            flags,
            hardware: index.hardware(),
            mac,
            addresses: Vec::new(),
            groups: BTreeMap::new(),
            wanted: WantedFrames::default(),
            fixed_groups: Vec::new(),
            ipv6,
            transmit_queue: 1000,
            alias: String::new(),
            carrier_changes: 0,
            offloads: LinkOffloads::empty(),
            label: LinkLabel::default(),
            has_maker_label: false,
        }
    }
    /// Returns whether packets pass.
    pub fn is_up(&self) -> bool {
        self.flags.contains(InterfaceFlags::UP)
    }
    /// Returns whether it is loopback.
    pub fn is_loopback(&self) -> bool {
        self.flags.contains(InterfaceFlags::LOOPBACK)
    }
    /// Returns whether its packets have no header of a link.
    pub fn is_headerless(&self) -> bool {
        self.flags.contains(InterfaceFlags::POINTOPOINT)
    }
    /// Returns the bytes of the link's header.
    pub fn header_length(&self) -> usize {
        if self.is_headerless() { 0 } else { ethernet::HEADER_LENGTH }
    }
    /// Returns the entry of `address`.
    pub fn address(&self, address: IpAddr) -> Option<&InterfaceAddress> {
        self.addresses.iter().find(|one| one.address == address)
    }
    /// Returns the MTU for a packet to `destination`. That of IPv4 is a length of 16 bits (`IP_MAX_MTU`).
    pub fn mtu_for(&self, destination: IpAddr) -> u32 {
        self.mtu.min(if destination.is_ipv4() { u16::MAX.into() } else { self.ipv6.mtu })
    }
    /// Returns the link-local address of IPv6 that may be used.
    pub fn link_local(&self) -> Option<core::net::Ipv6Addr> {
        self.addresses.iter().filter(|one| one.is_usable()).find_map(|one| match one.address {
            IpAddr::V6(address) if address.is_unicast_link_local() => Some(address),
            _ => None,
        })
    }
}
