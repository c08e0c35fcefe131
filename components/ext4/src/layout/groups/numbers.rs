//! [`Numbers`]: the numbers of inodes in a system with levels, where none may see how many inodes another makes.
//!
//! ```text
//! inodes of a group   first level: 1/2 | 63 further slots: 1/252 each | shared by all levels: the rest
//! ```
//! A level takes the least free number of its own part, in its directory's group first. When its parts of all groups are full it takes
//! numbers that all share, and when these are taken, too, any number.
use alloc::boxed::Box;
use core::{
    ops::Range,
    sync::atomic::{AtomicU32, AtomicU64, Ordering::*},
};
use interfaces::file_system::LEVEL_SLOTS;

/// The numbers that each level has taken.
pub(crate) struct Numbers {
    seed: u32,
    /// The generation of the next inode of each level; the first slot's in a system without levels.
    generations: Box<[AtomicU32]>,
    /// A bit for each slot whose parts of all groups are full.
    full: AtomicU64,
}

/// The inodes of a group among which a level looks for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InodePart {
    /// Its own.
    Own,
    /// Those that no level has for itself.
    Shared,
    /// All.
    Whole,
}

/// Two to the power of 32, divided by the golden ratio: the multiples, modulo that power, are spread evenly.
const STEP: u32 = 0x9e37_79b9;

impl Numbers {
    /// Makes the numbers of a volume, which follow from a random one.
    pub(super) fn new(seed: u32) -> Numbers {
        Numbers {
            seed,
            generations: (0..LEVEL_SLOTS).map(|slot| AtomicU32::new(first(seed, slot))).collect(),
            full: AtomicU64::new(0),
        }
    }

    /// Returns a generation number for a new inode.
    pub(crate) fn next_generation(&self, level: Option<usize>) -> u32 {
        let slot = level.unwrap_or(0).min(LEVEL_SLOTS - 1);
        self.generations.get(slot).map_or(self.seed, |next| next.fetch_add(STEP, Relaxed))
    }

    /// Returns one of `count` groups for a directory under the root: they are spread by what their own level has made.
    pub(super) fn place(&self, level: usize, count: u32) -> u32 {
        let next = self.generations.get(level).map_or(0, |next| next.load(Relaxed));
        let made = next.wrapping_sub(first(self.seed, level));
        ((u64::from(made) * u64::from(count)) >> 32) as u32
    }

    /// Returns whether the parts of a level were found to be full, and nothing in them was freed since.
    pub(super) fn is_full(&self, level: usize) -> bool {
        self.full.load(Relaxed) & bit(level) != 0
    }

    /// Notes that the parts of a level are full.
    pub(super) fn note_full(&self, level: usize) {
        self.full.fetch_or(bit(level), Relaxed);
    }

    /// Notes that an inode of a group with `count` inodes was freed.
    pub(super) fn note_freed(&self, inode: usize, count: usize) {
        if self.full.load(Relaxed) == 0 {
            return;
        }
        let is_of = |slot: &usize| InodePart::Own.range(*slot, count).contains(&inode);
        if let Some(slot) = (0..LEVEL_SLOTS).find(is_of) {
            self.full.fetch_and(!bit(slot), Relaxed);
        }
    }
}

impl InodePart {
    /// Returns its inodes in a group with `count` inodes.
    pub(super) fn range(self, level: usize, count: usize) -> Range<usize> {
        let width = count / 4 / (LEVEL_SLOTS - 1);
        let start = |slot: usize| count / 2 + slot.min(LEVEL_SLOTS - 1) * width;
        match (self, level.checked_sub(1)) {
            (InodePart::Own, None) => 0..count / 2,
            (InodePart::Own, Some(before)) => start(before)..start(before + 1),
            (InodePart::Shared, _) => start(LEVEL_SLOTS - 1)..count,
            (InodePart::Whole, _) => 0..count,
        }
    }
}

/// Returns the first generation of a level.
fn first(seed: u32, slot: usize) -> u32 {
    seed.wrapping_add((slot as u32).wrapping_mul(0x85eb_ca6b))
}

fn bit(slot: usize) -> u64 {
    1 << slot.min(LEVEL_SLOTS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_levels_and_the_shared_one_are_all_inodes_of_a_group() {
        for count in [16, 1000, 8192, 32_768] {
            let own = (0..LEVEL_SLOTS).map(|slot| InodePart::Own.range(slot, count));
            let parts = own.chain([InodePart::Shared.range(7, count)]);
            let end = parts.fold(0, |end, part| {
                assert_eq!(part.start, end);
                part.end
            });
            assert_eq!(end, count);
        }
        assert_eq!(InodePart::Own.range(1, 8192), 4096..4128);
        assert_eq!(InodePart::Own.range(LEVEL_SLOTS, 8192).len(), 0);
    }

    #[test]
    fn a_full_level_looks_again_when_one_of_its_inodes_is_freed() {
        let numbers = Numbers::new(5);
        (0..3).for_each(|level| numbers.note_full(level));
        numbers.note_freed(4100, 8192);
        assert_eq!([0, 1, 2].map(|level| numbers.is_full(level)), [true, false, true]);
        numbers.note_freed(8000, 8192);
        assert!(numbers.is_full(0));
    }

    #[test]
    fn generations_and_places_of_a_level_do_not_depend_on_others() {
        let (one, other) = (Numbers::new(9), Numbers::new(9));
        for turn in 0..100 {
            assert_eq!(one.place(3, 17), other.place(3, 17));
            (0..turn).for_each(|_| {
                other.next_generation(Some(4));
            });
            assert_eq!(one.next_generation(Some(3)), other.next_generation(Some(3)));
        }
        let mut places: Vec<u32> = (0..17)
            .map(|_| {
                one.next_generation(Some(3));
                one.place(3, 17)
            })
            .collect();
        places.sort_unstable();
        places.dedup();
        assert!(places.len() > 12, "directories are spread: {places:?}");
    }
}
