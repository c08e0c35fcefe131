//! Time: nanoseconds of any monotonic clock, as in the crate `recovery`.

/// Nanoseconds of a millisecond.
pub const MILLISECOND: u64 = 1_000_000;
/// Nanoseconds of a second.
pub const SECOND: u64 = 1000 * MILLISECOND;
/// The deadline of a timer that is not armed.
pub(crate) const NEVER: u64 = u64::MAX;

/// The tick of timestamps (RFC 7323): a millisecond, as on Linux.
pub(crate) const fn tick(now_ns: u64) -> u32 {
    (now_ns / recovery::TIMESTAMP_TICK_NS) as u32
}
