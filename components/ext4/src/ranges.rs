//! A set of numbers kept as ranges.
use alloc::{collections::BTreeMap, vec::Vec};

/// Ranges that neither overlap nor touch: start to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// The ranges that touch `first .. end`.
    fn touching(&self, first: u64, end: u64) -> Vec<(u64, u64)> {
        let before = self.0.range(..=end).rev();
        let touching = before.take_while(|(_, last)| **last >= first);
        touching.map(|(start, last)| (*start, *last)).collect()
    }

    /// Each range: first number and how many.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|(start, end)| (*start, end - start))
    }

    /// No number is in the set.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many numbers are in the set.
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    /// How many of `count` numbers from `first` on are not in the set.
    pub(crate) fn missing(&self, first: u64, count: u64) -> u64 {
        let end = first.saturating_add(count);
        let inside = |(start, last): (u64, u64)| last.min(end).saturating_sub(start.max(first));
        (end - first) - self.touching(first, end).into_iter().map(inside).sum::<u64>()
    }

    /// Adds `count` numbers.
    pub(crate) fn insert(&mut self, first: u64, count: u64) {
        let (mut start, mut end) = (first, first.saturating_add(count));
        if start == end {
            return;
        }
        for (other, last) in self.touching(start, end) {
            self.0.remove(&other);
            start = start.min(other);
            end = end.max(last);
        }
        self.0.insert(start, end);
    }

    /// Takes `count` numbers out; returns how many of them were there.
    pub(crate) fn remove(&mut self, first: u64, count: u64) -> u64 {
        let end = first.saturating_add(count);
        let mut removed = 0;
        for (start, last) in self.touching(first, end) {
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
        assert_eq!(ranges.remove(12, 20), 10);
        assert_eq!(ranges.0.iter().collect::<Vec<_>>(), [(&10, &12), (&32, &40)]);
        assert_eq!(ranges.remove(0, u64::MAX), 10);
        assert_eq!(ranges.remove(0, u64::MAX), 0);
    }
}
