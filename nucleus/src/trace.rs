//! Trace points: the last records of each processor, kept in a ring and printed by a panic.
use crate::arch::{cpu, percpu};
use alloc::boxed::Box;
use core::{
    ptr,
    sync::atomic::{AtomicPtr, Ordering::Relaxed},
};
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

/// Prints the last `count` records of each processor, oldest first.
pub fn print(count: usize) {
    for number in 0..percpu::MAX_CPUS {
        for Point { time, name, numbers } in
            ring(number).into_iter().flat_map(|ring| ring.last(count))
        {
            let (at_ns, [first, second]) = (crate::time::tsc_to_ns(time), numbers);
            crate::log::print(format_args!(
                "  cpu {number} {at_ns:>12} ns {name} {first:#x} {second:#x}\n"
            ));
        }
    }
}
