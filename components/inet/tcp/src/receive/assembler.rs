//! The ranges of a stream that arrived ahead of a gap, and the blocks that tell the peer of them (RFC 2018, RFC 2883).
use alloc::vec::Vec;
use core::ops::Range;

/// Greatest number of separate ranges. Data of a further one is refused, so that a peer cannot make the list long.
pub(crate) const MAX_RANGES: usize = 128;
/// Greatest number of blocks that are kept for reporting.
const MAX_REPORTED: usize = 4;

/// Ranges of stream offsets that arrived out of order, sorted, disjoint and not adjacent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Assembler {
    ranges: Vec<Range<u64>>,
    /// The ranges that changed last, the latest first (RFC 2018 section 4).
    reported: Vec<Range<u64>>,
    /// Data that arrived twice: the first block of the next acknowledgement (RFC 2883).
    duplicate: Option<Range<u64>>,
}

impl Assembler {
    /// Returns whether nothing is held and nothing is to be reported.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.ranges.is_empty() && self.duplicate.is_none()
    }

    /// Returns whether no range is held.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Adds a range that begins ahead of the data in order. Returns false, and changes nothing, if there are too many ranges.
    pub(crate) fn insert(&mut self, new: Range<u64>) -> bool {
        let first = self.ranges.partition_point(|one| one.end < new.start);
        let last = self.ranges.partition_point(|one| one.start <= new.end);
        if first == last && self.ranges.len() >= MAX_RANGES {
            return false;
        }
        self.note_overlap(first, &new);
        let touched = self.ranges.get(first..last).unwrap_or(&[]);
        let start = touched.first().map_or(new.start, |one| one.start.min(new.start));
        let end = touched.last().map_or(new.end, |one| one.end.max(new.end));
        let merged = start..end;
        self.ranges.splice(first..last, core::iter::once(merged.clone()));
        self.report(merged);
        true
    }

    /// Notes the first part of `new` that is held already as a duplicate. `first` is the first range that may overlap.
    fn note_overlap(&mut self, first: usize, new: &Range<u64>) {
        let held = self.ranges.get(first..).unwrap_or(&[]);
        let overlap = held
            .iter()
            .map(|one| one.start.max(new.start)..one.end.min(new.end))
            .find(|both| !both.is_empty());
        if let Some(overlap) = overlap {
            self.duplicate = Some(overlap);
        }
    }

    /// Notes that `range` arrived although it had arrived before.
    pub(crate) fn note_duplicate(&mut self, range: Range<u64>) {
        self.duplicate = Some(range);
    }

    /// Takes the ranges that `received`, the end of the data in order, has reached. Returns the new end.
    pub(crate) fn advance(&mut self, received: u64) -> u64 {
        let count = self.ranges.partition_point(|one| one.start <= received);
        if count == 0 {
            return received;
        }
        let end = self.ranges.drain(..count).fold(received, |end, one| end.max(one.end));
        self.reported.retain(|one| one.end > end);
        end
    }

    /// Returns the end of the last range.
    pub(crate) fn end(&self) -> Option<u64> {
        self.ranges.last().map(|one| one.end)
    }

    /// Calls `block` for the blocks to report: the duplicate once, then the ranges, the latest first.
    pub(crate) fn take_blocks(&mut self, mut block: impl FnMut(Range<u64>)) {
        if let Some(duplicate) = self.duplicate.take() {
            block(duplicate);
        }
        self.reported.iter().cloned().for_each(block);
    }

    fn report(&mut self, merged: Range<u64>) {
        self.reported.retain(|one| one.end < merged.start || one.start > merged.end);
        self.reported.truncate(MAX_REPORTED - 1);
        self.reported.insert(0, merged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn blocks(assembler: &mut Assembler) -> Vec<Range<u64>> {
        let mut all = Vec::new();
        assembler.take_blocks(|block| all.push(block));
        all
    }

    #[test]
    fn the_latest_range_is_reported_first_and_merges_with_its_neighbours() {
        let mut held = Assembler::default();
        assert!(held.insert(10..20) && held.insert(30..40) && held.insert(50..60));
        assert_eq!(blocks(&mut held), [50..60, 30..40, 10..20]);
        assert!(held.insert(20..30));
        assert_eq!(blocks(&mut held), [10..40, 50..60]);
        assert_eq!(held.advance(10), 40);
        assert_eq!(blocks(&mut held), vec![50..60]);
        assert_eq!(held.advance(40), 40);
    }

    #[test]
    fn a_duplicate_is_reported_once_and_first() {
        let mut held = Assembler::default();
        held.insert(10..20);
        held.insert(15..25);
        assert_eq!(blocks(&mut held), [15..20, 10..25]);
        assert_eq!(blocks(&mut held), vec![10..25]);
    }

    #[test]
    fn too_many_ranges_are_refused_and_merging_ones_are_not() {
        let mut held = Assembler::default();
        assert!((0..MAX_RANGES as u64).all(|at| held.insert(at * 10..at * 10 + 5)));
        assert!(!held.insert(100_000..100_001));
        assert!(held.insert(5..10));
        assert!(held.insert(100_000..100_001));
    }

    proptest! {
        #[test]
        fn ranges_agree_with_a_set_of_bytes(all in prop::collection::vec((0_u64..200, 1_u64..20), 1..60)) {
            let mut held = Assembler::default();
            let mut bytes = alloc::collections::BTreeSet::new();
            for (start, length) in all {
                prop_assert!(held.insert(start + 1..start + 1 + length));
                bytes.extend(start + 1..start + 1 + length);
                let sum: u64 = held.ranges.iter().map(|one| one.end - one.start).sum();
                prop_assert_eq!(sum, bytes.len() as u64);
                prop_assert!(held.ranges.windows(2).all(|two| two[0].end < two[1].start));
            }
            let end = held.advance(1);
            let first_gap = (1..).find(|at| !bytes.contains(at)).unwrap_or(1);
            prop_assert_eq!(end, first_gap);
        }
    }
}
