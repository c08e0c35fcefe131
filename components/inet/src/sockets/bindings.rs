//! The table of bound sockets: who gets a packet, and who may have a port.
//!
//! A [`Binding`] is the part of a socket that the choice looks at. The table is generic, so that TCP may have one, too.
use crate::{base::address::Family, tables::interface::InterfaceIndex};
use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::net::IpAddr;

/// The first port that the stack chooses by itself (`ip_local_port_range`).
pub const PORT_FIRST: u16 = 32_768;
/// The last port that the stack chooses by itself.
pub const PORT_LAST: u16 = 60_999;

/// An address and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SocketEnd {
    /// The address; unspecified for all of its family.
    pub address: IpAddr,
    /// The port.
    pub port: u16,
}

/// The families of packets that a socket takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Families {
    /// IPv4 alone.
    V4,
    /// IPv6 alone.
    V6,
    /// Both: a socket of IPv6 without `IPV6_V6ONLY`.
    Both,
}

impl Families {
    /// Returns whether packets of `family` are taken.
    pub fn includes(self, family: Family) -> bool {
        match self {
            Families::Both => true,
            Families::V4 => family == Family::V4,
            Families::V6 => family == Family::V6,
        }
    }
    fn overlaps(self, other: Families) -> bool {
        self == other || self == Families::Both || other == Families::Both
    }
}

/// The part of a socket that packets are matched with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Families of its packets.
    pub families: Families,
    /// The local address; `None` for all.
    pub address: Option<IpAddr>,
    /// The local port.
    pub port: u16,
    /// The peer, if it is connected.
    pub peer: Option<SocketEnd>,
    /// The only interface of its packets.
    pub interface: Option<InterfaceIndex>,
    /// `SO_REUSEADDR`.
    pub shares_address: bool,
    /// `SO_REUSEPORT`.
    pub shares_port: bool,
    /// The user, who alone may share with `SO_REUSEPORT`.
    pub user: u32,
}

/// The addresses of a packet that came.
#[derive(Clone, Copy, Debug)]
pub struct PacketEnds {
    /// The sender.
    pub remote: SocketEnd,
    /// The receiver.
    pub local: SocketEnd,
    /// The interface.
    pub interface: InterfaceIndex,
}

impl Binding {
    /// Returns how well a packet matches, greater is better; `None` if it does not.
    fn score(&self, ends: &PacketEnds) -> Option<u8> {
        if !self.families.includes(Family::of(ends.local.address)) {
            return None;
        }
        let mut score = u8::from(self.families != Families::Both);
        for (is_set, is_equal) in [
            (self.address.is_some(), self.address == Some(ends.local.address)),
            (self.peer.is_some(), self.peer == Some(ends.remote)),
            (self.interface.is_some(), self.interface == Some(ends.interface)),
        ] {
            match (is_set, is_equal) {
                (true, false) => return None,
                (true, true) => score += 4,
                (false, _) => {}
            }
        }
        Some(score)
    }
    /// Returns whether two sockets cannot both have their port.
    fn conflicts(&self, other: &Binding) -> bool {
        let is_apart = |one: Option<InterfaceIndex>, two| one.is_some() && two != one;
        let is_elsewhere =
            is_apart(self.interface, other.interface) && is_apart(other.interface, self.interface);
        let overlaps = match (self.address, other.address) {
            (Some(one), Some(other)) => one == other,
            (Some(one), None) => other.families.includes(Family::of(one)),
            (None, Some(other)) => self.families.includes(Family::of(other)),
            (None, None) => self.families.overlaps(other.families),
        };
        let shares = self.shares_address && other.shares_address
            || self.shares_port && other.shares_port && self.user == other.user;
        !is_elsewhere && overlaps && !shares
    }
}

struct BoundSocket<S> {
    binding: Binding,
    socket: Arc<S>,
}

/// Bound sockets, by port.
pub struct Bindings<S> {
    ports: BTreeMap<u16, Vec<BoundSocket<S>>>,
}

impl<S> Default for Bindings<S> {
    fn default() -> Bindings<S> {
        Bindings { ports: BTreeMap::new() }
    }
}

impl<S> Bindings<S> {
    /// Returns whether a socket with `binding` may be bound.
    pub fn is_free(&self, binding: &Binding) -> bool {
        self.entries(binding.port).iter().all(|entry| !entry.binding.conflicts(binding))
    }
    /// Adds a socket, or changes its binding.
    pub fn set(&mut self, socket: &Arc<S>, binding: Binding) {
        self.remove(socket, binding.port);
        let entry = BoundSocket { binding, socket: Arc::clone(socket) };
        self.ports.entry(binding.port).or_default().push(entry);
    }
    /// Removes a socket from its port.
    pub fn remove(&mut self, socket: &Arc<S>, port: u16) {
        if let Some(entries) = self.ports.get_mut(&port) {
            entries.retain(|entry| !Arc::ptr_eq(&entry.socket, socket));
            if entries.is_empty() {
                self.ports.remove(&port);
            }
        }
    }
    /// Returns a free port of the range that the stack chooses from; `None` if none is free.
    ///
    /// The search begins at a random port and goes on by a random step, so that outsiders cannot guess the next port (RFC 6056,
    /// algorithm 2).
    pub fn choose(&self, binding: &Binding, random: u64) -> Option<u16> {
        let count = u64::from(PORT_LAST - PORT_FIRST) + 1;
        // The number of ports is 8 * 3529 = 8 * (a prime), so an odd step below that prime visits all.
        let (first, step) = (random % count, (random >> 32) % 1764 * 2 + 1);
        (0..count)
            .map(|turn| PORT_FIRST + ((first + turn * step) % count) as u16)
            .find(|port| self.is_free(&Binding { port: *port, ..*binding }))
    }
    /// Returns the socket that a packet is for. Of sockets that share a port by `SO_REUSEPORT`, `flow` chooses one.
    pub fn find(&self, ends: &PacketEnds, flow: u64) -> Option<&Arc<S>> {
        let scored = || {
            let entries = self.entries(ends.local.port).iter();
            entries.filter_map(|entry| Some((entry.binding.score(ends)?, entry)))
        };
        let best = scored().map(|(score, _)| score).max()?;
        let equal = || scored().filter(|(score, _)| *score == best).map(|(_, entry)| entry);
        // The last bound wins, unless all share the load.
        let last = equal().next_back()?;
        if !last.binding.shares_port {
            return Some(&last.socket);
        }
        let group = || equal().filter(|entry| entry.binding.shares_port);
        let place = flow % group().count().max(1) as u64;
        group().nth(place as usize).map(|entry| &entry.socket)
    }
    /// Returns all sockets that a packet to many is for.
    pub fn find_all(&self, ends: &PacketEnds) -> impl Iterator<Item = &Arc<S>> {
        let entries = self.entries(ends.local.port).iter();
        entries.filter(|entry| entry.binding.score(ends).is_some()).map(|entry| &entry.socket)
    }
    /// Returns all sockets with their bindings, by port.
    pub fn iter(&self) -> impl Iterator<Item = (&Binding, &Arc<S>)> {
        self.ports.values().flatten().map(|entry| (&entry.binding, &entry.socket))
    }
    fn entries(&self, port: u16) -> &[BoundSocket<S>] {
        self.ports.get(&port).map(Vec::as_slice).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(families: Families, address: Option<&str>) -> Binding {
        Binding {
            families,
            address: address.map(|text| text.parse().unwrap()),
            port: 53,
            peer: None,
            interface: None,
            shares_address: false,
            shares_port: false,
            user: 0,
        }
    }

    fn end(address: &str, port: u16) -> SocketEnd {
        SocketEnd { address: address.parse().unwrap(), port }
    }

    fn ends(remote: SocketEnd, local: &str) -> PacketEnds {
        PacketEnds { remote, local: end(local, 53), interface: InterfaceIndex(2) }
    }

    #[test]
    fn the_binding_that_says_most_gets_the_packet() {
        let mut table = Bindings::default();
        let sockets: Vec<Arc<&str>> = ["all", "own", "peer"].map(Arc::new).to_vec();
        table.set(&sockets[0], binding(Families::V4, None));
        table.set(&sockets[1], binding(Families::V4, Some("10.0.0.1")));
        let peer = end("10.0.0.9", 9);
        let connected = Binding { peer: Some(peer), ..binding(Families::V4, Some("10.0.0.1")) };
        table.set(&sockets[2], connected);
        let find = |remote, local| table.find(&ends(remote, local), 0).map(|found| **found);
        assert_eq!(find(peer, "10.0.0.1"), Some("peer"));
        assert_eq!(find(end("10.0.0.9", 8), "10.0.0.1"), Some("own"));
        assert_eq!(find(peer, "10.0.0.2"), Some("all"));
        assert_eq!(find(end("fd00::9", 9), "fd00::1"), None);
        assert_eq!(table.find_all(&ends(peer, "10.0.0.1")).count(), 3);
    }

    #[test]
    fn addresses_that_overlap_conflict_as_in_linux() {
        let mut table = Bindings::default();
        table.set(&Arc::new(()), binding(Families::V4, Some("10.0.0.1")));
        let free = |one: &Binding| table.is_free(one);
        assert!(!free(&binding(Families::V4, Some("10.0.0.1"))));
        assert!(free(&binding(Families::V4, Some("10.0.0.2"))));
        assert!(!free(&binding(Families::V4, None)));
        assert!(!free(&binding(Families::Both, None)));
        assert!(free(&binding(Families::V6, None)));
        assert!(free(&Binding { port: 54, ..binding(Families::V4, None) }));
        let sharing = Binding { shares_address: true, ..binding(Families::V4, None) };
        assert!(!free(&sharing), "both have to share");
    }

    #[test]
    fn a_port_is_shared_by_address_or_by_users_sockets() {
        let mut table = Bindings::default();
        let one = Binding { shares_port: true, user: 7, ..binding(Families::V4, None) };
        let sockets = [Arc::new(1), Arc::new(2)];
        table.set(&sockets[0], one);
        assert!(table.is_free(&one));
        assert!(!table.is_free(&Binding { user: 8, ..one }));
        table.set(&sockets[1], one);
        let peer = end("10.0.0.9", 9);
        let mut counts = [0; 3];
        for flow in 0..100 {
            counts[**table.find(&ends(peer, "10.0.0.1"), flow).unwrap()] += 1;
        }
        assert_eq!(counts, [0, 50, 50]);
        let mut table = Bindings::default();
        let one = Binding { shares_address: true, ..binding(Families::V4, None) };
        sockets.iter().for_each(|socket| table.set(socket, one));
        assert!(table.is_free(&one));
        assert_eq!(**table.find(&ends(peer, "10.0.0.1"), 0).unwrap(), 2, "the last wins");
    }

    #[test]
    fn the_choice_of_a_port_finds_the_last_free_one() {
        let mut table = Bindings::default();
        let one = binding(Families::V4, None);
        for port in PORT_FIRST..=PORT_LAST {
            if port != 40_000 {
                table.set(&Arc::new(()), Binding { port, ..one });
            }
        }
        for random in [0, 1, u64::MAX, 0x1234_5678_9abc_def0, 3528 << 32, 1763 << 32] {
            assert_eq!(table.choose(&one, random), Some(40_000));
        }
        table.set(&Arc::new(()), Binding { port: 40_000, ..one });
        assert_eq!(table.choose(&one, 5), None);
    }
}
