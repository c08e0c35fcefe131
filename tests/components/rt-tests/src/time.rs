//! Clocks.
use crate::Test;
use rt::time;

pub(crate) const TESTS: &[Test] = &[
    ("time goes on, and a sleep is no shorter than asked", sleep),
    ("the wall clock goes with it", wall),
];

fn sleep() {
    let start = time::now();
    let end = start.after_ns(3_000_000);
    time::sleep_until(end);
    assert!(time::now() >= end);
}

fn wall() {
    const SECOND_NS: u64 = 1_000_000_000;
    let offset_ns = || time::wall_ns().wrapping_sub(time::now().0);
    let before_ns = offset_ns();
    time::sleep_until(time::now().after_ns(1_000_000));
    let moved_ns = offset_ns().abs_diff(before_ns);
    assert!(moved_ns < SECOND_NS, "the wall clock moved by {moved_ns} ns against the other");
}
