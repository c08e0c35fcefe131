//! Clocks of known rate, and the rates of the time-stamp counter and the local APIC timer measured against one.
//!
//! A [`Measurement`] finds the first clock that the machine has, of HPET, ACPI PM timer and PIT.
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

/// The registers of the machine's clocks.
pub trait ClockRegisters {
    /// Reads a byte from a port.
    fn in8(&self, port: u16) -> u8;
    /// Reads four bytes from a port.
    fn in32(&self, port: u16) -> u32;
    /// Writes a byte to a port.
    fn out8(&self, port: u16, value: u8);
    /// Reads the HPET's register at virtual address `at`.
    fn read(&self, at: u64) -> u64;
    /// Writes the HPET's register at virtual address `at`.
    fn write(&self, at: u64, value: u64);
    /// Reads the time-stamp counter.
    fn tsc(&self) -> u64;
    /// Reads the count of the local APIC timer.
    fn timer(&self) -> u32;
}

const HPET_CONFIGURATION: u64 = 0x10;
const HPET_COUNTER: u64 = 0xf0;
const PIT_CHANNEL_2: u16 = 0x42;
const PIT_COMMAND: u16 = 0x43;
const PIT_GATE: u16 = 0x61;

/// A clock of known rate, and the address at which it is read.
#[derive(Clone, Copy, Debug)]
struct Source {
    clock: Clock,
    /// The HPET counter's address, or the PM timer's port.
    at: u64,
}

impl Source {
    /// Finds and starts a clock.
    fn find<R: ClockRegisters>(
        registers: &R,
        hpet: Option<u64>,
        pm_timer: Option<u16>,
    ) -> Option<Source> {
        if let Some(base) = hpet {
            let capabilities = registers.read(base);
            // This lets the main counter run, without interrupts.
            registers.write(base + HPET_CONFIGURATION, 1);
            if let Some(clock) = Clock::hpet(capabilities) {
                return Some(Source { clock, at: base + HPET_COUNTER });
            }
        }
        if let Some(port) = pm_timer {
            return Some(Source { clock: Clock::PmTimer, at: port.into() });
        }
        start_pit(registers);
        let first = read_pit(registers);
        let is_there = (0..1000).any(|_| read_pit(registers) != first);
        is_there.then_some(Source { clock: Clock::Pit, at: 0 })
    }

    fn read<R: ClockRegisters>(self, registers: &R) -> u64 {
        match self.clock {
            Clock::Hpet(_) => registers.read(self.at),
            Clock::PmTimer => registers.in32(self.at as u16).into(),
            Clock::Pit => read_pit(registers),
        }
    }

    fn sample<R: ClockRegisters>(self, registers: &R) -> Sample {
        let best = best(|| (registers.tsc(), self.read(registers), registers.tsc()));
        Sample { timer: registers.timer(), ..best }
    }
}

/// Starts channel 2 of the interval timer in mode 2 with count 65536, its gate on and the speaker off. It raises no interrupt.
fn start_pit<R: ClockRegisters>(registers: &R) {
    registers.out8(PIT_GATE, registers.in8(PIT_GATE) & !2 | 1);
    for (port, value) in [(PIT_COMMAND, 0xb4), (PIT_CHANNEL_2, 0), (PIT_CHANNEL_2, 0)] {
        registers.out8(port, value);
    }
}

/// Latches channel 2 of the interval timer and reads its count.
fn read_pit<R: ClockRegisters>(registers: &R) -> u64 {
    registers.out8(PIT_COMMAND, 0x80);
    let low = registers.in8(PIT_CHANNEL_2);
    u16::from_le_bytes([low, registers.in8(PIT_CHANNEL_2)]).into()
}

/// A measurement under way.
#[derive(Debug)]
pub struct Measurement {
    source: Option<Source>,
    first: Sample,
}

impl Measurement {
    /// Starts a measurement against the HPET at virtual address `hpet`, or else the PM timer at port `pm_timer`, or else the
    /// PIT. The count of the local APIC timer is 0 now.
    pub fn start<R: ClockRegisters>(
        registers: &R,
        hpet: Option<u64>,
        pm_timer: Option<u16>,
    ) -> Measurement {
        let source = Source::find(registers, hpet, pm_timer);
        let unknown = || Sample { tsc: registers.tsc(), ..Sample::default() };
        Measurement {
            source,
            first: source.map_or_else(unknown, |source| source.sample(registers)),
        }
    }

    /// Returns whether the clock's counter wraps so soon that the measurement must end at once.
    pub fn is_short(&self) -> bool {
        self.source.is_some_and(|source| source.clock == Clock::Pit)
    }

    /// Returns whether the machine has no clock of known rate.
    pub fn is_blind(&self) -> bool {
        self.source.is_none()
    }

    /// Changes the virtual address of the HPET, if that is the clock.
    pub fn move_hpet(&mut self, map: impl FnOnce() -> u64) {
        if let Some(Source { clock: Clock::Hpet(_), at }) = &mut self.source {
            *at = map() + HPET_COUNTER;
        }
    }

    /// Ends the measurement; waits until [`LEAST_NS`] have passed. Without a clock, the rate of the time-stamp counter is taken
    /// to be `assumed_hz`.
    pub fn finish<R: ClockRegisters>(&self, registers: &R, assumed_hz: u64) -> Rates {
        let Some(source) = self.source else {
            let tsc = registers.tsc() - self.first.tsc;
            return Rates { tsc, timer: registers.timer(), ns: ticks_to_ns(tsc, assumed_hz) };
        };
        loop {
            let last = source.sample(registers);
            if let Some(rates) = Rates::between(source.clock, &self.first, &last) {
                return rates;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use core::cell::{Cell, RefCell};

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

    /// A machine at 2 GHz whose timer counts at 62.5 MHz. Each access takes a microsecond.
    struct Model {
        now_ns: Cell<u64>,
        has_pit: bool,
        latched: RefCell<Vec<u8>>,
        written: RefCell<Vec<(u16, u8)>>,
        period_fs: u64,
    }

    impl Model {
        fn new(period_fs: u64) -> Model {
            Model {
                now_ns: Cell::new(5_000),
                has_pit: true,
                latched: RefCell::default(),
                written: RefCell::default(),
                period_fs,
            }
        }

        fn tick(&self) -> u64 {
            self.now_ns.set(self.now_ns.get() + 1_000);
            self.now_ns.get()
        }
    }

    const HPET: u64 = 0xffff_8000_fed0_0000;

    impl ClockRegisters for Model {
        fn in8(&self, port: u16) -> u8 {
            match port {
                PIT_CHANNEL_2 => self.latched.borrow_mut().pop().unwrap(),
                _ => 0xe2,
            }
        }
        fn in32(&self, port: u16) -> u32 {
            assert_eq!(port, 0x608);
            (u128::from(self.tick()) * u128::from(PM_TIMER_HZ) / NS) as u32 & 0xff_ffff
        }
        fn out8(&self, port: u16, value: u8) {
            self.written.borrow_mut().push((port, value));
            if (port, value) == (PIT_COMMAND, 0x80) {
                let ticks = (u128::from(self.tick()) * u128::from(PIT_HZ) / NS) as u16;
                let count = if self.has_pit { 0u16.wrapping_sub(ticks) } else { 0xffff };
                self.latched.borrow_mut().extend(count.to_be_bytes());
            }
        }
        fn read(&self, at: u64) -> u64 {
            match at - HPET {
                0 => self.period_fs << 32,
                HPET_COUNTER => self.tick() * 1_000_000 / self.period_fs,
                other => panic!("no register {other:#x}"),
            }
        }
        fn write(&self, at: u64, value: u64) {
            assert_eq!((at, value), (HPET + HPET_CONFIGURATION, 1));
        }
        fn tsc(&self) -> u64 {
            self.tick() * 2
        }
        fn timer(&self) -> u32 {
            (self.tick() / 16) as u32
        }
    }

    /// Measures the model against the clocks. The rates must be right to a thousandth.
    fn measure(model: &Model, hpet: Option<u64>, pm_timer: Option<u16>) -> Measurement {
        let measurement = Measurement::start(model, hpet, pm_timer);
        let rates = measurement.finish(model, 2_000_000_000);
        let per_us = |counts: u64| counts * 1_000_000 / rates.ns;
        assert!((1_998_000..=2_002_000).contains(&per_us(rates.tsc)), "{rates:?}");
        assert!((62_400..=62_600).contains(&per_us(rates.timer.into())), "{rates:?}");
        measurement
    }

    #[test]
    fn the_first_clock_that_is_there_is_used() {
        let clock = |measurement: Measurement| measurement.source.map(|source| source.clock);
        let period_fs = 10_000_000;
        let hpet = measure(&Model::new(period_fs), Some(HPET), Some(0x608));
        assert_eq!(clock(hpet), Some(Clock::Hpet(period_fs)));
        let invalid = measure(&Model::new(0), Some(HPET), Some(0x608));
        assert_eq!(clock(invalid), Some(Clock::PmTimer));
        let pit = measure(&Model::new(0), None, None);
        assert!(pit.is_short() && !pit.is_blind());
        assert_eq!(clock(pit), Some(Clock::Pit));
    }

    #[test]
    fn the_interval_timer_counts_without_speaker_and_interrupts() {
        let model = Model::new(0);
        start_pit(&model);
        let wanted =
            [(PIT_GATE, 0xe1), (PIT_COMMAND, 0xb4), (PIT_CHANNEL_2, 0), (PIT_CHANNEL_2, 0)];
        assert_eq!(*model.written.borrow(), wanted);
    }

    #[test]
    fn a_machine_without_clocks_has_the_assumed_rate() {
        let model = Model { has_pit: false, ..Model::new(0) };
        let measurement = Measurement::start(&model, None, None);
        assert!(measurement.is_blind() && !measurement.is_short());
        model.now_ns.set(model.now_ns.get() + 10_000_000);
        let rates = measurement.finish(&model, 1_000_000_000);
        assert_eq!(rates.ns, rates.tsc);
    }

    #[test]
    fn the_registers_of_the_hpet_may_move() {
        let model = Model::new(10_000_000);
        let mut measurement = Measurement::start(&model, Some(HPET), None);
        measurement.move_hpet(|| HPET + 0x1000);
        assert_eq!(measurement.source.map(|source| source.at), Some(HPET + 0x1000 + HPET_COUNTER));
        let mut other = Measurement::start(&model, None, Some(0x608));
        other.move_hpet(|| panic!("it is not the clock"));
    }
}
