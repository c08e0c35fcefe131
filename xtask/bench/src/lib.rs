//! `./x bench`: the suites. Those that compare sides by the probes of `bench/probes` are run by `compared`; the experiments
//! have a module each.
#![forbid(unsafe_code)]

mod axis;
mod boot;
mod causes;
mod chart;
mod compared;
mod curves;
mod draw;
mod executed;
mod fit;
mod history;
mod html;
pub mod ipc;
mod isolated;
mod isolation;
mod locks;
mod measure;
pub mod minix;
mod page;
mod papers;
mod probes;
mod results;
mod rows;
mod side;
mod split;
mod table;
pub mod test;

use anyhow::{Context, Result, bail};
use harness::{
    build::Features,
    packages,
    profile::{self, calls::Span, calls::Wanted},
};
use results::Results;
use side::{LINUX, Plan, Side, Unit};
use std::path::Path;

/// The suites that compare sides.
const COMPARED: [Suite; 5] = [Suite::Ksos, Suite::Micro, Suite::Disk, Suite::Mach, Suite::Boot];

/// Options of `bench`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The suites [default: ksos, micro, disk, mach, boot, isolation]
    #[arg(value_name = "SUITE")]
    suites: Vec<Suite>,
    /// The unit of measurement
    #[arg(long, value_enum, default_value_t = Measure::Both)]
    measure: Measure,
    /// Boots by the clock, of each side
    #[arg(long, value_name = "N", default_value_t = 3)]
    runs: u32,
    /// Processors by the clock; instructions are counted on one [default: 1]
    #[arg(long, value_name = "N")]
    cpus: Option<u32>,
    /// The side that is compared with: `linux`, a system, or the results of an earlier bench
    #[arg(long, value_name = "linux|SYSTEM|FILE", default_value = LINUX)]
    against: String,
    /// The systems that are compared: systems/NAME.toml [default: default and monolith]
    #[arg(long, value_name = "NAME")]
    system: Vec<String>,
    /// Only rows whose name holds this
    #[arg(long, value_name = "NAME")]
    row: Option<String>,
    /// Within five minutes: a boot of each side, with the disk by the clock alone and without the experiment of isolation
    #[arg(long)]
    quick: bool,
    /// Write docs/performance.md
    #[arg(long)]
    record: bool,
    /// Do not compare, but say where the instructions of the rows whose name holds this go, on the first system
    #[arg(long, value_name = "ROW", conflicts_with_all = ["row", "quick", "record"])]
    profile: Option<String>,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    /// Nanoseconds
    Clock,
    /// Executed instructions
    Instructions,
    Both,
}

impl Measure {
    fn units(self) -> &'static [Unit] {
        match self {
            Measure::Clock => &[Unit::Clock],
            Measure::Instructions => &[Unit::Instructions],
            Measure::Both => &[Unit::Instructions, Unit::Clock],
        }
    }
}

/// Number of processors on which tasks are shown to run at once.
const MACH_CPUS: u32 = 2;

/// The suites of `bench`.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Suite {
    /// The five programs of the KSOS-32 paper
    Ksos,
    /// One call, fault, wait or file at a time
    Micro,
    /// Files on the root disk, cold and cached, and trees of files
    Disk,
    /// Up to 20 tasks at once, on 1 and 2 processors, as the Mach/4.3BSD paper's figures
    Mach,
    /// From QEMU's start to the prompt, memory used there, and the kernel's size
    Boot,
    /// Costs of messages: in instructions, how they split and grow, and by the clock
    Ipc,
    /// Costs of isolated drivers: an experiment; over all the above, `--against monolith --system default`
    Isolation,
    /// Costs of accesses of ports by message, kernel call, permission map and trap, beside a paper's figures
    Minix,
}

impl Suite {
    fn name(self) -> &'static str {
        match self {
            Suite::Ksos => "ksos",
            Suite::Micro => "micro",
            Suite::Disk => "disk",
            Suite::Mach => "mach",
            Suite::Boot => "boot",
            Suite::Ipc => "ipc",
            Suite::Isolation => "isolation",
            Suite::Minix => "minix",
        }
    }

    /// Returns the suites of `bench/probes` that it runs; none if it is an experiment of its own.
    fn probes(self) -> &'static [&'static str] {
        match self {
            Suite::Ksos => &["ksos"],
            Suite::Micro => &[
                "calls", "waits", "threads", "memory", "process", "files", "objects", "paths",
                "kinds",
            ],
            Suite::Disk => &["disk"],
            Suite::Mach => &["mach"],
            Suite::Boot | Suite::Ipc | Suite::Isolation | Suite::Minix => &[],
        }
    }

    /// Returns whether the suite compares sides.
    fn is_compared(self) -> bool {
        COMPARED.contains(&self)
    }

    /// Returns the numbers of processors for which it is measured; none for a unit in which that makes no difference.
    fn processors(self, asked: Option<u32>, unit: Unit) -> Vec<u32> {
        match (self, unit, asked) {
            (_, Unit::Kib, _) | (Suite::Mach | Suite::Boot, Unit::Instructions, _) => Vec::new(),
            (Suite::Mach, Unit::Clock, None) => vec![1, MACH_CPUS],
            (_, Unit::Clock, asked) => vec![asked.unwrap_or(1)],
            (_, Unit::Instructions, _) => vec![1],
        }
    }

    fn experiment(self) -> Result<u8> {
        match self {
            Suite::Ipc => ipc::run(),
            Suite::Isolation => isolation::run(),
            Suite::Minix => minix::run(),
            _ => {
                bail!("{} compares sides", self.name())
            }
        }
    }
}

impl Options {
    /// Returns the names of the compared systems.
    fn systems(&self) -> Vec<String> {
        match self.system.is_empty() {
            true => vec!["default".to_owned(), "monolith".to_owned()],
            false => self.system.clone(),
        }
    }

    /// Returns the systems that only the curves of `mach` show: the one that the paper compares with, unless the user asked
    /// for others.
    fn curves_only(&self, suites: &[Suite]) -> Vec<String> {
        let is_asked = suites.contains(&Suite::Mach) && !self.is_brief();
        let is_plain = self.system.is_empty() && self.against == LINUX;
        if is_asked && is_plain { vec!["master".to_owned()] } else { Vec::new() }
    }

    /// Results to compare with, where `--against` names a file.
    fn earlier(&self) -> Result<Option<Results>> {
        let path = Path::new(&self.against);
        if !path.is_file() {
            return Ok(None);
        }
        let text = std::fs::read(path)?;
        let found = serde_json::from_slice(&text);
        Ok(Some(found.with_context(|| format!("{}: no results of a bench", path.display()))?))
    }

    /// Returns whether a suite is skipped in a unit: in a run of all suites, for which there are five minutes, the disk is
    /// measured only by the clock.
    fn skips(&self, suite: Suite, unit: Unit) -> bool {
        self.is_brief() && (suite, unit) == (Suite::Disk, Unit::Instructions)
    }

    /// Returns whether this is a quick run of all suites.
    fn is_brief(&self) -> bool {
        self.quick && self.suites.is_empty() && self.measure == Measure::Both
    }

    /// Returns the number of boots of each side.
    fn boots(&self, unit: Unit) -> u32 {
        match unit {
            _ if self.quick => 1,
            Unit::Clock => self.runs.max(1),
            // These measurements repeat to a thousandth.
            Unit::Instructions | Unit::Kib => 1,
        }
    }
}

/// Runs suites, and prints and draws their tables.
///
/// # Errors
/// Fails if something does not build, start or end as it should.
pub fn run(options: &Options) -> Result<u8> {
    if let Some(row) = &options.profile {
        return profiled(options, row);
    }
    let suites = match options.suites.as_slice() {
        [] if options.is_brief() => COMPARED.to_vec(),
        [] => COMPARED.into_iter().chain([Suite::Isolation]).collect(),
        suites => suites.to_vec(),
    };
    let (compared, experiments): (Vec<Suite>, Vec<Suite>) =
        suites.into_iter().partition(|suite| suite.is_compared());
    let mut status = 0;
    if !compared.is_empty() {
        status = compared::run(options, &compared)?;
    }
    for suite in experiments {
        status = status.max(suite.experiment()?);
    }
    Ok(status)
}

/// Rows of the table of functions.
const FUNCTIONS: usize = 40;

/// Follows the calls of a row's measurements, and of no others.
fn profiled(options: &Options, row: &str) -> Result<u8> {
    packages::ensure(packages::Need::Test)?;
    let systems = options.systems();
    let system = systems.first().context("a system")?;
    let suites: Vec<&str> = match options.suites.as_slice() {
        [] => COMPARED.iter().flat_map(|suite| suite.probes()).copied().collect(),
        asked => asked.iter().flat_map(|suite| suite.probes()).copied().collect(),
    };
    let image = probes::image()?;
    probes::check_row(row, &suites)?;
    let side = Side::new(system, &image, &Features::default())?;
    let (unit, cpus, filter) = (Unit::Instructions, 1, Some(row));
    let plan = Plan { unit, cpus, rounds: 1, filter, suites: &suites };
    let mut config = side.machine(cpus)?;
    config.append = format!("{} {}", config.append, probes::parameter(&plan));
    let wanted =
        Wanted { span: Span::Marks, trace: Vec::new(), events: 100_000, limit_seconds: None };
    let title = format!("the measurements of `{row}` on {system}");
    let command = format!("/bin/sh {}", probes::RUNNER);
    let (outcome, _) = profile::report(&config, &command, &title, &wanted, FUNCTIONS)?;
    Ok(outcome.status())
}
