//! The vDSO: code in every program that reads the time without a system call (vdso(7)).
//!
//! Built by `components/posix/process/build.rs` into a small ELF shared object, which exec maps into every
//! program right behind one page of data (`vvar`). The personality writes that page under a
//! sequence lock: odd while it changes. The page, little-endian:
//!
//! ```text
//!  0  u32  sequence
//!  4  u32  1: the counter may be used; 0: ask the kernel
//!  8  u64  base_tsc        ns = base + (((tsc - base_tsc) * multiplier) >> shift)
//! 16  u64  base_ns         the base of the monotonic clock
//! 24  u64  multiplier
//! 32  u64  shift           below 64
//! 40  u64  wall_base_ns    the base of the wall clock
//! ```
//!
//! `process::exec::vdso` is the writer. There are no statics, no relocations and no panics.
#![no_std]
#![no_main]

use core::arch::asm;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const CLOCK_REALTIME: u32 = 0;
const CLOCK_MONOTONIC: u32 = 1;
const CLOCK_MONOTONIC_RAW: u32 = 4;
const CLOCK_REALTIME_COARSE: u32 = 5;
const CLOCK_MONOTONIC_COARSE: u32 = 6;
const CLOCK_BOOTTIME: u32 = 7;
const CLOCK_TAI: u32 = 11;

const SYS_GETTIMEOFDAY: u64 = 96;
const SYS_TIME: u64 = 201;
const SYS_CLOCK_GETTIME: u64 = 228;
const SYS_CLOCK_GETRES: u64 = 229;
const SYS_GETCPU: u64 = 309;

const NS_A_SECOND: u64 = 1_000_000_000;
const PAGE_BYTES: usize = 4096;

/// The data page.
#[repr(C)]
struct Vvar {
    sequence: AtomicU32,
    has_counter: AtomicU32,
    base_tsc: AtomicU64,
    base_ns: AtomicU64,
    multiplier: AtomicU64,
    shift: AtomicU64,
    wall_base_ns: AtomicU64,
}

/// The two clocks of the page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PageClock {
    Monotonic,
    Wall,
}

/// `struct timespec`.
#[repr(C)]
pub struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

/// `struct timeval`.
#[repr(C)]
pub struct Timeval {
    seconds: i64,
    microseconds: i64,
}

/// `struct timezone`.
#[repr(C)]
pub struct Timezone {
    minutes_west: i32,
    dst: i32,
}

fn vvar() -> &'static Vvar {
    let image: usize;
    // SAFETY: takes the address of the image's first byte; touches no memory.
    unsafe {
        asm!("lea {}, [rip + __ehdr_start]", out(reg) image, options(nomem, nostack, preserves_flags))
    };
    let page = (image - PAGE_BYTES) as *const Vvar;
    // SAFETY: exec maps the data page right before the image, aligned, readable, for as long as
    // the image is mapped; it is written by others, hence the atomics.
    unsafe { &*page }
}

fn counter() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads the counter; the page says that programs may. The fence keeps the read from
    // going ahead of what came before, so that time never runs backwards between threads.
    unsafe {
        asm!("lfence", "rdtsc", out("eax") low, out("edx") high, options(nostack, preserves_flags))
    };
    u64::from(high) << 32 | u64::from(low)
}

/// Returns the nanoseconds of `clock` now, or `None` if the kernel must be asked.
#[inline(always)]
fn read(clock: PageClock) -> Option<u64> {
    let page = vvar();
    let base = if clock == PageClock::Wall { &page.wall_base_ns } else { &page.base_ns };
    loop {
        // The sequence is odd while the page changes; such a value is never found again.
        let before = page.sequence.load(Ordering::Acquire) & !1;
        if page.has_counter.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let elapsed = counter().wrapping_sub(page.base_tsc.load(Ordering::Relaxed));
        let elapsed = if (elapsed as i64) < 0 { 0 } else { elapsed };
        let scaled = u128::from(elapsed) * u128::from(page.multiplier.load(Ordering::Relaxed));
        let ns = (scaled >> (page.shift.load(Ordering::Relaxed) & 63)) as u64;
        let mut now = base.load(Ordering::Relaxed).wrapping_add(ns);
        // SAFETY: no instruction. All was read before the sequence is read again (loads stay in order on x86), and what is to
        // be done with it is done, so that no register holds it meanwhile.
        unsafe { asm!("/* {} */", inout(reg) now, options(nostack, preserves_flags)) };
        if page.sequence.load(Ordering::Relaxed) == before {
            return Some(now);
        }
        core::hint::spin_loop();
    }
}

fn system_call(number: u64, first: u64, second: u64, third: u64) -> i64 {
    let result: i64;
    // SAFETY: the calls made here (clock_gettime and its like) only write where the caller's
    // pointers say, which is what the caller asked for; the kernel checks them.
    unsafe {
        asm!("syscall", inlateout("rax") number as i64 => result, in("rdi") first, in("rsi") second,
            in("rdx") third, lateout("rcx") _, lateout("r11") _, options(nostack))
    };
    result
}

/// clock_gettime(2).
///
/// # Safety
/// `out` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __vdso_clock_gettime(clock: u32, out: *mut Timespec) -> i32 {
    let ns = match clock {
        CLOCK_REALTIME | CLOCK_REALTIME_COARSE | CLOCK_TAI => read(PageClock::Wall),
        CLOCK_MONOTONIC | CLOCK_MONOTONIC_RAW | CLOCK_MONOTONIC_COARSE | CLOCK_BOOTTIME => {
            read(PageClock::Monotonic)
        }
        _ => None,
    };
    let Some(ns) = ns else {
        return system_call(SYS_CLOCK_GETTIME, u64::from(clock), out as u64, 0) as i32;
    };
    let now =
        Timespec { seconds: (ns / NS_A_SECOND) as i64, nanoseconds: (ns % NS_A_SECOND) as i64 };
    // SAFETY: the caller's promise.
    unsafe { out.write(now) };
    0
}

/// gettimeofday(2).
///
/// # Safety
/// `out` and `zone` are writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __vdso_gettimeofday(out: *mut Timeval, zone: *mut Timezone) -> i32 {
    let Some(ns) = read(PageClock::Wall) else {
        return system_call(SYS_GETTIMEOFDAY, out as u64, zone as u64, 0) as i32;
    };
    if !out.is_null() {
        let microseconds = (ns % NS_A_SECOND / 1000) as i64;
        // SAFETY: not null, so the caller promises that it is writable.
        unsafe { out.write(Timeval { seconds: (ns / NS_A_SECOND) as i64, microseconds }) };
    }
    if !zone.is_null() {
        // SAFETY: as above.
        unsafe { zone.write(Timezone { minutes_west: 0, dst: 0 }) };
    }
    0
}

/// time(2).
///
/// # Safety
/// `out` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __vdso_time(out: *mut i64) -> i64 {
    let Some(ns) = read(PageClock::Wall) else {
        return system_call(SYS_TIME, out as u64, 0, 0);
    };
    let seconds = (ns / NS_A_SECOND) as i64;
    if !out.is_null() {
        // SAFETY: not null, so the caller promises that it is writable.
        unsafe { out.write(seconds) };
    }
    seconds
}

/// clock_getres(2).
///
/// # Safety
/// `out` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __vdso_clock_getres(clock: u32, out: *mut Timespec) -> i32 {
    system_call(SYS_CLOCK_GETRES, u64::from(clock), out as u64, 0) as i32
}

/// getcpu(2).
///
/// # Safety
/// Both pointers are writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __vdso_getcpu(cpu: *mut u32, node: *mut u32, _: *mut u8) -> i64 {
    system_call(SYS_GETCPU, cpu as u64, node as u64, 0)
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
