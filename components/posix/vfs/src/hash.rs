//! A keyed hash of names: multiply and fold, seeded at random so that programs cannot aim.
//! Source: the folded multiply of wyhash (Wang Yi, public domain).

/// The key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed {
    first: u64,
    second: u64,
}

impl Seed {
    pub(crate) fn random() -> Seed {
        let mut bytes = [0; 16];
        rt::entropy::fill(&mut bytes);
        let whole = u128::from_le_bytes(bytes);
        Seed { first: whole as u64 | 1, second: (whole >> 64) as u64 | 1 }
    }
    /// Hash of `name` in directory `parent`.
    pub(crate) fn hash(&self, parent: u64, name: &[u8]) -> u64 {
        let mut state = fold(parent ^ self.first, name.len() as u64 ^ self.second);
        let mut words = name.chunks_exact(8);
        for word in &mut words {
            let word = word.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
            state = fold(state ^ word, self.second);
        }
        let tail = words.remainder();
        let tail = tail.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        fold(state ^ tail, self.first)
    }
}

fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}
