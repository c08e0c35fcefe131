//! CIPSO, the label of packets of IPv4 (FIPS 188; draft-ietf-cipso-ipsecurity-01).
//!
//! An option has one tag: of type 1, a bit map, if all categories are below 240, or else of type 2, a list, or of type 5, ranges.
use super::{PacketLabel, WireError, of_bit_map, secrecy, span, to_bit_map};
use crate::Categories;
use alloc::vec::Vec;

/// The kind of the option. Each fragment has it.
pub const KIND: u8 = 134;
/// Bytes of an option at most: the room of a header of IPv4.
pub const LENGTH_MAX: usize = 40;

/// Kind, length and domain.
const FRONT: usize = 6;
/// Type, length, alignment and level.
const TAG_FRONT: usize = 4;
/// Bytes of categories at most.
const CATEGORIES_MAX: usize = LENGTH_MAX - FRONT - TAG_FRONT;

const BIT_MAP: u8 = 1;
const ENUMERATED: u8 = 2;
const RANGED: u8 = 5;

/// Returns the option of a label.
///
/// # Errors
/// [`WireError::Domain`]; [`WireError::Room`] if no tag has room for the categories.
pub fn encode(label: &PacketLabel) -> Result<Vec<u8>, WireError> {
    if label.domain == 0 {
        return Err(WireError::Domain);
    }
    let categories = label.secrecy.categories();
    let (tag, bytes) = match span(categories) {
        span if span <= CATEGORIES_MAX * 8 => {
            let mut map = [0; CATEGORIES_MAX];
            to_bit_map(categories, &mut map);
            (BIT_MAP, map.into_iter().take(span.div_ceil(8)).collect())
        }
        _ => enumerated(categories).or_else(|| ranged(categories)).ok_or(WireError::Room)?,
    };
    let tag_length = TAG_FRONT + bytes.len();
    let mut option = Vec::with_capacity(FRONT + tag_length);
    option.extend([KIND, (FRONT + tag_length) as u8]);
    option.extend(label.domain.to_be_bytes());
    option.extend([tag, tag_length as u8, 0, label.secrecy.level()]);
    option.extend(bytes);
    Ok(option)
}

/// Returns the categories as a list, the least first.
fn enumerated(categories: &Categories) -> Option<(u8, Vec<u8>)> {
    let all = || categories.runs().flat_map(|(first, last)| first..=last);
    let fits = all().nth(CATEGORIES_MAX / 2).is_none();
    fits.then(|| (ENUMERATED, all().flat_map(u16::to_be_bytes).collect()))
}

/// Returns the categories as ranges, the greatest first, and in each the last before the first. A first of zero at the end is left out.
fn ranged(categories: &Categories) -> Option<(u8, Vec<u8>)> {
    let mut runs: Vec<(u16, u16)> = categories.runs().take(CATEGORIES_MAX).collect();
    runs.reverse();
    let mut bytes: Vec<u8> =
        runs.iter().flat_map(|(first, last)| [*last, *first]).flat_map(u16::to_be_bytes).collect();
    if runs.last().is_some_and(|(first, _)| *first == 0) {
        bytes.truncate(bytes.len() - 2);
    }
    (bytes.len() <= CATEGORIES_MAX).then_some((RANGED, bytes))
}

/// Returns the label of an option, which begins with its kind and its length.
///
/// # Errors
/// [`WireError`], but [`WireError::Checksum`] and [`WireError::Room`].
pub fn decode(option: &[u8]) -> Result<PacketLabel, WireError> {
    let (front, tag) = option.split_first_chunk::<FRONT>().ok_or(WireError::Length)?;
    let [kind, length, domain @ ..] = *front;
    if kind != KIND {
        return Err(WireError::Kind);
    }
    if usize::from(length) != option.len() || option.len() > LENGTH_MAX {
        return Err(WireError::Length);
    }
    let domain = u32::from_be_bytes(domain);
    if domain == 0 {
        return Err(WireError::Domain);
    }
    let (front, bytes) = tag.split_first_chunk::<TAG_FRONT>().ok_or(WireError::Tag)?;
    let [kind, length, alignment, level] = *front;
    if usize::from(length) != tag.len() || alignment != 0 {
        return Err(WireError::Tag);
    }
    let categories = match kind {
        BIT_MAP => of_bit_map(bytes)?,
        ENUMERATED => of_list(bytes)?,
        RANGED => of_ranges(bytes)?,
        _ => return Err(WireError::Tag),
    };
    Ok(PacketLabel { domain, secrecy: secrecy(level, categories)? })
}

/// Returns the numbers of 16 bits in `bytes`.
fn numbers(bytes: &[u8]) -> Result<impl Iterator<Item = u16>, WireError> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    rest.is_empty()
        .then(|| pairs.iter().map(|pair| u16::from_be_bytes(*pair)))
        .ok_or(WireError::Tag)
}

fn of_list(bytes: &[u8]) -> Result<Categories, WireError> {
    let (mut categories, mut least) = (Categories::NONE, 0);
    for category in numbers(bytes)? {
        if category < least || !categories.insert(category) {
            return Err(WireError::Category);
        }
        least = category.saturating_add(1);
    }
    Ok(categories)
}

fn of_ranges(bytes: &[u8]) -> Result<Categories, WireError> {
    let (mut categories, mut end) = (Categories::NONE, u16::MAX);
    let mut numbers = numbers(bytes)?;
    while let Some(last) = numbers.next() {
        let first = numbers.next().unwrap_or(0);
        if first > last || last >= end || !(first..=last).all(|one| categories.insert(one)) {
            return Err(WireError::Category);
        }
        end = first;
    }
    Ok(categories)
}
