//! Cloning a space for a fork: pages are shared one by one, or by whole leaf tables until one of them is to be changed.
use crate::{
    Leaf, LeafTable, PAGE, Pmap, TABLE, count_in, enter, next, own,
    release::let_go,
    upper,
    usage::{Usage, eighths},
};
use core::{ops::Range, sync::atomic::Ordering::Relaxed};
use program::{CloneMode, NoMemory};
use x86::paging::{ENTRIES, Entry, Table, index};

/// Least number of pages for which a leaf table is shared. With fewer pages, the first store to one of them would cost more
/// than sharing the pages one by one.
const PAGES_TO_SHARE: usize = 64;
/// Flags of the entry above a leaf table that is shared.
const SHARED: Entry = TABLE.difference(Entry::WRITE);

/// The spaces that have a leaf table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holders {
    One,
    Several,
}

/// The result of cloning a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cloned {
    /// Number of pages shared.
    pub pages: usize,
    /// Some pages lost write access, so the processors must be told.
    pub has_lost: bool,
}

/// Lets `to` share the pages from `at` to `end` that it does not have itself, in at most `tables` leaf tables, without write
/// access for either. Moves `at` behind them. Both spaces are locked.
///
/// # Errors
/// [`NoMemory`]; `cloned` holds what was done until then.
pub fn clone<P: Pmap>(
    (space, to): (&P, &P),
    at: &mut u64,
    end: u64,
    mode: CloneMode,
    tables: usize,
    cloned: &mut Cloned,
) -> Result<(), NoMemory> {
    for _ in 0..tables {
        let Some((leaf, first, slots)) = next(space, at, end) else { break };
        let holders = if leaf.is_shared() { Holders::Several } else { Holders::One };
        let table = match leaf {
            Leaf::Own(table) | Leaf::Shared(table) => table,
            Leaf::Large(_) => own(space, first)?,
        };
        let is_whole = slots.len() == ENTRIES && mode == CloneMode::Tables;
        if !is_whole || !share(space, to, &table, holders, first, cloned)? {
            clone_pages(space, to, &table, holders, first, &slots, cloned)?;
        }
    }
    Ok(())
}

/// Shares the whole leaf table of `address`, if that is possible and saves work.
fn share<P: Pmap>(
    space: &P,
    to: &P,
    leaf: &LeafTable<'_>,
    holders: Holders,
    address: u64,
    cloned: &mut Cloned,
) -> Result<bool, NoMemory> {
    let usage = Usage(space.word(leaf.frame));
    let pages = usage.held();
    if pages < PAGES_TO_SHARE {
        return Ok(false);
    }
    if !to.counts().may_add_table() {
        return Err(NoMemory);
    }
    let (above, slot) = (upper(to, address)?, index(address, 1));
    if to.table(above).get(slot).contains(Entry::PRESENT) || !usage.share() {
        return Ok(false);
    }
    let entry = Entry::new(leaf.frame, SHARED);
    if holders == Holders::One {
        space.table(upper(space, address)?).set(slot, entry);
        cloned.has_lost = true;
    }
    enter(to, above, slot, entry);
    to.counts().add_tables(1);
    to.counts().add_resident(pages as isize);
    cloned.pages += pages;
    Ok(true)
}

/// Shares the pages of `slots` of a leaf table, one by one.
fn clone_pages<P: Pmap>(
    space: &P,
    to: &P,
    leaf: &LeafTable<'_>,
    holders: Holders,
    address: u64,
    slots: &Range<usize>,
    cloned: &mut Cloned,
) -> Result<(), NoMemory> {
    let eighths = Usage(space.word(leaf.frame)).eighths() & eighths(slots);
    let is_held = |&(slot, entry): &(usize, Entry)| slots.contains(&slot) && entry.holds_frame();
    let held = || leaf.used(eighths).filter(is_held);
    if !held().any(|_| true) {
        return Ok(());
    }
    let target = own(to, address)?;
    let mut pages = 0;
    held().for_each(|(slot, entry)| {
        if target.get(slot).holds_frame() {
            return;
        }
        if share_page(space, leaf, slot, entry) {
            cloned.has_lost |= holders == Holders::One;
        }
        target.set(slot, entry - (Entry::WRITE | Entry::DIRTY));
        pages += 1;
    });
    count_in(to, &target, eighths, pages);
    cloned.pages += pages as usize;
    Ok(())
}

/// Adds a reference to the page of `entry`, and removes write access to it. Returns whether it had write access.
#[inline]
fn share_page<P: Pmap>(space: &P, table: &Table, slot: usize, entry: Entry) -> bool {
    space.word(entry.frame()).fetch_add(1, Relaxed);
    let could_write = entry.contains(Entry::WRITE);
    if could_write {
        table.clear(slot, Entry::WRITE);
    }
    could_write
}

/// Makes the shared leaf table at `slot` of the table in frame `above` the space's own: the table itself if no other space has
/// it any more, else a copy. `address` is an address that it maps.
///
/// # Errors
/// [`NoMemory`]; nothing has changed.
#[cold]
pub(crate) fn make_own<P: Pmap>(
    space: &P,
    above: u32,
    slot: usize,
    address: u64,
) -> Result<u32, NoMemory> {
    let (above, shared) = (space.table(above), space.table(above).get(slot));
    let usage = Usage(space.word(shared.frame()));
    if !usage.is_shared() {
        above.set(slot, Entry::new(shared.frame(), TABLE));
        return Ok(shared.frame());
    }
    let new = space.allocate_table().ok_or(NoMemory)?;
    let (from, to) = (space.table(shared.frame()), space.table(new));
    let held = from.used(usage.eighths()).filter(|(_, entry)| entry.holds_frame());
    held.for_each(|(slot, entry)| {
        share_page(space, from, slot, entry);
        to.set(slot, entry - Entry::WRITE);
    });
    Usage(space.word(new)).count(usage.eighths(), usage.held() as isize);
    above.set(slot, Entry::new(new, TABLE));
    // The pages are the same, but a processor that still has the old table cached could go on using it.
    space.forget(address & !(PAGE - 1), 1);
    let_go(space, shared);
    Ok(new)
}
