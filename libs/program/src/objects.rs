//! Counts of the nucleus's objects by type: the number alive and the number ever made.
use core::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// Declares the types that are counted, each with its name in reports.
macro_rules! kinds {
    ($($(#[$meta:meta])* $kind:ident = $name:literal,)+) => {
        /// A type of objects that are counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Kind {
            $($(#[$meta])* $kind,)+
        }
        /// Every type, with its name in reports.
        pub const KINDS: &[(Kind, &str)] = &[$((Kind::$kind, $name),)+];
    };
}

kinds! {
    /// Threads that have not been reaped.
    Thread = "thread",
    /// Address spaces.
    Space = "space",
    /// Kernel stacks, cached ones too.
    Stack = "stack",
    /// Frames allocated through `rt` (each counted once, however many references).
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
    /// Objects of the kernel heap in use (those in slabs; the number ever made is not counted).
    HeapObject = "heap object",
    /// Isolated components.
    Domain = "domain",
    /// Frames charged to isolated components.
    DomainFrame = "domain frame",
}

static LIVE: [AtomicI64; KINDS.len()] = [const { AtomicI64::new(0) }; KINDS.len()];
static MADE: [AtomicU64; KINDS.len()] = [const { AtomicU64::new(0) }; KINDS.len()];

/// Adds `by` to the number of objects of `kind`; `by` may be negative.
#[inline]
pub fn count(kind: Kind, by: i64) {
    LIVE[kind as usize].fetch_add(by, Relaxed);
    if by > 0 {
        MADE[kind as usize].fetch_add(by as u64, Relaxed);
    }
}

/// An object that is counted as long as this lives. The default counts nothing.
#[derive(Debug, Default)]
pub struct LiveObject(Option<Kind>);

impl LiveObject {
    /// Counts an object of `kind`.
    pub fn new(kind: Kind) -> LiveObject {
        count(kind, 1);
        LiveObject(Some(kind))
    }
}

impl Drop for LiveObject {
    fn drop(&mut self) {
        if let Some(kind) = self.0 {
            count(kind, -1);
        }
    }
}

/// Returns the number of objects of `kind` that exist.
pub fn live(kind: Kind) -> i64 {
    LIVE[kind as usize].load(Relaxed)
}

/// Returns the number of objects of `kind` that were ever counted.
pub fn made(kind: Kind) -> u64 {
    MADE[kind as usize].load(Relaxed)
}
