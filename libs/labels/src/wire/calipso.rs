//! CALIPSO, the label of packets of IPv6 (RFC 5570): an option of the hop-by-hop header.
use super::{PacketLabel, WireError, of_bit_map, secrecy, span, to_bit_map};
use alloc::{vec, vec::Vec};

/// The kind of the option. A host that does not know it passes over it.
pub const KIND: u8 = 7;

/// Kind, length, domain, words of the bit map, level and checksum.
const FRONT: usize = 10;
/// The place of the checksum.
const CHECKSUM: usize = 8;

/// Returns the option of a label.
///
/// # Errors
/// [`WireError::Domain`].
pub fn encode(label: &PacketLabel) -> Result<Vec<u8>, WireError> {
    if label.domain == 0 {
        return Err(WireError::Domain);
    }
    let categories = label.secrecy.categories();
    // The bit map is of whole 64-bit words, and its length is told in 32-bit words.
    let map = span(categories).div_ceil(64) * 8;
    let mut option = vec![0; FRONT + map];
    if let Some((front, map)) = option.split_first_chunk_mut::<FRONT>() {
        let [a, b, c, d] = label.domain.to_be_bytes();
        let (length, words) = ((FRONT - 2 + map.len()) as u8, (map.len() / 4) as u8);
        *front = [KIND, length, a, b, c, d, words, label.secrecy.level(), 0, 0];
        to_bit_map(categories, map);
    }
    let sum = checksum(&option).to_le_bytes();
    if let Some(place) = option.get_mut(CHECKSUM..FRONT) {
        place.copy_from_slice(&sum);
    }
    Ok(option)
}

/// Returns the label of an option, which begins with its kind and its length.
///
/// # Errors
/// [`WireError`], but [`WireError::Tag`] and [`WireError::Room`].
pub fn decode(option: &[u8]) -> Result<PacketLabel, WireError> {
    let (front, map) = option.split_first_chunk::<FRONT>().ok_or(WireError::Length)?;
    let [kind, length, a, b, c, d, words, level, low, high] = *front;
    if kind != KIND {
        return Err(WireError::Kind);
    }
    if usize::from(length) + 2 != option.len() || usize::from(words) * 4 != map.len() {
        return Err(WireError::Length);
    }
    if checksum(option) != u16::from_le_bytes([low, high]) {
        return Err(WireError::Checksum);
    }
    let domain = u32::from_be_bytes([a, b, c, d]);
    if domain == 0 {
        return Err(WireError::Domain);
    }
    Ok(PacketLabel { domain, secrecy: secrecy(level, of_bit_map(map)?)? })
}

/// Returns the checksum of an option whose own two bytes count as zeroes (RFC 1662, appendix C; CRC-16/X-25).
pub(super) fn checksum(option: &[u8]) -> u16 {
    let bytes = option.iter().enumerate();
    let zeroed = bytes.map(|(at, byte)| if (CHECKSUM..FRONT).contains(&at) { 0 } else { *byte });
    !zeroed.fold(u16::MAX, |sum, byte| {
        (0..8).fold(
            sum ^ u16::from(byte),
            |sum, _| {
                if sum & 1 != 0 { sum >> 1 ^ 0x8408 } else { sum >> 1 }
            },
        )
    })
}
