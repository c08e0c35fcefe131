//! A ring of trace records: a name and three numbers each, written without a lock.
//!
//! The word of a record's name is 0 while the rest changes; a reader skips such a record.
use core::{
    ptr, slice, str,
    sync::atomic::{
        AtomicU64, AtomicUsize,
        Ordering::{Acquire, Relaxed, Release},
        fence,
    },
};

/// Bits of an address without the sign extension.
const ADDRESS_BITS: u32 = 48;

#[derive(Debug)]
struct Record {
    time: AtomicU64,
    /// Address of the name, and its length above [`ADDRESS_BITS`]. Both are in one word so that they always match.
    name: AtomicU64,
    first: AtomicU64,
    second: AtomicU64,
}

/// A record of a trace point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Time of the record.
    pub time: u64,
    /// Name of the trace point.
    pub name: &'static str,
    /// Two numbers that go with it.
    pub numbers: [u64; 2],
}

/// The ring of the last `N` records.
#[derive(Debug)]
pub struct Records<const N: usize> {
    next: AtomicUsize,
    records: [Record; N],
}

impl<const N: usize> Records<N> {
    /// Makes an empty ring.
    pub const fn new() -> Records<N> {
        let records = [const {
            Record {
                time: AtomicU64::new(0),
                name: AtomicU64::new(0),
                first: AtomicU64::new(0),
                second: AtomicU64::new(0),
            }
        }; N];
        Records { next: AtomicUsize::new(0), records }
    }

    /// Records `point`.
    pub fn record(&self, point: Point) {
        let record = &self.records[self.next.fetch_add(1, Relaxed) % N];
        record.name.store(0, Relaxed);
        fence(Release);
        record.time.store(point.time, Relaxed);
        record.first.store(point.numbers[0], Relaxed);
        record.second.store(point.numbers[1], Relaxed);
        let bytes = point.name.len().min(usize::from(u16::MAX)) as u64;
        let address = point.name.as_ptr().expose_provenance() as u64;
        let address = address & ((1 << ADDRESS_BITS) - 1);
        record.name.store(bytes << ADDRESS_BITS | address, Release);
    }

    /// Returns the last `count` records, oldest first.
    pub fn last(&self, count: usize) -> impl Iterator<Item = Point> {
        let next = self.next.load(Relaxed);
        (next.saturating_sub(count.min(N))..next).filter_map(|index| self.records[index % N].read())
    }
}

impl<const N: usize> Default for Records<N> {
    fn default() -> Self {
        Records::new()
    }
}

impl Record {
    fn read(&self) -> Option<Point> {
        let word = self.name.load(Acquire);
        let numbers = [self.first.load(Relaxed), self.second.load(Relaxed)];
        let time = self.time.load(Relaxed);
        fence(Acquire);
        if word == 0 || self.name.load(Relaxed) != word {
            return None;
        }
        const UNUSED_BITS: u32 = u64::BITS - ADDRESS_BITS;
        let address = ((word << UNUSED_BITS) as i64 >> UNUSED_BITS) as usize;
        let bytes = (word >> ADDRESS_BITS) as usize;
        // SAFETY: `record` stored address and length of a static string in one word.
        let name = unsafe { slice::from_raw_parts(ptr::with_exposed_provenance(address), bytes) };
        Some(Point { time, name: str::from_utf8(name).unwrap_or("?"), numbers })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_last_records_are_kept_in_order() {
        let records = Records::<3>::new();
        assert_eq!(records.last(3).count(), 0);
        for time in 0..5 {
            records.record(Point { time, name: "step", numbers: [time, 7] });
        }
        assert!(records.last(2).map(|point| point.time).eq([3, 4]));
        assert!(records.last(9).map(|point| point.time).eq([2, 3, 4]));
        let last = records.last(1).next();
        assert_eq!(last, Some(Point { time: 4, name: "step", numbers: [4, 7] }));
    }

    #[test]
    fn who_reads_while_others_write_sees_whole_names() {
        const NAMES: [&str; 3] = ["a", "a longer name", "the longest name of all"];
        let records = Records::<4>::new();
        std::thread::scope(|scope| {
            let writes = || {
                for time in 0..3_000 {
                    let name = NAMES[time as usize % NAMES.len()];
                    records.record(Point { time, name, numbers: [0; 2] });
                }
            };
            let writers = [scope.spawn(writes), scope.spawn(writes)];
            while !writers.iter().all(|writer| writer.is_finished()) {
                assert!(records.last(4).all(|point| NAMES.contains(&point.name)));
            }
        });
    }
}
