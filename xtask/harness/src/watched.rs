//! Commands of tests: their output is taken in whole, and those that hang are ended.
use anyhow::{Context, Result};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    fs,
    io::{self, PipeReader, Read},
    os::fd::{AsFd, AsRawFd},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

/// A command that has ended.
#[derive(Debug)]
pub struct Ended {
    /// The text on both streams, in the order of its writing.
    pub output: String,
    /// The command's status.
    pub status: ExitStatus,
    /// A report for each time that nothing was written for too long: the processes that were killed then, and their threads.
    pub hangs: Vec<String>,
}

/// Runs `command` to its end. After each time of `quiet` without output, the processes that it started and that hold its output
/// are killed, or it itself if it is alone: `cargo test` goes on with its next program.
///
/// # Errors
/// Fails if the command cannot be started or its output cannot be read.
pub fn run(command: &mut Command, quiet: Duration) -> Result<Ended> {
    // Both streams share a pipe, so that an error's text comes where its test ran.
    let (mut reader, writer) = io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let child = command.spawn();
    // The pipe ends with its writers: the command holds two.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = child.with_context(|| format!("starting {:?}", command.get_program()))?;
    let limit = PollTimeout::try_from(quiet).context("the time without output is too long")?;
    let (mut output, mut hangs) = (Vec::new(), Vec::new());
    let mut part = vec![0; 1 << 16];
    loop {
        if poll(&mut [PollFd::new(reader.as_fd(), PollFlags::POLLIN)], limit)? == 0 {
            hangs.push(end_hung(&reader, &mut child)?);
            continue;
        }
        match reader.read(&mut part)? {
            0 => break,
            length => output.extend_from_slice(&part[..length]),
        }
    }
    let output = String::from_utf8_lossy(&output).into_owned();
    Ok(Ended { output, status: child.wait()?, hangs })
}

/// Kills the processes that hold the pipe of `reader`: `child` only if it is alone. Returns a report about them.
fn end_hung(reader: &PipeReader, child: &mut Child) -> Result<String> {
    let pipe = fs::read_link(format!("/proc/self/fd/{}", reader.as_raw_fd()))?;
    let mut report = String::from("killed, because nothing was written for too long:\n");
    let own = std::process::id();
    let mut holders: Vec<u32> =
        numbers("/proc").filter(|&id| id != own && holds(id, &pipe)).collect();
    if holders != [child.id()] {
        holders.retain(|&id| id != child.id());
    }
    for &id in &holders {
        report.push_str(&described(id));
    }
    for &id in &holders {
        // A process that has ended meanwhile is as good as killed.
        let _ = kill(Pid::from_raw(i32::try_from(id)?), Signal::SIGKILL);
    }
    Ok(report)
}

/// The numbers that a folder of procfs has as names: of all processes, or of the threads of one.
fn numbers(folder: &str) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn holds(id: u32, pipe: &Path) -> bool {
    let files = fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_link(file.path()).ok()).any(|target| target == pipe)
}

/// Returns a process's command, and the name, the state and the place in the kernel of each of its threads.
fn described(id: u32) -> String {
    let read = |path: String| fs::read_to_string(path).unwrap_or_default();
    let mut text = format!("{id} {}\n", read(format!("/proc/{id}/cmdline")).replace('\0', " "));
    for thread in numbers(&format!("/proc/{id}/task")) {
        let folder = format!("/proc/{id}/task/{thread}");
        let name = read(format!("{folder}/comm"));
        let status = read(format!("{folder}/status"));
        let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or_default();
        let place = read(format!("{folder}/wchan"));
        text.push_str(&format!("    {thread} {}: {} in {place}\n", name.trim(), state.trim()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Ended {
        run(Command::new("sh").args(["-c", script]), Duration::from_millis(300)).expect("it runs")
    }

    #[test]
    fn a_command_that_hangs_is_killed_and_reported() {
        let ended = shell("echo before; exec sleep 1000");
        assert_eq!(ended.output, "before\n");
        assert!(!ended.status.success());
        assert_eq!(ended.hangs.len(), 1);
        assert!(ended.hangs[0].contains("sleep 1000"), "{}", ended.hangs[0]);
    }

    #[test]
    fn a_command_goes_on_when_the_program_that_hung_is_killed() {
        let ended = shell("sleep 1000 & wait; echo after >&2");
        assert_eq!(ended.output, "after\n");
        assert!(ended.status.success());
        assert_eq!(ended.hangs.len(), 1);
    }
}
