//! Text for the kernel's log and dumps: the last bytes of a text ([`Tail`]), pieces long enough for a slow device
//! ([`Pieces`]), the activity of threads and the processor's exceptions in words ([`Doing`], [`Trap`]); and the decision
//! when a watchdog reports ([`Watch`]).
#![no_std]
#![forbid(unsafe_code)]

mod watch;
mod words;

use core::{
    fmt::{Result, Write},
    sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed},
};
pub use watch::{Stall, Survey, Watch};
pub use words::{Doing, LogLine, ShortName, Trap, ms};

/// The last `BYTES` bytes of all text written. One thread writes at a time; a reader meanwhile may see a part of the new
/// text.
#[derive(Debug)]
pub struct Tail<const BYTES: usize> {
    bytes: [AtomicU8; BYTES],
    /// Number of bytes written so far.
    written: AtomicU64,
}

impl<const BYTES: usize> Tail<BYTES> {
    /// Makes an empty text.
    pub const fn new() -> Tail<BYTES> {
        Tail { bytes: [const { AtomicU8::new(0) }; BYTES], written: AtomicU64::new(0) }
    }

    fn byte(&self, at: u64) -> &AtomicU8 {
        &self.bytes[at as usize % BYTES]
    }

    /// Appends `text`.
    pub fn write(&self, text: &[u8]) {
        let start = self.written();
        (start..).zip(text).for_each(|(at, &byte)| self.byte(at).store(byte, Relaxed));
        self.written.store(start + text.len() as u64, Relaxed);
    }

    /// Returns the number of bytes written so far.
    pub fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// Returns the kept bytes, oldest first.
    pub fn bytes(&self) -> impl Iterator<Item = u8> {
        let end = self.written();
        (end.saturating_sub(BYTES as u64)..end).map(|at| self.byte(at).load(Relaxed))
    }
}

impl<const BYTES: usize> Default for Tail<BYTES> {
    fn default() -> Self {
        Tail::new()
    }
}

/// A writer that passes text on to `W` in pieces of up to `BYTES` bytes, each as long as possible without cutting a single
/// write.
#[derive(Debug)]
pub struct Pieces<W: Write, const BYTES: usize> {
    to: W,
    bytes: [u8; BYTES],
    used: usize,
}

impl<W: Write, const BYTES: usize> Pieces<W, BYTES> {
    /// Makes a writer with nothing collected.
    pub const fn new(to: W) -> Self {
        Pieces { to, bytes: [0; BYTES], used: 0 }
    }

    /// Passes on the collected text.
    ///
    /// # Errors
    /// Those of `W`.
    pub fn flush(&mut self) -> Result {
        let text = self.bytes.get(..self.used).unwrap_or_default();
        self.used = 0;
        self.to.write_str(core::str::from_utf8(text).unwrap_or("?"))
    }
}

impl<W: Write, const BYTES: usize> Write for Pieces<W, BYTES> {
    fn write_str(&mut self, text: &str) -> Result {
        if self.used + text.len() > BYTES {
            self.flush()?;
        }
        match self.bytes.get_mut(self.used..self.used + text.len()) {
            None => self.to.write_str(text),
            Some(place) => {
                place.copy_from_slice(text.as_bytes());
                self.used += text.len();
                Ok(())
            }
        }
    }
}

/// Passes `text` on in pieces for a terminal, with a carriage return before each line feed, as Linux does on a serial
/// console (`uart_console_write`).
pub fn with_returns(text: &[u8], mut write: impl FnMut(&[u8])) {
    // The size is a multiple of a UART's FIFO.
    let mut piece = [0; 64];
    let mut used = 0;
    for &byte in text {
        if used + 2 > piece.len() {
            write(piece.get(..used).unwrap_or_default());
            used = 0;
        }
        let bytes: &[u8] = if byte == b'\n' { b"\r\n" } else { core::slice::from_ref(&byte) };
        for (place, byte) in piece.iter_mut().skip(used).zip(bytes) {
            *place = *byte;
            used += 1;
        }
    }
    write(piece.get(..used).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::{string::String, vec::Vec};

    #[test]
    fn the_tail_is_what_was_written_last() {
        let tail = Tail::<4>::new();
        assert_eq!(tail.bytes().count(), 0);
        tail.write(b"ab");
        assert!(tail.bytes().eq(*b"ab"));
        tail.write(b"cdef");
        tail.write(b"g");
        assert!(tail.bytes().eq(*b"defg"));
    }

    #[test]
    fn a_terminal_gets_a_return_before_each_line_feed() {
        for length in 0..200 {
            let text: Vec<u8> =
                (0..length).map(|at| if at % 7 == 0 { b'\n' } else { b'a' + at % 26 }).collect();
            let mut written = Vec::new();
            with_returns(&text, |piece| written.extend_from_slice(piece));
            let wanted = String::from_utf8_lossy(&text).replace('\n', "\r\n");
            assert_eq!(String::from_utf8_lossy(&written), wanted);
        }
    }

    #[derive(Default)]
    struct Kept(Vec<String>);

    impl Write for Kept {
        fn write_str(&mut self, text: &str) -> Result {
            self.0.push(text.into());
            Ok(())
        }
    }

    #[test]
    fn pieces_are_whole_and_nothing_is_lost() {
        let mut pieces = Pieces::<_, 4>::new(Kept::default());
        for text in ["a", "bc", "de", "longer", "f"] {
            pieces.write_str(text).unwrap();
        }
        pieces.flush().unwrap();
        assert_eq!(pieces.to.0, ["abc", "de", "longer", "f"]);
    }
}
