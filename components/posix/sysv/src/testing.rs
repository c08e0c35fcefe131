//! Random numbers for the models' tests, xorshift64*.

/// A source of random numbers.
pub struct Random(u64);

impl Random {
    /// Makes a source that starts at `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    /// Returns the next number below `most`.
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % most
    }
}
