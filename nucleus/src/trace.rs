//! Trace points: the last records of each processor, kept in a ring and printed by a panic.
//!
//! A record is three numbers and a name, stored by its own processor with its length 0 while the
//! rest changes; the reader (the panic) skips such a record.
use crate::arch::{cpu, percpu};
use alloc::boxed::Box;
use core::sync::atomic::{
    AtomicPtr, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// Records kept a processor.
const RECORDS: usize = 64;

#[derive(Debug)]
struct Record {
    time: AtomicU64,
    name: AtomicPtr<u8>,
    name_bytes: AtomicUsize,
    first: AtomicU64,
    second: AtomicU64,
}

#[derive(Debug)]
struct Ring {
    next: AtomicUsize,
    records: [Record; RECORDS],
}

impl Record {
    const fn new() -> Record {
        Record {
            time: AtomicU64::new(0),
            name: AtomicPtr::new(core::ptr::null_mut()),
            name_bytes: AtomicUsize::new(0),
            first: AtomicU64::new(0),
            second: AtomicU64::new(0),
        }
    }
}

static RINGS: [AtomicPtr<Ring>; percpu::MAX_CPUS] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; percpu::MAX_CPUS];

/// Gives processor `cpu` its ring; records before that are lost.
pub fn init_cpu(cpu: usize) {
    let ring =
        Box::new(Ring { next: AtomicUsize::new(0), records: [const { Record::new() }; RECORDS] });
    RINGS[cpu].store(Box::into_raw(ring), Relaxed);
}

fn ring(cpu: usize) -> Option<&'static Ring> {
    // SAFETY: null or a leaked box, only shared references to which exist.
    unsafe { RINGS[cpu].load(Relaxed).as_ref() }
}

/// Records `name` with two numbers on this processor.
pub fn point(name: &'static str, first: u64, second: u64) {
    let Some(ring) = ring(percpu::cpu()) else { return };
    let record = &ring.records[ring.next.fetch_add(1, Relaxed) % RECORDS];
    record.name_bytes.store(0, Release);
    record.name.store(name.as_ptr().cast_mut(), Relaxed);
    record.time.store(cpu::tsc(), Relaxed);
    record.first.store(first, Relaxed);
    record.second.store(second, Relaxed);
    record.name_bytes.store(name.len(), Release);
}

/// Prints the last `count` records of each processor, oldest first.
pub fn print(count: usize) {
    for number in 0..percpu::MAX_CPUS {
        let Some(ring) = ring(number) else { continue };
        let next = ring.next.load(Relaxed);
        for index in next.saturating_sub(count.min(RECORDS))..next {
            let record = &ring.records[index % RECORDS];
            let bytes = record.name_bytes.load(Acquire);
            if bytes == 0 {
                continue;
            }
            // SAFETY: `point` stored this length after the pointer to that many static bytes.
            let name = unsafe { core::slice::from_raw_parts(record.name.load(Relaxed), bytes) };
            let name = core::str::from_utf8(name).unwrap_or("?");
            let at_ns = crate::time::tsc_to_ns(record.time.load(Relaxed));
            let (first, second) = (record.first.load(Relaxed), record.second.load(Relaxed));
            crate::log::print(format_args!(
                "  cpu {number} {at_ns:>12} ns {name} {first:#x} {second:#x}\n"
            ));
        }
    }
}
