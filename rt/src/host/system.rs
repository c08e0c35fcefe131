//! System information of the host world.
use super::{
    control,
    memory::{self, RegionHandle},
    thread,
};
use crate::system::{ObjectCount, ProcessorTime};

pub(crate) fn command_line() -> &'static str {
    control::command_line()
}

pub(crate) fn objects() -> Vec<ObjectCount> {
    let statistics = memory::statistics();
    let frames = statistics.total_frames - statistics.free_frames;
    let threads = thread::count() as u64;
    vec![
        ObjectCount { name: "frame", live: frames, made: frames },
        ObjectCount { name: "thread", live: threads, made: threads },
    ]
}

/// No log is kept: its lines are printed.
pub(crate) const LOG_BYTES: usize = 0;

pub(crate) fn log() -> (u64, Vec<u8>) {
    (0, Vec::new())
}

/// Does nothing: the host's own tools show its threads.
pub(crate) fn log_threads(why: core::fmt::Arguments<'_>) {
    log::info!("threads: {why}");
}

pub(crate) fn interrupts() -> Vec<(String, Vec<u64>)> {
    Vec::new()
}

pub(crate) fn processor_times() -> Vec<ProcessorTime> {
    vec![ProcessorTime::default(); thread::processors().0]
}

/// Does nothing: the host's own tools sample it.
pub(crate) fn sample_every(_period_ns: u64, _rings: Vec<RegionHandle>) {}

pub(crate) fn runnable_threads() -> usize {
    1
}

pub(crate) fn runnable_and_interrupts() -> (usize, u64) {
    (runnable_threads(), 0)
}
