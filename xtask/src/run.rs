//! `./x run`: boots the system, interactively or for one command.
use crate::{
    accel, build, debian, disk, packages,
    qemu::{self, Accel, Config, Disk, Machine, Medium},
    session::{Ended, Listening, Session, Streams},
    shell,
    terminal::Terminal,
};
use anyhow::{Context, Result, bail};
use std::{
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Options of `run` and `debug`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Run `/bin/sh -c CMD` as the session; its streams and exit status are ours
    #[arg(long, value_name = "CMD")]
    pub exec: Option<String>,
    /// The system description, systems/NAME.toml
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub system: String,
    /// Root disk: an ext4 image, used as it is, a folder, packed into one, or `debian`: Debian 12, made once
    #[arg(long, value_name = "IMAGE|DIR|debian")]
    pub root: Option<PathBuf>,
    /// With `--root debian`: further Debian packages
    #[arg(long, value_name = "A,B,C", value_delimiter = ',', requires = "root")]
    pub packages: Vec<String>,
    /// A further disk: a raw image (/dev/vdb, /dev/vdc ... in the order given)
    #[arg(long, value_name = "IMAGE")]
    pub disk: Vec<PathBuf>,
    /// Keep nothing that the run writes to the disks
    #[arg(long)]
    pub snapshot: bool,
    /// Processors [default: 2]
    #[arg(long, value_name = "N")]
    pub cpus: Option<u32>,
    /// Memory in MiB [default: 512, with `--root debian` 1024]
    #[arg(long, value_name = "MIB")]
    pub memory: Option<u32>,
    /// One nanosecond an instruction, repeatable; one processor
    #[arg(long)]
    pub icount: bool,
    /// Further kernel parameters
    #[arg(long, value_name = "PARAMETERS", default_value = "", allow_hyphen_values = true)]
    pub append: String,
    /// Machine model
    #[arg(long, value_enum, default_value_t)]
    pub machine: Machine,
    /// Have the console on the first serial port, beside the kernel's log, and no other
    #[arg(long, conflicts_with = "exec")]
    pub serial_console: bool,
    /// Further arguments to QEMU, separated by blanks
    #[arg(long, value_name = "ARGUMENTS", default_value = "", allow_hyphen_values = true)]
    pub qemu_args: String,
    /// Accelerator [default: KVM where it works, else TCG]
    #[arg(long, value_enum)]
    pub accel: Option<Accel>,
    /// End the run after so many seconds, with status 124
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<u64>,
    /// Build with lock statistics (/proc/skerry/locks)
    #[arg(long)]
    pub lock_statistics: bool,
    /// Build with lock checks
    #[arg(long)]
    pub lock_checks: bool,
    /// The kernel's log on stderr too
    #[arg(short, long)]
    pub verbose: bool,
}

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
/// The least memory that a root of busybox boots in, in MiB.
const MEMORY_LEAST_MIB: u32 = 12;
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

/// `./x run`.
///
/// # Errors
/// The reason why the run did not start.
pub fn run(options: &Options) -> Result<u8> {
    let cpus = qemu::check(options.cpus, options.icount)?;
    check(options)?;
    packages::ensure(packages::Need::Run)?;
    let config = config(options, cpus)?;
    let outcome = match &options.exec {
        Some(command) => {
            execute(&config, command, Streams::ours(), options.timeout, options.verbose)?
        }
        None => interactive(&config, options)?,
    };
    std::fs::write(shell::build_path("run.status")?, format!("{outcome}\n"))?;
    explain(&outcome, &config.log);
    Ok(outcome.status())
}

/// Looks at what would be in the way after minutes of building.
///
/// # Errors
/// With the option that is wrong.
pub fn check(options: &Options) -> Result<()> {
    build::system(&options.system)?;
    if let Some(memory) = options.memory.filter(|memory| *memory < MEMORY_LEAST_MIB) {
        bail!("--memory {memory}: at least {MEMORY_LEAST_MIB} (MiB) are needed");
    }
    debian::check(&options.packages)?;
    if let Some(root) = &options.root {
        let is_named = options.append.split_whitespace().any(|word| word.starts_with("root="));
        disk::check_root(root, is_named)?;
    }
    disks(options).map(drop)
}

/// Builds what `options` ask for and describes the machine.
///
/// # Errors
/// As the builds.
pub fn config(options: &Options, cpus: u32) -> Result<Config> {
    let features =
        build::Features { statistics: options.lock_statistics, check: options.lock_checks };
    let kernel = build::image(&options.system, &features)?;
    let is_debian = options.root.as_deref() == Some(Path::new(debian::NAME));
    let root = disk::root_image(options.root.as_deref(), &options.packages)?;
    let log = shell::build_path("run.log")?;
    let mut append = String::from(PARAMETERS);
    if is_debian {
        append = format!("{append} skerry.shell={}", debian::SHELL);
    }
    if !options.append.is_empty() {
        append = format!("{append} {}", options.append);
    }
    let mut config = Config {
        machine: options.machine,
        cpus,
        memory: options.memory.unwrap_or(if is_debian { debian::MEMORY_MIB } else { MEMORY_MIB }),
        is_counting_instructions: options.icount,
        accel: Accel::Tcg,
        kernel,
        initrd: None,
        append,
        root,
        is_snapshot: options.snapshot,
        disks: disks(options)?,
        log,
        is_console_serial: options.serial_console,
        has_iommu: true,
        extra: options.qemu_args.split_whitespace().map(str::to_owned).collect(),
    };
    config.accel = accel::choose(options.accel, &config)?;
    Ok(config)
}

fn disks(options: &Options) -> Result<Vec<Disk>> {
    let medium = if options.snapshot { Medium::Snapshot } else { Medium::Kept };
    let disk = |image: &PathBuf| match image.is_file() {
        true => Ok(Disk { image: image.clone(), medium: medium.clone() }),
        false => bail!("--disk {}: no such image", image.display()),
    };
    options.disk.iter().map(disk).collect()
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
    is_verbose: bool,
) -> Result<Outcome> {
    let Running { mut child, session, complaints } = start_session(config, command, streams)?;
    let follower = is_verbose.then(|| Follower::start(&config.log));
    let code = wait(&mut child, limit_seconds)?;
    drop(follower);
    let Some(code) = code else { return Ok(Outcome::TimedOut) };
    let ended = if has_run(code, &complaints) { session.finish() } else { None };
    Ok(judge(code, ended, &complaints, &config.log))
}

/// A session under way in a QEMU of its own.
pub struct Running {
    /// QEMU.
    pub child: Child,
    /// The session it talks to.
    pub session: Session,
    /// The file of QEMU's stderr.
    pub complaints: PathBuf,
}

/// Starts QEMU with `command` as its session.
///
/// # Errors
/// The reason why QEMU did not start.
pub fn start_session(config: &Config, command: &str, streams: Streams) -> Result<Running> {
    let listening = Listening::new()?;
    let mut config = config.clone();
    // Before what the user appends, which may end in arguments of a program.
    config.append = format!("skerry.exec {}", config.append);
    let mut qemu = config.command();
    qemu.args(["-display", "none", "-monitor", "none"]);
    listening.add_to(&mut qemu);
    let complaints = config.log.with_extension("qemu");
    qemu.stdin(Stdio::null()).stdout(Stdio::null()).stderr(std::fs::File::create(&complaints)?);
    let child = start(&mut qemu, &config.log)?;
    Ok(Running { child, session: listening.start(command, streams), complaints })
}

fn interactive(config: &Config, options: &Options) -> Result<Outcome> {
    let mut config = config.clone();
    if let Some((rows, columns)) = window_size() {
        // Before what the user appends, which may end in arguments of a program.
        config.append = format!("skerry.rows={rows} skerry.columns={columns} {}", config.append);
    }
    let mut qemu = config.command();
    let window = crate::window::Window::new()?;
    window.add_to(&mut qemu);
    let terminal = Terminal::new()?;
    terminal.add_to(&mut qemu, config.is_console_serial.then_some(config.log.as_path()));
    qemu.args(["-display", "none"]).stdin(Stdio::null()).stdout(Stdio::null());
    let complaints = config.log.with_extension("qemu");
    qemu.stderr(std::fs::File::create(&complaints)?);
    let mut child = start(&mut qemu, &config.log)?;
    let keys = window.start()?;
    let sitting = terminal.start(child.id(), keys);
    let follower = options.verbose.then(|| Follower::start(&config.log));
    let code = wait(&mut child, options.timeout)?;
    drop(follower);
    if code.is_some_and(|code| has_run(code, &complaints)) {
        sitting.finish();
    }
    Ok(code.map_or(Outcome::TimedOut, |code| judge(code, None, &complaints, &config.log)))
}

fn start(qemu: &mut Command, log: &Path) -> Result<Child> {
    let _ = std::fs::remove_file(log);
    qemu.spawn().context("starting qemu-system-x86_64")
}

/// QEMU's exit code, or `None` after the time limit.
fn wait(child: &mut Child, limit_seconds: Option<u64>) -> Result<Option<i32>> {
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

/// Whether QEMU came up: where it did not it never connected, and who serves a connection waits for ever.
/// Its own failures end with 1 too, as a guest's end does, but with a complaint.
fn has_run(code: i32, complaints: &Path) -> bool {
    match code {
        QEMU_OFF => !complaint(complaints).contains("qemu-system"),
        QEMU_PANIC | 0 => true,
        _ => false,
    }
}

/// Words in the messages of QEMU's IOMMU about each access that it refuses a device: the guest's affair.
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

fn judge(code: i32, ended: Option<Ended>, complaints: &Path, log: &Path) -> Outcome {
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

/// Says on stderr what the user needs to know of a run that did not end by itself.
fn explain(outcome: &Outcome, log: &Path) {
    match outcome {
        Outcome::Panicked => {
            let text =
                String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
            let start = text
                .find("panic")
                .map_or(0, |at| text[..at].rfind('\n').map_or(0, |line| line + 1));
            eprintln!("{}", &text[start..]);
            eprintln!("x: the kernel panicked; the whole log is in {}", log.display());
        }
        Outcome::TimedOut => eprintln!("x: timed out; the kernel's log is in {}", log.display()),
        Outcome::QemuFailed(why) => eprintln!("x: QEMU failed: {why}"),
        Outcome::NotStarted(why) => eprintln!("x: the system could not start: {why}"),
        Outcome::Session(_) | Outcome::PoweredOff => {}
    }
}

/// Rows and columns of our terminal.
pub fn window_size() -> Option<(u16, u16)> {
    if !io::stdin().is_terminal() {
        return None;
    }
    let output = Command::new("stty").arg("size").stdin(Stdio::inherit()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (rows, columns) = text.trim().split_once(' ')?;
    Some((rows.parse().ok()?, columns.parse().ok()?))
}

/// Copies the growing log to stderr until dropped.
struct Follower {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Follower {
    fn start(log: &Path) -> Follower {
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
