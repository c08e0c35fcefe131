//! The local APIC: offsets of its registers, and the values written to them.
//!
//! Source: Intel SDM volume 3, chapter 11.

/// Register: local APIC id, in the upper byte.
pub const ID: usize = 0x20;
/// Register: a write ends the interrupt being handled.
pub const END_OF_INTERRUPT: usize = 0xb0;
/// Register: spurious vector, and bit 8 to enable the APIC.
pub const SPURIOUS: usize = 0xf0;
/// Registers: interrupts being handled, 32 vectors a register, one every 16 bytes.
pub const IN_SERVICE: usize = 0x100;
/// Register: interrupt command, low half; a write sends.
pub const COMMAND_LOW: usize = 0x300;
/// Register: interrupt command, high half, with the destination in the upper byte.
pub const COMMAND_HIGH: usize = 0x310;
/// Local vector table: timer.
pub const TIMER: usize = 0x320;
/// Local vector table: first pin.
pub const LINT0: usize = 0x350;
/// Local vector table: second pin.
pub const LINT1: usize = 0x360;
/// Local vector table: errors.
pub const ERROR: usize = 0x370;
/// Register: the count from which the timer counts down.
pub const INITIAL_COUNT: usize = 0x380;
/// Register: the timer's present count.
pub const CURRENT_COUNT: usize = 0x390;
/// Register: the divisor of the timer's clock.
pub const DIVIDE: usize = 0x3e0;

/// An entry of the local vector table that delivers nothing.
pub const MASKED: u32 = 1 << 16;
/// Delivery as a non-maskable interrupt.
pub const DELIVER_NMI: u32 = 4 << 8;
/// Delivery as INIT.
pub const DELIVER_INIT: u32 = 5 << 8;
/// Delivery as a start-up interrupt; the vector is the page.
pub const DELIVER_STARTUP: u32 = 6 << 8;
/// Bit of a command that was not taken yet.
pub const DELIVERY_PENDING: u32 = 1 << 12;
/// Level of a command: all but the de-assertion of INIT.
pub const ASSERT: u32 = 1 << 14;
/// A command to all processors but the sender.
pub const ALL_OTHERS: u32 = 3 << 18;
/// Mode of the timer in which it fires at a time-stamp.
pub const TIMER_DEADLINE: u32 = 2 << 17;
/// Divisor 1: the timer runs at the rate of its clock.
pub const DIVIDE_BY_1: u32 = 0b1011;

/// Returns the rate of a timer that counted `counts` in `ns` nanoseconds: counts a nanosecond, times
/// 2^32.
pub fn timer_rate(counts: u32, ns: u64) -> u64 {
    (u64::from(counts) << 32) / ns.max(1)
}

/// Returns the count of a timer of `rate` ([`timer_rate`]) for `ns` nanoseconds, at least 1; long times
/// are cut.
#[inline]
pub fn timer_counts(ns: u64, rate: u64) -> u32 {
    let counts = (u128::from(ns) * u128::from(rate)) >> 32;
    counts.clamp(1, u128::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_counts_what_it_was_measured_to() {
        // The timer runs at a gigahertz: one count a nanosecond.
        let rate = timer_rate(4_000_000, 4_000_000);
        assert_eq!(rate, 1 << 32);
        assert_eq!(timer_counts(1_000, rate), 1_000);
        // The timer runs at 62.5 MHz: one count each 16 ns.
        assert_eq!(timer_counts(1_600, timer_rate(250_000, 4_000_000)), 100);
    }

    #[test]
    fn no_time_is_one_count_and_a_long_time_the_most() {
        assert_eq!(timer_counts(0, 1 << 32), 1);
        assert_eq!(timer_counts(u64::MAX, 1 << 32), u32::MAX);
        assert_eq!(timer_rate(5, 0), 5 << 32);
    }
}
