//! Running other programs: with progress, with their output kept for the error message.
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Returns the repository's root.
pub fn root() -> PathBuf {
    std::env::var_os("SKERRY_ROOT")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")), PathBuf::from)
}

/// Returns a path in `build/`, which is made if needed.
///
/// # Errors
/// Fails if the folder cannot be made.
pub fn build_path(name: &str) -> Result<PathBuf> {
    let folder = root().join("build");
    std::fs::create_dir_all(&folder).context("making build/")?;
    Ok(folder.join(name))
}

/// Shows a spinner on the terminal with the text `what`; without a terminal, prints a line with the time since the
/// first such line.
pub fn progress(what: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    print_step(&bar, what);
    bar
}

/// Gives a spinner the text `what`; without a terminal, prints a line as [`progress`] does.
pub fn next_step(bar: &ProgressBar, what: &str) {
    bar.set_message(what.to_owned());
    print_step(bar, what);
}

fn print_step(bar: &ProgressBar, what: &str) {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    if bar.is_hidden() {
        let seconds = FIRST.get_or_init(Instant::now).elapsed().as_secs();
        eprintln!("x: {:02}:{:02} {what}", seconds / 60, seconds % 60);
    }
}

/// Returns the number of processors of this machine.
pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Number of a thread of [`side_by_side`], from 0: no two items have the same at a time.
pub type Lane = usize;

/// Does `work` for every item, so many (at least one) at a time. Returns the results in the items'
/// order.
pub fn side_by_side<T: Sync, R: Send + Sync>(
    items: &[T],
    at_a_time: usize,
    work: impl Fn(Lane, &T) -> R + Sync,
) -> Vec<R> {
    let results: Vec<OnceLock<R>> = items.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let take = || {
        let index = next.fetch_add(1, Ordering::Relaxed);
        items.get(index).zip(results.get(index))
    };
    let (take, work) = (&take, &work);
    thread::scope(|scope| {
        for lane in 0..at_a_time.max(1) {
            scope.spawn(move || {
                while let Some((item, result)) = take() {
                    let _ = result.set(work(lane, item));
                }
            });
        }
    });
    results.into_iter().filter_map(OnceLock::into_inner).collect()
}

/// Runs `command` quietly under a progress line.
///
/// # Errors
/// Fails if the command cannot be started or fails; the message then has its output.
pub fn quietly(what: &str, command: &mut Command) -> Result<Vec<u8>> {
    let bar = progress(what);
    let output =
        command.output().with_context(|| format!("starting {:?}", command.get_program()))?;
    bar.finish_and_clear();
    if !output.status.success() {
        // Cargo's messages to programs are not for readers; the same text is on the other stream.
        let said = String::from_utf8_lossy(&output.stdout);
        let said: String =
            said.split_inclusive('\n').filter(|line| !line.starts_with("{\"reason\":")).collect();
        bail!(
            "{what}: {:?} ended with {}\n{said}{}",
            command.get_program(),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(output.stdout)
}

/// Returns the output of git in this workspace; `None` without a repository.
pub fn git(arguments: &[&str]) -> Option<String> {
    let said = Command::new("git").arg("-C").arg(root()).args(arguments).output().ok()?;
    said.status.success().then(|| String::from_utf8_lossy(&said.stdout).into_owned())
}

/// Returns the name of a file, from the root of this workspace.
pub fn name(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Returns a command of cargo for this workspace.
pub fn cargo() -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_side_by_side_comes_in_the_items_order() {
        let items: Vec<usize> = (0..50).collect();
        for at_a_time in [0, 1, 3, 80] {
            let doubled = side_by_side(&items, at_a_time, |_, item| item * 2);
            assert!(doubled.iter().copied().eq(items.iter().map(|item| item * 2)));
        }
    }
}
