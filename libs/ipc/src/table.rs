//! The table of a component's capabilities.
//!
//! A handle is a slot in the low 16 bits and above it how often the slot was used: a stale handle names
//! nothing, and a forged one names only what its table holds.
use alloc::vec::Vec;

/// Most capabilities of a table.
const MOST: usize = 1024;

#[derive(Debug)]
struct Slot<C> {
    uses: u64,
    held: Option<C>,
}

/// Capabilities `C`, each named by a handle.
#[derive(Debug)]
pub struct Table<C> {
    slots: Vec<Slot<C>>,
}

impl<C> Table<C> {
    /// An empty table.
    pub const fn new() -> Table<C> {
        Table { slots: Vec::new() }
    }

    /// Puts `capability` in; its handle, or `None` where the table is full.
    pub fn insert(&mut self, capability: C) -> Option<u64> {
        let free = self.slots.iter().position(|slot| slot.held.is_none());
        let index = match free {
            Some(index) => index,
            None if self.slots.len() < MOST => {
                self.slots.push(Slot { uses: 0, held: None });
                self.slots.len() - 1
            }
            None => return None,
        };
        let slot = &mut self.slots[index];
        slot.uses += 1;
        slot.held = Some(capability);
        Some(slot.uses << 16 | index as u64)
    }

    /// What `handle` names.
    pub fn get(&self, handle: u64) -> Option<&C> {
        let slot = self.slots.get(handle as usize & 0xffff)?;
        (slot.uses == handle >> 16).then_some(slot.held.as_ref())?
    }

    /// Takes out what `handle` names.
    pub fn remove(&mut self, handle: u64) -> Option<C> {
        self.get(handle)?;
        self.slots.get_mut(handle as usize & 0xffff)?.held.take()
    }

    /// Takes everything out.
    pub fn drain(&mut self) -> Vec<C> {
        self.slots.iter_mut().filter_map(|slot| slot.held.take()).collect()
    }
}

impl<C> Default for Table<C> {
    fn default() -> Table<C> {
        Table::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_names_what_was_put_in() {
        let mut table = Table::new();
        let (first, second) = (table.insert('a').unwrap(), table.insert('b').unwrap());
        assert_eq!((table.get(first), table.get(second)), (Some(&'a'), Some(&'b')));
        assert_eq!(table.remove(first), Some('a'));
        assert_eq!(table.drain(), ['b']);
    }

    #[test]
    fn a_stale_or_forged_handle_names_nothing() {
        let mut table = Table::new();
        let stale = table.insert('a').unwrap();
        table.remove(stale);
        let fresh = table.insert('b').unwrap();
        assert_ne!(stale, fresh);
        assert_eq!(table.get(stale), None);
        assert_eq!(table.remove(stale), None);
        assert_eq!(table.get(u64::MAX), None);
        assert_eq!(table.get(fresh), Some(&'b'));
    }

    #[test]
    fn a_full_table_takes_no_more() {
        let mut table = Table::new();
        assert!((0..MOST).all(|number| table.insert(number).is_some()));
        assert_eq!(table.insert(0), None);
        assert_eq!(table.drain().len(), MOST);
        assert!(table.insert(0).is_some());
    }
}
