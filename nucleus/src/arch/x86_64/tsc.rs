//! Rates of the time-stamp counter and of the local APIC timer, measured against a clock of known rate (`x86::clock`).
//!
//! The measurement spans work that boot has to do anyway ([`start`] early, [`finish`] late). It costs time only if that work
//! takes less than [`LEAST_NS`](x86::clock::LEAST_NS).
use super::{acpi, apic, boot, cpu};
use crate::memory;
pub use x86::clock::{Measurement, Rates};
use x86::{clock::ClockRegisters, cpuid};

/// The clocks of this machine.
struct Hardware;

impl ClockRegisters for Hardware {
    fn in8(&self, port: u16) -> u8 {
        // SAFETY: a register of the interval timer.
        unsafe { cpu::in8(port) }
    }
    fn in32(&self, port: u16) -> u32 {
        // SAFETY: the PM timer's port; reading has no effect.
        unsafe { cpu::in32(port) }
    }
    fn out8(&self, port: u16, value: u8) {
        // SAFETY: a register of the interval timer's channel 2, which raises no interrupt.
        unsafe { cpu::out8(port, value) };
    }
    fn read(&self, at: u64) -> u64 {
        // SAFETY: a register of the HPET, mapped by [`start`] or [`remap`].
        unsafe { (at as *const u64).read_volatile() }
    }
    fn write(&self, at: u64, value: u64) {
        // SAFETY: as in `read`; the HPET raises no interrupt.
        unsafe { (at as *mut u64).write_volatile(value) };
    }
    fn tsc(&self) -> u64 {
        cpu::tsc()
    }
    fn timer(&self) -> u32 {
        apic::measured()
    }
}

/// Starts a measurement, with boot's first tables. The local APIC's registers are reachable, and its timer is not in use yet.
pub fn start() -> Measurement {
    apic::start_measuring();
    let tables = acpi::tables();
    let hpet = tables.hpet.filter(|&base| base < boot::FIRST_MAP_END).map(boot::phys_to_virt);
    Measurement::start(&Hardware, hpet, tables.pm_timer.port())
}

/// Switches from boot's tables to the final tables for reading the clock.
#[must_use]
pub fn remapped(mut measurement: Measurement) -> Measurement {
    if let Some(base) = acpi::tables().hpet {
        measurement.move_hpet(|| memory::map_device(base, 4096));
    }
    measurement
}

/// Ends a measurement. Without a clock, the counter's rate is taken from CPUID, or else is assumed to be 1 GHz.
pub fn finish(measurement: Measurement) -> Rates {
    let hz = cpuid::counter_hz(cpu::cpuid).unwrap_or(1_000_000_000);
    if measurement.is_blind() {
        log::warn!("no clock to measure against: time-stamp counter taken to run at {hz} Hz");
    }
    measurement.finish(&Hardware, hz)
}
