//! Real-time clocks.
use interfaces_macro::interface;

/// A clock that runs while the machine is off.
#[interface(number = 1)]
pub trait Clock: Send + Sync {
    /// Nanoseconds since 1970-01-01 UTC, or `None` if the clock's registers are invalid.
    #[idempotent]
    fn read_ns(&self) -> Option<u64>;
}
