//! Time of the process world: the processor's counter is read in place. Its scale was asked for
//! once.
use super::call::ask;
use calls::Call;
use core::{
    arch::x86_64::_rdtsc,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
use program::SCALE_SHIFT;

/// The counter's value at time 0.
static BASE: AtomicU64 = AtomicU64::new(0);
/// Nanoseconds per count, times 2^32.
static FACTOR: AtomicU64 = AtomicU64::new(0);

/// Asks for the counter at time 0, the factor, and the wall clock minus the monotonic clock.
fn clock() -> [u64; 3] {
    ask(Call::Clock, &[]).unwrap_or([0; 3])
}

/// Asks for the scale of the counter. Before that the time is 0.
pub(super) fn init() {
    let [base, factor, _] = clock();
    BASE.store(base, Relaxed);
    FACTOR.store(factor, Relaxed);
}

pub(crate) fn now_ns() -> u64 {
    // SAFETY: every x86-64 processor has the counter, and the nucleus lets components read it.
    let counter = unsafe { _rdtsc() };
    let counts = counter.saturating_sub(BASE.load(Relaxed));
    ((u128::from(counts) * u128::from(FACTOR.load(Relaxed))) >> SCALE_SHIFT) as u64
}

/// Reads the wall clock by one kernel call, because it may be set at any time.
pub(crate) fn wall_ns() -> u64 {
    now_ns().wrapping_add(clock()[2])
}

/// Does nothing but log: no isolated component may set the wall clock.
pub(crate) fn set_wall_ns(_ns: u64) {
    ::log::warn!("an isolated component may not set the wall clock");
}

pub(crate) fn scale() -> Option<(u64, u64, u64)> {
    Some(clock().into())
}
