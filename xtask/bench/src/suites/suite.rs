//! The suites of `bench`: those that compare sides by the probes of `bench/probes`, and the experiments, each with a module of
//! its own.
use super::{
    covert::{self, Wanted},
    ipc, isolation, minix, mls,
};
use crate::{
    measure::{card::Card, probes, programs},
    values::unit::Unit,
};
use anyhow::{Result, bail};

/// The suites that compare sides.
pub const COMPARED: [Suite; 6] =
    [Suite::Ksos, Suite::Micro, Suite::Disk, Suite::Net, Suite::Mach, Suite::Boot];

/// Probes that one boot of a side runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Names of suites of `bench/probes`.
    pub probes: Vec<&'static str>,
    /// The network card of the machine. Rows without a card are measured on a machine that has none.
    pub card: Card,
}

/// The suites of `bench/probes` that need a card.
const ON_CARDS: [(&str, Card, &str); 2] =
    [("user_wire", Card::User, "QEMU's own network"), ("tap_wire", Card::Tap, "a tap")];
/// Number of processors on which tasks are shown to run at once.
pub const MACH_CPUS: u32 = 2;

/// The suites of `bench`.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// The five programs of the KSOS-32 paper
    Ksos,
    /// One call, fault, wait or file at a time
    Micro,
    /// Files on the root disk, cold and cached, and trees of files
    Disk,
    /// Sockets of TCP and UDP over loopback and over wires; nginx, redis and iperf3
    Net,
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
    /// Bandwidth of covert channels from a high level to a low one, beside Linux and SELinux
    Covert,
    /// Costs of levels: `mls` beside `default`, and SELinux beside Linux
    Mls,
}

impl Suite {
    /// Returns the name of the suite.
    pub fn name(self) -> &'static str {
        match self {
            Suite::Ksos => "ksos",
            Suite::Micro => "micro",
            Suite::Disk => "disk",
            Suite::Net => "net",
            Suite::Mach => "mach",
            Suite::Boot => "boot",
            Suite::Ipc => "ipc",
            Suite::Isolation => "isolation",
            Suite::Minix => "minix",
            Suite::Covert => "covert",
            Suite::Mls => "mls",
        }
    }

    /// Returns the suites of `bench/probes` that it runs; none if it is an experiment of its own.
    pub fn probes(self) -> &'static [&'static str] {
        match self {
            Suite::Ksos => &["ksos"],
            Suite::Micro => &[
                "calls", "waits", "threads", "memory", "process", "files", "objects", "paths",
                "kinds", "audit",
            ],
            Suite::Disk => &["disk"],
            Suite::Net => &["net", programs::SUITE, "user_wire", "tap_wire"],
            Suite::Mach => &["mach"],
            Suite::Boot
            | Suite::Ipc
            | Suite::Isolation
            | Suite::Minix
            | Suite::Covert
            | Suite::Mls => &[],
        }
    }

    /// Returns the parts of the suite that this machine can measure and that have a row with `filter` in its name. Says which are
    /// left out. The probes were built.
    ///
    /// # Errors
    /// Fails if the probes do not run on this machine.
    pub fn parts(self, filter: Option<&str>) -> Result<Vec<Part>> {
        parts(self.probes(), filter)
    }

    /// Returns whether the suite compares sides.
    pub fn is_compared(self) -> bool {
        COMPARED.contains(&self)
    }

    /// Returns the numbers of processors for which it is measured; none for a unit in which that makes no difference.
    pub fn processors(self, asked: Option<u32>, unit: Unit) -> Vec<u32> {
        match (self, unit, asked) {
            (_, Unit::Kib, _) | (Suite::Mach | Suite::Boot, Unit::Instructions, _) => Vec::new(),
            (Suite::Mach, Unit::Clock, None) => vec![1, MACH_CPUS],
            (_, Unit::Clock, asked) => vec![asked.unwrap_or(1)],
            (_, Unit::Instructions, _) => vec![1],
        }
    }

    /// Runs the suite, if it is an experiment.
    ///
    /// # Errors
    /// Fails for a suite that compares sides, and if the experiment does.
    pub fn experiment(self, wanted: &Wanted) -> Result<u8> {
        match self {
            Suite::Ipc => ipc::run(),
            Suite::Isolation => isolation::run(),
            Suite::Minix => minix::run(),
            Suite::Covert => covert::run(wanted),
            Suite::Mls => {
                let boots = if wanted.is_quick { 1 } else { mls::BOOTS };
                mls::run(wanted.filter.as_deref(), boots)
            }
            _ => {
                bail!("{} compares sides", self.name())
            }
        }
    }
}

/// Returns the parts of all suites, as [`Suite::parts`] does.
///
/// # Errors
/// Fails if the probes do not run on this machine.
pub fn all_parts(filter: Option<&str>) -> Result<Vec<Part>> {
    let all: Vec<&str> = COMPARED.iter().flat_map(|suite| suite.probes()).copied().collect();
    parts(&all, filter)
}

fn parts(suites: &[&'static str], filter: Option<&str>) -> Result<Vec<Part>> {
    let has_programs = programs::are_there()?;
    let is_there = |name: &&str| has_programs || *name != programs::SUITE;
    let suites: Vec<&str> = suites.iter().copied().filter(is_there).collect();
    let mut parts = split(&suites);
    let has_row = |part: &Part| probes::has_row(filter.unwrap_or("-"), &part.probes);
    let meant = parts.iter().map(has_row).collect::<Result<Vec<bool>>>()?;
    let mut meant = meant.into_iter();
    parts.retain(|_| meant.next().unwrap_or(false));
    parts.retain(|part| match part.card.lacks() {
        Some(why) => {
            let wire = ON_CARDS.iter().find(|(_, card, _)| *card == part.card);
            let wire = wire.map_or("a card", |(.., wire)| wire);
            eprintln!("the rows over {wire} are left out: {why}");
            false
        }
        None => true,
    });
    Ok(parts)
}

/// Splits suites of `bench/probes` into those without a card and one part for each card.
fn split(suites: &[&'static str]) -> Vec<Part> {
    let card = |name: &str| {
        let found = ON_CARDS.iter().find(|(suite, ..)| *suite == name);
        found.map_or(Card::None, |(_, card, _)| *card)
    };
    let of = |wanted: Card| Part {
        probes: suites.iter().copied().filter(|name| card(name) == wanted).collect(),
        card: wanted,
    };
    let all = [Card::None, Card::User, Card::Tap].map(of);
    all.into_iter().filter(|part| !part.probes.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_card_has_a_part_of_its_own() {
        let parts = split(Suite::Net.probes());
        let cards: Vec<Card> = parts.iter().map(|part| part.card).collect();
        assert_eq!(cards, [Card::None, Card::User, Card::Tap]);
        assert_eq!(parts[0].probes, ["net", programs::SUITE]);
        assert_eq!(split(Suite::Disk.probes()).len(), 1);
    }
}
