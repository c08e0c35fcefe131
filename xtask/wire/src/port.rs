//! [`Port`]: a machine of QEMU as an end, over two UNIX sockets in a folder of their own below `build/`.
use crate::end::{End, Receipt};
use anyhow::{Context, Result, bail};
use harness::{qemu, shell};
use std::{
    io::ErrorKind,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixDatagram,
    },
    path::PathBuf,
    time::Duration,
};

/// The socket that a machine sends to, and the one on which the machine listens. The folder goes with it.
///
/// The machine may start later, end and start again: until it listens, its frames have nobody to go to.
pub struct Port {
    folder: tempfile::TempDir,
    socket: UnixDatagram,
    /// Connected to the machine; it is a socket of its own, because a connected one hears only the machine that it knows.
    outlet: Option<UnixDatagram>,
    buffer: Vec<u8>,
}

/// Names of the sockets.
const OURS: &str = "wire";
const MACHINES: &str = "machine";
/// Greater than any frame that a machine sends.
const BUFFER: usize = 1 << 17;

impl Port {
    /// Makes the socket to which a machine sends.
    ///
    /// # Errors
    /// Fails if the socket cannot be made in `build/`.
    pub fn new() -> Result<Port> {
        let build = shell::build_path("")?;
        let build = build.canonicalize().context("finding build/")?;
        let folder = tempfile::Builder::new().prefix("wire").tempdir_in(build)?;
        let path = folder.path().join(OURS);
        let bound = UnixDatagram::bind(&path);
        let socket = bound.with_context(|| format!("making the socket {}", path.display()))?;
        socket.set_nonblocking(true)?;
        Ok(Port { folder, socket, outlet: None, buffer: vec![0; BUFFER] })
    }

    /// Returns the path of the machine's socket.
    pub fn machine_path(&self) -> PathBuf {
        self.folder.path().join(MACHINES)
    }

    /// Returns the path of the socket to which the machine sends.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join(OURS)
    }

    /// Returns the value of QEMU's `-netdev` for the network `id`.
    pub fn netdev(&self, id: &str) -> String {
        let [local, remote] = [self.machine_path(), self.path()].map(|path| qemu::escaped(&path));
        format!(
            "dgram,id={id},local.type=unix,local.path={local},remote.type=unix,remote.path={remote}"
        )
    }

    fn connect(&mut self) -> Option<&UnixDatagram> {
        if self.outlet.is_none() {
            let socket = UnixDatagram::unbound().ok()?;
            socket.set_nonblocking(true).ok()?;
            socket.connect(self.machine_path()).ok()?;
            self.outlet = Some(socket);
        }
        self.outlet.as_ref()
    }
}

impl End for Port {
    fn hear(&mut self, frame: &[u8], _now: Duration) -> Receipt {
        // A machine that has started again listens on another socket of the same name.
        for _ in 0..2 {
            let Some(outlet) = self.connect() else { break };
            match outlet.send(frame) {
                Ok(_) => return Receipt::Taken,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Receipt::Full,
                Err(_) => self.outlet = None,
            }
        }
        Receipt::Absent
    }

    fn say(&mut self, _now: Duration) -> Result<Option<Vec<u8>>> {
        match self.socket.recv(&mut self.buffer) {
            Ok(length) => Ok(Some(self.buffer[..length].to_vec())),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
            Err(error) => bail!("reading a machine's frames: {error}"),
        }
    }

    fn wakes_at(&mut self, _now: Duration) -> Option<Duration> {
        None
    }

    fn bell(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn outlet(&self) -> Option<BorrowedFd<'_>> {
        self.outlet.as_ref().map(AsFd::as_fd)
    }
}
