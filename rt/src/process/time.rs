//! Time of the process world: the processor's counter is read in place, its scale and the wall clock in the page that all
//! components share.
use calls::{SHARED_PAGE, SharedWord};
use core::{
    arch::x86_64::_rdtsc,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
use program::SCALE_SHIFT;

/// Reads a word of the shared page.
#[inline]
pub(super) fn shared(word: SharedWord) -> u64 {
    let page: *const AtomicU64 = core::ptr::with_exposed_provenance(SHARED_PAGE as usize);
    // SAFETY: the page is mapped as long as the component runs, and longer than all words; others write them at any time.
    unsafe { &*page.add(word as usize) }.load(Relaxed)
}

pub(crate) fn now_ns() -> u64 {
    // SAFETY: every x86-64 processor has the counter, and the nucleus lets components read it.
    let counter = unsafe { _rdtsc() };
    let counts = counter.saturating_sub(shared(SharedWord::CounterBase));
    ((u128::from(counts) * u128::from(shared(SharedWord::CounterFactor))) >> SCALE_SHIFT) as u64
}

pub(crate) fn wall_ns() -> u64 {
    now_ns().wrapping_add(shared(SharedWord::WallOffset))
}

/// Does nothing but log: no isolated component may set the wall clock.
pub(crate) fn set_wall_ns(_ns: u64) {
    ::log::warn!("an isolated component may not set the wall clock");
}

pub(crate) fn scale() -> Option<(u64, u64, u64)> {
    let words = [SharedWord::CounterBase, SharedWord::CounterFactor, SharedWord::WallOffset];
    Some(words.map(shared).into())
}
