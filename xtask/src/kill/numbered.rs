//! The host's end of the streams that `./x kill` sends through console drivers
//! (`tests/abi/src/bin/kill_component/stream.rs`). Numbered lines are checked, and bytes are sent on request.
//!
//! ```text
//! begin        both streams begin anew
//! seq N TEXT   line number N, whose text follows from N
//! more N       the next N bytes are wanted
//! ```
//! Other lines are passed on.
use std::{
    io::{self, Read, Write},
    os::unix::net::UnixListener,
    sync::{Arc, Mutex, mpsc},
    thread,
};

/// Returns byte `at` of the input stream.
fn byte(at: u64) -> u8 {
    b'!' + ((at * 31 + at / 94) % 94) as u8
}

/// The lines that came out so far.
#[derive(Debug, Default)]
pub struct Seen {
    /// Number of right lines.
    pub lines: u64,
    /// The first fault.
    pub wrong: Option<String>,
}

/// Checks the output stream.
pub struct Checker<W> {
    line: Vec<u8>,
    /// Number of the next line.
    next: u64,
    /// Sends the number of bytes that are wanted; `None` if both streams begin anew.
    wanted: mpsc::Sender<Option<u64>>,
    seen: Arc<Mutex<Seen>>,
    /// The writer for other lines.
    rest: W,
}

/// Feeds the input stream.
pub struct Feeder {
    wanted: mpsc::Receiver<Option<u64>>,
    left: u64,
    given: u64,
}

/// Makes the two ends, and the record of the lines seen.
pub fn pair<W: Write>(rest: W) -> (Checker<W>, Feeder, Arc<Mutex<Seen>>) {
    let (sender, wanted) = mpsc::channel();
    let seen = Arc::<Mutex<Seen>>::default();
    let checker = Checker { line: Vec::new(), next: 0, wanted: sender, seen: seen.clone(), rest };
    (checker, Feeder { wanted, left: 0, given: 0 }, seen)
}

impl<W: Write> Checker<W> {
    fn take(&mut self, line: &[u8]) -> io::Result<()> {
        let text = String::from_utf8_lossy(line);
        // If the feeder has ended, the request is dropped.
        if text == "begin\n" {
            self.next = 0;
            let _ = self.wanted.send(None);
            return Ok(());
        }
        if let Some(count) = text.strip_prefix("more ") {
            let _ = self.wanted.send(Some(count.trim_end().parse().unwrap_or(0)));
            return Ok(());
        }
        let Some(numbered) = text.strip_prefix("seq ") else { return self.rest.write_all(line) };
        let mut seen = self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if numbered == expected(self.next) {
            self.next += 1;
            seen.lines += 1;
        } else if seen.wrong.is_none() {
            seen.wrong = Some(format!("line {} came as {text:?}", self.next));
        }
        Ok(())
    }
}

fn expected(number: u64) -> String {
    let text: String = (0..number % 90).map(|at| char::from(byte(number * 3 + at))).collect();
    format!("{number} {text}\n")
}

impl<W: Write> Write for Checker<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        for byte in data {
            self.line.push(*byte);
            if *byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                self.take(&line)?;
            }
        }
        Ok(data.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        self.rest.flush()
    }
}

impl Read for Feeder {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.left == 0 {
            match self.wanted.recv() {
                Ok(Some(more)) => self.left += more,
                Ok(None) => self.given = 0,
                Err(_) => return Ok(0),
            }
        }
        let count = out.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        out[..count].iter_mut().zip(self.given..).for_each(|(out, at)| *out = byte(at));
        self.left -= count as u64;
        self.given += count as u64;
        Ok(count)
    }
}

/// Serves the two streams on QEMU's connection to `listener`, until it ends.
pub fn serve(listener: UnixListener) -> Arc<Mutex<Seen>> {
    let (mut checker, mut feeder, seen) = pair(io::sink());
    thread::spawn(move || {
        let (mut out, _) = listener.accept()?;
        let mut into = out.try_clone()?;
        thread::spawn(move || io::copy(&mut feeder, &mut into));
        io::copy(&mut out, &mut checker)
    });
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_lost_doubled_or_changed_is_seen() {
        let good = |number| format!("seq {}", expected(number));
        let cases = [
            (format!("{}{}", good(0), good(1)), 2, false),
            (format!("{}{}", good(0), good(2)), 1, true),
            (format!("{}{}", good(0), good(0)), 1, true),
            (format!("{}{}", good(0), good(1).replacen(' ', "  ", 1)), 1, true),
        ];
        for (text, lines, is_wrong) in cases {
            let (mut checker, _feeder, seen) = pair(io::sink());
            checker.write_all(text.as_bytes()).unwrap();
            let seen = seen.lock().unwrap();
            assert_eq!((seen.lines, seen.wrong.is_some()), (lines, is_wrong), "{text}");
        }
    }

    #[test]
    fn as_many_bytes_go_in_as_are_asked_for_and_other_lines_pass() {
        let mut rest = Vec::new();
        let (mut checker, mut feeder, _) = pair(&mut rest);
        checker.write_all(b"more 3\nhello\nmo").unwrap();
        checker.write_all(b"re 2\nbegin\nmore 1\n").unwrap();
        drop(checker);
        let mut bytes = Vec::new();
        feeder.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, (0..5).chain([0]).map(byte).collect::<Vec<u8>>());
        assert_eq!(rest, b"hello\n");
    }
}
