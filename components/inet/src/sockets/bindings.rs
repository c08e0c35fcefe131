//! [`Binding`]: the part of a socket that decides which packets it gets, and which ports it may have.
//!
//! Addresses are [`SocketAddr`], as in the interfaces above. In a binding they are plain ([`plain`]): the scope of a link-local
//! address is the interface of the binding.
use crate::{base::address::Family, tables::interface::InterfaceIndex};
use core::{
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicU32, Ordering},
};
use interfaces::sockets::{IpOptions, SocketFamilies, SocketOwner};
use labels::SecrecyId;

/// The ports that the stack chooses from (`ip_local_port_range`).
pub struct PortRange {
    /// The first in the upper half, the last in the lower.
    ends: AtomicU32,
}

impl PortRange {
    /// The first and the last port of Linux's default.
    pub const DEFAULT: (u16, u16) = (32_768, 60_999);

    /// Returns the default range.
    pub fn new() -> PortRange {
        let range = PortRange { ends: AtomicU32::new(0) };
        range.set(PortRange::DEFAULT);
        range
    }
    /// Returns the first and the last port.
    pub fn get(&self) -> (u16, u16) {
        let ends = self.ends.load(Ordering::Relaxed);
        ((ends >> 16) as u16, ends as u16)
    }
    /// Sets the first and the last port. The caller has checked their order.
    pub fn set(&self, (first, last): (u16, u16)) {
        self.ends.store(u32::from(first) << 16 | u32::from(last), Ordering::Relaxed);
    }
}

/// Returns the ports from the first to the last, each once, in an order that outsiders cannot guess (RFC 6056, algorithm 2).
pub fn candidates((first, last): (u16, u16), random: u64) -> impl Iterator<Item = u16> {
    let count = u64::from(last.saturating_sub(first)) + 1;
    let start = random % count;
    // Mostly the first one is taken: the step is not looked for before the second.
    let later = (1..count).scan(None, move |step, turn| {
        let step = *step.get_or_insert_with(|| {
            // A step that has no divisor in common with the number of ports visits all.
            let wanted = (random >> 32) % count + 1;
            (wanted..).find(|step| has_no_common_divisor(*step, count)).unwrap_or(1)
        });
        Some((start + turn * step) % count)
    });
    core::iter::once(start).chain(later).map(move |place| first + place as u16)
}

/// Euclid's algorithm.
fn has_no_common_divisor(mut one: u64, mut other: u64) -> bool {
    while let Some(rest) = one.checked_rem(other) {
        (one, other) = (other, rest);
    }
    one == 1
}

/// Returns `address` without flow label and scope.
pub fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port())
}

/// Returns whether a socket of `families` takes packets of `family`.
pub fn includes(families: SocketFamilies, family: Family) -> bool {
    match families {
        SocketFamilies::Both => true,
        SocketFamilies::V4 => family == Family::V4,
        SocketFamilies::V6 => family == Family::V6,
    }
}

/// Returns the families of a socket for `families` with these options (`IPV6_V6ONLY`).
pub fn with_options(families: SocketFamilies, options: &IpOptions) -> SocketFamilies {
    match families {
        SocketFamilies::Both if options.only_v6 => SocketFamilies::V6,
        _ => families,
    }
}

/// Returns the address that stands for all of a socket's families.
pub fn unspecified(families: SocketFamilies) -> IpAddr {
    match families {
        SocketFamilies::V4 => Family::V4.unspecified(),
        SocketFamilies::V6 | SocketFamilies::Both => Family::V6.unspecified(),
    }
}

/// The packets that a socket takes: those of its families, to its address, by its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalPlace {
    /// The families.
    pub families: SocketFamilies,
    /// The local address; `None` for all.
    pub address: Option<IpAddr>,
    /// The interface; `None` for all.
    pub interface: Option<InterfaceIndex>,
}

impl LocalPlace {
    /// Returns whether there are packets that sockets of both take.
    pub fn meets(&self, other: &LocalPlace) -> bool {
        let any = [self.families, other.families].contains(&SocketFamilies::Both);
        let share_address = match (self.address, other.address) {
            (Some(one), Some(other)) => one == other,
            (Some(one), None) => includes(other.families, Family::of(one)),
            (None, Some(one)) => includes(self.families, Family::of(one)),
            (None, None) => any || self.families == other.families,
        };
        let is_apart =
            matches!((self.interface, other.interface), (Some(one), Some(two)) if one != two);
        share_address && !is_apart
    }
    /// Returns how well a packet to `local` by `interface` matches, greater is better; `None` if it does not. An address of its own
    /// is more than an interface, and that is more than a family of its own, as on Linux.
    pub fn score(&self, local: IpAddr, interface: InterfaceIndex) -> Option<u8> {
        if !includes(self.families, Family::of(local)) {
            return None;
        }
        let of_family = u8::from(self.families != SocketFamilies::Both);
        let of_interface = weighed(self.interface.map(|one| one == interface), 2)?;
        let of_address = weighed(self.address.map(|one| one == local), 4)?;
        Some(of_family + of_interface + of_address)
    }
}

/// Returns the weight of a condition that a packet meets, and 0 if there is no condition; `None` if the packet does not meet it.
fn weighed(condition: Option<bool>, weight: u8) -> Option<u8> {
    match condition {
        None => Some(0),
        Some(is_met) => is_met.then_some(weight),
    }
}

/// The rule by which two sockets may have the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberSpace {
    /// Ports: sockets whose packets differ have the same port, and so do those that share it (`udp_lib_lport_inuse`).
    Ports,
    /// Identifiers of echo requests: only sockets that share by `SO_REUSEADDR` have the same (`ping_get_port`).
    Identifiers,
}

/// The part of a socket that packets are matched with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Families of its packets.
    pub families: SocketFamilies,
    /// The local address; `None` for all.
    pub address: Option<IpAddr>,
    /// The local port.
    pub port: u16,
    /// The peer, if it is connected. A port of zero stands for all ports.
    pub peer: Option<SocketAddr>,
    /// The only interface of its packets.
    pub interface: Option<InterfaceIndex>,
    /// `SO_REUSEADDR`.
    pub shares_address: bool,
    /// `SO_REUSEPORT`.
    pub shares_port: bool,
    /// The user, who alone may share with `SO_REUSEPORT`.
    pub user: u32,
    /// The secrecy of its packets. Sockets of another one have ports of their own.
    pub label: SecrecyId,
}

/// The addresses of a packet that came.
#[derive(Clone, Copy, Debug)]
pub struct PacketEnds {
    /// The sender.
    pub remote: SocketAddr,
    /// The receiver.
    pub local: SocketAddr,
    /// The interface.
    pub interface: InterfaceIndex,
    /// The secrecy.
    pub label: SecrecyId,
}

impl Binding {
    /// Returns a binding of no address and port.
    pub fn none(families: SocketFamilies, owner: &SocketOwner) -> Binding {
        Binding {
            families,
            address: None,
            port: 0,
            peer: None,
            interface: None,
            shares_address: false,
            shares_port: false,
            user: owner.user,
            label: owner.label,
        }
    }
    /// Returns how well a packet matches, greater is better; `None` if it does not. The order is Linux's: a peer, then an address of
    /// its own, then an interface, then a family of its own. The port is not looked at.
    pub fn score(&self, ends: &PacketEnds) -> Option<u8> {
        if self.label == ends.label { self.score_of_ends(ends) } else { None }
    }
    /// Returns [`Binding::score`] for a packet whose secrecy is allowed.
    pub fn score_of_ends(&self, ends: &PacketEnds) -> Option<u8> {
        let is_peer = self
            .peer
            .map(|peer| peer.ip() == ends.remote.ip() && (peer.port() == 0 || peer == ends.remote));
        Some(self.place().score(ends.local.ip(), ends.interface)? + weighed(is_peer, 8)?)
    }
    /// Returns whether two sockets cannot both have their number.
    pub fn conflicts(&self, other: &Binding, space: NumberSpace) -> bool {
        if self.label != other.label {
            return false;
        }
        let shares_address = self.shares_address && other.shares_address;
        if space == NumberSpace::Identifiers {
            return !shares_address;
        }
        let shares =
            shares_address || self.shares_port && other.shares_port && self.user == other.user;
        !shares && self.place().meets(&other.place())
    }
    fn place(&self) -> LocalPlace {
        let Binding { families, address, interface, .. } = *self;
        LocalPlace { families, address, interface }
    }
    /// Returns the flow whose packets alone match: both addresses and ports; `None` if there is more than one.
    pub fn flow(&self) -> Option<Flow> {
        let peer = self.peer.filter(|peer| peer.port() != 0)?;
        Some(Flow { local: SocketAddr::new(self.address?, self.port), remote: peer })
    }
}

/// The addresses and ports of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// Those of this host.
    pub local: SocketAddr,
    /// Those of the peer.
    pub remote: SocketAddr,
}

impl PacketEnds {
    /// Returns the flow of the packet.
    pub fn flow(&self) -> Flow {
        Flow { local: self.local, remote: self.remote }
    }
}
