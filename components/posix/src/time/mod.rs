//! Clocks, timers and sleeping.

/// Timers of a process.
#[derive(Default)]
pub struct ProcessTimers {}

impl ProcessTimers {
    /// None armed.
    pub fn new() -> ProcessTimers {
        ProcessTimers {}
    }
}
