//! Numbers of page faults, as reported by getrusage(2), and those of the whole system.
use core::sync::atomic::{AtomicU64, Ordering};

/// Tells whether a fault had to wait for storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The page was made, or found in memory.
    Minor,
    /// The page had to be read from storage.
    Major,
}

/// Faults resolved so far.
#[derive(Debug, Default)]
pub struct FaultCounts {
    minor: AtomicU64,
    major: AtomicU64,
}

impl FaultCounts {
    /// Counts of zero.
    pub const fn new() -> FaultCounts {
        FaultCounts { minor: AtomicU64::new(0), major: AtomicU64::new(0) }
    }
    /// Counts one fault.
    pub fn add(&self, kind: FaultKind) {
        let count = if kind == FaultKind::Minor { &self.minor } else { &self.major };
        count.fetch_add(1, Ordering::Relaxed);
    }
    /// Returns the counts.
    pub fn get(&self) -> Faults {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Faults { minor: load(&self.minor), major: load(&self.major) }
    }
}

/// A part of the system's counts, on a cache line of its own.
#[repr(align(64))]
struct Shard(FaultCounts);

const SHARDS: usize = 16;

/// Faults since boot; each thread counts in the shard of its number, so that processors rarely use
/// the same cache line.
static SYSTEM: [Shard; SHARDS] = [const { Shard(FaultCounts::new()) }; SHARDS];

/// Counts one fault for the whole system.
pub(super) fn add_to_system(kind: FaultKind) {
    let number = rt::thread::current().0 as usize % SHARDS;
    if let Some(shard) = SYSTEM.get(number) {
        shard.0.add(kind);
    }
}

/// Faults of all programs since boot.
pub fn of_system() -> Faults {
    let mut sum = Faults::default();
    SYSTEM.iter().for_each(|shard| sum += shard.0.get());
    sum
}

/// Numbers of faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Faults without I/O.
    pub minor: u64,
    /// Faults with I/O.
    pub major: u64,
}

impl core::ops::AddAssign for Faults {
    fn add_assign(&mut self, more: Faults) {
        self.minor += more.minor;
        self.major += more.major;
    }
}
