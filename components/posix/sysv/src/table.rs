//! [`ObjectTable`]: the objects of one kind by identifier and by key.
//!
//! An identifier is `sequence * 32768 + index`. As in Linux (`ipc_addid`), indices are given out in turn within a range that
//! grows with the number of objects, and the sequence number moves on when an index is not above the last one given. So a
//! removed object's identifier is not given to another one soon.
use super::Refusal;
use alloc::collections::{BTreeMap, BTreeSet};
use core::ops::Range;

/// Number of indices, and the most objects of a kind.
pub const INDICES: u32 = 1 << INDEX_BITS;
const INDEX_BITS: u32 = 15;
/// Number of sequence numbers.
const SEQUENCES: u32 = i32::MAX as u32 >> INDEX_BITS;
/// The smallest range within which indices are assigned in turn.
const RANGE_LEAST: u32 = 64;
/// The key of an object that no key finds.
pub const PRIVATE: i32 = 0;

#[derive(Debug)]
struct ObjectSlot<T> {
    sequence: u32,
    key: i32,
    object: T,
}

/// The objects of one kind.
#[derive(Debug)]
pub struct ObjectTable<T> {
    slots: BTreeMap<u32, ObjectSlot<T>>,
    /// The keys with the indices of their objects: a key may find other objects for other callers.
    keys: BTreeSet<(i32, u32)>,
    /// By the start of the range that each has.
    cursors: BTreeMap<u32, Cursor>,
}

/// A range of indices: its objects, and the indices that were given out.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    count: u32,
    sequence: u32,
    last_index: Option<u32>,
    next_index: u32,
}

fn index_of(id: i32) -> u32 {
    id as u32 % INDICES
}

fn id_of(sequence: u32, index: u32) -> i32 {
    (sequence << INDEX_BITS | index) as i32
}

impl<T> ObjectTable<T> {
    /// Makes a table without objects.
    pub const fn new() -> ObjectTable<T> {
        ObjectTable { slots: BTreeMap::new(), keys: BTreeSet::new(), cursors: BTreeMap::new() }
    }
    /// Returns the number of objects.
    pub fn count(&self) -> usize {
        self.slots.len()
    }
    /// Returns the highest index of an object for which `is_shown` is true.
    pub fn highest(&self, is_shown: impl Fn(&T) -> bool) -> Option<u32> {
        let shown = self.slots.iter().rev().find(|(_, slot)| is_shown(&slot.object));
        shown.map(|(index, _)| *index)
    }
    /// Adds the object that `make` returns for the new identifier, whose index is in the range `within`, if fewer than `most`
    /// objects are there. Two ranges are equal or have no index in common: each has a sequence of its own. [`PRIVATE`] means that
    /// the object has no key.
    ///
    /// # Errors
    /// [`Refusal::TooMany`].
    pub fn insert(
        &mut self,
        key: i32,
        (within, most): (Range<u32>, usize),
        make: impl FnOnce(i32) -> T,
    ) -> Result<i32, Refusal> {
        let new = Cursor { next_index: within.start, ..Cursor::default() };
        let cursor = *self.cursors.get(&within.start).unwrap_or(&new);
        if cursor.count as usize >= most.min(within.len()) {
            return Err(Refusal::TooMany);
        }
        let index = self.free_index(&cursor, &within).ok_or(Refusal::TooMany)?;
        let is_round_new = cursor.last_index.is_some_and(|last| index <= last);
        let sequence = (cursor.sequence + u32::from(is_round_new)) % SEQUENCES;
        let cursor = Cursor {
            count: cursor.count + 1,
            sequence,
            last_index: Some(index),
            next_index: index + 1,
        };
        self.cursors.insert(within.start, cursor);
        let id = id_of(sequence, index);
        self.slots.insert(index, ObjectSlot { sequence, key, object: make(id) });
        if key != PRIVATE {
            self.keys.insert((key, index));
        }
        Ok(id)
    }
    fn free_index(&self, cursor: &Cursor, within: &Range<u32>) -> Option<u32> {
        let room = (cursor.count * 3 / 2).max(RANGE_LEAST).min(within.len() as u32);
        let end = within.start + room;
        let free = |from: u32| {
            let mut free = from;
            for index in self.slots.range(from..).map(|(index, _)| *index) {
                if index != free {
                    break;
                }
                free += 1;
            }
            (free < end).then_some(free)
        };
        free(cursor.next_index).or_else(|| free(within.start))
    }
    /// Returns the object `id`.
    pub fn get(&self, id: i32) -> Option<&T> {
        let slot = self.slots.get(&index_of(id))?;
        (id >= 0 && id as u32 >> INDEX_BITS == slot.sequence).then_some(&slot.object)
    }
    /// Returns the object with the index in `id`, and its identifier.
    pub fn at(&self, id: i32) -> Option<(i32, &T)> {
        let index = index_of(id);
        self.slots.get(&index).map(|slot| (id_of(slot.sequence, index), &slot.object))
    }
    /// Returns the first object with this key for which `is_meant` is true, and its identifier.
    pub fn with_key(&self, key: i32, is_meant: impl Fn(&T) -> bool) -> Option<(i32, &T)> {
        let mut indices = self.keys.range((key, 0)..=(key, u32::MAX)).map(|(_, index)| *index);
        indices.find_map(|index| {
            let slot = self.slots.get(&index).filter(|slot| is_meant(&slot.object))?;
            Some((id_of(slot.sequence, index), &slot.object))
        })
    }
    /// Removes the key of the object `id`, so that it finds the object no more.
    pub fn forget_key(&mut self, id: i32) {
        let index = index_of(id);
        let Some(slot) = self.slots.get_mut(&index) else { return };
        if id as u32 >> INDEX_BITS == slot.sequence && slot.key != PRIVATE {
            self.keys.remove(&(slot.key, index));
            slot.key = PRIVATE;
        }
    }
    /// Removes the object `id`.
    pub fn remove(&mut self, id: i32) -> Option<T> {
        self.get(id)?;
        self.forget_key(id);
        let index = index_of(id);
        if let Some((_, cursor)) = self.cursors.range_mut(..=index).next_back() {
            cursor.count -= 1;
        }
        self.slots.remove(&index_of(id)).map(|slot| slot.object)
    }
    /// Returns all objects in the order of their indices.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.values().map(|slot| &slot.object)
    }
}

impl<T> Default for ObjectTable<T> {
    fn default() -> Self {
        ObjectTable::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;
    use std::collections::HashMap;

    const ALL: Range<u32> = 0..INDICES;

    fn insert(table: &mut ObjectTable<i32>, key: i32) -> i32 {
        table.insert(key, (ALL, 1000), |id| id).unwrap()
    }

    #[test]
    fn indices_are_given_out_in_turn_and_sequences_move_on_when_they_start_again() {
        let mut table = ObjectTable::new();
        for index in 0..64 {
            let id = insert(&mut table, PRIVATE);
            assert_eq!(id, index);
            assert_eq!(table.remove(id), Some(id));
        }
        assert_eq!(insert(&mut table, PRIVATE), 1 << 15, "the second round");
        assert_eq!(insert(&mut table, PRIVATE), (1 << 15) + 1);
        assert_eq!(table.get(0), None, "the first round's");
        assert_eq!(table.at(0), Some((1 << 15, &(1 << 15))));
        assert_eq!(table.get(-1), None);
    }

    #[test]
    fn the_range_grows_with_the_objects() {
        let mut table = ObjectTable::new();
        let ids: Vec<i32> = (0..100).map(|_| insert(&mut table, PRIVATE)).collect();
        assert_eq!(ids, (0..100).collect::<Vec<_>>());
        assert_eq!(table.highest(|_| true), Some(99));
        table.remove(99);
        assert_eq!(table.highest(|_| true), Some(98));
        assert_eq!(table.insert(PRIVATE, (ALL, 99), |id| id), Err(Refusal::TooMany));
        assert_eq!(insert(&mut table, PRIVATE), 100);
    }

    #[test]
    fn two_ranges_number_their_objects_alone() {
        let mut table = ObjectTable::new();
        let add = |table: &mut ObjectTable<i32>, within: Range<u32>| {
            table.insert(PRIVATE, (within, 70), |id| id)
        };
        let low: Vec<_> = (0..3).map(|_| add(&mut table, 0..100).unwrap()).collect();
        for round in 0..500 {
            let id = add(&mut table, 100..170).unwrap();
            assert!((100..170).contains(&index_of(id)));
            if round % 70 == 69 {
                let all: Vec<i32> = table.iter().copied().filter(|id| !low.contains(id)).collect();
                assert_eq!(add(&mut table, 100..170), Err(Refusal::TooMany));
                all.into_iter().for_each(|id| assert_eq!(table.remove(id), Some(id)));
            }
        }
        assert_eq!(add(&mut table, 0..100), Ok(3), "the other range was not moved");
    }

    #[test]
    fn sequences_wrap_before_an_identifier_would_be_negative() {
        let mut table = ObjectTable::new();
        let cursor =
            Cursor { sequence: SEQUENCES - 1, next_index: 3, last_index: Some(40), count: 0 };
        table.cursors.insert(0, cursor);
        let id = insert(&mut table, PRIVATE);
        assert_eq!(id, 3);
    }

    #[test]
    fn random_operations_agree_with_maps() {
        let mut random = Random::new(7);
        let mut table = ObjectTable::new();
        let (mut objects, mut keys) = (HashMap::new(), HashMap::new());
        for _ in 0..50_000 {
            let key = random.below(20) as i32;
            let id = match objects.keys().nth(random.below(40) as usize) {
                Some(id) => *id,
                None => random.below(1 << 31) as i32,
            };
            match random.below(5) {
                0 | 1 if !keys.contains_key(&key) => {
                    let most = random.below(60) as usize;
                    let made = table.insert(key, (ALL, most), |id| id);
                    assert_eq!(made.is_err(), objects.len() >= most);
                    if let Ok(id) = made {
                        assert!(id >= 0 && objects.insert(id, key).is_none());
                        if key != PRIVATE {
                            keys.insert(key, id);
                        }
                    }
                }
                2 => {
                    table.forget_key(id);
                    keys.retain(|_, other| *other != id);
                }
                3 => {
                    assert_eq!(table.remove(id), objects.remove(&id).map(|_| id));
                    keys.retain(|_, other| *other != id);
                }
                _ => {}
            }
            assert_eq!(table.get(id), objects.get(&id).map(|_| &id));
            assert_eq!(table.with_key(key, |_| true).map(|(_, id)| id), keys.get(&key));
            assert_eq!(table.count(), objects.len());
            assert_eq!(table.highest(|_| true), objects.keys().map(|id| index_of(*id)).max());
        }
        assert_eq!(table.iter().count(), objects.len());
    }
}
