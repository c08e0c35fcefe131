//! Terminals: a line discipline over a device's [`interfaces::terminal::Port`] or a pty's master, and
//! plain byte streams.
//!
//! [`termios`], [`input`] and [`output`] are pure. [`Terminal`] joins them to a line: what comes in
//! is queued, run through [`input::Input`], its signals are sent, and then the echo is shown. Over a
//! port a thread of the terminal's own does that, so that neither the driver nor a signal ever waits
//! for a screen that does not take output; over a [`pty`] whoever writes to the master does.
//!
//! Lock order (outer first): `tty.intake`, then `tty.output` or `tty.input`, then `tty.settings`,
//! `tty.arrivals`, `tty.echo`, `tty.pty`. `tty.output` is held while the line sends, to keep what is
//! written in order; `tty.input` never is. `tty.control` (session and foreground group) comes before
//! `process.terminal` and after nothing. Signals are sent with at most `tty.intake` held.
//! `docs/terminal.md` tells more.
//! Source: POSIX.1-2017 chapter 11, termios(3), ioctl_tty(2), Linux `n_tty.c` and `tty_jobctrl.c`.
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
mod stream;
mod terminal;
pub mod termios;
mod transfer;
#[cfg(test)]
mod transfer_tests;

pub use open::{Claim, TerminalFile};
pub use stream::Stream;
pub use terminal::{Terminal, Window};
