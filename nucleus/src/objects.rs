//! Counts of kernel objects by type, by which tests detect leaks.
use alloc::vec::Vec;
use program::ObjectCount;
pub use program::objects::{KINDS, Kind, LiveObject, count};
use program::objects::{live, made as counted};

/// Returns the number of objects of `kind` now.
pub fn of(kind: Kind) -> i64 {
    match kind {
        Kind::Frame => crate::memory::frames::counted().0 as i64,
        Kind::HeapObject => crate::memory::heap::live_objects() as i64,
        _ => live(kind),
    }
}

fn made(kind: Kind) -> u64 {
    match kind {
        Kind::Frame => crate::memory::frames::counted().1,
        _ => counted(kind),
    }
}

/// Returns for each type the number of objects now and the number ever made.
pub fn all() -> Vec<ObjectCount> {
    let count = |&(kind, name)| {
        let live = u64::try_from(of(kind)).unwrap_or(0);
        ObjectCount { name, live, made: made(kind) }
    };
    KINDS.iter().map(count).collect()
}
