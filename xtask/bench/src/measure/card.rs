//! The network card of a boot: none, one on QEMU's own network, or one on an interface of the host, in a network namespace of
//! its own; with the peer at the other end.
use super::peer;
use anyhow::{Context, Result};
use harness::{
    qemu::{self, Config},
    shell,
};
use nix::{
    sched::{CloneFlags, unshare},
    unistd::Uid,
};
use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, thread};

/// The card of a boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Card {
    /// There is no card.
    #[default]
    None,
    /// QEMU's own network: no offloads, and no rights are needed.
    User,
    /// An interface of the host, with offloads of checksums and segments. This needs root's rights.
    Tap,
}

/// The Ethernet address of the card, administered locally.
const MAC: &str = "02:00:00:00:00:02";
/// The device of the host that makes interfaces.
const TUN: &str = "/dev/net/tun";
/// Addresses of the machine and of the peer on QEMU's own network, and on a tap.
const USER: [&str; 2] = ["10.0.2.15", "10.0.2.2"];
const ON_TAP: [&str; 2] = ["10.0.3.2", "10.0.3.1"];
/// The script that QEMU runs when it has made the interface.
const UP: &str = "#!/bin/sh
/bin/busybox ip addr add PEER/24 dev \"$1\" && /bin/busybox ip link set \"$1\" up
";

impl Card {
    /// Returns why this machine's user cannot have such a card, if so.
    pub fn lacks(self) -> Option<String> {
        if self != Card::Tap {
            return None;
        }
        if !Uid::effective().is_root() {
            return Some("it needs root's rights".to_owned());
        }
        let opened = fs::File::options().read(true).write(true).open(TUN);
        opened.err().map(|why| format!("{TUN}: {why}"))
    }

    /// Starts the peer and adds the card to `config`. Calls `work` with the machine and the kernel parameter that tells probes
    /// of the wire.
    ///
    /// # Errors
    /// Those of `work`; or the peer cannot be started.
    pub fn beside<T: Send>(
        self,
        config: Config,
        work: impl FnOnce(Config, &str) -> Result<T> + Send,
    ) -> Result<T> {
        match self {
            Card::None => work(config, ""),
            Card::User => plugged(config, "user,id=net0", USER, work),
            // All that the thread starts is in its namespace: the peer, and QEMU with the interface that it makes.
            Card::Tap => thread::scope(|scope| {
                let isolated = scope.spawn(|| {
                    unshare(CloneFlags::CLONE_NEWNET).context("making a network namespace")?;
                    let script = qemu::escaped(&script()?);
                    let backing = format!(
                        "tap,id=net0,ifname=tap0,vnet_hdr=on,script={script},downscript=no"
                    );
                    plugged(config, &backing, ON_TAP, work)
                });
                isolated.join().ok().context("the thread of a namespace ended early")?
            }),
        }
    }
}

fn plugged<T>(
    mut config: Config,
    backing: &str,
    [ours, its]: [&str; 2],
    work: impl FnOnce(Config, &str) -> Result<T>,
) -> Result<T> {
    let port = peer::start()?;
    config.extra.extend(["-netdev".to_owned(), backing.to_owned()]);
    config.extra.extend(config.card("net0", MAC));
    work(config, &format!("skerry.wire={ours},{its},{port}"))
}

fn script() -> Result<PathBuf> {
    let path = shell::build_path("bench-tap-up")?;
    fs::write(&path, UP.replace("PEER", ON_TAP[1]))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}
