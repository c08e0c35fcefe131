//! How many kernel objects of each type there are: nothing is leaked, and a test can see it.
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use program::ObjectCount;

/// Declares the types counted: name, and the name for people.
macro_rules! kinds {
    ($($(#[$meta:meta])* $kind:ident = $name:literal,)+) => {
        /// Types counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Kind {
            $($(#[$meta])* $kind,)+
        }
        const KINDS: &[(Kind, &str)] = &[$((Kind::$kind, $name),)+];
    };
}

kinds! {
    /// Threads that have not been reaped.
    Thread = "thread",
    /// Address spaces.
    Space = "space",
    /// Kernel stacks, cached ones too.
    Stack = "stack",
    /// Frames handed out through `rt` (each counted once, however many references).
    Frame = "frame",
    /// Frames of page tables of programs.
    TableFrame = "table frame",
    /// Large pages of programs.
    LargePage = "large page",
    /// Slabs of the kernel heap.
    Slab = "slab",
    /// Frames of large kernel allocations.
    LargeFrame = "large frame",
    /// Areas of extended processor state.
    ExtendedState = "extended state",
    /// Interrupts held by drivers.
    Interrupt = "interrupt",
    /// Objects of the kernel heap in use (those in slabs; how many were ever made is not counted).
    HeapObject = "heap object",
    /// Isolated components.
    Domain = "domain",
    /// Frames charged to them.
    DomainFrame = "domain frame",
}

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
