//! What the kernel world tells about itself.
use crate::system::{ObjectCount, ProcessorTime};
use alloc::{string::String, vec::Vec};

pub(crate) fn command_line() -> &'static str {
    nucleus::params::command_line()
}

pub(crate) fn objects() -> Vec<ObjectCount> {
    let describe = |(name, live, made): (&'static str, i64, u64)| ObjectCount {
        name,
        live: live.max(0) as u64,
        made,
    };
    nucleus::objects::all().into_iter().map(describe).collect()
}

pub(crate) fn locks() -> Vec<sync::class::Report> {
    sync::class::reports()
}

pub(crate) fn log() -> String {
    nucleus::log::contents()
}

pub(crate) fn log_threads(why: &str) {
    nucleus::thread::log_all(format_args!("{why}"));
}

pub(crate) fn interrupts() -> Vec<(String, Vec<u64>)> {
    nucleus::irq::statistics()
}

pub(crate) fn processor_times() -> Vec<ProcessorTime> {
    let describe = |times: nucleus::thread::ProcessorTimes| ProcessorTime {
        user_ns: times.user_ns,
        system_ns: times.system_ns,
        idle_ns: times.idle_ns,
        switches: times.switches,
    };
    nucleus::thread::processor_times().into_iter().map(describe).collect()
}

pub(crate) fn runnable_threads() -> usize {
    nucleus::thread::runnable()
}
