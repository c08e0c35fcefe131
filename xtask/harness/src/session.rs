//! A session with a guest: three byte streams and a control stream over virtio-console ports, each of
//! which is a Unix socket on the host. The end of stdin ends the port's input. The command goes to the
//! control port, once more for each line `again` that comes from there; so does the exit status.
use crate::{
    qemu::{SERIAL, SERIAL_TWO},
    sockets::Sockets,
};
use anyhow::Result;
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::Shutdown,
    os::unix::net::UnixListener,
    process::Command,
    sync::{Arc, Mutex, mpsc},
    thread::{self, JoinHandle},
};

/// The end of a guest's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The program called `exit(N)`.
    Exited(u8),
    /// The program was killed by signal N.
    Signalled(u8),
}

impl Ended {
    fn parse(line: &str) -> Option<Ended> {
        let (word, number) = line.trim().split_once(' ')?;
        let number = number.parse().ok()?;
        match word {
            "exited" => Some(Ended::Exited(number)),
            "signalled" => Some(Ended::Signalled(number)),
            _ => None,
        }
    }
    /// Returns the status that a shell would report.
    pub fn status(self) -> u8 {
        match self {
            Ended::Exited(code) => code,
            Ended::Signalled(signal) => 128u8.saturating_add(signal),
        }
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ended::Exited(code) => write!(f, "exited {code}"),
            Ended::Signalled(signal) => write!(f, "signalled {signal}"),
        }
    }
}

/// The sources and sinks of a session's streams.
pub struct Streams {
    /// Source of the guest's stdin.
    pub input: Box<dyn Read + Send>,
    /// Receiver of the guest's stdout.
    pub output: Box<dyn Write + Send>,
    /// Receiver of the guest's stderr.
    pub error: Box<dyn Write + Send>,
}

impl Streams {
    /// Returns the process's own streams.
    pub fn ours() -> Streams {
        Streams {
            input: Box::new(io::stdin()),
            output: Box::new(io::stdout()),
            error: Box::new(io::stderr()),
        }
    }
}

/// The sockets, which wait for QEMU.
pub struct Listening {
    sockets: Sockets<4>,
    ports: &'static Ports,
}

/// The ports of a session.
struct Ports {
    /// The device that has them ([`Config::command`](crate::qemu::Config::command)).
    device: &'static str,
    /// The beginning of their names in the guest.
    prefix: &'static str,
    /// The names of their sockets.
    sockets: [&'static str; 4],
}

const PORTS: [&str; 4] = ["stdin", "stdout", "stderr", "control"];
const FIRST: Ports = Ports { device: SERIAL, prefix: "skerry", sockets: PORTS };
const SECOND: Ports = Ports {
    device: SERIAL_TWO,
    prefix: "two",
    sockets: ["stdin-two", "stdout-two", "stderr-two", "control-two"],
};

impl Listening {
    /// Makes the sockets of the machine's only session, or the first.
    ///
    /// # Errors
    /// Fails if the sockets cannot be made.
    pub fn new() -> Result<Listening> {
        Ok(Listening { sockets: Sockets::new(FIRST.sockets)?, ports: &FIRST })
    }
    /// Makes the sockets of the session of a machine's second personality.
    ///
    /// # Errors
    /// Those of [`Listening::new`].
    pub fn second() -> Result<Listening> {
        Ok(Listening { sockets: Sockets::new(SECOND.sockets)?, ports: &SECOND })
    }
    /// Adds the ports to QEMU's command line.
    pub fn add_to(&self, qemu: &mut Command) {
        self.sockets.add_to(qemu);
        let Ports { device, prefix, sockets } = self.ports;
        for (name, socket) in PORTS.iter().zip(sockets) {
            let port =
                format!("virtserialport,bus={device}.0,chardev={socket},name={prefix}.{name}");
            qemu.args(["-device", &port]);
        }
    }
    /// Takes QEMU's connections and starts to move bytes. To be called once QEMU runs.
    pub fn start(self, command: &str, streams: Streams) -> Session {
        let (ended_sender, ended) = mpsc::channel();
        let (folder, [stdin, stdout, stderr, control]) = self.sockets.open();
        // The thread is not joined: stdin may never end.
        thread::spawn(move || feed(&stdin, streams.input));
        let command = command.to_owned();
        let threads = vec![
            thread::spawn(move || drain(&stdout, streams.output)),
            thread::spawn(move || drain(&stderr, streams.error)),
            thread::spawn(move || {
                if let Some(how) = steer(&control, &command) {
                    let _ = ended_sender.send(how);
                }
            }),
        ];
        Session { threads, ended, _folder: folder }
    }
}

/// A session under way.
pub struct Session {
    threads: Vec<JoinHandle<()>>,
    ended: mpsc::Receiver<Ended>,
    _folder: tempfile::TempDir,
}

impl Session {
    /// Waits for the last byte (QEMU has ended). Returns how the session ended, if it did.
    pub fn finish(self) -> Option<Ended> {
        for thread in self.threads {
            let _ = thread.join();
        }
        self.ended.try_recv().ok()
    }
}

fn feed(listener: &UnixListener, mut input: Box<dyn Read + Send>) {
    let Ok((mut port, _)) = listener.accept() else { return };
    let _ = io::copy(&mut input, &mut port);
    // This is half a close: QEMU still reads the bytes under way, then sees the end. The read below keeps
    // the socket open until QEMU has ended, because a full close would drop those bytes.
    let _ = port.shutdown(Shutdown::Write);
    let _ = port.read(&mut [0]);
}

fn drain(listener: &UnixListener, mut sink: Box<dyn Write + Send>) {
    let Ok((mut port, _)) = listener.accept() else { return };
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = port.read(&mut buffer) {
        if sink.write_all(&buffer[..count]).and_then(|()| sink.flush()).is_err() {
            // The reader of the output has gone; the guest may finish unheard.
            let _ = io::copy(&mut port, &mut io::sink());
        }
    }
}

fn steer(listener: &UnixListener, command: &str) -> Option<Ended> {
    let (mut port, _) = listener.accept().ok()?;
    let length = u32::try_from(command.len()).ok()?;
    let message = [&length.to_le_bytes(), command.as_bytes()].concat();
    port.write_all(&message).ok()?;
    let lines = BufReader::new(port.try_clone().ok()?).lines();
    let mut ended = None;
    for line in lines.map_while(Result::ok) {
        match line.as_str() {
            // The guest's personality has ended, and its successor begins the session again.
            "again" => port.write_all(&message).ok()?,
            line => ended = Ended::parse(line),
        }
    }
    ended
}

/// A sink that another thread writes.
#[derive(Clone, Default)]
pub struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    /// The bytes that were written.
    pub fn take(&self) -> Vec<u8> {
        self.0.lock().map(|mut bytes| std::mem::take(&mut *bytes)).unwrap_or_default()
    }

    /// Returns the text that was written so far, which stays.
    pub fn text(&self) -> String {
        let bytes = self.0.lock().map(|bytes| bytes.clone()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Write for Captured {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if let Ok(mut bytes) = self.0.lock() {
            bytes.extend_from_slice(data);
        }
        Ok(data.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_line_says_how_the_session_ended() {
        assert_eq!(Ended::parse("exited 3\n"), Some(Ended::Exited(3)));
        assert_eq!(Ended::parse("signalled 9"), Some(Ended::Signalled(9)));
        assert_eq!(Ended::parse("exited"), None);
        assert_eq!(Ended::Signalled(15).status(), 143);
    }
}
