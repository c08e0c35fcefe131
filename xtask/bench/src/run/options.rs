//! The options of `bench`, and the plan that follows from them.
use crate::{
    measure::side::LINUX,
    results::comparison::Results,
    suites::{
        covert,
        suite::{COMPARED, Suite},
    },
    values::unit::Unit,
};
use anyhow::{Context, Result};
use std::path::Path;

/// Options of `bench`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The suites [default: ksos, micro, disk, net, mach, boot, isolation]
    #[arg(value_name = "SUITE")]
    pub(crate) suites: Vec<Suite>,
    /// The unit of measurement
    #[arg(long, value_enum, default_value_t = Measure::Both)]
    pub(crate) measure: Measure,
    /// Boots by the clock, of each side
    #[arg(long, value_name = "N", default_value_t = 3)]
    runs: u32,
    /// Processors by the clock; instructions are counted on one [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) cpus: Option<u32>,
    /// The side that is compared with: `linux`, a system, or the results of an earlier bench
    #[arg(long, value_name = "linux|SYSTEM|FILE", default_value = LINUX)]
    pub(crate) against: String,
    /// The systems that are compared: systems/NAME.toml [default: default and monolith]
    #[arg(long, value_name = "NAME")]
    system: Vec<String>,
    /// Only rows whose name holds this
    #[arg(long, value_name = "NAME")]
    pub(crate) row: Option<String>,
    /// Within five minutes: a boot of each side, with the disk by the clock alone and without the experiment of isolation
    #[arg(long)]
    pub(crate) quick: bool,
    /// Write docs/performance.md
    #[arg(long)]
    pub(crate) record: bool,
    /// Do not compare, but say where the instructions of the rows whose name holds this go, on the first system
    #[arg(long, value_name = "ROW", conflicts_with_all = ["row", "quick", "record"])]
    pub(crate) profile: Option<String>,
}

/// The units that the user asked for.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Nanoseconds
    Clock,
    /// Executed instructions
    Instructions,
    Both,
}

impl Measure {
    /// Returns the units in which it measures, in their order.
    pub fn units(self) -> &'static [Unit] {
        match self {
            Measure::Clock => &[Unit::Clock],
            Measure::Instructions => &[Unit::Instructions],
            Measure::Both => &[Unit::Instructions, Unit::Clock],
        }
    }
}

impl Options {
    /// Returns the suites that the user asked for, or those that run by default.
    pub(crate) fn suites_to_run(&self) -> Vec<Suite> {
        match self.suites.as_slice() {
            [] if self.is_brief() => COMPARED.to_vec(),
            [] => COMPARED.into_iter().chain([Suite::Isolation]).collect(),
            suites => suites.to_vec(),
        }
    }

    /// Returns the names of the compared systems.
    pub(crate) fn systems(&self) -> Vec<String> {
        match self.system.is_empty() {
            true => vec!["default".to_owned(), "monolith".to_owned()],
            false => self.system.clone(),
        }
    }

    /// Returns the wishes for the suite `covert`.
    pub(crate) fn channels(&self) -> covert::Wanted {
        covert::Wanted {
            filter: self.row.clone(),
            sides: self.system.clone(),
            is_quick: self.quick,
        }
    }

    /// Returns the systems that only the curves of `mach` show: the one that the paper compares with, unless the user asked
    /// for others.
    pub(crate) fn curves_only(&self, suites: &[Suite]) -> Vec<String> {
        let is_asked = suites.contains(&Suite::Mach) && !self.is_brief();
        let is_plain = self.system.is_empty() && self.against == LINUX;
        if is_asked && is_plain { vec!["master".to_owned()] } else { Vec::new() }
    }

    /// Returns the results to compare with, if `--against` names a file.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or does not hold results.
    pub(crate) fn earlier(&self) -> Result<Option<Results>> {
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
    pub(crate) fn skips(&self, suite: Suite, unit: Unit) -> bool {
        self.is_brief() && (suite, unit) == (Suite::Disk, Unit::Instructions)
    }

    /// Returns whether this is a quick run of all suites.
    pub(crate) fn is_brief(&self) -> bool {
        self.quick && self.suites.is_empty() && self.measure == Measure::Both
    }

    /// Returns the number of boots of each side.
    pub(crate) fn boots(&self, unit: Unit) -> u32 {
        match unit {
            _ if self.quick => 1,
            Unit::Clock => self.runs.max(1),
            // These measurements repeat to a thousandth.
            Unit::Instructions | Unit::Kib => 1,
        }
    }
}
