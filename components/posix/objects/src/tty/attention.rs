//! The secure attention sequence: the bytes that open the trusted path, recognised in what a device receives.
//!
//! [`Recogniser`] is pure. It looks at bytes as they come, and at no time: a pause between two of them changes nothing. The bytes of a
//! sequence that is not complete go on to the terminal at once, so that a key that is also a part of the sequence is never late.

/// The greatest length of a sequence.
const SEQUENCE_MAX: usize = 8;

/// The bytes that open the trusted path, besides a break on a serial line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attention {
    /// The bytes, the last in the low byte.
    sequence: u64,
    length: usize,
}

impl Attention {
    /// Only a break on a serial line opens the trusted path.
    pub const BREAK_ONLY: Attention = Attention { sequence: 0, length: 0 };

    /// Parses the sequence of 1 to 8 bytes in hexadecimal digits, or `break` for none.
    pub fn parse(text: &str) -> Option<Attention> {
        if text == "break" {
            return Some(Attention::BREAK_ONLY);
        }
        let are_digits = text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let is_whole = text.len().is_multiple_of(2) && (2..=2 * SEQUENCE_MAX).contains(&text.len());
        let sequence = u64::from_str_radix(text, 16).ok().filter(|_| are_digits && is_whole)?;
        Some(Attention { sequence, length: text.len() / 2 })
    }
    fn mask(&self) -> u64 {
        u64::MAX.checked_shr(64 - 8 * self.length as u32).unwrap_or(0)
    }
}

/// The last bytes that came.
#[derive(Debug)]
pub struct Recogniser {
    attention: Attention,
    last: u64,
    /// Number of bytes in `last`.
    count: usize,
}

impl Recogniser {
    /// Makes a recogniser before the first byte.
    pub fn new(attention: Attention) -> Recogniser {
        Recogniser { attention, last: 0, count: 0 }
    }
    /// Looks at the next byte. Returns whether it completes the sequence.
    pub fn is_completed_by(&mut self, byte: u8) -> bool {
        let Attention { sequence, length } = self.attention;
        self.last = self.last << 8 | u64::from(byte);
        self.count = (self.count + 1).min(SEQUENCE_MAX);
        let is_it =
            length > 0 && self.count >= length && self.last & self.attention.mask() == sequence;
        if is_it {
            self.forget();
        }
        is_it
    }
    /// Returns the length of the sequence.
    pub fn length(&self) -> usize {
        self.attention.length
    }
    /// Forgets the bytes that came: the next begins a sequence.
    pub fn forget(&mut self) {
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the places of the bytes that complete a sequence.
    fn places(sequence: &str, bytes: &[u8]) -> Vec<usize> {
        let mut recogniser = Recogniser::new(Attention::parse(sequence).unwrap());
        let completes = |(at, byte): (usize, &u8)| recogniser.is_completed_by(*byte).then_some(at);
        bytes.iter().enumerate().filter_map(completes).collect()
    }

    #[test]
    fn the_sequence_is_found_wherever_it_stands() {
        assert_eq!(places("1e1e1e", b"a\x1e\x1e\x1eb"), [3]);
        assert_eq!(places("1e1e1e", b"\x1e\x1eb\x1e\x1e\x1e"), [5]);
        assert_eq!(places("1b5b1b", b"\x1b[\x1b[\x1b"), [2]);
        assert_eq!(places("616162", b"aaab"), [3]);
        assert_eq!(places("41", b"xAA"), [1, 2]);
        assert_eq!(places("0102030405060708", &[0, 1, 2, 3, 4, 5, 6, 7, 8]), [8]);
    }

    #[test]
    fn a_key_that_is_held_completes_it_again_after_as_many_bytes() {
        assert_eq!(places("1e1e1e", &[0x1e; 7]), [2, 5]);
    }

    #[test]
    fn a_sequence_of_zeroes_needs_bytes_that_came() {
        assert_eq!(places("0000", b"\0a\0\0"), [3]);
        assert!(places("0000", b"\0").is_empty());
        assert!(places("break", &[0; 20]).is_empty());
    }

    #[test]
    fn a_sequence_is_one_to_eight_bytes_in_digits() {
        for wrong in ["", "1", "1e1", "xx", "+1", "010203040506070809", "off", "Break"] {
            assert_eq!(Attention::parse(wrong), None, "{wrong}");
        }
    }
}
