//! Tells the running system of our terminal's size: a line `ROWS COLUMNS` on the port
//! `skerry.window` at each SIGWINCH. QEMU's own console passes no sizes on. A line [`RESTART_KEYS`] stands for these keys, which a
//! terminal does not pass on.
use anyhow::{Context, Result};
use harness::sockets::Sockets;
use nix::sys::signal::{SigSet, Signal};
use std::{
    io::{self, IsTerminal, Write},
    os::unix::net::UnixStream,
    process::{Command, Stdio},
    sync::{Arc, OnceLock},
    thread,
};

/// The keys Ctrl, Alt and Del.
const RESTART_KEYS: &[u8] = b"ctrl-alt-del\n";

/// The connection to the port, once QEMU made it.
#[derive(Clone, Default)]
pub struct Keys(Arc<OnceLock<UnixStream>>);

impl Keys {
    /// Sends Ctrl-Alt-Del to the running system; does nothing if it has no port for that.
    pub fn press(&self) {
        let _ = self.0.get().map(|mut stream| stream.write_all(RESTART_KEYS));
    }
}

/// The port's socket, waiting for QEMU.
pub struct Window(Sockets<1>);

impl Window {
    /// Makes the socket.
    ///
    /// # Errors
    /// Fails if the socket cannot be made.
    pub fn new() -> Result<Window> {
        Ok(Window(Sockets::new(["window"])?))
    }
    /// Adds the port to QEMU's command line.
    pub fn add_to(&self, qemu: &mut Command) {
        self.0.add_to(qemu);
        qemu.args(["-device", "virtserialport,bus=serial.0,chardev=window,name=skerry.window"]);
    }
    /// Takes QEMU's connection and reports changes until QEMU ends. SIGWINCH is blocked in the calling thread, and in threads
    /// that it starts, from now on.
    ///
    /// # Errors
    /// Fails if the signal cannot be blocked.
    pub fn start(self) -> Result<Keys> {
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGWINCH);
        signals.thread_block().context("blocking SIGWINCH")?;
        let (folder, [socket]) = self.0.open();
        let keys = Keys::default();
        let connected = keys.clone();
        // The thread is not joined: it waits for a signal that may never come.
        thread::spawn(move || {
            let Ok((mut stream, _)) = socket.accept() else { return };
            drop(folder);
            let _ = stream.try_clone().map(|clone| connected.0.set(clone));
            while signals.wait().is_ok() {
                let Some((rows, columns)) = window_size() else { continue };
                if writeln!(stream, "{rows} {columns}").is_err() {
                    return;
                }
            }
        });
        Ok(keys)
    }
}

/// Rows and columns of our terminal.
pub fn window_size() -> Option<(u16, u16)> {
    if !io::stdin().is_terminal() {
        return None;
    }
    let output = Command::new("stty").arg("size").stdin(Stdio::inherit()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (rows, columns) = text.trim().split_once(' ')?;
    Some((rows.parse().ok()?, columns.parse().ok()?))
}
