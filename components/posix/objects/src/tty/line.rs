//! [`Line`]: what a terminal sends to and takes from. A device's [`Port`], or the master of a pty.
use super::termios::Termios;
use alloc::{string::String, sync::Arc};
use interfaces::terminal::Port;

/// The news for the master of a pseudo-terminal in packet mode (`TIOCPKT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// Input that was not read was thrown away.
    FlushedInput,
    /// Output is held back.
    Stopped,
    /// Output goes on.
    Started,
    /// The settings changed from the first to the second.
    Settings(Termios, Termios),
}

/// Whether somebody has the terminal open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// It was opened.
    Open,
    /// Its last description was closed.
    Closed,
}

/// The other side of a terminal. Called with `tty.output` held where bytes are sent.
pub(super) trait Line: Send + Sync {
    /// Name of the terminal in `/dev`.
    fn name(&self) -> String;
    /// Bytes that [`Line::send`] takes without waiting.
    fn room(&self) -> usize;
    /// Sends bytes in order; returns how many were taken, fewer only where the other side is gone
    /// or has no room.
    fn send(&self, bytes: &[u8]) -> usize;
    /// Waits until the device has taken everything.
    fn drain(&self);
    /// Throws away output that was not taken (`TCOFLUSH`).
    fn discard(&self);
    /// The terminal has room for input again.
    fn resume(&self);
    /// Something happened that packet mode tells.
    fn notice(&self, notice: Notice);
    /// Somebody began or ceased to use the terminal.
    fn used(&self, by: Use);
    /// Settings of a fresh terminal.
    fn initial(&self) -> Termios;
    /// The settings as the line can have them.
    fn adapt(&self, settings: Termios) -> Termios;
    /// It is a pseudo-terminal.
    fn is_pseudo(&self) -> bool;
}

/// A device as a line: it waits where it has no room.
pub(super) struct PortLine(pub Arc<dyn Port>);

impl Line for PortLine {
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
    // Sent bytes are the device's.
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
