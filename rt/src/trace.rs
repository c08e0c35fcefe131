//! Trace points: a ring of the last records a processor, printed by a panic.
use alloc::vec::Vec;
pub use program::TraceRecord;

/// Records `name` with two numbers. Cost: one store burst, no lock.
pub fn point(name: &'static str, first: u64, second: u64) {
    crate::world::trace_point(name, first, second);
}

/// The last `count` records of all processors, oldest first; none where others' are not the component's to see.
pub fn last(count: usize) -> Vec<TraceRecord> {
    let mut all: Vec<TraceRecord> = crate::world::trace_last(count).collect();
    all.sort_unstable_by_key(|record| record.at_ns);
    all.split_off(all.len().saturating_sub(count))
}
