//! How many kernel objects of each type there are: nothing is leaked, and a test can see it.
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use program::ObjectCount;

/// Types counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Kind {
    /// Threads that have not been reaped.
    Thread,
    /// Address spaces.
    Space,
    /// Kernel stacks, cached ones too.
    Stack,
    /// Frames handed out through `rt` (each counted once, however many references).
    Frame,
    /// Frames of page tables of programs.
    TableFrame,
    /// Slabs of the kernel heap.
    Slab,
    /// Frames of large kernel allocations.
    LargeFrame,
    /// Areas of extended processor state.
    ExtendedState,
    /// Interrupts held by drivers.
    Interrupt,
    /// Objects of the kernel heap in use (those in slabs; how many were ever made is not counted).
    HeapObject,
    /// Isolated components.
    Domain,
    /// Frames charged to them.
    DomainFrame,
}

const KINDS: [(Kind, &str); 12] = [
    (Kind::Thread, "thread"),
    (Kind::Space, "space"),
    (Kind::Stack, "stack"),
    (Kind::Frame, "frame"),
    (Kind::TableFrame, "table frame"),
    (Kind::Slab, "slab"),
    (Kind::LargeFrame, "large frame"),
    (Kind::ExtendedState, "extended state"),
    (Kind::Interrupt, "interrupt"),
    (Kind::HeapObject, "heap object"),
    (Kind::Domain, "domain"),
    (Kind::DomainFrame, "domain frame"),
];
static LIVE: [AtomicI64; KINDS.len()] = [const { AtomicI64::new(0) }; KINDS.len()];
static MADE: [AtomicU64; KINDS.len()] = [const { AtomicU64::new(0) }; KINDS.len()];

/// Counts `by` objects of `kind` more (or fewer).
#[inline]
pub fn count(kind: Kind, by: i64) {
    LIVE[kind as usize].fetch_add(by, Relaxed);
    if by > 0 {
        MADE[kind as usize].fetch_add(by as u64, Relaxed);
    }
}

/// Objects of `kind` now.
pub fn of(kind: Kind) -> i64 {
    match kind {
        Kind::Frame => crate::memory::frames::counted().0 as i64,
        Kind::HeapObject => crate::memory::heap::live_objects() as i64,
        _ => LIVE[kind as usize].load(Relaxed),
    }
}

fn made(kind: Kind) -> u64 {
    match kind {
        Kind::Frame => crate::memory::frames::counted().1,
        _ => MADE[kind as usize].load(Relaxed),
    }
}

/// How many of every type there are, and were ever made.
pub fn all() -> Vec<ObjectCount> {
    let count = |&(kind, name)| {
        let live = u64::try_from(of(kind)).unwrap_or(0);
        ObjectCount { name, live, made: made(kind) }
    };
    KINDS.iter().map(count).collect()
}
