//! The process world: rt in an isolated component, by kernel calls (`libs/calls`).
//!
//! One file a family, the signatures are those of every world. Programs (`rt::user`) are not run from here
//! and there is no power to take down. What a call needs is in its file; what guards what: the heap
//! has a lock, the list of threads is of atomics, everything else is the nucleus's.
mod call;
pub(crate) mod device;
mod heap;
pub(crate) mod line;
mod log;
pub(crate) mod memory;
pub(crate) mod message;
mod port;
mod start;
pub(crate) mod system;
pub(crate) mod thread;
pub(crate) mod time;
mod trace;
pub(crate) mod window;

use crate::{power::Action, trace::TraceRecord};
use ::calls::Call;
pub(crate) use trace::point as trace_point;

/// Most bytes of a call.
const ENTROPY_BYTES: usize = 256;

pub(crate) fn entropy_fill(out: &mut [u8]) {
    for part in out.chunks_mut(ENTROPY_BYTES) {
        let (address, bytes) = (part.as_mut_ptr() as u64, part.len() as u64);
        // SAFETY: fills `part`, which is borrowed exclusively.
        let filled = unsafe { call::ask_with_memory(Call::Entropy, &[address, bytes]) };
        assert!(filled.is_ok(), "the nucleus gave no entropy: {filled:?}");
    }
}

/// Only the kernel world sees all processors' records.
pub(crate) fn trace_last(_: usize) -> impl Iterator<Item = TraceRecord> {
    core::iter::empty()
}

/// An isolated component has no power over the machine: asking for it ends the component.
pub(crate) fn power_down(action: Action) -> ! {
    panic!("an isolated component may not take the machine down ({action:?})");
}
