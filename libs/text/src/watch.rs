//! When a watchdog barks.

/// What made no progress for so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// All of it, for so many nanoseconds.
    All(u64),
    /// This one that waits, for so many.
    One(u64, u64),
}

/// What a watchdog has seen. `P` changes when there is progress.
#[derive(Debug)]
pub struct Watch<P> {
    limit_ns: u64,
    last: P,
    since_ns: u64,
    is_told: bool,
    told: Option<(u64, u64)>,
}

impl<P: PartialEq> Watch<P> {
    /// Of what stands at `progress` now.
    pub const fn new(limit_ns: u64, progress: P, now_ns: u64) -> Watch<P> {
        Watch { limit_ns, last: progress, since_ns: now_ns, is_told: false, told: None }
    }

    /// What is to be told now, each stall once: `longest` is who waits longest, and since when.
    pub fn look(
        &mut self,
        progress: P,
        longest: Option<(u64, u64)>,
        now_ns: u64,
    ) -> impl Iterator<Item = Stall> + use<P> {
        if progress != self.last {
            (self.last, self.since_ns, self.is_told) = (progress, now_ns, false);
        }
        let still_ns = now_ns.saturating_sub(self.since_ns);
        let is_stalled = !self.is_told && still_ns >= self.limit_ns;
        self.is_told |= is_stalled;
        let limit_ns = self.limit_ns;
        let told = self.told;
        let is_new =
            |&(_, at_ns): &(u64, u64)| longest != told && now_ns.saturating_sub(at_ns) >= limit_ns;
        let stuck = longest.filter(is_new);
        self.told = stuck.or(told);
        let one = stuck.map(|(number, at_ns)| Stall::One(number, now_ns.saturating_sub(at_ns)));
        is_stalled.then_some(Stall::All(still_ns)).into_iter().chain(one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::{vec, vec::Vec};

    fn look(
        watch: &mut Watch<u32>,
        progress: u32,
        one: Option<(u64, u64)>,
        now: u64,
    ) -> Vec<Stall> {
        watch.look(progress, one, now).collect()
    }

    #[test]
    fn a_stall_is_told_once_until_there_is_progress() {
        let mut watch = Watch::new(10, 1, 0);
        assert_eq!(look(&mut watch, 1, None, 9), []);
        assert_eq!(look(&mut watch, 1, None, 10), [Stall::All(10)]);
        assert_eq!(look(&mut watch, 1, None, 30), []);
        assert_eq!(look(&mut watch, 2, None, 40), []);
        assert_eq!(look(&mut watch, 2, None, 51), [Stall::All(11)]);
    }

    #[test]
    fn who_waits_too_long_is_told_once() {
        let mut watch = Watch::new(10, 0, 0);
        assert_eq!(look(&mut watch, 1, Some((7, 3)), 12), []);
        assert_eq!(look(&mut watch, 2, Some((7, 3)), 13), [Stall::One(7, 10)]);
        assert_eq!(look(&mut watch, 3, Some((7, 3)), 20), []);
        assert_eq!(look(&mut watch, 3, Some((8, 4)), 30), vec![Stall::All(10), Stall::One(8, 26)]);
    }
}
