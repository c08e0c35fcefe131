//! [`RecordsFile`]: all records on the medium, as lines of auditd's log, for ausearch(8).
use super::{LOG, client::LogTrouble, orders::may_read};
use alloc::{string::String, vec::Vec};
use audit::kind;
use audit_log::{PieceJoiner, pieces};
use core::fmt::Write;
use rt::{lock_class, sync::Mutex};
use vfs::{
    Errno,
    file::{File, IoFlags},
    io::Sink,
};

lock_class! {
    static EXPORT = "audit.export";
}

/// Tries of a read of which the writer dies.
const TRIES: usize = 8;

/// The place of a reader.
#[derive(Default)]
struct ExportPlace {
    /// The offset in the file.
    offset: u64,
    /// The next block.
    block: u64,
    joiner: PieceJoiner,
    /// Lines, and how many of their bytes were given.
    lines: Vec<u8>,
    given: usize,
}

/// An open file of the records. It is read from the beginning to the end.
pub struct RecordsFile(Mutex<ExportPlace>);

impl RecordsFile {
    /// Opens the file.
    pub fn open() -> RecordsFile {
        RecordsFile(Mutex::new(&EXPORT, ExportPlace::default()))
    }
}

impl ExportPlace {
    /// Makes lines of the records in further blocks, until there is a line. Leaves none at the end.
    fn fill(&mut self) -> Result<(), Errno> {
        (self.lines, self.given) = (Vec::new(), 0);
        let Some(log) = LOG.get() else { return Ok(()) };
        while self.lines.is_empty() {
            let mut tries = 0;
            let (state, list) = loop {
                tries += 1;
                match log.client.lock().read(self.block) {
                    Ok(read) => break read,
                    Err(LogTrouble::Died) if tries < TRIES => {}
                    Err(_) => return Err(Errno::EIO),
                }
            };
            if state.cursor <= self.block && list.is_empty() {
                return Ok(());
            }
            self.block = state.cursor;
            for (_, kind, text) in pieces(&list).filter_map(|piece| self.joiner.take(&piece)) {
                self.lines.extend_from_slice(line(kind, &text).as_bytes());
            }
        }
        Ok(())
    }
}

/// Returns the line of a record in auditd's log.
fn line(kind: u16, text: &[u8]) -> String {
    let mut line = String::with_capacity(text.len() + 32);
    // Writing to a string does not fail.
    let _ = match kind::name(kind) {
        Some(name) => write!(line, "type={name} msg="),
        None => write!(line, "type=UNKNOWN[{kind}] msg="),
    };
    let text = String::from_utf8_lossy(text);
    line.extend(text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }));
    line.push('\n');
    line
}

impl File for RecordsFile {
    /// # Errors
    /// `EPERM` without the right; `ESPIPE` for a place that is neither the beginning nor where the last read ended.
    fn read(&self, offset: u64, sink: &mut dyn Sink, _: IoFlags) -> Result<usize, Errno> {
        may_read(sink.caller())?;
        let mut place = self.0.lock();
        if offset != place.offset {
            if offset != 0 {
                return Err(Errno::ESPIPE);
            }
            *place = ExportPlace::default();
        }
        if place.given >= place.lines.len() {
            place.fill()?;
        }
        let rest = place.lines.get(place.given..).unwrap_or_default();
        let count = if rest.is_empty() { 0 } else { sink.put(rest)? };
        place.given += count;
        place.offset += count as u64;
        Ok(count)
    }
    fn is_seekable(&self) -> bool {
        true
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn a_line_is_that_of_auditd() {
        let text = b"audit(1.002:3): a\nb\x1b";
        assert_eq!(line(1400, text), "type=AVC msg=audit(1.002:3): a b \n");
        assert_eq!(line(1999, b"x"), "type=UNKNOWN[1999] msg=x\n");
    }
}
