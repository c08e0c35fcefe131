//! A line of the log or of a panic message while it is being formatted, without memory from the
//! heap.
use core::fmt;

/// Length of the longest line. Longer ones are cut.
const LINE_BYTES: usize = 512;

/// The text so far, in whole characters.
#[derive(Debug)]
pub(crate) struct Line {
    bytes: [u8; LINE_BYTES],
    used: usize,
    is_cut: bool,
}

impl Line {
    /// Makes an empty line.
    pub(crate) const fn new() -> Line {
        Line { bytes: [0; LINE_BYTES], used: 0, is_cut: false }
    }

    /// Makes a line of `text`.
    pub(crate) fn of(text: fmt::Arguments<'_>) -> Line {
        let mut line = Line::new();
        // Writing to a line never fails. If a formatter fails, the line has the text before that.
        let _ = fmt::Write::write_fmt(&mut line, text);
        line
    }

    /// Returns the bytes of the line, which are UTF-8.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or_default()
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.is_cut {
            return Ok(());
        }
        let room = LINE_BYTES - self.used;
        let fits = text.floor_char_boundary(room);
        self.bytes[self.used..self.used + fits].copy_from_slice(&text.as_bytes()[..fits]);
        self.used += fits;
        self.is_cut = fits < text.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_holds_what_was_written() {
        assert_eq!(Line::of(format_args!("{}: {}", "vda", 7)).bytes(), b"vda: 7");
        assert!(Line::new().bytes().is_empty());
    }

    #[test]
    fn what_is_too_long_is_cut_at_a_character() {
        let odd = "x".repeat(LINE_BYTES - 1);
        let line = Line::of(format_args!("{odd}\u{e9}{}", "more"));
        assert_eq!(line.bytes(), odd.as_bytes());
    }
}
