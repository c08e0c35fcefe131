//! Removing pages and tables, and freeing them after the processors have flushed them.
use crate::{
    LEAF_BYTES, Leaf, LeafTable, PAGE, Pmap, count, next, next_own, own, upper,
    usage::{Usage, eighths},
};
use core::ops::Range;
use program::NoMemory;
use x86::paging::{ENTRIES, Entry, index};

/// The greatest number of pages that are gathered at once.
pub const BATCH: usize = 128;
const TABLES: usize = 18;
/// The greatest number of tables that [`detach_tops`] removes at once.
pub const TOPS: usize = 16;
/// The greatest number of tables that are removed with one leaf: itself and those above it, without the root.
const LEVELS: usize = 3;

/// Frames, leaf tables and large pages to be freed after the processors have flushed them.
#[derive(Debug)]
pub struct Gathered {
    frames: [u32; BATCH],
    frame_count: usize,
    /// Number of pages whose frames were borrowed.
    borrowed: usize,
    /// The entries that pointed to tables and large pages.
    tables: [Entry; TABLES],
    table_count: usize,
    table_pages: usize,
}

impl Default for Gathered {
    fn default() -> Gathered {
        Gathered {
            frames: [0; BATCH],
            frame_count: 0,
            borrowed: 0,
            tables: [Entry::empty(); TABLES],
            table_count: 0,
            table_pages: 0,
        }
    }
}

impl Gathered {
    /// Adds the page of `entry`, which holds a frame.
    pub(crate) fn push(&mut self, entry: Entry) {
        if entry.contains(Entry::BORROWED) {
            self.borrowed += 1;
        } else if let Some(place) = self.frames.get_mut(self.frame_count) {
            *place = entry.frame();
            self.frame_count += 1;
        }
    }

    fn push_table(&mut self, table: Entry, pages: usize) {
        if let Some(place) = self.tables.get_mut(self.table_count) {
            *place = table;
            self.table_count += 1;
            self.table_pages += pages;
        }
    }

    fn is_full(&self) -> bool {
        self.frame_count == BATCH || self.table_count > TABLES - LEVELS
    }

    /// Returns the number of pages, with those of the tables.
    pub fn pages(&self) -> usize {
        self.frame_count + self.borrowed + self.table_pages
    }

    /// Returns whether tables or large pages were removed. A processor flushes all cached tables when it flushes any page
    /// (Intel SDM volume 3, 4.10.4.1), so it must flush at least one.
    pub fn has_tables(&self) -> bool {
        self.table_count > 0
    }

    /// Frees everything gathered. No lock is needed.
    pub fn release<P: Pmap>(&self, space: &P) {
        space.release_all(self.frames.iter().copied().take(self.frame_count));
        self.tables.iter().take(self.table_count).for_each(|&table| let_go(space, table));
    }
}

/// Makes the leaf tables that `start` and `end` cut in two the space's own, so that removing the pages in between needs no
/// memory. Does nothing if both cut the same table.
///
/// # Errors
/// [`NoMemory`]; what is mapped has not changed.
pub fn own_ends<P: Pmap>(space: &P, start: u64, end: u64) -> Result<(), NoMemory> {
    let (first, last) = ((start | (LEAF_BYTES - 1)) + 1, end & !(LEAF_BYTES - 1));
    if first > last {
        return Ok(());
    }
    for (mut at, end) in [(start, first), (last, end)] {
        if end - at < LEAF_BYTES {
            next_own(space, &mut at, end)?;
        }
    }
    Ok(())
}

/// Removes pages from `at` on until `end` or until `gathered` is full. Moves `at` behind them.
///
/// # Errors
/// [`NoMemory`], but not after [`own_ends`] and not within one leaf table that is the space's own; `at` is then the address for
/// which memory was lacking.
pub fn gather<P: Pmap>(
    space: &P,
    at: &mut u64,
    end: u64,
    gathered: &mut Gathered,
) -> Result<(), NoMemory> {
    while !gathered.is_full()
        && let Some((leaf, first, slots)) = next(space, at, end)
    {
        if slots.len() == ENTRIES {
            let pages = match leaf {
                Leaf::Own(table) | Leaf::Shared(table) => Usage(space.word(table.frame)).held(),
                Leaf::Large(_) => ENTRIES,
            };
            detach(space, first, pages, gathered);
            continue;
        }
        let leaf = match leaf {
            Leaf::Own(table) => table,
            leaf if leaf.held(slots.clone()) == 0 => continue,
            _ => own(space, first).inspect_err(|_| *at = first)?,
        };
        let room = BATCH - gathered.frame_count;
        let slots = slots.start..slots.end.min(slots.start + room);
        *at = first + slots.len() as u64 * PAGE;
        gather_pages(space, &leaf, &slots, gathered);
        keep_one_empty(space, &leaf, first, gathered);
    }
    Ok(())
}

/// Removes the pages of `slots` of a leaf table.
fn gather_pages<P: Pmap>(
    space: &P,
    leaf: &LeafTable<'_>,
    slots: &Range<usize>,
    gathered: &mut Gathered,
) {
    let before = gathered.pages();
    for slot in slots.clone() {
        if leaf.get(slot).holds_frame() {
            gathered.push(leaf.swap(slot, Entry::empty()));
        }
    }
    count(space, leaf, slots, before.wrapping_sub(gathered.pages()) as isize);
}

/// Checks `leaf`, which maps `address`, for pages. An empty leaf is kept in its place, so that a program which maps and unmaps
/// there again and again does not pay for a table each time; the empty leaf that was kept before is removed.
#[inline]
pub(crate) fn keep_one_empty<P: Pmap>(
    space: &P,
    leaf: &LeafTable<'_>,
    address: u64,
    gathered: &mut Gathered,
) {
    if Usage(space.word(leaf.frame)).held() == 0
        && let Some(before) = space.counts().note_emptied(address)
        && let Ok(Leaf::Own(table)) = crate::leaf(space, before)
        && Usage(space.word(table.frame)).held() == 0
    {
        detach(space, before, 0, gathered);
    }
}

/// Removes the leaf of `address`, which has `pages` pages, from the table above, and the tables that this leaves empty.
fn detach<P: Pmap>(space: &P, address: u64, pages: usize, gathered: &mut Gathered) {
    let Ok(above) = upper(space, address) else { return };
    let leaf = space.table(above).swap(index(address, 1), Entry::empty());
    let (usage, counts) = (Usage(space.word(above)), space.counts());
    usage.count(0, -1);
    counts.add_resident(-(pages as isize));
    counts.add_tables(-isize::from(!leaf.contains(Entry::LARGE)));
    gathered.push_table(leaf, pages);
    if usage.held() == 0 {
        detach_empty(space, address, gathered);
    }
}

/// Removes the empty tables above the leaf of `address`, the lowest first. The root stays.
#[cold]
fn detach_empty<P: Pmap>(space: &P, address: u64, gathered: &mut Gathered) {
    let root = space.root();
    let entry_for = |above: u32, level| space.table(above).get(index(address, level));
    let upper = entry_for(root, 3);
    if !upper.contains(Entry::PRESENT) {
        return;
    }
    let lower = entry_for(upper.frame(), 2);
    let lower = lower.contains(Entry::PRESENT).then_some((upper.frame(), 2, lower));
    for (above, level, entry) in lower.into_iter().chain([(root, 3, upper)]) {
        if Usage(space.word(entry.frame())).held() > 0 {
            break;
        }
        space.set_table(above, index(address, level), Entry::empty());
        Usage(space.word(above)).count(0, -1);
        space.counts().add_tables(-1);
        gathered.push_table(entry, 0);
    }
}

/// Frees the empty tables above the leaf of `address`, which were made for a leaf that could not be made.
#[cold]
pub(crate) fn prune<P: Pmap>(space: &P, address: u64) {
    let mut gathered = Gathered::default();
    detach_empty(space, address, &mut gathered);
    if gathered.has_tables() {
        space.forget(address & !(PAGE - 1), 1);
        gathered.release(space);
    }
}

/// Removes up to [`TOPS`] tables from the space's own part of the root. Returns how many are in `tops`.
pub fn detach_tops<P: Pmap>(space: &P, tops: &mut [u32; TOPS]) -> usize {
    let (root, own) = (space.root(), space.tops());
    let marked = Usage(space.word(root)).eighths() & eighths(&own);
    let used = space.table(root).used(marked).filter(|(slot, _)| own.contains(slot));
    let mut count = 0;
    for ((slot, entry), top) in used.zip(tops) {
        space.set_table(root, slot, Entry::empty());
        *top = entry.frame();
        count += 1;
    }
    count
}

/// Frees the table in `frame` of `level` (3 is the root, 1 those above the leaves) and lets go of everything below. It is in no
/// other table, and no processor has it cached.
pub fn free_tree<P: Pmap>(space: &P, frame: u32, level: u32) {
    let eighths = Usage(space.word(frame)).eighths();
    for (_, entry) in space.table(frame).used(eighths) {
        match level {
            1 => let_go(space, entry),
            _ => free_tree(space, entry.frame(), level - 1),
        }
    }
    space.free_table(frame);
}

/// Releases the leaf of `entry`. The last space that had a shared table also frees its pages.
pub(crate) fn let_go<P: Pmap>(space: &P, entry: Entry) {
    if entry.contains(Entry::LARGE) {
        space.count_large(-1);
        return space.release_large(entry.frame());
    }
    let frame = entry.frame();
    let usage = Usage(space.word(frame));
    if usage.let_go() {
        if usage.held() > 0 {
            let is_owned = |entry: &Entry| entry.holds_frame() && !entry.contains(Entry::BORROWED);
            let entries = space.table(frame).used(usage.eighths()).map(|(_, entry)| entry);
            space.release_all(entries.filter(is_owned).map(Entry::frame));
        }
        space.free_table(frame);
    }
}
