//! [`Level`]: the numbers of objects that the subjects of a secrecy make.
//!
//! Where all levels take numbers from one sequence, each sees how many the others took: a covert channel. So in a system with a
//! monitor each level has its own part of every range of numbers, by a slot of 64. The first level, that of the kernel, has the
//! first slot; others get a random one. When all slots but the last are taken, further levels share the last.
use alloc::{boxed::Box, vec::Vec};
use core::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};
use interfaces::file_system::LEVEL_SLOTS;
use labels::Secrecy;

/// The slot of levels that got none of their own.
const SHARED_SLOT: u32 = LEVEL_SLOTS as u32 - 1;

/// Numbers in a slot of a sequence without an end: inode numbers are shown with 32 bits in some places.
const SEQUENCE_BITS: u32 = 26;

/// The sequences of numbers without an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequence {
    /// Inodes of pipes and event files.
    Anonymous,
    /// Inodes of sockets.
    Sockets,
}

/// A secrecy of subjects, and the numbers that they took.
#[derive(Debug)]
pub struct Level {
    slot: u32,
    /// `false` in a system without a monitor, where the only level has all numbers.
    is_one_of_many: bool,
    taken: [AtomicU64; 2],
    /// The times, switches, reads and writes of processes that ended.
    ended: [AtomicU64; 5],
    /// Processes and threads made.
    forks: AtomicU64,
}

/// The level of all subjects in a system without a monitor.
pub(super) static ONLY_LEVEL: Level = Level { is_one_of_many: false, ..Level::in_slot(0) };
/// The level of all secrecies for which no slot was free.
static SHARED_LEVEL: Level = Level::in_slot(SHARED_SLOT);

impl Level {
    const fn in_slot(slot: u32) -> Level {
        Level {
            slot,
            is_one_of_many: true,
            taken: [const { AtomicU64::new(0) }; 2],
            ended: [const { AtomicU64::new(0) }; 5],
            forks: AtomicU64::new(0),
        }
    }
    /// Returns its slot, which is below [`LEVEL_SLOTS`].
    pub fn slot(&self) -> usize {
        self.slot as usize
    }
    /// Returns its slot for the numbers of inodes ([`NewInode::level`]).
    ///
    /// [`NewInode::level`]: interfaces::file_system::NewInode::level
    pub fn of_inodes(&self) -> Option<usize> {
        self.is_one_of_many.then_some(self.slot())
    }
    /// Returns its part of a range whose numbers are given back: the first level has a half, the others share the rest.
    pub fn part(&self, of: Range<u32>) -> Range<u32> {
        if !self.is_one_of_many {
            return of;
        }
        let half = of.end.saturating_sub(of.start) / 2;
        let room = half / (LEVEL_SLOTS as u32 - 1);
        let start = of.start.saturating_add(half);
        match self.slot.checked_sub(1) {
            None => of.start..start,
            Some(before) => start + before * room..start + (before + 1) * room,
        }
    }
    /// Returns whether there are other levels, so that its totals are asked for.
    #[inline]
    pub fn is_one_of_many(&self) -> bool {
        self.is_one_of_many
    }
    /// Adds the time in programs, the time in the kernel (in nanoseconds), the switches, and the bytes read from and written to storage of
    /// a process that has ended.
    pub fn note_end(&self, used: [u64; 5]) {
        self.ended.iter().zip(used).for_each(|(sum, part)| {
            sum.fetch_add(part, Ordering::Relaxed);
        });
    }
    /// Returns the sums of [`Level::note_end`].
    pub fn ended(&self) -> [u64; 5] {
        self.ended.each_ref().map(|sum| sum.load(Ordering::Relaxed))
    }
    /// Counts a new process or thread.
    pub fn note_fork(&self) {
        self.forks.fetch_add(1, Ordering::Relaxed);
    }
    /// Returns the number of processes and threads made.
    pub fn forks(&self) -> u64 {
        self.forks.load(Ordering::Relaxed)
    }
    /// Returns the next number of a sequence, from 1.
    pub fn next(&self, sequence: Sequence) -> u64 {
        let [anonymous, sockets] = &self.taken;
        let counter = match sequence {
            Sequence::Anonymous => anonymous,
            Sequence::Sockets => sockets,
        };
        let number = counter.fetch_add(1, Ordering::Relaxed) + 1;
        match self.slot {
            0 => number,
            slot => u64::from(slot) << SEQUENCE_BITS | number & ((1 << SEQUENCE_BITS) - 1),
        }
    }
}

/// The levels of a system with a monitor that have a slot of their own.
#[derive(Debug, Default)]
pub(super) struct Levels(Vec<(Secrecy, &'static Level)>);

impl Levels {
    /// Returns the level of a secrecy; `random` chooses its slot if it is new.
    pub(super) fn of(&mut self, secrecy: Secrecy, random: u64) -> &'static Level {
        let Levels(known) = self;
        if let Some((_, level)) = known.iter().find(|(of, _)| *of == secrecy) {
            return level;
        }
        let is_free = |slot: &u32| known.iter().all(|(_, level)| level.slot != *slot);
        let mut free = (1..SHARED_SLOT).filter(is_free);
        let slot = match (known.is_empty(), free.clone().count() as u64) {
            (true, _) => 0,
            (false, 0) => return &SHARED_LEVEL,
            (false, count) => free.nth((random % count) as usize).unwrap_or(SHARED_SLOT),
        };
        let level = Box::leak(Box::new(Level::in_slot(slot)));
        known.push((secrecy, level));
        level
    }
    /// Returns all levels; that without a secrecy is the one of all secrecies for which no slot was free.
    pub(super) fn all(&self) -> Vec<(Option<Secrecy>, &'static Level)> {
        let known = self.0.iter().map(|(secrecy, level)| (Some(*secrecy), *level));
        known.chain([(None, &SHARED_LEVEL)]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use labels::Categories;

    fn secrecies() -> impl Iterator<Item = Secrecy> {
        (0..200).map(|number| {
            let mut categories = Categories::NONE;
            assert!(categories.insert(number));
            Secrecy::new(3, categories).unwrap()
        })
    }

    #[test]
    fn levels_have_parts_of_their_own_until_the_slots_are_taken() {
        let mut levels = Levels::default();
        let mut parts = Vec::new();
        for (number, secrecy) in secrecies().enumerate() {
            let level = levels.of(secrecy, 7 * number as u64 + 3);
            let part = level.part(300..300 + 2 * 6300);
            assert_eq!(part.len(), if number == 0 { 6300 } else { 100 });
            if number < LEVEL_SLOTS - 1 {
                assert!(
                    parts.iter().all(
                        |other: &Range<u32>| other.end <= part.start || part.end <= other.start
                    )
                );
                assert!(core::ptr::eq(level, levels.of(secrecy, 0)));
                parts.push(part);
            } else {
                assert_eq!(level.slot, SHARED_SLOT);
            }
        }
        assert_eq!(parts[0], 300..6600);
        assert_eq!(levels.0.len(), LEVEL_SLOTS - 1);
    }

    #[test]
    fn sequences_of_two_levels_do_not_depend_on_each_other() {
        let mut levels = Levels::default();
        let of: Vec<_> = secrecies().take(2).map(|one| levels.of(one, 0)).collect();
        assert_eq!(of[0].next(Sequence::Sockets), 1);
        let first = of[1].next(Sequence::Sockets);
        (0..1000).for_each(|_| assert!(of[0].next(Sequence::Sockets) > 1));
        assert_eq!(of[1].next(Sequence::Sockets), first + 1);
        assert_eq!(of[1].next(Sequence::Anonymous), first);
        assert_eq!(of[0].next(Sequence::Sockets), 1002);
        assert_eq!(ONLY_LEVEL.part(0..5), 0..5);
    }
}
