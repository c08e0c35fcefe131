//! Tells the running system of our terminal's size: a line `ROWS COLUMNS` on the port
//! `skerry.window` at each SIGWINCH. QEMU's own console passes no sizes on.
use crate::{run::window_size, sockets::Sockets};
use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, Signal};
use std::{io::Write, process::Command, thread};

/// The port's socket, waiting for QEMU.
pub struct Window(Sockets<1>);

impl Window {
    /// Makes the socket.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn new() -> Result<Window> {
        Ok(Window(Sockets::new(["window"])?))
    }
    /// Adds the port to QEMU's command line.
    pub fn add_to(&self, qemu: &mut Command) {
        self.0.add_to(qemu);
        qemu.args(["-device", "virtserialport,chardev=window,name=skerry.window"]);
    }
    /// Takes QEMU's connection and tells of changes until QEMU ends. SIGWINCH is blocked in the
    /// calling thread, and in those it starts, from now on.
    ///
    /// # Errors
    /// Where the signal cannot be blocked.
    pub fn start(self) -> Result<()> {
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGWINCH);
        signals.thread_block().context("blocking SIGWINCH")?;
        let (folder, [socket]) = self.0.open();
        // Not joined: it waits for a signal that may never come.
        thread::spawn(move || {
            let Ok((mut stream, _)) = socket.accept() else { return };
            drop(folder);
            while signals.wait().is_ok() {
                let Some((rows, columns)) = window_size() else { continue };
                if writeln!(stream, "{rows} {columns}").is_err() {
                    return;
                }
            }
        });
        Ok(())
    }
}
