//! [`NameIndex`]: where the names of one block of a directory are, so that a lookup compares with one of them and not with all.
//!
//! An index belongs to the bytes that it was made of: the cache drops it when the block changes. A table of places, open
//! addressing; names that hash alike cost what a search without the index does.
use crate::names::directory::{Span, Spans};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};
use hash::Seed;
use rt::{memory::Charge, sync::Once};

/// Searches of a block that go without an index: blocks that change often are not worth one.
const SEARCHES_WITHOUT: u8 = 2;
/// Entries begin at multiples of this.
const UNIT_BYTES: usize = 4;
/// Slots a name.
const SLOTS_A_NAME: usize = 2;

/// The key of the hash. It spreads names; programs that aim at it gain nothing.
const SEED: [u8; 16] = *b"names in a block";

/// The record of a block's searches.
#[derive(Default)]
pub(crate) struct Searched {
    searches: AtomicU8,
    /// `None` within: the block cannot have one, or there was no memory.
    index: Once<Option<NameIndex>>,
}

impl Searched {
    /// The index of the block whose entries are `bytes`, if it is searched often enough.
    pub(crate) fn index(&self, bytes: &[u8]) -> Option<&NameIndex> {
        if let Some(index) = self.index.get() {
            return index.as_ref();
        }
        let searches = self.searches.load(Relaxed);
        if searches < SEARCHES_WITHOUT {
            self.searches.store(searches + 1, Relaxed);
            return None;
        }
        self.index.get_or_init(|| NameIndex::new(bytes)).as_ref()
    }
}

/// The places of the names of a block.
pub(crate) struct NameIndex {
    /// A power of two. The place of a name in [`UNIT_BYTES`], from 1 on; 0 is a free slot.
    slots: Vec<u16>,
    seed: Seed,
    _charge: Charge,
}

impl NameIndex {
    /// The index of the entries of `bytes`; `None` where one makes no sense, or without memory.
    fn new(bytes: &[u8]) -> Option<NameIndex> {
        let mut names = 0;
        for entry in Spans::new(bytes, bytes.len()) {
            names += usize::from(entry.ok()?.inode != 0);
        }
        let count = (names * SLOTS_A_NAME).next_power_of_two();
        let charge = Charge::take(count * size_of::<u16>()).ok()?;
        let mut slots = Vec::new();
        slots.try_reserve_exact(count).ok()?;
        slots.resize(count, 0);
        let mut index = NameIndex { slots, seed: Seed::new(SEED), _charge: charge };
        for entry in Spans::new(bytes, bytes.len()).flatten().filter(|entry| entry.inode != 0) {
            index.add(&entry)?;
        }
        Some(index)
    }

    /// The slots where `name` may be, in order.
    fn slots_of(&self, name: &[u8]) -> impl Iterator<Item = usize> + use<> {
        let mask = self.slots.len().wrapping_sub(1);
        let first = self.seed.hash(0, name) as usize;
        (0..self.slots.len()).map(move |step| first.wrapping_add(step) & mask)
    }

    fn add(&mut self, entry: &Span<'_>) -> Option<()> {
        let place = u16::try_from(entry.offset / UNIT_BYTES + 1).ok()?;
        let free =
            self.slots_of(entry.name).find(|slot| self.slots.get(*slot).is_some_and(|at| *at == 0));
        *self.slots.get_mut(free?)? = place;
        Some(())
    }

    /// The entry of `bytes`, which the index was made of, that stands for `name`.
    pub(crate) fn find<'a>(&self, bytes: &'a [u8], name: &[u8]) -> Option<Span<'a>> {
        for slot in self.slots_of(name) {
            let place = usize::from(*self.slots.get(slot)?).checked_sub(1)?;
            let entry = Spans::one(bytes, place * UNIT_BYTES)?;
            if entry.is(name) {
                return Some(entry);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of 4 KiB with these names, of inodes from 11 on.
    fn block(names: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, name) in names.iter().enumerate() {
            let length = (8 + name.len()).next_multiple_of(4);
            let is_last = number + 1 == names.len();
            let length = if is_last { 4096 - bytes.len() } else { length };
            let end = bytes.len() + length;
            bytes.extend((number as u32 + 11).to_le_bytes());
            bytes.extend((length as u16).to_le_bytes());
            bytes.extend([name.len() as u8, 1]);
            bytes.extend(name);
            bytes.resize(end, 0);
        }
        bytes
    }

    fn names(count: usize) -> Vec<Vec<u8>> {
        (0..count).map(|number| format!("n{number}").into_bytes()).collect()
    }

    #[test]
    fn every_name_is_found_and_no_other() {
        for count in [1, 2, 3, 100, 300] {
            let names = names(count);
            let bytes = block(&names);
            let index = NameIndex::new(&bytes).unwrap();
            for (number, name) in names.iter().enumerate() {
                assert_eq!(index.find(&bytes, name).unwrap().inode, number as u32 + 11);
            }
            for absent in [&b"n"[..], b"n300", b"", b"n01", b"x"] {
                assert!(index.find(&bytes, absent).is_none());
            }
        }
    }

    #[test]
    fn entries_without_an_inode_stand_for_nothing() {
        let mut bytes = block(&names(3));
        bytes[..4].fill(0);
        let index = NameIndex::new(&bytes).unwrap();
        assert!(index.find(&bytes, b"n0").is_none());
        assert!(index.find(&bytes, b"n1").is_some());
    }

    #[test]
    fn a_block_with_an_unsound_entry_has_no_index() {
        let mut bytes = block(&names(3));
        bytes[4..6].fill(0);
        assert!(NameIndex::new(&bytes).is_none());
        let searched = Searched::default();
        assert!((0..5).all(|_| searched.index(&bytes).is_none()));
    }

    #[test]
    fn a_block_has_an_index_from_its_third_search_on() {
        let bytes = block(&names(20));
        let searched = Searched::default();
        let found: Vec<bool> = (0..4).map(|_| searched.index(&bytes).is_some()).collect();
        assert_eq!(found, [false, false, true, true]);
    }
}
