//! Operations of a space over ranges of pages (B5).
//!
//! Each works in batches, so that the lock is never held long; within a batch the order is: change
//! entries, tell the processors, only then give frames and tables back.
use super::{
    NoMemory, PAGE, frames, shootdown,
    space::{Inner, LEAF_BYTES, Protection, free_table},
};
use crate::arch::{
    pages,
    paging::{self, Entry, Table},
};
use core::cell::{Cell, RefCell};
use program::{CloneMode, Page, Unshared};

const BATCH: usize = 128;
const ZERO_BATCH: usize = 32;
/// Pages looked at before the lock is let go for a moment.
const PAGES_A_TURN: u64 = 2048;

/// Frames and tables to give back once the processors forgot them.
struct Gathered {
    frames: [u32; BATCH],
    count: usize,
    tables: [u32; 8],
    table_count: usize,
}

impl Gathered {
    const fn new() -> Gathered {
        Gathered { frames: [0; BATCH], count: 0, tables: [0; 8], table_count: 0 }
    }
    fn push(&mut self, frame: u32) {
        self.frames[self.count] = frame;
        self.count += 1;
    }
    fn is_full(&self) -> bool {
        self.count == BATCH || self.table_count == self.tables.len()
    }
    fn release(&self) {
        frames::release_all(self.frames[..self.count].iter().copied());
        self.tables[..self.table_count].iter().for_each(|&table| free_table(table));
    }
}

fn address_of(start: u64, page: usize) -> u64 {
    start + (page * PAGE) as u64
}

impl Inner {
    /// Maps `list` at pages from `start` where nothing is; how many were mapped.
    ///
    /// # Errors
    /// [`NoMemory`]; pages before stay mapped.
    pub fn map(&self, start: u64, list: &[u32], protection: Protection) -> Result<usize, NoMemory> {
        let flags = Entry::allowing(protection);
        let mut mapped = 0;
        for (chunk, list) in list.chunks(BATCH).enumerate() {
            let _guard = self.lock.lock();
            let before = mapped;
            let mut table: Option<&Table> = None;
            let outcome = list.iter().enumerate().try_for_each(|(index, &frame)| {
                let at = address_of(start, chunk * BATCH + index);
                let slot = paging::index(at, 0);
                let leaf = match table {
                    Some(leaf) if slot != 0 => leaf,
                    _ => self.leaf_or_new(at)?,
                };
                table = Some(leaf);
                if !leaf.get(slot).holds_frame() {
                    frames::retain(frame);
                    leaf.set(slot, Entry::new(frame, flags));
                    mapped += 1;
                }
                Ok(())
            });
            self.count_resident((mapped - before) as isize);
            outcome?;
        }
        Ok(mapped)
    }

    /// Maps `pages` pages of device registers from `physical` at `start`, where nothing is and nothing else will
    /// be: they stay until the space goes.
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
            self.leaf_or_new(at)?.set(paging::index(at, 0), Entry::new(frame, flags));
        }
        Ok(())
    }

    /// Maps new zeroed frames where nothing is; how many.
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
        let wanted = if count == 1 { 1 } else { count - self.count_present(start, count) };
        let made = frames::allocate_all(&mut new[..wanted]);
        if made < wanted {
            frames::release_all(new[..made].iter().copied());
            return Err(NoMemory);
        }
        for &frame in &new[..wanted] {
            // SAFETY: a frame just allocated.
            unsafe { pages::zero(frames::address(frame)) };
        }
        let (used, outcome) =
            self.install(start, count, &new[..wanted], Entry::allowing(protection));
        frames::release_all(new[used..wanted].iter().copied());
        outcome.map(|()| used)
    }

    /// Puts frames of `new` where nothing is; how many it used.
    fn install(
        &self,
        start: u64,
        count: usize,
        new: &[u32],
        flags: Entry,
    ) -> (usize, Result<(), NoMemory>) {
        let _guard = self.lock.lock();
        let mut used = 0;
        let mut table: Option<&Table> = None;
        let outcome = (0..count).try_for_each(|page| {
            let Some(&frame) = new.get(used) else { return Ok(()) };
            let at = address_of(start, page);
            let slot = paging::index(at, 0);
            let leaf = match table {
                Some(leaf) if slot != 0 => leaf,
                _ => self.leaf_or_new(at)?,
            };
            table = Some(leaf);
            if !leaf.get(slot).holds_frame() {
                leaf.set(slot, Entry::new(frame, flags));
                used += 1;
            }
            Ok(())
        });
        self.count_resident(used as isize);
        (used, outcome)
    }

    fn count_present(&self, start: u64, count: usize) -> usize {
        let _guard = self.lock.lock();
        let (mut at, end) = (start, address_of(start, count));
        let mut present = 0;
        while let Some(leaf) = self.next_leaf(&mut at, end) {
            let stop = ((at & !(LEAF_BYTES - 1)) + LEAF_BYTES).min(end);
            let slots = (at..stop).step_by(PAGE).map(|at| paging::index(at, 0));
            present += slots.filter(|&slot| leaf.get(slot).holds_frame()).count();
            at = stop;
        }
        present
    }

    /// Takes every page from `start` to `end` out; how many there were.
    pub fn unmap(&self, start: u64, end: u64) -> usize {
        let (mut at, mut total) = (start, 0);
        while at < end {
            let mut gathered = Gathered::new();
            let guard = self.lock.lock();
            let first = at;
            at = self.gather(at, end, &mut gathered);
            let count = gathered.count;
            self.count_resident(-(count as isize));
            if gathered.table_count > 0 {
                shootdown::user(self, first, usize::MAX / PAGE);
            } else if count > 0 {
                shootdown::user(self, first, ((at - first) as usize) / PAGE);
            }
            drop(guard);
            gathered.release();
            total += count;
        }
        total
    }

    /// The first leaf table from `at` on, which becomes the first address there, before `end`. The lock is held.
    fn next_leaf(&self, at: &mut u64, end: u64) -> Option<&Table> {
        while *at < end {
            match self.leaf(*at) {
                Ok(leaf) => return Some(leaf),
                Err(next) => *at = next.min(end),
            }
        }
        None
    }

    /// Clears entries from `at` on until `end` or the batch is full; where it stopped.
    fn gather(&self, mut at: u64, end: u64, gathered: &mut Gathered) -> u64 {
        while !gathered.is_full()
            && let Some(leaf) = self.next_leaf(&mut at, end)
        {
            let leaf_start = at & !(LEAF_BYTES - 1);
            let stop = (leaf_start + LEAF_BYTES).min(end);
            let room = (BATCH - gathered.count) * PAGE;
            let here = stop.min(at + room as u64);
            for slot in (at..here).step_by(PAGE).map(|at| paging::index(at, 0)) {
                if leaf.get(slot).holds_frame() {
                    gathered.push(leaf.swap(slot, Entry::empty()).frame());
                }
            }
            at = here;
            let is_cleared = at == leaf_start + LEAF_BYTES;
            if is_cleared
                && (0..paging::ENTRIES).all(|slot| !leaf.get(slot).holds_frame())
                && let Some(table) = self.detach_leaf(leaf_start)
            {
                gathered.tables[gathered.table_count] = table;
                gathered.table_count += 1;
            }
        }
        at
    }

    /// Calls `act` on each entry that holds a frame from `start` to `end`, and `turn` with the range
    /// covered before the lock is let go.
    fn each(
        &self,
        start: u64,
        end: u64,
        mut act: impl FnMut(u64, &Table, usize, Entry),
        mut turn: impl FnMut(u64, usize),
    ) {
        let mut at = start;
        while at < end {
            let _guard = self.lock.lock();
            let first = at;
            while at < end && at - first < PAGES_A_TURN * PAGE as u64 {
                let Some(leaf) = self.next_leaf(&mut at, end) else { break };
                let stop = ((at & !(LEAF_BYTES - 1)) + LEAF_BYTES).min(end);
                while at < stop {
                    let slot = paging::index(at, 0);
                    let entry = leaf.get(slot);
                    if entry.holds_frame() {
                        act(at, leaf, slot, entry);
                    }
                    at += PAGE as u64;
                }
            }
            turn(first, (at - first) as usize / PAGE);
        }
    }

    /// Sets the protection of every present page.
    pub fn protect(&self, start: u64, end: u64, protection: Protection) {
        let flags = Entry::allowing(protection);
        let loses = Cell::new(false);
        self.each(
            start,
            end,
            |_, leaf, slot, entry| {
                let kept = entry & (Entry::DIRTY | Entry::ACCESSED);
                let old = leaf.swap(slot, Entry::new(entry.frame(), flags | kept));
                if (old - kept).contains(Entry::DIRTY) {
                    leaf.set(slot, Entry::new(entry.frame(), flags | kept | Entry::DIRTY));
                }
                loses.set(loses.get() || !protection.contains(old.allows()));
            },
            |first, pages| {
                if loses.replace(false) {
                    shootdown::user(self, first, pages);
                }
            },
        );
    }

    /// Copies the present pages into `to` at the same addresses, sharing frames; how many.
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
            // Two locks of a class in the order of their addresses.
            let is_first = core::ptr::from_ref(self) < core::ptr::from_ref(to);
            let (one, two) = if is_first { (self, to) } else { (to, self) };
            let _one = one.lock.lock();
            let _two = two.lock.lock();
            let Some(leaf) = self.next_leaf(&mut at, end) else { break };
            let first = at;
            let stop = ((at & !(LEAF_BYTES - 1)) + LEAF_BYTES).min(end);
            let target = to.leaf_or_new(at)?;
            let (count, lost_write) =
                clone_leaf(leaf, target, paging::index(at, 0), ((stop - at) as usize) / PAGE, mode);
            at = stop;
            to.count_resident(count as isize);
            total += count;
            if lost_write {
                shootdown::user(self, first, ((at - first) as usize) / PAGE);
            }
        }
        Ok(total)
    }

    /// Moves the present pages of `start`..`end` to `to`; how many.
    ///
    /// # Errors
    /// [`NoMemory`]; pages not yet moved stay.
    pub fn move_to(&self, start: u64, end: u64, to: u64) -> Result<usize, NoMemory> {
        let (mut at, mut moved) = (start, 0);
        while at < end {
            let mut replaced = Gathered::new();
            let guard = self.lock.lock();
            let first = at;
            let outcome =
                self.move_batch(&mut at, end, to.wrapping_sub(start), &mut replaced, &mut moved);
            let pages = ((at - first) as usize).div_ceil(PAGE);
            self.count_resident(-(replaced.count as isize));
            shootdown::user(self, first, pages);
            if replaced.count > 0 {
                shootdown::user(self, first.wrapping_add(to.wrapping_sub(start)), pages);
            }
            drop(guard);
            replaced.release();
            outcome?;
        }
        Ok(moved)
    }

    /// Moves entries from `at` on by `distance` until `end` or the batch is full. The lock is held.
    fn move_batch(
        &self,
        at: &mut u64,
        end: u64,
        distance: u64,
        replaced: &mut Gathered,
        moved: &mut usize,
    ) -> Result<(), NoMemory> {
        for _ in 0..BATCH {
            let Some(leaf) = self.next_leaf(at, end) else { break };
            let slot = paging::index(*at, 0);
            if leaf.get(slot).holds_frame() {
                let target = at.wrapping_add(distance);
                let target_leaf = self.leaf_or_new(target)?;
                let entry = leaf.swap(slot, Entry::empty());
                let old = target_leaf.swap(paging::index(target, 0), entry);
                if old.holds_frame() {
                    replaced.push(old.frame());
                }
                *moved += 1;
            }
            *at += PAGE as u64;
        }
        Ok(())
    }

    /// Gives the page at `address` `protection`, copying its frame first where others have it too.
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
            let Ok(leaf) = self.leaf(address) else { return Ok(Unshared::Absent) };
            let slot = paging::index(address, 0);
            let entry = leaf.get(slot);
            if !entry.holds_frame() {
                return Ok(Unshared::Absent);
            }
            let frame = entry.frame();
            let is_alone =
                frames::references(frame).load(core::sync::atomic::Ordering::Acquire) == 1;
            let dirty = Entry::allowing(protection) | Entry::DIRTY;
            if is_alone {
                leaf.set(slot, Entry::new(frame, dirty));
                if !protection.contains(entry.allows()) {
                    shootdown::user(self, address & !(PAGE as u64 - 1), 1);
                }
                Unshared::Reused
            } else {
                let copy = frames::allocate_counted().ok_or(NoMemory)?;
                // SAFETY: `frame` is held by the entry, `copy` is new.
                unsafe { pages::copy(frames::address(frame), frames::address(copy)) };
                leaf.set(slot, Entry::new(copy, dirty));
                shootdown::user(self, address & !(PAGE as u64 - 1), 1);
                old = Some(frame);
                Unshared::Copied
            }
        };
        if let Some(frame) = old {
            frames::release(frame);
        }
        Ok(outcome)
    }

    /// The page at `address`.
    pub fn query(&self, address: u64) -> Option<Page> {
        let _guard = self.lock.lock();
        let leaf = self.leaf(address).ok()?;
        let entry = leaf.get(paging::index(address, 0));
        entry.holds_frame().then(|| {
            frames::retain(entry.frame());
            Page {
                frame: entry.frame(),
                protection: entry.allows(),
                is_accessed: entry.contains(Entry::ACCESSED),
                is_dirty: entry.contains(Entry::DIRTY),
            }
        })
    }

    /// Reads and clears accessed and dirty bits; `visit` gets index, frame, accessed, dirty, no lock held.
    pub fn harvest(&self, start: u64, end: u64, visit: &mut dyn FnMut(usize, u32, bool, bool)) {
        let mut at = start;
        while at < end {
            let stop = end.min(at.saturating_add((BATCH * PAGE) as u64));
            let found = RefCell::new(([(0usize, Entry::empty()); BATCH], 0));
            self.each(
                at,
                stop,
                |at, leaf, slot, _| {
                    let (found, count) = &mut *found.borrow_mut();
                    let entry = leaf.clear(slot, Entry::ACCESSED | Entry::DIRTY);
                    found[*count] = ((at - start) as usize / PAGE, entry);
                    *count += 1;
                },
                |first, pages| {
                    let (found, count) = &*found.borrow();
                    if found[..*count].iter().any(|(_, entry)| entry.contains(Entry::DIRTY)) {
                        shootdown::user(self, first, pages);
                    }
                },
            );
            at = stop;
            let (found, count) = found.into_inner();
            for &(index, entry) in &found[..count] {
                let is = |bit| entry.contains(bit);
                visit(index, entry.frame(), is(Entry::ACCESSED), is(Entry::DIRTY));
            }
        }
    }
}

/// Clones `count` entries from `slot`; how many were copied and whether any lost write access.
fn clone_leaf(
    leaf: &Table,
    target: &Table,
    slot: usize,
    count: usize,
    mode: CloneMode,
) -> (usize, bool) {
    let (mut copied, mut lost_write) = (0, false);
    for slot in slot..slot + count {
        let entry = leaf.get(slot);
        if !entry.holds_frame() || target.get(slot).holds_frame() {
            continue;
        }
        frames::retain(entry.frame());
        let mut copy = entry - Entry::DIRTY;
        if mode == CloneMode::CopyOnWrite && entry.contains(Entry::WRITE) {
            leaf.clear(slot, Entry::WRITE);
            copy -= Entry::WRITE;
            lost_write = true;
        }
        target.set(slot, copy);
        copied += 1;
    }
    (copied, lost_write)
}
