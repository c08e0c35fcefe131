//! What the kernel world tells about itself.
use crate::system::{ObjectCount, ProcessorTime};
use alloc::{string::String, vec::Vec};

pub(crate) fn command_line() -> &'static str {
    nucleus::params::command_line()
}

pub(crate) fn objects() -> Vec<ObjectCount> {
    nucleus::objects::all().into()
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
    nucleus::thread::processor_times()
}

pub(crate) fn runnable_threads() -> usize {
    nucleus::thread::runnable()
}
