//! Sources of entropy.
use interfaces_macro::interface;

/// Words of a [`Seed`].
pub const SEED_WORDS: usize = 4;
/// The bits that a source gives at a time: 256.
pub type Seed = [u64; SEED_WORDS];

/// A source of entropy outside the processor, whose output is tested for its health (NIST SP 800-90B, section 4.4).
#[interface(number = 4)]
pub trait Entropy: Send + Sync {
    /// Fresh bits, none of which is given again. `None`: the device does not answer, or has failed its health tests.
    #[idempotent]
    fn seed(&self) -> Option<Seed>;
}
