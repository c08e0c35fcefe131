//! The choice among the sockets of a fan-out: the hash of a flow, and the counts of frames that went to another socket.
use super::receive::{FilteredFrame, FrameRoom, facts_of};
use bpf::PacketProgram;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use hash::Seed;
use interfaces::sockets::{SeenFrame, packet_kind};

/// Flows that a member remembers (`ROLLOVER_HLEN`).
const REMEMBERED: usize = 16;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// More fragments, and the place of a fragment.
const FRAGMENT: u16 = 0x3fff;
/// Protocols with two ports at the front of their header: TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// Returns the hash of the flow of a frame, the same in both directions (`__skb_get_hash_symmetric`). Frames that are no packets of
/// IP are one flow. Fragments have no ports.
pub(super) fn flow_hash(seed: &Seed, frame: &SeenFrame<'_>) -> u32 {
    let hash = match frame.protocol {
        IPV4 => version4(seed, frame),
        IPV6 => version6(seed, frame),
        _ => None,
    };
    let hash = hash.unwrap_or_else(|| seed.hash_number(frame.protocol.into()));
    (hash >> 32) as u32 ^ hash as u32
}

/// Returns the answer of a program to a frame. As on Linux it sees a received frame without the header of the link, which was
/// removed, and a sent one with it.
pub(super) fn answer(program: &PacketProgram, frame: &SeenFrame<'_>) -> u32 {
    let skip = if frame.kind == packet_kind::OUTGOING { 0 } else { frame.link_length };
    program.run(&FilteredFrame { bytes: frame.bytes, skip }, &facts_of(frame, skip))
}

/// Reads bytes of the packet at an offset from the header of IP.
fn read<const N: usize>(frame: &SeenFrame<'_>, at: usize) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let at = i64::try_from(frame.link_length.checked_add(at)?).ok()?;
    frame.bytes.read(at, &mut bytes).then_some(bytes)
}

fn ports(frame: &SeenFrame<'_>, (at, protocol): (usize, u8)) -> [[u8; 2]; 2] {
    let found = WITH_PORTS.contains(&protocol).then(|| read::<4>(frame, at)).flatten();
    let [a, b, c, d] = found.unwrap_or_default();
    [[a, b], [c, d]]
}

fn version4(seed: &Seed, frame: &SeenFrame<'_>) -> Option<u64> {
    let header = read::<20>(frame, 0)?;
    let [first, _, _, _, _, _, f0, f1, _, protocol, _, _, addresses @ ..] = header;
    let [s0, s1, s2, s3, d0, d1, d2, d3] = addresses;
    let ports = match u16::from_be_bytes([f0, f1]) & FRAGMENT {
        0 => ports(frame, (usize::from(first & 0xf) * 4, protocol)),
        _ => <[[u8; 2]; 2]>::default(),
    };
    Some(symmetric(seed, protocol, [[s0, s1, s2, s3], [d0, d1, d2, d3]], ports))
}

fn version6(seed: &Seed, frame: &SeenFrame<'_>) -> Option<u64> {
    const LENGTH: usize = 40;
    let [next] = read::<1>(frame, 6)?;
    let (source, destination) = (read::<16>(frame, 8)?, read::<16>(frame, 24)?);
    Some(symmetric(seed, next, [source, destination], ports(frame, (LENGTH, next))))
}

/// Hashes both ends in an order that does not depend on the direction.
fn symmetric<const N: usize>(
    seed: &Seed,
    protocol: u8,
    [source, destination]: [[u8; N]; 2],
    [from, to]: [[u8; 2]; 2],
) -> u64 {
    let (one, other) = ((source, from), (destination, to));
    let (low, high) = if one <= other { (one, other) } else { (other, one) };
    let [[a, b], [c, d]] = [low.1, high.1];
    let of_ports = u32::from_be_bytes([a, b, c, d]);
    seed.hash(u64::from(protocol) << 32 | u64::from(of_ports), [low.0, high.0].as_flattened())
}

/// Frames of a member that went to others, and what chooses these (`struct packet_rollover`).
#[derive(Default)]
pub(super) struct RolloverState {
    /// The member that took the last one.
    last: AtomicUsize,
    all: AtomicU64,
    huge: AtomicU64,
    failed: AtomicU64,
    /// Hashes of flows of the last frames.
    flows: [AtomicU32; REMEMBERED],
}

impl RolloverState {
    /// Returns the member to be asked first, of `count`.
    pub(super) fn next(&self, count: usize) -> usize {
        self.last.load(Ordering::Relaxed).min(count.saturating_sub(1))
    }
    /// Counts a frame that went to the member `to` because there was only `room` for it.
    pub(super) fn rolled(&self, to: usize, room: FrameRoom) {
        self.last.store(to, Ordering::Relaxed);
        self.all.fetch_add(1, Ordering::Relaxed);
        if room == FrameRoom::Low {
            self.huge.fetch_add(1, Ordering::Relaxed);
        }
    }
    /// Counts a frame for which no member had room.
    pub(super) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }
    /// Returns the frames that went to others, those of them that were of a large flow, and those for which there was no room
    /// (PACKET_ROLLOVER_STATS).
    pub(super) fn counts(&self) -> [u64; 3] {
        [&self.all, &self.huge, &self.failed].map(|count| count.load(Ordering::Relaxed))
    }
    /// Remembers a flow in a random place. Returns whether more than half of the last frames were of it (`fanout_flow_is_huge`).
    pub(super) fn is_huge(&self, flow: u32, random: u32) -> bool {
        let is_it = |place: &&AtomicU32| place.load(Ordering::Relaxed) == flow;
        let count = self.flows.iter().filter(is_it).count();
        if let Some(place) = self.flows.get(random as usize % REMEMBERED) {
            place.store(flow, Ordering::Relaxed);
        }
        count > REMEMBERED / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bpf::PacketBytes;
    use interfaces::sockets::{FrameChecksum, hardware, packet_kind};

    struct Bytes(Vec<u8>);
    impl PacketBytes for Bytes {
        fn length(&self) -> usize {
            self.0.len()
        }
        fn read(&self, offset: i64, out: &mut [u8]) -> bool {
            let found = self.0.get(offset as usize..offset as usize + out.len());
            found.map(|bytes| out.copy_from_slice(bytes)).is_some()
        }
    }
    use alloc::vec::Vec;

    fn hash_of(packet: &[u8], protocol: u16) -> u32 {
        let bytes = Bytes([&[0; 14], packet].concat());
        let frame = SeenFrame {
            interface: 1,
            hardware: hardware::LOOPBACK,
            kind: packet_kind::HOST,
            protocol,
            source: [0; 6],
            link_length: 14,
            checksum: FrameChecksum::Unknown,
            at_ns: 0,
            bytes: &bytes,
        };
        flow_hash(&Seed::new([7; 16]), &frame)
    }

    fn udp4(ends: [(u8, u8); 2], fragment: u8) -> Vec<u8> {
        let [(source, from), (destination, to)] = ends;
        let mut all = alloc::vec![0x45, 0, 0, 28, 0, 0, fragment, 0, 64, 17, 0, 0];
        all.extend([10, 0, 0, source, 10, 0, 0, destination, 0, from, 0, to, 0, 8, 0, 0]);
        all
    }

    #[test]
    fn a_flow_has_one_hash_in_both_directions() {
        let (one, other) = ((1, 50), (2, 60));
        let hash = hash_of(&udp4([one, other], 0), IPV4);
        assert_eq!(hash, hash_of(&udp4([other, one], 0), IPV4));
        assert_ne!(hash, hash_of(&udp4([(1, 60), (2, 50)], 0), IPV4), "ports belong to addresses");
        assert_ne!(hash, hash_of(&udp4([one, (2, 61)], 0), IPV4));
        let fragment = hash_of(&udp4([one, other], 0x20), IPV4);
        assert_eq!(fragment, hash_of(&udp4([(1, 9), (2, 9)], 0x20), IPV4), "without ports");
        assert_ne!(fragment, hash_of(&udp4([one, (3, 60)], 0x20), IPV4));
    }

    #[test]
    fn a_flow_of_ipv6_has_one_hash_in_both_directions() {
        let packet = |ends: [(u8, u8); 2]| {
            let mut all = alloc::vec![0x60, 0, 0, 0, 0, 8, 17, 64];
            for (address, _) in ends {
                all.extend([0; 15]);
                all.push(address);
            }
            all.extend([0, ends[0].1, 0, ends[1].1, 0, 8, 0, 0]);
            all
        };
        let hash = hash_of(&packet([(1, 50), (2, 60)]), IPV6);
        assert_eq!(hash, hash_of(&packet([(2, 60), (1, 50)]), IPV6));
        assert_ne!(hash, hash_of(&packet([(1, 50), (2, 61)]), IPV6));
        assert_eq!(hash_of(&[0x60, 0], IPV6), hash_of(&[0x61], IPV6), "too short for addresses");
        assert_ne!(hash_of(&[], 0x88b5), hash_of(&[], 0x88b6));
    }

    #[test]
    fn a_flow_is_huge_once_it_fills_more_than_half_of_the_memory() {
        let state = RolloverState::default();
        for place in 0..9 {
            assert!(!state.is_huge(77, place), "{place}");
        }
        assert!(state.is_huge(77, 9));
        assert!(!state.is_huge(78, 10));
    }
}
