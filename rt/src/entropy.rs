//! Entropy for components: a cryptographic generator seeded by the processor.
/// Fills `out` with unpredictable bytes. Never blocks, never fails.
pub fn fill(out: &mut [u8]) {
    crate::world::entropy_fill(out);
}
