//! Large pages: an entry above the leaf tables that maps 512 adjacent frames.
use crate::{ENTRIES, PAGE, Pmap, TABLE, allocate_table, enter, upper, usage::Usage};
use program::NoMemory;
use x86::paging::{Entry, index};

/// Returns the entry `slot` of a leaf table that would map the same as the large page of `entry`.
#[inline]
pub(crate) fn part(entry: Entry, slot: usize) -> Entry {
    Entry::new(entry.frame() + slot as u32, entry - (Entry::ADDRESS | Entry::LARGE))
}

/// Enters `frame`, which is aligned, and the frames after it as a large page at `start`, unless there is a table or another
/// large page, or `flags` allow no access. Returns whether it did.
///
/// # Errors
/// [`NoMemory`]; what is mapped has not changed.
pub fn enter_large<P: Pmap>(
    space: &P,
    start: u64,
    frame: u32,
    flags: Entry,
) -> Result<bool, NoMemory> {
    let (above, slot) = (upper(space, start)?, index(start, 1));
    if !space.table(above).get(slot).is_empty() || !flags.contains(Entry::PRESENT) {
        return Ok(false);
    }
    enter(space, above, slot, Entry::new(frame, flags | Entry::LARGE));
    space.counts().add_resident(ENTRIES as isize);
    space.count_large(1);
    Ok(true)
}

/// Replaces the large page at `slot` of the table in frame `above` by a leaf table. `address` is inside the page.
///
/// # Errors
/// [`NoMemory`]; nothing has changed.
#[cold]
pub(crate) fn split<P: Pmap>(
    space: &P,
    above: u32,
    slot: usize,
    address: u64,
) -> Result<u32, NoMemory> {
    let new = allocate_table(space).ok_or(NoMemory)?;
    let (above, table) = (space.table(above), space.table(new));
    // A processor must never cache one address by pages of two sizes. An access in between faults, and then finds the page
    // mapped.
    let large = above.swap(slot, Entry::empty());
    space.forget(address & !(PAGE - 1), 1);
    (0..ENTRIES).for_each(|slot| table.set(slot, part(large, slot)));
    Usage(space.word(new)).count(u8::MAX, ENTRIES as isize);
    above.set(slot, Entry::new(new, TABLE));
    space.counts().add_tables(1);
    space.count_large(-1);
    Ok(new)
}
