//! Alarms of audit: a line in the kernel's log and on the console when a threshold is passed ([`Alarm`]).
use alloc::{boxed::Box, format, string::String};
use core::fmt::Arguments;
use rt::{
    sync::Once,
    time::{Instant, now},
};

/// Percent below a threshold at which it can be passed again.
const HYSTERESIS: u8 = 5;

/// Thresholds in percent, in rising order. Each is told of once when it is passed, and again only after the use was clearly below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alarm<const N: usize> {
    thresholds: [u8; N],
    /// Number of thresholds that were passed.
    passed: usize,
}

impl<const N: usize> Alarm<N> {
    /// Makes an alarm of which no threshold was passed.
    pub const fn new(thresholds: [u8; N]) -> Alarm<N> {
        Alarm { thresholds, passed: 0 }
    }
    /// Returns the thresholds.
    pub fn thresholds(&self) -> [u8; N] {
        self.thresholds
    }
    /// Hears how much is used. Returns the threshold of which is to be told.
    pub fn note(&mut self, percent: u8) -> Option<u8> {
        let before = self.passed;
        while let Some(last) = self.passed.checked_sub(1)
            && let Some(threshold) = self.thresholds.get(last)
            && percent.saturating_add(HYSTERESIS) <= *threshold
        {
            self.passed = last;
        }
        let reached = self.thresholds.iter().take_while(|threshold| percent >= **threshold).count();
        self.passed = self.passed.max(reached);
        let is_new = self.passed > before;
        self.thresholds.get(reached.wrapping_sub(1)).copied().filter(|_| is_new)
    }
}

/// Time for which the backlog is full before there is an alarm: bursts of records fill it for a moment.
pub(super) const FULL_NS: u64 = 5_000_000_000;

/// The alarm of a backlog that stays full.
pub(super) struct BacklogAlarm {
    alarm: Alarm<1>,
    /// The time since when it is full.
    since: Option<Instant>,
}

impl BacklogAlarm {
    /// Makes an alarm with a threshold in percent.
    pub(super) const fn new(threshold: u8) -> BacklogAlarm {
        BacklogAlarm { alarm: Alarm::new([threshold]), since: None }
    }
    /// Returns the threshold.
    pub(super) fn threshold(&self) -> u8 {
        let [threshold] = self.alarm.thresholds();
        threshold
    }
    /// Hears how much is used, in percent. Returns whether it is to be told of: it has been so for [`FULL_NS`].
    pub(super) fn note(&mut self, percent: u8) -> bool {
        if percent < self.threshold() {
            self.since = None;
            return self.alarm.note(percent).is_some();
        }
        let begin = *self.since.get_or_insert_with(now);
        now().since(begin) >= FULL_NS && self.alarm.note(percent).is_some()
    }
}

/// Shows a line on the console.
pub type ShowAlarm = Box<dyn Fn(String) + Send + Sync>;

static CONSOLE: Once<ShowAlarm> = Once::new();

/// Sets how lines are shown on the console; only the first call has an effect.
pub fn announce(show: ShowAlarm) {
    CONSOLE.get_or_init(|| show);
}

/// Raises an alarm.
pub fn raise(why: Arguments<'_>) {
    log::warn!("audit: alarm: {why}");
    if let Some(show) = CONSOLE.get() {
        show(format!("\r\n[ Audit: {why}. ]\r\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_told_of_once_until_the_use_is_clearly_below_it() {
        let mut alarm = Alarm::new([75, 90, 100]);
        let uses = [10, 74, 75, 76, 74, 76, 70, 75, 95, 99, 100, 96, 100, 95, 100, 0, 100];
        let told = uses.map(|percent| alarm.note(percent));
        let mut expected = [None; 17];
        for (place, threshold) in [(2, 75), (7, 75), (8, 90), (10, 100), (14, 100), (16, 100)] {
            expected[place] = Some(threshold);
        }
        assert_eq!(told, expected);
    }
}
