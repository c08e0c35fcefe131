//! Numbers that nobody outside can guess.
use core::sync::atomic::{AtomicU64, Ordering};
use hash::SipKey;

/// A source of numbers: hashes of a counter.
#[derive(Debug)]
pub struct Random {
    key: SipKey,
    counter: AtomicU64,
}

impl Random {
    /// Starts from `key`.
    pub fn new(key: SipKey) -> Random {
        Random { key, counter: AtomicU64::new(0) }
    }
    /// Returns a number.
    pub fn number(&self) -> u64 {
        self.key.hash(&self.counter.fetch_add(1, Ordering::Relaxed).to_le_bytes())
    }
    /// Returns a number below `end`; zero if that is zero.
    pub fn below(&self, end: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(end)) >> 64) as u64
    }
    /// Returns the hash of `bytes`, the same as long as the stack lives.
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        self.key.hash(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_below_their_end() {
        let random = Random::new(SipKey::new([7; 16]));
        assert!((0..1000).all(|_| random.below(10) < 10));
        assert_eq!(random.below(0), 0);
    }
}
