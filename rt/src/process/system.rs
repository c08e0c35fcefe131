//! System information of the process world: the component's own locks, the command line, and what [`machine`](crate::machine) tells.
pub(crate) use crate::machine::{
    interrupts, log, log_threads, objects, processor_times, runnable_and_interrupts,
    runnable_threads, sample_every,
};

use super::call::ask_with_memory;
use crate::sync::Once;
use alloc::{boxed::Box, string::String, vec};
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

/// Bytes of the log that the nucleus keeps.
pub(crate) const LOG_BYTES: usize = 64 * 1024;
