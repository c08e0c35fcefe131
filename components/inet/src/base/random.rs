//! SipHash-2-4 (Aumasson and Bernstein, 2012), and numbers that nobody outside can guess.
use core::sync::atomic::{AtomicU64, Ordering};

/// The secret key of a stack.
#[derive(Clone, Copy)]
pub struct SecretKey(u64, u64);

impl SecretKey {
    /// Makes a key of random bytes.
    pub fn new(bytes: [u8; 16]) -> SecretKey {
        let whole = u128::from_le_bytes(bytes);
        SecretKey(whole as u64, (whole >> 64) as u64)
    }
    /// Returns the hash of `bytes`.
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        let mut state = [
            self.0 ^ 0x736f_6d65_7073_6575,
            self.1 ^ 0x646f_7261_6e64_6f6d,
            self.0 ^ 0x6c79_6765_6e65_7261,
            self.1 ^ 0x7465_6462_7974_6573,
        ];
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            absorb(&mut state, u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        absorb(&mut state, u64::from_le_bytes(last) | (bytes.len() as u64) << 56);
        let [_, _, c, _] = &mut state;
        *c ^= 0xff;
        (0..4).for_each(|_| round(&mut state));
        state.iter().fold(0, |all, word| all ^ word)
    }
}

impl core::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("SecretKey")
    }
}

fn absorb(state: &mut [u64; 4], word: u64) {
    let [.., d] = state;
    *d ^= word;
    round(state);
    round(state);
    let [a, ..] = state;
    *a ^= word;
}

fn round([a, b, c, d]: &mut [u64; 4]) {
    *a = a.wrapping_add(*b);
    *b = b.rotate_left(13) ^ *a;
    *a = a.rotate_left(32);
    *c = c.wrapping_add(*d);
    *d = d.rotate_left(16) ^ *c;
    *a = a.wrapping_add(*d);
    *d = d.rotate_left(21) ^ *a;
    *c = c.wrapping_add(*b);
    *b = b.rotate_left(17) ^ *c;
    *c = c.rotate_left(32);
}

/// A source of numbers: hashes of a counter.
#[derive(Debug)]
pub struct Random {
    key: SecretKey,
    counter: AtomicU64,
}

impl Random {
    /// Starts from `key`.
    pub fn new(key: SecretKey) -> Random {
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
    fn the_hash_is_that_of_the_paper() {
        let key = SecretKey::new(core::array::from_fn(|byte| byte as u8));
        let bytes: [u8; 15] = core::array::from_fn(|byte| byte as u8);
        assert_eq!(key.hash(&bytes), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn numbers_stay_below_their_end() {
        let random = Random::new(SecretKey::new([7; 16]));
        assert!((0..1000).all(|_| random.below(10) < 10));
        assert_eq!(random.below(0), 0);
    }
}
