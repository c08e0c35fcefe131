//! Clocks of known rate, and the rates of the time-stamp counter and the local APIC timer measured against one.
//!
//! Source: IA-PC HPET 1.0a, 2.3.4; ACPI 6.5, 4.8.3.3; Intel 8254 data sheet.

/// Shortest measurement: with clocks read to half a microsecond, it is accurate to about 0.02 %.
pub const LEAST_NS: u64 = 4_000_000;
const PM_TIMER_HZ: u64 = 3_579_545;
const PIT_HZ: u64 = 1_193_182;
const NS: u128 = 1_000_000_000;

/// A clock of known rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The HPET's main counter, with the femtoseconds of a tick.
    Hpet(u64),
    /// The ACPI PM timer, a 24-bit counter.
    PmTimer,
    /// A channel of the interval timer, counting down from 65536.
    Pit,
}

impl Clock {
    /// Returns the HPET with that capability register, unless its period is invalid (it is at most 100 ns).
    pub fn hpet(capabilities: u64) -> Option<Clock> {
        let period_fs = capabilities >> 32;
        (100_000..=100_000_000).contains(&period_fs).then_some(Clock::Hpet(period_fs))
    }

    /// Returns the nanoseconds from reading `first` to reading `last`, if the counter wrapped at most once.
    pub fn elapsed_ns(self, first: u64, last: u64) -> u64 {
        match self {
            Clock::Hpet(period_fs) => {
                (u128::from(last.wrapping_sub(first)) * u128::from(period_fs) / 1_000_000) as u64
            }
            Clock::PmTimer => ticks_to_ns(last.wrapping_sub(first) & 0xff_ffff, PM_TIMER_HZ),
            Clock::Pit => ticks_to_ns(first.wrapping_sub(last) & 0xffff, PIT_HZ),
        }
    }
}

/// Returns the nanoseconds of `ticks` at `hz`.
pub fn ticks_to_ns(ticks: u64, hz: u64) -> u64 {
    (u128::from(ticks) * NS / u128::from(hz)) as u64
}

/// Counters that were read together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The time-stamp counter.
    pub tsc: u64,
    /// The counter of the clock.
    pub clock: u64,
    /// The count of the local APIC timer.
    pub timer: u32,
}

/// Takes a few readings (counter before, clock, counter after) and returns the one during which the counter
/// moved least. The timer is not read.
pub fn best(mut read: impl FnMut() -> (u64, u64, u64)) -> Sample {
    let (mut least, mut best) = (u64::MAX, Sample::default());
    for _ in 0..4 {
        let (before, clock, after) = read();
        let moved = after.wrapping_sub(before);
        if moved < least {
            (least, best) = (moved, Sample { tsc: before + moved / 2, clock, timer: 0 });
        }
    }
    best
}

/// The measured rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Counts of the time-stamp counter in `ns`.
    pub tsc: u64,
    /// Counts of the local APIC timer in `ns`.
    pub timer: u32,
    /// Nanoseconds measured.
    pub ns: u64,
}

impl Rates {
    /// Computes the rates from `first` to `last`, unless the time between was too short.
    pub fn between(clock: Clock, first: &Sample, last: &Sample) -> Option<Rates> {
        let ns = clock.elapsed_ns(first.clock, last.clock);
        let timer = last.timer.wrapping_sub(first.timer);
        (ns >= LEAST_NS).then(|| Rates { tsc: last.tsc - first.tsc, timer, ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hpet_of_10_mhz_ticks_each_100_ns() {
        let clock = Clock::hpet(100_000_000 << 32 | 0x8086_a201).unwrap();
        assert_eq!(clock.elapsed_ns(5, 40_005), 4_000_000);
        assert_eq!(clock.elapsed_ns(u64::MAX, 1), 200);
        assert_eq!(Clock::hpet(100_000_001 << 32), None);
        assert_eq!(Clock::hpet(0), None);
    }

    #[test]
    fn counters_go_round() {
        assert_eq!(Clock::PmTimer.elapsed_ns(0xff_ffff, 3_579_544), 1_000_000_000);
        // The interval timer counts down: from 10 over 0 to 65526 it is 20 ticks.
        assert_eq!(Clock::Pit.elapsed_ns(10, 65_526), 20 * 1_000_000_000 / 1_193_182);
    }

    #[test]
    fn the_reading_that_was_least_disturbed_counts() {
        let mut readings =
            [(0, 1, 900), (1000, 2, 1010), (2000, 3, 2500), (3000, 4, 3011)].into_iter();
        assert_eq!(best(|| readings.next().unwrap()), Sample { tsc: 1005, clock: 2, timer: 0 });
    }

    #[test]
    fn a_measurement_lasts_long_enough() {
        let first = Sample { tsc: 1000, clock: 0, timer: u32::MAX };
        let clock = Clock::Hpet(1_000_000);
        let early = Sample { tsc: 2000, clock: LEAST_NS - 1, timer: 8 };
        assert_eq!(Rates::between(clock, &first, &early), None);
        let last = Sample { tsc: 12_001_000, clock: LEAST_NS, timer: 249_999 };
        let rates = Rates { tsc: 12_000_000, timer: 250_000, ns: LEAST_NS };
        assert_eq!(Rates::between(clock, &first, &last), Some(rates));
    }
}
