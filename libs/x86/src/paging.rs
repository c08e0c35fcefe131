//! Page tables of four levels: their entries, and the accesses that these allow. Source: Intel SDM volume 3, chapter 4.
use bitflags::bitflags;
use core::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
use program::Protection;

/// Number of entries of a table.
pub const ENTRIES: usize = 512;

bitflags! {
    /// A page table entry's bits.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Entry: u64 {
        /// The entry is valid for the processor.
        const PRESENT = 1;
        /// Stores are allowed.
        const WRITE = 1 << 1;
        /// User mode is allowed.
        const USER = 1 << 2;
        /// The page is cached as write-through.
        const WRITE_THROUGH = 1 << 3;
        /// The page is not cached.
        const NO_CACHE = 1 << 4;
        /// The page was accessed since the bit was cleared.
        const ACCESSED = 1 << 5;
        /// The page was stored to since the bit was cleared.
        const DIRTY = 1 << 6;
        /// The entry maps a large page.
        const LARGE = 1 << 7;
        /// The page is the same in every space.
        const GLOBAL = 1 << 8;
        /// Software bit: the entry holds a frame that the program may not access now.
        const NO_ACCESS = 1 << 9;
        /// Software bit: the entry maps device registers, which have no frame.
        const DEVICE = 1 << 10;
        /// Software bit: the entry's frame is kept by another owner for as long as the entry is there.
        const BORROWED = 1 << 11;
        /// Software bit: the frame is of a region that the component with this space made and pays for.
        const OF_REGION = 1 << 52;
        /// Execution is not allowed.
        const NO_EXECUTE = 1 << 63;
        /// The bits of the physical address.
        const ADDRESS = 0x000f_ffff_ffff_f000;
    }
}

impl Entry {
    /// Returns the frame that the entry holds.
    #[inline]
    pub const fn frame(self) -> u32 {
        ((self.bits() & Entry::ADDRESS.bits()) >> 12) as u32
    }
    /// Makes an entry for `frame`.
    #[inline]
    pub const fn new(frame: u32, flags: Entry) -> Entry {
        Entry::from_bits_retain((frame as u64) << 12 | flags.bits())
    }
    /// Returns whether the entry holds a frame, accessible or not.
    #[inline]
    pub const fn holds_frame(self) -> bool {
        const DEVICE: u64 = Entry::DEVICE.bits();
        // This holds if one of the two lower bits is set, and DEVICE is not.
        let seen = self.bits() & (Entry::PRESENT.bits() | Entry::NO_ACCESS.bits() | DEVICE);
        seen.wrapping_sub(1) < DEVICE - 1
    }
    /// Returns the bits of a program's page with `protection`. ACCESSED is set at once, because setting it later is expensive
    /// for the processor.
    #[inline]
    pub fn allowing(protection: Protection) -> Entry {
        if protection.is_empty() {
            return Entry::NO_ACCESS | Entry::NO_EXECUTE;
        }
        let mut entry = Entry::PRESENT | Entry::USER | Entry::ACCESSED;
        entry.set(Entry::WRITE, protection.contains(Protection::WRITE));
        entry.set(Entry::NO_EXECUTE, !protection.contains(Protection::EXECUTE));
        entry
    }
    /// Returns the accesses that the entry allows.
    #[inline]
    pub fn allows(self) -> Protection {
        let is_present = self.contains(Entry::PRESENT);
        let mut protection = Protection::empty();
        protection.set(Protection::READ, is_present);
        protection.set(Protection::WRITE, is_present && self.contains(Entry::WRITE));
        protection.set(Protection::EXECUTE, is_present && !self.contains(Entry::NO_EXECUTE));
        protection
    }
}

/// A page table, shared with the processor.
#[repr(transparent)]
#[derive(Debug)]
pub struct Table([AtomicU64; ENTRIES]);

impl Default for Table {
    fn default() -> Table {
        Table([const { AtomicU64::new(0) }; ENTRIES])
    }
}

impl Table {
    /// Returns entry `index` (cut to the table).
    #[inline]
    pub fn get(&self, index: usize) -> Entry {
        Entry::from_bits_retain(self.0[index % ENTRIES].load(Relaxed))
    }
    /// Sets entry `index`.
    #[inline]
    pub fn set(&self, index: usize, entry: Entry) {
        self.0[index % ENTRIES].store(entry.bits(), Relaxed);
    }
    /// Sets entry `index`. Returns the old one, with the bits that the processor set last.
    #[inline]
    pub fn swap(&self, index: usize, entry: Entry) -> Entry {
        Entry::from_bits_retain(self.0[index % ENTRIES].swap(entry.bits(), Relaxed))
    }
    /// Sets `bits` of entry `index`.
    #[inline]
    pub fn add(&self, index: usize, bits: Entry) {
        self.0[index % ENTRIES].fetch_or(bits.bits(), Relaxed);
    }
    /// Iterates over the non-empty entries in `eighths` of the table (one bit each). Most of a table is empty, and is skipped
    /// eight entries at a time.
    #[inline]
    pub fn used(&self, eighths: u8) -> impl Iterator<Item = (usize, Entry)> {
        let all =
            |chunk: &[AtomicU64; 8]| chunk.iter().fold(0, |all, entry| all | entry.load(Relaxed));
        let parts = self.0.as_chunks::<{ ENTRIES / 8 }>().0.iter().enumerate();
        let marked = parts.filter(move |(part, _)| eighths & 1 << part != 0);
        let chunks = marked.flat_map(|(part, entries)| {
            entries.as_chunks::<8>().0.iter().zip((part * ENTRIES / 8..).step_by(8))
        });
        let used = chunks.filter(move |(chunk, _)| all(chunk) != 0);
        let entries = used.flat_map(|(chunk, first)| (first..).zip(chunk));
        entries
            .map(|(index, entry)| (index, Entry::from_bits_retain(entry.load(Relaxed))))
            .filter(|(_, entry)| !entry.is_empty())
    }
    /// Counts the entries in `range` that hold a frame.
    #[inline]
    pub fn held(&self, range: Range<usize>) -> usize {
        let entries = self.0.get(range).unwrap_or_default().iter();
        entries.filter(|entry| Entry::from_bits_retain(entry.load(Relaxed)).holds_frame()).count()
    }
    /// Clears `bits` of entry `index`. Returns the old entry.
    #[inline]
    pub fn clear(&self, index: usize, bits: Entry) -> Entry {
        Entry::from_bits_retain(self.0[index % ENTRIES].fetch_and(!bits.bits(), Relaxed))
    }
}

/// Returns the index of `address` in the table of `level` (3 is the root, 0 the leaves).
#[inline]
pub const fn index(address: u64, level: u32) -> usize {
    (address >> (12 + 9 * level)) as usize & (ENTRIES - 1)
}

/// Returns whether the processor accepts `address`: whether it is canonical.
#[inline]
pub const fn is_canonical(address: u64) -> bool {
    ((address as i64) << 16 >> 16) as u64 == address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upper_bits_of_an_address_are_alike() {
        for address in [0, (1 << 47) - 1, u64::MAX, 0xffff_8000_0000_0000] {
            assert!(is_canonical(address));
        }
        for address in [1 << 47, 1 << 63, 0xffff_7fff_ffff_ffff] {
            assert!(!is_canonical(address));
        }
    }

    #[test]
    fn an_entry_allows_what_it_was_made_for() {
        let read = Protection::READ;
        for protection in [
            Protection::empty(),
            read,
            read | Protection::WRITE,
            read | Protection::EXECUTE,
            Protection::all(),
        ] {
            let entry = Entry::new(0xf_ffff, Entry::allowing(protection));
            assert_eq!(entry.allows(), protection);
            assert_eq!((entry.frame(), entry.holds_frame()), (0xf_ffff, true));
        }
    }

    #[test]
    fn what_holds_no_frame_is_told() {
        assert!(!Entry::empty().holds_frame());
        let mapped = Entry::new(7, Entry::PRESENT | Entry::USER | Entry::WRITE);
        assert!(mapped.holds_frame() && !(mapped | Entry::DEVICE).holds_frame());
        assert!(!Entry::new(7, Entry::DIRTY).holds_frame());
    }

    #[test]
    fn a_table_says_what_was_there() {
        let table = Table::default();
        let entry = Entry::new(3, Entry::PRESENT | Entry::DIRTY);
        table.set(511, entry);
        assert_eq!(table.clear(511, Entry::DIRTY), entry);
        table.add(511, Entry::ACCESSED);
        let left = Entry::new(3, Entry::PRESENT | Entry::ACCESSED);
        assert_eq!((table.swap(511, Entry::empty()), table.get(511)), (left, Entry::empty()));
    }

    #[test]
    fn what_is_used_of_a_table_is_found() {
        let table = Table::default();
        assert_eq!(table.used(0xff).count(), 0);
        let places = [0, 7, 8, 9, 200, 504, 511];
        for index in places {
            table.set(index, Entry::new(index as u32, Entry::USER));
        }
        let used: Vec<(usize, u32)> =
            table.used(0xff).map(|(index, entry)| (index, entry.frame())).collect();
        assert_eq!(used, places.map(|index| (index, index as u32)));
        assert!(table.used(0b1000_1000).map(|(index, _)| index).eq([200, 504, 511]));
    }

    #[test]
    fn frames_are_counted() {
        let table = Table::default();
        for index in [0, 3, 9, 511] {
            table.set(index, Entry::new(7, Entry::allowing(Protection::READ)));
        }
        table.set(4, Entry::new(7, Entry::PRESENT | Entry::DEVICE));
        assert_eq!([0..ENTRIES, 3..9, 4..9, 511..512].map(|range| table.held(range)), [4, 1, 0, 1]);
    }

    #[test]
    fn an_address_has_an_index_at_each_level() {
        let address = 1 << 39 | 2 << 30 | 3 << 21 | 4 << 12 | 0xfff;
        assert_eq!([3, 2, 1, 0].map(|level| index(address, level)), [1, 2, 3, 4]);
        assert_eq!(index(u64::MAX, 3), ENTRIES - 1);
    }
}
