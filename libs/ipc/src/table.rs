//! A table of things named by handles, such as a component's capabilities.
//!
//! A handle is a slot in the low 16 bits and above it the number of times the slot was used. So a stale
//! handle names nothing, and a forged one names only things in its own table.
use alloc::vec::Vec;

#[derive(Debug)]
struct Slot<C> {
    uses: u64,
    held: Option<C>,
}

/// A table of things, each named by a handle.
#[derive(Debug)]
pub struct Table<C> {
    slots: Vec<Slot<C>>,
    /// Slots that are not in use.
    free: Vec<u16>,
    /// The greatest number of slots.
    most: usize,
}

impl<C> Table<C> {
    /// Makes an empty table of at most `most` things (65,536 at most).
    pub const fn new(most: usize) -> Table<C> {
        Table { slots: Vec::new(), free: Vec::new(), most }
    }

    /// Adds `thing`. Returns its handle, or `None` if the table is full.
    pub fn insert(&mut self, thing: C) -> Option<u64> {
        let handle = self.reserve()?;
        self.fill(handle, thing);
        Some(handle)
    }

    /// Reserves a handle that is to be [filled](Table::fill) later; `None` if the table is full.
    pub fn reserve(&mut self) -> Option<u64> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                let index = self.slots.len();
                let fits = index < self.most;
                fits.then(|| self.slots.push(Slot { uses: 0, held: None }))?;
                u16::try_from(index).ok()?
            }
        };
        let slot = self.slots.get_mut(usize::from(index))?;
        slot.uses += 1;
        Some(slot.uses << 16 | u64::from(index))
    }

    /// Makes `handle`, which is reserved or was lifted, name `thing`.
    pub fn fill(&mut self, handle: u64, thing: C) {
        if let Some(slot) = self.slot(handle) {
            slot.held = Some(thing);
        }
    }

    fn slot(&mut self, handle: u64) -> Option<&mut Slot<C>> {
        let slot = self.slots.get_mut(handle as usize & 0xffff)?;
        (slot.uses == handle >> 16).then_some(slot)
    }

    /// Returns the thing that `handle` names.
    pub fn get(&self, handle: u64) -> Option<&C> {
        let slot = self.slots.get(handle as usize & 0xffff)?;
        (slot.uses == handle >> 16).then_some(slot.held.as_ref())?
    }

    /// Returns the first thing in a slot from `from` on, its handle, and the slot after it.
    pub fn next(&mut self, from: usize) -> Option<(u64, &mut C, usize)> {
        let slots = self.slots.iter_mut().enumerate().skip(from);
        let mut held = slots.filter_map(|(index, Slot { uses, held })| {
            Some((*uses << 16 | index as u64, held.as_mut()?, index + 1))
        });
        held.next()
    }

    /// Removes the thing that `handle` names. The handle stays reserved.
    pub fn lift(&mut self, handle: u64) -> Option<C> {
        self.slot(handle)?.held.take()
    }

    /// Frees a handle that is reserved or was lifted.
    pub fn free(&mut self, handle: u64) {
        if self.slot(handle).is_some_and(|slot| slot.held.is_none()) {
            self.free.push(handle as u16);
        }
    }

    /// Removes the thing that `handle` names, and frees the handle.
    pub fn remove(&mut self, handle: u64) -> Option<C> {
        let thing = self.lift(handle)?;
        self.free(handle);
        Some(thing)
    }

    /// Removes all things.
    pub fn drain(&mut self) -> Vec<C> {
        let (mut all, mut from) = (Vec::new(), 0);
        while let Some((handle, _, next)) = self.next(from) {
            all.extend(self.remove(handle));
            from = next;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_names_what_was_put_in() {
        let mut table = Table::new(1024);
        let (first, second) = (table.insert('a').unwrap(), table.insert('b').unwrap());
        assert_eq!((table.get(first), table.get(second)), (Some(&'a'), Some(&'b')));
        assert_eq!(table.remove(first), Some('a'));
        assert_eq!(table.drain(), ['b']);
    }

    #[test]
    fn a_stale_or_forged_handle_names_nothing() {
        let mut table = Table::new(1024);
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
        let mut table = Table::new(100);
        assert!((0..100).all(|number| table.insert(number).is_some()));
        assert_eq!(table.insert(0), None);
        assert_eq!(table.drain(), (0..100).collect::<Vec<_>>());
        assert!(table.insert(0).is_some());
    }

    #[test]
    fn a_reserved_handle_names_nothing_until_it_is_filled() {
        let mut table = Table::new(1024);
        let handle = table.reserve().unwrap();
        assert_eq!(table.get(handle), None);
        assert_eq!(table.remove(handle), None);
        table.fill(handle, 'a');
        assert_eq!(table.get(handle), Some(&'a'));
        assert_eq!(table.lift(handle), Some('a'));
        assert_eq!(table.get(handle), None);
        table.fill(handle, 'b');
        assert_eq!(table.remove(handle), Some('b'));
        table.fill(handle, 'c');
        assert_ne!(table.insert('d'), Some(handle));
        assert_eq!(table.drain(), ['d']);
    }

    #[test]
    fn all_are_met_in_the_order_of_their_slots() {
        let mut table = Table::new(1024);
        let handles = ['a', 'b', 'c'].map(|name| table.insert(name).unwrap());
        table.remove(handles[1]);
        assert_eq!(table.next(0), Some((handles[0], &mut 'a', 1)));
        assert_eq!(table.next(1), Some((handles[2], &mut 'c', 3)));
        assert_eq!(table.next(3), None);
    }
}
