//! Virtio network interfaces (section 5.1 of VIRTIO 1.2), several queue pairs, offloads, merged buffers.
//!
//! [`probe`] opens every device. Each queue has a lock around its ring and the packets in it; each interrupt vector has a
//! thread that takes packets and ends, and tells the client without a lock. A packet goes to the queue that its flow's hash
//! chooses; one without room stays with the client. A device that breaks the protocol is reset and all of its packets fail, now
//! and later. Lock order: `virtio-net.turn`, then one of the others at a time; sinks are called with none.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

mod control;
mod features;
mod header;
mod open;
mod port;
mod receive;
mod send;

#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use interfaces::offer::Offer;
pub use open::probe;
pub use port::NetPort;

/// Starts the component: interface N is instance N.
pub fn start() -> Vec<Offer> {
    probe().into_iter().map(|port| Offer::Nic(port)).collect()
}
