//! Virtio consoles with several ports (section 5.3 of VIRTIO 1.2).
//!
//! [`probe`] opens every device and waits for its ports to be announced. A device has one thread,
//! which answers control messages, hands input to the ports' sinks and takes back sent buffers.
//! Each port has a lock for each direction; lock order: only the lock of the conversation with a
//! device may be held when another is taken; sinks are called without locks.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

mod console;
mod control;
mod ledger;
mod port;
mod slots;

#[cfg(test)]
mod tests;

use alloc::vec::Vec;
pub use console::{Console, probe};
use interfaces::offer::Offer;
pub use port::ConsolePort;

/// Starts the component: its instances are the ports of all consoles.
pub fn start() -> Vec<Offer> {
    let consoles = probe();
    let ports = consoles.iter().flat_map(|console| console.ports());
    ports.map(|port| Offer::Port(port)).collect()
}
