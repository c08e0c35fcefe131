//! Finds requests that a driver has had for too long, and decides when the driver is asked about them and when it is ended:
//! [`Watch`], a state machine without a clock of its own.
//!
//! Requests are numbered in the order in which clients submit them; the numbers go on when the driver is restarted. A check,
//! once a ping period, notes the next number and the time. So the age of a request is known without a time stamp in it, to a
//! sixteenth of the limit and a ping period. An age grows by at most [`Check::step_max_ns`] a check, so that a pause of the
//! whole machine makes no request old.
//!
//! ```text
//! age                     below the limit   above                 three times the limit
//! the driver is           left alone        asked at each check   ended
//! ```
//! A driver that denies twice in a row that it has the request is ended at once. Each end doubles the limit. After
//! [`ENDS_MAX`] ends no driver is ended for slowness: the device itself may be slow. [`CALM`] limits without an overdue
//! request halve the limit again.
use alloc::{collections::VecDeque, format, string::String};
use rt::time::Instant;

/// Drivers that are ended before it is believed that the device is slow.
pub const ENDS_MAX: u32 = 5;
/// Multiple of the limit at which a driver is ended for slowness.
const PATIENCE: u64 = 3;
/// Denials in a row after which a driver is ended. At the first one the request may have been on its way to the driver.
const DENIALS_MAX: u32 = 2;
/// Number of limits without an overdue request that undo one end.
const CALM: u64 = 16;
/// Marks per limit, and most marks kept.
const MARKS_PER_LIMIT: u64 = 16;
const MARKS_MAX: usize = 64;

/// The time and the limits of a check of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// Time of the check.
    pub now: Instant,
    /// Age at which the driver is asked for a request.
    pub limit_ns: u64,
    /// The longest time that may have passed since the check before.
    pub step_max_ns: u64,
}

/// The requests that are on their way to a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnderWay {
    /// Counts the drivers.
    pub epoch: u64,
    /// The oldest request that the present driver was given and has not ended.
    pub oldest: Option<u64>,
    /// The number of the next request that is submitted.
    pub next: u64,
}

/// The answer of a driver that is asked for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The request waits for the device.
    Has,
    /// The output waits for a reader that may take any time.
    Patient,
    /// The driver does not know the request.
    Denies,
}

/// The state machine of one driver. Checks take no memory: it may be short, and drivers are watched all the same.
#[derive(Debug)]
pub struct Watch {
    /// Sum of the times between checks, each at most [`Check::step_max_ns`].
    clock_ns: u64,
    last: Option<Instant>,
    /// Next request numbers at earlier checks, and the times of these.
    marks: VecDeque<(u64, u64)>,
    /// The driver's epoch, and the time at which it was first seen.
    epoch: u64,
    since_ns: u64,
    ends: u32,
    denials: u32,
    /// Time at which a request was last overdue.
    overdue_ns: u64,
    has_told: bool,
}

impl Default for Watch {
    fn default() -> Watch {
        Watch {
            clock_ns: 0,
            last: None,
            marks: VecDeque::with_capacity(MARKS_MAX),
            epoch: 0,
            since_ns: 0,
            ends: 0,
            denials: 0,
            overdue_ns: 0,
            has_told: false,
        }
    }
}

impl Watch {
    /// Notes the requests that are under way at `check`. Returns the age of the oldest, in nanoseconds, if the driver is to
    /// be asked about it.
    pub fn see(&mut self, check: &Check, seen: &UnderWay) -> Option<u64> {
        let passed = self.last.map_or(0, |last| check.now.since(last)).min(check.step_max_ns);
        self.last = Some(check.now);
        self.clock_ns += passed;
        if self.epoch != seen.epoch {
            (self.epoch, self.since_ns, self.denials) = (seen.epoch, self.clock_ns, 0);
        }
        let age_ns = self.age_ns(seen);
        self.mark(check.limit_ns, seen);
        if age_ns < check.limit_ns {
            self.calm_down(check.limit_ns);
        } else {
            self.overdue_ns = self.clock_ns;
        }
        (age_ns >= self.limit_ns(check)).then_some(age_ns)
    }

    /// Notes the driver's answer about the request that is `age_ns` old. Returns the cause if the driver must be ended.
    pub fn hear(&mut self, check: &Check, age_ns: u64, answer: Answer) -> Option<String> {
        let ms = age_ns / 1_000_000;
        self.denials = if answer == Answer::Denies { self.denials + 1 } else { 0 };
        let cause = if self.denials >= DENIALS_MAX {
            format!("it does not know of a request that it was given {ms} ms ago")
        } else if answer == Answer::Has && age_ns / PATIENCE >= self.limit_ns(check) {
            format!("a request is not done after {ms} ms")
        } else {
            return None;
        };
        if self.ends >= ENDS_MAX {
            if !core::mem::replace(&mut self.has_told, true) {
                log::error!(
                    "{cause}: {ENDS_MAX} drivers were ended over such, and no other will be; the device may be slow"
                );
            }
            return None;
        }
        self.ends += 1;
        self.denials = 0;
        Some(cause)
    }

    /// Returns the age at which the driver is asked.
    fn limit_ns(&self, check: &Check) -> u64 {
        check.limit_ns.max(1).saturating_mul(1 << self.ends)
    }

    /// Returns the least age of the oldest request with the present driver, in nanoseconds; 0 if there is none.
    fn age_ns(&mut self, seen: &UnderWay) -> u64 {
        let Some(oldest) = seen.oldest else {
            self.marks.clear();
            return 0;
        };
        while self.marks.front().is_some_and(|&(next, _)| next <= oldest) {
            self.marks.pop_front();
        }
        let Some(&(_, at_ns)) = self.marks.front() else { return 0 };
        self.clock_ns - at_ns.max(self.since_ns)
    }

    fn mark(&mut self, limit_ns: u64, seen: &UnderWay) {
        let is_due = self.marks.back().is_none_or(|&(next, at_ns)| {
            next != seen.next && self.clock_ns - at_ns >= limit_ns / MARKS_PER_LIMIT
        });
        if is_due && seen.oldest.is_some() && self.marks.len() < MARKS_MAX {
            self.marks.push_back((seen.next, self.clock_ns));
        }
    }

    fn calm_down(&mut self, limit_ns: u64) {
        let is_calm = self.clock_ns - self.overdue_ns >= limit_ns.saturating_mul(CALM);
        if self.ends > 0 && is_calm {
            self.ends -= 1;
            self.overdue_ns = self.clock_ns;
            self.has_told = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT_NS: u64 = 10_000;
    const STEP_NS: u64 = 500;

    /// A driver that is checked every [`STEP_NS`].
    #[derive(Default)]
    struct Checked {
        watch: Watch,
        now_ns: u64,
        epoch: u64,
    }

    impl Checked {
        /// Does one check that finds `oldest`, for which the driver answers `answer`. Returns whether the driver is ended.
        fn step(&mut self, oldest: Option<u64>, next: u64, answer: Answer) -> bool {
            self.after(STEP_NS, oldest, next, answer)
        }

        fn after(&mut self, ns: u64, oldest: Option<u64>, next: u64, answer: Answer) -> bool {
            self.now_ns += ns;
            let now = Instant(self.now_ns);
            let check = Check { now, limit_ns: LIMIT_NS, step_max_ns: 2 * STEP_NS };
            let seen = UnderWay { epoch: self.epoch, oldest, next };
            let Some(age_ns) = self.watch.see(&check, &seen) else { return false };
            let is_ended = self.watch.hear(&check, age_ns, answer).is_some();
            self.epoch += u64::from(is_ended);
            is_ended
        }

        /// Returns the time until the driver is ended over a request that stays.
        fn until_ended(&mut self, answer: Answer) -> Option<u64> {
            let start_ns = self.now_ns;
            (0..20_000).find(|_| self.step(Some(7), 8, answer)).map(|_| self.now_ns - start_ns)
        }
    }

    #[test]
    fn a_driver_that_denies_is_ended_at_the_limit_and_a_slow_one_at_three_times() {
        let ns = Checked::default().until_ended(Answer::Denies).unwrap();
        assert!((LIMIT_NS..=LIMIT_NS + 3 * STEP_NS).contains(&ns), "{ns}");
        let ns = Checked::default().until_ended(Answer::Has).unwrap();
        assert!((3 * LIMIT_NS..=3 * LIMIT_NS + 3 * STEP_NS).contains(&ns), "{ns}");
        assert_eq!(Checked::default().until_ended(Answer::Patient), None);
    }

    #[test]
    fn each_end_doubles_the_limit_and_after_the_last_nobody_is_ended() {
        let mut checked = Checked::default();
        for end in 0..ENDS_MAX {
            let ns = checked.until_ended(Answer::Has).unwrap();
            assert!(ns >= (3 * LIMIT_NS) << end, "{end}: {ns}");
        }
        assert_eq!(checked.until_ended(Answer::Has), None);
        // A long time without overdue requests undoes the ends, one by one.
        (0..32 * 20 * (ENDS_MAX as usize))
            .for_each(|_| assert!(!checked.step(None, 8, Answer::Has)));
        let ns = checked.until_ended(Answer::Has).unwrap();
        assert!(ns <= 3 * LIMIT_NS + 3 * STEP_NS, "{ns}");
    }

    #[test]
    fn a_driver_that_does_one_request_a_check_is_ended_when_the_others_are_too_old() {
        let mut checked = Checked::default();
        let first = (0..1000).find(|&done| checked.step(Some(done), 1000, Answer::Has)).unwrap();
        assert!((60..70).contains(&first), "{first}");
    }

    #[test]
    fn requests_that_are_done_in_time_are_never_asked_for_and_checks_take_no_memory() {
        let mut checked = Checked::default();
        let room = checked.watch.marks.capacity();
        assert!(room >= MARKS_MAX);
        for round in 0..10_000u64 {
            let oldest = (round % 3 != 0).then_some(round * 40);
            assert!(!checked.step(oldest, round * 40 + 100, Answer::Denies));
            assert_eq!(checked.watch.marks.capacity(), room);
        }
    }

    #[test]
    fn time_in_which_nothing_was_checked_makes_nothing_old() {
        let mut checked = Checked::default();
        for _ in 0..9 {
            assert!(!checked.after(LIMIT_NS * 100, Some(1), 2, Answer::Denies));
        }
    }
}
