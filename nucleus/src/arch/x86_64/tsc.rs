//! How fast the time-stamp counter and the local APIC timer run, measured against a clock of known
//! rate: HPET, ACPI PM timer or PIT, whichever is there first.
//!
//! The measurement spans work that boot has to do anyway ([`Measurement::start`] early,
//! [`Measurement::finish`] late), so it costs time only where boot was quicker than [`LEAST_NS`].
use super::{acpi, apic, boot::phys_to_virt, cpu};

/// Shortest measurement: with clocks read to half a microsecond, good to about 0.02 %.
const LEAST_NS: u64 = 4_000_000;
const PM_TIMER_HZ: u64 = 3_579_545;
const PIT_HZ: u64 = 1_193_182;
const HPET_COUNTER: u64 = 0xf0;
const NS: u128 = 1_000_000_000;

/// A clock of known rate.
#[derive(Clone, Copy, Debug)]
enum Clock {
    /// Main counter's address and femtoseconds a tick.
    Hpet { counter: u64, period_fs: u64 },
    /// Port of a 24-bit counter.
    PmTimer(u16),
    /// Channel 2 of the interval timer, counting down from 65536.
    Pit,
}

impl Clock {
    /// Finds and starts a clock. HPET registers are read through boot's first tables.
    fn find() -> Option<Clock> {
        let tables = acpi::tables();
        if let Some(base) = tables.hpet.filter(|&base| base < super::boot::FIRST_MAP_END) {
            let base = phys_to_virt(base);
            // SAFETY: the capability register of the HPET, mapped by boot's first tables.
            let capabilities = unsafe { (base as *const u64).read_volatile() };
            // SAFETY: its configuration register; bit 0 lets the main counter run, no interrupts.
            unsafe { ((base + 0x10) as *mut u64).write_volatile(1) };
            let period_fs = capabilities >> 32;
            if (100_000..=100_000_000).contains(&period_fs) {
                return Some(Clock::Hpet { counter: base + HPET_COUNTER, period_fs });
            }
        }
        if let acpi::Register::Port(port) = tables.pm_timer {
            return Some(Clock::PmTimer(port));
        }
        start_pit();
        let first = read_pit();
        (0..1000).any(|_| read_pit() != first).then_some(Clock::Pit)
    }

    fn read(self) -> u64 {
        match self {
            // SAFETY: the main counter of the HPET (see `find`).
            Clock::Hpet { counter, .. } => unsafe { (counter as *const u64).read_volatile() },
            // SAFETY: the PM timer's port; reading has no effect.
            Clock::PmTimer(port) => u64::from(unsafe { cpu::in32(port) } & 0xff_ffff),
            Clock::Pit => read_pit(),
        }
    }

    /// Nanoseconds from reading `first` to reading `last`, if the counter went round at most once.
    fn elapsed_ns(self, first: u64, last: u64) -> u64 {
        match self {
            Clock::Hpet { period_fs, .. } => {
                (u128::from(last.wrapping_sub(first)) * u128::from(period_fs) / 1_000_000) as u64
            }
            Clock::PmTimer(_) => scale(last.wrapping_sub(first) & 0xff_ffff, PM_TIMER_HZ),
            Clock::Pit => scale(first.wrapping_sub(last) & 0xffff, PIT_HZ),
        }
    }
}

fn scale(ticks: u64, hz: u64) -> u64 {
    (u128::from(ticks) * NS / u128::from(hz)) as u64
}

const PIT_CHANNEL_2: u16 = 0x42;
const PIT_COMMAND: u16 = 0x43;
const PIT_GATE: u16 = 0x61;

fn start_pit() {
    // SAFETY: the gate register of the interval timer's channel 2 (and the speaker).
    let gate = unsafe { cpu::in8(PIT_GATE) };
    // SAFETY: gate on, speaker off.
    unsafe { cpu::out8(PIT_GATE, gate & !2 | 1) };
    for (port, value) in [(PIT_COMMAND, 0xb4), (PIT_CHANNEL_2, 0), (PIT_CHANNEL_2, 0)] {
        // SAFETY: channel 2, mode 2, count 65536; it raises no interrupt.
        unsafe { cpu::out8(port, value) };
    }
}

fn read_pit() -> u64 {
    // SAFETY: latches channel 2.
    unsafe { cpu::out8(PIT_COMMAND, 0x80) };
    // SAFETY: the latched count's low byte.
    let low = unsafe { cpu::in8(PIT_CHANNEL_2) };
    // SAFETY: its high byte.
    let high = unsafe { cpu::in8(PIT_CHANNEL_2) };
    u64::from(u16::from_le_bytes([low, high]))
}

/// Clock and time-stamp counter read together.
#[derive(Clone, Copy, Debug)]
struct Sample {
    tsc: u64,
    clock: u64,
    timer: u32,
}

/// The best of a few readings: the one during which the counter moved least.
fn sample(clock: Clock) -> Sample {
    let mut best = (u64::MAX, Sample { tsc: 0, clock: 0, timer: 0 });
    for _ in 0..4 {
        let before = cpu::tsc();
        let reading = clock.read();
        let after = cpu::tsc();
        if after.wrapping_sub(before) < best.0 {
            best = (
                after - before,
                Sample { tsc: before + (after - before) / 2, clock: reading, timer: 0 },
            );
        }
    }
    best.1.timer = apic::measured();
    best.1
}

/// A measurement under way.
#[derive(Debug)]
pub struct Measurement {
    clock: Option<Clock>,
    first: Sample,
}

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// Counts of the time-stamp counter in `ns`.
    pub tsc: u64,
    /// Counts of the local APIC timer in `ns`.
    pub timer: u32,
    /// Nanoseconds measured.
    pub ns: u64,
}

impl Measurement {
    /// Starts: the local APIC's registers are reachable, and its timer is nobody's yet.
    pub fn start() -> Measurement {
        apic::start_measuring();
        let clock = Clock::find();
        let first = clock.map_or(Sample { tsc: cpu::tsc(), clock: 0, timer: 0 }, sample);
        Measurement { clock, first }
    }

    /// Ends, waiting until [`LEAST_NS`] have passed. Without a clock the counter is believed to run at
    /// the rate CPUID tells, else at 1 GHz.
    pub fn finish(self) -> Rates {
        let Some(clock) = self.clock else {
            let tsc_hz = told_hz().unwrap_or(1_000_000_000);
            log::warn!(
                "no clock to measure against: time-stamp counter taken to run at {tsc_hz} Hz"
            );
            let tsc = cpu::tsc() - self.first.tsc;
            return Rates { tsc, timer: apic::measured(), ns: scale(tsc, tsc_hz) };
        };
        loop {
            let last = sample(clock);
            let ns = clock.elapsed_ns(self.first.clock, last.clock);
            if ns >= LEAST_NS {
                let timer = last.timer.wrapping_sub(self.first.timer);
                return Rates { tsc: last.tsc - self.first.tsc, timer, ns };
            }
        }
    }

    /// Whether the counter goes round so soon that the measurement must end at once.
    pub fn is_short(&self) -> bool {
        matches!(self.clock, Some(Clock::Pit))
    }

    /// Reaches the clock by the final tables instead of boot's.
    pub fn remap(&mut self) {
        if let (Some(Clock::Hpet { counter, .. }), Some(base)) =
            (&mut self.clock, acpi::tables().hpet)
        {
            *counter =
                crate::memory::map_device(base & !0xfff, 4096) + (base & 0xfff) + HPET_COUNTER;
        }
    }
}

/// The counter's rate as CPUID tells it (leaf 0x15, or a hypervisor's 0x40000010).
fn told_hz() -> Option<u64> {
    if cpu::cpuid(0, 0)[0] >= 0x15 {
        let [denominator, numerator, crystal_hz, _] = cpu::cpuid(0x15, 0);
        if denominator != 0 && numerator != 0 && crystal_hz != 0 {
            return Some(u64::from(crystal_hz) * u64::from(numerator) / u64::from(denominator));
        }
    }
    if cpu::features().has_hypervisor && cpu::cpuid(0x4000_0000, 0)[0] >= 0x4000_0010 {
        let khz = cpu::cpuid(0x4000_0010, 0)[0];
        return (khz != 0).then(|| u64::from(khz) * 1000);
    }
    None
}
