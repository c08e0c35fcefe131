//! The names of a directory that exists in the name cache only ([`Backing::Cache`]): the dentries, in the order in
//! which they were made.
//!
//! The name cache finds a name; this list keeps it while it exists, at a position that never changes. A position is
//! used once and never again, so a reader that continues after position `p` sees every name that existed all the time
//! exactly once, whatever is added or removed. The newest name is shown first, as on Linux.
//!
//! [`Backing::Cache`]: interfaces::file_system::Backing::Cache
//!
//! [`Backing::Cache`]: interfaces::file_system::Backing::Cache
use crate::tree::dentry::Dentry;
use alloc::{sync::Arc, vec::Vec};
use interfaces::file_system::{DirectoryEntry, TakeEntry};
use rt::{NoMemory, memory::Charge};

/// A position, and the dentry at it until that is removed.
type NameSlot = (u64, Option<Arc<Dentry>>);

/// Number of slots that are made at first.
const SLOTS_MIN: usize = 4;
/// Positions that a reader gets count down from here and still fit a signed number.
const TOP: u64 = (1 << 62) - 1;

/// The names of one directory.
pub(crate) struct Names {
    /// The slots in ascending order of position. The last one is never empty, and at most half of them are.
    slots: Vec<NameSlot>,
    /// Number of names.
    count: usize,
    /// The next position.
    next: u64,
    charge: Charge,
}

impl Names {
    /// Makes an empty list.
    pub(crate) const fn new() -> Names {
        Names { slots: Vec::new(), count: 0, next: 0, charge: Charge::none() }
    }
    /// Returns whether there are no names.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
    /// Adds a name after all others.
    ///
    /// # Errors
    /// [`NoMemory`], without a change.
    #[inline]
    pub(crate) fn insert(&mut self, dentry: &Arc<Dentry>) -> Result<(), NoMemory> {
        if self.slots.len() == self.slots.capacity() {
            self.resize((self.slots.len() * 2).max(SLOTS_MIN))?;
        }
        dentry.set_position(self.next);
        self.slots.push((self.next, Some(dentry.clone())));
        self.next += 1;
        self.count += 1;
        Ok(())
    }
    /// Gives the position of one name to another.
    pub(crate) fn replace(&mut self, position: u64, dentry: &Arc<Dentry>) {
        dentry.set_position(position);
        let slot = self.find(position).and_then(|index| self.slots.get_mut(index));
        let before = slot.and_then(|slot| slot.1.replace(dentry.clone()));
        // The caller holds the dentry, so that it is not dropped here.
        drop(before);
    }
    /// Removes a name that the caller holds.
    #[inline]
    pub(crate) fn remove(&mut self, position: u64) {
        let found = self.find(position).and_then(|index| self.slots.get_mut(index));
        let Some(slot) = found else { return };
        slot.1 = None;
        self.count -= 1;
        while self.slots.last().is_some_and(|slot| slot.1.is_none()) {
            self.slots.pop();
        }
        if self.count * 2 + SLOTS_MIN < self.slots.len() {
            self.slots.retain(|slot| slot.1.is_some());
        }
        if self.slots.len() * 4 + SLOTS_MIN < self.slots.capacity() {
            let _ = self.resize(self.slots.len() * 2);
        }
    }
    /// Removes all names.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Arc<Dentry>> + use<> {
        let names = core::mem::replace(self, Names { next: self.next, ..Names::new() });
        names.slots.into_iter().filter_map(|slot| slot.1)
    }
    /// Passes the names after position `shown` to `take`; 0 is before all.
    pub(crate) fn read(&self, shown: u64, take: &mut TakeEntry<'_>) {
        let end = match shown {
            0 => self.slots.len(),
            _ => self.slots.partition_point(|slot| TOP - slot.0 > shown),
        };
        let before = self.slots.get(..end).unwrap_or_default();
        for (position, dentry) in before.iter().rev() {
            let Some(dentry) = dentry else { continue };
            let vnode = dentry.vnode();
            let shown = DirectoryEntry {
                inode: vnode.inode(),
                file_type: Some(vnode.file_type()),
                name: &*dentry.name(),
                next: TOP - position,
            };
            if take(&shown).is_break() {
                return;
            }
        }
    }
    /// Returns the index of the slot with `position`. Without gaps, that is the distance from the first position.
    #[inline]
    fn find(&self, position: u64) -> Option<usize> {
        let distance = position.checked_sub(self.slots.first()?.0)? as usize;
        match self.slots.get(distance) {
            Some(slot) if slot.0 == position => Some(distance),
            _ => self.slots.binary_search_by_key(&position, |slot| slot.0).ok(),
        }
    }
    /// Reserves memory for this many slots in all.
    fn resize(&mut self, slots: usize) -> Result<(), NoMemory> {
        let charge = Charge::take(slots * size_of::<NameSlot>())?;
        if slots > self.slots.capacity() {
            let more = slots - self.slots.len();
            self.slots.try_reserve_exact(more).map_err(|_| NoMemory)?;
        } else {
            self.slots.shrink_to(slots);
        }
        self.charge = charge;
        Ok(())
    }
}
