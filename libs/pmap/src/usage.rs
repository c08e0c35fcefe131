//! The usage of a table in one word, so that the table need not be searched.
//!
//! ```text
//! bits  0..10   leaf tables: entries that hold frames or device pages; others: entries in use
//! bits 10..18   eighths of the table that may have entries
//! bits 18..32   leaf tables: number of spaces that have it, less one
//! ```
//! The word is the one of the table's frame. For a table that only one space has, the space's lock guards the low part;
//! the number of spaces changes by atomic steps.
use core::{
    ops::Range,
    sync::atomic::{
        AtomicU32,
        Ordering::{AcqRel, Acquire, Relaxed},
    },
};
use x86::paging::ENTRIES;

const EIGHTH: usize = ENTRIES / 8;
const HELD: u32 = (1 << 10) - 1;
const EIGHTHS_SHIFT: u32 = 10;
const OTHER: u32 = 1 << 18;

/// The usage word of a table's frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage<'a>(pub(crate) &'a AtomicU32);

impl Usage<'_> {
    /// Returns the number of entries that hold frames.
    #[inline]
    pub(crate) fn held(self) -> usize {
        (self.0.load(Relaxed) & HELD) as usize
    }

    /// Returns the eighths that may have entries, one bit each.
    #[inline]
    pub(crate) fn eighths(self) -> u8 {
        (self.0.load(Relaxed) >> EIGHTHS_SHIFT) as u8
    }

    /// Adds `by` to the number of entries that hold frames, in `eighths`.
    #[inline]
    pub(crate) fn count(self, eighths: u8, by: isize) {
        let word = self.0.load(Relaxed).wrapping_add_signed(by as i32);
        self.0.store(word | u32::from(eighths) << EIGHTHS_SHIFT, Relaxed);
    }

    /// Counts one more space that has the table. Returns `false` if the count is at its maximum.
    pub(crate) fn share(self) -> bool {
        let more = |word: u32| word.checked_add(OTHER);
        self.0.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    /// Returns whether other spaces have the table. If not, no other space can change that or use it any more.
    pub(crate) fn is_shared(self) -> bool {
        self.0.load(Acquire) >= OTHER
    }

    /// Counts one space fewer. Returns whether it was the last, for which the word stays as it is.
    #[inline]
    pub(crate) fn let_go(self) -> bool {
        self.0.fetch_update(AcqRel, Acquire, |word| word.checked_sub(OTHER)).is_err()
    }
}

/// Returns the eighths that contain `slots`, one bit each.
#[inline]
pub(crate) fn eighths(slots: &Range<usize>) -> u8 {
    let last = slots.end.saturating_sub(1) / EIGHTH;
    ((2u32 << last) - (1 << (slots.start / EIGHTH))) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_counted_and_their_eighths_marked() {
        let word = AtomicU32::new(0);
        let usage = Usage(&word);
        for (slots, by, held, marked) in [
            (0..1, 1, 1, 0b1),
            (511..512, 1, 2, 0b1000_0001),
            (63..65, -1, 1, 0b1000_0011),
            (0..512, 511, 512, 0xff),
            (3..3, 0, 512, 0xff),
        ] {
            usage.count(eighths(&slots), by);
            assert_eq!((usage.held(), usage.eighths()), (held, marked));
        }
        assert!(!usage.is_shared());
    }

    #[test]
    fn the_last_space_is_told() {
        let word = AtomicU32::new(0);
        let usage = Usage(&word);
        usage.count(0xff, 512);
        assert!(usage.share() && usage.share() && usage.is_shared());
        assert!(!usage.let_go() && !usage.let_go() && !usage.is_shared());
        assert!(usage.let_go());
        assert_eq!((usage.held(), usage.eighths()), (512, 0xff));
    }

    #[test]
    fn no_more_spaces_share_than_can_be_counted() {
        let word = AtomicU32::new(7);
        let usage = Usage(&word);
        assert_eq!((0..20_000).filter(|_| usage.share()).count(), (1 << 14) - 1);
        assert_eq!(usage.held(), 7);
    }
}
