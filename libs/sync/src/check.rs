//! Debug checks of the lock kit (M3): each report names both places.
//!
//! Every thread has a [`HeldLocks`] list of the locks it holds, with the places where it took them. A
//! graph of classes, for all threads together, has an edge for each pair of classes of which one was
//! taken while the other was held, with the two places of the first time; taking B under A when B
//! ever came (also indirectly) before A is an inversion, whether or not it deadlocked this time.
//! Conditional acquisitions cannot deadlock and add no edge. The graph's edges live in a fixed
//! lock-free hash table; when it is full, further edges go unchecked. Source: Mach's simple-lock
//! debugging; Linux's lockdep.
use crate::{Platform, class::LockClass};
use core::{
    fmt,
    panic::Location,
    ptr,
    sync::atomic::{AtomicPtr, AtomicU32, Ordering::*},
};

/// The type of a lock, and of a reader/writer lock the kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// A spin lock.
    Spin,
    /// A mutex.
    Mutex,
    /// A reader/writer lock, to read.
    Read,
    /// A reader/writer lock, to write.
    Write,
}

/// A lock that is held.
#[derive(Clone, Copy, Debug)]
pub struct HeldLock {
    address: usize,
    /// Its class.
    pub class: &'static LockClass,
    /// Its type and the kind of access.
    pub kind: LockKind,
    /// The place where it was taken.
    pub place: &'static Location<'static>,
}

/// The greatest number of locks in a thread's list; further ones are not checked.
const DEPTH: usize = 24;

/// The locks that a thread holds, in the order in which it took them.
#[derive(Clone, Debug)]
pub struct HeldLocks {
    entries: [Option<HeldLock>; DEPTH],
    count: usize,
    unlisted: usize,
    wanted: Option<(&'static LockClass, &'static Location<'static>)>,
}

impl HeldLocks {
    /// Makes an empty list.
    pub const fn new() -> HeldLocks {
        HeldLocks { entries: [None; DEPTH], count: 0, unlisted: 0, wanted: None }
    }

    /// Iterates over the held locks, first taken first.
    pub fn entries(&self) -> impl Iterator<Item = &HeldLock> {
        self.entries.iter().take(self.count).flatten()
    }

    /// Returns the class of the lock that the thread waits for, and the place where it asked for it.
    pub fn wanted(&self) -> Option<(&'static LockClass, &'static Location<'static>)> {
        self.wanted
    }

    fn push(&mut self, entry: HeldLock) {
        self.wanted = None;
        match self.entries.get_mut(self.count) {
            Some(slot) => {
                *slot = Some(entry);
                self.count += 1;
            }
            None => self.unlisted += 1,
        }
    }

    /// Removes the entry of `address`. Returns `false` if there is none and none was left out.
    fn remove(&mut self, address: usize) -> bool {
        let position = self.entries().position(|entry| entry.address == address);
        if let Some(position) = position {
            self.entries[position..self.count].rotate_left(1);
            self.count -= 1;
            self.entries[self.count] = None;
            return true;
        }
        let was_unlisted = self.unlisted > 0;
        self.unlisted = self.unlisted.saturating_sub(1);
        was_unlisted
    }
}

impl Default for HeldLocks {
    fn default() -> Self {
        HeldLocks::new()
    }
}

/// A broken rule.
#[derive(Clone, Copy, Debug)]
pub enum Violation {
    /// The thread holds this very lock already.
    Retaken {
        /// The held lock.
        held: HeldLock,
        /// The place where the thread takes it again.
        place: &'static Location<'static>,
    },
    /// The thread releases a lock that it does not hold.
    ForeignUnlock {
        /// The lock's class.
        class: &'static LockClass,
        /// The place where it releases the lock.
        place: &'static Location<'static>,
    },
    /// The thread may block here while it holds a spin lock.
    BlocksUnderSpin {
        /// The spin lock.
        held: HeldLock,
        /// The place where it may block.
        place: &'static Location<'static>,
    },
    /// The classes were taken the other way round before.
    Inversion {
        /// The held lock.
        held: HeldLock,
        /// The class of the wanted lock.
        class: &'static LockClass,
        /// The place where it is wanted.
        place: &'static Location<'static>,
        /// The place where a lock of the wanted class was held then.
        earlier_held: &'static Location<'static>,
        /// The place where a lock was taken under it: the first step back to the class held now.
        earlier_taken: &'static Location<'static>,
    },
    /// Two locks of one class, not in ascending address order.
    SameClass {
        /// The held lock.
        held: HeldLock,
        /// The place where the other is wanted.
        place: &'static Location<'static>,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Retaken { held, place } => {
                let HeldLock { class, place: first, .. } = held;
                write!(f, "lock {} taken at {first} is taken again at {place}", class.name())
            }
            Violation::ForeignUnlock { class, place } => write!(
                f,
                "lock {} is released at {place} by a thread that did not take it",
                class.name()
            ),
            Violation::BlocksUnderSpin { held, place } => {
                let HeldLock { class, place: first, .. } = held;
                write!(f, "may block at {place} with spin lock {} taken at {first}", class.name())
            }
            Violation::Inversion { held, class, place, earlier_held, earlier_taken } => write!(
                f,
                "lock order inversion: {} is taken at {place} under {} taken at {}, but {} was \
                 held (taken at {earlier_held}) on the way to {} (first step at {earlier_taken})",
                class.name(),
                held.class.name(),
                held.place,
                class.name(),
                held.class.name()
            ),
            Violation::SameClass { held, place } => {
                let HeldLock { class, place: first, .. } = held;
                write!(
                    f,
                    "a second lock {} is taken at {place} under the one taken at {first}, not in \
                     address order (or take a nestable class)",
                    class.name()
                )
            }
        }
    }
}

#[cold]
#[track_caller]
fn report(violation: Violation) -> ! {
    panic!("{violation}")
}

/// Checks before the thread waits for a blocking lock.
#[track_caller]
pub(crate) fn before_blocking<P: Platform>(address: usize, class: &'static LockClass, _: LockKind) {
    before::<P>(address, class);
    may_block::<P>();
}

/// Checks before the thread waits for a lock.
#[track_caller]
pub(crate) fn before<P: Platform>(address: usize, class: &'static LockClass) {
    let place = Location::caller();
    let mut violation = None;
    P::held(&mut |held| {
        violation = held.entries().find_map(|entry| judge(entry, address, class, place));
        held.wanted = Some((class, place));
    });
    if let Some(violation) = violation {
        report(violation);
    }
}

/// Checks before the thread may block.
#[track_caller]
pub(crate) fn may_block<P: Platform>() {
    let place = Location::caller();
    let mut spin = None;
    P::held(&mut |held| spin = held.entries().find(|entry| entry.kind == LockKind::Spin).copied());
    if let Some(held) = spin {
        report(Violation::BlocksUnderSpin { held, place });
    }
}

/// Records that the thread has taken the lock.
#[track_caller]
pub(crate) fn acquired<P: Platform>(address: usize, class: &'static LockClass, kind: LockKind) {
    let place = Location::caller();
    P::held(&mut |held| held.push(HeldLock { address, class, kind, place }));
}

/// Checks and records that the thread is about to release the lock.
#[track_caller]
pub(crate) fn released<P: Platform>(address: usize, class: &'static LockClass) {
    let mut was_held = true;
    P::held(&mut |held| was_held = held.remove(address));
    if !was_held {
        report(Violation::ForeignUnlock { class, place: Location::caller() });
    }
}

fn judge(
    held: &HeldLock,
    address: usize,
    class: &'static LockClass,
    place: &'static Location<'static>,
) -> Option<Violation> {
    if held.address == address {
        return Some(Violation::Retaken { held: *held, place });
    }
    if ptr::eq(held.class, class) {
        let is_allowed = class.is_nestable() || held.address < address;
        return (!is_allowed).then_some(Violation::SameClass { held: *held, place });
    }
    let (from, to) = (held.class.number(), class.number());
    if is_known(from, to) {
        return None;
    }
    if let Some((earlier_held, earlier_taken)) = first_step(to, from) {
        return Some(Violation::Inversion {
            held: *held,
            class,
            place,
            earlier_held,
            earlier_taken,
        });
    }
    insert(from, to, held.place, place);
    None
}

/// An edge "to was taken under from", with the places of the first time.
struct Edge {
    /// `from << 16 | to`; zero while the slot is free.
    key: AtomicU32,
    held: AtomicPtr<Location<'static>>,
    taken: AtomicPtr<Location<'static>>,
}

const EDGES: usize = 2048;
/// The greatest number of classes that the search for a path can mark.
const CLASSES: usize = 512;

static GRAPH: [Edge; EDGES] = [const {
    Edge {
        key: AtomicU32::new(0),
        held: AtomicPtr::new(ptr::null_mut()),
        taken: AtomicPtr::new(ptr::null_mut()),
    }
}; EDGES];

type Places = (&'static Location<'static>, &'static Location<'static>);

impl Edge {
    /// The two places; `None` while the thread that made the edge has not stored them yet.
    fn places(&self) -> Option<Places> {
        // SAFETY: null, or made from a `&'static Location` in `insert`.
        let taken = unsafe { self.taken.load(Acquire).as_ref() }?;
        // SAFETY: as above; stored before `taken` was released.
        let held = unsafe { self.held.load(Relaxed).as_ref() }?;
        Some((held, taken))
    }
}

fn key(from: u32, to: u32) -> Option<u32> {
    let fits = (from as usize) < CLASSES && (to as usize) < CLASSES;
    fits.then_some(from << 16 | to)
}

/// Returns the slots in which `key` may be, in probing order.
fn slots(key: u32) -> impl Iterator<Item = &'static Edge> {
    let start = key.wrapping_mul(0x9e37_79b1) as usize >> 8;
    (0..EDGES).map(move |step| &GRAPH[(start + step) % EDGES])
}

/// Returns whether the edge is in the graph. Classes beyond the table's numbers are not checked.
fn is_known(from: u32, to: u32) -> bool {
    let Some(key) = key(from, to) else { return true };
    let found =
        slots(key).map(|edge| edge.key.load(Acquire)).find(|found| *found == key || *found == 0);
    found != Some(0)
}

fn insert(from: u32, to: u32, held: &'static Location<'static>, taken: &'static Location<'static>) {
    let Some(key) = key(from, to) else { return };
    for edge in slots(key) {
        match edge.key.compare_exchange(0, key, AcqRel, Acquire) {
            Ok(_) => {
                edge.held.store(ptr::from_ref(held).cast_mut(), Relaxed);
                edge.taken.store(ptr::from_ref(taken).cast_mut(), Release);
                return;
            }
            Err(found) if found == key => return,
            Err(_) => {}
        }
    }
}

/// Returns the places of the first edge of a path from `from` to `to` in the graph; `None` if there
/// is no path.
fn first_step(from: u32, to: u32) -> Option<Places> {
    key(from, to)?;
    successors(from).find_map(
        |(next, edge)| {
            if next == to || leads_to(next, to) { edge.places() } else { None }
        },
    )
}

fn successors(from: u32) -> impl Iterator<Item = (u32, &'static Edge)> {
    GRAPH.iter().filter_map(move |edge| {
        let key = edge.key.load(Acquire);
        (key != 0 && key >> 16 == from).then_some((key & 0xffff, edge))
    })
}

/// Searches breadth-first over a bit set, without allocation and recursion.
fn leads_to(from: u32, to: u32) -> bool {
    let mut seen = [0_u64; CLASSES / 64];
    let mut pending = [0_u64; CLASSES / 64];
    let bit = |class: u32| (class as usize / 64, 1_u64 << (class % 64));
    let (word, mask) = bit(from);
    pending[word] |= mask;
    while let Some(word) = pending.iter().position(|word| *word != 0) {
        let class = word as u32 * 64 + pending[word].trailing_zeros();
        pending[word] &= pending[word] - 1;
        seen[word] |= 1 << (class % 64);
        for (next, _) in successors(class) {
            if next == to {
                return true;
            }
            let (word, mask) = bit(next);
            if seen[word] & mask == 0 {
                pending[word] |= mask;
            }
        }
    }
    false
}
