//! `./x run`: boots the system, interactively or for one command.
pub mod net;
mod terminal;
mod window;

use anyhow::{Result, bail};
use harness::{
    accel, build, debian,
    disk::{self, RootOn},
    guest::{self, Follower, Outcome},
    packages,
    qemu::{self, Accel, Config, Disk, Machine, Medium},
    session::Streams,
    shell,
};
use std::{
    io,
    path::{Path, PathBuf},
    process::Stdio,
};
use terminal::Terminal;
use window::{Window, window_size};

/// Options of `run` and `debug`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Run `/bin/sh -c CMD` as the session; its streams and exit status are ours
    #[arg(long, value_name = "CMD")]
    pub exec: Option<String>,
    /// With `--exec`, on a system with two personalities: the session of the second; its stdout is our stderr
    #[arg(long, value_name = "CMD", requires = "exec")]
    pub exec_two: Option<String>,
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
    #[command(flatten)]
    pub network: net::NetOptions,
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

/// The least memory that a root of busybox boots in, in MiB.
const MEMORY_LEAST_MIB: u32 = 12;
/// Runs `./x run`.
///
/// # Errors
/// The reason why the run did not start.
pub fn run(options: &Options) -> Result<u8> {
    let cpus = qemu::check(options.cpus, qemu::Clock::of(options.icount))?;
    check(options)?;
    packages::ensure(packages::Need::Run)?;
    let config = config(options, cpus)?;
    let outcome = match &options.exec {
        Some(command) => {
            let two = || Streams {
                input: Box::new(io::empty()),
                output: Box::new(io::stderr()),
                ..Streams::ours()
            };
            let second =
                config.is_for_two.then(|| (options.exec_two.as_deref().unwrap_or("true"), two()));
            let running = guest::start_sessions(&config, (command, Streams::ours()), second)?;
            let follower = options.verbose.then(|| Follower::start(&config.log));
            let outcome = running.finish(&config.log, options.timeout)?;
            drop(follower);
            outcome
        }
        None => interactive(&config, options)?,
    };
    std::fs::write(shell::build_path("run.status")?, format!("{outcome}\n"))?;
    explain(&outcome, &config.log);
    Ok(outcome.status())
}

/// Returns the kind of the root that `options` name.
fn root_kind(options: &Options) -> net::RootKind {
    match options.root.as_deref() == Some(Path::new(debian::NAME)) {
        true => net::RootKind::Debian,
        false => net::RootKind::Other,
    }
}

/// Checks for faults that would otherwise appear only after minutes of building.
///
/// # Errors
/// Names the option that is wrong.
pub fn check(options: &Options) -> Result<()> {
    build::system(&options.system)?;
    if let Some(memory) = options.memory.filter(|memory| *memory < MEMORY_LEAST_MIB) {
        bail!("--memory {memory}: at least {MEMORY_LEAST_MIB} (MiB) are needed");
    }
    options.network.check(root_kind(options))?;
    debian::check(&options.packages)?;
    if let Some(root) = &options.root {
        let is_named = options.append.split_whitespace().any(|word| word.starts_with("root="));
        let on = if is_named { RootOn::NamedDevice } else { RootOn::Image };
        disk::check_root(root, on)?;
    }
    disks(options).map(drop)
}

/// Builds everything that `options` ask for and describes the machine.
///
/// # Errors
/// As for the builds.
pub fn config(options: &Options, cpus: u32) -> Result<Config> {
    let features =
        build::Features { statistics: options.lock_statistics, check: options.lock_checks };
    let kernel = build::image(&options.system, &features)?;
    let kind = root_kind(options);
    let is_debian = kind == net::RootKind::Debian;
    let root = disk::root_image(options.root.as_deref(), &options.packages)?;
    let log = shell::build_path("run.log")?;
    let mut append = String::from(guest::PARAMETERS);
    if is_debian {
        append = format!("{append} skerry.shell={}", debian::SHELL);
    }
    if !options.append.is_empty() {
        append = format!("{append} {}", options.append);
    }
    let mut config = Config {
        machine: options.machine,
        cpus,
        memory: options.memory.unwrap_or(if is_debian {
            debian::MEMORY_MIB
        } else {
            guest::MEMORY_MIB
        }),
        clock: qemu::Clock::of(options.icount),
        accel: Accel::Tcg,
        kernel,
        initrd: None,
        append,
        root,
        is_snapshot: options.snapshot,
        disks: disks(options)?,
        log,
        is_console_serial: options.serial_console,
        is_for_two: build::system(&options.system)?.isolated_personalities().count() > 1,
        has_iommu: true,
        extra: options.qemu_args.split_whitespace().map(str::to_owned).collect(),
    };
    let card = options.network.arguments(&config, kind);
    config.extra.splice(0..0, card);
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

fn interactive(config: &Config, options: &Options) -> Result<Outcome> {
    let mut config = config.clone();
    if let Some((rows, columns)) = window_size() {
        // These come before the user's parameters, which may end in arguments of a program.
        config.append = format!("skerry.rows={rows} skerry.columns={columns} {}", config.append);
    }
    let mut qemu = config.command();
    let window = Window::new()?;
    window.add_to(&mut qemu);
    if config.is_for_two {
        let log = qemu::escaped(&shell::build_path("run-two.log")?);
        qemu.args(["-chardev", &format!("file,id=console-two,path={log}")]);
        let device = format!("virtconsole,bus={}.0,chardev=console-two", qemu::SERIAL_TWO);
        qemu.args(["-device", &device]);
    }
    let terminal = Terminal::new()?;
    terminal.add_to(&mut qemu, config.is_console_serial.then_some(config.log.as_path()));
    qemu.args(["-display", "none"]).stdin(Stdio::null()).stdout(Stdio::null());
    let complaints = config.log.with_extension("qemu");
    qemu.stderr(std::fs::File::create(&complaints)?);
    let mut child = guest::start(&mut qemu, &config.log)?;
    let keys = window.start()?;
    let sitting = terminal.start(child.id(), keys);
    let follower = options.verbose.then(|| Follower::start(&config.log));
    let code = guest::wait(&mut child, options.timeout)?;
    drop(follower);
    if code.is_some_and(|code| guest::has_run(code, &complaints)) {
        sitting.finish();
    }
    Ok(code.map_or(Outcome::TimedOut, |code| guest::judge(code, None, &complaints, &config.log)))
}

/// Explains on stderr a run that did not end by itself.
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
