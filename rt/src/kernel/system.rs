//! System information of the kernel world.
pub(crate) use nucleus::{
    irq::statistics as interrupts,
    log::{RING_BYTES as LOG_BYTES, contents as log},
    objects::all as objects,
    params::command_line,
    thread::{log_all as log_threads, processor_times, runnable as runnable_threads, sample_every},
};

pub(crate) fn runnable_and_interrupts() -> (usize, u64) {
    (runnable_threads(), nucleus::irq::total())
}
