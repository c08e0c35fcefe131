//! Entropy for components: a cryptographic generator that is seeded by the processor and by other sources.
/// Fills `out` with unpredictable bytes. Never blocks, never fails.
pub fn fill(out: &mut [u8]) {
    crate::world::entropy_fill(out);
}

/// Mixes `seed` into the generator. A seed that is known to others does no harm. An isolated component that uses it does not
/// link.
pub fn add(seed: [u64; 4]) {
    crate::world::entropy_add(seed);
}
