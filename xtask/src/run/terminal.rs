//! The user's terminal as the guest's console.
//!
//! Typed input goes to the guest, except for the key after Ctrl-A: X ends QEMU, C changes between the console and QEMU's
//! monitor, D sends Ctrl-Alt-Del, H shows this list, and a second Ctrl-A sends one. QEMU's own multiplexer (`mux=on`) is not
//! used: beyond 32 bytes it loses input that comes faster than the guest takes it.
use crate::run::window::Keys;
use anyhow::Result;
use harness::sockets::Sockets;
use nix::{
    sys::{
        signal::{Signal, kill},
        termios::{self, SetArg, Termios},
    },
    unistd::Pid,
};
use std::{
    io::{self, Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

const ESCAPE: u8 = 0x01;
const HELP: &str = "\r\nCtrl-A then: X ends the run, C changes to QEMU's monitor and back, D is Ctrl-Alt-Del, Ctrl-A is sent, H is this\r\n";

/// Sockets of the console and of the monitor.
pub struct Terminal(Sockets<2>);

impl Terminal {
    /// Makes the sockets.
    ///
    /// # Errors
    /// Fails if they cannot be made.
    pub fn new() -> Result<Terminal> {
        Ok(Terminal(Sockets::new(["terminal", "monitor"])?))
    }
    /// Adds the console and the monitor to QEMU's command line. If the console is the serial port of the kernel's log, that is
    /// also written to the file `serial_log`.
    pub fn add_to(&self, qemu: &mut Command, serial_log: Option<&Path>) {
        self.0.add_to(qemu);
        match serial_log {
            Some(log) => {
                qemu.args(["-set", &format!("chardev.terminal.logfile={}", log.display())])
            }
            None => qemu.args(["-device", "virtconsole,bus=serial.0,chardev=terminal"]),
        };
        qemu.args(["-mon", "chardev=monitor"]);
    }
    /// Connects the standard streams. If stdin is a terminal it is in raw mode until the result is dropped.
    pub fn start(self, qemu: u32, keys: Keys) -> Sitting {
        let (folder, [console, monitor]) = self.0.open();
        let before = termios::tcgetattr(io::stdin()).ok();
        if let Some(before) = &before {
            let mut raw = before.clone();
            termios::cfmakeraw(&mut raw);
            let _ = termios::tcsetattr(io::stdin(), SetArg::TCSADRAIN, &raw);
        }
        let has_keys = before.is_some();
        let shower = thread::spawn(move || {
            let connect = |socket: UnixListener| socket.accept().map(|(stream, _)| stream);
            let (Ok(console), Ok(monitor)) = (connect(console), connect(monitor)) else { return };
            drop(folder);
            let (Ok(to_console), Ok(to_monitor)) = (console.try_clone(), monitor.try_clone())
            else {
                return;
            };
            let is_monitor = Arc::new(AtomicBool::new(false));
            let keyboard = Keyboard {
                to: [to_console, to_monitor],
                is_monitor: is_monitor.clone(),
                is_escaped: false,
                qemu,
                keys,
            };
            // Neither thread is joined: stdin may never end, and the monitor's last output does not matter.
            thread::spawn(move || show(monitor, &is_monitor));
            thread::spawn(move || keyboard.serve(has_keys));
            if show(console, &AtomicBool::new(true)) == Line::Open {
                println!();
            }
        });
        Sitting { before, shower: Some(shower) }
    }
}

/// The terminal while the guest uses it.
pub struct Sitting {
    before: Option<Termios>,
    shower: Option<JoinHandle<()>>,
}

impl Sitting {
    /// Waits until all of the guest's output is shown. QEMU has ended, after it connected.
    pub fn finish(mut self) {
        if let Some(shower) = self.shower.take() {
            let _ = shower.join();
        }
    }
}

impl Drop for Sitting {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = termios::tcsetattr(io::stdin(), SetArg::TCSADRAIN, before);
        }
    }
}

/// The position at which the cursor is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// At the beginning of a line.
    Ended,
    /// Behind other characters.
    Open,
}

/// Shows the output; output that comes while `is_shown` is not set is dropped.
fn show(mut from: UnixStream, is_shown: &AtomicBool) -> Line {
    let mut buffer = [0; 4096];
    let mut line = Line::Ended;
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if !is_shown.load(Ordering::Relaxed) {
            continue;
        }
        let mut stdout = io::stdout().lock();
        if stdout.write_all(&buffer[..count]).and_then(|()| stdout.flush()).is_err() {
            return Line::Ended;
        }
        let is_ended = matches!(buffer[count - 1], b'\n' | b'\r');
        line = if is_ended { Line::Ended } else { Line::Open };
    }
    line
}

/// The reader of the keyboard.
struct Keyboard {
    /// The console's socket, and the monitor's.
    to: [UnixStream; 2],
    is_monitor: Arc<AtomicBool>,
    is_escaped: bool,
    qemu: u32,
    keys: Keys,
}

impl Keyboard {
    fn serve(mut self, has_keys: bool) {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = io::stdin().lock().read(&mut buffer) {
            let typed = &buffer[..count];
            let sent = if has_keys { self.take(typed) } else { self.to[0].write_all(typed) };
            if sent.is_err() {
                return;
            }
        }
    }
    /// Sends typed input; the bytes between two escapes go in one piece.
    fn take(&mut self, mut typed: &[u8]) -> io::Result<()> {
        while let [first, rest @ ..] = typed {
            if std::mem::take(&mut self.is_escaped) {
                self.obey(*first)?;
                typed = rest;
            } else if *first == ESCAPE {
                self.is_escaped = true;
                typed = rest;
            } else {
                let end = typed.iter().position(|byte| *byte == ESCAPE).unwrap_or(typed.len());
                let (run, rest) = typed.split_at(end);
                self.target().write_all(run)?;
                typed = rest;
            }
        }
        Ok(())
    }
    fn target(&mut self) -> &mut UnixStream {
        &mut self.to[usize::from(self.is_monitor.load(Ordering::Relaxed))]
    }
    fn obey(&mut self, key: u8) -> io::Result<()> {
        match key {
            b'x' | b'X' => {
                let pid = Pid::from_raw(self.qemu.cast_signed());
                // QEMU may have ended by itself.
                let _ = kill(pid, Signal::SIGTERM);
                Ok(())
            }
            b'c' | b'C' => {
                // The monitor's prompt came long ago; an empty line makes it come again.
                match self.is_monitor.fetch_xor(true, Ordering::Relaxed) {
                    false => self.to[1].write_all(b"\n"),
                    true => Ok(()),
                }
            }
            b'd' | b'D' => {
                self.keys.press();
                Ok(())
            }
            b'h' | b'H' | b'?' => io::stdout().lock().write_all(HELP.as_bytes()),
            ESCAPE => self.target().write_all(&[ESCAPE]),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_the_escape_is_not_sent() {
        let (to_console, mut console) = UnixStream::pair().unwrap();
        let (to_monitor, mut monitor) = UnixStream::pair().unwrap();
        // No process has the number 0x7fff_ffff.
        let qemu = i32::MAX.cast_unsigned();
        let is_monitor = Arc::new(AtomicBool::new(false));
        let to = [to_console, to_monitor];
        let keys = Keys::default();
        let mut keyboard = Keyboard { to, is_monitor, is_escaped: false, qemu, keys };
        for typed in [&b"a\x01\x01b\x01"[..], b"cinfo\n\x01q\x01cback", b"\x01x"] {
            keyboard.take(typed).unwrap();
        }
        drop(keyboard);
        let mut sent = [String::new(), String::new()];
        console.read_to_string(&mut sent[0]).unwrap();
        monitor.read_to_string(&mut sent[1]).unwrap();
        assert_eq!(sent, ["a\x01bback", "\ninfo\n"]);
    }
}
