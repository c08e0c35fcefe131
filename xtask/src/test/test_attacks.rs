//! Frames that a hostile machine sends to the machine of a system test, in the place of the peer (`docs/wire.md`).
//!
//! The session orders them by a line, and reads `attacked` when they are on the wire:
//!
//! | order | frames |
//! | --- | --- |
//! | `attack syn-flood COUNT PORT` | SYNs to the port, each from another address behind the peer |
//! | `attack overlap` | datagrams of IPv4 in fragments that overlap, of which one is whole without; then two right ones |
//! | `attack own-source` | datagrams with sources of the machine itself, and of loopback; then one of the peer |
//!
//! Datagrams go to a port without a socket, so a counter of the machine tells how many it took. The right ones come last.
use super::test_net::{MACHINE, PEER};
use harness::random::Random;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::{Addresses, peer::Handle};

/// The word before an order.
const WORD: &str = "attack ";
/// The port of the datagrams. No socket has it.
const CLOSED: u16 = 4000;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// More fragments follow.
const MORE: u16 = 0x2000;

/// An attack that a session orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// SYNs.
    SynFlood {
        /// Number of frames.
        count: u32,
        /// The port of the machine.
        port: u16,
    },
    /// Fragments that overlap.
    Overlap,
    /// Sources that are the machine's own.
    OwnSource,
}

impl Attack {
    /// Reads an order.
    pub fn parse(line: &str) -> Option<Attack> {
        let words: Vec<&str> = line.strip_prefix(WORD)?.split_whitespace().collect();
        match words.as_slice() {
            ["syn-flood", count, port] => {
                let (count, port) = (count.parse().ok()?, port.parse().ok()?);
                Some(Attack::SynFlood { count, port })
            }
            ["overlap"] => Some(Attack::Overlap),
            ["own-source"] => Some(Attack::OwnSource),
            _ => None,
        }
    }

    /// Sends the frames from the peer's end of the wire.
    pub fn carry_out(self, peer: &Handle) {
        let frames = match self {
            Attack::SynFlood { count, port } => {
                let mut random = Random::new(count.into());
                (0..count).map(|_| syn(&mut random, port)).collect()
            }
            Attack::Overlap => overlapping(),
            Attack::OwnSource => own_sources(),
        };
        frames.into_iter().for_each(|frame| peer.send_frame(frame));
    }
}

/// Returns the ones' complement sum of RFC 1071.
fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let word = |chunk: &[u8]| u32::from(chunk[0]) << 8 | u32::from(*chunk.get(1).unwrap_or(&0));
    let mut sum: u32 = words.map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Returns a frame from the peer's card to the machine's.
fn frame(ethertype: u16, packet: &[u8]) -> Vec<u8> {
    let ends = [Addresses::of(MACHINE).ethernet, Addresses::of(PEER).ethernet].concat();
    [&ends[..], &ethertype.to_be_bytes(), packet].concat()
}

/// Returns a packet of IPv4 to the machine. `place` is the offset in units of 8 bytes, and [`MORE`].
fn ipv4(source: Ipv4Addr, (id, place): (u16, u16), protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len()) as u16;
    let mut header = vec![0x45, 0];
    header.extend(length.to_be_bytes());
    header.extend(id.to_be_bytes());
    header.extend(place.to_be_bytes());
    header.extend([64, protocol, 0, 0]);
    header.extend(source.octets());
    header.extend(Addresses::of(MACHINE).v4.octets());
    let sum = checksum(&[&header]);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header.extend(payload);
    frame(0x0800, &header)
}

/// Returns a packet of IPv6 to the machine.
fn ipv6(source: Ipv6Addr, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0x60, 0, 0, 0];
    header.extend((payload.len() as u16).to_be_bytes());
    header.extend([next, 64]);
    header.extend(source.octets());
    header.extend(Addresses::of(MACHINE).v6.octets());
    header.extend(payload);
    frame(0x86dd, &header)
}

/// Returns a segment or a datagram whose checksum, at `place`, is right between these addresses.
fn summed(mut bytes: Vec<u8>, place: usize, protocol: u8, addresses: [&[u8]; 2]) -> Vec<u8> {
    let pseudo = [&[0, protocol][..], &(bytes.len() as u16).to_be_bytes()].concat();
    let [source, destination] = addresses;
    let sum = checksum(&[source, destination, &pseudo, &bytes]);
    bytes[place..place + 2].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// Returns a datagram to [`CLOSED`], without a checksum: UDP over IPv4 may lack one.
fn datagram(payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len()) as u16;
    let fields = [CLOSED, CLOSED, length, 0];
    let mut bytes: Vec<u8> = fields.into_iter().flat_map(u16::to_be_bytes).collect();
    bytes.extend(payload);
    bytes
}

/// Returns a SYN from a random address of 10.9.0.0/16.
fn syn(random: &mut Random, port: u16) -> Vec<u8> {
    let [a, b] = (random.below(usize::MAX) as u16).to_be_bytes();
    let source = Ipv4Addr::new(10, 9, a, b);
    let source_port = 1024 + random.below(60_000) as u16;
    let mut bytes: Vec<u8> = [source_port, port].into_iter().flat_map(u16::to_be_bytes).collect();
    bytes.extend((random.below(usize::MAX) as u32).to_be_bytes());
    // No acknowledgement; a header of 24 bytes; SYN; window, checksum, urgent; MSS 1460.
    bytes.extend([0, 0, 0, 0, 0x60, 0x02, 0xff, 0xff, 0, 0, 0, 0, 2, 4, 0x05, 0xb4]);
    let addresses = [&source.octets()[..], &Addresses::of(MACHINE).v4.octets()[..]];
    ipv4(source, (0, 0), TCP, &summed(bytes, 16, TCP, addresses))
}

/// Returns datagrams of 40 bytes in overlapping fragments, of which one is whole without these, and two that are right.
fn overlapping() -> Vec<Vec<u8>> {
    let peer = Addresses::of(PEER);
    let whole = datagram(&[b'x'; 32]);
    let other = [b'y'; 32];
    let four = |id, offset: u16, more, part: &[u8]| ipv4(peer.v4, (id, offset | more), UDP, part);
    vec![
        // The second begins in the first, in both orders.
        four(1, 0, MORE, &whole[..24]),
        four(1, 2, 0, &whole[16..]),
        four(2, 2, 0, &whole[16..]),
        four(2, 0, MORE, &whole[..24]),
        // One inside the first, of other bytes, before the rest: this datagram is whole without it.
        four(3, 0, MORE, &whole[..24]),
        four(3, 1, MORE, &other[..8]),
        four(3, 3, 0, &whole[24..]),
        // Two ends.
        four(4, 3, 0, &whole[24..]),
        four(4, 2, 0, &other[..8]),
        four(4, 0, MORE, &whole[..24]),
        // The right ones.
        four(8, 3, 0, &whole[24..]),
        four(8, 0, MORE, &whole[..24]),
        four(9, 0, 0, &whole),
    ]
}

/// Returns datagrams with sources that no other machine may have, and one of the peer.
fn own_sources() -> Vec<Vec<u8>> {
    let (peer, machine) = (Addresses::of(PEER), Addresses::of(MACHINE));
    let four = |source: Ipv4Addr| ipv4(source, (0, 0), UDP, &datagram(b"from outside"));
    let six = |source: Ipv6Addr| {
        let addresses = [&source.octets()[..], &machine.v6.octets()[..]];
        ipv6(source, UDP, &summed(datagram(b"from outside"), 6, UDP, addresses))
    };
    vec![
        four(machine.v4),
        four(Ipv4Addr::LOCALHOST),
        four(Ipv4Addr::new(127, 3, 2, 1)),
        four(Ipv4Addr::BROADCAST),
        four(Ipv4Addr::new(224, 0, 0, 1)),
        six(machine.v6),
        six(Ipv6Addr::LOCALHOST),
        six(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1)),
        four(peer.v4),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read() {
        let flood = Attack::SynFlood { count: 7, port: 80 };
        assert_eq!(Attack::parse("attack syn-flood 7 80\n"), Some(flood));
        assert_eq!(Attack::parse("attack overlap\n"), Some(Attack::Overlap));
        for wrong in ["attack", "attack syn-flood 7", "attack own-source 1", "ask 1 1 1"] {
            assert_eq!(Attack::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn checksums_are_right() {
        let of_header = |frame: &[u8]| checksum(&[&frame[14..34]]);
        let frame = syn(&mut Random::new(3), 80);
        assert_eq!(of_header(&frame), 0);
        let pseudo = [0, TCP, 0, 24];
        assert_eq!(checksum(&[&frame[26..34], &pseudo, &frame[34..]]), 0);
        // The checksum of an odd number of bytes.
        assert_eq!(checksum(&[&[0x12, 0x34, 0x56]]), !0x6834);
    }
}
