//! Virtio sources of entropy (section 5.4 of VIRTIO 1.2), whose output is tested for its health.
//!
//! [`probe`] opens every device. A source has one queue and one buffer, both under its lock, and no thread: the caller of
//! [`EntropySource::seed`] gives the buffer to the device and waits for the interrupt. Every byte goes through the [`health`] tests
//! before it is used, and is used once.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

mod health;
mod source;

#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use interfaces::offer::Offer;
pub use source::{EntropySource, probe};

/// Starts the component: source N is instance N.
pub fn start() -> Vec<Offer> {
    probe().into_iter().map(|source| Offer::Entropy(source)).collect()
}
