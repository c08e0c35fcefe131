//! Trace points: the last records of each processor, kept in a ring and printed by a panic.
use crate::arch::{cpu, percpu};
use alloc::boxed::Box;
use core::{
    ptr,
    sync::atomic::{AtomicPtr, Ordering::Relaxed},
};
use program::TraceRecord;
use sync::trace::{Point, Records};

type Ring = Records<64>;

static RINGS: [AtomicPtr<Ring>; percpu::MAX_CPUS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; percpu::MAX_CPUS];

/// Gives processor `cpu` its ring; records before that are lost.
pub fn init_cpu(cpu: usize) {
    RINGS[cpu].store(Box::into_raw(Box::new(Ring::new())), Relaxed);
}

fn ring(cpu: usize) -> Option<&'static Ring> {
    // SAFETY: null or a leaked box, only shared references to which exist.
    unsafe { RINGS[cpu].load(Relaxed).as_ref() }
}

/// Records `name` with two numbers on this processor.
pub fn point(name: &'static str, first: u64, second: u64) {
    if let Some(ring) = ring(percpu::cpu()) {
        ring.record(Point { time: cpu::tsc(), name, numbers: [first, second] });
    }
}

/// Returns the last `count` records of each processor, oldest first.
pub fn last(count: usize) -> impl Iterator<Item = TraceRecord> {
    let rings = (0..percpu::MAX_CPUS).filter_map(|processor| Some((processor, ring(processor)?)));
    rings.flat_map(move |(processor, ring)| {
        ring.last(count).map(move |Point { time, name, numbers }| TraceRecord {
            at_ns: crate::time::tsc_to_ns(time),
            processor,
            name,
            numbers,
        })
    })
}
