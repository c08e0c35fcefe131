//! ARP, IPv4 and echo.
use super::link::{CARD, S, Station, exchange, ip};
use crate::*;
use packet::{
    Sum,
    arp::{ArpOperation, ArpPacket},
    ethernet::{EthernetHeader, ethertype},
    icmp::{IcmpMessage, unreachable},
    ipv4::{Cutting, FragmentPlace, Ipv4, Ipv4Fields},
    protocol,
};
use std::net::Ipv4Addr;
use zerocopy::IntoBytes;

/// Sends an echo request with `data`.
fn ping(station: &mut Station, destination: &str, data: &[u8]) -> Result<Path, SendError> {
    let header = IcmpMessage::EchoRequest { identifier: 7, sequence: 1 }.header();
    let mut packet =
        Departure::new(header.as_bytes(), BufferChain::copy_of(data).unwrap()).unwrap();
    let checksum = packet.sum().checksum();
    packet.patch(2, checksum);
    let request = SendRequest::new(ip(destination), protocol::ICMP);
    station.run(|stack, run| stack.send(run, &request, packet))
}

/// Returns the messages of ICMP that the host got.
fn heard(station: &mut Station) -> Vec<(IcmpMessage, Vec<u8>)> {
    let all = station.ears.heard().into_iter();
    all.map(|(_, bytes)| (IcmpMessage::parse(&bytes).unwrap(), bytes[8..].to_vec())).collect()
}

const REPLY: IcmpMessage = IcmpMessage::EchoReply { identifier: 7, sequence: 1 };

#[test]
fn a_ping_is_answered() {
    let mut one = Station::new(1, &[("10.0.0.1", 24)]);
    let mut two = Station::new(2, &[("10.0.0.2", 24)]);
    ping(&mut one, "10.0.0.2", b"abc").unwrap();
    let first = one.world.sent.front().unwrap().clone();
    assert_eq!(first[..6], [0xff; 6], "it asks for the neighbour first");
    assert_eq!(exchange(&mut one, &mut two), 4);
    assert_eq!(heard(&mut one), [(REPLY, b"abc".to_vec())]);
    ping(&mut one, "10.0.0.2", &[5; 1400]).unwrap();
    assert_eq!(exchange(&mut one, &mut two), 2, "the neighbours know each other");
    assert_eq!(heard(&mut one), [(REPLY, vec![5; 1400])]);
    assert_eq!(one.stack.drops.total() + two.stack.drops.total(), 0);
}

#[test]
fn a_host_answers_itself() {
    let mut one = Station::new(1, &[("10.0.0.1", 24)]);
    for (address, source) in
        [("127.0.0.1", "127.0.0.1"), ("127.1.2.3", "127.0.0.1"), ("10.0.0.1", "10.0.0.1")]
    {
        let path = ping(&mut one, address, b"self").unwrap();
        assert_eq!((path.source, path.is_local), (ip(source), true));
        assert_eq!(heard(&mut one), [(REPLY, b"self".to_vec())]);
    }
    assert!(one.sent().is_empty());
}

#[test]
fn a_gateway_is_asked_for_instead_of_the_destination() {
    let mut one = Station::new(1, &[("10.0.0.1", 24)]);
    assert_eq!(ping(&mut one, "8.8.8.8", b""), Err(SendError::NoRoute));
    one.add_gateway("10.0.0.254");
    let path = ping(&mut one, "8.8.8.8", b"").unwrap();
    assert_eq!((path.next_hop, path.source), (ip("10.0.0.254"), ip("10.0.0.1")));
    let sent = one.sent();
    let request = ArpPacket::parse(&sent[0][14..]).unwrap();
    assert_eq!(request.target(), Ipv4Addr::new(10, 0, 0, 254));
}

#[test]
fn a_silent_neighbour_is_told_to_the_sender() {
    let mut one = Station::new(1, &[("10.0.0.1", 24)]);
    one.world.known = vec![200];
    let packet = Departure::new(&[0; 8], BufferChain::copy_of(b"data").unwrap()).unwrap();
    let request = SendRequest::new(ip("10.0.0.9"), 200);
    one.run(|stack, run| stack.send(run, &request, packet)).unwrap();
    one.wait_until(10 * S);
    assert_eq!(one.sent().len(), 3, "three questions");
    let all = heard(&mut one);
    let [(IcmpMessage::Unreachable { code: unreachable::HOST, .. }, quote)] = &all[..] else {
        panic!("{all:?}")
    };
    assert_eq!(quote.len(), 32);
    assert_eq!(one.stack.drops.get(DropReason::NoNeighbour), 1);
}

/// Returns a frame with a packet of IPv4 for the host `number`.
fn frame(number: u8, fields: &Ipv4Fields, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let mac = [2, 0, 0, 0, 0, number];
    let link = EthernetHeader::new(mac, [2, 0, 0, 0, 0, 99], ethertype::IPV4);
    let header = fields.header(options, payload.len()).unwrap();
    [link.as_bytes(), header.as_bytes(), options, payload].concat()
}

fn fields(source: [u8; 4], destination: [u8; 4]) -> Ipv4Fields {
    Ipv4Fields {
        source: source.into(),
        destination: destination.into(),
        protocol: protocol::ICMP,
        traffic_class: 0,
        ttl: 64,
        identification: 1,
        cutting: Cutting::Allowed,
        place: FragmentPlace::default(),
    }
}

fn echo(data: &[u8]) -> Vec<u8> {
    let header = IcmpMessage::EchoRequest { identifier: 7, sequence: 1 }.header();
    let mut bytes = [header.as_bytes(), data].concat();
    let sum = Sum::of(&bytes).checksum();
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes
}

const OWN: [u8; 4] = [10, 0, 0, 2];
const PEER: [u8; 4] = [10, 0, 0, 9];

#[test]
fn impossible_sources_and_destinations_are_dropped() {
    let mut two = Station::new(2, &[("10.0.0.2", 24)]);
    let bad = [
        (OWN, OWN),
        ([127, 0, 0, 1], OWN),
        ([224, 0, 0, 1], OWN),
        ([255, 255, 255, 255], OWN),
        ([10, 0, 0, 255], OWN),
        ([0, 0, 0, 0], OWN),
        (PEER, [127, 0, 0, 1]),
    ];
    for (source, destination) in bad {
        two.receive(&frame(2, &fields(source, destination), &[], &echo(b"")));
    }
    assert_eq!(two.stack.drops.get(DropReason::Martian), bad.len() as u64);
    two.receive(&frame(2, &fields(PEER, [10, 0, 0, 3]), &[], &echo(b"")));
    two.receive(&frame(3, &fields(PEER, OWN), &[], &echo(b"")));
    let mut to_all = frame(2, &fields(PEER, OWN), &[], &echo(b""));
    to_all[..6].fill(0xff);
    two.receive(&to_all);
    two.receive(&frame(2, &fields(PEER, [10, 0, 0, 255]), &[], &echo(b"")));
    assert_eq!(two.stack.drops.get(DropReason::NotForUs), 4);
    assert!(two.sent().is_empty());
}

#[test]
fn padding_behind_a_packet_is_no_part_of_it() {
    let mut two = Station::new(2, &[("10.0.0.2", 24)]);
    two.world.known = vec![200];
    let other = Ipv4Fields { protocol: 200, ..fields(PEER, OWN) };
    let mut bytes = frame(2, &other, &[], b"xyz");
    bytes.resize(60, 0xee);
    two.receive(&bytes);
    assert_eq!(two.world.delivered, [(ip("10.0.0.9"), 200, b"xyz".to_vec())]);
}

#[test]
fn an_unknown_protocol_is_refused_with_the_packet_quoted() {
    let mut two = Station::new(2, &[("10.0.0.2", 24)]);
    let other = Ipv4Fields { protocol: 200, ..fields(PEER, OWN) };
    let bytes = frame(2, &other, &[], &[7; 1000]);
    two.receive(&bytes);
    answer_arp(&mut two);
    let sent = two.sent();
    let packet = Ipv4::parse(&sent[0][14..], sent[0].len() - 14).unwrap();
    assert_eq!(packet.header.total_length(), 576);
    let message = &sent[0][14 + 20..];
    assert!(Sum::of(message).is_valid());
    let code = unreachable::PROTOCOL;
    assert_eq!(IcmpMessage::parse(message).unwrap(), IcmpMessage::Unreachable { code, mtu: 0 });
    assert_eq!(message[8..], bytes[14..14 + 548]);
}

/// Answers the question for the peer 10.0.0.9 that the host has sent.
fn answer_arp(station: &mut Station) {
    let sent = station.sent();
    let request = *ArpPacket::parse(&sent[0][14..]).unwrap();
    let link = EthernetHeader::new(station.mac, [2, 0, 0, 0, 0, 99], ethertype::ARP);
    let reply = request.reply([2, 0, 0, 0, 0, 99]);
    assert_eq!(reply.operation(), ArpOperation::Reply);
    station.receive(&[link.as_bytes(), reply.as_bytes()].concat());
}

#[test]
fn no_error_is_told_about_an_error() {
    let mut two = Station::new(2, &[("10.0.0.2", 24)]);
    let error = IcmpMessage::TimeExceeded { code: 0 }.header();
    let mut bytes = [error.as_bytes(), &[0; 28]].concat();
    let sum = Sum::of(&bytes).checksum();
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    // A malformed option would be worth an error.
    two.receive(&frame(2, &fields(PEER, OWN), &[7, 99, 0, 0], &bytes));
    assert!(two.sent().is_empty());
    two.receive(&frame(2, &fields(PEER, OWN), &[7, 99, 0, 0], &echo(b"")));
    answer_arp(&mut two);
    let sent = two.sent();
    // The pointer is that of the option, as on Linux.
    let problem = IcmpMessage::ParameterProblem { code: 0, pointer: 20 };
    assert_eq!(IcmpMessage::parse(&sent[0][34..]).unwrap(), problem);
    two.receive(&frame(2, &fields(PEER, OWN), &[131, 4, 4, 0], &echo(b"")));
    assert!(two.sent().is_empty(), "a source route is refused in silence");
}

#[test]
fn errors_are_limited() {
    let mut two = Station::new(2, &[("10.0.0.2", 24)]);
    let other = Ipv4Fields { protocol: 200, ..fields(PEER, OWN) };
    let bytes = frame(2, &other, &[], b"x");
    two.receive(&bytes);
    answer_arp(&mut two);
    (0..100).for_each(|_| two.receive(&bytes));
    assert_eq!(two.sent().len(), 6);
    assert_eq!(two.stack.drops.get(DropReason::ErrorLimit), 95);
}

#[test]
fn a_packet_whose_payload_lies_in_other_memory_is_summed_and_echoed() {
    let mut two = Station::new(2, &[("10.0.0.2", 24)]);
    let data: Vec<u8> = (0..1000).map(|number| number as u8).collect();
    two.receive_split(&frame(2, &fields(PEER, OWN), &[], &echo(&data)), 43);
    answer_arp(&mut two);
    let sent = two.sent();
    assert!(Sum::of(&sent[0][34..]).is_valid());
    assert_eq!(sent[0][42..], data);
    let mut wrong = frame(2, &fields(PEER, OWN), &[], &echo(&data));
    wrong[900] ^= 1;
    two.receive_split(&wrong, 43);
    assert_eq!(two.stack.drops.get(DropReason::Checksum), 1);
}

#[test]
fn an_interface_that_is_down_passes_nothing() {
    let mut two = Station::new(2, &[("10.0.0.2", 24)]);
    two.stack
        .configure(|all| all.edit_interface(CARD, |card| card.flags.remove(InterfaceFlags::UP)))
        .unwrap();
    two.receive(&frame(2, &fields(PEER, OWN), &[], &echo(b"")));
    assert_eq!(two.stack.drops.get(DropReason::InterfaceDown), 1);
    assert_eq!(ping(&mut two, "10.0.0.9", b""), Err(SendError::NoRoute));
}
