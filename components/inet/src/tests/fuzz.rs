//! Mutated frames for a whole stack: it neither panics, nor falls silent, nor keeps memory without end.
//!
//! `INET_FUZZ_COUNT` is the number of frames (100,000 by default), `INET_FUZZ_SEED` the first state of the generator.
use super::link::{CARD, S, Station, exchange, ip};
use crate::tables::{neighbours, reassembly};
use crate::*;
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
    for (address, families) in [("10.0.0.2", Families::V4), ("fd00::2", Families::V6)] {
        let socket = one.stack.udp_open(1, families, 0);
        for (port, length) in [(53, 10), (53, 3000), (99, 10)] {
            let to = Some(SocketEnd { address: ip(address), port });
            let payload = BufferChain::copy_of(&vec![7; length]).unwrap();
            one.run(|stack, run| stack.udp_send(run, &socket, to, payload)).unwrap();
            for _ in 0..4 {
                let sent = one.sent();
                sent.iter().for_each(|frame| two.receive(frame));
                all.extend(sent);
                two.sent().iter().for_each(|frame| one.receive(frame));
            }
        }
    }
    one.run(|stack, run| stack.join_group(run, CARD, ip("239.1.2.3"))).unwrap();
    one.run(|stack, run| stack.join_group(run, CARD, ip("ff02::99"))).unwrap();
    one.wait_until(30 * S);
    all.extend(one.sent());
    assert!(all.len() > 15);
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
    let server = two.stack.udp_open(1, Families::Both, 0);
    let end = SocketEnd { address: ip("::"), port: 53 };
    two.run(|stack, run| stack.udp_bind(run, &server, end)).unwrap();
    let (mut received, mut sent) = (0, 0);
    for _ in 0..count {
        let mut frame = seeds[numbers.below(seeds.len())].clone();
        mutate(&mut numbers, &mut frame);
        let head = if numbers.below(2) == 0 { HEAD_MIN } else { numbers.below(120) };
        two.receive_split(&frame, head);
        two.now_ns += numbers.below(20_000_000) as u64;
        two.run(|stack, run| stack.poll(run));
        while two.stack.udp_receive(&server).unwrap().is_some() {
            received += 1;
        }
        sent += two.sent().len() as u64;
        two.world.delivered.clear();
        two.world.notified.clear();
    }
    assert!(received > count / 50 && sent > count / 50, "{received} {sent} of {count}");
    assert!(two.stack.neighbours().len() <= neighbours::ENTRIES_MAX);
    assert!(two.stack.reassembly.lock().memory() <= reassembly::MEMORY_MAX);
    assert!(two.stack.view().configuration.routes.iter().count() < 200);
    // The host still works.
    let mut three = Station::new(3, &[("10.0.0.3", 24)]);
    three.now_ns = two.now_ns;
    let client = three.stack.udp_open(1, Families::V4, 0);
    let to = Some(SocketEnd { address: ip("10.0.0.2"), port: 53 });
    let payload = BufferChain::copy_of(b"still there?").unwrap();
    three.run(|stack, run| stack.udp_send(run, &client, to, payload)).unwrap();
    exchange(&mut three, &mut two);
    let got = two.stack.udp_receive(&server).unwrap().unwrap();
    assert_eq!(got.payload.to_vec(), b"still there?");
}
