//! Time of the host world, from std's clocks.
use std::sync::{
    LazyLock,
    atomic::{AtomicI64, Ordering::Relaxed},
};

/// "Boot": the first time at which the clock was read.
static START: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
/// Offset that `set_wall_ns` added to the host's wall clock.
static WALL_OFFSET_NS: AtomicI64 = AtomicI64::new(0);

pub(crate) fn now_ns() -> u64 {
    START.elapsed().as_nanos() as u64
}

/// Converts a time to std's clock.
pub(crate) fn host_instant(at_ns: u64) -> std::time::Instant {
    let far = std::time::Duration::from_secs(86_400 * 365);
    *START + std::time::Duration::from_nanos(at_ns).min(far)
}

fn host_wall_ns() -> i64 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    since.as_nanos() as i64
}

pub(crate) fn wall_ns() -> u64 {
    host_wall_ns().saturating_add(WALL_OFFSET_NS.load(Relaxed)) as u64
}

pub(crate) fn set_wall_ns(ns: u64) {
    WALL_OFFSET_NS.store((ns as i64).saturating_sub(host_wall_ns()), Relaxed);
}

pub(crate) fn scale() -> Option<(u64, u64, u64)> {
    None
}
