//! Bitmaps with a bit for each block or inode of a group; the bit of one in use is set.

/// Returns whether a bit is set; bits beyond the end count as set.
pub(crate) fn is_set(bitmap: &[u8], bit: usize) -> bool {
    bitmap.get(bit / 8).is_none_or(|byte| byte & (1 << (bit % 8)) != 0)
}

/// Sets `count` bits.
pub(crate) fn set(bitmap: &mut [u8], first: usize, count: usize) {
    change(bitmap, first, count, |byte, mask| byte | mask);
}

/// Clears `count` bits.
pub(crate) fn clear(bitmap: &mut [u8], first: usize, count: usize) {
    change(bitmap, first, count, |byte, mask| byte & !mask);
}

fn change(bitmap: &mut [u8], first: usize, count: usize, of: impl Fn(u8, u8) -> u8) {
    let end = first.saturating_add(count).min(bitmap.len() * 8);
    let mut bit = first;
    while bit < end {
        let length = (8 - bit % 8).min(end - bit);
        let mask = (0xff_u8 >> (8 - length)) << (bit % 8);
        if let Some(byte) = bitmap.get_mut(bit / 8) {
            *byte = of(*byte, mask);
        }
        bit += length;
    }
}

/// Returns the first clear bit from `from` on and below `end`.
pub(crate) fn find_clear(bitmap: &[u8], from: usize, end: usize) -> Option<usize> {
    let mut bit = from;
    while bit < end {
        match bitmap.get(bit / 8) {
            Some(0xff) | None => {
                let byte = bit / 8 + 1;
                bit = byte * 8 + full_words(bitmap.get(byte..).unwrap_or_default()) * WORD_BITS;
            }
            Some(byte) => {
                let free = (!byte >> (bit % 8)).trailing_zeros() as usize;
                if bit % 8 + free < 8 {
                    bit += free;
                    return (bit < end).then_some(bit);
                }
                bit = (bit / 8 + 1) * 8;
            }
        }
    }
    None
}

/// Number of bits that are examined together.
const WORD_BITS: usize = 64;

/// Counts the words from the start that have every bit set.
fn full_words(bitmap: &[u8]) -> usize {
    let words = bitmap.chunks_exact(WORD_BITS / 8);
    words.take_while(|word| **word == [0xff; WORD_BITS / 8]).count()
}

/// Returns the number of clear bits from `from` on, at most `max`.
pub(crate) fn run_at(bitmap: &[u8], from: usize, max: usize) -> usize {
    let mut bit = from;
    while bit - from < max {
        match bitmap.get(bit / 8) {
            Some(0) if bit.is_multiple_of(8) => bit += 8,
            Some(byte) if byte & (1 << (bit % 8)) == 0 => bit += 1,
            _ => break,
        }
    }
    (bit - from).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_set_cleared_and_found_across_bytes() {
        let mut bitmap = [0_u8; 8];
        set(&mut bitmap, 3, 20);
        assert_eq!(bitmap, [0xf8, 0xff, 0x7f, 0, 0, 0, 0, 0]);
        assert_eq!(find_clear(&bitmap, 3, 23), None);
        assert_eq!(run_at(&bitmap, 30, 100), 34);
        clear(&mut bitmap, 10, 1);
        assert_eq!(find_clear(&bitmap, 3, 64), Some(10));
        assert!(is_set(&bitmap, 64), "beyond the end all is in use");
    }

    #[test]
    fn the_first_clear_bit_is_found_wherever_it_is() {
        for clear in 0..256 {
            let mut bitmap = [0xff; 32];
            super::clear(&mut bitmap, clear, 1);
            for from in 0..256 {
                let expected = (from <= clear).then_some(clear);
                assert_eq!(find_clear(&bitmap, from, 256), expected, "{clear} from {from}");
                assert_eq!(find_clear(&bitmap, from, clear), None);
            }
        }
    }
}
