//! Tests of the clock against a model of its registers.
use crate::{Raw, decode, probe, register};
use interfaces::clock::Clock;
use rt::host::{DeviceRegisters, add_ports};
use std::sync::{
    Arc,
    atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed},
};

const BCD_24: Raw = Raw {
    seconds: 0x56,
    minutes: 0x34,
    hours: 0x12,
    day: 0x29,
    month: 0x02,
    year: 0x24,
    century: 0x20,
    b: 0x02,
};

fn seconds(raw: Raw) -> Option<u64> {
    decode(raw)?.unix_seconds()
}

#[test]
fn bcd_and_24_hours_are_read() {
    assert_eq!(seconds(BCD_24), Some(1_709_210_096));
}

#[test]
fn binary_is_read() {
    let raw =
        Raw { seconds: 56, minutes: 34, hours: 12, day: 29, year: 24, century: 20, b: 6, ..BCD_24 };
    assert_eq!(seconds(raw), seconds(BCD_24));
}

#[test]
fn twelve_hours_know_noon_and_midnight() {
    let at = |hours| seconds(Raw { hours, b: 0, ..BCD_24 }).map(|s| s % 86_400 / 3600);
    assert_eq!(at(0x12), Some(0));
    assert_eq!(at(0x92), Some(12));
    assert_eq!(at(0x01), Some(1));
    assert_eq!(at(0x81), Some(13));
    assert_eq!(at(0x13), None);
    assert_eq!(at(0x00), None);
}

#[test]
fn a_missing_century_is_this_one() {
    assert_eq!(seconds(Raw { century: 0xff, ..BCD_24 }), seconds(BCD_24));
}

#[test]
fn dates_that_do_not_exist_are_refused() {
    assert_eq!(seconds(Raw { year: 0x23, ..BCD_24 }), None);
    assert_eq!(seconds(Raw { month: 0x13, ..BCD_24 }), None);
    assert_eq!(seconds(Raw { month: 0, ..BCD_24 }), None);
    assert_eq!(seconds(Raw { day: 0, ..BCD_24 }), None);
    assert_eq!(seconds(Raw { minutes: 0x60, ..BCD_24 }), None);
    assert_eq!(seconds(Raw { seconds: 0x5a, ..BCD_24 }), None);
}

/// A model that announces an update for the first reads of register A.
struct Cmos {
    index: AtomicU8,
    updates: AtomicUsize,
}

impl DeviceRegisters for Cmos {
    fn read(&self, offset: usize, _bytes: usize) -> u64 {
        assert_eq!(offset, 1);
        let value = match self.index.load(Relaxed) {
            register::A => {
                let left = self.updates.load(Relaxed);
                self.updates.store(left.saturating_sub(1), Relaxed);
                if left > 0 { 0x80 } else { 0 }
            }
            register::SECONDS => BCD_24.seconds,
            register::MINUTES => BCD_24.minutes,
            register::HOURS => BCD_24.hours,
            register::DAY => BCD_24.day,
            register::MONTH => BCD_24.month,
            register::YEAR => BCD_24.year,
            register::CENTURY => BCD_24.century,
            register::B => BCD_24.b,
            _ => 0xff,
        };
        u64::from(value)
    }
    fn write(&self, offset: usize, _bytes: usize, value: u64) {
        assert_eq!(offset, 0);
        self.index.store(value as u8, Relaxed);
    }
}

#[test]
fn an_update_under_way_is_waited_for_and_an_endless_one_is_not() {
    let cmos = Arc::new(Cmos { index: AtomicU8::new(0), updates: AtomicUsize::new(3) });
    let _plugged = add_ports(0x70, 2, None, cmos.clone());
    let clock = probe().unwrap();
    assert_eq!(clock.read_ns(), Some(1_709_210_096_000_000_000));
    assert_eq!(cmos.updates.load(Relaxed), 0);
    cmos.updates.store(usize::MAX, Relaxed);
    assert_eq!(clock.read_ns(), None);
}
