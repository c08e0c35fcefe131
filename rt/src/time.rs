//! Time: a monotonic clock, the wall clock, and the numbers a vDSO needs.
use crate::world;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use program::SCALE_SHIFT;

/// Whether the wall clock was set since the boot.
static IS_WALL_SET: AtomicBool = AtomicBool::new(false);

/// A point on the monotonic clock, in nanoseconds since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(pub u64);

impl Instant {
    /// Returns the instant `ns` nanoseconds later, saturating.
    pub fn after_ns(self, ns: u64) -> Instant {
        Instant(self.0.saturating_add(ns))
    }
    /// Returns the nanoseconds from `earlier` to `self`, zero if it is not earlier.
    pub fn since(self, earlier: Instant) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Returns the present time on the monotonic clock. Cost as a system call: none (shared page).
pub fn now() -> Instant {
    Instant(world::time::now_ns())
}

/// Returns the wall clock in nanoseconds since 1970-01-01 UTC. Cost as a system call: none (shared page).
pub fn wall_ns() -> u64 {
    world::time::wall_ns()
}

/// Sets the wall clock to `ns` nanoseconds since 1970-01-01 UTC.
pub fn set_wall_ns(ns: u64) {
    IS_WALL_SET.store(true, Relaxed);
    step_wall(ns);
}

/// Sets the wall clock, also that of isolated components.
fn step_wall(ns: u64) {
    world::time::set_wall_ns(ns);
    #[cfg(all(target_os = "none", not(skerry_process)))]
    crate::shared::refresh();
}

/// Returns whether [`set_wall_ns`] was called in this component. Before that, the wall clock of a machine starts at 1970.
pub fn is_wall_set() -> bool {
    IS_WALL_SET.load(Relaxed)
}

/// Moves a wall clock that was never set forward to `ns` since 1970-01-01 UTC. Does nothing if the clock was set or is
/// later. A file system calls it with the latest time on its medium, so that no file gets an earlier time on a machine
/// without a real-time clock.
pub fn raise_wall_ns(ns: u64) {
    if !is_wall_set() && wall_ns() < ns {
        step_wall(ns);
    }
}

/// Blocks until `deadline`.
pub fn sleep_until(deadline: Instant) {
    while now() < deadline {
        let _ = crate::thread::park(Some(deadline));
    }
}

/// The scale that converts the time-stamp counter to time, for the vDSO: `monotonic_ns = base_ns + (((tsc - base_tsc) *
/// multiplier) >> shift)` in 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TscScale {
    /// The counter's value at the base.
    pub base_tsc: u64,
    /// Monotonic nanoseconds at the base.
    pub base_ns: u64,
    /// Multiplier of the fixed-point scale.
    pub multiplier: u64,
    /// Shift of the fixed-point scale.
    pub shift: u32,
    /// Wall-clock nanoseconds minus monotonic nanoseconds.
    pub wall_offset_ns: u64,
}

/// Returns the present scale; `None` if programs may not read the counter.
pub fn tsc_scale() -> Option<TscScale> {
    let (base_tsc, multiplier, wall_offset_ns) = world::time::scale()?;
    Some(TscScale { base_tsc, base_ns: 0, multiplier, shift: SCALE_SHIFT, wall_offset_ns })
}
