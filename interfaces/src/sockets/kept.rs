//! [`KeptWords`]: words that a network stack leaves with a stream for its successor.
use core::sync::atomic::{AtomicU64, Ordering};

/// Number of words.
pub const KEPT_WORDS: usize = 6;

/// Words of a stack, in memory of its client. Only stacks know what they mean; all are zero at first.
#[derive(Debug, Default)]
pub struct KeptWords([AtomicU64; KEPT_WORDS]);

impl KeptWords {
    /// Keeps `words`, the first or all. A stack does so before packets leave which a successor must know of.
    #[inline]
    pub fn store<const N: usize>(&self, words: &[u64; N]) {
        for (kept, word) in self.0.iter().zip(words) {
            kept.store(*word, Ordering::Release);
        }
    }
    /// Returns the words. A stack that died while it kept some leaves a mixture of old and new ones.
    pub fn load(&self) -> [u64; KEPT_WORDS] {
        self.0.each_ref().map(|word| word.load(Ordering::Acquire))
    }
}
