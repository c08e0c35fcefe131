//! What the system was started with, and what the nucleus counts.
use alloc::{string::String, vec::Vec};
pub use program::{ObjectCount, ProcessorTime};

/// The kernel command line.
pub fn command_line() -> &'static str {
    crate::world::system::command_line()
}

/// Value of `name=value` on the command line (the last one wins), or `""` for a bare `name`.
pub fn parameter(name: &str) -> Option<&'static str> {
    command_line().split_ascii_whitespace().rev().find_map(|word| match word.split_once('=') {
        Some((key, value)) if key == name => Some(value),
        None if word == name => Some(""),
        _ => None,
    })
}

/// Counts of every kernel object type, for `/proc/skerry/objects`.
pub fn objects() -> Vec<ObjectCount> {
    crate::world::system::objects()
}

/// The lock table for `/proc/skerry/locks` (M4): every class of the lock kit.
pub fn locks() -> Vec<sync::class::Report> {
    sync::class::reports()
}

/// The kernel log so far, oldest first (dmesg).
pub fn log() -> String {
    crate::world::system::log()
}

/// Logs every thread: what it does or waits for, since when, and the calls that led there.
pub fn log_threads(why: &str) {
    crate::world::system::log_threads(format_args!("{why}"));
}

/// Interrupts taken, by name, one number a processor (`/proc/interrupts`).
pub fn interrupts() -> Vec<(String, Vec<u64>)> {
    crate::world::system::interrupts()
}

/// One entry a processor (`/proc/stat`).
pub fn processor_times() -> Vec<ProcessorTime> {
    crate::world::system::processor_times()
}

/// Threads ready or running now, for the load average.
pub fn runnable_threads() -> usize {
    crate::world::system::runnable_threads()
}
