//! The PC's real-time clock: MC146818 and its CMOS, behind ports 0x70 (index) and 0x71 (data).
//!
//! Registers are in BCD or binary, hours in 12 or 24, as register B says. The clock updates once a
//! second; register A announces it at least 244 microseconds ahead, so a reading that began without
//! the announcement and took less time is consistent, and nothing needs to be read twice (a port
//! access is expensive under emulation). Source: Motorola MC146818A data sheet; the century's
//! register is the one that QEMU and every PC since 1990 use.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

mod civil;

#[cfg(test)]
mod tests;

use alloc::{sync::Arc, vec::Vec};
use civil::Civil;
use interfaces::{clock::Clock, offer::Offer};
use rt::{
    device::Ports,
    lock_class,
    sync::Mutex,
    time::{self, Instant},
};

lock_class! {
    static PORTS = "rtc.ports";
}

const FIRST_PORT: u16 = 0x70;
const INDEX: u16 = 0;
const DATA: u16 = 1;

mod register {
    pub(super) const SECONDS: u8 = 0x00;
    pub(super) const MINUTES: u8 = 0x02;
    pub(super) const HOURS: u8 = 0x04;
    pub(super) const DAY: u8 = 0x07;
    pub(super) const MONTH: u8 = 0x08;
    pub(super) const YEAR: u8 = 0x09;
    pub(super) const A: u8 = 0x0a;
    pub(super) const B: u8 = 0x0b;
    pub(super) const CENTURY: u8 = 0x32;
}

/// Register A: an update is near or under way.
const A_UPDATE: u8 = 1 << 7;
/// Register B: numbers are binary, not BCD.
const B_BINARY: u8 = 1 << 2;
/// Register B: hours are 0 to 23.
const B_24_HOURS: u8 = 1 << 1;
/// Flag of hours in 12-hour format: afternoon.
const HOUR_PM: u8 = 1 << 7;

/// Longest reading that cannot have met an unannounced update.
const READING_NS: u64 = 200_000;
/// Longest wait for the end of an update. An update takes 2 milliseconds, so a clock that needs
/// longer is broken.
const UPDATE_NS: u64 = 10_000_000;
/// Readings that are tried before the clock counts as broken.
const TRIES: usize = 20;

/// A real-time clock.
#[derive(Debug)]
pub struct Rtc {
    /// The ports. The lock keeps the writes of the index and the data together.
    ports: Mutex<Ports>,
}

/// Opens the clock, if there is one and it was granted.
pub fn probe() -> Option<Arc<Rtc>> {
    let ports = Ports::open(FIRST_PORT, 2).ok()?;
    Some(Arc::new(Rtc { ports: Mutex::new(&PORTS, ports) }))
}

/// Starts the component: the clock is instance 0.
pub fn start() -> Vec<Offer> {
    probe().into_iter().map(|clock| Offer::Clock(clock)).collect()
}

/// The contents of the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Raw {
    seconds: u8,
    minutes: u8,
    hours: u8,
    day: u8,
    month: u8,
    year: u8,
    century: u8,
    b: u8,
}

fn read(ports: &Ports, register: u8) -> u8 {
    ports.write8(INDEX, register);
    ports.read8(DATA)
}

/// Waits until no update is near. Returns `false` if that takes too long.
fn wait_for_quiet(ports: &Ports) -> bool {
    let deadline = time::now().after_ns(UPDATE_NS);
    while read(ports, register::A) & A_UPDATE != 0 {
        if time::now() > deadline {
            return false;
        }
        core::hint::spin_loop();
    }
    true
}

/// Reads all registers within one second of the clock.
fn read_raw(ports: &Ports) -> Option<Raw> {
    for _ in 0..TRIES {
        if !wait_for_quiet(ports) {
            return None;
        }
        let begun: Instant = time::now();
        let raw = Raw {
            seconds: read(ports, register::SECONDS),
            minutes: read(ports, register::MINUTES),
            hours: read(ports, register::HOURS),
            day: read(ports, register::DAY),
            month: read(ports, register::MONTH),
            year: read(ports, register::YEAR),
            century: read(ports, register::CENTURY),
            b: read(ports, register::B),
        };
        if time::now().since(begun) < READING_NS {
            return Some(raw);
        }
    }
    None
}

/// Decodes the registers; `None` if they are invalid.
fn decode(raw: Raw) -> Option<Civil> {
    let number = |value: u8| {
        if raw.b & B_BINARY != 0 {
            return Some(value);
        }
        let (tens, ones) = (value >> 4, value & 0xf);
        (tens <= 9 && ones <= 9).then_some(tens * 10 + ones)
    };
    let hour = if raw.b & B_24_HOURS != 0 {
        number(raw.hours)?
    } else {
        let of_12 = number(raw.hours & !HOUR_PM)?;
        if !(1..=12).contains(&of_12) {
            return None;
        }
        of_12 % 12 + if raw.hours & HOUR_PM != 0 { 12 } else { 0 }
    };
    // The century is taken to be this one if the chip does not keep it.
    let century = number(raw.century).filter(|century| (19..=21).contains(century)).unwrap_or(20);
    let year = number(raw.year).filter(|year| *year < 100)?;
    Civil::new(
        u16::from(century) * 100 + u16::from(year),
        number(raw.month)?,
        number(raw.day)?,
        (hour, number(raw.minutes)?, number(raw.seconds)?),
    )
}

impl Clock for Rtc {
    fn read_ns(&self) -> Option<u64> {
        let raw = read_raw(&self.ports.lock())?;
        let seconds = decode(raw)?.unix_seconds()?;
        seconds.checked_mul(1_000_000_000)
    }
}
