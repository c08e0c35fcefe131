//! System information of the process world: the component's own locks, and of the system only the
//! command line.
use super::call::ask_with_memory;
use crate::{
    sync::Once,
    system::{ObjectCount, ProcessorTime},
};
use alloc::{boxed::Box, string::String, vec, vec::Vec};
use calls::Call;

/// Longest command line; a longer one is cut.
const COMMAND_LINE_BYTES: usize = 2048;

/// Returns the command line, which is asked for once; empty if that is not granted.
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

/// Returns nothing: a component may not see the nucleus's objects.
pub(crate) fn objects() -> Vec<ObjectCount> {
    Vec::new()
}

pub(crate) const LOG_BYTES: usize = 0;

/// Returns nothing: a component can only write to the log.
pub(crate) fn log() -> (u64, Vec<u8>) {
    (0, Vec::new())
}

/// Logs `why` alone: the nucleus knows the component's threads and reports them when it ends.
pub(crate) fn log_threads(why: core::fmt::Arguments<'_>) {
    log::info!("{why}");
}

/// Returns nothing, as [`objects`].
pub(crate) fn interrupts() -> Vec<(String, Vec<u64>)> {
    Vec::new()
}

/// Returns nothing, as [`objects`].
pub(crate) fn processor_times() -> Vec<ProcessorTime> {
    Vec::new()
}

/// Returns nothing, as [`objects`].
pub(crate) fn runnable_threads() -> usize {
    0
}
