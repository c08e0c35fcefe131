//! The process world: rt in an isolated component, by kernel calls (`libs/calls`).
//!
//! Each family of operations has one file; the signatures are the same in every world. The heap, the pools and the
//! runs have a lock each, the list of threads consists of atomics, and the nucleus guards everything else.
mod answers;
mod attached;
mod call;
pub(crate) mod device;
mod extended;
mod heap;
pub(crate) mod line;
mod log;
pub(crate) mod memory;
pub(crate) mod message;
mod pools;
mod port;
mod runs;
mod start;
pub(crate) mod system;
pub(crate) mod thread;
pub(crate) mod time;
mod trace;
pub(crate) mod user;
pub(crate) mod window;

pub(crate) use crate::machine::{entropy_add, power_down};
use ::calls::Call;
pub(crate) use runs::pool_end;
pub(crate) use trace::{last as trace_last, point as trace_point};

/// The greatest number of bytes that one call gives.
const ENTROPY_BYTES: usize = 256;

pub(crate) fn entropy_fill(out: &mut [u8]) {
    for part in out.chunks_mut(ENTROPY_BYTES) {
        let (address, bytes) = (part.as_mut_ptr() as u64, part.len() as u64);
        // SAFETY: fills `part`, which is borrowed exclusively.
        let filled = unsafe { call::ask_with_memory(Call::Entropy, &[address, bytes]) };
        assert!(filled.is_ok(), "the nucleus gave no entropy: {filled:?}");
    }
}
