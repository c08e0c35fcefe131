//! Entropy for components: a cryptographic generator seeded by the processor, and by sources beside it.
/// Fills `out` with unpredictable bytes. Never blocks, never fails.
pub fn fill(out: &mut [u8]) {
    crate::world::entropy_fill(out);
}

/// Stirs `seed` into the generator. A seed that somebody knows does no harm. Isolated components have no such operation.
#[cfg(not(all(target_os = "none", skerry_process)))]
pub fn add(seed: [u64; 4]) {
    crate::world::entropy_add(seed);
}
