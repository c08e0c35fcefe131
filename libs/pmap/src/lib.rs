//! The page tables of a program's space, four levels deep (Mach's pmap, B4).
//!
//! [`Pmap`] is the interface to a space's tables, which the owner of the space implements. Each function here is called under
//! the lock of the space. An entry of a leaf table that holds a frame has one reference to it.
//!
//! After a fork, spaces may *share* a leaf table. The entry above it then lacks write access, in each of them, so nothing can
//! be stored by it. It has one reference to a frame however many spaces share it, and nothing in it changes but that entries
//! lose write access and the processor sets bits. For any other change the space first gets a table of its own ([`own`]): a
//! copy, or that same table if all others have let it go meanwhile. The last space to let go gives back the frames. The
//! processors that run a space flush a table before the lock is released under which it was shared, or replaced by a copy.
//!
//! A *large page* may stand in the place of a leaf table: adjacent frames, each with a reference as in a table. It is removed
//! as a whole; to change, share or remove only a part of it, it is first [`split`](own) into a table.
//!
//! A table is removed as soon as its last entry goes, and so is the table above it; but the leaf table that became empty last
//! stays until another one becomes empty. [`Counts`] holds the number of tables of a space and its maximum. A shared table
//! counts in each space that has it.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

mod change;
mod clone;
mod counts;
mod large;
mod release;
mod usage;

#[cfg(test)]
mod tests;

pub use change::{
    Place, each_present, fill, move_pages, own_all, page_to_change, present, protect,
};
pub use clone::{Cloned, clone};
use core::{
    ops::{Deref, Range},
    sync::atomic::AtomicU32,
};
pub use counts::Counts;
pub use large::enter_large;
use program::NoMemory;
pub use release::{BATCH, Gathered, TOPS, detach_tops, free_tree, gather, own_ends};
use usage::{Usage, eighths};
use x86::paging::{ENTRIES, Entry, Table, index};

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Bytes that a leaf table maps.
pub const LEAF_BYTES: u64 = ENTRIES as u64 * PAGE;
/// The bits of an entry for a table.
pub const TABLE: Entry =
    Entry::PRESENT.union(Entry::WRITE).union(Entry::USER).union(Entry::ACCESSED);

/// Flags of the entry above a leaf table of the space's own.
const OWN: Entry = Entry::PRESENT.union(Entry::WRITE);

/// A leaf table.
#[derive(Clone, Copy, Debug)]
pub struct LeafTable<'a> {
    table: &'a Table,
    frame: u32,
}

impl Deref for LeafTable<'_> {
    type Target = Table;
    fn deref(&self) -> &Table {
        self.table
    }
}

/// The mapping of the 2 MiB around an address.
#[derive(Clone, Copy, Debug)]
pub enum Leaf<'a> {
    /// A table of the space's own.
    Own(LeafTable<'a>),
    /// A table that other spaces may have too, so it is only read.
    Shared(LeafTable<'a>),
    /// A large page, with the entry that maps it.
    Large(Entry),
}

impl Leaf<'_> {
    /// Returns whether other spaces may have it too.
    #[inline]
    pub fn is_shared(&self) -> bool {
        matches!(self, Leaf::Shared(_))
    }
    /// Returns entry `slot` of the table; for a large page, the entry that a table would have.
    #[inline]
    pub fn get(&self, slot: usize) -> Entry {
        match self {
            Leaf::Own(table) | Leaf::Shared(table) => table.get(slot),
            Leaf::Large(entry) => large::part(*entry, slot),
        }
    }
    /// Counts those of `slots` that hold a frame.
    #[inline]
    pub fn held(&self, slots: Range<usize>) -> usize {
        match self {
            Leaf::Own(table) | Leaf::Shared(table) => table.held(slots),
            Leaf::Large(_) => slots.len(),
        }
    }
}

/// The tables of a space, and the memory operations that this library needs.
pub trait Pmap {
    /// Returns the frame of the root.
    fn root(&self) -> u32;
    /// Returns the table in `frame`.
    fn table(&self, frame: u32) -> &Table;
    /// Allocates a zeroed frame for a table, whose word is 0; `None` if memory is refused.
    fn allocate_table(&self) -> Option<u32>;
    /// Frees a frame from [`Pmap::allocate_table`] and sets its word to 0.
    fn free_table(&self, frame: u32);
    /// Returns the word of `frame`: for a page its number of references, for a table its usage (`usage.rs`).
    fn word(&self, frame: u32) -> &AtomicU32;
    /// Drops one reference of each page.
    fn release_all(&self, pages: impl Iterator<Item = u32>);
    /// Drops one reference of each page of the large page that starts with frame `first`.
    fn release_large(&self, first: u32);
    /// Makes the processors flush `pages` pages from `start`, and all that they have cached of the tables above these.
    fn forget(&self, start: u64, pages: usize);
    /// Returns the counters of the space.
    fn counts(&self) -> &Counts;
    /// Adds `by` to the number of large pages.
    fn count_large(&self, by: isize);
    /// Sets entry `slot` of the table in frame `above`, for a leaf or a table. A space with two roots changes both.
    #[inline]
    fn set_table(&self, above: u32, slot: usize, entry: Entry) {
        self.table(above).set(slot, entry);
    }
    /// Returns the entries of the root that are the space's own.
    fn tops(&self) -> Range<usize> {
        0..ENTRIES / 2
    }
}

/// Returns the entry that maps `address`, for reading.
///
/// # Errors
/// If no entry maps it, the first address after `address` that another entry may map.
#[inline]
pub fn leaf<P: Pmap>(space: &P, address: u64) -> Result<Leaf<'_>, u64> {
    let mut entry = Entry::new(space.root(), TABLE);
    for level in (1..4).rev() {
        entry = space.table(entry.frame()).get(index(address, level));
        if !entry.contains(Entry::PRESENT) {
            let bytes = 1u64 << (12 + 9 * level);
            return Err((address | (bytes - 1)) + 1);
        }
    }
    if entry.contains(Entry::LARGE) {
        return Ok(Leaf::Large(entry));
    }
    let frame = entry.frame();
    let table = LeafTable { table: space.table(frame), frame };
    Ok(if entry.contains(Entry::WRITE) { Leaf::Own(table) } else { Leaf::Shared(table) })
}

/// Returns the leaf table for `address`, to be changed. It is made if there is none or a large page, and copied if other spaces
/// share it.
///
/// # Errors
/// [`NoMemory`]; what is mapped has not changed.
#[inline]
pub fn own<P: Pmap>(space: &P, address: u64) -> Result<LeafTable<'_>, NoMemory> {
    let (above, slot) = (upper(space, address)?, index(address, 1));
    let entry = space.table(above).get(slot);
    let frame = if entry & (Entry::PRESENT | Entry::WRITE | Entry::LARGE) == OWN {
        entry.frame()
    } else if entry.contains(Entry::LARGE) {
        large::split(space, above, slot, address)?
    } else if entry.contains(Entry::PRESENT) {
        clone::make_own(space, above, slot, address)?
    } else {
        new_table(space, above, slot, address)?
    };
    Ok(LeafTable { table: space.table(frame), frame })
}

/// Returns the frame of the table of leaf tables for `address`, which is made if there is none.
#[inline]
fn upper<P: Pmap>(space: &P, address: u64) -> Result<u32, NoMemory> {
    let mut frame = space.root();
    for level in [3, 2] {
        let slot = index(address, level);
        let entry = space.table(frame).get(slot);
        frame = match entry.contains(Entry::PRESENT) {
            true => entry.frame(),
            false => new_table(space, frame, slot, address)?,
        };
    }
    Ok(frame)
}

/// Makes the table below the root for `address`, which then stays as long as the space.
///
/// # Errors
/// [`NoMemory`].
pub fn hold_top<P: Pmap>(space: &P, address: u64) -> Result<(), NoMemory> {
    let top = new_table(space, space.root(), index(address, 3), address)?;
    Usage(space.word(top)).count(0, 1);
    Ok(())
}

/// Makes a table for `address` and enters it into the one in frame `above`.
///
/// # Errors
/// [`NoMemory`]; no table that is empty is left above `address`.
#[cold]
fn new_table<P: Pmap>(space: &P, above: u32, slot: usize, address: u64) -> Result<u32, NoMemory> {
    let Some(new) = allocate_table(space) else {
        release::prune(space, address);
        return Err(NoMemory);
    };
    enter(space, above, slot, Entry::new(new, TABLE));
    space.counts().add_tables(1);
    Ok(new)
}

/// Allocates a zeroed table, which the caller enters and counts. Returns `None` if memory or the space's quota is exhausted.
fn allocate_table<P: Pmap>(space: &P) -> Option<u32> {
    if space.counts().may_add_table() { space.allocate_table() } else { None }
}

/// Enters a leaf or a table into an empty slot of the table in frame `above`.
fn enter<P: Pmap>(space: &P, above: u32, slot: usize, entry: Entry) {
    space.set_table(above, slot, entry);
    Usage(space.word(above)).count(eighths(&(slot..slot + 1)), 1);
}

/// Enters a page of a device at `address`, which is not mapped. It holds no frame and stays as long as the space.
///
/// # Errors
/// [`NoMemory`]; nothing has changed.
pub fn enter_device<P: Pmap>(space: &P, address: u64, entry: Entry) -> Result<(), NoMemory> {
    let (leaf, slot) = (own(space, address)?, index(address, 0));
    leaf.set(slot, entry);
    // The entry counts as a page, so that its table is never taken for an empty one.
    count(space, &leaf, &(slot..slot + 1), 1);
    Ok(())
}

/// Adds `by` to the count of pages among `slots` of `leaf`, which is the space's own.
#[inline]
pub fn count<P: Pmap>(space: &P, leaf: &LeafTable<'_>, slots: &Range<usize>, by: isize) {
    count_in(space, leaf, eighths(slots), by);
}

/// Adds to the count as [`count`] does, for these eighths.
#[inline]
fn count_in<P: Pmap>(space: &P, leaf: &LeafTable<'_>, eighths: u8, by: isize) {
    Usage(space.word(leaf.frame)).count(eighths, by);
    space.counts().add_resident(by);
}

/// A part of a leaf: the leaf, its first address, the entries.
type Part<L> = (L, u64, Range<usize>);

/// Returns the first leaf from `at` on before `end`, with its entries up to `end`. Moves `at` behind them.
#[inline]
fn next<'a, P: Pmap>(space: &'a P, at: &mut u64, end: u64) -> Option<Part<Leaf<'a>>> {
    while *at < end {
        match leaf(space, *at) {
            Ok(leaf) => {
                let first = *at;
                let slots = slots(first, end);
                *at = first + slots.len() as u64 * PAGE;
                return Some((leaf, first, slots));
            }
            Err(next) => *at = next.min(end),
        }
    }
    None
}

/// Returns the next leaf as [`next`] does, as a table that may be changed. Shared tables that have no page there are skipped.
///
/// # Errors
/// [`NoMemory`]; `at` is then the address for which memory was lacking.
#[inline]
fn next_own<'a, P: Pmap>(
    space: &'a P,
    at: &mut u64,
    end: u64,
) -> Result<Option<Part<LeafTable<'a>>>, NoMemory> {
    while let Some((leaf, first, slots)) = next(space, at, end) {
        if let Leaf::Own(table) = leaf {
            return Ok(Some((table, first, slots)));
        }
        if leaf.held(slots.clone()) > 0 {
            let own = own(space, first).inspect_err(|_| *at = first)?;
            return Ok(Some((own, first, slots)));
        }
    }
    Ok(None)
}

/// Returns the entries from that of `first` on up to `end`, within one leaf table.
#[inline]
fn slots(first: u64, end: u64) -> Range<usize> {
    let stop = ((first & !(LEAF_BYTES - 1)) + LEAF_BYTES).min(end);
    let slot = index(first, 0);
    slot..slot + (stop.saturating_sub(first) / PAGE) as usize
}

/// Returns whether one leaf table maps all from `start` to `end`.
pub fn is_one_leaf(start: u64, end: u64) -> bool {
    start / LEAF_BYTES == end.saturating_sub(1) / LEAF_BYTES
}
