//! Trace points: a ring of the last records a processor, printed by a panic.
/// Records `name` with two numbers. Cost: one store burst, no lock.
pub fn point(name: &'static str, first: u64, second: u64) {
    crate::world::trace_point(name, first, second);
}
