//! Running other programs: with progress, with their output kept for the error message.
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use std::{path::PathBuf, process::Command, time::Duration};

/// The repository's root.
pub fn root() -> PathBuf {
    std::env::var_os("SKERRY_ROOT")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/..")), PathBuf::from)
}

/// A path in `build/`, which is made if need be.
///
/// # Errors
/// Where the folder cannot be made.
pub fn build_path(name: &str) -> Result<PathBuf> {
    let folder = root().join("build");
    std::fs::create_dir_all(&folder).context("making build/")?;
    Ok(folder.join(name))
}

/// A spinner on the terminal that says what goes on; on anything but a terminal a line.
pub fn progress(what: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    if bar.is_hidden() {
        eprintln!("x: {what}");
    }
    bar
}

/// Runs `command` quietly under a progress line.
///
/// # Errors
/// Where it cannot be started or fails; its output is then in the message.
pub fn quietly(what: &str, command: &mut Command) -> Result<Vec<u8>> {
    let bar = progress(what);
    let output =
        command.output().with_context(|| format!("starting {:?}", command.get_program()))?;
    bar.finish_and_clear();
    if !output.status.success() {
        bail!(
            "{what}: {:?} ended with {}\n{}{}",
            command.get_program(),
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(output.stdout)
}

/// Cargo, for this workspace.
pub fn cargo() -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root());
    command
}
