//! The kernel log: a ring of its last bytes (dmesg), with each line also sent to COM1.
//!
//! Lines come through the `log` crate. One raw lock guards ring and UART. It is taken with interrupts
//! off, and no other lock is taken under it; a panic breaks it ([`break_lock`]).
use crate::{arch::serial, spin::NoInterrupts};
use alloc::vec::Vec;
use core::fmt::Write;
use sync::spin::ByteLock;
use text::{LogLine, Pieces, Tail};

/// Size of the kept part of the log, in bytes.
pub const RING_BYTES: usize = 64 * 1024;

static TAIL: Tail<RING_BYTES> = Tail::new();
static LOCK: ByteLock = ByteLock::new();

/// Runs `act` with the lock held.
fn locked<R>(act: impl FnOnce() -> R) -> R {
    let _off = NoInterrupts::new();
    LOCK.take();
    let answer = act();
    LOCK.release();
    answer
}

/// The writer to ring and UART; the caller holds the lock.
struct Sink;

impl Write for Sink {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        TAIL.write(text.as_bytes());
        text::with_returns(text.as_bytes(), serial::write);
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
            let (at_ns, level) = (crate::time::now_ns(), record.level().as_str());
            let line = LogLine { at_ns, level, target: record.target(), text: *record.args() };
            print(format_args!("{line}"));
        }
    }

    fn flush(&self) {}
}

/// Writes text to the log as it is.
pub fn print(text: core::fmt::Arguments<'_>) {
    locked(|| {
        // The text is collected so that the UART is fed whole FIFOs.
        let mut pieces = Pieces::<_, 256>::new(Sink);
        let _ = pieces.write_fmt(text);
        let _ = pieces.flush();
    });
}

/// Starts the log; the parameter `skerry.log` (error, warn, info, debug, trace) sets how much is kept.
pub fn init() {
    static LOGGER: Logger = Logger;
    let level = crate::params::get("skerry.log").and_then(|text| text.parse().ok());
    if log::set_logger(&LOGGER).is_ok() {
        log::set_max_level(level.unwrap_or(log::LevelFilter::Info));
    }
}

/// Returns the kept part of the log, oldest first, and the number of bytes written before it.
pub fn contents() -> (u64, Vec<u8>) {
    let mut bytes = Vec::with_capacity(RING_BYTES);
    locked(|| {
        bytes.extend(TAIL.bytes());
        (TAIL.written() - bytes.len() as u64, bytes)
    })
}

/// Frees the log's lock, which any processor may hold.
///
/// # Safety
/// Only while panicking, when every other processor is stopped or its log output does not matter.
pub unsafe fn break_lock() {
    LOCK.release();
}
