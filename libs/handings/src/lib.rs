//! Counts of a component's references to frames that clients keep for it.
//!
//! A client *hands* a frame over by its number and keeps the frame until it is told that the component has dropped it. The
//! component counts its references itself, and how often the frame was handed since the last report. The report names that
//! number, so a client that hands a frame again at the same time still knows that the frame is in use.
//!
//! ```text
//! word of a frame        63 handings 32 | 31 references 0
//! handed                 both + 1
//! lent, cloned           references + 1
//! dropped                references - 1; a frame without references that was handed is marked
//! reported               of the marked frames, those that still are without references: the word becomes 0
//! ```
//! All operations are lock-free and allocate nothing. A mark is a bit of the frame's group and a bit of the group in
//! `groups`; it only says that the frame's word is to be looked at. The mark is set after the word has changed and cleared
//! before the word is looked at, so no dropped frame is missed (`tests/model.rs`, with loom).
#![cfg_attr(not(any(test, loom)), no_std)]
#![forbid(unsafe_code)]

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

#[cfg(not(loom))]
use core::sync::atomic::AtomicU64;
#[cfg(loom)]
use loom::sync::atomic::AtomicU64;

/// Frames of a group.
const GROUP: usize = 64;
const HANDING: u64 = 1 << 32;

/// The counts of 64 times `GROUPS` frames, of at most 64 groups.
#[derive(Debug)]
pub struct Handings<const GROUPS: usize> {
    words: [[AtomicU64; GROUP]; GROUPS],
    /// Marks of the frames of each group.
    marks: [AtomicU64; GROUPS],
    /// Marks of the groups.
    groups: AtomicU64,
}

fn references_in(word: u64) -> u32 {
    word as u32
}

fn handings_in(word: u64) -> u32 {
    (word >> 32) as u32
}

/// Returns the numbers of the bits of `bits`.
fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let bit = (bits != 0).then(|| bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        bit
    })
}

impl<const GROUPS: usize> Default for Handings<GROUPS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const GROUPS: usize> Handings<GROUPS> {
    /// Makes counts of zero.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Handings {
            words: [const { [const { AtomicU64::new(0) }; GROUP] }; GROUPS],
            marks: [const { AtomicU64::new(0) }; GROUPS],
            groups: AtomicU64::new(0),
        }
    }

    /// Makes counts of zero.
    #[cfg(loom)]
    pub fn new() -> Self {
        use core::array::from_fn;
        let zero = |_| AtomicU64::new(0);
        Handings {
            words: from_fn(|_| from_fn(zero)),
            marks: from_fn(zero),
            groups: AtomicU64::new(0),
        }
    }

    #[inline]
    fn word(&self, frame: usize) -> Option<&AtomicU64> {
        self.words.as_flattened().get(frame)
    }

    /// Adds `by` to the word of `frame`. Returns the references before; 0 if there is no such frame.
    #[inline]
    fn add(&self, frame: usize, by: u64) -> u32 {
        self.word(frame).map_or(0, |word| references_in(word.fetch_add(by, Relaxed)))
    }

    /// Counts a handing, which is a reference too.
    #[inline]
    pub fn hand(&self, frame: usize) {
        self.add(frame, HANDING + 1);
    }

    /// Adds a reference. Returns how many there were.
    #[inline]
    pub fn retain(&self, frame: usize) -> u32 {
        self.add(frame, 1)
    }

    /// Returns the number of references.
    #[inline]
    pub fn references(&self, frame: usize) -> u32 {
        self.word(frame).map_or(0, |word| references_in(word.load(Acquire)))
    }

    /// Drops a reference; there must be one. Returns how many there were.
    #[inline]
    pub fn release(&self, frame: usize) -> u32 {
        let Some(word) = self.word(frame) else { return 0 };
        let before = word.fetch_sub(1, Release);
        if references_in(before) == 1 && handings_in(before) > 0 {
            self.mark(frame);
        }
        references_in(before)
    }

    fn mark(&self, frame: usize) {
        let group = frame / GROUP;
        if let Some(marks) = self.marks.get(group) {
            marks.fetch_or(1 << (frame % GROUP), Release);
            self.groups.fetch_or(1 << group, Release);
        }
    }

    /// Calls `report` with each frame that was handed and dropped since, and how often it was handed. Costs one load if there
    /// is none.
    #[inline]
    pub fn take_dropped(&self, report: &mut impl FnMut(usize, u32)) {
        if self.groups.load(Relaxed) != 0 {
            self.take_marked(report);
        }
    }

    fn take_marked(&self, report: &mut impl FnMut(usize, u32)) {
        for group in ones(self.groups.swap(0, Acquire)) {
            let marks = self.marks.get(group).map_or(0, |marks| marks.swap(0, Acquire));
            for frame in ones(marks).map(|bit| group * GROUP + bit) {
                let handings = self.word(frame).map_or(0, end_handings);
                if handings > 0 {
                    report(frame, handings);
                }
            }
        }
    }
}

/// Takes the handings of a frame without references. Returns their number; 0 if the frame has references. If the word changes
/// meanwhile, another report took them, or the frame has got a reference, whose drop marks it again.
fn end_handings(word: &AtomicU64) -> u32 {
    let now = word.load(Relaxed);
    if references_in(now) > 0 || word.compare_exchange(now, 0, Acquire, Relaxed).is_err() {
        return 0;
    }
    handings_in(now)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn dropped<const GROUPS: usize>(handings: &Handings<GROUPS>) -> Vec<(usize, u32)> {
        let mut all = Vec::new();
        handings.take_dropped(&mut |frame, count| all.push((frame, count)));
        all
    }

    #[test]
    fn a_handed_frame_is_reported_once_with_its_last_reference() {
        let handings = Handings::<2>::new();
        handings.hand(70);
        handings.hand(70);
        assert_eq!((handings.retain(70), handings.references(70)), (2, 3));
        handings.release(70);
        handings.release(70);
        assert_eq!(dropped(&handings), []);
        assert_eq!(handings.release(70), 1);
        assert_eq!(dropped(&handings), [(70, 2)]);
        assert_eq!(dropped(&handings), []);
        handings.hand(70);
        handings.release(70);
        assert_eq!(dropped(&handings), [(70, 1)]);
    }

    #[test]
    fn a_frame_handed_again_before_the_report_is_not_reported() {
        let handings = Handings::<1>::new();
        handings.hand(5);
        handings.release(5);
        handings.hand(5);
        assert_eq!(dropped(&handings), []);
        handings.release(5);
        assert_eq!(dropped(&handings), [(5, 2)]);
    }

    #[test]
    fn a_frame_that_was_only_lent_is_not_reported() {
        let handings = Handings::<1>::new();
        handings.retain(0);
        handings.release(0);
        assert_eq!(dropped(&handings), []);
        handings.hand(0);
        handings.retain(0);
        handings.release(0);
        handings.release(0);
        assert_eq!(dropped(&handings), [(0, 1)]);
    }

    #[test]
    fn all_dropped_frames_are_reported_in_order() {
        let handings = Handings::<3>::new();
        let all = [191, 0, 64, 63, 127, 2];
        all.iter().for_each(|&frame| handings.hand(frame));
        all.iter().for_each(|&frame| assert_eq!(handings.release(frame), 1));
        assert_eq!(dropped(&handings), [0, 2, 63, 64, 127, 191].map(|frame| (frame, 1)));
    }

    #[test]
    fn a_frame_beyond_the_end_is_ignored() {
        let handings = Handings::<1>::new();
        handings.hand(64);
        assert_eq!((handings.retain(64), handings.release(64), handings.references(64)), (0, 0, 0));
        assert_eq!(dropped(&handings), []);
    }
}
