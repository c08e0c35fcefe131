//! Time of the process world: the processor's counter is read in place, its scale and the wall clock in the page that all
//! components share.
pub(crate) use crate::machine::set_wall_ns;

use calls::SharedWord;
use core::{
    arch::x86_64::_rdtsc,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
use program::SCALE_SHIFT;

unsafe extern "C" {
    /// The page that all components share, before the image (`image/component.ld`).
    static skerry_shared_page: u8;
}

/// Returns the address of the page that all components share.
#[inline]
pub(super) fn shared_page() -> usize {
    (&raw const skerry_shared_page).expose_provenance()
}

/// Reads a word of the shared page.
#[inline]
pub(super) fn shared(word: SharedWord) -> u64 {
    let at = shared_page() + word as usize * size_of::<AtomicU64>();
    // SAFETY: a word of the page, which is mapped as long as the component runs. Others write it at any time.
    let word: &AtomicU64 = unsafe { &*core::ptr::with_exposed_provenance(at) };
    word.load(Relaxed)
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

pub(crate) fn scale() -> Option<(u64, u64, u64)> {
    let words = [SharedWord::CounterBase, SharedWord::CounterFactor, SharedWord::WallOffset];
    Some(words.map(shared).into())
}
