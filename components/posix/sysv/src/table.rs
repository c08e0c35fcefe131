//! [`ObjectTable`]: the objects of one kind by identifier and by key.
//!
//! An identifier is `sequence * 32768 + index`. As in Linux (`ipc_addid`), indices are given out in turn within a range that
//! grows with the number of objects, and the sequence number moves on when an index is not above the last one given. So a
//! removed object's identifier is not given to another one soon.
use super::Refusal;
use alloc::collections::{BTreeMap, BTreeSet};

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
        ObjectTable {
            slots: BTreeMap::new(),
            keys: BTreeSet::new(),
            sequence: 0,
            last_index: None,
            next_index: 0,
        }
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
    /// Adds the object that `make` returns for the new identifier, if there are fewer than `most` objects. [`PRIVATE`] means
    /// that it has no key.
    ///
    /// # Errors
    /// [`Refusal::TooMany`].
    pub fn insert(
        &mut self,
        key: i32,
        most: usize,
        make: impl FnOnce(i32) -> T,
    ) -> Result<i32, Refusal> {
        if self.count() >= most.min(INDICES as usize) {
            return Err(Refusal::TooMany);
        }
        let index = self.free_index().ok_or(Refusal::TooMany)?;
        self.next_index = index + 1;
        if self.last_index.is_some_and(|last| index <= last) {
            self.sequence = (self.sequence + 1) % SEQUENCES;
        }
        self.last_index = Some(index);
        let id = id_of(self.sequence, index);
        self.slots.insert(index, ObjectSlot { sequence: self.sequence, key, object: make(id) });
        if key != PRIVATE {
            self.keys.insert((key, index));
        }
        Ok(id)
    }
    fn free_index(&self) -> Option<u32> {
        let end = (self.count() as u32 * 3 / 2).clamp(RANGE_LEAST, INDICES);
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
        free(self.next_index).or_else(|| free(0))
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

    fn insert(table: &mut ObjectTable<i32>, key: i32) -> i32 {
        table.insert(key, 1000, |id| id).unwrap()
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
        assert_eq!(table.insert(PRIVATE, 99, |id| id), Err(Refusal::TooMany));
        assert_eq!(insert(&mut table, PRIVATE), 100);
    }

    #[test]
    fn sequences_wrap_before_an_identifier_would_be_negative() {
        let mut table = ObjectTable::new();
        (table.sequence, table.next_index, table.last_index) = (SEQUENCES - 1, 3, Some(40));
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
                    let made = table.insert(key, most, |id| id);
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
