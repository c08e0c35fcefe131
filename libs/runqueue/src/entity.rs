//! The scheduling state of a thread, and of a processor beside its queue.
use super::{Class, GRANULARITY_NS, SLEEPER_CREDIT_NS, Share};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use program::{CpuTime, Policy, ProcessorTime};

/// Adds `by` to a count that has one writer at a time.
#[inline(always)]
pub(crate) fn add(count: &AtomicU64, by: u64) {
    count.store(count.load(Relaxed) + by, Relaxed);
}

/// The mode in which a tick interrupted a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// User mode.
    User,
    /// The kernel.
    System,
}

/// Numbers of ticks by [`Mode`].
#[derive(Debug, Default)]
pub struct Ticks {
    /// Ticks in user mode.
    pub user: AtomicU64,
    system: AtomicU64,
}

impl Ticks {
    /// Counts a tick.
    pub(crate) fn count(&self, mode: Mode) {
        match mode {
            Mode::User => add(&self.user, 1),
            Mode::System => add(&self.system, 1),
        }
    }

    /// Returns the estimated parts of `run_ns` in user mode and in the kernel.
    pub(crate) fn split(&self, run_ns: u64) -> (u64, u64) {
        let (user, system) = (self.user.load(Relaxed), self.system.load(Relaxed));
        let user_ns = program::user_ns(run_ns, user, system);
        (user_ns, run_ns - user_ns)
    }
}

/// The scheduling state of a thread. The lock of its run queue guards the private fields; the running thread may read and write
/// the others of its own at any time.
#[derive(Debug, Default)]
pub struct Entity {
    /// The [packed](Policy::pack) policy.
    pub policy: AtomicU32,
    /// The value of `policy` when no caller lends a better one.
    pub own_policy: AtomicU32,
    /// The thread attends to others, and may hold locks that they want. Its share does not count meanwhile.
    pub is_attending: AtomicBool,
    /// The share of its component; `None` without a limit.
    pub(crate) share: Option<Arc<Share>>,
    /// Time of the processor that the thread has had, which ages by its weight.
    pub virtual_ns: AtomicU64,
    /// Ticks since the thread gave the processor up.
    pub(crate) slice_ticks: AtomicU32,
    /// Time of the processor that was charged.
    pub run_ns: AtomicU64,
    /// Ticks that came while the thread ran.
    pub ticks: Ticks,
    /// Switches away because the thread blocked.
    pub voluntary_switches: AtomicU64,
    pub(crate) forced_switches: AtomicU64,
    /// Number of times that it was preempted since it last blocked or yielded.
    pub(crate) preemptions: AtomicU32,
}

impl Entity {
    /// Makes the state of a thread that never ran.
    pub fn new(policy: Policy, share: Option<Arc<Share>>) -> Entity {
        let new = Entity { share, ..Entity::default() };
        new.set_policy(policy);
        new
    }

    /// Changes the policy. The thread is in no queue.
    pub fn set_policy(&self, policy: Policy) {
        self.policy.store(policy.pack(), Relaxed);
        self.own_policy.store(policy.pack(), Relaxed);
    }

    /// Returns the policy.
    #[inline]
    pub fn policy(&self) -> Policy {
        Policy::unpack(self.policy.load(Relaxed)).unwrap_or_default()
    }

    /// Returns the real-time priority; 0 of a fair thread.
    #[inline(always)]
    pub fn real_time(&self) -> u8 {
        Policy::real_time_of(self.policy.load(Relaxed))
    }

    /// Returns whether the thread's component has used up its share of the present period.
    #[inline(always)]
    pub fn is_over_share(&self, now_ns: impl FnOnce() -> u64) -> bool {
        let is_over = |share: &Share| share.is_used_up(now_ns);
        self.share.as_deref().is_some_and(is_over) && !self.is_attending.load(Relaxed)
    }

    /// Returns the class in which the thread is queued.
    #[inline]
    pub fn class(&self, now_ns: impl FnOnce() -> u64) -> Class {
        if self.is_over_share(now_ns) { Class::SUNK } else { Class::of(self.real_time()) }
    }

    /// Lends the policy to `server`, which works for this thread, if it is the better one.
    #[inline]
    pub fn lend_policy(&self, server: &Entity) {
        let (lent, own) = (self.policy.load(Relaxed), server.policy.load(Relaxed));
        if lent != own && self.policy().rank() > server.policy().rank() {
            server.policy.store(lent, Relaxed);
        }
    }

    /// Restores the thread's own policy: a client's loan ends with the work for it.
    #[inline]
    pub fn take_own_policy(&self) {
        let own = self.own_policy.load(Relaxed);
        if self.policy.load(Relaxed) != own {
            self.policy.store(own, Relaxed);
        }
    }

    /// Counts a switch away because the thread blocked.
    #[inline(always)]
    pub fn count_voluntary(&self) {
        add(&self.voluntary_switches, 1);
    }

    /// Returns whether the thread, which this one wakes, may wait until this one blocks: both have the same fair policy, and the
    /// woken one is not far behind.
    #[inline(always)]
    pub fn may_be_followed_by(&self, woken: &Entity) -> bool {
        let (me_ns, woken_ns) = (self.virtual_ns.load(Relaxed), woken.virtual_ns.load(Relaxed));
        let policy = self.policy.load(Relaxed);
        woken.policy.load(Relaxed) == policy
            && Policy::is_fair(policy)
            && me_ns.saturating_sub(woken_ns) <= SLEEPER_CREDIT_NS + GRANULARITY_NS
    }

    /// Raises the virtual time to that of `other`, with which the thread shares its time.
    #[inline(always)]
    pub fn catch_up(&self, other: &Entity) {
        let other_ns = other.virtual_ns.load(Relaxed);
        self.virtual_ns.store(other_ns.max(self.virtual_ns.load(Relaxed)), Relaxed);
    }

    /// Returns the time that the thread has used, `run_ns` in all, without its place and state.
    pub fn cpu_time(&self, run_ns: u64) -> CpuTime {
        let (user_ns, system_ns) = self.ticks.split(run_ns);
        CpuTime {
            user_ns,
            system_ns,
            voluntary_switches: self.voluntary_switches.load(Relaxed),
            forced_switches: self.forced_switches.load(Relaxed),
            ..CpuTime::default()
        }
    }
}

/// Value of [`Told`]: the thread did not ask to be told.
const NOT_TOLD: u32 = u32::MAX;
/// Value of [`Told`]: the program was interrupted and other threads may have run.
const PREEMPTED: u32 = u32::MAX - 1;

/// The processor that a thread was last told it runs on, if it asked for that.
#[derive(Debug)]
pub struct Told(AtomicU32);

impl Default for Told {
    fn default() -> Told {
        Told(AtomicU32::new(NOT_TOLD))
    }
}

impl Told {
    /// Notes that the thread knows that it runs on `cpu` and wants to be told of changes; `None` ends that.
    pub fn set(&self, cpu: Option<u32>) {
        self.0.store(cpu.unwrap_or(NOT_TOLD), Relaxed);
    }

    /// Notes that the thread was preempted, of which it is to be told.
    pub fn note_preempted(&self) {
        if self.0.load(Relaxed) != NOT_TOLD {
            self.0.store(PREEMPTED, Relaxed);
        }
    }

    /// Returns whether the thread, which runs on `cpu`, must be told of a move or preemption. It is told by this.
    pub fn tell(&self, cpu: u32) -> bool {
        let told = self.0.load(Relaxed);
        let is_news = told != cpu && told != NOT_TOLD;
        if is_news {
            self.0.store(cpu, Relaxed);
        }
        is_news
    }
}

/// The state of a processor that others read without the lock of its queue. Written by the processor itself, but for the
/// number of queued threads, which the lock guards.
#[derive(Debug, Default)]
pub struct Load {
    /// Number of threads queued, without the running one.
    pub(crate) queued: AtomicU32,
    /// Whether the processor is not idle.
    pub(crate) is_busy: AtomicBool,
    pub(crate) idle_ns: AtomicU64,
    pub(crate) busy_ns: AtomicU64,
    pub(crate) ticks: Ticks,
    pub(crate) switches: AtomicU64,
}

impl Load {
    /// Returns the number of queued threads.
    #[inline(always)]
    pub fn queued(&self) -> usize {
        self.queued.load(Relaxed) as usize
    }

    /// Returns whether the processor is idle.
    #[inline(always)]
    pub fn is_idle(&self) -> bool {
        !self.is_busy.load(Relaxed)
    }

    /// Returns whether the processor is idle and has no queued thread that it is about to run.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.is_idle() && self.queued() == 0
    }

    /// Returns the number of threads that run or could.
    pub fn runnable(&self) -> usize {
        self.queued() + usize::from(!self.is_idle())
    }

    /// Returns the processor's times.
    pub fn times(&self) -> ProcessorTime {
        let (user_ns, system_ns) = self.ticks.split(self.busy_ns.load(Relaxed));
        let idle_ns = self.idle_ns.load(Relaxed);
        ProcessorTime { user_ns, system_ns, idle_ns, switches: self.switches.load(Relaxed) }
    }
}
