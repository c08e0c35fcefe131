//! Time: a monotonic clock, the wall clock, and the numbers a vDSO needs.
use crate::world;
use program::SCALE_SHIFT;

/// A point on the monotonic clock, in nanoseconds since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(pub u64);

impl Instant {
    /// This much later, saturating.
    pub fn after_ns(self, ns: u64) -> Instant {
        Instant(self.0.saturating_add(ns))
    }
    /// Nanoseconds from `earlier` to `self`, zero if it is not earlier.
    pub fn since(self, earlier: Instant) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Now, on the monotonic clock. Cost as a system call: none (vDSO-like shared page).
pub fn now() -> Instant {
    Instant(world::time::now_ns())
}

/// Nanoseconds since 1970-01-01 UTC.
pub fn wall_ns() -> u64 {
    world::time::wall_ns()
}

/// Sets the wall clock: now is `ns` since 1970-01-01 UTC.
pub fn set_wall_ns(ns: u64) {
    world::time::set_wall_ns(ns);
}

/// Blocks until `deadline`.
pub fn sleep_until(deadline: Instant) {
    while now() < deadline {
        let _ = crate::thread::park(Some(deadline), false);
    }
}

/// How to turn the time-stamp counter into time, for the vDSO:
/// `monotonic_ns = base_ns + (((tsc - base_tsc) * multiplier) >> shift)` in 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TscScale {
    /// Counter at the base.
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

/// The present scale; `None` where programs may not read the counter.
pub fn tsc_scale() -> Option<TscScale> {
    let (base_tsc, multiplier, wall_offset_ns) = world::time::scale()?;
    Some(TscScale { base_tsc, base_ns: 0, multiplier, shift: SCALE_SHIFT, wall_offset_ns })
}
