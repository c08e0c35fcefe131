//! adjtimex(2) and related calls: the reported discipline of the wall clock, and the values that may be set.
//!
//! The clock is stepped (`ADJ_SETOFFSET`) and never slewed: requests to make it faster or slower are refused. The other
//! values are kept for the program that disciplines it, and reported to all. Source: adjtimex(2), Linux kernel/time/ntp.c.
use super::entry::Entry;
use linux_raw_sys::general as raw;
use process::{
    call::Call,
    object::CLOCK_TICKS,
    time::{SECOND_NS, clock::Clock, wall},
};
use rt::{lock_class, sync::Mutex};
use vfs::{Errno, credentials::Capabilities};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::partial(raw::__NR_adjtimex, "adjtimex", "slewing the clock", adjtimex),
    Entry::partial(raw::__NR_clock_adjtime, "clock_adjtime", "slewing the clock", clock_adjtime),
];

lock_class! {
    static DISCIPLINE = "time.discipline";
}

const OFFSET: u32 = 0x1;
const FREQUENCY: u32 = 0x2;
const MAX_ERROR: u32 = 0x4;
const ESTIMATED_ERROR: u32 = 0x8;
const STATUS: u32 = 0x10;
const TIME_CONSTANT: u32 = 0x20;
const TAI: u32 = 0x80;
const SET_OFFSET: u32 = 0x100;
const MICROSECONDS: u32 = 0x1000;
const NANOSECONDS: u32 = 0x2000;
const TICK: u32 = 0x4000;
/// Flag of adjtime(3): it is used alone, or with the next one only to read.
const ADJUST: u32 = 0x8000;
const READ_ONLY: u32 = 0x2000;

/// `STA_UNSYNC`
const UNSYNCHRONISED: i32 = 0x40;
/// `STA_PPSSIGNAL` to `STA_CLK`: the status does not set them.
const READ_ONLY_STATUS: i32 = 0xff00;
/// `STA_NANO`
const IN_NANOSECONDS: i32 = 0x2000;
/// `TIME_ERROR`: the clock is not synchronised.
const NOT_SYNCHRONISED: u64 = 5;
/// Greatest error in microseconds.
const ERROR_MAX: i64 = 16_000_000;
/// Reported tolerance of the clock in parts per million, shifted by 16; it has no effect.
const TOLERANCE: i64 = 500 << 16;
const CONSTANT_MAX: i64 = 10;
const TAI_MAX: i64 = 100_000;
/// Microseconds between ticks of USER_HZ; the greatest difference that may be requested follows.
const TICK_US: i64 = 1_000_000 / CLOCK_TICKS as i64;
const TICKS_US: core::ops::RangeInclusive<i64> = 9_000..=11_000;

/// `struct timex`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Timex {
    modes: u32,
    padding: u32,
    offset: i64,
    frequency: i64,
    max_error: i64,
    estimated_error: i64,
    status: i32,
    status_padding: u32,
    constant: i64,
    precision: i64,
    tolerance: i64,
    seconds: i64,
    fraction: i64,
    tick: i64,
    /// Values of a signal once a second, which does not exist here.
    pulse: [i64; 2],
    shift: i64,
    pulse_errors: [i64; 5],
    tai: i32,
    spare: [u32; 11],
}

const _: () = assert!(size_of::<Timex>() == 208);

/// The fields of it that are kept.
#[derive(Clone, Copy)]
struct Discipline {
    max_error: i64,
    estimated_error: i64,
    status: i32,
    constant: i64,
    tai: i32,
}

static KEPT: Mutex<Discipline> = Mutex::new(
    &DISCIPLINE,
    Discipline {
        max_error: ERROR_MAX,
        estimated_error: ERROR_MAX,
        status: UNSYNCHRONISED,
        constant: 2,
        tai: 0,
    },
);

fn adjtimex(call: &mut Call<'_>) -> Result<u64, Errno> {
    let wanted = call.memory.read(call.word(0))?;
    adjust(call, wanted, call.word(0))
}

fn clock_adjtime(call: &mut Call<'_>) -> Result<u64, Errno> {
    let wanted = call.memory.read(call.word(1))?;
    if call.uint(0) == raw::CLOCK_REALTIME {
        return adjust(call, wanted, call.word(1));
    }
    Clock::check_number(call.int(0))?;
    Err(Errno::EOPNOTSUPP)
}

fn adjust(call: &Call<'_>, mut wanted: Timex, address: u64) -> Result<u64, Errno> {
    let is_allowed = || call.task.credentials().has(Capabilities::SYS_TIME);
    let modes = wanted.modes;
    let is_adjusting = modes & ADJUST != 0;
    if is_adjusting && modes & OFFSET == 0 {
        return Err(Errno::EINVAL);
    }
    let is_reading = if is_adjusting { modes & READ_ONLY != 0 } else { modes == 0 };
    if !is_reading {
        if !is_allowed() {
            return Err(Errno::EPERM);
        }
        match is_adjusting {
            // adjtime(3) only slews the clock.
            true if wanted.offset != 0 => return Err(Errno::EOPNOTSUPP),
            true => {}
            false => change(&wanted)?,
        }
    }
    let kept = *KEPT.lock();
    let is_fine = kept.status & IN_NANOSECONDS != 0;
    let now = rt::time::wall_ns();
    let fraction = now % SECOND_NS;
    wanted = Timex {
        offset: 0,
        frequency: 0,
        max_error: kept.max_error,
        estimated_error: kept.estimated_error,
        status: kept.status,
        constant: kept.constant,
        precision: 1,
        tolerance: TOLERANCE,
        seconds: (now / SECOND_NS) as i64,
        fraction: if is_fine { fraction } else { fraction / 1000 } as i64,
        tick: TICK_US,
        pulse: [0; 2],
        shift: 0,
        pulse_errors: [0; 5],
        tai: kept.tai,
        ..wanted
    };
    call.memory.commit(address, &wanted)?;
    Ok(if kept.status & UNSYNCHRONISED != 0 { NOT_SYNCHRONISED } else { 0 })
}

/// Makes all changes that adjtimex(2) requests, or none.
fn change(wanted: &Timex) -> Result<(), Errno> {
    let modes = wanted.modes;
    if modes & TICK != 0 && !TICKS_US.contains(&wanted.tick) {
        return Err(Errno::EINVAL);
    }
    let slews = modes & OFFSET != 0 && wanted.offset != 0
        || modes & FREQUENCY != 0 && wanted.frequency != 0
        || modes & TICK != 0 && wanted.tick != TICK_US;
    if slews {
        return Err(Errno::EOPNOTSUPP);
    }
    if modes & SET_OFFSET != 0 {
        step(wanted)?;
    }
    let mut kept = KEPT.lock();
    if modes & STATUS != 0 {
        kept.status = kept.status & READ_ONLY_STATUS | wanted.status & !READ_ONLY_STATUS;
    }
    if modes & NANOSECONDS != 0 {
        kept.status |= IN_NANOSECONDS;
    } else if modes & MICROSECONDS != 0 {
        kept.status &= !IN_NANOSECONDS;
    }
    if modes & MAX_ERROR != 0 {
        kept.max_error = wanted.max_error.clamp(0, ERROR_MAX);
    }
    if modes & ESTIMATED_ERROR != 0 {
        kept.estimated_error = wanted.estimated_error.clamp(0, ERROR_MAX);
    }
    if modes & TIME_CONSTANT != 0 {
        let more = if kept.status & IN_NANOSECONDS == 0 { 4 } else { 0 };
        kept.constant = wanted.constant.saturating_add(more).clamp(0, CONSTANT_MAX);
    }
    if modes & TAI != 0 && (0..=TAI_MAX).contains(&wanted.constant) {
        kept.tai = wanted.constant as i32;
    }
    Ok(())
}

/// Steps the clock forward or back.
fn step(wanted: &Timex) -> Result<(), Errno> {
    let unit = if wanted.modes & NANOSECONDS != 0 { 1 } else { 1000 };
    let second = SECOND_NS as i64 / unit;
    if !(0..second).contains(&wanted.fraction) {
        return Err(Errno::EINVAL);
    }
    let by = wanted.seconds.checked_mul(SECOND_NS as i64);
    let by = by.and_then(|by| by.checked_add(wanted.fraction * unit)).ok_or(Errno::EINVAL)?;
    let to = rt::time::wall_ns().checked_add_signed(by).ok_or(Errno::EINVAL)?;
    wall::set(to);
    Ok(())
}
