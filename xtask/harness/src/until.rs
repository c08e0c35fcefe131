//! The time from the start of QEMU until a text is on the console.
use crate::{
    guest,
    linux::{self, Linux},
    qemu::{self, Config},
    shell,
};
use anyhow::{Context, Result, bail};
use std::{
    fs,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

const BOOT_LIMIT: Duration = Duration::from_secs(60);

/// Starts QEMU with its console in a file and waits for `text` there.
fn time_to(
    config: &Config,
    console: &Path,
    console_arguments: &[String],
    text: &str,
) -> Result<Duration> {
    let _ = fs::remove_file(console);
    let start = Instant::now();
    let mut child = config
        .command()
        .args(["-display", "none", "-monitor", "none"])
        .args(console_arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("starting qemu-system-x86_64")?;
    let mut taken = None;
    while taken.is_none() && start.elapsed() < BOOT_LIMIT {
        std::thread::sleep(Duration::from_millis(2));
        if fs::read(console).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(text)) {
            taken = Some(start.elapsed());
        }
    }
    child.kill()?;
    child.wait()?;
    taken
        .with_context(|| format!("no `{text}` within {BOOT_LIMIT:?}; see {}", config.log.display()))
}

/// Measures the time from QEMU's start until `text` is on the console of Skerry with one processor and further kernel
/// parameters.
///
/// # Errors
/// Fails if the text does not appear within `BOOT_LIMIT`.
pub fn skerry_until(kernel: &Path, root: &Path, parameters: &str, text: &str) -> Result<Duration> {
    let console = shell::build_path("boot.console")?;
    let mut config = Config { cpus: 1, ..guest::machine(kernel, root, "boot-skerry.log")? };
    config.append = format!("{} {parameters}", config.append);
    let console_arguments = [
        "-chardev".to_owned(),
        format!("file,id=terminal,path={}", qemu::escaped(&console)),
        "-device".to_owned(),
        "virtconsole,chardev=terminal".to_owned(),
    ];
    time_to(&config, &console, &console_arguments, text)
}

/// The same of Linux, with its initramfs.
///
/// # Errors
/// As [`skerry_until`].
pub fn linux_until(linux: &Linux, root: &Path, parameters: &str, text: &str) -> Result<Duration> {
    let console = shell::build_path("boot.console")?;
    let mut config = Config { cpus: 1, ..guest::machine(&linux.kernel, root, "boot-linux.log")? };
    config.initrd = Some(linux.initrd.clone());
    config.has_iommu = false;
    config.append = format!("{} {parameters}", linux::PARAMETERS);
    let console_arguments = ["-serial".to_owned(), format!("file:{}", qemu::escaped(&console))];
    if !linux.initrd.exists() {
        bail!("no initramfs at {}", linux.initrd.display());
    }
    time_to(&config, &console, &console_arguments, text)
}
