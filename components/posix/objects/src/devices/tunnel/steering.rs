//! The choice among the queues of a tunnel, and the packets of frames that a program wants (`TUNSETTXFILTER`).
use core::sync::atomic::{AtomicU16, Ordering};
use hash::Seed;

/// Flows that are told apart, as in Linux (`TUN_NUM_FLOW_ENTRIES`).
const FLOWS: usize = 1024;
/// No queue is known for a flow.
const NONE: u16 = u16::MAX;
/// Addresses that are compared whole (`FLT_EXACT_COUNT`); others are groups that are told apart by a hash.
const EXACT_MAX: usize = 8;
/// Bytes of an address on a link.
const MAC_BYTES: usize = 6;

/// The queues of flows: that by which a program last wrote a packet of the flow.
pub struct FlowTable {
    seed: Seed,
    queues: [AtomicU16; FLOWS],
}

impl FlowTable {
    /// Makes a table that knows none.
    pub fn new() -> FlowTable {
        let mut secret = [0; 16];
        rt::entropy::fill(&mut secret);
        FlowTable { seed: Seed::new(secret), queues: [const { AtomicU16::new(NONE) }; FLOWS] }
    }
    /// Returns the hash of the flow of a packet of IP that begins with `head`: the same for both directions.
    pub fn hash(&self, head: &[u8]) -> u64 {
        let (addresses, protocol, ports) = match head.first().map(|byte| byte >> 4) {
            Some(4) => {
                let length = usize::from(head.first().map_or(0, |byte| byte & 15)) * 4;
                (head.get(12..20), head.get(9), length)
            }
            Some(6) => (head.get(8..40), head.get(6), 40),
            _ => return 0,
        };
        let addresses = addresses.unwrap_or_default();
        let (from, to) = addresses.split_at(addresses.len() / 2);
        let protocol = protocol.copied().unwrap_or(0);
        let ports = match (protocol, head.get(ports..).and_then(|rest| rest.first_chunk())) {
            (6 | 17, Some([a, b, c, d])) => {
                [u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])]
            }
            _ => [0; 2],
        };
        // Sums do not depend on the direction.
        let ends = [(from, ports[0]), (to, ports[1])]
            .map(|(address, port)| self.seed.hash(port.into(), address));
        self.seed.hash_number(ends[0].wrapping_add(ends[1]) ^ u64::from(protocol))
    }
    /// Notes the queue by which a packet of a flow was written.
    pub fn note(&self, hash: u64, queue: usize) {
        if let Some(place) = self.queues.get(hash as usize % FLOWS) {
            place.store(u16::try_from(queue).unwrap_or(NONE), Ordering::Relaxed);
        }
    }
    /// Returns the place of the queue, of `count`, for a packet of a flow.
    pub fn queue(&self, hash: u64, count: usize) -> usize {
        let place = self.queues.get(hash as usize % FLOWS);
        let noted = place.map_or(NONE, |place| place.load(Ordering::Relaxed));
        match usize::from(noted) {
            noted if noted < count => noted,
            _ => ((hash >> 32) as usize).checked_rem(count).unwrap_or(0),
        }
    }
}

/// The receivers of frames that a program wants.
#[derive(Clone, Copy, Debug)]
pub struct AddressFilter {
    exact: [[u8; MAC_BYTES]; EXACT_MAX],
    count: usize,
    /// A bit for each hash of groups.
    groups: u64,
}

/// The treatment of frames to groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupFrames {
    /// Those of the list are wanted.
    Listed,
    /// All are (`TUN_FLT_ALLMULTI`).
    All,
}

/// Returns the hash of a group: the first six bits of its checksum in Ethernet (`ether_crc`).
fn group_bit(address: [u8; MAC_BYTES]) -> u64 {
    const POLYNOMIAL: u32 = 0x04c1_1db7;
    let bits = address.iter().flat_map(|byte| (0..8).map(move |bit| u32::from(byte >> bit & 1)));
    let sum = bits.fold(u32::MAX, |sum, bit| {
        let carry = (sum >> 31) ^ bit;
        sum << 1 ^ if carry != 0 { POLYNOMIAL } else { 0 }
    });
    1 << (sum >> 26)
}

impl AddressFilter {
    /// Makes a filter of addresses. Returns also the number of those that are compared whole. `None` if a host is among the others,
    /// which leaves all frames wanted (`update_filter`).
    pub fn new(addresses: &[u8], groups: GroupFrames) -> Option<(AddressFilter, usize)> {
        let mut filter = AddressFilter { exact: [[0; MAC_BYTES]; EXACT_MAX], count: 0, groups: 0 };
        let (addresses, _) = addresses.as_chunks::<MAC_BYTES>();
        for (place, address) in addresses.iter().enumerate() {
            match filter.exact.get_mut(place) {
                Some(exact) => {
                    *exact = *address;
                    filter.count = place + 1;
                }
                None if address[0] & 1 == 0 => return None,
                None => filter.groups |= group_bit(*address),
            }
        }
        if groups == GroupFrames::All {
            filter.groups = u64::MAX;
        }
        Some((filter, filter.count))
    }
    /// Returns whether a frame that begins with `head` is wanted.
    pub fn wants(&self, head: &[u8]) -> bool {
        let Some(receiver) = head.first_chunk::<MAC_BYTES>() else { return true };
        let mut exact = self.exact.iter().take(self.count);
        exact.any(|one| one == receiver)
            || receiver[0] & 1 != 0 && self.groups & group_bit(*receiver) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(from: u8, to: u8, ports: [u8; 2]) -> Vec<u8> {
        let mut bytes = vec![0x45; 28];
        bytes[9] = 17;
        bytes[12..20].copy_from_slice(&[10, 0, 0, from, 10, 0, 0, to]);
        bytes[20..24].copy_from_slice(&[0, ports[0], 0, ports[1]]);
        bytes
    }

    #[test]
    fn both_directions_of_a_flow_have_a_queue() {
        let table = FlowTable::new();
        let there = table.hash(&packet(1, 2, [5, 6]));
        assert_eq!(there, table.hash(&packet(2, 1, [6, 5])));
        assert_ne!(there, table.hash(&packet(2, 1, [5, 6])));
        table.note(there, 3);
        assert_eq!(table.queue(there, 4), 3);
        assert!(table.queue(there, 3) < 3, "a queue that is gone");
        assert_eq!(table.queue(there, 0), 0);
        let chosen: std::collections::BTreeSet<_> =
            (0..200).map(|port| table.queue(table.hash(&packet(1, 9, [port, 7])), 4)).collect();
        assert_eq!(chosen.len(), 4);
    }

    #[test]
    fn any_bytes_have_a_hash() {
        let table = FlowTable::new();
        for length in 0..64 {
            for first in [0, 0x40, 0x45, 0x4f, 0x60] {
                let mut bytes = vec![0xff; length];
                bytes.iter_mut().take(1).for_each(|byte| *byte = first);
                table.hash(&bytes);
            }
        }
    }

    #[test]
    fn hosts_are_compared_and_groups_hashed() {
        let host = |number| [2, 0, 0, 0, 0, number];
        let group = |number| [1, 0, 0x5e, 0, 0, number];
        let mut list: Vec<u8> = (0..8).flat_map(host).collect();
        list.extend(group(9));
        let (filter, count) = AddressFilter::new(&list, GroupFrames::Listed).unwrap();
        assert_eq!(count, 8);
        assert!(filter.wants(&host(7)) && !filter.wants(&host(8)));
        assert!(filter.wants(&group(9)) && !(0..9).all(|number| filter.wants(&group(number))));
        let (all, _) = AddressFilter::new(&list, GroupFrames::All).unwrap();
        assert!((0..99).all(|number| all.wants(&group(number))));
        list.extend(host(1));
        assert!(AddressFilter::new(&list, GroupFrames::Listed).is_none());
    }
}
