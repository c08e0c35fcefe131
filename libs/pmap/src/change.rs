//! Filling tables, and changing their entries.
use crate::{
    BATCH, Gathered, Leaf, LeafTable, PAGE, Pmap, count, leaf, next, next_own, own,
    release::keep_one_empty, slots,
};
use program::{NoMemory, Protection};
use x86::paging::{Entry, index};

/// Enters frames at those of `pages` pages from `start` on that are not present, as long as `frame_for` returns a frame for a
/// page's number. Returns how many it entered, and whether there was memory for the tables.
#[inline]
pub fn fill<P: Pmap>(
    space: &P,
    start: u64,
    pages: usize,
    flags: Entry,
    mut frame_for: impl FnMut(usize) -> Option<u32>,
) -> (usize, Result<(), NoMemory>) {
    let (mut at, end) = (start, start + pages as u64 * PAGE);
    let mut entered = 0;
    while at < end {
        let leaf = match own(space, at) {
            Ok(leaf) => leaf,
            Err(error) => return (entered, Err(error)),
        };
        let (slots, before) = (slots(at, end), entered);
        let page = ((at - start) / PAGE) as usize;
        for (slot, page) in slots.clone().zip(page..) {
            if leaf.get(slot).holds_frame() {
                continue;
            }
            let Some(frame) = frame_for(page) else { break };
            leaf.set(slot, Entry::new(frame, flags));
            entered += 1;
        }
        count(space, &leaf, &slots, (entered - before) as isize);
        at += slots.len() as u64 * PAGE;
    }
    (entered, Ok(()))
}

/// Returns how many of the `pages` pages from `start` on are present.
pub fn present<P: Pmap>(space: &P, start: u64, pages: usize) -> usize {
    let (mut at, end) = (start, start + pages as u64 * PAGE);
    let mut present = 0;
    while let Some((leaf, _, slots)) = next(space, &mut at, end) {
        present += leaf.held(slots);
    }
    present
}

/// Calls `visit` with the address of each page present from `start` on, before `end`, as long as it returns `true`.
pub fn each_present<P: Pmap>(space: &P, start: u64, end: u64, mut visit: impl FnMut(u64) -> bool) {
    let mut at = start;
    while let Some((leaf, first, slots)) = next(space, &mut at, end) {
        for (slot, address) in slots.zip((first..).step_by(PAGE as usize)) {
            if leaf.get(slot).holds_frame() && !visit(address) {
                return;
            }
        }
    }
}

/// The place of the entry of a page to be changed.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// The page is not present.
    Absent,
    /// The page is in a large page that already allows the wanted access.
    Large,
    /// The entry is in this table, at this index.
    Table(LeafTable<'a>, usize),
}

/// Finds the entry of the page at `address` that is to allow `protection`.
///
/// # Errors
/// [`NoMemory`]; nothing has changed.
pub fn page_to_change<P: Pmap>(
    space: &P,
    address: u64,
    protection: Protection,
) -> Result<Place<'_>, NoMemory> {
    let slot = index(address, 0);
    match leaf(space, address) {
        Ok(leaf) if !leaf.get(slot).holds_frame() => Ok(Place::Absent),
        Ok(Leaf::Own(table)) => Ok(Place::Table(table, slot)),
        Ok(Leaf::Large(entry)) if entry.allows().contains(protection) => Ok(Place::Large),
        Ok(_) => Ok(Place::Table(own(space, address)?, slot)),
        Err(_) => Ok(Place::Absent),
    }
}

/// Makes the leaf tables from `at` to `end` that have pages there the space's own, at most `tables` of them. Moves `at` behind
/// them.
///
/// # Errors
/// [`NoMemory`]; what is mapped has not changed.
pub fn own_all<P: Pmap>(space: &P, at: &mut u64, end: u64, tables: usize) -> Result<(), NoMemory> {
    for _ in 0..tables {
        if next_own(space, at, end)?.is_none() {
            break;
        }
    }
    Ok(())
}

/// Sets the protection of the pages from `at` to `end`, in at most `tables` leaf tables, and moves `at` behind them. Sets
/// `has_lost` if any page lost a right, in which case the processors must be told.
///
/// # Errors
/// [`NoMemory`]; never if the tables are the space's own.
pub fn protect<P: Pmap>(
    space: &P,
    at: &mut u64,
    end: u64,
    protection: Protection,
    tables: usize,
    has_lost: &mut bool,
) -> Result<(), NoMemory> {
    let flags = Entry::allowing(protection);
    for _ in 0..tables {
        let Some((leaf, _, slots)) = next_own(space, at, end)? else { break };
        for slot in slots {
            let entry = leaf.get(slot);
            if !entry.holds_frame() {
                continue;
            }
            let kept = entry & (Entry::DIRTY | Entry::ACCESSED);
            let old = leaf.swap(slot, Entry::new(entry.frame(), flags | kept));
            if (old - kept).contains(Entry::DIRTY) {
                leaf.set(slot, Entry::new(entry.frame(), flags | kept | Entry::DIRTY));
            }
            *has_lost |= !protection.contains(old.allows());
        }
    }
    Ok(())
}

/// Moves pages from `at` on by `distance`, until `end` or until as many were looked at as can be gathered, and adds their
/// number to `moved`. Moves `at` behind them. `replaced` gathers the pages that they replace and the tables that they leave
/// empty.
///
/// # Errors
/// [`NoMemory`]; `at` is then the first page not moved.
pub fn move_pages<P: Pmap>(
    space: &P,
    at: &mut u64,
    end: u64,
    distance: u64,
    replaced: &mut Gathered,
    moved: &mut usize,
) -> Result<(), NoMemory> {
    *at = next(space, &mut { *at }, end).map_or(end, |(_, first, _)| first);
    let end = end.min(at.saturating_add(BATCH as u64 * PAGE));
    while let Some((leaf, first, slots)) = next_own(space, at, end)? {
        for (slot, from) in slots.zip((first..).step_by(PAGE as usize)) {
            if !leaf.get(slot).holds_frame() {
                continue;
            }
            let to = from.wrapping_add(distance);
            let target = own(space, to).inspect_err(|_| *at = from)?;
            let there = index(to, 0);
            let old = target.swap(there, leaf.swap(slot, Entry::empty()));
            count(space, &leaf, &(slot..slot + 1), -1);
            count(space, &target, &(there..there + 1), isize::from(!old.holds_frame()));
            if old.holds_frame() {
                replaced.push(old);
            }
            *moved += 1;
        }
        keep_one_empty(space, &leaf, first, replaced);
    }
    Ok(())
}
