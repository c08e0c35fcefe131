//! Mutated frames for a whole stack: it neither panics, nor falls silent, nor keeps memory without end.
//!
//! `INET_FUZZ_COUNT` is the number of frames (100,000 by default), `INET_FUZZ_SEED` the first state of the generator.
use super::{
    link::{CARD, S, Station, exchange, ip},
    sockets::{RECEIVE_MAX, Socket, end},
};
use crate::tables::{neighbours, reassembly};
use crate::*;
use interfaces::sockets::{DatagramProtocol, SocketFamilies};
use packet::{
    Sum, ethernet,
    ipv4::Ipv4,
    ipv6::{Ipv6Header, Walk},
};
use xorshift::{Xorshift, variable};

const COUNT: u64 = 100_000;

/// Returns frames that a host sends in a short life, all of them for the host 2 or its groups.
fn frames() -> Vec<Vec<u8>> {
    let mut one = Station::new(1, &[("10.0.0.1", 24), ("fd00::1", 64)]);
    let mut two = Station::new(2, &[("10.0.0.2", 24), ("fd00::2", 64)]);
    one.run(|stack, run| stack.start_ipv6(run, CARD));
    let mut all = Vec::new();
    for (address, families) in [("10.0.0.2", SocketFamilies::V4), ("fd00::2", SocketFamilies::V6)] {
        let socket = Socket::udp(&one, families);
        for (port, length) in [(53, 10), (53, 3000), (99, 10)] {
            socket.send(&mut one, Some(end(address, port)), &vec![7; length]).unwrap();
            for _ in 0..4 {
                let sent = one.sent();
                sent.iter().for_each(|frame| two.receive(frame));
                all.extend(sent);
                two.sent().iter().for_each(|frame| one.receive(frame));
            }
        }
    }
    all.extend(echoes(&mut one, &mut two));
    one.run(|stack, run| stack.join_group(run, CARD, ip("239.1.2.3"))).unwrap();
    one.run(|stack, run| stack.join_group(run, CARD, ip("ff02::99"))).unwrap();
    one.wait_until(30 * S);
    all.extend(one.sent());
    assert!(all.len() > 15);
    all
}

/// Returns echo requests and replies for the second host. The replies have the identifier 7.
fn echoes(one: &mut Station, two: &mut Station) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for (ends, families, kind) in [
        (["10.0.0.1", "10.0.0.2"], SocketFamilies::V4, 8),
        (["fd00::1", "fd00::2"], SocketFamilies::V6, 128),
    ] {
        let message = [kind, 0, 0, 0, 0, 0, 0, 1, 5, 5, 5];
        for turn in [0, 1] {
            let to = ends[1 - turn];
            let hosts = if turn == 0 { (&mut *one, &mut *two) } else { (&mut *two, &mut *one) };
            let (host, peer) = hosts;
            let socket = Socket::open(host, DatagramProtocol::Ping, families);
            socket.bind(host, end(if kind == 8 { "0.0.0.0" } else { "::" }, 7)).unwrap();
            socket.send(host, Some(end(to, 0)), &message).unwrap();
            for _ in 0..8 {
                let (there, back) = (host.sent(), peer.sent());
                all.extend(if to == ends[1] { there.clone() } else { back.clone() });
                there.iter().for_each(|frame| peer.receive(frame));
                back.iter().for_each(|frame| host.receive(frame));
            }
            assert!(socket.receive().is_some(), "{to} answers");
            socket.close(host);
        }
    }
    all
}

/// Makes the checksums of a frame right, without which little of it would be looked at.
fn seal(frame: &mut [u8]) {
    let Some(packet) = frame.get_mut(ethernet::HEADER_LENGTH..) else { return };
    if let Ok(header) = Ipv4::parse_quoted(packet) {
        let (length, protocol) = (header.header.length(), header.header.protocol);
        let ends = (header.header.source().into(), header.header.destination().into());
        packet[10..12].fill(0);
        let sum = Sum::of(&packet[..length]).checksum();
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        let plain = matches!(protocol, 1 | 2);
        seal_upper(&mut packet[length..], protocol, (!plain).then_some(ends));
    } else if let Ok(header) = Ipv6Header::parse_quoted(packet)
        && let Ok(walk) = Walk::of(packet)
    {
        let ends = (header.source().into(), header.destination().into());
        seal_upper(&mut packet[walk.payload..], walk.protocol, Some(ends));
    }
}

fn seal_upper(bytes: &mut [u8], protocol: u8, ends: Option<(std::net::IpAddr, std::net::IpAddr)>) {
    let place = if protocol == 17 { 6 } else { 2 };
    let length = bytes.len() as u32;
    if let Some(field) = bytes.get_mut(place..place + 2) {
        field.fill(0);
        let mut sum = Sum::new();
        if let Some((source, destination)) = ends {
            sum.append(Sum::pseudo_header(source, destination, protocol, length));
        }
        sum.add(bytes);
        bytes[place..place + 2].copy_from_slice(&sum.checksum_of_udp().to_be_bytes());
    }
}

fn mutate(numbers: &mut Xorshift, frame: &mut Vec<u8>) {
    for _ in 0..numbers.below(5) {
        let place = ethernet::HEADER_LENGTH + numbers.below(80);
        let value = match numbers.below(3) {
            0 => 0xff,
            1 => frame.get(place).map_or(0, |byte| byte ^ 1 << numbers.below(8)),
            _ => numbers.next() as u8,
        };
        if let Some(byte) = frame.get_mut(place) {
            *byte = value;
        }
    }
    match numbers.below(10) {
        0 => frame.truncate(numbers.below(frame.len() + 1)),
        1 => frame.extend((0..numbers.below(40)).map(|byte| byte as u8)),
        _ => {}
    }
    if numbers.below(8) > 0 {
        seal(frame);
    }
}

#[test]
fn a_stack_survives_mutated_frames() {
    let mut numbers = Xorshift::new(variable("INET_FUZZ_SEED", 1));
    let (seeds, count) = (frames(), variable("INET_FUZZ_COUNT", COUNT));
    let mut two = Station::new(2, &[("10.0.0.2", 24), ("fd00::2", 64)]);
    two.run(|stack, run| stack.start_ipv6(run, CARD));
    let server = Socket::udp(&two, SocketFamilies::Both);
    server.bind(&mut two, end("::", 53)).unwrap();
    let others = [
        (DatagramProtocol::Ping, SocketFamilies::V4),
        (DatagramProtocol::Ping, SocketFamilies::V6),
        (DatagramProtocol::Raw(17), SocketFamilies::V4),
        (DatagramProtocol::Raw(17), SocketFamilies::V6),
    ]
    .map(|(protocol, families)| Socket::open(&two, protocol, families));
    let [four, six, ..] = &others;
    for (socket, any) in [(four, "0.0.0.0"), (six, "::")] {
        socket.configure(&two, |options| options.reuses_address = true);
        socket.bind(&mut two, end(any, 7)).unwrap();
    }
    let mut heard = [0u64; 4];
    let (mut received, mut sent) = (0, 0);
    for _ in 0..count {
        let mut frame = seeds[numbers.below(seeds.len())].clone();
        mutate(&mut numbers, &mut frame);
        let head = if numbers.below(2) == 0 { HEAD_MIN } else { numbers.below(120) };
        two.receive_split(&frame, head);
        two.now_ns += numbers.below(20_000_000) as u64;
        two.run(|stack, run| stack.poll(run));
        while server.take().is_some() {
            received += 1;
        }
        for (socket, count) in others.iter().zip(&mut heard) {
            *count += std::iter::from_fn(|| socket.take()).count() as u64;
        }
        sent += two.sent().len() as u64;
        two.world.delivered.clear();
    }
    assert!(received > count / 50 && sent > count / 50, "{received} {sent} of {count}");
    assert!(heard.iter().all(|heard| *heard > count / 1000), "{heard:?}");
    assert!(two.ears.charged() <= 2 * (RECEIVE_MAX + 65_536));
    assert!(two.stack.neighbours().len() <= neighbours::ENTRIES_MAX);
    assert!(two.stack.reassembly.lock().memory() <= reassembly::MEMORY_MAX);
    assert!(two.stack.view().configuration.routes.iter().count() < 200);
    // The host still works.
    let mut three = Station::new(3, &[("10.0.0.3", 24)]);
    three.now_ns = two.now_ns;
    let client = Socket::udp(&three, SocketFamilies::V4);
    client.send(&mut three, Some(end("10.0.0.2", 53)), b"still there?").unwrap();
    exchange(&mut three, &mut two);
    assert_eq!(server.receive().unwrap().1, b"still there?");
}
