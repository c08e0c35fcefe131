//! The host world: rt on std, for `cargo test`, Miri and fuzzers.
//!
//! Threads are `std` threads, frames are words of an array, a `Space` is a map from page to frame,
//! devices are models that a test registers through [`control`]. All state belongs to the whole
//! process, as a machine has one set of hardware, except the state that [`control`] keeps per
//! thread so that tests can run side by side.
pub mod control;
pub(crate) mod device;
mod device_control;
pub(crate) mod memory;
pub(crate) mod message;
pub(crate) mod system;
pub(crate) mod thread;
pub(crate) mod time;
pub(crate) mod user;

use crate::power::Action;
use std::hash::{BuildHasher, RandomState};

/// Fills `out` from std's per-process random keys, which are unpredictable enough for tests.
pub(crate) fn entropy_fill(out: &mut [u8]) {
    for (index, chunk) in out.chunks_mut(8).enumerate() {
        let bytes = RandomState::new().hash_one(index).to_le_bytes();
        chunk.copy_from_slice(&bytes[..chunk.len()]);
    }
}

/// Keeps the seed for [`control::seeds`].
pub(crate) fn entropy_add(seed: [u64; 4]) {
    control::keep_seed(seed);
}

/// Unwinds with the action as payload, so that a test may catch it.
pub(crate) fn power_down(action: Action) -> ! {
    std::panic::panic_any(action)
}

/// Returns no records: only the kernel world sees those of all processors.
pub(crate) fn trace_last(_: usize) -> impl Iterator<Item = crate::trace::TraceRecord> {
    core::iter::empty()
}

/// Keeps the record for [`control::trace_records`].
pub(crate) fn trace_point(name: &'static str, first: u64, second: u64) {
    control::keep_trace((name, first, second));
}
