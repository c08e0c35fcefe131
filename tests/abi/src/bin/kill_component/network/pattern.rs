//! [`Pattern`]: the endless bytes that both ends of a connection know.
use workload::transfers::fill_pattern;

/// The endless pattern of a seed, from a place on.
pub struct Pattern {
    seed: u64,
    at: u64,
    buffer: Vec<u8>,
}

impl Pattern {
    /// Makes the pattern of `seed`, from its start on.
    pub fn new(seed: u64) -> Pattern {
        Pattern { seed, at: 0, buffer: Vec::new() }
    }
    /// Returns the place of the next byte.
    pub fn at(&self) -> u64 {
        self.at
    }
    /// Fills `bytes` with the next bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        fill_pattern(self.seed, self.at, bytes);
        self.at += bytes.len() as u64;
    }
    /// Returns whether `bytes` are the next ones.
    pub fn is_next(&mut self, bytes: &[u8]) -> bool {
        let mut own = std::mem::take(&mut self.buffer);
        own.resize(bytes.len(), 0);
        self.fill(&mut own);
        let is_next = own == bytes;
        self.buffer = own;
        is_next
    }
}
