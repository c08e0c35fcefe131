//! Tests of the table of bound sockets.
use super::{
    bindings::{Binding, NumberSpace, PacketEnds, PortRange, candidates},
    bound::Bindings,
};
use crate::tables::interface::InterfaceIndex;
use core::net::SocketAddr;
use interfaces::sockets::{SocketFamilies, SocketOwner};
use proptest::prelude::*;
use std::sync::Arc;

use labels::SecrecyId;

fn binding(families: SocketFamilies, address: Option<&str>) -> Binding {
    let address = address.map(|text| text.parse().unwrap());
    Binding { address, port: 53, ..Binding::none(families, &SocketOwner::default()) }
}

fn end(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), port)
}

fn ends(remote: SocketAddr, local: &str) -> PacketEnds {
    PacketEnds {
        remote,
        local: end(local, 53),
        interface: InterfaceIndex(2),
        label: SecrecyId::NONE,
    }
}

fn table<S>() -> Bindings<S> {
    Bindings::new(NumberSpace::Ports)
}

#[test]
fn the_binding_that_says_most_gets_the_packet() {
    let table = table();
    let add = |name: &'static str, binding| assert!(table.bind(&Arc::new(name), binding));
    let share = |one: Binding| Binding { shares_address: true, ..one };
    add("all", share(binding(SocketFamilies::V4, None)));
    add("own", share(binding(SocketFamilies::V4, Some("10.0.0.1"))));
    let peer = end("10.0.0.9", 9);
    let connected = Binding { peer: Some(peer), ..binding(SocketFamilies::V4, Some("10.0.0.1")) };
    add("peer", share(connected));
    let any_port = Binding { peer: Some(end("10.0.0.8", 0)), ..connected };
    add("host", share(any_port));
    let bound = Binding { interface: Some(InterfaceIndex(2)), ..binding(SocketFamilies::V4, None) };
    add("card", share(bound));
    let find = |remote, local| table.find(&ends(remote, local), || 0).map(|found| *found);
    assert_eq!(find(peer, "10.0.0.1"), Some("peer"));
    assert_eq!(find(end("10.0.0.8", 8), "10.0.0.1"), Some("host"));
    assert_eq!(find(end("10.0.0.9", 8), "10.0.0.1"), Some("own"));
    assert_eq!(find(peer, "10.0.0.2"), Some("card"));
    assert_eq!(find(end("fd00::9", 9), "fd00::1"), None);
    assert_eq!(table.find_all(&ends(peer, "10.0.0.1")).len(), 4);
}

#[test]
fn addresses_that_overlap_conflict_as_in_linux() {
    let first = binding(SocketFamilies::V4, Some("10.0.0.1"));
    let free = |one: Binding| {
        let table = table();
        assert!(table.bind(&Arc::new(()), first));
        table.bind(&Arc::new(()), one)
    };
    assert!(!free(first));
    assert!(free(binding(SocketFamilies::V4, Some("10.0.0.2"))));
    assert!(!free(binding(SocketFamilies::V4, None)));
    assert!(!free(binding(SocketFamilies::Both, None)));
    assert!(free(binding(SocketFamilies::V6, None)));
    assert!(free(Binding { port: 54, ..binding(SocketFamilies::V4, None) }));
    let sharing = Binding { shares_address: true, ..binding(SocketFamilies::V4, None) };
    assert!(!free(sharing), "both have to share");
}

#[test]
fn identifiers_are_shared_by_address_alone() {
    let table = Bindings::new(NumberSpace::Identifiers);
    let first = binding(SocketFamilies::V4, Some("10.0.0.1"));
    assert!(table.bind(&Arc::new(()), first));
    assert!(!table.bind(&Arc::new(()), binding(SocketFamilies::V6, None)));
    let sharing = Binding { shares_address: true, port: 54, ..first };
    assert!(table.bind(&Arc::new(()), sharing) && table.bind(&Arc::new(()), sharing));
}

#[test]
fn a_port_is_shared_by_address_or_by_users_sockets() {
    let of_user = |user| Binding { shares_port: true, user, ..binding(SocketFamilies::V4, None) };
    let ports = table();
    let sockets = [Arc::new(1), Arc::new(2)];
    assert!(sockets.iter().all(|socket| ports.bind(socket, of_user(7))));
    assert!(!ports.bind(&Arc::new(3), of_user(8)));
    let peer = end("10.0.0.9", 9);
    let mut counts = [0; 3];
    for flow in 0..100 {
        counts[*ports.find(&ends(peer, "10.0.0.1"), || flow).unwrap()] += 1;
    }
    assert_eq!(counts, [0, 50, 50]);
    let ports = table();
    let one = Binding { shares_address: true, ..binding(SocketFamilies::V4, None) };
    assert!(sockets.iter().all(|socket| ports.bind(socket, one)));
    assert_eq!(*ports.find(&ends(peer, "10.0.0.1"), || 0).unwrap(), 2, "the last wins");
}

#[test]
fn the_choice_of_a_port_finds_the_last_free_one() {
    for random in [0, 1, u64::MAX, 0x1234_5678_9abc_def0, 3528 << 32, 1763 << 32] {
        let (table, range) = (table(), PortRange::DEFAULT);
        let one = binding(SocketFamilies::V4, None);
        for port in (range.0..=range.1).filter(|port| *port != 40_000) {
            assert!(table.bind(&Arc::new(()), Binding { port, ..one }));
        }
        assert_eq!(table.bind_any(&Arc::new(()), one, (range, random)), Some(40_000));
        assert_eq!(table.bind_any(&Arc::new(()), one, (range, random)), None);
    }
}

/// Ten thousand connected sockets at one port: each gets its own packets, and all are gone in the end.
#[test]
fn connected_sockets_are_found_by_their_flow() {
    let table = table();
    let own = Binding { shares_address: true, ..binding(SocketFamilies::V4, Some("10.0.0.1")) };
    let peer = |number: u32| SocketAddr::from(((number | 0x0a00_0000).to_be_bytes(), 9));
    let sockets: Vec<Arc<u32>> = (1..3000).map(Arc::new).collect();
    for socket in &sockets {
        assert!(table.bind(socket, own));
        table.rebind(socket, &own, Binding { peer: Some(peer(**socket)), ..own });
    }
    let find = |remote| table.find(&ends(remote, "10.0.0.1"), || 0).map(|found| *found);
    assert!(sockets.iter().all(|socket| find(peer(**socket)) == Some(**socket)));
    assert_eq!(find(end("11.0.0.1", 9)), None);
    assert_eq!(table.list().len(), sockets.len());
    for socket in &sockets {
        table.remove(socket, &Binding { peer: Some(peer(**socket)), ..own });
        assert_eq!((find(peer(**socket)), Arc::strong_count(socket)), (None, 1));
    }
    assert!(table.list().is_empty());
}

proptest! {
    /// All ports of a range are candidates, once.
    #[test]
    fn a_port_is_a_candidate_once(first in 1u16..300, count in 0u16..300, random: u64) {
        let mut found: Vec<u16> = candidates((first, first + count), random).collect();
        found.sort_unstable();
        prop_assert!(found.into_iter().eq(first..=first + count));
    }
    /// The table finds what a search through all bindings finds: the greatest score, then the last bound.
    #[test]
    fn the_table_finds_what_a_search_of_all_finds(
        all in prop::collection::vec((0..3u8, 0..3u8, 0..2u8, 0..2u16), 1..12),
        removed in 0..12usize, remote in 1..3u8, local in 1..3u8,
    ) {
        let address = |number: u8| std::net::IpAddr::from([10, 0, 0, number]);
        let table = table();
        let mut model = Vec::new();
        for (own, peer, interface, port) in all {
            let one = Binding {
                address: (own > 0).then(|| address(own)),
                port: 53,
                peer: (peer > 0 && own > 0).then(|| SocketAddr::new(address(peer), port)),
                interface: (interface > 0).then_some(InterfaceIndex(interface.into())),
                shares_address: true,
                ..Binding::none(SocketFamilies::V4, &SocketOwner::default())
            };
            let socket = Arc::new(model.len());
            prop_assert!(table.bind(&socket, one));
            model.push((socket, one));
        }
        if removed < model.len() {
            let (socket, one) = model.remove(removed);
            table.remove(&socket, &one);
        }
        let packet = PacketEnds {
            remote: SocketAddr::new(address(remote), 1),
            local: SocketAddr::new(address(local), 53),
            interface: InterfaceIndex(1),
            label: SecrecyId::NONE,
        };
        let matching = || model.iter().filter(|(_, one)| one.score(&packet).is_some());
        // A peer's port counts, so a flow is better than a peer of any port.
        let best = matching().max_by_key(|(socket, one)| (one.flow().is_some(), one.score(&packet), **socket));
        let found = table.find(&packet, || 0).map(|found| *found);
        prop_assert_eq!(found, best.map(|(socket, _)| **socket));
        prop_assert_eq!(table.find_all(&packet).len(), matching().count());
    }
}
