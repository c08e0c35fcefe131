//! Trace points of a component: one ring of its last records for all threads, which a panic logs.
use super::{line::Line, log::say, time};
use alloc::vec::Vec;
use program::TraceRecord;
use sync::trace::{Point, Records};

/// Number of records that are logged.
const SAID: usize = 12;

static RING: Records<64> = Records::new();

/// Records `name` with two numbers.
pub(crate) fn point(name: &'static str, first: u64, second: u64) {
    RING.record(Point { time: time::now_ns(), name, numbers: [first, second] });
}

/// Returns the component's own last records.
pub(crate) fn last(count: usize) -> Vec<TraceRecord> {
    let record =
        |Point { time, name, numbers }| TraceRecord { at_ns: time, processor: 0, name, numbers };
    RING.last(count).map(record).collect()
}

/// Logs the last records, oldest first.
pub(super) fn print() {
    for Point { time, name, numbers: [first, second] } in RING.last(SAID) {
        let line = Line::of(format_args!("trace: {time} ns {name} {first:#x} {second:#x}"));
        say(log::Level::Info, &line);
    }
}
