//! A path's text, divided into names.

/// Returns the end of the name that begins at `start`: at a slash or at the end of the text. The text is read by
/// words, not by bytes.
pub(crate) fn name_end(text: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(word) = text.get(at..).and_then(|rest| rest.first_chunk()) {
        if let Some(slash) = first_slash(u64::from_le_bytes(*word)) {
            return at + slash;
        }
        at += WORD_BYTES;
    }
    let rest = text.get(at..).unwrap_or_default();
    let slash = match text.last_chunk() {
        // The rest of the last word, which was not searched; no byte of its replacement is a slash.
        Some(word) if !rest.is_empty() => {
            first_slash(u64::from_le_bytes(*word) >> (8 * (WORD_BYTES - rest.len())))
        }
        _ => rest.iter().position(|byte| *byte == b'/'),
    };
    slash.map_or(text.len(), |slash| at + slash)
}

const WORD_BYTES: usize = size_of::<u64>();

/// Returns the lowest byte of a word that is a slash.
fn first_slash(word: u64) -> Option<usize> {
    const ONES: u64 = u64::MAX / 0xff;
    let word = word ^ (ONES * b'/' as u64);
    // The lowest bit set here is of the first byte that is zero now.
    let found = word.wrapping_sub(ONES) & !word & (ONES << 7);
    (found != 0).then(|| found.trailing_zeros() as usize / 8)
}

#[cfg(test)]
mod tests {
    use super::name_end;
    use alloc::vec;

    #[test]
    fn names_end_where_a_look_at_every_byte_finds_the_next_slash() {
        for length in 0..28 {
            for slash in 0..=length {
                // Bytes next to a slash in value, and bytes with the highest bit set, are not slashes.
                for other in [b'.', b'0', 0x80 | b'/', 0, 0xff] {
                    let mut text = vec![other; length];
                    text.iter_mut().skip(slash).step_by(3).for_each(|byte| *byte = b'/');
                    for start in 0..=length {
                        let next = text[start..].iter().position(|byte| *byte == b'/');
                        let expected = start + next.unwrap_or(length - start);
                        assert_eq!(name_end(&text, start), expected, "{text:?} from {start}");
                    }
                }
            }
        }
    }
}
