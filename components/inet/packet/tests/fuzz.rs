//! Random and mutated packets for every parser: none panics, and every length that a parser returns lies within its packet.
//!
//! `SKERRY_FUZZ_COUNT` is the number of packets (200,000 by default), `SKERRY_FUZZ_SEED` the first seed, by which one packet can be
//! repeated: `SKERRY_FUZZ_COUNT=1 SKERRY_FUZZ_SEED=N`. `./x campaign packets` parses ten million.
use packet::{
    arp::ArpPacket,
    ethernet::Ethernet,
    icmp::IcmpMessage,
    icmpv6::Icmpv6Message,
    igmp::IgmpMessage,
    ipv4::Ipv4,
    ipv6::{self, Ipv6Header, Walk},
    mld::MldMessage,
    ndp::{NdpMessage, NdpOption},
    tcp::TcpHeader,
    tcp_options::{SegmentStage, TcpOptions},
    udp::UdpHeader,
};
use std::{ops::Range, panic::catch_unwind};
use xorshift::{Xorshift, variable};

const COUNT: u64 = 200_000;

/// Sound packets, to be mutated.
fn seeds() -> Vec<Vec<u8>> {
    let ipv4 = [0x47, 0, 0, 40, 1, 2, 0x20, 3, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let ipv4 = [&ipv4[..], &[148, 4, 0, 0, 7, 4, 4, 0], &[0; 12]].concat();
    let mut ipv6 = vec![0x60, 0, 0, 0, 0, 48, 0, 64];
    ipv6.extend([0xfe; 32]);
    ipv6.extend([60, 0, 5, 2, 0, 0, 1, 0, 43, 1, 1, 4, 0, 0, 0, 0, 0x1e, 3, 1, 2, 3, 0, 0, 0]);
    ipv6.extend([44, 0, 4, 0, 0, 0, 0, 0, 17, 0, 0, 1, 0, 0, 0, 9, 0, 1, 0, 2, 0, 8, 0, 0]);
    let arp =
        [0, 1, 8, 0, 6, 4, 0, 1, 2, 2, 2, 2, 2, 2, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2];
    let mut advertisement = vec![134, 0, 0, 0, 64, 0xc0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0];
    advertisement.extend([1, 1, 2, 2, 2, 2, 2, 2, 5, 1, 0, 0, 0, 0, 5, 0xdc, 3, 4, 64, 0xc0]);
    advertisement.extend([0; 28]);
    advertisement.extend([&[25, 3][..], &[0; 22], &[14, 1, 1, 2, 3, 4, 5, 6]].concat());
    let solicitation = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &[0xfd; 16], &[1, 1, 2, 2, 2, 2, 2, 2]];
    let redirect = [&[137, 0, 0, 0, 0, 0, 0, 0][..], &[0xfd; 32], &[4, 2], &[0; 14]].concat();
    let report = [0x22, 0, 0, 0, 0, 0, 0, 2, 4, 0, 0, 1, 224, 1, 1, 1, 1, 2, 3, 4, 6, 1, 0, 0];
    let report = [&report[..], &[224, 1, 1, 2, 0, 0, 0, 0]].concat();
    let query = [0x11, 0x8a, 0, 0, 224, 1, 1, 1, 2, 125, 0, 1, 10, 0, 0, 9].to_vec();
    let mld = [&[130, 0, 0, 0, 0x27, 0x10, 0, 0][..], &[0; 16], &[2, 125, 0, 1], &[1; 16]].concat();
    let mld2 = [&[143, 0, 0, 0, 0, 0, 0, 1, 4, 0, 0, 1][..], &[0xff; 32]].concat();
    let tcp =
        [0, 1, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0xf0, 0x12, 1, 0, 0, 0, 0, 0, 2, 4, 5, 0xb4, 4, 2];
    let tcp = [&tcp[..], &[8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 3, 3, 7, 34, 6, 1, 2, 3, 4]].concat();
    let tcp = [&tcp[..], &[1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0]].concat();
    let udp = vec![0, 1, 0, 2, 0, 12, 0, 0, 1, 2, 3, 4];
    let ethernet = [&[2; 12][..], &[0x81, 0, 0, 5, 8, 0]].concat();
    let mut all = vec![ipv4, ipv6, arp.to_vec(), advertisement, solicitation.concat(), redirect];
    all.extend([report, query, mld, mld2, tcp, udp, ethernet]);
    all
}

/// Changes up to eight bytes of `packet`, cuts or lengthens it.
fn mutate(numbers: &mut Xorshift, packet: &mut Vec<u8>) {
    for _ in 0..numbers.below(9) {
        let place = numbers.below(packet.len());
        let value = match numbers.below(4) {
            0 => 0,
            1 => 0xff,
            2 => packet.get(place).map_or(0, |byte| byte ^ 1 << numbers.below(8)),
            _ => numbers.next() as u8,
        };
        if let Some(byte) = packet.get_mut(place) {
            *byte = value;
        }
    }
    match numbers.below(6) {
        0 => packet.truncate(numbers.below(packet.len() + 1)),
        1 => packet.extend((0..numbers.below(40)).map(|byte| byte as u8)),
        _ => {}
    }
}

/// Makes the lengths of IP and the checksums of IPv4 and IGMP right, without which their parsers would look at little.
fn seal(packet: &mut [u8]) {
    let seal = |bytes: &mut [u8], place: usize| {
        if let Some(field) = bytes.get_mut(place..place + 2) {
            field.fill(0);
            let sum = packet::Sum::of(bytes).checksum();
            bytes[place..place + 2].copy_from_slice(&sum.to_be_bytes());
        }
    };
    match packet.first().copied() {
        Some(first @ 0x45..=0x4f) => {
            let total = packet.len() as u16;
            if let Some(field) = packet.get_mut(2..4) {
                field.copy_from_slice(&total.to_be_bytes());
            }
            let length = packet.len().min(usize::from(first & 15) * 4);
            seal(&mut packet[..length], 10);
        }
        Some(0x11 | 0x22) => seal(packet, 2),
        Some(0x60) if packet.len() >= 40 => {
            let length = packet.len() as u16 - 40;
            packet[4..6].copy_from_slice(&length.to_be_bytes());
        }
        _ => {}
    }
}

fn inside(range: &Range<usize>, length: usize) {
    assert!(range.start <= range.end && range.end <= length, "{range:?} of {length}");
}

/// Gives `packet` to every parser. Returns the number of those that took it.
fn parse_all(packet: &[u8]) -> usize {
    let length = packet.len();
    let mut taken = 0;
    taken += usize::from(Ethernet::parse(packet).is_ok());
    taken += usize::from(ArpPacket::parse(packet).is_ok());
    if let Ok(ip) = Ipv4::parse(packet, length) {
        taken += 1;
        inside(&ip.payload(), length);
        for option in ip.options() {
            match option {
                Ok(option) => assert!(option.data.len() + 2 <= ip.options.len() + 2),
                Err(fault) => assert!(usize::from(fault.pointer) <= ip.header.length()),
            }
        }
    }
    let _ = Ipv4::parse_quoted(packet);
    if let Ok(header) = Ipv6Header::parse(packet, length) {
        taken += 1;
        if let Ok(walk) = Walk::of(packet) {
            taken += 1;
            assert!(walk.payload <= header.total_length());
            assert!(walk.protocol_at < walk.payload);
            inside(&ipv6::payload(header, &walk), length);
        }
    }
    let first = packet.first().copied().unwrap_or(0);
    if let Ok(walk) = Walk::of_reassembled(packet, first) {
        assert!(walk.payload <= length);
    }
    taken + parse_upper(packet)
}

fn parse_upper(packet: &[u8]) -> usize {
    let length = packet.len();
    let mut taken = 0;
    taken += usize::from(IcmpMessage::parse(packet).is_ok());
    taken += usize::from(Icmpv6Message::parse(packet).is_ok());
    if let Ok(Some((_, options))) = NdpMessage::parse(packet) {
        taken += 1;
        for option in options {
            match option.unwrap() {
                NdpOption::Redirected(bytes) | NdpOption::Nonce(bytes) => {
                    assert!(bytes.len() <= length);
                }
                NdpOption::NameServers { addresses, .. } => assert!(addresses.len() * 16 <= length),
                _ => {}
            }
        }
    }
    match IgmpMessage::parse(packet) {
        Ok(IgmpMessage::Records(records)) => {
            taken += 1;
            assert!(
                records.flatten().map(|record| record.sources.len() * 4).sum::<usize>() <= length
            );
        }
        Ok(IgmpMessage::Query { sources, .. }) => {
            taken += 1;
            assert!(sources.len() * 4 <= length);
        }
        _ => {}
    }
    match MldMessage::parse(packet) {
        Ok(Some(MldMessage::Records(records))) => {
            taken += 1;
            assert!(
                records.flatten().map(|record| record.sources.len() * 16).sum::<usize>() <= length
            );
        }
        Ok(Some(MldMessage::Query { sources, .. })) => {
            taken += 1;
            assert!(sources.len() * 16 <= length);
        }
        _ => {}
    }
    if let Ok(header) = UdpHeader::parse(packet, length) {
        taken += 1;
        assert!((8..=length).contains(&header.length()));
    }
    if let Ok((header, options)) = TcpHeader::parse(packet, length) {
        taken += 1;
        inside(&(20..header.length()), length);
        let options = TcpOptions::parse(options, SegmentStage::Opening);
        assert!(options.sack.as_slice().len() <= 4);
    }
    let _ = TcpOptions::parse(packet, SegmentStage::Open);
    taken
}

/// Parses the packet of a seed. Returns the number of parsers that took it.
fn parse_one(seed: u64, sound: &[Vec<u8>]) -> usize {
    let mut numbers = Xorshift::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut packet = match seed % 4 {
        0 => (0..numbers.below(120)).map(|_| numbers.next() as u8).collect(),
        _ => sound[numbers.below(sound.len())].clone(),
    };
    if !seed.is_multiple_of(4) {
        mutate(&mut numbers, &mut packet);
    }
    if numbers.chance(1, 2) {
        seal(&mut packet);
    }
    parse_all(&packet)
}

#[test]
fn no_packet_makes_a_parser_panic_or_leave_its_bytes() {
    let sound = seeds();
    let (first, count) = (variable("SKERRY_FUZZ_SEED", 1), variable("SKERRY_FUZZ_COUNT", COUNT));
    let mut taken = 0;
    for seed in first..first + count {
        let Ok(parsers) = catch_unwind(|| parse_one(seed, &sound)) else {
            panic!("SKERRY_FUZZ_COUNT=1 SKERRY_FUZZ_SEED={seed} fails");
        };
        taken += parsers as u64;
    }
    // If hardly any parser took anything, the packets would test no more than the first checks.
    assert!(count < 1000 || taken > 2 * count, "{taken} of {count}");
}

#[test]
fn every_seed_is_a_sound_packet() {
    for (index, mut packet) in seeds().into_iter().enumerate() {
        seal(&mut packet);
        // ICMP's parsers take anything of eight bytes.
        assert!(parse_all(&packet) > 2, "seed {index}");
    }
}
