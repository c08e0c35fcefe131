//! Keyed hashes. [`SipKey`] is for values that nobody outside may guess.
//!
//! [`Seed`] is a fast hash of names and numbers: multiply and fold, seeded at random so that programs cannot
//! cause collisions on purpose. Source: the folded multiply of wyhash (Wang Yi, public domain).
#![no_std]
#![forbid(unsafe_code)]
mod sip;

pub use sip::SipKey;

/// The key.
#[derive(Clone, Copy, Debug)]
pub struct Seed {
    first: u64,
    second: u64,
}

impl Seed {
    /// Makes the key of 16 random bytes.
    pub fn new(bytes: [u8; 16]) -> Seed {
        let whole = u128::from_le_bytes(bytes);
        Seed { first: whole as u64 | 1, second: (whole >> 64) as u64 | 1 }
    }
    /// Returns the hash of `name` in the directory `parent`.
    pub fn hash(&self, parent: u64, name: &[u8]) -> u64 {
        let mut state = fold(parent ^ self.first, name.len() as u64 ^ self.second);
        let mut words = name.chunks_exact(8);
        for word in &mut words {
            let word = word.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
            state = fold(state ^ word, self.second);
        }
        fold(state ^ tail(words.remainder()), self.first)
    }
    /// Returns the hash of a number.
    pub fn hash_number(&self, number: u64) -> u64 {
        fold(number ^ self.first, self.second)
    }
}

/// Packs fewer than eight bytes into a number. Together with their count it is unique.
#[inline]
fn tail(bytes: &[u8]) -> u64 {
    match (bytes.first_chunk(), bytes.last_chunk()) {
        // For four to seven bytes: the first four and the last four, which may overlap.
        (Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32
        }
        _ => match (bytes.first(), bytes.get(bytes.len() / 2), bytes.last()) {
            // For one to three bytes: some count twice if there are fewer than three.
            (Some(first), Some(middle), Some(last)) => {
                u64::from(*first) | u64::from(*middle) << 8 | u64::from(*last) << 16
            }
            _ => 0,
        },
    }
}

fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parents_and_keys_all_count() {
        let seed = Seed::new([7; 16]);
        let all = [
            seed.hash(1, b"name"),
            seed.hash(2, b"name"),
            seed.hash(1, b"name\0"),
            seed.hash(1, b"long name of 17 b"),
            Seed::new([8; 16]).hash(1, b"name"),
        ];
        assert_eq!(all[0], seed.hash(1, b"name"));
        assert!(all.iter().enumerate().all(|(at, one)| !all[at + 1..].contains(one)));
    }

    #[test]
    fn numbers_and_keys_both_count() {
        let hash = |key, number| Seed::new([key; 16]).hash_number(number);
        assert_eq!(hash(7, 1), hash(7, 1));
        assert!(hash(7, 1) != hash(7, 2) && hash(7, 1) != hash(8, 1));
    }
}
