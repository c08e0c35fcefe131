//! Trace points: a ring of the last records for each processor, which a panic prints.
use alloc::vec::Vec;
pub use program::TraceRecord;

/// Records `name` with two numbers. Cost: one store burst, no lock.
pub fn point(name: &'static str, first: u64, second: u64) {
    crate::world::trace_point(name, first, second);
}

/// Returns the last `count` records of all processors, oldest first; none if the component may not see those of
/// others.
pub fn last(count: usize) -> Vec<TraceRecord> {
    let mut all = Vec::from_iter(crate::world::trace_last(count));
    all.sort_unstable_by_key(|record| record.at_ns);
    all.split_off(all.len().saturating_sub(count))
}
