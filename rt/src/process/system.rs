//! The process world's facts about itself: the component's own locks, and nothing of the system's but
//! its command line.
use super::call::ask_with_memory;
use crate::{
    sync::Once,
    system::{ObjectCount, ProcessorTime},
};
use alloc::{boxed::Box, string::String, vec, vec::Vec};
use calls::Call;

/// Longer ones are cut.
const COMMAND_LINE_BYTES: usize = 2048;

/// Asked for once; empty where that is not granted.
pub(crate) fn command_line() -> &'static str {
    static LINE: Once<&'static str> = Once::new();
    LINE.get_or_init(|| {
        let mut line = vec![0; COMMAND_LINE_BYTES];
        let arguments = [line.as_mut_ptr() as u64, line.len() as u64];
        // SAFETY: fills `line`, which is borrowed exclusively.
        let length = unsafe { ask_with_memory(Call::CommandLine, &arguments) };
        line.truncate(length.map_or(0, |[length, ..]| length as usize));
        Box::leak(String::from_utf8_lossy(&line).into_owned().into_boxed_str())
    })
}

/// The nucleus's objects are not a component's to see.
pub(crate) fn objects() -> Vec<ObjectCount> {
    Vec::new()
}

pub(crate) const LOG_BYTES: usize = 0;

/// The log is written to from here, not read.
pub(crate) fn log() -> (u64, Vec<u8>) {
    (0, Vec::new())
}

/// The nucleus knows the threads of the component and tells of them when it ends.
pub(crate) fn log_threads(why: core::fmt::Arguments<'_>) {
    log::info!("{why}");
}

/// As [`objects`].
pub(crate) fn interrupts() -> Vec<(String, Vec<u64>)> {
    Vec::new()
}

/// As [`objects`].
pub(crate) fn processor_times() -> Vec<ProcessorTime> {
    Vec::new()
}

/// As [`objects`].
pub(crate) fn runnable_threads() -> usize {
    0
}
