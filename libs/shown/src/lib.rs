//! Uses of a component's pages that the programs of the component and the devices of others may have, too.
//!
//! The component counts its own references. Those of programs and devices are counted by the nucleus, which is asked for them. A
//! page that was never *shown* has none of these, so nothing is asked. A page is shown before a program or a device may get it,
//! and by a holder of a reference only.
//!
//! ```text
//! begin         references 1, not shown
//! show          shown
//! release       references - 1; the last one makes a page free that is not shown or that nobody else has; any other page waits
//! take_waiting  a page that waits and that nobody has any more becomes free
//! claim         references 1 -> 2, of a page that nobody else has (a page of a run, whose first reference is that of the run)
//! ```
//! All operations are lock-free and allocate nothing. A page becomes free in exactly one of them, and not before the last user has
//! let it go (`tests/model.rs`, with loom). All zeroes are the state of pages without references.
#![cfg_attr(not(any(test, loom)), no_std)]
#![forbid(unsafe_code)]

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

/// The state of a page after a reference was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// It has other references.
    Used,
    /// It is free, and the caller's.
    Free,
    /// It has no references here. Somebody else may have it.
    Waits,
}

/// The uses of `PAGES` pages, of at most 64 times `WORDS`.
#[derive(Debug)]
#[repr(C)]
pub struct Uses<const PAGES: usize, const WORDS: usize> {
    counts: [AtomicU32; PAGES],
    /// The pages that were shown since they got their first reference, a bit each.
    shown: [AtomicU64; WORDS],
    /// The pages without references here that others may have, a bit each.
    waiting: [AtomicU64; WORDS],
}

impl<const PAGES: usize, const WORDS: usize> Default for Uses<PAGES, WORDS> {
    fn default() -> Self {
        use core::array::from_fn;
        Uses {
            counts: from_fn(|_| AtomicU32::new(0)),
            shown: from_fn(|_| AtomicU64::new(0)),
            waiting: from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl<const PAGES: usize, const WORDS: usize> Uses<PAGES, WORDS> {
    /// Returns the count of a page.
    ///
    /// # Panics
    /// Panics if there is no such page.
    #[inline]
    fn count(&self, page: usize) -> &AtomicU32 {
        self.counts.get(page).unwrap_or_else(|| panic!("there is no page {page}"))
    }

    /// Returns the word of `bits` with the bit of a page, and that bit.
    fn bit(bits: &[AtomicU64; WORDS], page: usize) -> (&AtomicU64, u64) {
        let word = bits.get(page / 64);
        (word.unwrap_or_else(|| panic!("there is no page {page}")), 1 << (page % 64))
    }

    /// Gives a free page its first reference.
    pub fn begin(&self, page: usize) {
        self.count(page).store(1, Release);
    }

    /// Adds a reference; the caller has one.
    ///
    /// # Panics
    /// Panics if the page has none.
    pub fn retain(&self, page: usize) {
        let before = self.count(page).fetch_add(1, Relaxed);
        assert!(before > 0, "a free page was counted up");
    }

    /// Returns the number of references.
    pub fn references(&self, page: usize) -> u32 {
        self.count(page).load(Acquire)
    }

    /// Returns whether the page was shown. The caller has a reference.
    pub fn is_shown(&self, page: usize) -> bool {
        let (word, bit) = Self::bit(&self.shown, page);
        word.load(Acquire) & bit != 0
    }

    /// Notes that others may get the page from now on. The caller has a reference.
    pub fn show(&self, page: usize) {
        let (word, bit) = Self::bit(&self.shown, page);
        word.fetch_or(bit, AcqRel);
    }

    /// Drops a reference. `is_elsewhere` asks whether others have the page. The number of pages that wait is counted in `waiting`.
    ///
    /// # Panics
    /// Panics if the page has no reference.
    pub fn release(
        &self,
        page: usize,
        waiting: &AtomicUsize,
        is_elsewhere: impl FnOnce() -> bool,
    ) -> Dropped {
        let before = self.count(page).fetch_sub(1, AcqRel);
        assert!(before > 0, "a free page was counted down");
        if before > 1 {
            return Dropped::Used;
        }
        if self.take_back(page, is_elsewhere) {
            return Dropped::Free;
        }
        // Counted first, so that whoever takes the page finds it counted.
        waiting.fetch_add(1, Relaxed);
        let (word, bit) = Self::bit(&self.waiting, page);
        word.fetch_or(bit, AcqRel);
        Dropped::Waits
    }

    /// Takes a page without references from those that wait, if it waits and nobody has it. Returns whether it is free, and the
    /// caller's. One thread at a time calls this.
    pub fn take_waiting(
        &self,
        page: usize,
        waiting: &AtomicUsize,
        is_elsewhere: impl FnOnce() -> bool,
    ) -> bool {
        let (word, bit) = Self::bit(&self.waiting, page);
        let is_free = word.load(Acquire) & bit != 0 && self.take_back(page, is_elsewhere);
        if is_free {
            word.fetch_and(!bit, AcqRel);
            waiting.fetch_sub(1, Relaxed);
        }
        is_free
    }

    /// Adds a reference to a page that has exactly one, if nobody else has it. Returns whether it did.
    pub fn claim(&self, page: usize, is_elsewhere: impl FnOnce() -> bool) -> bool {
        let count = self.count(page);
        if count.load(Relaxed) != 1 || count.compare_exchange(1, 2, Acquire, Relaxed).is_err() {
            return false;
        }
        let is_free = self.take_back(page, is_elsewhere);
        if !is_free {
            count.fetch_sub(1, Release);
        }
        is_free
    }

    /// Returns whether a page, to which no reference is left here but the caller's, was not shown or is nowhere else. It is not
    /// shown then: nobody can get it but through a reference.
    fn take_back(&self, page: usize, is_elsewhere: impl FnOnce() -> bool) -> bool {
        if !self.is_shown(page) {
            return true;
        }
        let is_back = !is_elsewhere();
        if is_back {
            let (word, bit) = Self::bit(&self.shown, page);
            word.fetch_and(!bit, AcqRel);
        }
        is_back
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_was_never_shown_is_asked_for_by_nobody() {
        let (uses, waiting) = (Uses::<70, 2>::default(), AtomicUsize::new(0));
        let never = || unreachable!("asked");
        uses.begin(69);
        uses.retain(69);
        assert_eq!(uses.release(69, &waiting, never), Dropped::Used);
        assert_eq!(uses.release(69, &waiting, never), Dropped::Free);
        assert!(!uses.take_waiting(69, &waiting, never));
    }

    #[test]
    fn a_shown_page_waits_for_the_last_to_have_it() {
        let (uses, waiting) = (Uses::<70, 2>::default(), AtomicUsize::new(0));
        uses.begin(3);
        uses.show(3);
        assert_eq!(uses.release(3, &waiting, || true), Dropped::Waits);
        assert_eq!(waiting.load(Relaxed), 1);
        assert!(!uses.take_waiting(3, &waiting, || true));
        assert!(uses.take_waiting(3, &waiting, || false));
        assert!(!uses.take_waiting(3, &waiting, || false));
        assert_eq!(waiting.load(Relaxed), 0);
        uses.begin(3);
        assert!(!uses.is_shown(3));
    }

    #[test]
    fn a_page_is_claimed_by_one() {
        let uses = Uses::<1, 1>::default();
        uses.begin(0);
        assert!(uses.claim(0, || false) && !uses.claim(0, || false));
        assert_eq!(uses.references(0), 2);
        let waiting = AtomicUsize::new(0);
        assert_eq!(uses.release(0, &waiting, || false), Dropped::Used);
        uses.show(0);
        assert!(!uses.claim(0, || true));
        assert_eq!(uses.references(0), 1);
        assert!(uses.claim(0, || false) && !uses.is_shown(0));
    }
}
