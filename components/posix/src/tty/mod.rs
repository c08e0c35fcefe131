//! Terminals: a line discipline over an [`interfaces::terminal::Port`], and plain byte streams.
//!
//! [`termios`], [`input`] and [`output`] are pure. [`Terminal`] joins them to a port: what the
//! driver's thread receives is only queued there; a thread of the terminal's own runs it through
//! [`input::Input`], sends the signals and then shows the echo, so that neither the driver nor a
//! signal ever waits for a screen that does not take output.
//!
//! Lock order (outer first): `tty.output` or `tty.input`, then `tty.settings`, `tty.arrivals`,
//! `tty.echo`. `tty.output` is held while the port sends, to keep what is written in order; `tty.input`
//! never is. `tty.control` (session and foreground group) is a leaf. `docs/terminal.md` tells more.
//! Source: POSIX.1-2017 chapter 11, termios(3), ioctl_tty(2), Linux `n_tty.c` and `tty_jobctrl.c`.
pub mod input;
#[cfg(test)]
mod input_tests;
mod ioctl;
mod job;
pub mod output;
mod stream;
mod terminal;
pub mod termios;
mod transfer;
#[cfg(test)]
mod transfer_tests;

pub use stream::Stream;
pub use terminal::{Terminal, Window};
