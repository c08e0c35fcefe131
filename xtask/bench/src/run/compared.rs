//! Suites that compare sides. Every side boots in turn on a fresh disk and runs the same probes. Their results are kept,
//! so that an interrupted bench continues.
use super::options::Options;
use crate::{
    measure::{
        card::Card,
        locks::Lock,
        probes::{self, Measured, Plan},
        side::{LINUX, Rate, Side},
    },
    report::{html, kept, page, terminal},
    results::{
        causes::Causes,
        comparison::{Results, Row},
        history,
    },
    suites::{
        boot,
        suite::{MACH_CPUS, Part, Suite},
    },
    values::unit::Unit,
};
use anyhow::{Context, Result};
use harness::{build::Features, linux, packages, shell};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, hash_map::DefaultHasher},
    fs,
    hash::{Hash, Hasher},
    path::{Path, PathBuf},
};

/// Boots that an unsettled row gets in addition to those of all rows.
const MORE_BOOTS: u32 = 1;
/// Bytes of a filter that a kernel's command line has room for.
const FILTER_MAX: usize = 1000;
/// Number of times that a boot measures each count.
const ROUNDS: u32 = 2;
/// The same with `--quick`, and for `mach`: its rows differ more from boot to boot than within one, and take half of the
/// bench's time.
const QUICK_ROUNDS: u32 = 1;

/// The earlier measurements, by boot: `build/bench/boots.json`.
#[derive(Default, Serialize, Deserialize)]
struct Kept {
    /// Fingerprint of the kernels, the image and the probes.
    fingerprint: u64,
    boots: BTreeMap<String, Vec<Measured>>,
}

/// A bench under way.
struct Bench<'a> {
    options: &'a Options,
    sides: Vec<Side>,
    /// Names of the sides that run `mach` alone; they come last.
    curves_only: Vec<String>,
    /// The parts of the suite that is measured.
    parts: Vec<Part>,
    image: PathBuf,
    rate: Rate,
    kept: Kept,
}

/// Compares by `suites`, prints and draws. The status is 1 if a row misses its bar.
///
/// # Errors
/// Fails if something does not build, start or end as it should.
pub fn run(options: &Options, suites: &[Suite]) -> Result<u8> {
    packages::ensure(packages::Need::Test)?;
    fs::create_dir_all(shell::build_path("bench")?)?;
    if options.against == LINUX {
        linux::prepare()?;
    }
    let image = probes::image()?;
    if let Some(row) = &options.row {
        let probes: Vec<&str> = suites.iter().flat_map(|suite| suite.probes()).copied().collect();
        // The rows of `boot` are not probes, and are all measured.
        if !probes.is_empty() {
            probes::check_row(row, &probes)?;
        }
    }
    let earlier = options.earlier()?;
    let against = if earlier.is_some() { None } else { Some(options.against.clone()) };
    let curves_only = options.curves_only(suites);
    let names = against.into_iter().chain(options.systems()).chain(curves_only.clone());
    let none = Features::default();
    let sides = names.map(|name| Side::new(&name, &image, &none)).collect::<Result<Vec<Side>>>()?;
    let kept = kept(fingerprint(&sides)?);
    let rate = Rate::default();
    let mut bench = Bench { options, sides, curves_only, parts: Vec::new(), image, rate, kept };
    let mut rows = Vec::new();
    for &suite in suites {
        bench.parts = suite.parts(options.row.as_deref())?;
        for unit in options.measure.units().iter().filter(|&&unit| !options.skips(suite, unit)) {
            rows.extend(bench.suite(suite, *unit)?);
        }
    }
    let mut results = Results {
        machine: machine(),
        against: options.against.clone(),
        systems: options.systems(),
        curves_only: bench.curves_only.clone(),
        rows,
        locks: Vec::new(),
    };
    if suites.contains(&Suite::Mach) {
        results.locks = most_missed(&results, &bench.image, options.row.as_deref())?;
    }
    if let Some(earlier) = earlier {
        results.join(earlier);
    }
    // The file is missing if only `boot` was run.
    let _ = fs::remove_file(kept_path()?);
    report(options, &results)
}

/// Makes a build with lock statistics of the first system run `mach`, once and not timed.
fn most_missed(results: &Results, image: &Path, filter: Option<&str>) -> Result<Vec<Lock>> {
    let Some(system) = results.systems.first() else { return Ok(Vec::new()) };
    let features = Features { statistics: true, ..Features::default() };
    let side = Side::new(system, image, &features)?;
    let bar = shell::progress(&format!("mach: {system} with lock statistics"));
    let suites = Suite::Mach.probes();
    let plan =
        Plan { unit: Unit::Clock, cpus: MACH_CPUS, rounds: 1, filter, suites, card: Card::None };
    let locks = side.most_missed(&plan)?;
    bar.finish_and_clear();
    Ok(locks)
}

impl Bench<'_> {
    /// Does all boots of a suite, and further ones for unsettled rows.
    fn suite(&mut self, suite: Suite, unit: Unit) -> Result<Vec<Row>> {
        let boots = self.options.boots(unit);
        if suite == Suite::Boot && unit == Unit::Clock {
            let (judged, _) = self.sides.split_at(self.sides.len() - self.curves_only.len());
            return boot::rows(judged, &self.image, boots);
        }
        let mut rows = Vec::new();
        for cpus in suite.processors(self.options.cpus, unit) {
            let mut of_these = Vec::new();
            let all = self.options.row.clone();
            for boot in 0..boots {
                self.round((suite, unit, cpus), all.as_deref(), boot, &mut of_these)?;
            }
            let more = if self.options.quick { 0 } else { MORE_BOOTS };
            for boot in boots..boots + more {
                let Some(unsettled) = self.unsettled(&of_these) else { break };
                self.round((suite, unit, cpus), Some(&unsettled), boot, &mut of_these)?;
            }
            rows.extend(of_these);
        }
        Ok(rows)
    }

    /// Returns a filter for the unsettled rows, if there are any.
    fn unsettled(&self, rows: &[Row]) -> Option<String> {
        let against = &self.sides.first()?.name;
        let is = |row: &Row, system: &String| {
            row.unit == Unit::Clock
                && row.ratio(system, against).is_some_and(|ratio| ratio.is_unsettled())
        };
        let systems = self.options.systems();
        let found = rows.iter().filter(|row| systems.iter().any(|system| is(row, system)));
        let names: Vec<&str> = found.map(|row| row.name.as_str()).collect();
        let filter = names.join("|");
        (!names.is_empty()).then(|| if filter.len() > FILTER_MAX { "-".to_owned() } else { filter })
    }

    /// Does one boot of each side and part.
    fn round(
        &mut self,
        (suite, unit, cpus): (Suite, Unit, u32),
        filter: Option<&str>,
        boot: u32,
        rows: &mut Vec<Row>,
    ) -> Result<()> {
        for at in 0..self.sides.len() {
            let name = self.sides[at].name.clone();
            if suite != Suite::Mach && self.curves_only.contains(&name) {
                continue;
            }
            for one in self.boots(at, (suite, unit, cpus), filter, boot)? {
                let is_it = |row: &&mut Row| row.name == one.name;
                let row = match rows.iter_mut().find(is_it) {
                    Some(row) => row,
                    None => {
                        rows.push(Row::new(suite.name(), &one.name, unit, cpus));
                        rows.last_mut().context("the row just added")?
                    }
                };
                row.add(&name, &one);
            }
        }
        Ok(())
    }

    /// Returns the measurements of a side in the boots number `boot` of all parts that have rows of `filter`.
    fn boots(
        &mut self,
        at: usize,
        kind: (Suite, Unit, u32),
        filter: Option<&str>,
        boot: u32,
    ) -> Result<Vec<Measured>> {
        let mut measured = Vec::new();
        for part in self.parts.clone() {
            if probes::has_row(filter.unwrap_or("-"), &part.probes)? {
                measured.extend(self.boot(at, kind, &part, filter, boot)?);
            }
        }
        Ok(measured)
    }

    /// Returns the measurements of a side in its boot number `boot` for a part, made now or before an interruption.
    fn boot(
        &mut self,
        at: usize,
        (suite, unit, cpus): (Suite, Unit, u32),
        Part { probes: suites, card }: &Part,
        filter: Option<&str>,
        boot: u32,
    ) -> Result<Vec<Measured>> {
        let is_once = self.options.quick || suite == Suite::Mach;
        let rounds = if is_once { QUICK_ROUNDS } else { ROUNDS };
        let side = &self.sides[at];
        let key = format!(
            "{} {} {unit:?} {cpus} {boot} {rounds} {}",
            side.name,
            suites.join("+"),
            filter.unwrap_or("-")
        );
        if let Some(measured) = self.kept.boots.get(&key) {
            return Ok(measured.clone());
        }
        let bar = shell::progress(&format!(
            "{}: {} by {unit:?}, boot {}",
            suite.name(),
            side.name,
            boot + 1
        ));
        let plan = Plan { unit, cpus, rounds, filter, suites, card: *card };
        let measured = side.boot(&plan, &mut self.rate)?;
        bar.finish_and_clear();
        self.kept.boots.insert(key, measured.clone());
        fs::write(kept_path()?, serde_json::to_string(&self.kept)?)?;
        Ok(measured)
    }
}

fn kept_path() -> Result<PathBuf> {
    shell::build_path("bench/boots.json")
}

/// Reads the measurements of an interrupted bench of the same things.
fn kept(fingerprint: u64) -> Kept {
    let read =
        || -> Option<Kept> { serde_json::from_slice(&fs::read(kept_path().ok()?).ok()?).ok() };
    read()
        .filter(|kept| kept.fingerprint == fingerprint)
        .unwrap_or(Kept { fingerprint, ..Kept::default() })
}

fn fingerprint(sides: &[Side]) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    for side in sides {
        fs::read(side.kernel())?.hash(&mut hasher);
    }
    // The image differs each time it is packed, so its contents are fingerprinted.
    for name in ["probes", "nothing", "run"] {
        fs::read(shell::build_path("bench-root/bench")?.join(name))?.hash(&mut hasher);
    }
    Ok(hasher.finish())
}

/// Describes the machine on which this was measured.
fn machine() -> String {
    let first = |path: &str, key: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let value = text.lines().find_map(|line| line.strip_prefix(key)?.split_once(": "));
        value.map_or_else(String::new, |(_, value)| value.trim().to_owned())
    };
    let qemu = shell::quietly(
        "asking QEMU",
        std::process::Command::new("qemu-system-x86_64").arg("--version"),
    );
    let qemu = qemu
        .map(|said| String::from_utf8_lossy(&said).lines().next().unwrap_or_default().to_owned());
    format!(
        "{} x {}; {}; -machine q35 -accel tcg -cpu max,-erms,-fsrm",
        shell::processors(),
        first("/proc/cpuinfo", "model name"),
        qemu.unwrap_or_default()
    )
}

fn report(options: &Options, results: &Results) -> Result<u8> {
    let json = shell::build_path("bench/results.json")?;
    fs::write(&json, serde_json::to_string_pretty(results)?)?;
    let is_good = terminal::print(results);
    let html = shell::build_path("bench/index.html")?;
    fs::write(&html, html::page(results, &history::recorded()))?;
    if options.record {
        let path = shell::root().join("docs/performance.md");
        let page = page::markdown(results, &Causes::read()?);
        let old = fs::read_to_string(&path).unwrap_or_default();
        fs::write(path, kept::with_kept(&page, &old))?;
    }
    println!("all figures in {}, drawn in {}", json.display(), html.display());
    Ok(u8::from(!is_good))
}
