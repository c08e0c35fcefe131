//! [`Counts`]: the numbers of pages and tables of a space, and its maximum of tables.
use crate::LEAF_BYTES;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Value of the address of the empty leaf table if there is none.
const NOWHERE: u64 = u64::MAX;

/// The counts of a space. They change under the lock of the space and may be read without it.
#[derive(Debug)]
pub struct Counts {
    resident: AtomicUsize,
    tables: AtomicUsize,
    tables_max: usize,
    /// First address of the leaf table that became empty last.
    last_emptied: AtomicU64,
}

impl Counts {
    /// Makes the counts of a space that has only its root and may have at most `tables_max` tables.
    pub const fn new(tables_max: usize) -> Counts {
        Counts {
            resident: AtomicUsize::new(0),
            tables: AtomicUsize::new(1),
            tables_max,
            last_emptied: AtomicU64::new(NOWHERE),
        }
    }
    /// Returns the number of pages present.
    pub fn resident(&self) -> usize {
        self.resident.load(Relaxed)
    }
    /// Returns the number of tables, with the root and those shared with other spaces.
    pub fn tables(&self) -> usize {
        self.tables.load(Relaxed)
    }
    /// Returns the most tables that the space may have.
    pub fn tables_max(&self) -> usize {
        self.tables_max
    }
    /// Returns whether the space may have another table.
    #[inline]
    pub(crate) fn may_add_table(&self) -> bool {
        self.tables() < self.tables_max
    }
    /// Notes that the leaf table of `address` is empty. Returns an address of the one noted before, if that is another
    /// one.
    pub(crate) fn note_emptied(&self, address: u64) -> Option<u64> {
        let start = address & !(LEAF_BYTES - 1);
        let before = self.last_emptied.load(Relaxed);
        self.last_emptied.store(start, Relaxed);
        (before != start && before != NOWHERE).then_some(before)
    }
    /// Counts `by` more pages present.
    #[inline]
    pub(crate) fn add_resident(&self, by: isize) {
        add(&self.resident, by);
    }
    /// Counts `by` more tables.
    #[inline]
    pub(crate) fn add_tables(&self, by: isize) {
        add(&self.tables, by);
    }
    /// Resets the counts to the root alone, after [`crate::detach_tops`] removed everything else.
    pub fn clear(&self) {
        self.resident.store(0, Relaxed);
        self.tables.store(1, Relaxed);
    }
}

/// Adds to a count that no other thread changes meanwhile.
#[inline]
fn add(count: &AtomicUsize, by: isize) {
    count.store(count.load(Relaxed).wrapping_add_signed(by), Relaxed);
}
