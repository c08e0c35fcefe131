//! Labels of packets: the options of IPv4 and IPv6 that carry a secrecy over a network.
//!
//! Levels and categories have the same numbers on the network as here. An option names the domain of interpretation that gives the
//! numbers their meaning.
pub mod calipso;
pub mod cipso;
#[cfg(test)]
mod tests;

use crate::{Categories, Secrecy};

/// A secrecy, and the domain by which its numbers are to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketLabel {
    /// The domain of interpretation. Zero is none.
    pub domain: u32,
    /// The secrecy.
    pub secrecy: Secrecy,
}

/// The reason why bytes are no label, or a label cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// It is another option.
    Kind,
    /// A length contradicts another one.
    Length,
    /// The domain of interpretation is zero.
    Domain,
    /// A tag is of an unknown type, or there is not one tag exactly.
    Tag,
    /// There is no such level here.
    Level,
    /// There is no such category here, or categories are not in their order.
    Category,
    /// The checksum is wrong.
    Checksum,
    /// The categories do not fit the option.
    Room,
}

/// Returns a secrecy of numbers that a packet has.
fn secrecy(level: u8, categories: Categories) -> Result<Secrecy, WireError> {
    Secrecy::new(level, categories).ok_or(WireError::Level)
}

/// Returns the set of a bit map, whose first bit is the highest of its first byte.
fn of_bit_map(bytes: &[u8]) -> Result<Categories, WireError> {
    let mut categories = Categories::NONE;
    for (place, byte) in bytes.iter().enumerate() {
        for bit in (0..8).filter(|bit| byte & (0x80 >> bit) != 0) {
            let category = u16::try_from(place * 8 + bit).map_err(|_| WireError::Category)?;
            if !categories.insert(category) {
                return Err(WireError::Category);
            }
        }
    }
    Ok(categories)
}

/// Writes a set into a bit map that has room for it.
fn to_bit_map(categories: &Categories, map: &mut [u8]) {
    for (first, last) in categories.runs() {
        for category in first..=last {
            if let Some(byte) = map.get_mut(usize::from(category / 8)) {
                *byte |= 0x80 >> (category % 8);
            }
        }
    }
}

/// Returns the number of categories up to the greatest one.
fn span(categories: &Categories) -> usize {
    categories.runs().last().map_or(0, |(_, last)| usize::from(last) + 1)
}
