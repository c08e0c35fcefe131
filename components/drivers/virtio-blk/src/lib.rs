//! Virtio block devices (section 5.2 of VIRTIO 1.2), several queues, several requests in flight.
//!
//! [`probe`] opens every device. Each queue has a lock around its ring and the requests in it; each
//! interrupt vector has a thread that takes completed requests and tells their clients, without the
//! lock. A submission goes to the queue of the processor it runs on; if that is full the submitter
//! waits for the queue's `room`. A device that breaks the protocol is reset and all of its requests
//! fail, now and later. Lock order: one queue at a time, sinks are called with none.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

mod disk;
mod merge;
mod queue;

#[cfg(test)]
mod tests;

use alloc::vec::Vec;
pub use disk::{Disk, probe};
use interfaces::offer::Offer;

/// Starts the component: disk N is instance N.
pub fn start() -> Vec<Offer> {
    probe().into_iter().map(|disk| Offer::Disk(disk)).collect()
}
