//! `./x debug`: the same boot, stopped at the first instruction, with gdb attached (M8).
use crate::run;
use anyhow::{Context, Result};
use harness::{packages, qemu, shell, symbols};
use std::process::Stdio;

/// Starts QEMU stopped and gdb on it. The guest's console goes to `build/debug.console`.
///
/// # Errors
/// The reason why one of them did not start.
pub fn run(options: &run::Options) -> Result<u8> {
    let cpus = qemu::check(options.cpus, qemu::Clock::of(options.icount))?;
    run::check(options)?;
    packages::ensure(packages::Need::Debug)?;
    let config = run::config(options, cpus)?;
    let socket = shell::build_path("gdb.socket")?;
    let console = shell::build_path("debug.console")?;
    let mut qemu = config.command();
    qemu.args(["-S", "-display", "none", "-monitor", "none"]);
    qemu.args([
        "-chardev",
        &format!("socket,id=gdb,server=on,wait=off,path={}", qemu::escaped(&socket)),
    ]);
    qemu.args([
        "-gdb",
        "chardev:gdb",
        "-chardev",
        &format!("file,id=terminal,path={}", qemu::escaped(&console)),
    ]);
    qemu.args(["-device", "virtconsole,chardev=terminal"]);
    let _ = std::fs::remove_file(&socket);
    let mut child = qemu.stdin(Stdio::null()).spawn().context("starting qemu-system-x86_64")?;
    eprintln!("x: console in {}, log in {}", console.display(), config.log.display());
    while !socket.exists() && child.try_wait()?.is_none() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let status = std::process::Command::new("gdb")
        .arg(symbols::beside(&config.kernel))
        .args(["-ex", "set architecture i386:x86-64", "-ex"])
        .arg(format!("target remote {}", socket.display()))
        .status()
        .context("starting gdb")?;
    let _ = child.kill();
    child.wait()?;
    Ok(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1))
}
