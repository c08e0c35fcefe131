//! [`Stream`]: bytes that a connection sends or expects. The programs of the machine make the same patterns and sums.
pub use workload::transfers::Sum;
use workload::transfers::fill_pattern;

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

#[cfg(test)]
mod tests {
    use super::*;

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
