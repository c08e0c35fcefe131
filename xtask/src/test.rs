//! `./x test`: host tests, lock models, ABI tests on the host's Linux and then on Skerry, system tests.
pub mod compare;
mod levels;
pub mod noninterference;
pub mod nucleus_tests;
mod pending;
mod system_tests;
mod terminal_test;
mod test_attacks;
mod test_disk;
pub mod test_net;
mod test_user_net;

use crate::{campaign::arguments, crash};
use anyhow::{Result, bail};
use compare::{BUSYBOX, Comparison, DEBIAN, NETWORK, PYTHON, SAMPLE, SERVICES, TOOLS};
use harness::{
    build::{self, Features},
    disk,
    guest::{self, Outcome},
    packages,
    qemu::Config,
    shell,
    tally::{self, Tally, Target},
    watched,
};
use nix::sys::statvfs::statvfs;
use pending::Pending;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

/// Options of `test`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Run only tests whose name, or ABI tests whose program's name, holds this
    pub filter: Option<String>,
    /// Run only these suites
    #[arg(long, value_enum, value_delimiter = ',')]
    pub suite: Vec<Suite>,
    /// The suites that are long, too
    #[arg(long)]
    pub long: bool,
    /// On systems/NAME.toml alone, on each machine [default: `default`, and the ABI tests on `mls`, on one machine; with --long `default` on each machine, and the ABI and system tests on `monolith` on one]
    #[arg(long, value_name = "NAME")]
    pub system: Option<String>,
}

impl Options {
    /// Returns whether a suite runs: the requested ones, else all, with the long ones or a sample of them.
    fn includes(&self, suite: Suite) -> bool {
        match suite {
            _ if !self.suite.is_empty() => self.suite.contains(&suite),
            Suite::Sample => !self.long,
            _ => self.long || !LONG.contains(&suite),
        }
    }

    /// Returns one more target of the ABI tests: every one passes with multilevel security, too, at one level.
    fn labelled(&self) -> Option<Target> {
        let target = Target { system: "mls".to_owned(), is_short: true };
        self.system.is_none().then_some(target)
    }

    /// Returns the targets of the suites that boot the system.
    fn targets(&self) -> Vec<Target> {
        let target = |system: &str, is_short| Target { system: system.to_owned(), is_short };
        match &self.system {
            Some(system) => vec![target(system, false)],
            None if self.long => vec![target("default", false), target("monolith", true)],
            None => vec![target("default", false)],
        }
    }

    /// Returns the numbers of processors with which the ABI tests run on a target.
    fn processors(&self, target: &Target) -> &'static [u32] {
        match target.system.as_str() {
            _ if !target.is_short && (self.long || self.system.is_some()) => &[2, 1, 4],
            noninterference::SYSTEM if target.is_short => &[1],
            _ => &[2],
        }
    }
}

/// The suites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Suite {
    /// `cargo test` of every crate
    Host,
    /// Locks and messages under loom
    Models,
    /// The nucleus alone, booted with 1, 2 and 4 processors
    Nucleus,
    /// The ABI tests on the host's Linux
    Linux,
    /// The same binaries on Skerry with 2 processors, and with 1 on the system with labels; with 1, 2 and 4 with --long or --system
    Abi,
    /// Whole boots
    System,
    /// Busybox commands on Skerry and on Debian's cloud kernel
    Compare,
    /// Some of `debian`, `tools`, `python` and `network`, where root's rights and Debian's archive are there to make their root; not with --long
    Sample,
    /// Commands of Debian 12 on Skerry and on Debian's cloud kernel; with --long or where it is asked for
    Debian,
    /// Compilers, git, databases and editors likewise
    Tools,
    /// dbus, login, cron, at, fakeroot, PostgreSQL, fio, MariaDB, Node, Go, Java and cargo likewise
    Services,
    /// Modules of Python's own tests likewise
    Python,
    /// Programs of the network likewise: ip, ss, ssh, nginx, redis
    Network,
}

/// The suites that run only with --long, or on request.
const LONG: [Suite; 5] =
    [Suite::Debian, Suite::Tools, Suite::Services, Suite::Python, Suite::Network];

const SUITES: [Suite; 13] = [
    Suite::Host,
    Suite::Models,
    Suite::Nucleus,
    Suite::Linux,
    Suite::Abi,
    Suite::System,
    Suite::Compare,
    Suite::Sample,
    Suite::Debian,
    Suite::Tools,
    Suite::Services,
    Suite::Python,
    Suite::Network,
];

/// Runs the tests of systems with labels that are not described in files.
fn with_labels(tally: &mut Tally, options: &Options, filter: Option<&str>) -> Result<()> {
    let targets = options.labelled().into_iter().chain(options.targets());
    for target in targets.filter(|target| target.system == noninterference::SYSTEM) {
        noninterference::run(tally, &target.system, noninterference::TESTED, filter)?;
        crash::tested(tally, filter)?;
        terminal_test::run_labelled(tally, &target, filter)?;
    }
    Ok(())
}

/// Runs the suites.
///
/// # Errors
/// Fails if something does not build or start, because then nothing was tested.
pub fn run(options: &Options) -> Result<u8> {
    packages::ensure(packages::Need::Test)?;
    let mut tally = Tally::default();
    let filter = options.filter.as_deref();
    let targets = options.targets();
    for suite in SUITES.into_iter().filter(|suite| options.includes(*suite)) {
        let (before, start) = ((tally.passed, tally.failed), Instant::now());
        match suite {
            Suite::Host => host(&mut tally, filter)?,
            Suite::Models => models(&mut tally, filter)?,
            Suite::Nucleus => nucleus_tests::run_all(&mut tally, filter)?,
            Suite::Linux => abi_on_linux(&mut tally, filter)?,
            Suite::Abi => {
                for target in targets.iter().chain(&options.labelled()) {
                    abi_on_skerry(&mut tally, target, options.processors(target), filter)?;
                }
            }
            Suite::System => {
                for target in &targets {
                    system_tests::run(&mut tally, target, filter)?;
                }
                with_labels(&mut tally, options, filter)?;
            }
            Suite::Compare => {
                compared(&mut tally, &BUSYBOX, &targets, filter)?;
                for target in targets.iter().filter(|target| !target.is_short) {
                    arguments::sample(&mut tally, target, filter)?;
                }
            }
            Suite::Sample => match SAMPLE.what_lacks().filter(|_| options.suite.is_empty()) {
                Some(why) => println!("Sample: not run: {why}"),
                None => compared(&mut tally, &SAMPLE, &targets, filter)?,
            },
            Suite::Debian => compared(&mut tally, &DEBIAN, &targets, filter)?,
            Suite::Tools => compared(&mut tally, &TOOLS, &targets, filter)?,
            Suite::Services => {
                compared(&mut tally, &SERVICES, &targets, filter)?;
                for target in &targets {
                    terminal_test::run_debian(&mut tally, target, filter)?;
                }
            }
            Suite::Python => compared(&mut tally, &PYTHON, &targets, filter)?,
            Suite::Network => compared(&mut tally, &NETWORK, &targets, filter)?,
        }
        println!(
            "{suite:?}: {} passed, {} failed in {} s",
            tally.passed - before.0,
            tally.failed - before.1,
            start.elapsed().as_secs()
        );
    }
    sum_up(&tally, filter)
}

/// Prints the results and returns the status of the run. A filter that chose no test fails: most likely it is misspelt.
fn sum_up(tally: &Tally, filter: Option<&str>) -> Result<u8> {
    tally.print_failures();
    println!("{} passed, {} failed", tally.passed, tally.failed);
    match filter {
        Some(filter) if tally.passed + tally.failed == 0 => {
            bail!("no test of these suites and systems has `{filter}` in its name")
        }
        _ => Ok(u8::from(tally.failed > 0)),
    }
}

fn compared(
    tally: &mut Tally,
    comparison: &Comparison,
    targets: &[Target],
    filter: Option<&str>,
) -> Result<()> {
    for target in targets.iter().filter(|target| !target.is_short) {
        compare::run(tally, comparison, target, filter)?;
    }
    Ok(())
}

/// Longest time that a test command may write nothing: a build of a large crate on a busy machine takes some minutes.
const QUIET: Duration = Duration::from_secs(10 * 60);

/// Runs a test command to its end, under a progress line, and has `count` count its output. A program that hangs or dies is a
/// failure, too.
fn count_command(
    tally: &mut Tally,
    suite: &str,
    command: &mut Command,
    count: impl Fn(&mut Tally, &str),
) -> Result<()> {
    let ended = watched::run(command, QUIET)?;
    let failed = tally.failed;
    count(tally, &ended.output);
    for hang in ended.hangs {
        tally.count(&format!("{suite}: a program hung"), Err(hang));
    }
    if !ended.status.success() && tally.failed == failed {
        let why = format!("{}\nthe command ended with {}", ended.output, ended.status);
        tally.count(suite, Err(tally::tail(&why, tally::REPEATED_LINES)));
    }
    Ok(())
}

/// Runs cargo's tests `suite` under a progress line and counts them.
fn cargo_tests(tally: &mut Tally, suite: &str, what: &str, cargo: &mut Command) -> Result<()> {
    let bar = shell::progress(what);
    cargo.args(["--locked", "--no-fail-fast"]);
    count_command(tally, suite, cargo, |tally, output| tally.count_libtest(suite, output))?;
    bar.finish_and_clear();
    Ok(())
}

fn host(tally: &mut Tally, filter: Option<&str>) -> Result<()> {
    // All crates are built once, with the checks. The locks themselves are tested without them, too.
    let mut cargo = shell::cargo();
    cargo.args(["test", "--workspace", "--exclude", "abi", "--features", CHECKS]).args(filter);
    cargo.envs(memory_folder().map(|folder| ("TMPDIR", folder)));
    let what = "host tests with lock checks and statistics";
    cargo_tests(tally, "host with lock checks", what, &mut cargo)?;
    let mut cargo = shell::cargo();
    cargo.args(["test", "-p", "sync", "-p", "rt"]).args(filter);
    cargo_tests(tally, "host", "host tests of the locks without checks", &mut cargo)
}

/// Returns a folder in memory for the tests' images, if the machine has one with room: each e2fsck syncs its image, which takes
/// more time on a disk than all else that it does.
fn memory_folder() -> Option<&'static Path> {
    const ROOM_BYTES: u64 = 4 << 30;
    let folder = Path::new("/dev/shm");
    let room = statvfs(folder).ok()?;
    let bytes = room.blocks_available().saturating_mul(room.fragment_size());
    (bytes >= ROOM_BYTES).then_some(folder)
}

/// The features that build the checks and statistics of the lock kit in.
const CHECKS: &str = "sync/check,sync/statistics,rt/check,rt/statistics,vfs/check";

/// The crates with models for loom.
const MODELS: [&str; 6] = ["sync", "ipc", "handings", "shared-ring", "shown", "calls"];

fn models(tally: &mut Tally, filter: Option<&str>) -> Result<()> {
    let mut cargo = shell::cargo();
    cargo.args(["test", "--release", "--lib", "--tests"]);
    cargo.args(MODELS.iter().flat_map(|name| ["-p", name])).args(filter);
    cargo.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", shell::root().join("target/loom"));
    cargo_tests(tally, "models", "models of locks and messages", &mut cargo)
}

fn suite_name(binary: &Path) -> String {
    let stem =
        binary.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    stem.rsplit_once('-').map_or(stem.clone(), |(name, _)| name.to_owned())
}

fn abi_on_linux(tally: &mut Tally, filter: Option<&str>) -> Result<()> {
    let binaries = abi_tests(filter)?;
    let bar = shell::progress("ABI tests on Linux");
    for binary in binaries {
        let mut command = Command::new(&binary);
        let name = suite_name(&binary);
        command.arg("--test-threads=1").args(filter_inside(&name, filter));
        let suite = format!("linux {name}");
        count_command(tally, &suite, &mut command, |tally, output| {
            tally.count_program(&suite, output, Ok(()));
        })?;
    }
    bar.finish_and_clear();
    Ok(())
}

/// Returns the filter of the tests in the program `name`: none if the name itself holds it.
fn filter_inside<'f>(name: &str, filter: Option<&'f str>) -> Option<&'f str> {
    filter.filter(|filter| !name.contains(filter))
}

/// Returns the programs of ABI tests that contain a test for which `filter` allows a run; only these need a boot.
fn abi_tests(filter: Option<&str>) -> Result<Vec<PathBuf>> {
    let mut binaries = build::abi_tests()?;
    if let Some(filter) = filter {
        let lists_one = |binary: &PathBuf| {
            if filter_inside(&suite_name(binary), Some(filter)).is_none() {
                return true;
            }
            let listed = Command::new(binary).args(["--list", filter]).output();
            listed.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(": test"))
        };
        binaries.retain(lists_one);
    }
    Ok(binaries)
}

/// Makes a root with the ABI tests that `filter` selects in /abi.
fn abi_image(filter: Option<&str>) -> Result<(PathBuf, Vec<String>)> {
    let tree = shell::build_path("abi-root")?;
    disk::busybox_tree(&tree)?;
    fs::create_dir(tree.join("abi"))?;
    let mut names = Vec::new();
    for binary in abi_tests(filter)? {
        let name = suite_name(&binary);
        fs::copy(&binary, tree.join("abi").join(&name))?;
        names.push(name);
    }
    let image = shell::build_path("abi.ext4")?;
    disk::pack(&tree, &image, &[])?;
    Ok((image, names))
}

fn abi_on_skerry(
    tally: &mut Tally,
    target: &Target,
    processors: &[u32],
    filter: Option<&str>,
) -> Result<()> {
    let system = &target.system;
    // On the system with a monitor the kernel looks for forbidden flows, too.
    let is_instrumented = system == noninterference::SYSTEM;
    let kernel = build::image(system, &Features::for_tests(is_instrumented))?;
    let (image, names) = abi_image(filter)?;
    let pending = Pending::read()?;
    println!("x: {} tests that Skerry does not pass yet are left out", pending.count());
    let boots: Vec<(u32, &String)> =
        processors.iter().flat_map(|&cpus| names.iter().map(move |name| (cpus, name))).collect();
    let bar = shell::progress(&format!("ABI tests on Skerry ({system})"));
    let boot = |_, &(cpus, name): &(u32, &String)| {
        bar.set_message(format!("ABI tests ({name}) on Skerry ({system}, processors: {cpus})"));
        let log = format!("abi-{name}-{cpus}.log");
        let inside = filter_inside(name, filter).unwrap_or_default();
        let arguments = format!("{inside}{}", pending.arguments(name));
        abi_boot(&Config { cpus, ..guest::machine(&kernel, &image, &log)? }, name, &arguments)
    };
    let outputs = shell::side_by_side(&boots, shell::processors(), boot);
    bar.finish_and_clear();
    for ((cpus, name), output) in boots.iter().zip(outputs) {
        let (output, ended) = output?;
        tally.count_program(&format!("{system}-{cpus} {name}"), &output, ended);
    }
    Ok(())
}

/// Boots with one of the ABI tests' programs as the session. Returns its output, and why it did not end.
fn abi_boot(
    config: &Config,
    name: &str,
    arguments: &str,
) -> Result<(String, std::result::Result<(), String>)> {
    // Both streams share a pipe, so that the message of a test's process comes where the test ran.
    let command = format!("cd /tmp; /abi/{name} --test-threads=1 {arguments} 2>&1");
    let (outcome, output, error) = guest::run_captured(config, &command, "", 240)?;
    let text = format!("{}\n{}", String::from_utf8_lossy(&output), String::from_utf8_lossy(&error));
    let ended = match outcome {
        Outcome::Session(_) => Ok(()),
        outcome => Err(format!("{outcome}; log in {}", config.log.display())),
    };
    Ok((text, ended))
}
