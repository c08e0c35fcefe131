//! A bounded share of the processors' time, used by many threads on many processors at once.
//!
//! Time is cut into periods, the same for all shares. A share has a quota for each period. The used time is counted in one
//! word together with its period, so a new period begins with the first charge in it.
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Length of a period.
pub const PERIOD_NS: u64 = 100_000_000;

/// Unit of charging. The time of a thread is charged in whole units, so that short turns are cheap.
const UNIT_NS: u64 = 1 << 16;
/// Bits of the word that hold the period; the bits above hold the used time.
const PERIOD_BITS: u32 = 24;
const PERIOD_MASK: u64 = (1 << PERIOD_BITS) - 1;
/// The longest used time that the word can hold.
const USED_MAX_NS: u64 = u64::MAX >> PERIOD_BITS;

/// Returns the number of the period of `now_ns`, cut to its bits: it repeats after two weeks.
pub fn period(now_ns: u64) -> u64 {
    (now_ns / PERIOD_NS) & PERIOD_MASK
}

/// Returns the word after `used_ns` more in `period`.
fn charged(word: u64, period: u64, used_ns: u64) -> u64 {
    let before_ns = if word & PERIOD_MASK == period { word >> PERIOD_BITS } else { 0 };
    (before_ns + used_ns.min(PERIOD_NS)).min(USED_MAX_NS) << PERIOD_BITS | period
}

/// Returns whether the used time in `word` belongs to the present period.
#[cold]
fn is_of_now(word: u64, now_ns: impl FnOnce() -> u64) -> bool {
    word & PERIOD_MASK == period(now_ns())
}

/// A share of the processors' time.
#[derive(Debug)]
pub struct Share {
    /// Greatest word that does not exceed the quota.
    quota: u64,
    /// The used time and its period.
    used: AtomicU64,
    /// The last period, plus 1, in which a thread had to wait.
    refused_in: AtomicU64,
    refused: AtomicU32,
}

impl Share {
    /// Makes a share of `percent` of the time of this many processors; `None` if that is all their time.
    pub fn new(percent: u8, processors: usize) -> Option<Share> {
        let quota_ns = PERIOD_NS / 100 * u64::from(percent) * processors as u64;
        (percent < 100).then_some(Share {
            quota: quota_ns << PERIOD_BITS | PERIOD_MASK,
            used: AtomicU64::new(0),
            refused_in: AtomicU64::new(0),
            refused: AtomicU32::new(0),
        })
    }

    /// Charges a thread that had run for `ran_ns` in all and used `used_ns` more until `now_ns`. Time from the period before
    /// counts in the present one, because it was not noticed in time.
    #[inline(always)]
    pub fn charge(&self, now_ns: u64, ran_ns: u64, used_ns: u64) {
        let units = ran_ns.saturating_add(used_ns) / UNIT_NS - ran_ns / UNIT_NS;
        if units > 0 {
            self.add(now_ns, units * UNIT_NS);
        }
    }

    #[inline(never)]
    fn add(&self, now_ns: u64, used_ns: u64) {
        let period = period(now_ns);
        let charge = |word| Some(charged(word, period, used_ns));
        // The update never fails.
        let _ = self.used.fetch_update(Relaxed, Relaxed, charge);
    }

    /// Returns whether the share is used up in the period of `now_ns`. The time is asked for only if the share was used up in
    /// the last charged period.
    #[inline(always)]
    pub fn is_used_up(&self, now_ns: impl FnOnce() -> u64) -> bool {
        let word = self.used.load(Relaxed);
        word > self.quota && is_of_now(word, now_ns)
    }

    /// Notes that a thread had to wait at `now_ns` because the share is used up. Returns whether it is the first in this
    /// period. Counted once a period.
    pub fn refuse(&self, now_ns: u64) -> bool {
        let period = period(now_ns) + 1;
        let is_first = self.refused_in.swap(period, Relaxed) != period;
        if is_first {
            self.refused.fetch_add(1, Relaxed);
        }
        is_first
    }

    /// Returns the number of periods in which a thread had to wait.
    pub fn refused(&self) -> u32 {
        self.refused.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(percent: u8, processors: usize) -> Share {
        Share::new(percent, processors).expect("a part")
    }

    #[test]
    fn a_share_is_used_up_until_the_next_period() {
        let share = share(10, 1);
        let start_ns = 7 * PERIOD_NS;
        share.add(start_ns + 1, 10_000_000);
        assert!(!share.is_used_up(|| start_ns + 1), "exactly the quota");
        share.add(start_ns + 2, 1);
        assert!(share.is_used_up(|| start_ns + 2));
        assert!(share.is_used_up(|| start_ns + PERIOD_NS - 1));
        assert!(!share.is_used_up(|| start_ns + PERIOD_NS));
        share.add(start_ns + PERIOD_NS, 10_000_000);
        assert!(!share.is_used_up(|| start_ns + PERIOD_NS), "nothing is owed");
    }

    #[test]
    fn short_turns_are_all_charged() {
        let share = share(10, 1);
        let turn_ns = 7_000;
        (0..10_000_000 / turn_ns).for_each(|turn| share.charge(0, turn * turn_ns, turn_ns));
        let left_ns = 10_000_000 - (share.used.load(Relaxed) >> PERIOD_BITS);
        assert!(left_ns < UNIT_NS + turn_ns, "{left_ns} ns were not charged");
        share.charge(0, 10_000_000, u64::MAX);
        assert!(share.is_used_up(|| 0));
    }

    #[test]
    fn time_is_not_asked_for_while_there_is_quota() {
        let share = share(50, 1);
        share.add(0, 50_000_000);
        assert!(!share.is_used_up(|| panic!("asked")));
    }

    #[test]
    fn a_share_is_of_all_processors() {
        let share = share(25, 4);
        share.add(0, PERIOD_NS);
        assert!(!share.is_used_up(|| 0));
        share.add(0, 1);
        assert!(share.is_used_up(|| 0));
    }

    #[test]
    fn all_is_no_share_and_nothing_is_one() {
        assert!(Share::new(100, 1).is_none());
        let nothing = share(0, 8);
        assert!(!nothing.is_used_up(|| 0));
        nothing.add(0, 1);
        assert!(nothing.is_used_up(|| 0));
    }

    #[test]
    fn a_refusal_is_counted_once_a_period() {
        let share = share(1, 1);
        assert!(share.refuse(0) && !share.refuse(PERIOD_NS - 1));
        assert!(share.refuse(PERIOD_NS));
        assert_eq!(share.refused(), 2);
    }

    #[test]
    fn what_many_use_at_once_is_all_counted() {
        let share = share(40, 4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..40_000).for_each(|_| share.add(5, 1000)));
            }
        });
        assert!(!share.is_used_up(|| 5));
        share.add(5, 1);
        assert!(share.is_used_up(|| 5));
    }

    #[test]
    fn no_time_overflows_the_word() {
        let share = share(99, 1);
        (0..20_000).for_each(|_| share.add(u64::MAX, u64::MAX));
        assert!(share.is_used_up(|| u64::MAX) && !share.is_used_up(|| 0));
    }
}
