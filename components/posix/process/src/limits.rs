//! Resource limits: sixteen pairs, read without a lock wherever they are enforced.
use core::sync::atomic::{AtomicU64, Ordering};
use linux_raw_sys::general as raw;

/// `RLIM_INFINITY`.
pub const INFINITY: u64 = u64::MAX;
const COUNT: usize = 16;

/// A resource, by its Linux number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs, reason = "the names are Linux's")]
pub enum Resource {
    CpuSeconds = raw::RLIMIT_CPU,
    FileSize = raw::RLIMIT_FSIZE,
    Data = raw::RLIMIT_DATA,
    Stack = raw::RLIMIT_STACK,
    Core = raw::RLIMIT_CORE,
    Resident = raw::RLIMIT_RSS,
    Processes = raw::RLIMIT_NPROC,
    OpenFiles = raw::RLIMIT_NOFILE,
    LockedMemory = raw::RLIMIT_MEMLOCK,
    AddressSpace = raw::RLIMIT_AS,
    PendingSignals = raw::RLIMIT_SIGPENDING,
    MessageQueues = raw::RLIMIT_MSGQUEUE,
    Nice = raw::RLIMIT_NICE,
    RealTimePriority = raw::RLIMIT_RTPRIO,
}

/// A soft and a hard limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The enforced limit (soft).
    pub soft: u64,
    /// Highest soft limit that an unprivileged process may set.
    pub hard: u64,
}

/// The limits of a process.
#[derive(Debug)]
pub struct Limits {
    soft: [AtomicU64; COUNT],
    hard: [AtomicU64; COUNT],
}

impl Limits {
    /// Returns the most descriptors that it may have open.
    pub fn open_files(&self) -> usize {
        usize::try_from(self.soft(Resource::OpenFiles)).unwrap_or(usize::MAX)
    }
    fn unlimited() -> Limits {
        Limits {
            soft: [const { AtomicU64::new(INFINITY) }; COUNT],
            hard: [const { AtomicU64::new(INFINITY) }; COUNT],
        }
    }
    /// The limits of the first process of a system that has at most `tasks` tasks: Linux's values.
    pub fn initial(tasks: u64) -> Limits {
        let limits = Limits::unlimited();
        limits.set(raw::RLIMIT_STACK, Limit { soft: 8 << 20, hard: INFINITY });
        limits.set(raw::RLIMIT_CORE, Limit { soft: 0, hard: INFINITY });
        limits.set(raw::RLIMIT_NOFILE, Limit { soft: 1024, hard: 4096 });
        limits.set(raw::RLIMIT_MEMLOCK, Limit { soft: 8 << 20, hard: 8 << 20 });
        limits.set(raw::RLIMIT_MSGQUEUE, Limit { soft: 819_200, hard: 819_200 });
        limits.set(raw::RLIMIT_NICE, Limit { soft: 0, hard: 0 });
        limits.set(raw::RLIMIT_RTPRIO, Limit { soft: 0, hard: 0 });
        let half = tasks / 2;
        limits.set(raw::RLIMIT_NPROC, Limit { soft: half, hard: half });
        limits.set(raw::RLIMIT_SIGPENDING, Limit { soft: half, hard: half });
        limits
    }
    /// Returns the enforced limit of `resource`.
    pub fn soft(&self, resource: Resource) -> u64 {
        self.get(resource as u32).map_or(INFINITY, |limit| limit.soft)
    }
    /// Returns both limits of the resource with Linux's number `resource`, if there is such a
    /// resource.
    pub fn get(&self, resource: u32) -> Option<Limit> {
        let index = resource as usize;
        Some(Limit {
            soft: self.soft.get(index)?.load(Ordering::Relaxed),
            hard: self.hard.get(index)?.load(Ordering::Relaxed),
        })
    }
    /// Sets the pair; unknown resources are ignored.
    pub fn set(&self, resource: u32, limit: Limit) {
        let index = resource as usize;
        if let (Some(soft), Some(hard)) = (self.soft.get(index), self.hard.get(index)) {
            soft.store(limit.soft, Ordering::Relaxed);
            hard.store(limit.hard, Ordering::Relaxed);
        }
    }
}

impl Clone for Limits {
    fn clone(&self) -> Limits {
        let copy = Limits::unlimited();
        for resource in 0..COUNT as u32 {
            if let Some(limit) = self.get(resource) {
                copy.set(resource, limit);
            }
        }
        copy
    }
}
