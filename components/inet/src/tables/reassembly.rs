//! Fragments that wait for the rest of their packet (RFC 791, RFC 8200 section 4.5, RFC 5722).
//!
//! A fragment within another is a duplicate and ignored; any other overlap poisons the packet: neither what came nor what comes of it
//! is kept. Memory is limited, as in Linux by `ipfrag_high_thresh`: at the limit, fragments are refused until others end.
use super::interface::InterfaceIndex;
use crate::base::{
    address::Family,
    buffer::{Buffer, BufferChain},
};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::net::IpAddr;
use labels::SecrecyId;

/// Memory of all fragments, at most, in bytes.
pub const MEMORY_MAX: usize = 4 << 20;
/// Memory of a packet or a fragment beside its payload.
const OVERHEAD: usize = 512;
/// Bytes of the payload of a packet, at most.
const PAYLOAD_MAX: usize = 65_535;
/// Time for which the first fragment to come waits: of IPv4 (`ipfrag_time`), of IPv6 (RFC 8200).
const LIFE4_NS: u64 = 30 * 1_000_000_000;
const LIFE6_NS: u64 = 60 * 1_000_000_000;

/// The packet that a fragment belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FragmentKey {
    /// The sender.
    pub source: IpAddr,
    /// The receiver.
    pub destination: IpAddr,
    /// The number of the packet.
    pub identification: u32,
    /// The protocol, of IPv4; zero for IPv6.
    pub protocol: u8,
    /// The interface.
    pub interface: InterfaceIndex,
    /// The secrecy.
    pub label: SecrecyId,
}

/// A fragment.
#[derive(Debug)]
pub struct Fragment<B> {
    /// First byte in the payload of the packet.
    pub offset: usize,
    /// Others follow.
    pub has_more: bool,
    /// The headers in front, which are kept of the first fragment alone.
    pub headers: Vec<u8>,
    /// The bytes.
    pub payload: BufferChain<B>,
}

/// The result of a fragment.
#[derive(Debug)]
pub enum Reassembled<B> {
    /// Others are missing.
    Waiting,
    /// The fragment is refused: malformed, overlapping, or one too many.
    Refused,
    /// The packet is whole: the headers of its first fragment, and its payload.
    Whole(Vec<u8>, BufferChain<B>),
}

/// A packet whose time is over and whose first fragment came: the headers and the payload of that.
pub type ExpiredPacket<B> = (FragmentKey, Vec<u8>, BufferChain<B>);

#[derive(Debug)]
struct PartialPacket<B> {
    parts: BTreeMap<usize, BufferChain<B>>,
    /// Sum of the lengths of the parts, which do not overlap.
    received: usize,
    total: Option<usize>,
    headers: Vec<u8>,
    until_ns: u64,
    charge: usize,
    is_poisoned: bool,
}

/// The fragments.
#[derive(Debug)]
pub struct Reassembly<B> {
    packets: BTreeMap<FragmentKey, PartialPacket<B>>,
    ends: BTreeSet<(u64, FragmentKey)>,
    memory: usize,
}

impl<B> Default for Reassembly<B> {
    fn default() -> Reassembly<B> {
        Reassembly { packets: BTreeMap::new(), ends: BTreeSet::new(), memory: 0 }
    }
}

impl<B: Buffer> Reassembly<B> {
    /// Takes a fragment.
    pub fn add(&mut self, key: FragmentKey, fragment: Fragment<B>, now_ns: u64) -> Reassembled<B> {
        let length = fragment.payload.length();
        let end = fragment.offset.saturating_add(length);
        let is_aligned = !fragment.has_more || length.is_multiple_of(8);
        if length == 0 || end > PAYLOAD_MAX || !is_aligned {
            return Reassembled::Refused;
        }
        let charge = fragment.payload.memory().saturating_add(fragment.headers.len() + OVERHEAD);
        let fresh = if self.packets.contains_key(&key) { 0 } else { OVERHEAD };
        if self.memory.saturating_add(charge + fresh) > MEMORY_MAX {
            return Reassembled::Refused;
        }
        let life_ns = if Family::of(key.source) == Family::V4 { LIFE4_NS } else { LIFE6_NS };
        let (ends, until_ns) = (&mut self.ends, now_ns.saturating_add(life_ns));
        let packet = self.packets.entry(key).or_insert_with(|| {
            ends.insert((until_ns, key));
            PartialPacket::new(until_ns)
        });
        let before = packet.charge;
        let result = packet.add(fragment, charge);
        self.memory = self.memory + fresh + packet.charge - before;
        match result {
            Placed::Refused => Reassembled::Refused,
            Placed::Kept if packet.total == Some(packet.received) => self.finish(key),
            Placed::Kept => Reassembled::Waiting,
        }
    }
    fn finish(&mut self, key: FragmentKey) -> Reassembled<B> {
        let Some(packet) = self.take(key) else { return Reassembled::Refused };
        let mut payload = BufferChain::default();
        for part in packet.parts.into_values() {
            payload.append(part);
        }
        Reassembled::Whole(packet.headers, payload)
    }
    fn take(&mut self, key: FragmentKey) -> Option<PartialPacket<B>> {
        let packet = self.packets.remove(&key)?;
        self.ends.remove(&(packet.until_ns, key));
        self.memory = self.memory.saturating_sub(packet.charge + OVERHEAD);
        Some(packet)
    }
    /// Returns the time before which nothing is to do.
    pub fn earliest_ns(&self) -> u64 {
        self.ends.first().map_or(u64::MAX, |(end, _)| *end)
    }
    /// Ends packets whose time is over. Returns their number, and those whose first fragment came.
    pub fn poll(&mut self, now_ns: u64) -> (usize, Vec<ExpiredPacket<B>>) {
        let (mut count, mut expired) = (0, Vec::new());
        while let Some((end, key)) = self.ends.first().copied()
            && end <= now_ns
        {
            count += 1;
            let packet = self.take(key);
            if let Some(mut packet) = packet
                && let Some(first) = packet.parts.remove(&0)
            {
                expired.push((key, packet.headers, first));
            }
            self.ends.remove(&(end, key));
        }
        (count, expired)
    }
    /// Returns the memory in use, in bytes.
    #[cfg(test)]
    pub fn memory(&self) -> usize {
        self.memory
    }
}

/// The result of a fragment for its packet.
enum Placed {
    Kept,
    Refused,
}

impl<B: Buffer> PartialPacket<B> {
    fn new(until_ns: u64) -> PartialPacket<B> {
        PartialPacket {
            parts: BTreeMap::new(),
            received: 0,
            total: None,
            headers: Vec::new(),
            until_ns,
            charge: 0,
            is_poisoned: false,
        }
    }
    fn add(&mut self, fragment: Fragment<B>, charge: usize) -> Placed {
        let (start, length) = (fragment.offset, fragment.payload.length());
        let end = start + length;
        let is_past_end = self
            .total
            .is_some_and(|total| if fragment.has_more { end > total } else { end != total });
        let last_end = self.parts.last_key_value().map_or(0, |(at, part)| at + part.length());
        let is_short = !fragment.has_more && end < last_end;
        let before = self.parts.range(..=start).next_back();
        let end_before = before.map_or(0, |(at, part)| at + part.length());
        let next = self.parts.range(start..).next().map_or(usize::MAX, |(at, _)| *at);
        if self.is_poisoned {
            return Placed::Refused;
        }
        if !is_past_end && end <= end_before && before.is_some() {
            return Placed::Kept;
        }
        if is_past_end || is_short || start < end_before || end > next {
            self.poison();
            return Placed::Refused;
        }
        if !fragment.has_more {
            self.total = Some(end);
        }
        if start == 0 {
            self.headers = fragment.headers;
        }
        self.received += length;
        self.charge += charge;
        self.parts.insert(start, fragment.payload);
        Placed::Kept
    }
    /// Forgets what came, and refuses what comes.
    fn poison(&mut self) {
        *self = PartialPacket { is_poisoned: true, ..PartialPacket::new(self.until_ns) };
    }
}

#[cfg(test)]
#[path = "reassembly_tests.rs"]
mod tests;
