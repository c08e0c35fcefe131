//! The suites of `bench`: those that compare sides by the probes of `bench/probes`, and the experiments, each with a module of
//! its own.
use super::{ipc, isolation, minix};
use crate::values::unit::Unit;
use anyhow::{Result, bail};

/// The suites that compare sides.
pub const COMPARED: [Suite; 6] =
    [Suite::Ksos, Suite::Micro, Suite::Disk, Suite::Net, Suite::Mach, Suite::Boot];

/// All suites of `bench/probes`.
pub const PROBES: [&str; 13] = [
    "ksos", "calls", "waits", "threads", "memory", "process", "files", "objects", "paths", "kinds",
    "disk", "net", "mach",
];
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
    /// Sockets of TCP and UDP over loopback
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
        }
    }

    /// Returns the suites of `bench/probes` that it runs; none if it is an experiment of its own.
    pub fn probes(self) -> &'static [&'static str] {
        match self {
            Suite::Ksos => &["ksos"],
            Suite::Micro => &[
                "calls", "waits", "threads", "memory", "process", "files", "objects", "paths",
                "kinds",
            ],
            Suite::Disk => &["disk"],
            Suite::Net => &["net"],
            Suite::Mach => &["mach"],
            Suite::Boot | Suite::Ipc | Suite::Isolation | Suite::Minix => &[],
        }
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
    pub fn experiment(self) -> Result<u8> {
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
