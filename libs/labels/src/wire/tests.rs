//! Options are read as they were written; bytes of strangers give an error or a label, and no panic.
use super::{PacketLabel, WireError, calipso, cipso};
use crate::{Categories, Secrecy};
use alloc::{vec, vec::Vec};
use proptest::{collection::btree_set, prelude::*};
use std::panic::catch_unwind;
use xorshift::{Xorshift, variable};

const COUNT: u64 = 200_000;

fn label(domain: u32, level: u8, numbers: impl IntoIterator<Item = u16>) -> PacketLabel {
    let mut categories = Categories::NONE;
    assert!(numbers.into_iter().all(|number| categories.insert(number)));
    PacketLabel { domain, secrecy: Secrecy::new(level, categories).unwrap() }
}

fn labels() -> impl Strategy<Value = PacketLabel> {
    let low = btree_set(0u16..240, 0..40);
    let few = btree_set(0u16..1024, 0..=15);
    let runs = proptest::collection::vec((0u16..1024, 0u16..100), 0..6).prop_map(|runs| {
        let all = runs.into_iter().flat_map(|(first, count)| first..=(first + count).min(1023));
        all.collect()
    });
    (1u32.., 0u8..16, prop_oneof![low, few, runs])
        .prop_map(|(domain, level, numbers)| label(domain, level, numbers))
}

proptest! {
    #[test]
    fn an_option_is_read_as_it_was_written(label in labels()) {
        let option = cipso::encode(&label).unwrap();
        prop_assert!(option.len() <= cipso::LENGTH_MAX);
        prop_assert_eq!(cipso::decode(&option), Ok(label));
        let option = calipso::encode(&label).unwrap();
        prop_assert_eq!((option.len() - 10) % 8, 0);
        prop_assert_eq!(calipso::decode(&option), Ok(label));
    }

    #[test]
    fn a_changed_bit_of_calipso_is_found(label in labels(), at in 0usize..10, bit in 0u8..8) {
        let mut option = calipso::encode(&label).unwrap();
        option[at] ^= 1 << bit;
        prop_assert!(calipso::decode(&option).is_err());
    }
}

#[test]
fn the_bytes_are_those_of_the_standards() {
    let cipso = |label| cipso::encode(&label).unwrap();
    assert_eq!(cipso(label(3, 2, [])), [134, 10, 0, 0, 0, 3, 1, 4, 0, 2]);
    assert_eq!(cipso(label(3, 2, [0, 9])), [134, 12, 0, 0, 0, 3, 1, 6, 0, 2, 0x80, 0x40]);
    assert_eq!(cipso(label(1, 0, [1, 240])), [134, 14, 0, 0, 0, 1, 2, 8, 0, 0, 0, 1, 0, 240]);
    let ranges = label(1, 0, (0..100).chain(300..=400));
    let bytes = [134, 16, 0, 0, 0, 1, 5, 10, 0, 0, 1, 144, 1, 44, 0, 99];
    assert_eq!(cipso(ranges), bytes);
    // The checksum's test value of CRC-16/X-25, for bytes that lie before its own.
    assert_eq!(!calipso::checksum(b"12345678"), !crc(b"12345678"));
    let option = calipso::encode(&label(0x0102_0304, 5, [0, 63])).unwrap();
    assert_eq!(option[..8], [7, 16, 1, 2, 3, 4, 2, 5]);
    assert_eq!(option[10..], [0x80, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(calipso::encode(&label(1, 0, [])).unwrap().len(), 10);
    assert_eq!(crc(b"123456789"), 0x906e);
}

/// The checksum in its other form: by long division with the bits in the order of the line.
fn crc(bytes: &[u8]) -> u16 {
    let bits = bytes.iter().flat_map(|byte| (0..8).map(move |bit| u16::from(byte >> bit & 1)));
    let divided = bits.fold(u16::MAX, |rest, bit| {
        let has_carry = rest >> 15 ^ bit != 0;
        if has_carry { rest << 1 ^ 0x1021 } else { rest << 1 }
    });
    (!divided).reverse_bits()
}

#[test]
fn categories_without_room_are_refused() {
    let every_second = label(1, 3, (0..64).map(|number| number * 16));
    assert_eq!(cipso::encode(&every_second), Err(WireError::Room));
    assert!(calipso::encode(&every_second).is_ok());
    // Eight ranges have room only if the last one begins at zero.
    let ranges =
        |first: u16| label(1, 3, (0..8u16).flat_map(move |run| run * 100 + first..run * 100 + 50));
    assert_eq!(cipso::decode(&cipso::encode(&ranges(0)).unwrap()), Ok(ranges(0)));
    assert_eq!(cipso::encode(&ranges(1)), Err(WireError::Room));
    for encode in [cipso::encode, calipso::encode] {
        assert_eq!(encode(&label(0, 3, [])), Err(WireError::Domain));
    }
}

#[test]
fn malformed_options_are_refused() {
    use WireError::{Category, Domain, Kind, Length, Level, Tag};
    let cases: [(&[u8], WireError); 14] = [
        (&[], Length),
        (&[134, 6, 0, 0, 0, 1], Tag),
        (&[133, 10, 0, 0, 0, 1, 1, 4, 0, 0], Kind),
        (&[134, 11, 0, 0, 0, 1, 1, 4, 0, 0], Length),
        (&[134, 10, 0, 0, 0, 0, 1, 4, 0, 0], Domain),
        (&[134, 10, 0, 0, 0, 1, 1, 5, 0, 0], Tag),
        (&[134, 10, 0, 0, 0, 1, 3, 4, 0, 0], Tag),
        (&[134, 10, 0, 0, 0, 1, 1, 4, 1, 0], Tag),
        (&[134, 10, 0, 0, 0, 1, 1, 4, 0, 16], Level),
        (&[134, 11, 0, 0, 0, 1, 2, 5, 0, 0, 1], Tag),
        (&[134, 14, 0, 0, 0, 1, 2, 8, 0, 0, 0, 2, 0, 2], Category),
        (&[134, 12, 0, 0, 0, 1, 2, 6, 0, 0, 4, 0], Category),
        (&[134, 14, 0, 0, 0, 1, 5, 8, 0, 0, 0, 1, 0, 2], Category),
        (&[134, 16, 0, 0, 0, 1, 5, 10, 0, 0, 0, 9, 0, 5, 0, 5], Category),
    ];
    for (option, error) in cases {
        assert_eq!(cipso::decode(option), Err(error), "{option:?}");
    }
    // Two tags.
    let two = [134, 14, 0, 0, 0, 1, 1, 4, 0, 0, 1, 4, 0, 0];
    assert_eq!(cipso::decode(&two), Err(Tag));
}

/// Gives both parsers the bytes of a seed. Returns whether one of them took them.
fn parse_one(seed: u64) -> bool {
    let mut numbers = Xorshift::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut bytes = match seed % 3 {
        0 => (0..numbers.below(60)).map(|_| numbers.next() as u8).collect(),
        1 => vec![134, 0, 0, 0, 0, 1, [1, 2, 5][numbers.below(3)], 0, 0, numbers.below(17) as u8],
        _ => vec![7, 0, 0, 0, 0, 1, 0, numbers.below(17) as u8, 0, 0],
    };
    if !seed.is_multiple_of(3) {
        bytes.extend((0..numbers.below(20) * 2).map(|_| numbers.below(5) as u8));
        let length = bytes.len() as u8;
        match bytes[0] {
            134 => (bytes[1], bytes[7]) = (length, length - 6),
            _ => (bytes[1], bytes[6]) = (length - 2, (length - 10) / 4),
        }
    }
    if numbers.chance(1, 4) {
        let place = numbers.below(bytes.len());
        bytes[place..].first_mut().into_iter().for_each(|byte| *byte = numbers.next() as u8);
    }
    if bytes.first() == Some(&7) && bytes.len() >= 10 {
        let sum = calipso::checksum(&bytes).to_le_bytes();
        bytes[8..10].copy_from_slice(&sum);
    }
    read_back(&bytes, cipso::decode, cipso::encode)
        | read_back(&bytes, calipso::decode, calipso::encode)
}

/// Returns whether an option is a label. If it is, it is written as one that means the same.
fn read_back(
    bytes: &[u8],
    decode: fn(&[u8]) -> Result<PacketLabel, WireError>,
    encode: fn(&PacketLabel) -> Result<Vec<u8>, WireError>,
) -> bool {
    let Ok(label) = decode(bytes) else { return false };
    assert_eq!(decode(&encode(&label).unwrap()), Ok(label));
    true
}

#[test]
fn no_label_of_a_packet_makes_a_parser_panic() {
    let (first, count) = (variable("SKERRY_FUZZ_SEED", 1), variable("SKERRY_FUZZ_COUNT", COUNT));
    let mut taken = 0;
    for seed in first..first + count {
        let Ok(is_label) = catch_unwind(|| parse_one(seed)) else {
            panic!("SKERRY_FUZZ_COUNT=1 SKERRY_FUZZ_SEED={seed} fails");
        };
        taken += u64::from(is_label);
    }
    assert!(count < 1000 || taken > count / 20, "{taken} of {count}");
}
