//! Packets that the fuzzer writes: headers, lengths and checksums that are right, and mutations that keep them right.
use packet::{
    Sum,
    ethernet::HEADER_LENGTH,
    ipv4::Ipv4,
    ipv6::{Ipv6Header, Walk},
};
use std::net::IpAddr;
use xorshift::Xorshift;

/// The address on the link of the host under test.
pub const HOST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// The address on the link of all hosts that the fuzzer plays.
pub const PLAYED_MAC: [u8; 6] = [2, 0, 0, 0, 0, 99];

/// Returns a frame for the host.
pub fn frame(kind: u16, packet: &[u8]) -> Vec<u8> {
    [&HOST_MAC[..], &PLAYED_MAC, &kind.to_be_bytes(), packet].concat()
}

/// Returns a frame with a packet of IP, whose lengths and sums [`seal`] writes. `extra` are options of IPv4, or extension headers of
/// IPv6, of which `protocol` names the first.
pub fn packet(ends: (IpAddr, IpAddr), protocol: u8, extra: &[u8], body: &[u8]) -> Vec<u8> {
    let mut all = match ends {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let words = 5 + extra.len() as u8 / 4;
            let head = [0x40 | words, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0];
            let ends = [source.octets(), destination.octets()].concat();
            frame(0x0800, &[&head, &ends[..], extra, body].concat())
        }
        (source, destination) => {
            let head = [0x60, 0, 0, 0, 0, 0, protocol, 255];
            let ends = [source, destination].map(octets6).concat();
            frame(0x86dd, &[&head, &ends[..], extra, body].concat())
        }
    };
    seal(&mut all);
    all
}

fn octets6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// A header of TCP to be written.
#[derive(Clone, Debug, Default)]
pub struct Header {
    pub ports: (u16, u16),
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub urgent: u16,
    pub options: Vec<u8>,
}

impl Header {
    /// Returns the bytes, with a checksum of zero.
    pub fn bytes(&self) -> Vec<u8> {
        let mut options = self.options.clone();
        options.truncate(40);
        options.resize(options.len().next_multiple_of(4), 1);
        let mut all = [self.ports.0.to_be_bytes(), self.ports.1.to_be_bytes()].concat();
        all.extend(self.seq.to_be_bytes());
        all.extend(self.ack.to_be_bytes());
        all.extend([(5 + options.len() as u8 / 4) << 4, self.flags]);
        all.extend(self.window.to_be_bytes());
        all.extend([0, 0]);
        all.extend(self.urgent.to_be_bytes());
        all.extend(options);
        all
    }
}

/// Returns a datagram of UDP without its length and sum.
pub fn udp(ports: (u16, u16), data: &[u8]) -> Vec<u8> {
    [&ports.0.to_be_bytes()[..], &ports.1.to_be_bytes(), &[0; 4], data].concat()
}

/// Makes the lengths and checksums of a frame right, without which little of it would be looked at.
pub fn seal(frame: &mut [u8]) {
    let Some(packet) = frame.get_mut(HEADER_LENGTH..) else { return };
    match packet.first().map(|first| first >> 4) {
        Some(4) => seal4(packet),
        Some(6) => seal6(packet),
        _ => {}
    }
}

fn seal4(packet: &mut [u8]) {
    if packet.len() < 20 || packet.len() > 65_535 {
        return;
    }
    let total = packet.len() as u16;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    let Ok(parsed) = Ipv4::parse_quoted(packet) else { return };
    let header = parsed.header;
    let (length, protocol) = (header.length(), header.protocol);
    let (is_part, ends) =
        (header.place().is_fragment(), (header.source().into(), header.destination().into()));
    packet[10..12].fill(0);
    let sum = Sum::of(&packet[..length]).checksum();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    if !is_part {
        seal_upper(&mut packet[length..], protocol, ends);
    }
}

fn seal6(packet: &mut [u8]) {
    if packet.len() < 40 || packet.len() - 40 > 65_535 {
        return;
    }
    let length = (packet.len() - 40) as u16;
    packet[4..6].copy_from_slice(&length.to_be_bytes());
    let Ok(header) = Ipv6Header::parse_quoted(packet) else { return };
    let ends = (header.source().into(), header.destination().into());
    if let Ok(walk) = Walk::of(packet)
        && walk.payload <= packet.len()
        && walk.fragment.is_none()
    {
        seal_upper(&mut packet[walk.payload..], walk.protocol, ends);
    }
}

/// Writes the checksum of a message above IP, and the length of UDP.
fn seal_upper(bytes: &mut [u8], protocol: u8, ends: (IpAddr, IpAddr)) {
    let place = match protocol {
        1 | 2 | 58 => 2,
        6 => 16,
        17 | 136 => 6,
        _ => return,
    };
    if bytes.len() < place + 2 {
        return;
    }
    let length = bytes.len() as u32;
    if protocol == 17 {
        bytes[4..6].copy_from_slice(&(length as u16).to_be_bytes());
    }
    bytes[place..place + 2].fill(0);
    let mut sum = Sum::new();
    if !matches!(protocol, 1 | 2) {
        sum.append(Sum::pseudo_header(ends.0, ends.1, protocol, length));
    }
    sum.add(bytes);
    let sum = if protocol == 17 { sum.checksum_of_udp() } else { sum.checksum() };
    bytes[place..place + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Changes a few bytes of a frame, mostly in its headers, cuts or lengthens it, and mostly makes lengths and sums right again.
pub fn mutate(numbers: &mut Xorshift, frame: &mut Vec<u8>) {
    for _ in 0..1 + numbers.below(4) {
        let within = if numbers.chance(3, 4) { 100 } else { frame.len() };
        let place = HEADER_LENGTH + numbers.below(within);
        let choice = numbers.below(4);
        let Some(byte) = frame.get_mut(place) else { continue };
        *byte = match choice {
            0 => [0, 1, 0x7f, 0x80, 0xff][numbers.below(5)],
            1 => *byte ^ 1 << numbers.below(8),
            2 => byte.wrapping_add(1),
            _ => numbers.next() as u8,
        };
    }
    match numbers.below(12) {
        0 => frame.truncate(numbers.below(frame.len() + 1)),
        1 => frame.extend((0..numbers.below(60)).map(|byte| byte as u8)),
        2 if frame.len() < 20_000 => frame.extend_from_within(HEADER_LENGTH.min(frame.len())..),
        _ => {}
    }
    if numbers.chance(7, 8) {
        seal(frame);
    }
}
