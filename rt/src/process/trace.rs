//! Trace points of a component: a ring of its last records, said when it panics.
//!
//! A record's length is 0 while the rest changes; the reader skips such a one. One ring for all threads.
use super::{line::Line, log::say, time};
use core::sync::atomic::{
    AtomicPtr, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// Records kept.
const RECORDS: usize = 64;
/// Records said.
const SAID: usize = 12;

struct Record {
    time_ns: AtomicU64,
    name: AtomicPtr<u8>,
    name_bytes: AtomicUsize,
    first: AtomicU64,
    second: AtomicU64,
}

static NEXT: AtomicUsize = AtomicUsize::new(0);
static RING: [Record; RECORDS] = [const {
    Record {
        time_ns: AtomicU64::new(0),
        name: AtomicPtr::new(core::ptr::null_mut()),
        name_bytes: AtomicUsize::new(0),
        first: AtomicU64::new(0),
        second: AtomicU64::new(0),
    }
}; RECORDS];

/// Records `name` with two numbers.
pub(crate) fn point(name: &'static str, first: u64, second: u64) {
    let record = &RING[NEXT.fetch_add(1, Relaxed) % RECORDS];
    record.name_bytes.store(0, Release);
    record.name.store(name.as_ptr().cast_mut(), Relaxed);
    record.time_ns.store(time::now_ns(), Relaxed);
    record.first.store(first, Relaxed);
    record.second.store(second, Relaxed);
    record.name_bytes.store(name.len(), Release);
}

/// Says the last records, oldest first.
pub(super) fn print() {
    let next = NEXT.load(Relaxed);
    for index in next.saturating_sub(SAID)..next {
        let record = &RING[index % RECORDS];
        let bytes = record.name_bytes.load(Acquire);
        if bytes == 0 {
            continue;
        }
        // SAFETY: `point` stored this length after the pointer to that many static bytes.
        let name = unsafe { core::slice::from_raw_parts(record.name.load(Relaxed), bytes) };
        let name = core::str::from_utf8(name).unwrap_or("?");
        let (time_ns, first) = (record.time_ns.load(Relaxed), record.first.load(Relaxed));
        let second = record.second.load(Relaxed);
        let line = Line::of(format_args!("trace: {time_ns} ns {name} {first:#x} {second:#x}"));
        say(log::Level::Info, &line);
    }
}
