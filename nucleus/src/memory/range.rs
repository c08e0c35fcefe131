//! Operations of a space over ranges of pages (B5).
//!
//! Each works in batches, so that the lock is never held long; within a batch the order is: change entries, tell the
//! processors, only then give frames and tables back. The changes themselves are made by `libs/pmap`.
use super::{
    NoMemory, PAGE, frames, shootdown,
    space::{Inner, Protection},
};
use crate::arch::{
    pages,
    paging::{self, ENTRIES, Entry},
};
use core::sync::atomic::Ordering::Acquire;
use pmap::{BATCH, Cloned, Gathered, Leaf, Place};
use program::{CloneMode, Page, Unshared};

const ZERO_BATCH: usize = 32;
/// Leaf tables looked at before the lock is released for a moment.
const TABLES_A_TURN: usize = 4;

fn address_of(start: u64, page: usize) -> u64 {
    start + (page * PAGE) as u64
}

fn pages_between(start: u64, end: u64) -> usize {
    (end - start) as usize / PAGE
}

impl Inner {
    /// Maps `list` at pages from `start` that are not present. Returns how many were mapped.
    ///
    /// # Errors
    /// [`NoMemory`]; pages before stay mapped.
    pub fn map(&self, start: u64, list: &[u32], protection: Protection) -> Result<usize, NoMemory> {
        self.enter(start, list, Entry::allowing(protection), frames::retain)
    }

    /// Maps `list` as [`Inner::map`] does, with the `flags` of entries. `hold` gets each frame that is mapped, to take the reference of
    /// its entry. A caller that takes none keeps the frames until they are unmapped here or the space is gone
    /// ([`Entry::BORROWED`]).
    ///
    /// # Errors
    /// Those of [`Inner::map`].
    pub fn enter(
        &self,
        start: u64,
        list: &[u32],
        flags: Entry,
        hold: impl Fn(u32),
    ) -> Result<usize, NoMemory> {
        let mut mapped = 0;
        for (list, at) in list.chunks(BATCH).zip((start..).step_by(BATCH * PAGE)) {
            let _guard = self.lock.lock();
            let (entered, outcome) = pmap::fill(self, at, list.len(), flags, |page| {
                list.get(page).copied().inspect(|&frame| hold(frame))
            });
            mapped += entered;
            outcome?;
        }
        Ok(mapped)
    }

    /// Maps `pages` pages of device registers from `physical` at `start`. Nothing is or will be mapped there: the pages stay
    /// until the space ends.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn map_device(&self, start: u64, physical: u64, pages: usize) -> Result<(), NoMemory> {
        const UNCACHED: Entry = Entry::DEVICE.union(Entry::NO_CACHE).union(Entry::WRITE_THROUGH);
        let flags = Entry::allowing(Protection::READ | Protection::WRITE) | UNCACHED;
        let _guard = self.lock.lock();
        for page in 0..pages {
            let at = address_of(start, page);
            let frame = (physical >> 12) as u32 + page as u32;
            pmap::enter_device(self, at, Entry::new(frame, flags))?;
        }
        Ok(())
    }

    /// Maps new zeroed frames at pages that are not present. Returns how many.
    ///
    /// # Errors
    /// [`NoMemory`]; pages before stay mapped.
    pub fn map_zeroed(
        &self,
        start: u64,
        count: usize,
        protection: Protection,
    ) -> Result<usize, NoMemory> {
        let mut mapped = 0;
        let mut page = 0;
        while page < count {
            let batch = (count - page).min(ZERO_BATCH);
            mapped += self.map_zeroed_batch(address_of(start, page), batch, protection)?;
            page += batch;
        }
        Ok(mapped)
    }

    fn map_zeroed_batch(
        &self,
        start: u64,
        count: usize,
        protection: Protection,
    ) -> Result<usize, NoMemory> {
        let mut new = [0; ZERO_BATCH];
        let wanted = if count == 1 { 1 } else { count - self.present(start, count) };
        if wanted == 0 {
            return Ok(0);
        }
        self.charge(wanted)?;
        let made = frames::allocate_all(&mut new[..wanted]);
        if made < wanted {
            frames::release_all(new[..made].iter().copied());
            self.uncharge(wanted);
            return Err(NoMemory);
        }
        for &frame in &new[..wanted] {
            // SAFETY: a frame just allocated.
            unsafe { pages::zero(frames::address(frame)) };
        }
        let mut next = new.iter().take(wanted).copied();
        let (used, outcome) = {
            let _guard = self.lock.lock();
            pmap::fill(self, start, count, Entry::allowing(protection), |_| next.next())
        };
        self.uncharge(frames::release_all(next));
        outcome.map(|()| used)
    }

    /// Maps a new zeroed large page at `start`, which is aligned to its size. No page is or lately was present there.
    /// Returns whether there was a free run of frames.
    ///
    /// # Errors
    /// [`NoMemory`]; nothing is mapped then.
    pub fn map_large(&self, start: u64, protection: Protection) -> Result<bool, NoMemory> {
        let is_taken = {
            let _guard = self.lock.lock();
            pmap::leaf(self, start).is_ok()
        };
        if is_taken {
            return Ok(false);
        }
        self.charge(ENTRIES)?;
        let Some(first) = frames::allocate_counted_run(ENTRIES) else {
            self.uncharge(ENTRIES);
            return Ok(false);
        };
        for frame in (first..).take(ENTRIES) {
            // SAFETY: a frame just allocated.
            unsafe { pages::zero(frames::address(frame)) };
        }
        let flags = Entry::allowing(protection) | Entry::DIRTY;
        let entered = {
            let _guard = self.lock.lock();
            pmap::enter_large(self, start, first, flags)
        };
        if !matches!(entered, Ok(true)) {
            self.uncharge(frames::release_run(first, ENTRIES));
        }
        entered
    }

    fn present(&self, start: u64, count: usize) -> usize {
        let _guard = self.lock.lock();
        pmap::present(self, start, count)
    }

    /// Removes every page from `start` to `end`. Returns how many there were.
    ///
    /// # Errors
    /// [`NoMemory`] for copies of tables that are shared after a fork. Nothing was removed then, unless the tables became
    /// shared meanwhile.
    pub fn unmap(&self, start: u64, end: u64) -> Result<usize, NoMemory> {
        let (mut at, mut total) = (start, 0);
        {
            let _guard = self.lock.lock();
            pmap::own_ends(self, start, end)?;
        }
        while at < end {
            let mut gathered = Gathered::default();
            let guard = self.lock.lock();
            let first = at;
            let outcome = pmap::gather(self, &mut at, end, &mut gathered);
            if gathered.pages() > 0 || gathered.has_tables() {
                shootdown::user(self, first, pages_between(first, at));
            }
            drop(guard);
            gathered.release(self);
            total += gathered.pages();
            outcome?;
        }
        Ok(total)
    }

    /// Sets the protection of every present page.
    ///
    /// # Errors
    /// [`NoMemory`] for copies of tables that are shared after a fork. Nothing has changed then, unless the tables became
    /// shared meanwhile.
    pub fn protect(&self, start: u64, end: u64, protection: Protection) -> Result<(), NoMemory> {
        let mut at = start;
        while at < end && !pmap::is_one_leaf(start, end) {
            let _guard = self.lock.lock();
            pmap::own_all(self, &mut at, end, TABLES_A_TURN)?;
        }
        at = start;
        while at < end {
            let _guard = self.lock.lock();
            let (first, mut has_lost) = (at, false);
            let outcome =
                pmap::protect(self, &mut at, end, protection, TABLES_A_TURN, &mut has_lost);
            if has_lost {
                shootdown::user(self, first, pages_between(first, at));
            }
            outcome?;
        }
        Ok(())
    }

    /// Shares the present pages with `to` at the same addresses, copy-on-write. Returns how many.
    ///
    /// # Errors
    /// [`NoMemory`]; `to` then holds a part.
    pub fn clone_to(
        &self,
        to: &Inner,
        start: u64,
        end: u64,
        mode: CloneMode,
    ) -> Result<usize, NoMemory> {
        if core::ptr::eq(self, to) {
            return Ok(0);
        }
        let (mut at, mut total) = (start, 0);
        while at < end {
            // Two locks of one class are taken in the order of their addresses.
            let is_first = core::ptr::from_ref(self) < core::ptr::from_ref(to);
            let (one, two) = if is_first { (self, to) } else { (to, self) };
            let _one = one.lock.lock();
            let _two = two.lock.lock();
            let (first, mut cloned) = (at, Cloned::default());
            let outcome = pmap::clone((self, to), &mut at, end, mode, TABLES_A_TURN, &mut cloned);
            if cloned.has_lost {
                shootdown::user(self, first, pages_between(first, at));
            }
            total += cloned.pages;
            outcome?;
        }
        Ok(total)
    }

    /// Moves the present pages of `start`..`end` to `to`. Returns how many.
    ///
    /// # Errors
    /// [`NoMemory`]; pages not yet moved stay.
    pub fn move_to(&self, start: u64, end: u64, to: u64) -> Result<usize, NoMemory> {
        let distance = to.wrapping_sub(start);
        let (mut at, mut moved) = (start, 0);
        while at < end {
            let mut replaced = Gathered::default();
            let guard = self.lock.lock();
            let (first, before) = (at, moved);
            let outcome = pmap::move_pages(self, &mut at, end, distance, &mut replaced, &mut moved);
            let pages = pages_between(first, at);
            if moved > before || replaced.has_tables() {
                shootdown::user(self, first, pages);
            }
            if replaced.pages() > 0 {
                shootdown::user(self, first.wrapping_add(distance), pages);
            }
            drop(guard);
            replaced.release(self);
            outcome?;
        }
        Ok(moved)
    }

    /// Gives the page at `address` `protection`. Copies its frame first if the frame has other references.
    ///
    /// # Errors
    /// [`NoMemory`] for the copy.
    pub fn make_writable(
        &self,
        address: u64,
        protection: Protection,
    ) -> Result<Unshared, NoMemory> {
        let mut old = None;
        let outcome = {
            let _guard = self.lock.lock();
            let (leaf, slot) = match pmap::page_to_change(self, address, protection)? {
                Place::Table(leaf, slot) => (leaf, slot),
                Place::Large => return Ok(Unshared::Reused),
                Place::Absent => return Ok(Unshared::Absent),
            };
            let entry = leaf.get(slot);
            let frame = entry.frame();
            let is_alone = frames::references(frame).load(Acquire) == 1;
            let dirty = Entry::allowing(protection) | Entry::DIRTY;
            if is_alone {
                leaf.set(slot, Entry::new(frame, dirty));
                if !protection.contains(entry.allows()) {
                    shootdown::user(self, address & !(PAGE as u64 - 1), 1);
                }
                Unshared::Reused
            } else {
                self.charge(1)?;
                let refused = || {
                    self.uncharge(1);
                    NoMemory
                };
                let copy = frames::allocate_counted().ok_or_else(refused)?;
                // SAFETY: `frame` is held by the entry, `copy` is new.
                unsafe { pages::copy(frames::address(frame), frames::address(copy)) };
                leaf.set(slot, Entry::new(copy, dirty));
                shootdown::user(self, address & !(PAGE as u64 - 1), 1);
                old = Some(frame);
                Unshared::Copied
            }
        };
        if let Some(frame) = old {
            self.uncharge(frames::release_all([frame]));
        }
        Ok(outcome)
    }

    /// Calls `visit` with the address of each page present from `start` on, before `end`, under the space's lock, as long as
    /// it returns `true`.
    pub fn each_present(&self, start: u64, end: u64, visit: impl FnMut(u64) -> bool) {
        let _guard = self.lock.lock();
        pmap::each_present(self, start, end, visit)
    }

    /// Returns the page at `address`.
    pub fn query(&self, address: u64) -> Option<Page> {
        let _guard = self.lock.lock();
        let leaf = pmap::leaf(self, address).ok().filter(|_| self.bytes_from(address) > 0)?;
        let entry = leaf.get(paging::index(address, 0));
        entry.holds_frame().then(|| {
            frames::retain(entry.frame());
            Page {
                frame: entry.frame(),
                protection: entry.allows(),
                is_accessed: entry.contains(Entry::ACCESSED),
                is_dirty: entry.contains(Entry::DIRTY),
                is_large: matches!(leaf, Leaf::Large(_)),
            }
        })
    }
}
