//! [`Stream`]: bytes that a connection sends or expects, and [`Sum`], the checksum that programs of the machine can compute too.
//!
//! A byte of a pattern follows from the seed and its place, so that bytes at a wrong place are wrong bytes.

/// Bytes of which nothing is stored but what makes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stream {
    /// So many bytes of the pattern of a seed.
    Pattern {
        /// The seed.
        seed: u64,
        /// The number of bytes.
        length: u64,
    },
    /// These bytes.
    Text(String),
}

/// The bytes that one step of the pattern's generator yields.
const WORD: u64 = 8;

/// Returns a word of the pattern (splitmix64).
fn word(seed: u64, number: u64) -> [u8; 8] {
    let mut word = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (word ^ (word >> 31)).to_le_bytes()
}

/// Fills `buffer` with the bytes of the pattern from `at` on, a word at a time.
fn fill_pattern(seed: u64, at: u64, mut buffer: &mut [u8]) {
    let (mut number, mut skipped) = (at / WORD, (at % WORD) as usize);
    while !buffer.is_empty() {
        let word = word(seed, number);
        let word = &word[skipped..];
        let (now, rest) = buffer.split_at_mut(word.len().min(buffer.len()));
        now.copy_from_slice(&word[..now.len()]);
        (buffer, number, skipped) = (rest, number + 1, 0);
    }
}

impl Stream {
    /// The stream of no bytes.
    pub fn nothing() -> Stream {
        Stream::Text(String::new())
    }

    /// Returns the number of bytes.
    pub fn length(&self) -> u64 {
        match self {
            Stream::Pattern { length, .. } => *length,
            Stream::Text(text) => text.len() as u64,
        }
    }

    /// Fills the beginning of `buffer` with the bytes from `at` on. Returns their number.
    pub fn fill(&self, at: u64, buffer: &mut [u8]) -> usize {
        let left = self.length().saturating_sub(at);
        let count = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let buffer = &mut buffer[..count];
        match self {
            Stream::Pattern { seed, .. } => fill_pattern(*seed, at, buffer),
            Stream::Text(text) => buffer.copy_from_slice(&text.as_bytes()[at as usize..][..count]),
        }
        count
    }

    /// Returns the place of the first of `bytes`, which stand at `at`, that is not the stream's.
    pub fn difference(&self, at: u64, bytes: &[u8]) -> Option<u64> {
        let mut own = vec![0; bytes.len()];
        let count = self.fill(at, &mut own);
        let first = own[..count].iter().zip(bytes).position(|(own, byte)| own != byte);
        first.or((count < bytes.len()).then_some(count)).map(|place| at + place as u64)
    }

    /// Returns the checksum of all its bytes.
    pub fn sum(&self) -> Sum {
        let (mut sum, mut at, mut bytes) = (Sum::default(), 0, [0; 4096]);
        loop {
            let count = self.fill(at, &mut bytes);
            if count == 0 {
                return sum;
            }
            sum.add(&bytes[..count]);
            at += count as u64;
        }
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
impl std::fmt::Display for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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

    #[test]
    fn parts_of_a_pattern_are_those_of_the_whole() {
        let stream = Stream::Pattern { seed: 3, length: 1000 };
        let mut whole = [0; 1200];
        assert_eq!(stream.fill(0, &mut whole), 1000);
        let mut part = [0; 100];
        assert_eq!(stream.fill(333, &mut part), 100);
        assert_eq!(part, whole[333..433]);
        assert_eq!(stream.difference(333, &part), None);
        assert_eq!(stream.difference(334, &part), Some(334));
        part[50] ^= 1;
        assert_eq!(stream.difference(333, &part), Some(383));
        assert_eq!(stream.difference(950, &whole[950..1001]), Some(1000), "one byte too many");
    }
}
