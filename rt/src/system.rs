//! The start parameters of the system, and statistics of the nucleus.
use crate::sync::Once;
use alloc::{string::String, vec::Vec};
pub use program::{ObjectCount, ProcessorTime};

/// Returns the kernel command line.
pub fn command_line() -> &'static str {
    crate::world::system::command_line()
}

/// Parameters that the command line may override.
static DEFAULTS: Once<&'static str> = Once::new();

/// Sets the parameters that hold where the command line has none of the same name. The first call counts.
pub fn set_default_parameters(line: &'static str) {
    DEFAULTS.get_or_init(|| line);
}

/// Returns the value of `name=value` on the command line (the last one wins), or `""` for a bare `name`. Words behind the
/// word `--` are not parameters. A parameter that is not there has the value of [`set_default_parameters`].
pub fn parameter(name: &str) -> Option<&'static str> {
    let of_defaults = || value_in(DEFAULTS.get().copied().unwrap_or_default(), name);
    value_in(command_line(), name).or_else(of_defaults)
}

/// Returns the last value of `name` in `line`.
fn value_in(line: &'static str, name: &str) -> Option<&'static str> {
    let words = line.split_ascii_whitespace().take_while(|word| *word != "--");
    let values = words.filter_map(|word| match word.split_once('=') {
        Some((key, value)) if key == name => Some(value),
        None if word == name => Some(""),
        _ => None,
    });
    values.last()
}

/// Returns the counts of every kernel object type, for `/proc/skerry/objects`.
pub fn objects() -> Vec<ObjectCount> {
    crate::world::system::objects()
}

/// Returns the lock table for `/proc/skerry/locks` (M4): every class of the lock kit.
pub fn locks() -> Vec<sync::class::Report> {
    sync::class::reports()
}

/// Size of the kept part of the kernel log, in bytes.
pub const LOG_BYTES: usize = crate::world::system::LOG_BYTES;

/// The last part of the kernel log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Number of bytes written to the log before `text`.
    pub start: u64,
    /// The text, oldest first. The first line may be cut.
    pub text: Vec<u8>,
}

impl Log {
    /// Returns the number of bytes written so far.
    pub fn end(&self) -> u64 {
        self.start + self.text.len() as u64
    }
    /// Returns the bytes that were written after the first `bytes`.
    pub fn since(&self, bytes: u64) -> &[u8] {
        let known = usize::try_from(bytes.saturating_sub(self.start)).unwrap_or(usize::MAX);
        self.text.get(known..).unwrap_or_default()
    }
}

/// Returns the kept part of the kernel log (dmesg).
pub fn log() -> Log {
    let (start, text) = crate::world::system::log();
    Log { start, text }
}

/// Logs every thread: its state or the event for which it waits, the time since then, and its call stack.
pub fn log_threads(why: &str) {
    crate::world::system::log_threads(format_args!("{why}"));
}

/// Returns the numbers of interrupts taken, by name, one for each processor (`/proc/interrupts`).
pub fn interrupts() -> Vec<(String, Vec<u64>)> {
    crate::world::system::interrupts()
}

/// Returns the times of each processor (`/proc/stat`).
pub fn processor_times() -> Vec<ProcessorTime> {
    crate::world::system::processor_times()
}

/// Returns the number of threads ready or running now, and that of all interrupts taken (`/proc/stat`).
pub fn runnable_and_interrupts() -> (usize, u64) {
    crate::world::system::runnable_and_interrupts()
}

/// Returns the number of threads ready or running now, for the load average.
pub fn runnable_threads() -> usize {
    crate::world::system::runnable_threads()
}
