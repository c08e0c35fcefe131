//! Boots of the kernel that is the nucleus and its tests (`tests/nucleus`).
use crate::{qemu::Config, shell};
use anyhow::{Context, Result};
use std::{
    fs,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Time after which a boot counts as hung.
pub const LONGEST: Duration = Duration::from_secs(240);
/// For the tests and measurements of ports.
pub const SECOND_SERIAL_PORT: [&str; 2] = ["-serial", "null"];

/// Boots once, under a progress line. Returns the log, up to its end or as far as it came in `longest`.
///
/// # Errors
/// Fails if QEMU does not start.
pub fn boot(config: &Config, what: &str, longest: Duration) -> Result<String> {
    let bar = shell::progress(what);
    let mut command: Command = config.command();
    command.args(["-display", "none"]).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::null()).spawn().context("starting QEMU")?;
    let started = Instant::now();
    while child.try_wait()?.is_none() {
        if started.elapsed() > longest {
            child.kill()?;
            child.wait()?;
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    bar.finish_and_clear();
    Ok(String::from_utf8_lossy(&fs::read(&config.log)?).into_owned())
}
