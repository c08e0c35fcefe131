//! The host's port `skerry.window`: a line `ROWS COLUMNS` when the terminal of `./x run` changes its size, and a line
//! [`RESTART_KEYS`] when the user requests these keys.
use alloc::{sync::Arc, vec::Vec};
use interfaces::terminal::{Port, PortSink};
use objects::tty::Terminal;
use process::init;
use rt::{lock_class, sync::Mutex};

lock_class! {
    static LINE = "window.line";
}

/// Name of the port.
pub const PORT_NAME: &str = "skerry.window";
/// The keys Ctrl, Alt and Del.
const RESTART_KEYS: &[u8] = b"ctrl-alt-del";
/// Greatest length of such a line.
const LINE_MAX: usize = 16;

/// The console, and the line that is being received.
struct WindowSink {
    console: Arc<Terminal>,
    line: Mutex<Vec<u8>>,
}

/// Listens on `port` on behalf of `console`.
pub fn follow(port: &Arc<dyn Port>, console: &Arc<Terminal>) {
    port.set_sink(Arc::new(WindowSink {
        console: console.clone(),
        line: Mutex::new(&LINE, Vec::new()),
    }));
}

/// Rows and columns of a line, if it is one.
fn decode(line: &[u8]) -> Option<(u16, u16)> {
    let (rows, columns) = core::str::from_utf8(line).ok()?.trim().split_once(' ')?;
    Some((rows.parse().ok()?, columns.parse().ok()?))
}

impl PortSink for WindowSink {
    fn received(&self, bytes: &[u8]) -> usize {
        let (mut last, mut are_pressed) = (None, false);
        let mut line = self.line.lock();
        for byte in bytes {
            match byte {
                b'\n' => {
                    last = decode(&line).or(last);
                    are_pressed |= line.as_slice() == RESTART_KEYS;
                    line.clear();
                }
                _ if line.len() < LINE_MAX => line.push(*byte),
                _ => {}
            }
        }
        drop(line);
        if let Some((rows, columns)) = last {
            self.console.line_resized(rows, columns);
        }
        if are_pressed {
            init::keys_pressed();
        }
        bytes.len()
    }
    fn connected(&self, _: bool) {}
    fn resized(&self, _: u16, _: u16) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_two_numbers_are_a_size() {
        assert_eq!(decode(b"30 100"), Some((30, 100)));
        for wrong in [&b"30"[..], b"", b"30 x", b"-1 5", b"70000 1", b"\xff 1"] {
            assert_eq!(decode(wrong), None);
        }
    }
}
