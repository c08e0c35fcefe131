//! Limits of a domain: the number of things that it holds at once ([`Quota`]), and of lines that it
//! logs ([`Lines`]).
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const NS_PER_SECOND: u64 = 1_000_000_000;
/// Nanoseconds between two reports of refused lines.
const REPORT_NS: u64 = 10 * NS_PER_SECOND;

/// A count of things held at once, with a limit. Any number of threads may take and give back at
/// the same time.
#[derive(Debug)]
pub struct Quota {
    used: AtomicUsize,
    most: usize,
}

/// An amount taken from a [`Quota`], which is given back when dropped.
#[derive(Debug)]
pub struct Held {
    quota: Arc<Quota>,
    count: usize,
}

impl Quota {
    /// Makes a quota of `most` things, of which none is taken.
    pub const fn new(most: usize) -> Quota {
        Quota { used: AtomicUsize::new(0), most }
    }

    /// Returns the number of things that are taken.
    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Takes `count`. Returns `false`, and takes none, if the limit would be passed.
    #[must_use]
    pub fn take(&self, count: usize) -> bool {
        let fits = |now: usize| now.checked_add(count).filter(|&after| after <= self.most);
        self.used.fetch_update(Relaxed, Relaxed, fits).is_ok()
    }

    /// Gives back `count` things that were taken.
    pub fn give_back(&self, count: usize) {
        self.used.fetch_sub(count, Relaxed);
    }

    /// Takes `count` until the returned value is dropped; `None` if the limit would be passed.
    pub fn hold(self: &Arc<Quota>, count: usize) -> Option<Held> {
        self.take(count).then(|| Held { quota: self.clone(), count })
    }
}

impl Held {
    /// Returns the number of things that are held.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns whether they were taken from `quota`.
    pub fn is_of(&self, quota: &Arc<Quota>) -> bool {
        Arc::ptr_eq(&self.quota, quota)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.quota.give_back(self.count);
    }
}

/// The decision on a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The line may be logged.
    Write,
    /// The line is refused.
    Refuse,
    /// The line is refused, and it is time to report the number of lines refused since the last
    /// report.
    Report(u32),
}

/// A limit on log lines: a number a second, and a number at once after a pause.
#[derive(Debug)]
pub struct Lines {
    interval_ns: u64,
    burst: u64,
    /// Time at which all lines so far would have been written at the rate.
    due_ns: u64,
    refused: u32,
    /// Time from which refused lines are reported again.
    report_ns: u64,
}

impl Lines {
    /// Makes a limit of `per_second` lines (none at all if 0) and `burst` at once (at least 1).
    pub const fn new(per_second: u32, burst: u32) -> Lines {
        let interval_ns = if per_second == 0 { 0 } else { NS_PER_SECOND / per_second as u64 };
        let burst = if burst == 0 { 1 } else { burst as u64 };
        Lines { interval_ns, burst, due_ns: 0, refused: 0, report_ns: 0 }
    }

    /// Decides on a line at `now_ns`.
    pub fn judge(&mut self, now_ns: u64) -> Verdict {
        let due_ns = self.due_ns.max(now_ns).saturating_add(self.interval_ns);
        let fits = due_ns.saturating_sub(now_ns) <= self.interval_ns.saturating_mul(self.burst);
        if fits && self.interval_ns > 0 {
            self.due_ns = due_ns;
            return Verdict::Write;
        }
        self.refused = self.refused.saturating_add(1);
        if now_ns < self.report_ns {
            return Verdict::Refuse;
        }
        self.report_ns = now_ns.saturating_add(REPORT_NS);
        Verdict::Report(core::mem::take(&mut self.refused))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;

    const MS: u64 = 1_000_000;

    #[test]
    fn no_more_is_held_than_the_limit_and_all_comes_back() {
        let quota = Arc::new(Quota::new(3));
        let held = quota.hold(2).unwrap();
        assert_eq!((held.count(), quota.used()), (2, 2));
        assert!(quota.hold(2).is_none() && !quota.take(usize::MAX));
        assert!(held.is_of(&quota) && !held.is_of(&Arc::new(Quota::new(3))));
        assert!(quota.take(1));
        drop(held);
        assert_eq!(quota.used(), 1);
        quota.give_back(1);
        assert_eq!(quota.used(), 0);
    }

    #[test]
    fn threads_never_hold_more_than_the_limit() {
        let quota = Quota::new(5);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        if quota.take(2) {
                            assert!(quota.used() <= 5);
                            quota.give_back(2);
                        }
                    }
                });
            }
        });
        assert_eq!(quota.used(), 0);
    }

    #[test]
    fn a_burst_of_lines_is_written_and_then_as_many_as_the_rate() {
        let mut lines = Lines::new(10, 5);
        let written = |lines: &mut Lines, now_ns, count| {
            (0..count).filter(|_| lines.judge(now_ns) == Verdict::Write).count()
        };
        assert_eq!(written(&mut lines, 7, 50), 5);
        assert_eq!(written(&mut lines, 7 + 99 * MS, 50), 0);
        assert_eq!(written(&mut lines, 7 + 200 * MS, 50), 2);
        // After a pause of any length, no more than the burst is allowed.
        assert_eq!(written(&mut lines, 3_600_000 * MS, 50), 5);
        assert_eq!(written(&mut Lines::new(0, 5), 7, 50), 0);
    }

    #[test]
    fn refused_lines_are_reported_at_once_and_then_seldom_with_their_count() {
        let mut lines = Lines::new(1, 1);
        assert_eq!(lines.judge(1), Verdict::Write);
        assert_eq!(lines.judge(2), Verdict::Report(1));
        assert_eq!(lines.judge(3), Verdict::Refuse);
        assert_eq!(lines.judge(4), Verdict::Refuse);
        let later = 2 + REPORT_NS;
        assert_eq!(lines.judge(later), Verdict::Write);
        assert_eq!(lines.judge(later), Verdict::Report(3));
    }
}
