//! The Debian packages that a command needs. They are installed by apt if the user may, and
//! otherwise named in a message.
use crate::shell;
use anyhow::{Result, bail};
use std::{path::Path, process::Command};

/// The needs of a command from Debian.
#[derive(Clone, Copy)]
pub enum Need {
    /// Packages to run: QEMU, mke2fs, busybox.
    Run,
    /// Packages to debug: gdb as well.
    Debug,
    /// The programs that make a Debian root.
    Debian,
    /// Packages for all that the tests compare with.
    Test,
}

/// A package and a file of it that shows it is installed.
const PACKAGES: [(&str, &str); 6] = [
    ("qemu-system-x86", "/usr/bin/qemu-system-x86_64"),
    ("e2fsprogs", "/sbin/mke2fs"),
    ("busybox-static", "/bin/busybox"),
    ("gdb", "/usr/bin/gdb"),
    ("cpio", "/usr/bin/cpio"),
    ("mmdebstrap", "/usr/bin/mmdebstrap"),
];

fn wanted(need: Need) -> &'static [(&'static str, &'static str)] {
    match need {
        Need::Run => &PACKAGES[..3],
        Need::Debug => &PACKAGES[..4],
        Need::Debian => &PACKAGES[5..],
        Need::Test => &PACKAGES[..5],
    }
}

/// Installs the packages that are missing.
///
/// # Errors
/// Fails if they cannot be installed; the message is the line to type.
pub fn ensure(need: Need) -> Result<()> {
    let missing: Vec<&str> = wanted(need)
        .iter()
        .filter(|(_, file)| !Path::new(file).exists())
        .map(|&(name, _)| name)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let line = format!("apt-get install -y --no-install-recommends {}", missing.join(" "));
    let Some(prefix) = privilege() else {
        bail!("Debian packages are missing. As root, type:\n  {line}");
    };
    let mut update = as_root(prefix, "apt-get update -qq");
    shell::quietly("updating Debian's package lists", &mut update)?;
    let mut install = as_root(prefix, &format!("env DEBIAN_FRONTEND=noninteractive {line}"));
    shell::quietly(&format!("installing {}", missing.join(", ")), &mut install)?;
    Ok(())
}

/// Returns the word before a command that runs it as root, if one is needed; `None` if the user
/// cannot become root.
fn privilege() -> Option<Option<&'static str>> {
    if nix::unistd::Uid::effective().is_root() {
        return Some(None);
    }
    let can_sudo =
        Command::new("sudo").args(["-n", "true"]).output().is_ok_and(|o| o.status.success());
    can_sudo.then_some(Some("sudo"))
}

/// Makes a command from a line of plain words, to be run as root.
///
/// # Errors
/// Fails if the user cannot become root; the message says what to do.
pub fn privileged(line: &str) -> Result<Command> {
    let Some(prefix) = privilege() else {
        bail!("`{line}` needs root's rights: type it as root, or where `sudo -n` works");
    };
    Ok(as_root(prefix, line))
}

/// Makes a command of plain words, behind `prefix`.
fn as_root(prefix: Option<&str>, line: &str) -> Command {
    let mut words = prefix.into_iter().chain(line.split(' '));
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    command
}
