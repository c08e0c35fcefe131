//! Time: the monotonic clock is the time-stamp counter times a factor set once at boot; the wall
//! clock is an offset to it; each processor has one one-shot timer.
//!
//! Counters of all processors are assumed to agree (QEMU, and every machine with an invariant counter).
//! All state is in atomics, without locks.
use crate::arch::{apic, cpu, tsc::Rates};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use program::SCALE_SHIFT as SHIFT;

/// The counter's value at boot: monotonic time 0.
static BASE: AtomicU64 = AtomicU64::new(0);
/// Nanoseconds per count, times 2^32; half a nanosecond until measured.
static FACTOR: AtomicU64 = AtomicU64::new(1 << 31);
/// Wall clock minus monotonic clock.
static WALL_OFFSET: AtomicU64 = AtomicU64::new(0);

/// Starts the clock at time 0.
pub fn init() {
    BASE.store(cpu::tsc(), Relaxed);
}

/// Sets the clock's and the timer's rate.
pub fn set_rates(rates: Rates) {
    let factor = (u128::from(rates.ns) << SHIFT) / u128::from(rates.tsc.max(1));
    FACTOR.store(factor as u64, Relaxed);
    apic::set_rate(rates.timer, rates.ns);
}

/// Converts counter value `tsc` to monotonic nanoseconds.
#[inline]
pub fn tsc_to_ns(tsc: u64) -> u64 {
    let counts = tsc.saturating_sub(BASE.load(Relaxed));
    ((u128::from(counts) * u128::from(FACTOR.load(Relaxed))) >> SHIFT) as u64
}

/// Returns the monotonic nanoseconds since boot.
#[inline]
pub fn now_ns() -> u64 {
    tsc_to_ns(cpu::tsc())
}

/// Fires this processor's timer at `deadline_ns`, or soon if that has passed; replaces the earlier
/// deadline.
pub fn set_timer(deadline_ns: u64) {
    let now_tsc = cpu::tsc();
    let ns = deadline_ns.saturating_sub(tsc_to_ns(now_tsc));
    let counts = (u128::from(ns) << SHIFT) / u128::from(FACTOR.load(Relaxed).max(1));
    apic::set_timer(ns, now_tsc.saturating_add(u64::try_from(counts).unwrap_or(u64::MAX >> 1)));
}

/// Returns the wall clock in nanoseconds since 1970-01-01 UTC.
pub fn wall_ns() -> u64 {
    now_ns().wrapping_add(WALL_OFFSET.load(Relaxed))
}

/// Sets the wall clock to `ns` since 1970-01-01 UTC.
pub fn set_wall_ns(ns: u64) {
    WALL_OFFSET.store(ns.wrapping_sub(now_ns()), Relaxed);
}

/// Returns the counter at monotonic time 0, the factor, and the wall clock minus the monotonic clock, for
/// the vDSO.
pub fn scale() -> (u64, u64, u64) {
    (BASE.load(Relaxed), FACTOR.load(Relaxed), WALL_OFFSET.load(Relaxed))
}
