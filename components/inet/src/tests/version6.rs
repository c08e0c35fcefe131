//! IPv6: duplicates, neighbours, routers, echo, errors.
use super::{
    link::{CARD, S, Station, exchange, ip},
    sockets::{Socket, end},
};
use crate::*;
use interfaces::sockets::SocketFamilies;
use packet::{
    HeaderWriter, Sum,
    ethernet::{EthernetHeader, ethertype},
    icmpv6::{Icmpv6Message, unreachable},
    ipv6::{Ipv6Fields, Ipv6Header, Walk, problem, solicited_node},
    ndp::{NdpMessage, NdpOption, NeighbourFlags, PrefixFlags, PrefixInformation, RouterFlags},
    protocol,
};
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use zerocopy::IntoBytes;

const ROUTER: &str = "fe80::99";
const ROUTER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 99];
const REPLY: Icmpv6Message = Icmpv6Message::EchoReply { identifier: 7, sequence: 1 };

fn ip6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// Starts IPv6 on two hosts and waits until both have their addresses.
fn start(one: &mut Station, two: &mut Station) {
    for station in [&mut *one, &mut *two] {
        station.run(|stack, run| stack.start_ipv6(run, CARD));
    }
    for tenth in 1..50 {
        one.wait_until(S + tenth * S / 10);
        two.wait_until(S + tenth * S / 10);
        exchange(one, two);
    }
}

fn alone(number: u8) -> Station {
    let mut station = Station::new(number, &[]);
    station.run(|stack, run| stack.start_ipv6(run, CARD));
    station.wait_until(5 * S);
    station.sent();
    station
}

fn card(station: &Station) -> Interface {
    station.stack.view().configuration.interface(CARD).unwrap().clone()
}

fn link_local(station: &Station) -> Ipv6Addr {
    card(station).link_local().unwrap()
}

fn ping(station: &mut Station, destination: Ipv6Addr, data: &[u8]) -> Result<Path, SendError> {
    let request = SendRequest {
        interface: destination.is_unicast_link_local().then_some(CARD),
        ..SendRequest::new(destination.into(), protocol::ICMPV6)
    };
    let header = Icmpv6Message::EchoRequest { identifier: 7, sequence: 1 }.header();
    let mut packet =
        Departure::new(header.as_bytes(), BufferChain::copy_of(data).unwrap()).unwrap();
    station.run(|stack, run| {
        let path = stack.path(run, &request)?;
        let length = packet.length() as u32;
        let mut sum = Sum::pseudo_header(path.source, destination.into(), protocol::ICMPV6, length);
        sum.append(packet.sum());
        packet.patch(2, sum.checksum());
        stack.send_on(run, &path, &request, packet)?;
        Ok(path)
    })
}

fn heard(station: &mut Station) -> Vec<(Icmpv6Message, Vec<u8>)> {
    let all = station.ears.heard().into_iter();
    all.map(|(_, bytes)| (Icmpv6Message::parse(&bytes).unwrap(), bytes[8..].to_vec())).collect()
}

/// Returns a frame with a packet of IPv6 whose payload is a message of ICMPv6 without checksum.
fn frame(mac: [u8; 6], (source, destination): (&str, &str), message: &[u8]) -> Vec<u8> {
    let (source, destination) = (ip6(source), ip6(destination));
    let fields = Ipv6Fields {
        source,
        destination,
        next_header: protocol::ICMPV6,
        traffic_class: 0,
        flow_label: 0,
        hop_limit: 255,
    };
    let mut message = message.to_vec();
    let length = message.len() as u32;
    let mut sum = Sum::pseudo_header6(source, destination, protocol::ICMPV6, length);
    sum.add(&message);
    message[2..4].copy_from_slice(&sum.checksum().to_be_bytes());
    let link = EthernetHeader::new(mac, ROUTER_MAC, ethertype::IPV6);
    let header = fields.header(message.len()).unwrap();
    [link.as_bytes(), header.as_bytes(), &message].concat()
}

fn ndp(message: NdpMessage, options: &[NdpOption<'_>]) -> Vec<u8> {
    let mut bytes = [0; 200];
    let mut writer = HeaderWriter::new(&mut bytes);
    message.write(&mut writer).unwrap();
    options.iter().for_each(|option| option.write(&mut writer).unwrap());
    writer.written().to_vec()
}

/// Returns the messages of discovery in frames, with sender and receiver.
fn discovery(frames: &[Vec<u8>]) -> Vec<(NdpMessage, Ipv6Addr, Ipv6Addr)> {
    let parse = |frame: &Vec<u8>| {
        let header = Ipv6Header::parse(&frame[14..], frame.len() - 14).unwrap();
        let walk = Walk::of(&frame[14..]).unwrap();
        let bytes = &frame[14 + walk.payload..];
        let mut sum = Sum::pseudo_header6(
            header.source(),
            header.destination(),
            walk.protocol,
            bytes.len() as u32,
        );
        sum.add(bytes);
        assert!(sum.is_valid());
        let message = NdpMessage::parse(bytes).unwrap()?.0;
        assert_eq!(header.hop_limit, 255);
        Some((message, header.source(), header.destination()))
    };
    frames.iter().filter_map(parse).collect()
}

#[test]
fn an_address_is_probed_before_its_use_and_then_routers_are_solicited() {
    let mut one = Station::new(1, &[]);
    one.run(|stack, run| stack.start_ipv6(run, CARD));
    let address = card(&one).addresses[0].clone();
    assert!(address.flags.contains(AddressFlags::TENTATIVE));
    let IpAddr::V6(own) = address.address else { panic!() };
    assert!(own.is_unicast_link_local());
    assert_eq!(ping(&mut one, own, b""), Err(SendError::NoSource), "it is not in use");
    one.wait_until(20 * S);
    assert_eq!(link_local(&one), own);
    let all = discovery(&one.sent());
    let probe = NdpMessage::NeighbourSolicitation { target: own };
    assert_eq!(all[0], (probe, Ipv6Addr::UNSPECIFIED, solicited_node(own)));
    let solicitation = (NdpMessage::RouterSolicitation, own, ip6("ff02::2"));
    assert_eq!(all[1..], [solicitation; 3]);
}

use std::net::IpAddr;

#[test]
fn a_ping_between_link_local_addresses_is_answered() {
    let (mut one, mut two) = (Station::new(1, &[]), Station::new(2, &[]));
    start(&mut one, &mut two);
    let peer = link_local(&two);
    assert_ne!(link_local(&one), peer);
    ping(&mut one, peer, b"six").unwrap();
    assert_eq!(exchange(&mut one, &mut two), 4);
    assert_eq!(heard(&mut one), [(REPLY, b"six".to_vec())]);
    ping(&mut one, peer, b"six").unwrap();
    assert_eq!(exchange(&mut one, &mut two), 2);
    ping(&mut one, ip6("::1"), b"self").unwrap();
    assert_eq!(heard(&mut one).pop(), Some((REPLY, b"self".to_vec())));
}

#[test]
fn an_address_of_another_host_is_given_up_for_the_next() {
    let mut one = Station::new(1, &[]);
    one.run(|stack, run| stack.start_ipv6(run, CARD));
    let IpAddr::V6(first) = card(&one).addresses[0].address else { panic!() };
    let flags = NeighbourFlags::OVERRIDE;
    let message = ndp(
        NdpMessage::NeighbourAdvertisement { flags, target: first },
        &[NdpOption::TargetLink(ROUTER_MAC)],
    );
    let group = [0x33, 0x33, 0, 0, 0, 1];
    one.receive(&frame(group, (&first.to_string(), "ff02::1"), &message));
    let addresses = card(&one).addresses;
    assert_eq!(addresses.len(), 1);
    assert_ne!(addresses[0].address, IpAddr::V6(first));
    one.wait_until(5 * S);
    assert_eq!(IpAddr::V6(link_local(&one)), addresses[0].address);
}

#[test]
fn a_users_address_that_is_not_unique_is_marked() {
    let mut one = Station::new(1, &[]);
    let address = InterfaceAddress::new(ip("fd00::1"), 64).unwrap();
    one.run(|stack, run| stack.add_address(run, CARD, address)).unwrap();
    let probe = ndp(NdpMessage::NeighbourSolicitation { target: ip6("fd00::1") }, &[]);
    let group = packet::ethernet::of_group6(solicited_node(ip6("fd00::1")));
    one.receive(&frame(group, ("::", "ff02::1:ff00:1"), &probe));
    one.wait_until(10 * S);
    let flags = card(&one).addresses[0].flags;
    assert!(flags.contains(AddressFlags::DADFAILED | AddressFlags::TENTATIVE));
    assert_eq!(ping(&mut one, ip6("fd00::1"), b""), Err(SendError::NoSource));
}

#[test]
fn a_hosts_own_address_is_defended() {
    let mut one = alone(1);
    let own = link_local(&one);
    let probe = ndp(NdpMessage::NeighbourSolicitation { target: own }, &[]);
    let group = solicited_node(own);
    one.receive(&frame(packet::ethernet::of_group6(group), ("::", &group.to_string()), &probe));
    let flags = NeighbourFlags::OVERRIDE;
    let answer = NdpMessage::NeighbourAdvertisement { flags, target: own };
    assert_eq!(discovery(&one.sent()), [(answer, own, ip6("ff02::1"))]);
}

fn advertisement(lifetime_s: u16, prefix: Option<(u32, u32)>) -> Vec<u8> {
    let message = NdpMessage::RouterAdvertisement {
        hop_limit: 33,
        flags: RouterFlags::empty(),
        lifetime_s,
        reachable_ms: 0,
        retransmit_ms: 0,
    };
    let flags = PrefixFlags::ON_LINK | PrefixFlags::AUTONOMOUS;
    let information = prefix.map(|lives| PrefixInformation::new(ip6("fd00:1::"), 64, flags, lives));
    let mut options = vec![NdpOption::SourceLink(ROUTER_MAC), NdpOption::Mtu(1400)];
    options.extend(information.as_ref().map(NdpOption::Prefix));
    frame([0x33, 0x33, 0, 0, 0, 1], (ROUTER, "ff02::1"), &ndp(message, &options))
}

fn made(station: &Station) -> Option<InterfaceAddress> {
    let prefix = Prefix::new(ip("fd00:1::"), 64).unwrap();
    card(station).addresses.into_iter().find(|one| prefix.contains(one.address))
}

#[test]
fn a_router_gives_an_address_a_route_and_settings() {
    let mut one = alone(1);
    one.receive(&advertisement(1800, Some((86_400, 14_400))));
    assert!(made(&one).unwrap().flags.contains(AddressFlags::TENTATIVE));
    one.wait_until(8 * S);
    let own = made(&one).unwrap();
    assert!(own.is_usable());
    let settings = card(&one).ipv6;
    assert_eq!((settings.hop_limit, settings.mtu), (33, 1400));
    let path = ping(&mut one, ip6("2001:db8::1"), b"x").unwrap();
    assert_eq!((path.next_hop, path.source), (ip(ROUTER), own.address));
    assert_eq!((path.hop_limit, path.mtu), (33, 1400));
    let frames = one.sent();
    assert_eq!(frames.last().unwrap()[..6], ROUTER_MAC, "the option told its address");
    let path = ping(&mut one, ip6("fd00:1::77"), b"x").unwrap();
    assert_eq!(path.next_hop, ip("fd00:1::77"), "the prefix is on the link");
    one.now_ns = 5 * S + 1801 * S;
    assert_eq!(ping(&mut one, ip6("2001:db8::1"), b"x"), Err(SendError::NoRoute));
    one.wait_until(5 * S + 14_401 * S);
    assert!(made(&one).unwrap().flags.contains(AddressFlags::DEPRECATED));
    one.wait_until(5 * S + 86_401 * S);
    assert!(made(&one).is_none());
    assert_eq!(ping(&mut one, ip6("fd00:1::77"), b"x"), Err(SendError::NoRoute));
}

#[test]
fn a_router_that_goes_takes_its_route_and_cannot_end_an_address_at_once() {
    let mut one = alone(1);
    one.receive(&advertisement(1800, Some((86_400, 14_400))));
    one.wait_until(8 * S);
    one.receive(&advertisement(0, Some((1, 1))));
    assert_eq!(ping(&mut one, ip6("2001:db8::1"), b"x"), Err(SendError::NoRoute));
    let left = made(&one).unwrap().valid_until_ns.unwrap() - one.now_ns;
    assert_eq!(left, 7200 * S, "two hours");
}

#[test]
fn advertisements_of_strangers_are_ignored() {
    let mut one = alone(1);
    let mut far = advertisement(1800, None);
    far[21] = 254;
    one.receive(&far);
    let message = &advertisement(1800, None)[54..];
    let mut message = message.to_vec();
    message[2..4].fill(0);
    one.receive(&frame([0x33, 0x33, 0, 0, 0, 1], ("fd00::9", "ff02::1"), &message));
    assert_eq!(one.stack.drops.get(DropReason::Discovery), 2);
    assert_eq!(card(&one).ipv6.hop_limit, 64);
    assert_eq!(ping(&mut one, ip6("2001:db8::1"), b"x"), Err(SendError::NoRoute));
}

#[test]
fn a_redirect_of_the_present_router_changes_the_next_hop() {
    let mut one = alone(1);
    one.receive(&advertisement(1800, Some((86_400, 14_400))));
    one.wait_until(8 * S);
    let own = link_local(&one).to_string();
    let (target, destination) = (ip6("fe80::77"), ip6("2001:db8::1"));
    let message = ndp(NdpMessage::Redirect { target, destination }, &[]);
    one.receive(&frame(one.mac, ("fe80::66", &own), &message));
    assert_eq!(ping(&mut one, destination, b"").unwrap().next_hop, ip(ROUTER));
    one.receive(&frame(one.mac, (ROUTER, &own), &message));
    assert_eq!(ping(&mut one, destination, b"").unwrap().next_hop, ip("fe80::77"));
    assert_eq!(ping(&mut one, ip6("2001:db8::2"), b"").unwrap().next_hop, ip(ROUTER));
}

#[test]
fn an_unknown_header_and_a_closed_port_are_told() {
    let mut one = alone(1);
    let own = link_local(&one);
    one.receive(&advertisement(0, None));
    let mut bytes = frame(one.mac, (ROUTER, &own.to_string()), &[0; 16]);
    bytes[20] = 200;
    one.receive(&bytes);
    bytes[20] = protocol::UDP;
    let udp = packet::udp::UdpHeader::new(1, 2, 8).unwrap();
    bytes[54..62].copy_from_slice(udp.as_bytes());
    let mut sum = Sum::pseudo_header6(ip6(ROUTER), own, protocol::UDP, 16);
    sum.add(&bytes[54..70]);
    bytes[60..62].copy_from_slice(&sum.checksum().to_be_bytes());
    one.receive(&bytes);
    let sent = one.sent();
    let messages: Vec<Icmpv6Message> =
        sent.iter().map(|frame| Icmpv6Message::parse(&frame[54..]).unwrap()).collect();
    let problem = Icmpv6Message::ParameterProblem { code: problem::NEXT_HEADER, pointer: 6 };
    assert_eq!(messages[..], [problem, Icmpv6Message::Unreachable { code: unreachable::PORT }]);
    assert_eq!(sent[1][62..], bytes[14..], "the packet is quoted");
}

#[test]
fn udp_works_over_ipv6_and_hears_its_errors() {
    let (mut one, mut two) = (Station::new(1, &[]), Station::new(2, &[]));
    start(&mut one, &mut two);
    let of_card =
        |address: Ipv6Addr, port| SocketAddr::V6(SocketAddrV6::new(address, port, 0, CARD.0));
    let peer = of_card(link_local(&two), 53);
    let client = Socket::udp(&one, SocketFamilies::V6);
    let without = SocketAddr::new(peer.ip(), 53);
    assert_eq!(client.connect(&mut one, Some(without)), Err(SocketError::Invalid));
    client.connect(&mut one, Some(peer)).unwrap();
    assert_eq!(client.peer(&one), Some(peer));
    assert_eq!(client.local(&one), of_card(link_local(&one), client.local(&one).port()));
    client.send(&mut one, None, b"first").unwrap();
    exchange(&mut one, &mut two);
    assert_eq!(client.error(), Some(SocketError::Refused));
    let server = Socket::udp(&two, SocketFamilies::Both);
    server.bind(&mut two, end("::", 53)).unwrap();
    client.send(&mut one, None, b"second").unwrap();
    exchange(&mut one, &mut two);
    let (source, data) = server.receive().unwrap();
    assert_eq!((data, source), (b"second".to_vec(), client.local(&one)));
    client.connect(&mut one, None).unwrap();
    assert_eq!(client.local(&one), end("::", 0));
    assert_eq!(client.send(&mut one, Some(without), b""), Err(SocketError::NetworkUnreachable));
    let other = SocketAddrV6::new(link_local(&two), 53, 0, 1).into();
    let client = Socket::udp(&one, SocketFamilies::V6);
    client.configure(&one, |options| options.interface = Some(CARD.0));
    assert_eq!(client.connect(&mut one, Some(other)), Err(SocketError::Invalid));
    let client = Socket::udp(&one, SocketFamilies::V6);
    client.configure(&one, |options| options.interface = Some(CARD.0));
    assert_eq!(client.bind(&mut one, end("fe80::1:2:3", 9)), Err(SocketError::NoAddress));
    let client = Socket::udp(&one, SocketFamilies::V6);
    let own = of_card(link_local(&one), 9);
    assert_eq!(client.bind(&mut one, own), Ok(()));
}
