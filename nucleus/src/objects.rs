//! How many kernel objects of each type there are: nothing is leaked, and a test can see it.
use core::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

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
}

const NAMES: [&str; 10] = [
    "thread",
    "space",
    "stack",
    "frame",
    "table frame",
    "slab",
    "large frame",
    "extended state",
    "interrupt",
    "heap object",
];
static LIVE: [AtomicI64; NAMES.len()] = [const { AtomicI64::new(0) }; NAMES.len()];
static MADE: [AtomicU64; NAMES.len()] = [const { AtomicU64::new(0) }; NAMES.len()];

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

/// Every type's name, how many there are, and how many were ever made.
pub fn all() -> [(&'static str, i64, u64); NAMES.len()] {
    use Kind::{
        ExtendedState, Frame, HeapObject, Interrupt, LargeFrame, Slab, Space, Stack, TableFrame,
        Thread,
    };
    let kinds = [
        Thread,
        Space,
        Stack,
        Frame,
        TableFrame,
        Slab,
        LargeFrame,
        ExtendedState,
        Interrupt,
        HeapObject,
    ];
    kinds.map(|kind| (NAMES[kind as usize], of(kind), made(kind)))
}
