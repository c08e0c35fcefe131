//! [`Index`]: the places of the keys in one block. A search compares with one of them and not with all.
//!
//! An index belongs to the bytes that it was made of: the cache drops it when the block changes. A table of places, open
//! addressing; keys that hash alike cost what a search without the index does. What a key is, the block's user knows.
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};
use hash::Seed;
use rt::{memory::Charge, sync::Once};

/// Number of searches of a block without an index: for blocks that change often it is not worth making one.
const SEARCHES_WITHOUT: u8 = 2;
/// Keys begin at multiples of this.
const UNIT_BYTES: usize = 4;
/// Slots a key.
const SLOTS_A_KEY: usize = 2;

/// The key of the hash. It spreads keys; programs that aim at it gain nothing.
const SEED: [u8; 16] = *b"names in a block";

/// The record of a block's searches.
#[derive(Default)]
pub(crate) struct Searched {
    searches: AtomicU8,
    /// The index; `None` in it if the block cannot have one, or there was no memory.
    index: Once<Option<Index>>,
}

impl Searched {
    /// The index of the block, which `make` makes if it is searched often enough.
    pub(crate) fn index(&self, make: impl FnOnce() -> Option<Index>) -> Option<&Index> {
        if let Some(index) = self.index.get() {
            return index.as_ref();
        }
        let searches = self.searches.load(Relaxed);
        if searches < SEARCHES_WITHOUT {
            self.searches.store(searches + 1, Relaxed);
            return None;
        }
        self.index.get_or_init(make).as_ref()
    }

    /// The index of the block, if one was made.
    pub(crate) fn made(&self) -> Option<&Index> {
        self.index.get()?.as_ref()
    }
}

/// The places of the keys of a block.
pub(crate) struct Index {
    /// A power of two. The place of a key in [`UNIT_BYTES`], from 1 on; 0 is a free slot.
    slots: Vec<u16>,
    seed: Seed,
    _charge: Charge,
}

impl Index {
    /// An empty index for so many keys; `None` without memory.
    pub(crate) fn new(keys: usize) -> Option<Index> {
        let count = (keys * SLOTS_A_KEY).next_power_of_two();
        let charge = Charge::take(count * size_of::<u16>()).ok()?;
        let mut slots = Vec::new();
        slots.try_reserve_exact(count).ok()?;
        slots.resize(count, 0);
        Some(Index { slots, seed: Seed::new(SEED), _charge: charge })
    }

    /// The slots where `key` may be, in order.
    fn slots_of(&self, key: &[u8]) -> impl Iterator<Item = usize> + use<> {
        let mask = self.slots.len().wrapping_sub(1);
        let first = self.seed.hash(0, key) as usize;
        (0..self.slots.len()).map(move |step| first.wrapping_add(step) & mask)
    }

    /// Adds `key`, which is at `offset` of the block; `None` if there is no room or `offset` is too large.
    pub(crate) fn add(&mut self, key: &[u8], offset: usize) -> Option<()> {
        let place = u16::try_from(offset / UNIT_BYTES + 1).ok()?;
        let is_free = |slot: &usize| self.slots.get(*slot).is_some_and(|at| *at == 0);
        let free = self.slots_of(key).find(is_free);
        *self.slots.get_mut(free?)? = place;
        Some(())
    }

    /// The offsets in the block where `key` may be, in order.
    pub(crate) fn offsets(&self, key: &[u8]) -> impl Iterator<Item = usize> {
        let places = self.slots_of(key).map_while(|slot| self.slots.get(slot));
        places.map_while(|place| Some(usize::from(*place).checked_sub(1)? * UNIT_BYTES))
    }
}
