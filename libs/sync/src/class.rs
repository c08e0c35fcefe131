//! Lock classes: the name under which a family of locks is counted and order-checked (M4).
//!
//! A class is a `static`. With `statistics` or `check` it enters a lock-free list at its first use;
//! nothing ever leaves the list, so reading it takes no lock. Counters are relaxed atomics: a
//! report is not one instant's picture.
use alloc::vec::Vec;
#[cfg(any(feature = "statistics", feature = "check"))]
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

/// A family of locks that guard the same kind of data.
#[derive(Debug)]
pub struct LockClass {
    name: &'static str,
    is_nestable: bool,
    #[cfg(any(feature = "statistics", feature = "check"))]
    list: ListEntry,
    #[cfg(feature = "statistics")]
    counters: counters::Counters,
}

#[cfg(any(feature = "statistics", feature = "check"))]
#[derive(Debug)]
struct ListEntry {
    /// Number of the class, from 1; zero until the class enters the list.
    number: AtomicU32,
    next: AtomicPtr<LockClass>,
}

#[cfg(any(feature = "statistics", feature = "check"))]
static HEAD: AtomicPtr<LockClass> = AtomicPtr::new(core::ptr::null_mut());
#[cfg(any(feature = "statistics", feature = "check"))]
static NUMBERS: AtomicU32 = AtomicU32::new(0);

/// The order in which locks of one class are taken.
enum Nesting {
    ByAddress,
    ByUser,
}

impl LockClass {
    /// Makes a class. Two of its locks may be held at once only in ascending address order.
    pub const fn new(name: &'static str) -> LockClass {
        LockClass::with(name, Nesting::ByAddress)
    }

    /// Makes a class whose locks form a hierarchy that the user orders (parent before child).
    pub const fn nestable(name: &'static str) -> LockClass {
        LockClass::with(name, Nesting::ByUser)
    }

    const fn with(name: &'static str, nesting: Nesting) -> LockClass {
        LockClass {
            name,
            is_nestable: matches!(nesting, Nesting::ByUser),
            #[cfg(any(feature = "statistics", feature = "check"))]
            list: ListEntry {
                number: AtomicU32::new(0),
                next: AtomicPtr::new(core::ptr::null_mut()),
            },
            #[cfg(feature = "statistics")]
            counters: counters::Counters::new(),
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns whether its locks may be held together in any order.
    pub fn is_nestable(&self) -> bool {
        self.is_nestable
    }

    /// Returns its number, from 1, in order of first use.
    #[cfg(any(feature = "statistics", feature = "check"))]
    pub(crate) fn number(&'static self) -> u32 {
        match self.list.number.load(Relaxed) {
            0 => self.enter_list(),
            number => number,
        }
    }

    #[cfg(any(feature = "statistics", feature = "check"))]
    #[cold]
    fn enter_list(&'static self) -> u32 {
        let number = NUMBERS.fetch_add(1, Relaxed) + 1;
        if let Err(other) = self.list.number.compare_exchange(0, number, Relaxed, Relaxed) {
            return other;
        }
        let this = core::ptr::from_ref(self).cast_mut();
        let mut head = HEAD.load(Relaxed);
        loop {
            self.list.next.store(head, Relaxed);
            match HEAD.compare_exchange_weak(head, this, Release, Relaxed) {
                Ok(_) => return number,
                Err(now) => head = now,
            }
        }
    }
}

/// The counts of one class of locks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The class.
    pub name: &'static str,
    /// Acquisitions tried, conditional ones included.
    pub attempts: u64,
    /// Number of these that found the lock taken.
    pub misses: u64,
    /// Times that a thread gave up the processor.
    pub reschedules: u64,
    /// Shortest wait of a miss, zero if there was none.
    pub shortest_ns: u64,
    /// Longest wait of a miss.
    pub longest_ns: u64,
    /// Sum of all waits.
    pub total_ns: u64,
}

/// Returns a report on every class used so far; empty without `statistics`.
pub fn reports() -> Vec<Report> {
    #[cfg(feature = "statistics")]
    return classes().map(|class| class.counters.report(class.name)).collect();
    #[cfg(not(feature = "statistics"))]
    Vec::new()
}

/// Iterates over every class used so far, last first.
#[cfg(any(feature = "statistics", feature = "check"))]
pub fn classes() -> impl Iterator<Item = &'static LockClass> {
    fn follow(link: &AtomicPtr<LockClass>) -> Option<&'static LockClass> {
        // SAFETY: the list holds null or pointers made from `&'static LockClass` in `enter_list`,
        // published by a release store.
        unsafe { link.load(Acquire).as_ref() }
    }
    core::iter::successors(follow(&HEAD), |class| follow(&class.list.next))
}

/// A lock's link to its class; empty without `statistics` and `check`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClassRef {
    #[cfg(any(feature = "statistics", feature = "check"))]
    pub(crate) class: &'static LockClass,
}

impl ClassRef {
    pub(crate) const fn new(class: &'static LockClass) -> ClassRef {
        #[cfg(not(any(feature = "statistics", feature = "check")))]
        let _ = class;
        ClassRef {
            #[cfg(any(feature = "statistics", feature = "check"))]
            class,
        }
    }

    /// Counts an acquisition that succeeded without waiting.
    #[inline]
    pub(crate) fn count_hit(self) {
        #[cfg(feature = "statistics")]
        {
            self.class.number();
            self.class.counters.attempt();
        }
    }

    /// Counts a conditional acquisition that was refused.
    #[inline]
    pub(crate) fn count_refusal(self) {
        #[cfg(feature = "statistics")]
        {
            self.class.number();
            self.class.counters.refusal();
        }
    }
}

/// The timer of one contended acquisition; empty without `statistics`.
pub(crate) struct Wait<P> {
    platform: core::marker::PhantomData<P>,
    #[cfg(feature = "statistics")]
    class: &'static LockClass,
    #[cfg(feature = "statistics")]
    since_ns: u64,
    #[cfg(feature = "statistics")]
    reschedules: u64,
}

impl<P: crate::Platform> Wait<P> {
    pub(crate) fn begin(class: ClassRef) -> Wait<P> {
        #[cfg(not(feature = "statistics"))]
        let _ = class;
        Wait {
            platform: core::marker::PhantomData,
            #[cfg(feature = "statistics")]
            class: class.class,
            #[cfg(feature = "statistics")]
            since_ns: P::now_ns(),
            #[cfg(feature = "statistics")]
            reschedules: 0,
        }
    }

    /// Counts that the thread is about to block.
    #[inline]
    pub(crate) fn reschedule(&mut self) {
        #[cfg(feature = "statistics")]
        {
            self.reschedules += 1;
        }
    }

    /// Counts the end of the wait: the lock is taken.
    pub(crate) fn end(self) {
        #[cfg(feature = "statistics")]
        {
            self.class.number();
            let waited_ns = P::now_ns().saturating_sub(self.since_ns);
            self.class.counters.miss(waited_ns, self.reschedules);
        }
    }
}

#[cfg(feature = "statistics")]
mod counters {
    use super::Report;
    use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[derive(Debug)]
    pub(super) struct Counters {
        attempts: AtomicU64,
        misses: AtomicU64,
        reschedules: AtomicU64,
        shortest_ns: AtomicU64,
        longest_ns: AtomicU64,
        total_ns: AtomicU64,
    }

    impl Counters {
        pub(super) const fn new() -> Counters {
            Counters {
                attempts: AtomicU64::new(0),
                misses: AtomicU64::new(0),
                reschedules: AtomicU64::new(0),
                shortest_ns: AtomicU64::new(u64::MAX),
                longest_ns: AtomicU64::new(0),
                total_ns: AtomicU64::new(0),
            }
        }

        pub(super) fn attempt(&self) {
            self.attempts.fetch_add(1, Relaxed);
        }

        pub(super) fn refusal(&self) {
            self.attempts.fetch_add(1, Relaxed);
            self.misses.fetch_add(1, Relaxed);
        }

        pub(super) fn miss(&self, waited_ns: u64, reschedules: u64) {
            self.refusal();
            self.reschedules.fetch_add(reschedules, Relaxed);
            self.shortest_ns.fetch_min(waited_ns, Relaxed);
            self.longest_ns.fetch_max(waited_ns, Relaxed);
            self.total_ns.fetch_add(waited_ns, Relaxed);
        }

        pub(super) fn report(&self, name: &'static str) -> Report {
            let shortest_ns = self.shortest_ns.load(Relaxed);
            Report {
                name,
                attempts: self.attempts.load(Relaxed),
                misses: self.misses.load(Relaxed),
                reschedules: self.reschedules.load(Relaxed),
                shortest_ns: if shortest_ns == u64::MAX { 0 } else { shortest_ns },
                longest_ns: self.longest_ns.load(Relaxed),
                total_ns: self.total_ns.load(Relaxed),
            }
        }
    }
}
