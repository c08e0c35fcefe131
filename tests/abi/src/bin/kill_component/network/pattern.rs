//! [`Pattern`] and [`Sum`]: the bytes and the checksum of `xtask/wire/src/pattern.rs`.

const WORD: usize = 8;

/// The endless pattern of a seed, from a place on.
pub struct Pattern {
    seed: u64,
    at: u64,
    buffer: Vec<u8>,
}

/// Returns a word of the pattern (splitmix64).
fn word(seed: u64, number: u64) -> [u8; WORD] {
    let mut word = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (word ^ (word >> 31)).to_le_bytes()
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
        let mut rest = &mut *bytes;
        while !rest.is_empty() {
            let word = word(self.seed, self.at / WORD as u64);
            let word = &word[self.at as usize % WORD..];
            let (now, later) = rest.split_at_mut(word.len().min(rest.len()));
            now.copy_from_slice(&word[..now.len()]);
            self.at += now.len() as u64;
            rest = later;
        }
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

/// The length of what was sent, and its CRC-32 (that of Ethernet).
pub struct Sum {
    length: u64,
    register: u32,
    table: [u32; 256],
}

impl Default for Sum {
    fn default() -> Sum {
        const POLYNOMIAL: u32 = 0xedb8_8320;
        let of = |byte: usize| {
            (0..8).fold(byte as u32, |register, _| (register >> 1) ^ (POLYNOMIAL * (register & 1)))
        };
        Sum { length: 0, register: u32::MAX, table: std::array::from_fn(of) }
    }
}

impl Sum {
    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.register = bytes.iter().fold(self.register, |register, byte| {
            self.table[usize::from(register as u8 ^ byte)] ^ (register >> 8)
        });
    }
}

/// Shown as the peer's sink answers it: `LENGTH CRC`.
impl std::fmt::Display for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:08x}", self.length, !self.register)
    }
}
