//! Terminals: a line discipline over a device's [`interfaces::terminal::Port`] or a pty's master, and
//! plain byte streams.
//!
//! [`termios`], [`input`] and [`output`] have no side effects. [`Terminal`] connects them to a line:
//! incoming bytes are queued and processed by [`input::Input`], the signals are sent, and then the
//! echo is shown. Over a port the terminal has a thread for that, so that neither the driver nor a
//! signal ever waits for a screen that accepts no output; over a [`pty`] the thread that writes to
//! the master does it.
//!
//! [`shared`] gives a device's line to several terminals in turn, one of them the trusted path's.
//!
//! Lock order (outer first): `tty.shared`, which is never held while a line sends, then `tty.intake`, then
//! `tty.output` or `tty.input`, then `tty.settings`, `tty.arrivals`, `tty.echo`, `tty.pty`. `tty.output` is held while
//! the line sends, to keep output in order; `tty.input` never is. `tty.control` (session and foreground group) comes before
//! `process.terminal` and after nothing. Signals are sent with at most `tty.intake` held.
//! `docs/terminal.md` has the details. Source: POSIX.1-2017 chapter 11, termios(3), ioctl_tty(2),
//! Linux `n_tty.c` and `tty_jobctrl.c`.
pub mod attention;
mod flow;
pub mod input;
#[cfg(test)]
mod input_tests;
mod ioctl;
pub mod job;
mod line;
mod open;
pub mod output;
pub mod pty;
mod settings;
pub mod shared;
#[cfg(test)]
mod shared_tests;
mod stream;
mod terminal;
pub mod termios;
mod transfer;
#[cfg(test)]
mod transfer_tests;
pub mod trusted;

pub use open::{Claim, TerminalDevice, TerminalFile};
pub use stream::Stream;
pub use terminal::{Terminal, WindowSize};
