//! A ring of trace records: a name and three numbers each, written without a lock.
//!
//! A record's length is 0 while the rest changes; the reader skips such a one.
use core::sync::atomic::{
    AtomicPtr, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

#[derive(Debug)]
struct Record {
    time: AtomicU64,
    name: AtomicPtr<u8>,
    name_bytes: AtomicUsize,
    first: AtomicU64,
    second: AtomicU64,
}

/// What was recorded last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// When.
    pub time: u64,
    /// What.
    pub name: &'static str,
    /// Two numbers that go with it.
    pub numbers: [u64; 2],
}

/// The last `N` records.
#[derive(Debug)]
pub struct Records<const N: usize> {
    next: AtomicUsize,
    records: [Record; N],
}

impl<const N: usize> Records<N> {
    /// None.
    pub const fn new() -> Records<N> {
        let records = [const {
            Record {
                time: AtomicU64::new(0),
                name: AtomicPtr::new(core::ptr::null_mut()),
                name_bytes: AtomicUsize::new(0),
                first: AtomicU64::new(0),
                second: AtomicU64::new(0),
            }
        }; N];
        Records { next: AtomicUsize::new(0), records }
    }

    /// Records `point`.
    pub fn record(&self, point: Point) {
        let record = &self.records[self.next.fetch_add(1, Relaxed) % N];
        record.name_bytes.store(0, Release);
        record.name.store(point.name.as_ptr().cast_mut(), Relaxed);
        record.time.store(point.time, Relaxed);
        record.first.store(point.numbers[0], Relaxed);
        record.second.store(point.numbers[1], Relaxed);
        record.name_bytes.store(point.name.len(), Release);
    }

    /// The last `count` of them, oldest first.
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
        let bytes = self.name_bytes.load(Acquire);
        if bytes == 0 {
            return None;
        }
        // SAFETY: `record` stored this length after the pointer to that many static bytes.
        let name = unsafe { core::slice::from_raw_parts(self.name.load(Relaxed), bytes) };
        let name = core::str::from_utf8(name).unwrap_or("?");
        let numbers = [self.first.load(Relaxed), self.second.load(Relaxed)];
        Some(Point { time: self.time.load(Relaxed), name, numbers })
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
}
