//! A guest: a machine of QEMU with a kernel, and how a run of it ends.
use crate::{
    qemu::{Accel, Clock, Config, Machine},
    session::{Captured, Ended, Listening, Session, Streams},
    shell,
};
use anyhow::{Context, Result};
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The session ended.
    Session(Ended),
    /// Powered off without a session.
    PoweredOff,
    /// The kernel found nothing to run, for the reason that its log ends with.
    NotStarted(String),
    /// The kernel panicked.
    Panicked,
    /// `--timeout` passed.
    TimedOut,
    /// QEMU itself failed.
    QemuFailed(String),
}

/// Memory where nothing was said, in MiB.
pub const MEMORY_MIB: u32 = 512;
/// Kernel parameters of every run.
pub const PARAMETERS: &str = "skerry.exit_port=0xf4";
/// Exit status of a run whose kernel panicked.
pub const PANICKED: u8 = 170;
const TIMED_OUT: u8 = 124;
/// The status of QEMU when the guest wrote 0 (power off) or 0x55 (panic) to the exit device.
const QEMU_OFF: i32 = 1;
const QEMU_PANIC: i32 = 0xab;

impl Outcome {
    /// Our exit status.
    pub fn status(&self) -> u8 {
        match self {
            Outcome::Session(ended) => ended.status(),
            Outcome::PoweredOff => 0,
            Outcome::Panicked => PANICKED,
            Outcome::TimedOut => TIMED_OUT,
            Outcome::NotStarted(_) | Outcome::QemuFailed(_) => 1,
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outcome::Session(ended) => ended.fmt(f),
            Outcome::PoweredOff => f.write_str("powered off"),
            Outcome::NotStarted(_) => f.write_str("not started"),
            Outcome::Panicked => f.write_str("panicked"),
            Outcome::TimedOut => f.write_str("timed out"),
            Outcome::QemuFailed(why) => write!(f, "QEMU failed: {why}"),
        }
    }
}

/// The machine of the tests, before a test changes it; TCG, so that the same tests run everywhere.
///
/// # Errors
/// Fails if `build/` cannot be made.
pub fn machine(kernel: &Path, image: &Path, log: &str) -> Result<Config> {
    Ok(Config {
        machine: Machine::Q35,
        cpus: 2,
        memory: 512,
        clock: Clock::Host,
        accel: Accel::Tcg,
        kernel: kernel.to_owned(),
        initrd: None,
        append: PARAMETERS.to_owned(),
        root: image.to_owned(),
        is_snapshot: true,
        disks: Vec::new(),
        log: shell::build_path(log)?,
        is_console_serial: false,
        is_for_two: false,
        has_iommu: true,
        extra: Vec::new(),
    })
}

/// Boots `config` and runs `command` as its session.
///
/// # Errors
/// The reason why QEMU did not start.
pub fn execute(
    config: &Config,
    command: &str,
    streams: Streams,
    limit_seconds: Option<u64>,
) -> Result<Outcome> {
    start_session(config, command, streams)?.finish(&config.log, limit_seconds)
}

/// A session under way in a QEMU of its own.
pub struct Running {
    /// QEMU.
    pub child: Child,
    /// The session it talks to.
    pub session: Session,
    /// The session of a second personality.
    pub second: Option<Session>,
    /// The file of QEMU's stderr.
    pub complaints: PathBuf,
}

impl Running {
    /// Waits for the end of the session, or for the time limit.
    ///
    /// # Errors
    /// Fails if QEMU cannot be waited for or killed.
    pub fn finish(mut self, log: &Path, limit_seconds: Option<u64>) -> Result<Outcome> {
        let code = wait(&mut self.child, limit_seconds)?;
        let Some(code) = code else { return Ok(Outcome::TimedOut) };
        let has_run = has_run(code, &self.complaints);
        if let Some(second) = self.second.filter(|_| has_run) {
            second.finish();
        }
        let ended = if has_run { self.session.finish() } else { None };
        Ok(judge(code, ended, &self.complaints, log))
    }
}

/// Starts QEMU with `command` as its session.
///
/// # Errors
/// The reason why QEMU did not start.
pub fn start_session(config: &Config, command: &str, streams: Streams) -> Result<Running> {
    start_sessions(config, (command, streams), None)
}

/// Starts QEMU with the commands and streams of its session and of a second personality's.
///
/// # Errors
/// The reason why QEMU did not start.
pub fn start_sessions(
    config: &Config,
    (command, streams): (&str, Streams),
    second: Option<(&str, Streams)>,
) -> Result<Running> {
    let listening = Listening::new()?;
    let listening_two = second.is_some().then(Listening::second).transpose()?;
    let mut config = config.clone();
    // Before what the user appends, which may end in arguments of a program.
    config.append = format!("skerry.exec {}", config.append);
    let mut qemu = config.command();
    qemu.args(["-display", "none", "-monitor", "none"]);
    listening.add_to(&mut qemu);
    listening_two.iter().for_each(|listening| listening.add_to(&mut qemu));
    let complaints = config.log.with_extension("qemu");
    qemu.stdin(Stdio::null()).stdout(Stdio::null()).stderr(std::fs::File::create(&complaints)?);
    let child = start(&mut qemu, &config.log)?;
    let session = listening.start(command, streams);
    let second =
        second.zip(listening_two).map(|((command, streams), at)| at.start(command, streams));
    Ok(Running { child, session, second, complaints })
}

/// Runs a command on a machine with `input` as its stdin and its output kept: (how it ended, stdout, stderr).
///
/// # Errors
/// The reason why QEMU did not start.
pub fn run_captured(
    config: &Config,
    command: &str,
    input: &str,
    limit_seconds: u64,
) -> Result<(Outcome, Vec<u8>, Vec<u8>)> {
    let (output, error) = (Captured::default(), Captured::default());
    let streams = Streams {
        input: Box::new(io::Cursor::new(input.as_bytes().to_vec())),
        output: Box::new(output.clone()),
        error: Box::new(error.clone()),
    };
    let outcome = execute(config, command, streams, Some(limit_seconds))?;
    Ok((outcome, output.take(), error.take()))
}

/// Starts QEMU with a new log.
///
/// # Errors
/// Fails if it does not start.
pub fn start(qemu: &mut Command, log: &Path) -> Result<Child> {
    let _ = std::fs::remove_file(log);
    qemu.spawn().context("starting qemu-system-x86_64")
}

/// Waits for QEMU. Returns its exit code, or `None` after the time limit.
///
/// # Errors
/// Fails if it cannot be waited for or killed.
pub fn wait(child: &mut Child, limit_seconds: Option<u64>) -> Result<Option<i32>> {
    let Some(limit) = limit_seconds else {
        return Ok(Some(child.wait()?.code().unwrap_or(-1)));
    };
    let end = Instant::now() + Duration::from_secs(limit);
    while Instant::now() < end {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.code().unwrap_or(-1)));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

/// Whether QEMU came up. If it did not, it never connected, and the thread that serves the connection waits for ever.
/// Its own failures end with 1 too, as a guest's end does, but with a complaint.
pub fn has_run(code: i32, complaints: &Path) -> bool {
    match code {
        QEMU_OFF => !complaint(complaints).contains("qemu-system"),
        QEMU_PANIC | 0 => true,
        _ => false,
    }
}

/// Words in the messages of QEMU's IOMMU about each access that it refuses a device; they are about the
/// guest.
const REFUSED_ACCESS: [&str; 2] = ["vtd_", "New fault is not recorded"];

/// Returns QEMU's messages without its warnings and those about refused accesses of devices.
fn complaint(complaints: &Path) -> String {
    let said = std::fs::read_to_string(complaints).unwrap_or_default();
    let is_harmless = |line: &&str| {
        line.contains("warning: ") || REFUSED_ACCESS.iter().any(|words| line.contains(words))
    };
    let lines: Vec<&str> = said.lines().filter(|line| !is_harmless(line)).collect();
    lines.join("\n")
}

/// The outcome of a run whose QEMU ended with `code` and whose session, if any, ended so.
pub fn judge(code: i32, ended: Option<Ended>, complaints: &Path, log: &Path) -> Outcome {
    match (code, ended) {
        (QEMU_PANIC, _) => reason(log).map_or(Outcome::Panicked, Outcome::NotStarted),
        (_, Some(ended)) => Outcome::Session(ended),
        (0 | QEMU_OFF, None) if has_run(code, complaints) => Outcome::PoweredOff,
        (QEMU_OFF, None) => Outcome::QemuFailed(complaint(complaints)),
        (code, None) => Outcome::QemuFailed(format!("status {code} {}", complaint(complaints))),
    }
}

/// The last line in the log of a kernel that found nothing to run.
fn reason(log: &Path) -> Option<String> {
    let text = String::from_utf8_lossy(&std::fs::read(log).ok()?).into_owned();
    let (_, reason) = text.lines().last()?.split_once(" cannot start: ")?;
    Some(reason.to_owned())
}

/// Copies the growing log to stderr until dropped.
pub struct Follower {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Follower {
    /// Starts copying.
    pub fn start(log: &Path) -> Follower {
        let stop = Arc::new(AtomicBool::new(false));
        let (log, stopped) = (log.to_owned(), stop.clone());
        let thread = std::thread::spawn(move || {
            let mut shown = 0;
            loop {
                let is_last = stopped.load(Ordering::Acquire);
                let text = std::fs::read(&log).unwrap_or_default();
                if let Some(new) = text.get(shown..) {
                    let _ = io::stderr().write_all(new);
                    shown = text.len();
                }
                if is_last {
                    break;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        Follower { stop, thread: Some(thread) }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
