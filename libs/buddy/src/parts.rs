//! Addresses for runs of pages in an area, which has a part for each order of runs.
//!
//! A run is aligned to its size rounded up to a power of two, its order. The free runs of an order are chained by links that
//! the caller keeps, one for each run, so bookkeeping costs no memory.
use super::order_for;

const PAGE_BYTES: u64 = 4096;

/// The free addresses of an area with `ORDERS` parts.
#[derive(Debug)]
pub struct Parts<const ORDERS: usize> {
    start: u64,
    part_bytes: u64,
    /// Number of bytes of each part that were ever used.
    fresh: [u64; ORDERS],
    /// Address of each part's first free run, 0 for none.
    free: [u64; ORDERS],
}

impl<const ORDERS: usize> Parts<ORDERS> {
    /// Makes the area from `start`, with parts of `part_bytes`, of which nothing was ever used.
    pub const fn new(start: u64, part_bytes: u64) -> Parts<ORDERS> {
        Parts { start, part_bytes, fresh: [0; ORDERS], free: [0; ORDERS] }
    }

    /// Returns the order of the part that contains `address`.
    pub fn order_at(&self, address: u64) -> Option<usize> {
        let part = address.checked_sub(self.start)? / self.part_bytes;
        (part < ORDERS as u64).then_some(part as usize)
    }

    /// Takes addresses for a run of `pages` pages. `link(start, next)` sets the link of the free run at `start` and returns the
    /// old one.
    pub fn take(&mut self, pages: usize, link: impl FnOnce(u64, u64) -> u64) -> Option<u64> {
        let order = order_for(pages);
        let first = *self.free.get(order)?;
        if first != 0 {
            self.free[order] = link(first, 0);
            return Some(first);
        }
        let offset = self.fresh[order];
        let end = offset + (PAGE_BYTES << order);
        (end <= self.part_bytes).then(|| {
            self.fresh[order] = end;
            self.start + order as u64 * self.part_bytes + offset
        })
    }

    /// Gives the addresses of a run back, with `link` as for [`Parts::take`].
    pub fn put(&mut self, start: u64, link: impl FnOnce(u64, u64) -> u64) {
        if let Some(order) = self.order_at(start) {
            link(start, self.free[order]);
            self.free[order] = start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const START: u64 = 0x1000_0000;
    const PART_BYTES: u64 = 4 * PAGE_BYTES;

    /// Parts and their links.
    struct Area(Parts<3>, BTreeMap<u64, u64>);

    impl Area {
        fn new() -> Area {
            Area(Parts::new(START, PART_BYTES), BTreeMap::new())
        }
        fn take(&mut self, pages: usize) -> Option<u64> {
            self.0.take(pages, |start, next| self.1.insert(start, next).unwrap_or(0))
        }
        fn put(&mut self, start: u64) {
            self.0.put(start, |start, next| self.1.insert(start, next).unwrap_or(0));
        }
    }

    #[test]
    fn runs_are_aligned_to_their_order_and_lie_in_its_part() {
        let mut area = Area::new();
        for (pages, order) in [(1, 0), (2, 1), (3, 2), (4, 2)] {
            let (mut area, bytes) = (Area::new(), PAGE_BYTES << order);
            let runs: Vec<u64> = core::iter::from_fn(|| area.take(pages)).collect();
            assert_eq!(runs.len() as u64, PART_BYTES / bytes);
            for (index, run) in runs.into_iter().enumerate() {
                assert_eq!(run, START + order * PART_BYTES + index as u64 * bytes);
                assert_eq!(area.0.order_at(run + bytes - 1), Some(order as usize));
            }
        }
        assert_eq!(area.take(5), None, "no part has runs of that order");
        assert_eq!(area.0.order_at(START - 1), None);
        assert_eq!(area.0.order_at(START + 3 * PART_BYTES), None);
    }

    #[test]
    fn freed_runs_are_used_again_last_first() {
        let mut area = Area::new();
        let runs = [(); 4].map(|()| area.take(1).unwrap());
        assert_eq!(area.take(1), None);
        runs.into_iter().for_each(|run| area.put(run));
        area.put(START - 1);
        let again = [(); 5].map(|()| area.take(1));
        assert_eq!(again, [Some(runs[3]), Some(runs[2]), Some(runs[1]), Some(runs[0]), None]);
    }
}
