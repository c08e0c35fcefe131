//! Rates of the time-stamp counter and of the local APIC timer, measured against the first clock of known rate that the
//! machine has: HPET, ACPI PM timer or PIT.
//!
//! The measurement spans work that boot has to do anyway ([`Measurement::start`] early, [`Measurement::finish`] late). It
//! costs time only if that work takes less than [`clock::LEAST_NS`].
use super::{acpi, apic, boot::phys_to_virt, cpu};
pub use x86::clock::Rates;
use x86::{
    clock::{self, Clock, Sample},
    cpuid,
};

const HPET_COUNTER: u64 = 0xf0;

/// A clock of known rate, and the address at which it is read.
#[derive(Clone, Copy, Debug)]
struct Source {
    clock: Clock,
    /// The HPET counter's address, or the PM timer's port.
    at: u64,
}

impl Source {
    /// Finds and starts a clock. HPET registers are read through boot's first tables.
    fn find() -> Option<Source> {
        let tables = acpi::tables();
        if let Some(base) = tables.hpet.filter(|&base| base < super::boot::FIRST_MAP_END) {
            let base = phys_to_virt(base);
            // SAFETY: the capability register of the HPET, mapped by boot's first tables.
            let capabilities = unsafe { (base as *const u64).read_volatile() };
            // SAFETY: its configuration register; bit 0 lets the main counter run, no interrupts.
            unsafe { ((base + 0x10) as *mut u64).write_volatile(1) };
            if let Some(clock) = Clock::hpet(capabilities) {
                return Some(Source { clock, at: base + HPET_COUNTER });
            }
        }
        if let acpi::Register::Port(port) = tables.pm_timer {
            return Some(Source { clock: Clock::PmTimer, at: u64::from(port) });
        }
        start_pit();
        let first = read_pit();
        let is_there = (0..1000).any(|_| read_pit() != first);
        is_there.then_some(Source { clock: Clock::Pit, at: 0 })
    }

    fn read(self) -> u64 {
        match self.clock {
            // SAFETY: the main counter of the HPET (see `find`).
            Clock::Hpet(_) => unsafe { (self.at as *const u64).read_volatile() },
            // SAFETY: the PM timer's port; reading has no effect.
            Clock::PmTimer => u64::from(unsafe { cpu::in32(self.at as u16) }),
            Clock::Pit => read_pit(),
        }
    }

    fn sample(self) -> Sample {
        let best = clock::best(|| (cpu::tsc(), self.read(), cpu::tsc()));
        Sample { timer: apic::measured(), ..best }
    }
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

/// A measurement under way.
#[derive(Debug)]
pub struct Measurement {
    source: Option<Source>,
    first: Sample,
}

impl Measurement {
    /// Starts a measurement. The local APIC's registers are reachable, and its timer is not in use yet.
    pub fn start() -> Measurement {
        apic::start_measuring();
        let source = Source::find();
        let unknown = || Sample { tsc: cpu::tsc(), ..Sample::default() };
        Measurement { source, first: source.map_or_else(unknown, Source::sample) }
    }

    /// Ends the measurement; waits until [`clock::LEAST_NS`] have passed. Without a clock, the counter's rate is taken
    /// from CPUID, or else is assumed to be 1 GHz.
    pub fn finish(self) -> Rates {
        let Some(source) = self.source else {
            let hz = cpuid::counter_hz(cpu::cpuid).unwrap_or(1_000_000_000);
            log::warn!("no clock to measure against: time-stamp counter taken to run at {hz} Hz");
            let tsc = cpu::tsc() - self.first.tsc;
            return Rates { tsc, timer: apic::measured(), ns: clock::ticks_to_ns(tsc, hz) };
        };
        loop {
            if let Some(rates) = Rates::between(source.clock, &self.first, &source.sample()) {
                return rates;
            }
        }
    }

    /// Returns whether the clock's counter wraps so soon that the measurement must end at once.
    pub fn is_short(&self) -> bool {
        self.source.is_some_and(|source| source.clock == Clock::Pit)
    }

    /// Switches from boot's tables to the final tables for reading the clock.
    #[must_use]
    pub fn remapped(mut self) -> Measurement {
        if let (Some(Source { clock: Clock::Hpet(_), at }), Some(base)) =
            (&mut self.source, acpi::tables().hpet)
        {
            *at = crate::memory::map_device(base & !0xfff, 4096) + (base & 0xfff) + HPET_COUNTER;
        }
        self
    }
}
