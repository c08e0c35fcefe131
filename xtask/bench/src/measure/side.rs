//! A side of a comparison, Linux or a Skerry system, and one boot of it that runs the probes.
use super::{
    executed::Counter,
    locks::{self, Lock},
    probes::{self, Measured, Plan},
};
use crate::values::unit::Unit;
use anyhow::{Context, Result, bail};
use harness::{
    build::{self, Features},
    guest::{self, Outcome},
    linux::{self, Linux},
    qemu::Config,
    selinux,
    session::{Ended, Streams},
};
use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Instant,
};

/// The kernel that a side boots.
#[derive(Debug)]
pub enum Kernel {
    /// Debian's kernel.
    Linux(Linux),
    /// A Skerry system.
    Skerry(PathBuf),
}

/// A side of a comparison.
#[derive(Debug)]
pub struct Side {
    /// `linux`, or the Skerry system's name.
    pub name: String,
    /// The kernel.
    pub what: Kernel,
    image: PathBuf,
    /// Kernel parameters of this side alone.
    parameters: &'static str,
}

/// The name of Linux's side.
pub const LINUX: &str = "linux";
/// The name of the side of Linux that enforces SELinux's policy of levels.
pub const SELINUX: &str = "selinux";
/// Memory of both machines in MiB: enough for 16 processes with files, and for a process of 100 MB.
const MEMORY_MIB: u32 = 1024;
const LIMIT_SECONDS: u64 = 1800;

impl Side {
    /// Builds the system `name`, with `features` if it is a Skerry system.
    ///
    /// # Errors
    /// Fails if there is no such system, or it does not build.
    pub fn new(name: &str, image: &Path, features: &Features) -> Result<Side> {
        let (what, parameters) = match name {
            LINUX => (Kernel::Linux(linux::prepare()?), ""),
            SELINUX => (Kernel::Linux(linux::prepare()?), selinux::PARAMETERS),
            system => (Kernel::Skerry(build::image(system, features)?), ""),
        };
        Ok(Side { name: name.to_owned(), what, image: image.to_owned(), parameters })
    }

    /// Returns the path of the kernel's file.
    pub fn kernel(&self) -> &Path {
        match &self.what {
            Kernel::Linux(linux) => &linux.kernel,
            Kernel::Skerry(kernel) => kernel,
        }
    }

    /// Makes the machine, without a command to run on it.
    ///
    /// # Errors
    /// Fails if `build/` cannot be made.
    pub fn machine(&self, cpus: u32) -> Result<Config> {
        let log = format!("bench-{}.log", self.name);
        let machine = guest::machine(self.kernel(), &self.image, &log)?;
        // Debian's kernel has no IOMMU here, which a card's properties depend on.
        let has_iommu = machine.has_iommu && matches!(self.what, Kernel::Skerry(_));
        Ok(Config { cpus, memory: MEMORY_MIB, has_iommu, ..machine })
    }

    /// Boots the machine on a fresh disk and runs the probes.
    ///
    /// # Errors
    /// Fails if the machine does not start or does not come to the probes' end, or if its clock disagrees with the host's.
    pub fn boot(&self, plan: &Plan, rate: &mut Rate) -> Result<Vec<Measured>> {
        let mut config = self.machine(plan.cpus)?;
        let counter = match plan.unit {
            Unit::Clock | Unit::Kib => None,
            Unit::Instructions => Some(Counter::new(&format!("bench-{}.counts", self.name))?),
        };
        config.extra.extend(counter.iter().flat_map(Counter::arguments));
        let lines = self.run_probes(config, plan)?;
        let said = probes::parse(&lines);
        if !said.is_whole {
            let last = lines.last().map_or("nothing", |(_, line)| line);
            bail!("{}: the probes did not end; the last they said: {last}", self.name);
        }
        match counter {
            // The filter left no probe of the suite.
            _ if said.measured.is_empty() => Ok(Vec::new()),
            None => rate.in_ns(said.measured, said.rate.context("no reading of the clock")?),
            Some(counter) => in_instructions(said.measured, &counter.read_probes()?),
        }
    }

    /// Runs the probes and returns the locks that were missed most often.
    ///
    /// # Errors
    /// Fails if the machine does not start, or prints no lock statistics.
    pub fn most_missed(&self, plan: &Plan) -> Result<Vec<Lock>> {
        let lines = self.run_probes(self.machine(plan.cpus)?, plan)?;
        let found =
            locks::most_missed(lines.iter().filter_map(|(_, line)| line.strip_prefix("lock ")));
        if found.is_empty() { bail!("{} has no lock statistics", self.name) } else { Ok(found) }
    }

    /// Boots the machine with the card of `plan` and runs the probes. Returns the lines of output, each with its time.
    ///
    /// # Errors
    /// Those of [`Side::run`]; or the card's peer cannot be started.
    pub fn run_probes(&self, config: Config, plan: &Plan) -> Result<Vec<(Instant, String)>> {
        let parameter = probes::parameter(plan);
        plan.card.beside(config, |config, wire| {
            self.run(config, probes::RUNNER, &format!("{parameter} {wire}"))
        })
    }

    /// Boots the machine with a kernel parameter and runs the script `runner` of the image. Returns the lines of output, each
    /// with its time.
    ///
    /// # Errors
    /// Fails if the machine does not start, or the script fails.
    pub fn run(
        &self,
        mut config: Config,
        runner: &str,
        parameter: &str,
    ) -> Result<Vec<(Instant, String)>> {
        let stamped = Stamped::default();
        match &self.what {
            Kernel::Linux(linux) => {
                let own = self.parameters;
                let parameters = format!("skerry.runner={runner} {own} {parameter}");
                let mut sink = stamped.clone();
                linux::follow(linux, config, &parameters, LIMIT_SECONDS, &mut sink)?;
            }
            Kernel::Skerry(_) => {
                config.append = format!("{} {parameter}", config.append);
                let streams = Streams {
                    input: Box::new(io::empty()),
                    output: Box::new(stamped.clone()),
                    error: Box::new(io::stderr()),
                };
                let command = format!("/bin/sh {runner}");
                let outcome = guest::execute(&config, &command, streams, Some(LIMIT_SECONDS))?;
                if outcome != Outcome::Session(Ended::Exited(0)) {
                    bail!("{}: {outcome}; log in {}", self.name, config.log.display());
                }
            }
        }
        Ok(stamped.lines())
    }
}

/// Greatest difference between the rates of time stamp counters of two boots: all run at the rate of the host's.
const RATES_WITHIN: f64 = 0.02;

/// Ticks a nanosecond of the host, and the error of that number, from the boot that ran longest; it does not depend on the
/// guest's kernel.
#[derive(Debug, Default)]
pub struct Rate(Option<(f64, f64)>);

impl Rate {
    /// Turns ticks of a boot that found `rate` into nanoseconds.
    fn in_ns(&mut self, mut measured: Vec<Measured>, rate: (f64, f64)) -> Result<Vec<Measured>> {
        let best = self.0.filter(|known| known.1 <= rate.1).unwrap_or(rate);
        self.0 = Some(best);
        if (rate.0 / best.0 - 1.0).abs() > rate.1 + best.1 + RATES_WITHIN {
            let (ours, others) = (rate.0, best.0);
            bail!(
                "the time stamp counter ran at {ours:.3} ticks a ns, in another boot at {others:.3}"
            );
        }
        for one in &mut measured {
            let agreed_ns = one.agreed_ns;
            for (count, ticks) in one.all() {
                *ticks = *ticks / best.0 - *count * agreed_ns;
            }
            one.figures.iter_mut().for_each(|ticks| *ticks /= best.0);
        }
        Ok(measured)
    }
}

/// Replaces ticks by the counts of the plugin.
fn in_instructions(mut measured: Vec<Measured>, counted: &[Vec<u64>]) -> Result<Vec<Measured>> {
    // Figures that a probe measured itself are not numbers of instructions.
    let is_counted = |one: &Measured| one.figures.is_empty();
    if measured.len() != counted.len() {
        bail!("{} probes, {} of them counted", measured.len(), counted.len());
    }
    for (one, counts) in measured.iter_mut().zip(counted) {
        let points = one.all().count();
        if one.failed.is_none() && is_counted(one) && points != counts.len() {
            bail!("{}: {points} points, {} counts", one.name, counts.len());
        }
        for ((_, value), &count) in one.all().zip(counts) {
            *value = count as f64;
        }
    }
    measured.retain(is_counted);
    Ok(measured)
}

/// Lines, each with the time at which it came.
#[derive(Clone, Default)]
struct Stamped(Arc<Mutex<Stamps>>);

#[derive(Default)]
struct Stamps {
    lines: Vec<(Instant, String)>,
    rest: Vec<u8>,
}

impl Stamped {
    fn lines(&self) -> Vec<(Instant, String)> {
        self.0.lock().map(|mut stamps| std::mem::take(&mut stamps.lines)).unwrap_or_default()
    }
}

impl io::Write for Stamped {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let now = Instant::now();
        if let Ok(mut stamps) = self.0.lock() {
            stamps.rest.extend_from_slice(data);
            while let Some(end) = stamps.rest.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = stamps.rest.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                stamps.lines.push((now, line));
            }
        }
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn measured(points: usize, failed: Option<&str>) -> Measured {
        Measured {
            name: "row".to_owned(),
            agreed_ns: 100.0,
            points: vec![(2.0, 1000.0); points],
            failed: failed.map(str::to_owned),
            ..Measured::default()
        }
    }

    #[test]
    fn ticks_become_nanoseconds_and_what_was_agreed_is_no_cost() {
        let mut rate = Rate::default();
        let all = rate.in_ns(vec![measured(1, None)], (2.0, 0.001)).unwrap();
        assert_eq!(all[0].points, [(2.0, 300.0)]);
        assert!(rate.in_ns(vec![measured(1, None)], (2.01, 0.1)).is_ok());
        assert!(
            rate.in_ns(vec![measured(1, None)], (1.5, 0.001)).is_err(),
            "a clock that flatters"
        );
    }

    #[test]
    fn counts_take_the_place_of_ticks() {
        let all = in_instructions(vec![measured(2, None)], &[vec![7, 8]]).unwrap();
        assert_eq!(all[0].points, [(2.0, 7.0), (2.0, 8.0)]);
        assert!(in_instructions(vec![measured(2, None)], &[vec![7]]).is_err());
        assert!(in_instructions(vec![measured(0, Some("why"))], &[vec![7]]).is_ok());
    }

    #[test]
    fn lines_are_put_together() {
        let mut sink = Stamped::default();
        sink.write_all(b"one\ntw").unwrap();
        sink.write_all(b"o\n").unwrap();
        let lines: Vec<String> = sink.lines().into_iter().map(|(_, line)| line).collect();
        assert_eq!(lines, ["one", "two"]);
    }
}
