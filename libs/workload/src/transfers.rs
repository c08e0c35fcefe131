//! The bytes that programs send each other in tests: a pattern, and [`Sum`], their checksum.
//!
//! A byte of a pattern follows from the seed and its place, so that bytes at a wrong place are wrong bytes.

/// The bytes that one step of the pattern's generator yields.
const WORD: u64 = 8;

/// Returns a word of the pattern (splitmix64).
fn word(seed: u64, number: u64) -> [u8; 8] {
    let mut word = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (word ^ (word >> 31)).to_le_bytes()
}

/// Fills `buffer` with the bytes of the pattern of `seed` from `at` on, a word at a time.
pub fn fill_pattern(seed: u64, at: u64, mut buffer: &mut [u8]) {
    let (mut number, mut skipped) = (at / WORD, (at % WORD) as usize);
    while !buffer.is_empty() {
        let word = word(seed, number);
        let word = &word[skipped..];
        let (now, rest) = buffer.split_at_mut(word.len().min(buffer.len()));
        now.copy_from_slice(&word[..now.len()]);
        (buffer, number, skipped) = (rest, number + 1, 0);
    }
}

/// The number of bytes that came, and their CRC-32 (that of Ethernet, which busybox's `crc32` prints).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    length: u64,
    register: u32,
}

/// The change of the register for each value of its lowest byte.
const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut register, mut bit) = (byte as u32, 0);
        while bit < 8 {
            register = (register >> 1) ^ (POLYNOMIAL * (register & 1));
            bit += 1;
        }
        table[byte] = register;
        byte += 1;
    }
    table
}

impl Default for Sum {
    fn default() -> Sum {
        Sum { length: 0, register: u32::MAX }
    }
}

impl Sum {
    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.register = bytes.iter().fold(self.register, |register, byte| {
            TABLE[usize::from(register as u8 ^ byte)] ^ (register >> 8)
        });
    }

    /// Returns the number of bytes.
    pub fn length(&self) -> u64 {
        self.length
    }
}

/// Shown as the sink answers it: `LENGTH CRC`.
impl core::fmt::Display for Sum {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} {:08x}", self.length, !self.register)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_crc32() {
        let mut sum = Sum::default();
        sum.add(b"1234");
        sum.add(b"56789");
        assert_eq!(sum.to_string(), "9 cbf43926");
    }
}
