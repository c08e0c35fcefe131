//! [`flow`]: the hash of a packet's flow, by which a flow stays with one netisr and one queue of a card.
//!
//! Fragments have no ports, so all fragments of two hosts are one flow. Source: Linux `net/core/flow_dissector.c`, for the idea.
use packet::{ethernet::ethertype, protocol};

/// Bytes at the front of a packet that are enough for [`flow`]: the headers of Ethernet and IPv6, and two ports.
pub const HEAD: usize = 58;

const ETHERNET: usize = 14;
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
/// More fragments, and the place of a fragment.
const FRAGMENT: u16 = 0x3fff;

/// Returns the hash of the flow of a packet with those first bytes, from the Ethernet header on. `key` is a secret, so that
/// strangers cannot send all their flows to one thread.
pub fn flow(head: &[u8], key: u64) -> u32 {
    let hash = match word(head, 12) {
        Some(ethertype::IPV4) => version4(head, key),
        Some(ethertype::IPV6) => version6(head, key),
        _ => None,
    };
    let hash = hash.unwrap_or(key);
    (hash >> 32) as u32 ^ hash as u32
}

fn word(head: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(head.get(at..at + 2)?.try_into().ok()?))
}

fn mix(hash: u64, bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(hash, |hash, chunk| {
        let value = chunk.iter().fold(0, |value: u64, byte| value << 8 | u64::from(*byte));
        let product = (hash ^ value).wrapping_mul(MULTIPLIER);
        product ^ product.rotate_right(29)
    })
}

/// Mixes the ports into `hash`, if the protocol has any.
fn with_ports(hash: u64, head: &[u8], (at, number): (usize, u8)) -> u64 {
    let hash = mix(hash, &[number]);
    match number {
        protocol::TCP | protocol::UDP => {
            head.get(at..at + 4).map_or(hash, |ports| mix(hash, ports))
        }
        _ => hash,
    }
}

fn version4(head: &[u8], key: u64) -> Option<u64> {
    let length = usize::from(head.get(ETHERNET)? & 0xf) * 4;
    let hash = mix(key, head.get(ETHERNET + 12..ETHERNET + 20)?);
    if word(head, ETHERNET + 6)? & FRAGMENT != 0 {
        return Some(hash);
    }
    Some(with_ports(hash, head, (ETHERNET + length, *head.get(ETHERNET + 9)?)))
}

fn version6(head: &[u8], key: u64) -> Option<u64> {
    let hash = mix(key, head.get(ETHERNET + 8..ETHERNET + 40)?);
    Some(with_ports(hash, head, (ETHERNET + 40, *head.get(ETHERNET + 6)?)))
}
