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

    /// Returns the byte at a place.
    fn byte(&self, at: u64) -> Option<u8> {
        match self {
            Stream::Pattern { seed, length } => {
                let byte = word(*seed, at / WORD)[(at % WORD) as usize];
                (at < *length).then_some(byte)
            }
            Stream::Text(text) => text.as_bytes().get(usize::try_from(at).ok()?).copied(),
        }
    }

    /// Fills the beginning of `buffer` with the bytes from `at` on. Returns their number.
    pub fn fill(&self, at: u64, buffer: &mut [u8]) -> usize {
        let mut count = 0;
        for (place, byte) in (at..).zip(buffer) {
            let Some(own) = self.byte(place) else { break };
            *byte = own;
            count += 1;
        }
        count
    }

    /// Returns the place of the first of `bytes`, which stand at `at`, that is not the stream's.
    pub fn difference(&self, at: u64, bytes: &[u8]) -> Option<u64> {
        (at..).zip(bytes).find(|(place, byte)| self.byte(*place) != Some(**byte)).map(|(at, _)| at)
    }

    /// Returns the checksum of all its bytes.
    pub fn sum(&self) -> Sum {
        let mut sum = Sum::default();
        (0..self.length()).filter_map(|at| self.byte(at)).for_each(|byte| sum.add(&[byte]));
        sum
    }
}

/// The number of bytes that came, and their CRC-32 (that of Ethernet, which busybox's `crc32` prints).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    length: u64,
    register: u32,
}

impl Default for Sum {
    fn default() -> Sum {
        Sum { length: 0, register: u32::MAX }
    }
}

impl Sum {
    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        const POLYNOMIAL: u32 = 0xedb8_8320;
        self.length += bytes.len() as u64;
        for byte in bytes {
            self.register ^= u32::from(*byte);
            for _ in 0..8 {
                let carry = self.register & 1;
                self.register = (self.register >> 1) ^ (POLYNOMIAL * carry);
            }
        }
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
