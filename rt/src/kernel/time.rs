//! Time of the kernel world.
use crate::time::{Instant, TscScale};

pub(crate) fn now() -> Instant {
    Instant(nucleus::time::now_ns())
}

pub(crate) fn wall_ns() -> u64 {
    nucleus::time::wall_ns()
}

pub(crate) fn set_wall_ns(ns: u64) {
    nucleus::time::set_wall_ns(ns);
}

pub(crate) fn tsc_scale() -> Option<TscScale> {
    let (base_tsc, multiplier, wall_offset_ns) = nucleus::time::scale();
    Some(TscScale { base_tsc, base_ns: 0, multiplier, shift: nucleus::time::SHIFT, wall_offset_ns })
}
