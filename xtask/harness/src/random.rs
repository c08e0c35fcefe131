//! [`Random`]: a small pseudo-random generator (xorshift64), so that a seed determines a whole run.

/// Numbers that look random and follow from their seed.
pub struct Random(u64);

impl Random {
    /// Makes the generator of `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns the next number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % limit.max(1)
    }
}
