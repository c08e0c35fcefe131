//! Packets whose bytes are known.
use packet::{
    HeaderWriter, PacketError, Sum,
    arp::{ArpOperation, ArpPacket},
    ethernet::{Ethernet, ethertype, of_group4, of_group6},
    groups::{RecordKind, decode_code},
    icmp::{IcmpMessage, unreachable},
    igmp::{self, IgmpMessage, IgmpVersion},
    ipv4::{Cutting, Ipv4, Ipv4Option, option},
    ipv6::{self, Audience, FoundFragment, Ipv6Header, Walk, WalkFault, problem},
    mld::{MldMessage, MldVersion},
    ndp::{NdpMessage, NdpOption, PrefixFlags},
    protocol,
    tcp::{TcpFlags, TcpHeader},
    tcp_options::{SackBlock, SegmentStage, TcpOptions},
    udp::UdpHeader,
};
use std::net::Ipv4Addr;

/// A query for example.com, from 192.168.0.104 port 45020 to 192.168.0.1 port 53, up to the header of UDP.
const QUERY: [u8; 28] = [
    0x45, 0x00, 0x00, 0x39, 0x8d, 0xb6, 0x40, 0x00, 0x40, 0x11, 0x2b, 0x44, 0xc0, 0xa8, 0x00, 0x68,
    0xc0, 0xa8, 0x00, 0x01, 0xaf, 0xdc, 0x00, 0x35, 0x00, 0x25, 0x00, 0x00,
];

fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[10..12].fill(0);
    let length = usize::from(bytes[0] & 15) * 4;
    let sum = Sum::of(&bytes[..length]).checksum();
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes
}

#[test]
fn an_ethernet_frame_with_and_without_a_tag() {
    let frame = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x08, 0x06, 0, 0];
    let parsed = Ethernet::parse(&frame).unwrap();
    assert_eq!(parsed.header.ethertype.get(), ethertype::ARP);
    assert_eq!(parsed.header.source, [7, 8, 9, 10, 11, 12]);
    assert!(parsed.vlan.is_none());
    let tagged = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x81, 0, 0x20, 0x05, 0x86, 0xdd];
    let tag = Ethernet::parse(&tagged).unwrap().vlan.unwrap();
    assert_eq!((tag.number(), tag.ethertype.get()), (5, ethertype::IPV6));
    assert_eq!(Ethernet::parse(&tagged[..16]).unwrap_err(), PacketError::Short);
    assert_eq!(Ethernet::parse(&[0; 14]).unwrap_err(), PacketError::Value);
}

#[test]
fn groups_have_their_addresses_on_the_link() {
    assert_eq!(of_group4(Ipv4Addr::new(239, 129, 2, 3)), [1, 0, 0x5e, 1, 2, 3]);
    assert_eq!(of_group6("ff02::1:ff00:1".parse().unwrap()), [0x33, 0x33, 0xff, 0, 0, 1]);
}

#[test]
fn an_arp_request_and_its_reply() {
    let request = [
        0, 1, 8, 0, 6, 4, 0, 1, 0x52, 0x54, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2,
        0, 0, 0,
    ];
    let packet = ArpPacket::parse(&request).unwrap();
    assert_eq!(packet.operation(), ArpOperation::Request);
    assert_eq!(packet.target(), Ipv4Addr::new(10, 0, 0, 2));
    let reply = packet.reply([2; 6]);
    assert_eq!(reply.operation(), ArpOperation::Reply);
    assert_eq!((reply.sender_mac(), reply.sender()), ([2; 6], packet.target()));
    assert_eq!(reply.target(), packet.sender());
    let mut group = request;
    group[8] = 1;
    assert_eq!(ArpPacket::parse(&group).unwrap_err(), PacketError::Value);
}

#[test]
fn the_header_of_a_query_for_a_name() {
    let bytes = with_checksum(QUERY.to_vec());
    let packet = Ipv4::parse(&bytes, 57).unwrap();
    assert_eq!(packet.header.source(), Ipv4Addr::new(192, 168, 0, 104));
    assert_eq!(packet.header.cutting(), Cutting::Forbidden);
    assert_eq!(packet.payload(), 20..57);
    let udp = UdpHeader::parse(&bytes[20..], 37).unwrap();
    assert_eq!((udp.source.get(), udp.destination.get(), udp.length()), (45020, 53, 37));
    assert_eq!(UdpHeader::parse(&bytes[20..], 36).unwrap_err(), PacketError::Length);
}

#[test]
fn an_ipv4_header_with_a_fault_is_refused() {
    let good = with_checksum(QUERY.to_vec());
    let fault = |place: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[place] = value;
        Ipv4::parse(&bytes, 57).unwrap_err()
    };
    assert_eq!(fault(0, 0x65), PacketError::Version);
    assert_eq!(fault(0, 0x44), PacketError::Length);
    assert_eq!(fault(3, 0x3a), PacketError::Length, "longer than the frame");
    assert_eq!(fault(3, 19), PacketError::Length, "shorter than the header");
    assert_eq!(fault(8, 1), PacketError::Checksum);
    assert_eq!(Ipv4::parse(&good[..19], 57).unwrap_err(), PacketError::Short);
}

#[test]
fn options_of_ipv4_and_the_place_of_a_fault() {
    let mut bytes = vec![0x47, 0, 0, 28, 0, 0, 0, 0, 1, 2, 0, 0, 10, 0, 0, 1, 224, 0, 0, 22];
    bytes.extend([option::ROUTER_ALERT, 4, 0, 0, 1, option::RECORD_ROUTE, 9, 0]);
    let bytes = with_checksum(bytes);
    let packet = Ipv4::parse(&bytes, 28).unwrap();
    let mut options = packet.options();
    let alert = Ipv4Option { kind: option::ROUTER_ALERT, data: &[0, 0] };
    assert_eq!(options.next(), Some(Ok(alert)));
    assert_eq!(options.next().unwrap().unwrap().kind, option::NOTHING);
    assert_eq!(options.next().unwrap().unwrap_err().pointer, 26);
    assert_eq!(options.next(), None);
}

#[test]
fn an_icmp_error_tells_the_mtu() {
    let message = IcmpMessage::parse(&[3, 4, 0, 0, 0, 0, 0x05, 0x78]).unwrap();
    assert_eq!(message, IcmpMessage::Unreachable { code: unreachable::TOO_BIG, mtu: 1400 });
    assert!(message.is_error());
    assert!(!IcmpMessage::parse(&[8, 0, 0, 0, 0, 1, 0, 2]).unwrap().is_error());
}

/// A packet of IPv6 to a group or to one host, with `next` as the kind of its first header and `body` behind.
fn packet6(next: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0, 0, body.len() as u8, next, 64];
    bytes.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    bytes.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    bytes.extend(body);
    bytes
}

#[test]
fn extension_headers_are_walked_to_the_upper_protocol() {
    let mut body = vec![protocol::DESTINATION, 0, 5, 2, 0, 0, 1, 0];
    body.extend([protocol::ROUTING, 0, 0x1e, 1, 0, 0, 0, 0]);
    body.extend([protocol::FRAGMENT, 0, 0, 0, 0, 0, 0, 0]);
    body.extend([protocol::UDP, 0, 0, 0, 0, 0, 0, 9]);
    body.extend([1, 2, 3, 4, 0, 8, 0, 0]);
    let bytes = packet6(protocol::HOP_BY_HOP, &body);
    Ipv6Header::parse(&bytes, bytes.len()).unwrap();
    let walk = Walk::of(&bytes).unwrap();
    assert_eq!((walk.protocol, walk.payload, walk.protocol_at), (protocol::UDP, 72, 64));
    assert!(walk.has_router_alert);
    assert!(walk.fragment.is_none(), "an atomic fragment is a whole packet");
}

#[test]
fn a_walk_stops_at_a_fragment() {
    let body = [protocol::UDP, 0, 0, 0x09, 0, 0, 0, 7, 0, 0, 0, 0];
    let walk = Walk::of(&packet6(protocol::FRAGMENT, &body)).unwrap();
    let FoundFragment { header, at, named_at } = walk.fragment.unwrap();
    assert_eq!((header.place().offset, header.place().has_more), (8, true));
    assert_eq!((at, named_at), (40, 6));
    assert_eq!((header.identification.get(), walk.payload), (7, 48));
}

#[test]
fn unknown_options_do_what_their_bits_say() {
    let walk = |kind: u8| {
        Walk::of(&packet6(protocol::DESTINATION, &[protocol::UDP, 0, kind, 0, 1, 2, 0, 0]))
    };
    assert!(walk(0x1e).is_ok());
    assert_eq!(walk(0x5e), Err(WalkFault::Drop));
    let fault = |audience| Err(WalkFault::Problem { code: problem::OPTION, pointer: 42, audience });
    assert_eq!(walk(0x9e), fault(Audience::All));
    assert_eq!(walk(0xde), fault(Audience::Unicast));
}

#[test]
fn headers_beyond_the_limits_are_refused() {
    let mut body = Vec::new();
    for _ in 0..=ipv6::EXTENSIONS_MAX {
        body.extend([protocol::DESTINATION, 0, 1, 4, 0, 0, 0, 0]);
    }
    assert_eq!(Walk::of(&packet6(protocol::DESTINATION, &body)), Err(WalkFault::Drop));
    let mut many = vec![protocol::UDP, 2];
    many.extend([[0x1e, 0]; 11].as_flattened());
    assert_eq!(Walk::of(&packet6(protocol::DESTINATION, &many)), Err(WalkFault::Drop));
    let second = [protocol::HOP_BY_HOP, 0, 1, 4, 0, 0, 0, 0, protocol::UDP, 0, 1, 4, 0, 0, 0, 0];
    let (code, audience) = (problem::NEXT_HEADER, Audience::Unicast);
    let fault = Err(WalkFault::Problem { code, pointer: 40, audience });
    assert_eq!(Walk::of(&packet6(protocol::DESTINATION, &second)), fault);
    let routing = [protocol::UDP, 0, 0, 1, 0, 0, 0, 0];
    let (code, audience) = (problem::FIELD, Audience::Unicast);
    let fault = Err(WalkFault::Problem { code, pointer: 42, audience });
    assert_eq!(Walk::of(&packet6(protocol::ROUTING, &routing)), fault);
}

#[test]
fn a_router_advertisement_with_its_options() {
    let mut bytes = vec![134, 0, 0, 0, 64, 0x40, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 3, 0xe8];
    bytes.extend([1, 1, 0x52, 0x54, 0, 0x12, 0x34, 0x56, 5, 1, 0, 0, 0, 0, 5, 0xdc]);
    bytes.extend([3, 4, 64, 0xc0, 0, 1, 0x51, 0x80, 0, 0, 0x38, 0x40, 0, 0, 0, 0]);
    bytes.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend([25, 3, 0, 0, 0, 0, 2, 0x58, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    let (message, options) = NdpMessage::parse(&bytes).unwrap().unwrap();
    let NdpMessage::RouterAdvertisement { hop_limit: 64, lifetime_s: 1800, retransmit_ms, .. } =
        message
    else {
        panic!("{message:?}")
    };
    assert_eq!(retransmit_ms, 1000);
    let options: Vec<NdpOption<'_>> = options.map(Result::unwrap).collect();
    assert_eq!(options[0], NdpOption::SourceLink([0x52, 0x54, 0, 0x12, 0x34, 0x56]));
    assert_eq!(options[1], NdpOption::Mtu(1500));
    let NdpOption::Prefix(prefix) = options[2] else { panic!("{options:?}") };
    assert_eq!((prefix.length(), prefix.valid_s(), prefix.preferred_s()), (64, 86_400, 14_400));
    assert_eq!(prefix.flags(), PrefixFlags::ON_LINK | PrefixFlags::AUTONOMOUS);
    let NdpOption::NameServers { lifetime_s: 600, addresses } = options[3] else {
        panic!("{options:?}")
    };
    assert_eq!(addresses.len(), 1);
    bytes[17] = 0;
    assert_eq!(NdpMessage::parse(&bytes).unwrap_err(), PacketError::Length);
    bytes[17] = 20;
    assert_eq!(NdpMessage::parse(&bytes).unwrap_err(), PacketError::Short);
}

#[test]
fn queries_of_igmp_have_the_version_of_their_length() {
    let sealed = |mut bytes: Vec<u8>| {
        let sum = Sum::of(&bytes).checksum();
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        bytes
    };
    let version = |bytes: &[u8]| match IgmpMessage::parse(bytes).unwrap() {
        IgmpMessage::Query { version, response_ms, sources, .. } => {
            (version, response_ms, sources.len())
        }
        other => panic!("{other:?}"),
    };
    let old = sealed(vec![0x11, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(version(&old), (IgmpVersion::V1, 10_000, 0));
    let middle = sealed(vec![0x11, 100, 0, 0, 224, 1, 1, 1]);
    assert_eq!(version(&middle), (IgmpVersion::V2, 10_000, 0));
    assert_eq!(middle, igmp::query_v2(Ipv4Addr::new(224, 1, 1, 1), 100));
    let new = sealed(vec![0x11, 0x8a, 0, 0, 224, 1, 1, 1, 2, 125, 0, 1, 10, 0, 0, 9]);
    assert_eq!(version(&new), (IgmpVersion::V3, 20_800, 1));
    let short = sealed(vec![0x11, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(IgmpMessage::parse(&short).unwrap_err(), PacketError::Length);
    assert_eq!(IgmpMessage::parse(&[0x11; 8]).unwrap_err(), PacketError::Checksum);
}

#[test]
fn codes_of_delays_are_floating_numbers() {
    assert_eq!(decode_code(127, 4), 127);
    assert_eq!(decode_code(128, 4), 128);
    assert_eq!(decode_code(255, 4), 31 << 10);
    assert_eq!(decode_code(0x7fff, 12), 0x7fff);
    assert_eq!(decode_code(0xffff, 12), 0x1fff << 10);
}

#[test]
fn a_report_of_mld_has_records() {
    let mut bytes = vec![143, 0, 0, 0, 0, 0, 0, 2, 9, 0, 0, 0];
    bytes.extend([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5]);
    bytes.extend([4, 1, 0, 0]);
    bytes.extend([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6]);
    bytes.extend([0; 4]);
    let Some(MldMessage::Records(records)) = MldMessage::parse(&bytes).unwrap() else { panic!() };
    let records: Vec<_> = records.map(Result::unwrap).collect();
    assert_eq!(records.len(), 1, "the kind 9 is unknown");
    assert_eq!((records[0].kind, records[0].group[15]), (RecordKind::ToExclude, 6));
    let query = [&[130, 0, 0, 0, 0x27, 0x10, 0, 0][..], &[0; 16]].concat();
    let Some(MldMessage::Query { version: MldVersion::V1, response_ms: 10_000, .. }) =
        MldMessage::parse(&query).unwrap()
    else {
        panic!()
    };
}

/// The first segment of a connection, as Linux sends it.
const SYN: [u8; 40] = [
    0x9c, 0x40, 0x00, 0x50, 0x11, 0x22, 0x33, 0x44, 0, 0, 0, 0, 0xa0, 0x02, 0xfa, 0xf0, 0, 0, 0, 0,
    2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0x01, 0x02, 0x03, 0x04, 0, 0, 0, 0, 1, 3, 3, 7,
];

#[test]
fn the_options_of_linux() {
    let (header, bytes) = TcpHeader::parse(&SYN, SYN.len()).unwrap();
    assert_eq!((header.length(), header.flags()), (40, TcpFlags::SYN));
    let options = TcpOptions::parse(bytes, SegmentStage::Opening);
    assert_eq!((options.segment_size, options.window_scale), (Some(1460), Some(7)));
    assert!(options.is_sack_permitted);
    assert_eq!(options.timestamps.unwrap().value, 0x0102_0304);
    let mut room = [0; 40];
    let mut writer = HeaderWriter::new(&mut room);
    options.write(&mut writer).unwrap();
    assert_eq!(writer.written(), bytes);
    let later = TcpOptions::parse(bytes, SegmentStage::Open);
    assert_eq!((later.segment_size, later.is_sack_permitted), (None, false));
}

#[test]
fn malformed_tcp_options_end_or_are_passed_over() {
    let parse = |bytes: &[u8]| TcpOptions::parse(bytes, SegmentStage::Opening);
    assert_eq!(parse(&[2, 3, 5, 3, 3, 20]).segment_size, None);
    assert_eq!(parse(&[2, 3, 5, 3, 3, 20]).window_scale, Some(14), "14 is the greatest");
    assert_eq!(parse(&[3, 3, 1, 2, 0, 5, 0xb4]).segment_size, None, "a length of 0 ends");
    assert_eq!(parse(&[3, 3, 1, 2, 9, 5, 0xb4]).window_scale, Some(1), "a length too great ends");
    assert_eq!(parse(&[0, 3, 3, 1]).window_scale, None, "nothing follows the end");
    assert_eq!(parse(&[2, 4, 0, 0]).segment_size, None, "zero says nothing");
    assert_eq!(parse(&[2]), TcpOptions::default());
    assert_eq!(parse(&[5, 9, 0, 0, 0, 1, 0, 0, 0]).sack.as_slice(), []);
    let sack = parse(&[1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 5]);
    assert_eq!(sack.sack.as_slice(), [SackBlock { start: 1, end: 5 }]);
    assert!(parse(&[34, 5, 1, 2, 3]).fast_open.is_none(), "an odd length");
    assert_eq!(parse(&[34, 2]).fast_open.unwrap().as_slice(), []);
    assert_eq!(
        parse(&[254, 8, 0xf9, 0x89, 1, 2, 3, 4]).fast_open.unwrap().as_slice(),
        [1, 2, 3, 4]
    );
}

#[test]
fn a_tcp_header_with_a_fault_is_refused() {
    let mut bytes = SYN;
    bytes[12] = 0x40;
    assert_eq!(TcpHeader::parse(&bytes, 40).unwrap_err(), PacketError::Length);
    assert_eq!(TcpHeader::parse(&SYN, 39).unwrap_err(), PacketError::Length);
    assert_eq!(TcpHeader::parse(&SYN[..30], 40).unwrap_err(), PacketError::Short);
}
