//! [`TerminalLine`]: the other end of a terminal, which takes its output and gives its input: a device's [`Port`], or the master
//! of a pty.
use super::termios::Termios;
use alloc::{string::String, sync::Arc};
use interfaces::terminal::Port;

/// The events for the master of a pseudo-terminal in packet mode (`TIOCPKT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// Input that was not read was dropped.
    FlushedInput,
    /// Output was stopped.
    Stopped,
    /// Output continues.
    Started,
    /// The settings changed from the first to the second.
    Settings(Termios, Termios),
}

/// Tells whether the terminal is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// The terminal was opened.
    Open,
    /// The last description of the terminal was closed.
    Closed,
}

/// The other side of a terminal. Called with `tty.output` held where bytes are sent.
pub(super) trait TerminalLine: Send + Sync {
    /// Returns the name of the terminal in `/dev`.
    fn name(&self) -> String;
    /// Returns the number of bytes that [`TerminalLine::send`] accepts without waiting.
    fn room(&self) -> usize;
    /// Sends bytes in order. Returns the number of bytes that were sent; there are fewer only if
    /// the other side is gone or has no room.
    fn send(&self, bytes: &[u8]) -> usize;
    /// Waits until the device has sent everything.
    fn drain(&self);
    /// Drops output that was not sent (`TCOFLUSH`).
    fn discard(&self);
    /// Called when the terminal has room for input again.
    fn resume(&self);
    /// Called for an event that packet mode reports.
    fn notice(&self, notice: Notice);
    /// Called when the terminal is opened, or its last description closed.
    fn used(&self, by: Use);
    /// Returns the settings of a fresh terminal.
    fn initial(&self) -> Termios;
    /// Returns the settings as the line supports them.
    fn adapt(&self, settings: Termios) -> Termios;
    /// Returns whether it is a pseudo-terminal.
    fn is_pseudo(&self) -> bool;
}

/// A device as a line: sending waits if it has no room.
pub(super) struct PortLine(pub Arc<dyn Port>);

impl TerminalLine for PortLine {
    fn name(&self) -> String {
        self.0.name()
    }
    fn room(&self) -> usize {
        usize::MAX
    }
    fn send(&self, bytes: &[u8]) -> usize {
        self.0.send(bytes)
    }
    fn drain(&self) {
        self.0.drain();
    }
    // Sent bytes cannot be taken back from the device.
    fn discard(&self) {}
    fn resume(&self) {
        self.0.resume();
    }
    fn notice(&self, _: Notice) {}
    fn used(&self, _: Use) {}
    fn initial(&self) -> Termios {
        Termios::default()
    }
    fn adapt(&self, settings: Termios) -> Termios {
        settings
    }
    fn is_pseudo(&self) -> bool {
        false
    }
}
