//! Taking pages and tables out, and giving them back once the processors forgot them.
use crate::{
    LEAF_BYTES, Leaf, LeafTable, PAGE, Pmap, count, next, next_own, own, upper, usage::Usage,
};
use core::ops::Range;
use program::NoMemory;
use x86::paging::{ENTRIES, Entry, index};

/// Pages that are gathered at once.
pub const BATCH: usize = 128;
const TABLES: usize = 16;

/// Frames, leaf tables and large pages to give back once the processors forgot them.
#[derive(Debug)]
pub struct Gathered {
    frames: [u32; BATCH],
    frame_count: usize,
    /// The entries that were above: of tables and of large pages.
    tables: [Entry; TABLES],
    table_count: usize,
    table_pages: usize,
}

impl Default for Gathered {
    fn default() -> Gathered {
        Gathered {
            frames: [0; BATCH],
            frame_count: 0,
            tables: [Entry::empty(); TABLES],
            table_count: 0,
            table_pages: 0,
        }
    }
}

impl Gathered {
    pub(crate) fn push(&mut self, frame: u32) {
        if let Some(place) = self.frames.get_mut(self.frame_count) {
            *place = frame;
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
        self.frame_count == BATCH || self.table_count == TABLES
    }

    /// Pages, those of the tables too.
    pub fn pages(&self) -> usize {
        self.frame_count + self.table_pages
    }

    /// Whether tables are gone: the processors must forget all that they know of these.
    pub fn has_tables(&self) -> bool {
        self.table_count > 0
    }

    /// Gives all back. No lock is needed.
    pub fn release<P: Pmap>(&self, space: &P) {
        space.release_all(self.frames.iter().copied().take(self.frame_count));
        self.tables.iter().take(self.table_count).for_each(|&table| let_go(space, table));
    }
}

/// Makes the leaf tables that `start` and `end` cut in two the space's own, so that taking out what lies between needs no
/// memory. Nothing where both cut one table.
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

/// Takes out pages from `at` on until `end` or `gathered` is full; `at` is then behind.
///
/// # Errors
/// [`NoMemory`], not after [`own_ends`] and not within one leaf table that is the space's own; `at` is then where it was lacking.
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
        if slots.end == ENTRIES && Usage(space.word(leaf.frame)).held() == 0 {
            detach(space, first, 0, gathered);
        }
    }
    Ok(())
}

/// Takes out the pages of `slots` of a leaf table.
fn gather_pages<P: Pmap>(
    space: &P,
    leaf: &LeafTable<'_>,
    slots: &Range<usize>,
    gathered: &mut Gathered,
) {
    let before = gathered.frame_count;
    for slot in slots.clone() {
        if leaf.get(slot).holds_frame() {
            gathered.push(leaf.swap(slot, Entry::empty()).frame());
        }
    }
    count(space, leaf, slots, before.wrapping_sub(gathered.frame_count) as isize);
}

/// Takes the leaf of `address`, which has `pages` pages, out of the table above.
fn detach<P: Pmap>(space: &P, address: u64, pages: usize, gathered: &mut Gathered) {
    if let Ok(above) = upper(space, address) {
        let leaf = space.table(above).swap(index(address, 1), Entry::empty());
        space.count_resident(-(pages as isize));
        gathered.push_table(leaf, pages);
    }
}

/// Takes up to 16 tables below the root out of the part of it that is the program's: how many, into `tops`.
pub fn detach_tops<P: Pmap>(space: &P, tops: &mut [u32; TABLES]) -> usize {
    const PROGRAM_EIGHTHS: u8 = 0x0f;
    let root = space.table(space.root());
    let eighths = Usage(space.word(space.root())).eighths() & PROGRAM_EIGHTHS;
    let mut count = 0;
    for ((slot, entry), top) in root.used(eighths).zip(tops) {
        root.set(slot, Entry::empty());
        *top = entry.frame();
        count += 1;
    }
    count
}

/// Frees the table in `frame` of `level` (3 is the root, 1 those above the leaves) and lets go all below. It is in no other
/// table, and no processor knows it.
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

/// The space has the leaf of `entry` no more; who is the last that had a table gives back its pages, too.
pub(crate) fn let_go<P: Pmap>(space: &P, entry: Entry) {
    if entry.contains(Entry::LARGE) {
        space.count_large(-1);
        return space.release_large(entry.frame());
    }
    let frame = entry.frame();
    let usage = Usage(space.word(frame));
    if usage.let_go() {
        let held =
            space.table(frame).used(usage.eighths()).filter(|(_, entry)| entry.holds_frame());
        space.release_all(held.map(|(_, entry)| entry.frame()));
        space.free_table(frame);
    }
}
