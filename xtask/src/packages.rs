//! Debian packages that a command needs: installed through apt where we may, else named.
use crate::shell;
use anyhow::{Result, bail};
use std::{path::Path, process::Command};

/// What a command needs from Debian.
#[derive(Clone, Copy)]
pub enum Need {
    /// QEMU, mke2fs, busybox.
    Run,
    /// gdb as well.
    Debug,
    /// Everything the tests compare with.
    Test,
}

/// A package and a file of it that shows it is installed.
const PACKAGES: [(&str, &str); 5] = [
    ("qemu-system-x86", "/usr/bin/qemu-system-x86_64"),
    ("e2fsprogs", "/sbin/mke2fs"),
    ("busybox-static", "/bin/busybox"),
    ("gdb", "/usr/bin/gdb"),
    ("cpio", "/usr/bin/cpio"),
];

fn wanted(need: Need) -> &'static [(&'static str, &'static str)] {
    match need {
        Need::Run => &PACKAGES[..3],
        Need::Debug => &PACKAGES[..4],
        Need::Test => &PACKAGES,
    }
}

/// Makes sure the packages are there.
///
/// # Errors
/// Where they are missing and cannot be installed: the message is the line to type.
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
    let Some(mut prefix) = privilege() else {
        bail!("Debian packages are missing. As root, type:\n  {line}");
    };
    let mut update = prefix.split_off(0);
    update.extend(["apt-get".into(), "update".into(), "-qq".into()]);
    shell::quietly("updating Debian's package lists", &mut command(&update))?;
    let mut install = privilege().unwrap_or_default();
    install.extend(["env".into(), "DEBIAN_FRONTEND=noninteractive".into()]);
    install.extend(line.split(' ').map(str::to_owned));
    shell::quietly(&format!("installing {}", missing.join(", ")), &mut command(&install))?;
    Ok(())
}

/// Words before a command that make it run as root; `None` where we cannot.
fn privilege() -> Option<Vec<String>> {
    if nix::unistd::Uid::effective().is_root() {
        return Some(Vec::new());
    }
    let can_sudo =
        Command::new("sudo").args(["-n", "true"]).output().is_ok_and(|o| o.status.success());
    can_sudo.then(|| vec!["sudo".to_owned()])
}

fn command(words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}
