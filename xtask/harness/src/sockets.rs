//! Unix sockets that QEMU connects its character devices to, in a folder of their own.
use crate::qemu;
use anyhow::{Context, Result};
use std::{os::unix::net::UnixListener, process::Command};

/// Sockets of the given names, on which this program waits for QEMU.
pub struct Sockets<const N: usize> {
    folder: tempfile::TempDir,
    named: [(&'static str, UnixListener); N],
}

impl<const N: usize> Sockets<N> {
    /// Makes a socket for each name, in a new folder.
    ///
    /// # Errors
    /// Fails if they cannot be made.
    pub fn new(names: [&'static str; N]) -> Result<Sockets<N>> {
        let folder = tempfile::Builder::new().prefix("skerry").tempdir()?;
        let bind = |name| Ok((name, UnixListener::bind(folder.path().join(name))?));
        let named: Result<Vec<_>> = names.into_iter().map(bind).collect();
        let named = named.context("making QEMU's sockets")?;
        let named = named.try_into().map_err(|_| anyhow::anyhow!("a socket is missing"))?;
        Ok(Sockets { folder, named })
    }
    /// Adds a character device for each to QEMU's command line, with the socket's name as its id.
    pub fn add_to(&self, qemu: &mut Command) {
        for (name, _) in &self.named {
            let path = qemu::escaped(&self.folder.path().join(name));
            qemu.args(["-chardev", &format!("socket,id={name},path={path}")]);
        }
    }
    /// Returns the sockets in the order of their names, and the folder, which must be kept until
    /// QEMU has connected.
    pub fn open(self) -> (tempfile::TempDir, [UnixListener; N]) {
        (self.folder, self.named.map(|(_, socket)| socket))
    }
}
