//! [`SipKey`]: SipHash-2-4 (Aumasson and Bernstein, 2012), of which nobody without the key can guess a value.
use core::fmt;

/// A secret key.
#[derive(Clone, Copy)]
pub struct SipKey([u64; 2]);

impl SipKey {
    /// Makes the key of 16 random bytes.
    pub fn new(bytes: [u8; 16]) -> SipKey {
        let whole = u128::from_le_bytes(bytes);
        SipKey([whole as u64, (whole >> 64) as u64])
    }
    /// Returns the hash of `bytes`.
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut last = [0; 8];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        let words = words.iter().map(|word| u64::from_le_bytes(*word));
        self.digest(words, bytes.len(), u64::from_le_bytes(last))
    }
    /// Returns the hash of the bytes of `words`, each in little-endian order.
    #[inline]
    pub fn hash_words<const N: usize>(&self, words: [u64; N]) -> u64 {
        self.digest(words.into_iter(), N * 8, 0)
    }
    /// Digests whole words, and then the rest of `length` bytes.
    #[inline]
    fn digest(&self, words: impl Iterator<Item = u64>, length: usize, rest: u64) -> u64 {
        let [first, second] = self.0;
        let mut state = [
            first ^ 0x736f_6d65_7073_6575,
            second ^ 0x646f_7261_6e64_6f6d,
            first ^ 0x6c79_6765_6e65_7261,
            second ^ 0x7465_6462_7974_6573,
        ];
        for word in words.chain([rest | (length as u64) << 56]) {
            state[3] ^= word;
            state = round(round(state));
            state[0] ^= word;
        }
        state[2] ^= 0xff;
        let [a, b, c, d] = round(round(round(round(state))));
        a ^ b ^ c ^ d
    }
}

impl fmt::Debug for SipKey {
    /// Shows nothing of the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SipKey")
    }
}

#[inline]
fn round([mut a, mut b, mut c, mut d]: [u64; 4]) -> [u64; 4] {
    a = a.wrapping_add(b);
    b = b.rotate_left(13) ^ a;
    a = a.rotate_left(32);
    c = c.wrapping_add(d);
    d = d.rotate_left(16) ^ c;
    a = a.wrapping_add(d);
    d = d.rotate_left(21) ^ a;
    c = c.wrapping_add(b);
    b = b.rotate_left(17) ^ c;
    c = c.rotate_left(32);
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFERENCE_48: [u8; 8] = [0x51, 0xa9, 0xcb, 0x9e, 0xcb, 0xa3, 0x12, 0xe6];

    #[test]
    fn the_hash_is_that_of_the_paper() {
        let key = SipKey::new(core::array::from_fn(|byte| byte as u8));
        let bytes: [u8; 15] = core::array::from_fn(|byte| byte as u8);
        assert_eq!(key.hash(&bytes), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn siphash_gives_the_value_of_the_reference_for_48_bytes() {
        // Entry 48 of vectors_sip64 in the reference code: key 00..0f, message 00..2f.
        let key = SipKey::new(core::array::from_fn(|at| at as u8));
        let bytes: [u8; 48] = core::array::from_fn(|at| at as u8);
        let words: [u64; 6] = core::array::from_fn(|word| {
            u64::from_le_bytes(core::array::from_fn(|at| (word * 8 + at) as u8))
        });
        assert_eq!(key.hash_words(words).to_le_bytes(), REFERENCE_48);
        assert_eq!(key.hash(&bytes), key.hash_words(words));
    }
}
