//! Sockets of datagrams: names, wishes of one datagram, local errors, floods.
use super::{
    link::{CARD, S, Station, exchange, ip},
    sockets::{RECEIVE_MAX, Socket, bytes, datagram, end},
};
use crate::*;
use interfaces::{
    nic::PacketSegment,
    sockets::{DatagramProtocol, PathDiscovery, Payload, SentDatagram, SocketFamilies},
};
use packet::{
    Sum,
    icmp::IcmpMessage,
    ipv4::{Cutting, Ipv4},
};
use rt::memory::Frame;
use std::sync::Arc;

fn pair() -> (Station, Station) {
    let one = Station::new(1, &[("10.0.0.1", 24), ("10.0.0.5", 24), ("fd00::1", 64)]);
    (one, Station::new(2, &[("10.0.0.2", 24), ("fd00::2", 64)]))
}

/// Makes two hosts that know each other.
fn acquainted() -> (Station, Station) {
    let (mut one, mut two) = pair();
    for (address, families) in [("10.0.0.2", SocketFamilies::V4), ("fd00::2", SocketFamilies::V6)] {
        let client = Socket::udp(&one, families);
        client.send(&mut one, Some(end(address, 9)), b"").unwrap();
        exchange(&mut one, &mut two);
        client.close(&mut one);
    }
    (one, two)
}

#[test]
fn a_socket_of_both_families_names_them_as_linux_does() {
    let (mut one, _) = pair();
    let socket = Socket::udp(&one, SocketFamilies::Both);
    assert_eq!(socket.local(&one), end("::", 0));
    socket.connect(&mut one, Some(end("10.0.0.2", 53))).unwrap();
    let port = socket.local(&one).port();
    assert_eq!(socket.local(&one), end("10.0.0.1", port));
    assert_eq!(socket.peer(&one), Some(end("10.0.0.2", 53)));
    socket.connect(&mut one, None).unwrap();
    assert_eq!((socket.local(&one), socket.peer(&one)), (end("::", 0), None));
    socket.bind(&mut one, end("0.0.0.0", 53)).unwrap();
    let client = Socket::udp(&one, SocketFamilies::Both);
    client.send(&mut one, Some(end("::1", 53)), b"six").unwrap();
    assert_eq!(client.error(), None, "it is not connected");
    assert!(socket.receive().is_none(), "the mapped unspecified address takes IPv4 alone");
    client.send(&mut one, Some(end("127.0.0.1", 53)), b"four").unwrap();
    assert_eq!(socket.receive().unwrap().1, b"four");
    let six = Socket::udp(&one, SocketFamilies::V6);
    assert_eq!(six.bind(&mut one, end("10.0.0.1", 54)), Err(SocketError::Invalid));
    let unreachable = Err(SocketError::NetworkUnreachable);
    assert_eq!(six.connect(&mut one, Some(end("10.0.0.2", 54))), unreachable);
    assert_eq!(six.send(&mut one, Some(end("10.0.0.2", 54)), b""), unreachable);
    let four = Socket::udp(&one, SocketFamilies::V4);
    assert_eq!(four.connect(&mut one, Some(end("fd00::2", 54))), Err(SocketError::Family));
}

#[test]
fn the_unspecified_address_is_this_host_and_port_zero_any_of_a_peer() {
    let (mut one, _) = pair();
    let server = Socket::udp(&one, SocketFamilies::Both);
    server.bind(&mut one, end("::", 53)).unwrap();
    for (to, from, families) in
        [("0.0.0.0", "127.0.0.1", SocketFamilies::V4), ("::", "::1", SocketFamilies::V6)]
    {
        let client = Socket::udp(&one, families);
        client.send(&mut one, Some(end(to, 53)), b"x").unwrap();
        assert_eq!(server.receive().unwrap().0.ip(), ip(from));
        client.connect(&mut one, Some(end(to, 0))).unwrap();
        assert_eq!(client.peer(&one), Some(end(from, 0)));
        let own = client.local(&one);
        server.send(&mut one, Some(own), b"y").unwrap();
        assert_eq!(client.receive().unwrap().1, b"y");
    }
}

#[test]
fn a_bound_address_outlives_the_peer() {
    let (mut one, _) = pair();
    let socket = Socket::udp(&one, SocketFamilies::V4);
    socket.bind(&mut one, end("10.0.0.5", 0)).unwrap();
    let port = socket.local(&one).port();
    socket.connect(&mut one, Some(end("10.0.0.2", 53))).unwrap();
    assert_eq!(socket.local(&one), end("10.0.0.5", port));
    socket.connect(&mut one, None).unwrap();
    assert_eq!(socket.local(&one), end("10.0.0.5", 0), "the stack chose the port");
    let group = Socket::udp(&one, SocketFamilies::V4);
    group.bind(&mut one, end("239.1.2.3", 5000)).unwrap();
    group.connect(&mut one, Some(end("10.0.0.2", 53))).unwrap();
    assert_eq!(group.local(&one), end("239.1.2.3", 5000), "a group stays the receiver");
    group.send(&mut one, None, b"x").unwrap();
}

#[test]
fn one_datagram_may_wish_for_source_interface_hops_and_class() {
    let (mut one, mut two) = acquainted();
    let server = Socket::udp(&two, SocketFamilies::Both);
    server.bind(&mut two, end("::", 53)).unwrap();
    let client = Socket::udp(&one, SocketFamilies::Both);
    for (to, source, refused) in [
        ("10.0.0.2", "10.0.0.5", SocketError::NetworkUnreachable),
        ("fd00::2", "fd00::1", SocketError::Invalid),
    ] {
        let wish = SentDatagram {
            source: Some(ip(source)),
            interface: Some(CARD.0),
            hop_limit: Some(3),
            traffic_class: Some(0x48),
            ..datagram(Some(end(to, 53)), b"special")
        };
        client.send_with(&mut one, &wish).unwrap();
        client.send(&mut one, Some(end(to, 53)), b"plain").unwrap();
        exchange(&mut one, &mut two);
        let got = server.take().unwrap();
        let found = (got.source.ip(), got.hop_limit, got.traffic_class, got.interface);
        assert_eq!(found, (ip(source), 3, 0x48, CARD.0));
        let got = server.take().unwrap();
        assert_eq!((got.hop_limit, got.traffic_class), (64, 0));
        let foreign = SentDatagram { source: Some(ip("10.0.0.9")), ..wish };
        assert_eq!(client.send_with(&mut one, &foreign), Err(refused));
    }
    let nowhere = SentDatagram { interface: Some(77), ..datagram(Some(end("10.0.0.2", 53)), b"") };
    assert_eq!(client.send_with(&mut one, &nowhere), Err(SocketError::NoInterface));
    client.configure(&one, |options| {
        (options.ttl, options.type_of_service) = (Some(7), 0x10);
        (options.hops, options.traffic_class) = (Some(8), 0x20);
    });
    for (to, expected) in [("10.0.0.2", (7, 0x10)), ("fd00::2", (8, 0x20))] {
        client.send(&mut one, Some(end(to, 53)), b"").unwrap();
        exchange(&mut one, &mut two);
        let got = server.take().unwrap();
        assert_eq!((got.hop_limit, got.traffic_class), expected);
    }
}

#[test]
fn a_payload_is_cut_into_datagrams() {
    let (mut one, mut two) = acquainted();
    let server = Socket::udp(&two, SocketFamilies::V4);
    server.bind(&mut two, end("0.0.0.0", 53)).unwrap();
    let client = Socket::udp(&one, SocketFamilies::V4);
    let data: Vec<u8> = (0..2500u32).map(|at| (at / 3) as u8).collect();
    let cut = |segment, data: &[u8]| SentDatagram {
        segment: Some(segment),
        ..datagram(Some(end("10.0.0.2", 53)), data)
    };
    client.send_with(&mut one, &cut(1000, &data)).unwrap();
    assert_eq!(exchange(&mut one, &mut two), 3);
    let all: Vec<Vec<u8>> = std::iter::from_fn(|| server.receive().map(|(_, data)| data)).collect();
    assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [1000, 1000, 500]);
    assert_eq!(all.concat(), data);
    assert_eq!(client.send_with(&mut one, &cut(1473, &data)), Err(SocketError::Invalid));
    assert_eq!(client.send_with(&mut one, &cut(10, &data)), Err(SocketError::Invalid));
    client.send_with(&mut one, &cut(10, b"")).unwrap();
    exchange(&mut one, &mut two);
    assert_eq!(server.receive().unwrap().1, b"");
}

/// Several datagrams of one call pass over loopback as one packet, and come as one to a socket that takes them so (`UDP_GRO`).
#[test]
fn several_datagrams_come_as_one_to_a_socket_that_asked() {
    let mut one = Station::new(1, &[]);
    let data: Vec<u8> = (0..2500u32).map(|at| (at / 3) as u8).collect();
    for (any, to, families) in
        [("0.0.0.0", "127.0.0.1", SocketFamilies::V4), ("::", "::1", SocketFamilies::V6)]
    {
        let (server, client) = (Socket::udp(&one, families), Socket::udp(&one, families));
        server.bind(&mut one, end(any, 53)).unwrap();
        let mut send = |segment, data: &[u8]| {
            let datagram =
                SentDatagram { segment: Some(segment), ..datagram(Some(end(to, 53)), data) };
            client.send_with(&mut one, &datagram).unwrap();
        };
        let take = || {
            let all = std::iter::from_fn(|| server.take());
            all.map(|one| (one.segment, bytes(&one.payload))).collect::<Vec<_>>()
        };
        send(1000, &data);
        let parts = data.chunks(1000).map(|part| (None, part.to_vec()));
        assert_eq!(take(), parts.collect::<Vec<_>>());
        server.queue.set_takes_several(true);
        send(1000, &data);
        send(2500, &data);
        send(7, b"");
        assert_eq!(take(), [(Some(1000), data.clone()), (None, data.clone()), (None, vec![])]);
        server.close(&mut one);
    }
}

/// A card that sums gets the sum of the pseudo header; one that cuts gets several datagrams as one packet. Fragments are summed here.
#[test]
fn sums_and_cuts_are_left_to_a_card_that_can() {
    let (mut one, mut two) = acquainted();
    let server = Socket::udp(&two, SocketFamilies::V4);
    server.bind(&mut two, end("0.0.0.0", 53)).unwrap();
    let client = Socket::udp(&one, SocketFamilies::V4);
    let cut =
        SentDatagram { segment: Some(1000), ..datagram(Some(end("10.0.0.2", 53)), &[7; 2500]) };
    for (offloads, expected) in [
        (LinkOffloads::empty(), vec![None; 3]),
        (LinkOffloads::CHECKSUM, vec![Some(None); 3]),
        (LinkOffloads::CHECKSUM | LinkOffloads::UDP, vec![Some(Some(1000))]),
    ] {
        one.stack
            .configure(|all| all.edit_interface(CARD, |card| card.offloads = offloads))
            .unwrap();
        client.send_with(&mut one, &cut).unwrap();
        let left: Vec<_> =
            one.world.left.iter().map(|work| work.map(|work| work.segment)).collect();
        assert_eq!(left, expected);
        let frames = one.sent();
        let length = (frames[0].len() - 34) as u32;
        let pseudo = Sum::pseudo_header(ip("10.0.0.1"), ip("10.0.0.2"), 17, length);
        let is_left = frames[0][40..42] == pseudo.folded().to_be_bytes();
        assert_eq!(is_left, !offloads.is_empty());
        client.send(&mut one, Some(end("10.0.0.2", 53)), &[7; 2500]).unwrap();
        assert_eq!(one.world.left, [None, None], "fragments");
        exchange(&mut one, &mut two);
        assert_eq!(server.receive().unwrap().1, [7; 2500]);
    }
}

#[test]
fn a_datagram_that_is_too_long_is_reported_as_an_error_of_this_host() {
    let (mut one, _) = acquainted();
    for (to, families, most) in
        [("10.0.0.2", SocketFamilies::V4, 1472), ("fd00::2", SocketFamilies::V6, 1452)]
    {
        let client = Socket::udp(&one, families);
        client.configure(&one, |options| {
            options.discovery = PathDiscovery::Required;
            options.discovery6 = PathDiscovery::Required;
        });
        let to = end(to, 53);
        let long = vec![0; most + 1];
        assert_eq!(client.send(&mut one, Some(to), &long), Err(SocketError::MessageSize));
        assert!(client.report().is_none(), "nobody asked for reports");
        client.configure(&one, |options| {
            (options.queues_errors, options.queues_errors6) = (true, true);
        });
        client.queue.fail(SocketError::Refused);
        let sent = client.send(&mut one, Some(to), &long);
        assert_eq!(sent, Err(SocketError::MessageSize), "the length comes before the error");
        assert_eq!(client.send(&mut one, Some(to), b"x"), Err(SocketError::Refused));
        let report = client.report().unwrap();
        assert_eq!((report.error, report.carrier), (SocketError::MessageSize, None));
        assert_eq!((report.mtu, report.message), (1500, (0, 0)));
        assert_eq!(report.destination.ip(), to.ip());
        client.send(&mut one, Some(to), &vec![0; most]).unwrap();
        assert_eq!(client.error(), None, "a report of this host is no next error");
        client.send(&mut one, Some(to), &long).unwrap_err();
        client.configure(&one, |options| options.queues_errors = false);
        assert!(client.report().is_none(), "the queue ended with the option");
    }
}

#[test]
fn a_probe_ignores_the_mtu_that_is_known() {
    let (mut one, _) = acquainted();
    one.stack.path_mtus.learn(ip("10.0.0.2"), 1000, 1500, one.now_ns);
    let client = Socket::udp(&one, SocketFamilies::V4);
    client.connect(&mut one, Some(end("10.0.0.2", 53))).unwrap();
    let mtu = |one: &mut Station| one.run(|stack, run| stack.datagram_path_mtu(run, &client.end));
    assert_eq!(mtu(&mut one), Some(1000));
    client.send(&mut one, None, &[0; 1400]).unwrap();
    assert_eq!(one.sent().len(), 2, "wanted: it is cut");
    client.configure(&one, |options| options.discovery = PathDiscovery::Probe);
    assert_eq!(mtu(&mut one), Some(1500));
    client.send(&mut one, None, &[0; 1400]).unwrap();
    let sent = one.sent();
    let header = Ipv4::parse_quoted(&sent[0][14..]).unwrap().header;
    assert_eq!((sent.len(), header.cutting()), (1, Cutting::Forbidden));
    assert_eq!(client.send(&mut one, None, &[0; 1473]), Err(SocketError::MessageSize));
    client.connect(&mut one, None).unwrap();
    assert_eq!(mtu(&mut one), None);
}

#[test]
fn an_error_that_will_not_last_is_for_those_that_queue_errors() {
    let (mut one, mut two) = acquainted();
    let client = Socket::udp(&one, SocketFamilies::V4);
    client.connect(&mut one, Some(end("10.0.0.2", 53))).unwrap();
    client.send(&mut one, None, b"x").unwrap();
    let frame = one.sent().remove(0);
    let tell = |one: &mut Station, two: &mut Station, code: u8| {
        let message = IcmpMessage::Unreachable { code, mtu: 0 };
        let quote = BufferChain::copy_of(&frame[14..]).unwrap();
        let mut packet =
            Departure::new(zerocopy::IntoBytes::as_bytes(&message.header()), quote).unwrap();
        let checksum = packet.sum().checksum();
        packet.patch(2, checksum);
        let request = SendRequest::new(ip("10.0.0.1"), 1);
        two.run(|stack, run| stack.send(run, &request, packet)).unwrap();
        exchange(one, two);
    };
    tell(&mut one, &mut two, 1);
    assert_eq!(client.error(), None);
    client.configure(&one, |options| options.queues_errors = true);
    tell(&mut one, &mut two, 1);
    assert_eq!(client.error(), Some(SocketError::HostUnreachable));
    assert_eq!(client.report().unwrap().message, (3, 1));
}

/// A redirect of IPv4 is refused: it changes no route and reaches no socket.
#[test]
fn a_redirect_of_ipv4_is_refused() {
    let (mut one, mut two) = acquainted();
    one.add_gateway("10.0.0.2");
    let client = Socket::udp(&one, SocketFamilies::V4);
    client.configure(&one, |options| options.queues_errors = true);
    client.connect(&mut one, Some(end("8.8.8.8", 53))).unwrap();
    client.send(&mut one, None, b"x").unwrap();
    let frame = one.sent().remove(0);
    let message = IcmpMessage::Redirect { code: 1, gateway: [10, 0, 0, 7].into() };
    let quote = BufferChain::copy_of(&frame[14..]).unwrap();
    let mut packet =
        Departure::new(zerocopy::IntoBytes::as_bytes(&message.header()), quote).unwrap();
    let checksum = packet.sum().checksum();
    packet.patch(2, checksum);
    let before = one.stack.view().version();
    one.ears.heard();
    let request = SendRequest::new(ip("10.0.0.1"), 1);
    two.run(|stack, run| stack.send(run, &request, packet)).unwrap();
    exchange(&mut one, &mut two);
    assert_eq!(one.ears.heard().len(), 1, "it arrived");
    assert_eq!(one.stack.view().version(), before);
    let request = SendRequest::new(ip("8.8.8.8"), 17);
    let path = one.run(|stack, run| stack.path(run, &request)).unwrap();
    assert_eq!(path.next_hop, ip("10.0.0.2"));
    assert!(client.report().is_none() && client.error().is_none());
}

/// Frames pass over loopback from the sender's payload to the receiver's queue; short payloads are copied and keep none.
#[test]
fn long_payloads_pass_by_frames_and_short_ones_are_copied() {
    struct Nowhere;
    impl Surroundings<PacketSegment> for Nowhere {
        fn transmit(&mut self, _: InterfaceIndex, _: Departure<PacketSegment>) {}
    }
    let stack = Stack::<PacketSegment>::new([1; 16]);
    let mut worker = stack.worker();
    let [server, client] =
        [0, 1].map(|_| Socket::of_stack(&stack, DatagramProtocol::Udp, SocketFamilies::V4));
    let to = end("127.0.0.1", 53);
    stack
        .run(&mut worker, &mut Nowhere, S, |run| stack.datagram_bind(run, &server.end, to))
        .unwrap();
    let frame = Frame::zeroed().unwrap();
    let data: Vec<u8> = (0..3000u32).map(|at| (at % 251) as u8).collect();
    frame.write(100, &data);
    for (length, is_shared) in [(3000, true), (2049, true), (2048, false), (10, false)] {
        let part = PacketSegment { frame: frame.clone(), offset: 100, length };
        let one =
            SentDatagram { payload: Payload::Segments(vec![part]), ..datagram(Some(to), b"") };
        let send = |run: &mut StackRun<'_, PacketSegment>| {
            stack.datagram_send(run, &client.end, one.clone())
        };
        stack.run(&mut worker, &mut Nowhere, S, send).unwrap();
        drop(one);
        let got = server.take().unwrap();
        assert_eq!(bytes(&got.payload), data[..length as usize]);
        assert_eq!(got.received_ns, S);
        match &got.payload {
            Payload::Segments(parts) => {
                let [part] = &parts[..] else { panic!("{parts:?}") };
                assert!(is_shared && part.frame.id() == frame.id());
            }
            Payload::Bytes(_) => assert!(!is_shared),
        }
        drop(got);
        assert_eq!(frame.references(), 1);
    }
}

#[test]
fn a_flood_keeps_memory_bounded_and_its_end_frees_all() {
    let (mut one, mut two) = acquainted();
    let sockets: Vec<Socket> = (0..50u16)
        .map(|number| {
            let socket = Socket::udp(&two, SocketFamilies::Both);
            socket.configure(&two, |options| options.reuses_port = true);
            socket.bind(&mut two, end("::", 53 + number % 2)).unwrap();
            socket
        })
        .collect();
    let client = Socket::udp(&one, SocketFamilies::V4);
    for number in 0..20_000u16 {
        let data = vec![1; usize::from(number % 1400)];
        client.send(&mut one, Some(end("10.0.0.2", 53 + number % 3)), &data).unwrap();
        one.sent().iter().for_each(|frame| two.receive(frame));
        two.world.sent.clear();
    }
    for socket in &sockets {
        let (charged, _) = socket.queue.usage();
        assert!(charged <= RECEIVE_MAX + 1400 + 256, "{charged}");
    }
    let lost: u64 = sockets.iter().map(|socket| socket.queue.usage().1).sum();
    assert_eq!(two.stack.drops.get(DropReason::QueueFull), lost);
    assert!(lost > 0);
    let before = two.stack.datagram_sockets().len();
    let watched: Vec<_> = sockets.iter().map(|one| Arc::downgrade(&one.end)).collect();
    sockets.iter().for_each(|socket| socket.close(&mut two));
    assert_eq!(two.stack.datagram_sockets().len(), before - sockets.len());
    assert_eq!(sockets[0].send(&mut two, Some(end("10.0.0.1", 9)), b""), Err(SocketError::Invalid));
    drop(sockets);
    assert!(watched.iter().all(|one| one.upgrade().is_none()), "no table keeps a socket");
}

/// Sockets are opened, bound, connected, joined and closed at random. In the end nothing is left.
#[test]
fn random_lives_of_sockets_leave_nothing() {
    let mut numbers = xorshift::Xorshift::new(7);
    let (mut one, _) = acquainted();
    let before = one.stack.datagram_sockets().len();
    let mut open: Vec<Socket> = Vec::new();
    let protocols = [DatagramProtocol::Udp, DatagramProtocol::Ping, DatagramProtocol::Raw(200)];
    for _ in 0..20_000 {
        let place = numbers.below(open.len() + 1);
        let port = numbers.below(4) as u16;
        match (numbers.below(10), open.get(place)) {
            (0..3, _) | (_, None) if open.len() < 40 => {
                let families = [SocketFamilies::V4, SocketFamilies::V6, SocketFamilies::Both];
                open.push(Socket::open(
                    &one,
                    protocols[numbers.below(3)],
                    families[numbers.below(3)],
                ));
            }
            (3, Some(socket)) => {
                let _ = socket.bind(&mut one, end(["10.0.0.1", "fd00::1", "::"][place % 3], port));
            }
            (4, Some(socket)) => {
                let peer = end(["10.0.0.2", "fd00::2", "127.0.0.1"][place % 3], port);
                let _ = socket.connect(&mut one, Some(peer));
            }
            (5, Some(socket)) => socket.connect(&mut one, None).unwrap(),
            (6, Some(socket)) => {
                let _ = socket.join(&mut one, ["239.1.2.3", "ff02::77"][place % 2], CARD.0);
            }
            (7, Some(socket)) => {
                let flag = numbers.below(2) == 0;
                socket.configure(&one, |options| {
                    (options.reuses_address, options.reuses_port) = (flag, !flag);
                    options.interface = flag.then_some(CARD.0);
                });
            }
            (8, Some(socket)) => {
                let request = [8, 0, 0, 0, 0, 0, 0, 1];
                let _ = socket.send(&mut one, None, &request);
            }
            (_, Some(_)) => {
                let socket = open.swap_remove(place);
                socket.close(&mut one);
            }
            _ => {}
        }
        one.world.sent.clear();
    }
    open.iter().for_each(|socket| socket.close(&mut one));
    assert_eq!(one.stack.datagram_sockets().len(), before);
    let view = one.stack.view();
    let groups = &view.configuration.interface(CARD).unwrap().groups;
    assert!(!groups.contains_key(&ip("239.1.2.3")) && !groups.contains_key(&ip("ff02::77")));
    assert!(open.iter().all(|socket| Arc::strong_count(&socket.end) == 1));
}
