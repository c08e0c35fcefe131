//! The decision when a watchdog reports a stall.
use crate::ms;
use core::fmt;

/// The sum of the progress of all watched threads: it changes when one of them makes progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The sum of the threads' numbers.
    threads: u64,
    steps: u64,
}

/// A survey of all watched threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Survey {
    progress: Progress,
    /// The thread that has waited longest, and since when.
    longest: Option<(u64, u64)>,
}

impl Survey {
    /// Adds thread `number`, which has taken `steps` steps, and has been in a wait that should be short since
    /// `waits_since_ns`.
    pub fn add(&mut self, number: u64, steps: u64, waits_since_ns: Option<u64>) {
        self.progress.threads = self.progress.threads.wrapping_add(number);
        self.progress.steps = self.progress.steps.wrapping_add(steps);
        if let Some(since_ns) = waits_since_ns
            && self.longest.is_none_or(|(_, longest_ns)| since_ns < longest_ns)
        {
            self.longest = Some((number, since_ns));
        }
    }
}

/// A stall and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// No thread made progress, for this number of nanoseconds.
    All(u64),
    /// This thread has waited, for this number of nanoseconds.
    One(u64, u64),
}

impl fmt::Display for Stall {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Stall::All(for_ns) => write!(to, "no progress for {} ms", ms(for_ns)),
            Stall::One(number, for_ns) => {
                write!(to, "{number:#x} waits uninterruptibly for {} ms", ms(for_ns))
            }
        }
    }
}

/// The state of a watchdog.
#[derive(Debug)]
pub struct Watch {
    limit_ns: u64,
    last: Progress,
    since_ns: u64,
    is_told: bool,
    told: Option<(u64, u64)>,
}

impl Watch {
    /// Starts with `survey`, made now.
    pub const fn new(limit_ns: u64, survey: &Survey, now_ns: u64) -> Watch {
        Watch { limit_ns, last: survey.progress, since_ns: now_ns, is_told: false, told: None }
    }

    /// Returns the stalls to report now, each once.
    pub fn look(&mut self, survey: &Survey, now_ns: u64) -> impl Iterator<Item = Stall> + use<> {
        let Survey { progress, longest } = *survey;
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
    use std::{string::ToString, vec::Vec};

    /// Makes a survey of a thread that works, and of one that waits.
    fn survey(steps: u64, one: Option<(u64, u64)>) -> Survey {
        let mut survey = Survey::default();
        survey.add(1, steps, None);
        if let Some((number, since_ns)) = one {
            survey.add(number, 0, Some(since_ns));
        }
        survey
    }

    fn look(watch: &mut Watch, steps: u64, one: Option<(u64, u64)>, now: u64) -> Vec<Stall> {
        watch.look(&survey(steps, one), now).collect()
    }

    #[test]
    fn who_waits_longest_is_found_and_named() {
        let mut survey = survey(1, Some((0x17, 30)));
        survey.add(0x18, 0, Some(20));
        survey.add(0x19, 0, Some(25));
        let stalls: Vec<Stall> = Watch::new(10, &survey, 40).look(&survey, 2_000_020).collect();
        assert_eq!(stalls, [Stall::All(1_999_980), Stall::One(0x18, 2_000_000)]);
        let told: Vec<_> = stalls.iter().map(Stall::to_string).collect();
        assert_eq!(told, ["no progress for 1 ms", "0x18 waits uninterruptibly for 2 ms"]);
    }

    #[test]
    fn who_comes_and_goes_is_progress() {
        let mut more = survey(1, None);
        more.add(2, 0, None);
        assert_ne!(more.progress, survey(1, None).progress);
    }

    #[test]
    fn a_stall_is_told_once_until_there_is_progress() {
        let mut watch = Watch::new(10, &survey(1, None), 0);
        assert_eq!(look(&mut watch, 1, None, 9), []);
        assert_eq!(look(&mut watch, 1, None, 10), [Stall::All(10)]);
        assert_eq!(look(&mut watch, 1, None, 30), []);
        assert_eq!(look(&mut watch, 2, None, 40), []);
        assert_eq!(look(&mut watch, 2, None, 51), [Stall::All(11)]);
    }

    #[test]
    fn who_waits_too_long_is_told_once() {
        let mut watch = Watch::new(10, &survey(0, None), 0);
        assert_eq!(look(&mut watch, 1, Some((7, 3)), 12), []);
        assert_eq!(look(&mut watch, 2, Some((7, 3)), 13), [Stall::One(7, 10)]);
        assert_eq!(look(&mut watch, 3, Some((7, 3)), 20), []);
        // Another thread waits now: the one before has continued.
        assert_eq!(look(&mut watch, 3, Some((8, 4)), 30), [Stall::One(8, 26)]);
    }
}
