//! The kernel log: a ring of the last bytes (dmesg), and each line out to COM1.
//!
//! Fed through the `log` crate. One raw lock guards ring and UART, taken with interrupts off and
//! never while anything else is taken inside; a panic breaks it ([`break_lock`]).
use crate::arch::{cpu, serial};
use alloc::string::String;
use core::{
    cell::UnsafeCell,
    fmt::Write,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

const RING_BYTES: usize = 64 * 1024;

struct Ring {
    bytes: UnsafeCell<[u8; RING_BYTES]>,
}

// SAFETY: touched only by the holder of `LOCK` (or the one processor left in a panic).
unsafe impl Sync for Ring {}

static RING: Ring = Ring { bytes: UnsafeCell::new([0; RING_BYTES]) };
/// Bytes ever written; the ring holds the last `RING_BYTES` of them.
static WRITTEN: AtomicU64 = AtomicU64::new(0);
static LOCK: AtomicBool = AtomicBool::new(false);

struct Held {
    had_interrupts: bool,
}

impl Held {
    fn take() -> Held {
        let had_interrupts = cpu::interrupts_enabled();
        cpu::disable_interrupts();
        while LOCK.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            cpu::relax();
        }
        Held { had_interrupts }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        LOCK.store(false, Ordering::Release);
        if self.had_interrupts {
            // SAFETY: they were on when the lock was taken.
            unsafe { cpu::enable_interrupts() };
        }
    }
}

/// Writes to ring and UART; the caller holds the lock.
struct Sink;

impl Write for Sink {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let mut at = WRITTEN.load(Ordering::Relaxed);
        for &byte in text.as_bytes() {
            let slot = RING.bytes.get().cast::<u8>().wrapping_add(at as usize % RING_BYTES);
            // SAFETY: within the ring; the lock is held.
            unsafe { slot.write(byte) };
            at += 1;
        }
        WRITTEN.store(at, Ordering::Relaxed);
        serial::write(text.as_bytes());
        Ok(())
    }
}

/// Collects a line so that the UART is fed whole FIFOs.
struct Line {
    bytes: [u8; 256],
    used: usize,
}

impl Line {
    fn flush(&mut self) {
        let text = core::str::from_utf8(&self.bytes[..self.used]).unwrap_or("?");
        let _ = Sink.write_str(text);
        self.used = 0;
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        if self.used + text.len() > self.bytes.len() {
            self.flush();
        }
        if text.len() > self.bytes.len() {
            return Sink.write_str(text);
        }
        self.bytes[self.used..self.used + text.len()].copy_from_slice(text.as_bytes());
        self.used += text.len();
        Ok(())
    }
}

struct Logger;

impl log::Log for Logger {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            let us = crate::time::now_ns() / 1000;
            let target = record.target().split("::").next().unwrap_or("");
            print(format_args!(
                "[{:5}.{:06}] {} {}: {}\n",
                us / 1_000_000,
                us % 1_000_000,
                &record.level().as_str()[..1],
                target,
                record.args()
            ));
        }
    }

    fn flush(&self) {}
}

/// Writes text to the log as it is.
pub fn print(text: core::fmt::Arguments<'_>) {
    let _held = Held::take();
    let mut line = Line { bytes: [0; 256], used: 0 };
    let _ = line.write_fmt(text);
    line.flush();
}

/// Starts the log; the parameter `skerry.log` (error, warn, info, debug, trace) sets how much is kept.
pub fn init() {
    static LOGGER: Logger = Logger;
    let level = crate::params::get("skerry.log").and_then(|text| text.parse().ok());
    if log::set_logger(&LOGGER).is_ok() {
        log::set_max_level(level.unwrap_or(log::LevelFilter::Info));
    }
}

/// The log so far, oldest first.
pub fn contents() -> String {
    let mut bytes = alloc::vec::Vec::with_capacity(RING_BYTES);
    {
        let _held = Held::take();
        let written = WRITTEN.load(Ordering::Relaxed);
        for at in written.saturating_sub(RING_BYTES as u64)..written {
            let slot = RING.bytes.get().cast::<u8>().wrapping_add(at as usize % RING_BYTES);
            // SAFETY: within the ring; the lock is held.
            bytes.push(unsafe { slot.read() });
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Frees the log's lock whoever holds it.
///
/// # Safety
/// Only while panicking, with every other processor stopped or past caring.
pub unsafe fn break_lock() {
    LOCK.store(false, Ordering::Release);
}
