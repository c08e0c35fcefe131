//! [`Free`]: the blocks of a group that may be taken now.
use super::bitmap;
use crate::layout::ranges::Ranges;

/// Blocks that are clear in their group's bitmap and were not freed by a transaction that is not durable yet.
#[derive(Clone, Copy)]
pub(super) struct Free<'a> {
    pub(super) bits: &'a [u8],
    /// The blocks that such transactions freed.
    pub(super) pending: &'a Ranges,
}

impl Free<'_> {
    /// Finds a run near the goal `from`: right behind it if there is one, else the first below `end` that is `want`
    /// long, else the longest. Returns its first block and its length.
    pub(super) fn find(self, from: usize, end: usize, want: usize) -> Option<(usize, usize)> {
        // Right after the goal even a short run is good, because the file continues there.
        let behind = self.run_at(from, want.min(end.saturating_sub(from)));
        if from > 0 && (behind == want || (behind > 0 && want - behind < want / 2)) {
            return Some((from, behind));
        }
        match self.first_or_longest(from, end, want) {
            Some(after) if after.1 >= want => Some(after),
            after => longer(self.first_or_longest(0, end, want), after),
        }
    }

    /// Returns the first run from `from` on and below `end`; of a longer one the first `max` blocks.
    pub(super) fn next(self, from: usize, end: usize, max: usize) -> Option<(usize, usize)> {
        let mut at = from;
        while let Some(start) = bitmap::find_clear(self.bits, at, end) {
            match self.run_at(start, max.min(end - start)) {
                0 => at = self.pending_at_or_after(start)?.1,
                length => return Some((start, length)),
            }
        }
        None
    }

    fn first_or_longest(self, from: usize, end: usize, want: usize) -> Option<(usize, usize)> {
        let mut best = None;
        let mut at = from;
        while let Some(run) = self.next(at, end, want) {
            if run.1 >= want {
                return Some(run);
            }
            best = longer(best, Some(run));
            at = run.0 + run.1;
        }
        best
    }

    /// Returns the length of the free run at `from`, at most `max`.
    fn run_at(self, from: usize, max: usize) -> usize {
        let room =
            self.pending_at_or_after(from).map_or(max, |(start, _)| start.saturating_sub(from));
        bitmap::run_at(self.bits, from, max.min(room))
    }

    fn pending_at_or_after(self, block: usize) -> Option<(usize, usize)> {
        let (start, end) = self.pending.at_or_after(block as u64)?;
        Some((start as usize, end as usize))
    }
}

/// Returns the longer of two runs; the first if they are equal.
fn longer(one: Option<(usize, usize)>, other: Option<(usize, usize)>) -> Option<(usize, usize)> {
    let length = |run: Option<(usize, usize)>| run.map_or(0, |(_, length)| length);
    if length(other) > length(one) { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn the_first_run_that_is_long_enough_is_found_else_the_longest() {
        let (mut bits, nothing) = ([0_u8; 8], Ranges::default());
        bitmap::set(&mut bits, 3, 20);
        let free = Free { bits: &bits, pending: &nothing };
        assert_eq!(free.find(0, 64, 4), Some((23, 4)));
        assert_eq!(free.find(0, 20, 4), Some((0, 3)), "else the longest");
        assert_eq!(free.find(0, 64, 100), Some((23, 41)));
        assert_eq!(free.find(30, 64, 4), Some((30, 4)), "behind the goal");
        let mut pending = Ranges::default();
        pending.insert(26, 2);
        let free = Free { bits: &bits, pending: &pending };
        assert_eq!(free.find(0, 64, 4), Some((28, 4)), "not what is pending");
        assert_eq!(free.find(23, 64, 4), Some((23, 3)), "a short run behind the goal");
        assert_eq!(free.next(24, 28, 100), Some((24, 2)));
        assert_eq!(free.next(26, 28, 100), None);
    }

    /// Compares with a bitmap in which the pending blocks are set.
    #[test]
    fn what_is_pending_is_as_if_it_were_in_use() {
        const BITS: usize = 96;
        let mut random = 1_u64;
        let mut next = |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as usize % below
        };
        let nothing = Ranges::default();
        for _ in 0..2_000 {
            let (mut bits, mut pending) = ([0_u8; BITS / 8], Ranges::default());
            for _ in 0..next(8) {
                bitmap::set(&mut bits, next(BITS), next(20));
            }
            let mut all = bits;
            for _ in 0..next(8) {
                let (first, count) = (next(BITS), 1 + next(9));
                bitmap::set(&mut all, first, count);
                pending.insert(first as u64, count as u64);
            }
            let free = Free { bits: &bits, pending: &pending };
            let plain = Free { bits: &all, pending: &nothing };
            let (from, want) = (next(BITS), 1 + next(30));
            assert_eq!(free.find(from, BITS, want), plain.find(from, BITS, want));
            let runs = |free: Free<'_>| {
                let mut at = 0;
                let run = || {
                    let run = free.next(at, BITS, usize::MAX)?;
                    at = run.0 + run.1;
                    Some(run)
                };
                core::iter::from_fn(run).collect::<Vec<_>>()
            };
            assert_eq!(runs(free), runs(plain));
        }
    }
}
