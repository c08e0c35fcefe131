//! A set of numbers kept as ranges.
use alloc::{collections::BTreeMap, vec::Vec};

/// Ranges that neither overlap nor touch: start to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Iterates over the ranges that touch `first .. end`.
    fn touching(&self, first: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let before = self.0.range(..=end).rev();
        let touching = before.take_while(move |(_, last)| **last >= first);
        touching.map(|(start, last)| (*start, *last))
    }

    /// Returns the start and the end of the first range that ends behind `number`.
    pub(crate) fn at_or_after(&self, number: u64) -> Option<(u64, u64)> {
        let around = self.0.range(..=number).next_back().filter(|(_, end)| **end > number);
        let found = around.or_else(|| self.0.range(number..).next());
        found.map(|(start, end)| (*start, *end))
    }

    /// Returns the size of the set.
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    /// Counts those of the `count` numbers from `first` on that are not in the set.
    pub(crate) fn missing(&self, first: u64, count: u64) -> u64 {
        let end = first.saturating_add(count);
        let inside = |(start, last): (u64, u64)| last.min(end).saturating_sub(start.max(first));
        (end - first) - self.touching(first, end).map(inside).sum::<u64>()
    }

    /// Adds `count` numbers.
    pub(crate) fn insert(&mut self, first: u64, count: u64) {
        let (mut start, mut end) = (first, first.saturating_add(count));
        if start == end {
            return;
        }
        let touching: Vec<(u64, u64)> = self.touching(start, end).collect();
        for (other, last) in touching {
            self.0.remove(&other);
            start = start.min(other);
            end = end.max(last);
        }
        self.0.insert(start, end);
    }

    /// Removes `count` numbers. Returns how many of them were present.
    pub(crate) fn remove(&mut self, first: u64, count: u64) -> u64 {
        let end = first.saturating_add(count);
        let mut removed = 0;
        let touching: Vec<(u64, u64)> = self.touching(first, end).collect();
        for (start, last) in touching {
            let (from, to) = (start.max(first), last.min(end));
            if from >= to {
                continue;
            }
            self.0.remove(&start);
            if start < from {
                self.0.insert(start, from);
            }
            if to < last {
                self.0.insert(to, last);
            }
            removed += to - from;
        }
        if self.0.is_empty() {
            // An emptied map keeps its last node, and a volume has many sets that are empty most of the time.
            self.0 = BTreeMap::new();
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_split_and_count() {
        let mut ranges = Ranges::default();
        ranges.insert(10, 5);
        ranges.insert(15, 5);
        ranges.insert(30, 10);
        assert_eq!(ranges.0.len(), 2);
        assert_eq!(ranges.missing(0, 50), 30);
        assert_eq!(ranges.missing(12, 3), 0);
        let after = |number| ranges.at_or_after(number);
        assert_eq!([after(0), after(10), after(19)], [Some((10, 20)); 3]);
        assert_eq!((after(20), after(40)), (Some((30, 40)), None));
        assert_eq!(ranges.remove(12, 20), 10);
        assert_eq!(ranges.0.iter().collect::<Vec<_>>(), [(&10, &12), (&32, &40)]);
        assert_eq!(ranges.remove(0, u64::MAX), 10);
        assert_eq!(ranges.remove(0, u64::MAX), 0);
    }
}
