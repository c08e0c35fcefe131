//! The loopback interface: its addresses, groups and broadcasts, packets without checksums, forged sources.
use super::{
    link::{CARD, Station, exchange},
    sockets::{Socket, end},
};
use crate::*;
use interfaces::sockets::{DatagramProtocol, SocketFamilies};
use packet::{
    Sum,
    ethernet::{EthernetHeader, ethertype},
    ipv4::{Cutting, FragmentPlace, Ipv4Fields},
    ipv6::Ipv6Fields,
    protocol,
    udp::UdpHeader,
};
use std::net::{IpAddr, SocketAddr};
use zerocopy::IntoBytes;

const LOOPBACK: u32 = 1;

fn server(station: &mut Station, address: &str) -> Socket {
    let socket = Socket::udp(station, SocketFamilies::Both);
    socket.bind(station, end(address, 53)).unwrap();
    socket
}

#[test]
fn loopback_is_there_from_the_start() {
    let mut one = Station::new(1, &[]);
    let view = one.stack.view();
    let lo = view.configuration.interface(InterfaceIndex::LOOPBACK).unwrap();
    assert_eq!((lo.name.as_str(), lo.mtu, lo.is_up()), ("lo", 65_536, true));
    let networks: Vec<_> =
        lo.addresses.iter().map(|one| (one.address, one.prefix_length)).collect();
    assert_eq!(networks, [("127.0.0.1".parse().unwrap(), 8), ("::1".parse().unwrap(), 128)]);
    let server = server(&mut one, "::");
    for (to, from, families) in [
        ("127.0.0.1", "127.0.0.1", SocketFamilies::V4),
        ("127.200.0.9", "127.0.0.1", SocketFamilies::V4),
        ("::1", "::1", SocketFamilies::V6),
    ] {
        let client = Socket::udp(&one, families);
        client.send(&mut one, Some(end(to, 53)), b"x").unwrap();
        let got = server.take().unwrap();
        assert_eq!((got.destination, got.interface), (end(to, 53), LOOPBACK));
        assert_eq!(got.source.ip(), end(from, 0).ip());
    }
    assert!(one.sent().is_empty());
}

/// A raw socket shows that the checksum is that of the pseudo header alone, and the datagram arrives all the same.
#[test]
fn packets_over_loopback_are_not_summed() {
    let mut one = Station::new(1, &[("10.0.0.1", 24)]);
    let eye = Socket::open(&one, DatagramProtocol::Raw(protocol::UDP), SocketFamilies::V4);
    let server = server(&mut one, "::");
    let client = Socket::udp(&one, SocketFamilies::V4);
    for to in ["127.0.0.1", "10.0.0.1"] {
        let data = b"checksums are for wires, which can damage a packet; memory does not";
        client.send(&mut one, Some(end(to, 53)), data).unwrap();
        let (_, packet) = eye.receive().unwrap();
        let address: IpAddr = to.parse().unwrap();
        let length = (packet.len() - 20) as u32;
        let pseudo = Sum::pseudo_header(address, address, protocol::UDP, length);
        assert_eq!(packet[26..28], pseudo.folded().to_be_bytes());
        assert_eq!(server.receive().unwrap().1, data);
    }
    assert_eq!(one.stack.drops.get(DropReason::Checksum), 0);
    // A program's own packet over loopback is verified: nobody vouches for it.
    let raw = Socket::open(&one, DatagramProtocol::Raw(protocol::UDP), SocketFamilies::V4);
    let header = UdpHeader::new(9, 53, 4).unwrap();
    let mut bad = [header.as_bytes(), b"data"].concat();
    bad[6] = 1;
    raw.send(&mut one, Some(end("127.0.0.1", 0)), &bad).unwrap();
    assert_eq!(one.stack.drops.get(DropReason::Checksum), 1);
    assert!(server.receive().is_none());
}

#[test]
fn a_broadcast_over_loopback_reaches_all_sockets_once() {
    let mut one = Station::new(1, &[]);
    let all = [0, 1].map(|_| {
        let socket = Socket::udp(&one, SocketFamilies::V4);
        socket.configure(&one, |options| options.reuses_address = true);
        socket.bind(&mut one, end("0.0.0.0", 53)).unwrap();
        socket
    });
    let client = Socket::udp(&one, SocketFamilies::V4);
    let to = Some(end("127.255.255.255", 53));
    assert_eq!(client.send(&mut one, to, b"x"), Err(SocketError::Forbidden));
    client.configure(&one, |options| options.may_broadcast = true);
    client.send(&mut one, to, b"x").unwrap();
    for socket in &all {
        let got = socket.take().unwrap();
        assert_eq!((got.source.ip(), got.interface), (end("127.0.0.1", 0).ip(), LOOPBACK));
        assert!(socket.take().is_none());
    }
}

#[test]
fn a_group_over_loopback_reaches_its_members_once() {
    let mut one = Station::new(1, &[]);
    // Loopback has no route to groups of IPv6 by itself.
    let nowhere = SendRequest {
        interface: Some(InterfaceIndex::LOOPBACK),
        ..SendRequest::new(end("ff02::77", 0).ip(), protocol::UDP)
    };
    assert_eq!(one.run(|stack, run| stack.path(run, &nowhere)), Err(SendError::NoRoute));
    let groups = Prefix::new(end("ff00::", 0).ip(), 8).unwrap();
    let route = Route::on_link(groups, InterfaceIndex::LOOPBACK);
    one.stack.configure(|all| all.routes.add(TableId::LOCAL, route)).unwrap();
    for (group, any) in [("239.1.2.3", "0.0.0.0"), ("ff02::77", "::")] {
        let families = if any == "::" { SocketFamilies::V6 } else { SocketFamilies::V4 };
        let socket = Socket::udp(&one, families);
        socket.bind(&mut one, end(any, 53)).unwrap();
        let client = Socket::udp(&one, families);
        client.configure(&one, |options| {
            options.group_interface = Some(LOOPBACK);
            options.group_interface6 = Some(LOOPBACK);
            // The option is about copies beside a card's packet.
            (options.loops_groups, options.loops_groups6) = (false, false);
        });
        client.send(&mut one, Some(end(group, 53)), b"x").unwrap();
        assert!(socket.take().is_none(), "no member");
        socket.join(&mut one, group, LOOPBACK).unwrap();
        client.send(&mut one, Some(end(group, 53)), b"x").unwrap();
        let got = socket.take().unwrap();
        assert_eq!((got.destination.ip(), got.interface), (end(group, 0).ip(), LOOPBACK));
        assert!(socket.take().is_none());
        socket.close(&mut one);
    }
    assert!(one.sent().is_empty());
}

/// Returns a frame with a datagram to port 53.
fn forged(mac: [u8; 6], source: &str, destination: &str) -> Vec<u8> {
    let (source, destination): (IpAddr, IpAddr) =
        (source.parse().unwrap(), destination.parse().unwrap());
    let header = UdpHeader::new(9, 53, 4).unwrap();
    let mut udp = [header.as_bytes(), b"evil"].concat();
    let mut sum = Sum::pseudo_header(source, destination, protocol::UDP, udp.len() as u32);
    sum.add(&udp);
    udp[6..8].copy_from_slice(&sum.checksum_of_udp().to_be_bytes());
    let (kind, header) = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let fields = Ipv4Fields {
                source,
                destination,
                protocol: protocol::UDP,
                traffic_class: 0,
                ttl: 64,
                identification: 1,
                cutting: Cutting::Allowed,
                place: FragmentPlace::default(),
            };
            (ethertype::IPV4, fields.header(&[], udp.len()).unwrap().as_bytes().to_vec())
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let fields = Ipv6Fields {
                source,
                destination,
                next_header: protocol::UDP,
                traffic_class: 0,
                flow_label: 0,
                hop_limit: 64,
            };
            (ethertype::IPV6, fields.header(udp.len()).unwrap().as_bytes().to_vec())
        }
        _ => panic!("two families"),
    };
    let link = EthernetHeader::new(mac, [2, 0, 0, 0, 0, 99], kind);
    [link.as_bytes(), &header, &udp].concat()
}

#[test]
fn a_packet_from_outside_with_an_address_of_this_host_is_dropped() {
    let mut one = Station::new(1, &[("10.0.0.1", 24), ("fd00::1", 64)]);
    let server = server(&mut one, "::");
    let connected = Socket::udp(&one, SocketFamilies::V4);
    connected.bind(&mut one, end("127.0.0.1", 54)).unwrap();
    connected.connect(&mut one, Some(end("127.0.0.1", 9))).unwrap();
    let bad = [
        ("10.0.0.1", "10.0.0.1"),
        ("127.0.0.1", "10.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
        ("10.0.0.9", "127.0.0.1"),
        ("fd00::1", "fd00::1"),
        ("::1", "fd00::1"),
        ("::1", "::1"),
        ("fd00::9", "::1"),
    ];
    for (source, destination) in bad {
        one.receive(&forged(one.mac, source, destination));
        assert!(server.take().is_none(), "{source} {destination}");
    }
    assert_eq!(one.stack.drops.get(DropReason::Martian), bad.len() as u64);
    for (source, destination) in [("10.0.0.9", "10.0.0.1"), ("fd00::9", "fd00::1")] {
        one.receive(&forged(one.mac, source, destination));
        assert_eq!(server.receive().unwrap().0, SocketAddr::new(source.parse().unwrap(), 9));
    }
}

#[test]
fn an_address_of_a_card_is_reached_over_loopback_while_the_card_is_down() {
    let mut one = Station::new(1, &[("10.0.0.1", 24)]);
    let mut two = Station::new(2, &[("10.0.0.2", 24)]);
    one.stack
        .configure(|all| all.edit_interface(CARD, |card| card.flags.remove(InterfaceFlags::UP)))
        .unwrap();
    let server = server(&mut one, "::");
    let client = Socket::udp(&one, SocketFamilies::V4);
    client.send(&mut one, Some(end("10.0.0.1", 53)), b"x").unwrap();
    assert_eq!(server.take().unwrap().interface, LOOPBACK);
    let unreachable = Err(SocketError::NetworkUnreachable);
    assert_eq!(client.send(&mut one, Some(end("10.0.0.2", 53)), b"x"), unreachable);
    assert_eq!(exchange(&mut one, &mut two), 0);
}
