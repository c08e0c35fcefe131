//! Sockets of echo requests, and raw sockets.
use super::{
    link::{CARD, S, Station, exchange, ip},
    sockets::{RECEIVE_MAX, Socket, bytes, datagram, end},
};
use crate::*;
use interfaces::sockets::{DatagramProtocol, SentDatagram, SocketFamilies};
use packet::{
    Sum,
    icmp::{IcmpMessage, unreachable},
    icmpv6::Icmpv6Message,
    ipv4::{Cutting, FragmentPlace, Ipv4, Ipv4Fields},
    protocol,
    udp::UdpHeader,
};
use zerocopy::IntoBytes;

fn pair() -> (Station, Station) {
    let one = Station::new(1, &[("10.0.0.1", 24), ("fd00::1", 64)]);
    (one, Station::new(2, &[("10.0.0.2", 24), ("fd00::2", 64)]))
}

fn ping_socket(station: &Station, families: SocketFamilies) -> Socket {
    Socket::open(station, DatagramProtocol::Ping, families)
}

/// Returns an echo request as a program writes it: identifier and checksum are the stack's.
fn request(kind: u8, sequence: u8, data: &[u8]) -> Vec<u8> {
    [&[kind, 0, 0xaa, 0xbb, 0xcc, 0xdd, 0, sequence], data].concat()
}

#[test]
fn types_of_icmp_are_filtered() {
    let (mut one, _) = pair();
    for (number, families, to, kinds, word) in [
        (1, SocketFamilies::V4, "127.0.0.1", [8u8, 0], 0),
        (58, SocketFamilies::V6, "::1", [128, 129], 4),
    ] {
        let raw = Socket::open(&one, DatagramProtocol::Raw(number), families);
        let ping = ping_socket(&one, families);
        for filtered in kinds {
            raw.configure(&one, |options| {
                options.icmp_filter = [0; 8];
                options.icmp_filter[word] = 1 << (filtered % 32);
            });
            ping.send(&mut one, Some(end(to, 0)), &request(kinds[0], 1, b"x")).unwrap();
            let heard: Vec<u8> = std::iter::from_fn(|| raw.receive())
                .map(|(_, packet)| packet[if number == 1 { 20 } else { 0 }])
                .collect();
            let other = kinds.into_iter().find(|kind| *kind != filtered).unwrap();
            assert_eq!(heard, [other]);
        }
        raw.close(&mut one);
    }
}

#[test]
fn echo_replies_come_to_the_socket_with_their_identifier() {
    let (mut one, mut two) = pair();
    for (to, families, kinds) in [
        ("10.0.0.2", SocketFamilies::V4, (8, 0)),
        ("fd00::2", SocketFamilies::V6, (128, 129)),
        ("127.0.0.1", SocketFamilies::V4, (8, 0)),
        ("::1", SocketFamilies::V6, (128, 129)),
    ] {
        let sockets = [0, 1].map(|_| ping_socket(&one, families));
        for (number, socket) in sockets.iter().enumerate() {
            let data = vec![number as u8; 56 + 301 * number];
            socket.send(&mut one, Some(end(to, 0)), &request(kinds.0, 3, &data)).unwrap();
        }
        exchange(&mut one, &mut two);
        for (number, socket) in sockets.iter().enumerate() {
            let (source, message) = socket.receive().unwrap();
            assert_eq!(source, end(to, 0));
            let identifier = socket.local(&one).port().to_be_bytes();
            assert_eq!(
                (message[0], &message[4..8]),
                (kinds.1, &[identifier[0], identifier[1], 0, 3][..])
            );
            assert_eq!(message[8..], vec![number as u8; 56 + 301 * number]);
            assert!(socket.receive().is_none());
            socket.close(&mut one);
        }
    }
    assert_eq!(one.stack.drops.get(DropReason::Checksum), 0);
}

#[test]
fn only_echo_requests_leave_a_ping_socket() {
    let (mut one, _) = pair();
    let (four, six) =
        (ping_socket(&one, SocketFamilies::V4), ping_socket(&one, SocketFamilies::Both));
    let to = Some(end("10.0.0.2", 0));
    let invalid = Err(SocketError::Invalid);
    assert_eq!(four.send(&mut one, to, &request(0, 1, b"reply")), invalid);
    assert_eq!(four.send(&mut one, to, &request(128, 1, b"of ICMPv6")), invalid);
    assert_eq!(four.send(&mut one, to, &[8, 0, 0, 0, 0, 0, 0]), invalid, "too short");
    assert_eq!(four.send(&mut one, to, &[8, 1, 0, 0, 0, 0, 0, 0]), invalid, "a code");
    assert_eq!(six.send(&mut one, Some(end("fd00::2", 0)), &request(8, 1, b"")), invalid);
    assert_eq!(six.send(&mut one, to, &request(128, 1, b"")), Err(SocketError::NetworkUnreachable));
    let nowhere = Err(SocketError::NoDestination);
    assert_eq!(four.send(&mut one, None, &request(8, 1, b"")), nowhere);
    let all = Some(end("10.0.0.255", 0));
    assert_eq!(four.send(&mut one, all, &request(8, 1, b"")), Err(SocketError::Forbidden));
    assert!(one.sent().is_empty());
}

#[test]
fn an_identifier_is_one_sockets() {
    let (mut one, mut two) = pair();
    let first = ping_socket(&one, SocketFamilies::V4);
    first.bind(&mut one, end("10.0.0.1", 77)).unwrap();
    assert_eq!(first.local(&one), end("10.0.0.1", 77));
    let second = ping_socket(&one, SocketFamilies::V6);
    assert_eq!(second.bind(&mut one, end("::", 77)), Err(SocketError::InUse));
    assert_eq!(second.bind(&mut one, end("ff0e::1", 78)), Err(SocketError::NoAddress));
    let third = ping_socket(&one, SocketFamilies::V4);
    assert_eq!(third.bind(&mut one, end("10.0.0.255", 78)), Err(SocketError::NoAddress));
    // UDP has other numbers.
    Socket::udp(&one, SocketFamilies::V4).bind(&mut one, end("0.0.0.0", 77)).unwrap();
    first.connect(&mut one, Some(end("10.0.0.2", 9))).unwrap();
    first.send(&mut one, None, &request(8, 1, b"connected")).unwrap();
    exchange(&mut one, &mut two);
    assert_eq!(&first.receive().unwrap().1[8..], b"connected");
}

#[test]
fn errors_about_echo_requests_reach_their_socket() {
    let (mut one, _) = pair();
    let socket = ping_socket(&one, SocketFamilies::V4);
    socket.configure(&one, |options| options.queues_errors = true);
    let other = ping_socket(&one, SocketFamilies::V4);
    other.configure(&one, |options| options.queues_errors = true);
    other.bind(&mut one, end("0.0.0.0", 5)).unwrap();
    // Nobody has this address.
    socket.send(&mut one, Some(end("10.0.0.9", 0)), &request(8, 1, b"hello")).unwrap();
    one.wait_until(one.now_ns + 10 * S);
    assert_eq!(socket.error(), Some(SocketError::HostUnreachable));
    let report = socket.report().unwrap();
    assert_eq!((report.error, report.message), (SocketError::HostUnreachable, (3, 1)));
    assert_eq!(report.destination, end("10.0.0.9", 0));
    let payload = bytes(&report.payload);
    assert_eq!((payload[0], &payload[8..]), (8, &b"hello"[..]));
    assert!(other.report().is_none() && other.error().is_none());
}

/// The path's MTU is learnt from an error about an echo request that a socket has sent, and from no other.
#[test]
fn a_forged_error_about_an_echo_request_teaches_nothing() {
    let (mut one, mut two) = pair();
    let socket = ping_socket(&one, SocketFamilies::V4);
    socket.send(&mut one, Some(end("10.0.0.2", 0)), &request(8, 1, &[0; 1000])).unwrap();
    exchange(&mut one, &mut two);
    socket.send(&mut one, Some(end("10.0.0.2", 0)), &request(8, 2, &[0; 1000])).unwrap();
    let mut quoted = one.sent().remove(0)[14..14 + 28].to_vec();
    let ears = std::mem::replace(&mut one.ears, super::sockets::Ears::new(&Stack::new([0; 16])));
    ears.close(&mut one);
    let tell = |one: &mut Station, two: &mut Station, quoted: &[u8]| {
        let message = IcmpMessage::Unreachable { code: unreachable::TOO_BIG, mtu: 1000 };
        let mut bytes = [message.header().as_bytes(), quoted].concat();
        let sum = Sum::of(&bytes).checksum();
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        let packet = Departure::new(&bytes, BufferChain::default()).unwrap();
        let request = SendRequest::new(ip("10.0.0.1"), protocol::ICMP);
        two.run(|stack, run| stack.send(run, &request, packet)).unwrap();
        exchange(one, two);
        one.stack.path_mtus.get(ip("10.0.0.2"), one.now_ns)
    };
    quoted[24] ^= 1;
    assert_eq!(tell(&mut one, &mut two, &quoted), None);
    quoted[24] ^= 1;
    assert_eq!(tell(&mut one, &mut two, &quoted), Some(1000));
}

#[test]
fn a_raw_socket_gets_all_packets_of_its_protocol_with_their_headers() {
    let (mut one, mut two) = pair();
    let udp = Socket::open(&two, DatagramProtocol::Raw(protocol::UDP), SocketFamilies::V4);
    let server = Socket::udp(&two, SocketFamilies::V4);
    server.bind(&mut two, end("0.0.0.0", 53)).unwrap();
    let client = Socket::udp(&one, SocketFamilies::V4);
    for length in [5, 1000] {
        client.send(&mut one, Some(end("10.0.0.2", 53)), &vec![7; length]).unwrap();
        exchange(&mut one, &mut two);
        let (source, packet) = udp.receive().unwrap();
        let parsed = Ipv4::parse(&packet, packet.len()).unwrap();
        assert_eq!((source, parsed.payload()), (end("10.0.0.1", 0), 20..28 + length));
        assert_eq!(packet[28..], vec![7; length]);
        assert_eq!(server.receive().unwrap().1, vec![7; length], "UDP gets it, too");
    }
    assert_eq!(udp.local(&two), end("0.0.0.0", protocol::UDP.into()));
    let mine = Socket::open(&two, DatagramProtocol::Raw(200), SocketFamilies::V4);
    let sender = Socket::open(&one, DatagramProtocol::Raw(200), SocketFamilies::V4);
    sender.send(&mut one, Some(end("10.0.0.2", 0)), b"two hundred").unwrap();
    exchange(&mut one, &mut two);
    assert_eq!(&mine.receive().unwrap().1[20..], b"two hundred");
    assert!(one.ears.heard().is_empty(), "the protocol is not refused");
    mine.close(&mut two);
    sender.configure(&one, |options| options.queues_errors = true);
    sender.send(&mut one, Some(end("10.0.0.2", 0)), b"again").unwrap();
    exchange(&mut one, &mut two);
    assert_eq!(sender.error(), Some(SocketError::NoProtocol));
    let report = sender.report().unwrap();
    assert_eq!((report.message, bytes(&report.payload)), ((3, 2), b"again".to_vec()));
}

#[test]
fn a_raw_socket_gets_what_matches_its_names() {
    let (mut one, mut two) = pair();
    let open = |two: &Station| Socket::open(two, DatagramProtocol::Raw(200), SocketFamilies::V4);
    let [bound, connected, elsewhere, carded] = [0; 4].map(|_| open(&two));
    bound.bind(&mut two, end("10.0.0.2", 0)).unwrap();
    bound.bind(&mut two, end("10.0.0.2", 0)).unwrap();
    connected.connect(&mut two, Some(end("10.0.0.1", 99))).unwrap();
    assert_eq!(connected.bind(&mut two, end("10.0.0.2", 0)), Err(SocketError::Invalid));
    elsewhere.connect(&mut two, Some(end("10.0.0.77", 0))).unwrap();
    carded.configure(&two, |options| options.interface = Some(1));
    let sender = open(&one);
    sender.send(&mut one, Some(end("10.0.0.2", 0)), b"x").unwrap();
    exchange(&mut one, &mut two);
    let got = [bound, connected, elsewhere, carded].map(|socket| socket.receive().is_some());
    assert_eq!(got, [true, true, false, false]);
}

#[test]
fn a_program_may_write_the_header_of_ipv4() {
    let (mut one, mut two) = pair();
    let raw = Socket::open(&one, DatagramProtocol::Raw(255), SocketFamilies::V4);
    let server = Socket::udp(&two, SocketFamilies::V4);
    server.bind(&mut two, end("0.0.0.0", 53)).unwrap();
    let udp = [UdpHeader::new(9, 53, 300).unwrap().as_bytes(), &[7; 300]].concat();
    let fields = Ipv4Fields {
        source: [0, 0, 0, 0].into(),
        destination: [10, 0, 0, 2].into(),
        protocol: protocol::UDP,
        traffic_class: 0x20,
        ttl: 5,
        identification: 0,
        cutting: Cutting::Allowed,
        place: FragmentPlace::default(),
    };
    let mut packet = [fields.header(&[], 0).unwrap().as_bytes(), &udp].concat();
    packet[10] ^= 0xff;
    raw.send(&mut one, Some(end("10.0.0.2", 0)), &packet).unwrap();
    exchange(&mut one, &mut two);
    let got = server.take().unwrap();
    assert_eq!((got.source, got.hop_limit, got.traffic_class), (end("10.0.0.1", 9), 5, 0x20));
    assert_eq!(bytes(&got.payload), [7; 300]);
    packet[12..16].copy_from_slice(&[10, 0, 0, 99]);
    raw.send(&mut one, Some(end("10.0.0.2", 0)), &packet).unwrap();
    exchange(&mut one, &mut two);
    assert_eq!(server.take().unwrap().source, end("10.0.0.99", 9), "a source of its own");
    let to = Some(end("10.0.0.2", 0));
    assert_eq!(raw.send(&mut one, to, &packet[..19]), Err(SocketError::Invalid));
    packet[0] = 0x4f;
    assert_eq!(raw.send(&mut one, to, &packet[..40]), Err(SocketError::Invalid));
    assert_eq!(raw.send(&mut one, to, &[0x45; 1501]), Err(SocketError::MessageSize), "never cut");
}

#[test]
fn the_stack_sums_what_raw_sockets_of_ipv6_send_and_receive() {
    let (mut one, mut two) = pair();
    let icmp = Socket::open(&one, DatagramProtocol::Raw(protocol::ICMPV6), SocketFamilies::V6);
    let to = Some(end("fd00::2", 0));
    icmp.send(&mut one, to, &[128, 0, 0x55, 0x55, 0, 7, 0, 9, 1, 2, 3]).unwrap();
    exchange(&mut one, &mut two);
    let heard: Vec<_> = std::iter::from_fn(|| icmp.receive()).map(|(_, data)| data).collect();
    let reply = Icmpv6Message::EchoReply { identifier: 7, sequence: 9 };
    assert!(heard.iter().any(|message| Icmpv6Message::parse(message) == Ok(reply)));
    let [sender, receiver] = [&one, &two]
        .map(|host| Socket::open(host, DatagramProtocol::Raw(200), SocketFamilies::Both));
    receiver.configure(&two, |options| options.checksum_at = Some(2));
    sender.send(&mut one, to, b"not summed").unwrap();
    exchange(&mut one, &mut two);
    assert!(receiver.receive().is_none());
    assert_eq!(two.stack.drops.get(DropReason::Checksum), 1);
    sender.configure(&one, |options| options.checksum_at = Some(2));
    sender.send(&mut one, to, b"ab..cdefg").unwrap();
    exchange(&mut one, &mut two);
    let (_, data) = receiver.receive().unwrap();
    assert_eq!((&data[..2], &data[4..]), (&b"ab"[..], &b"cdefg"[..]));
    assert_eq!(sender.send(&mut one, to, b"abc"), Err(SocketError::Invalid), "no room for it");
    assert_eq!(
        sender.send(&mut one, Some(end("fd00::2", 201)), b"abcdef"),
        Err(SocketError::Invalid)
    );
    sender.send(&mut one, Some(end("fd00::2", 200)), b"abcdef").unwrap();
}

#[test]
fn floods_of_echo_and_raw_packets_are_bounded() {
    let (mut one, mut two) = pair();
    let ping = ping_socket(&one, SocketFamilies::V4);
    let raw = Socket::open(&one, DatagramProtocol::Raw(protocol::ICMP), SocketFamilies::V4);
    let data = request(8, 1, &[0; 1000]);
    for _ in 0..3000 {
        ping.send(&mut one, Some(end("10.0.0.2", 0)), &data).unwrap();
        exchange(&mut one, &mut two);
    }
    for socket in [&ping, &raw] {
        let (charged, dropped) = socket.queue.usage();
        assert!(charged <= RECEIVE_MAX + 1500 + 256 && dropped > 2000, "{charged} {dropped}");
    }
    let special =
        SentDatagram { interface: Some(CARD.0), ..datagram(Some(end("10.0.0.2", 0)), &data) };
    ping.send_with(&mut one, &special).unwrap();
    ping.queue.clear();
    exchange(&mut one, &mut two);
    assert_eq!(ping.take().unwrap().dropped as u64, ping.queue.usage().1);
}
