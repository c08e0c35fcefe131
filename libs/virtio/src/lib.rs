//! Virtio for drivers: modern devices (VERSION_1) over PCI and MMIO, split virtqueues with
//! indirect descriptors and event indices.
//!
//! The device is not trusted: everything that it writes (indices, lengths, configuration) is
//! checked before use, every wait for it is bounded, and the driver keeps its state in its own
//! memory, never only in memory that the device can write. Key types: [`Candidate`] (found, not
//! opened), [`Device`] (opened, negotiated), [`Queue`] (one split virtqueue), [`Vector`] (an
//! interrupt and the queues it serves). Source: Virtual I/O Device (VIRTIO) Version 1.2, OASIS.
#![cfg_attr(not(any(test, feature = "model")), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(any(test, feature = "model")),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)
)]
extern crate alloc;

mod device;
mod mmio;
#[cfg(all(any(test, feature = "model"), not(target_os = "none")))]
pub mod model;
mod pci;
mod queue;
mod transport;
mod window;

#[cfg(test)]
mod tests;

pub use device::{Candidate, Device, QueuePlan, candidates};
pub use pci::device_kind as pci_kind;
pub use queue::{Buffer, BufferAccess, Queue, Used, left_behind};
pub use transport::Vector;

/// Device types (section 5).
pub mod kind {
    /// Network interface.
    pub const NETWORK: u32 = 1;
    /// Block device.
    pub const BLOCK: u32 = 2;
    /// Console.
    pub const CONSOLE: u32 = 3;
    /// Source of entropy.
    pub const ENTROPY: u32 = 4;
}

/// Feature bits of every device (section 6).
pub mod feature {
    /// A descriptor may name a table of descriptors.
    pub const INDIRECT: u64 = 1 << 28;
    /// Each side tells the other at which index it wants to be notified.
    pub const EVENT_INDEX: u64 = 1 << 29;
    /// The device complies with the present specification.
    pub const VERSION_1: u64 = 1 << 32;
    /// The device goes through the platform's address translation, if there is one.
    pub const ACCESS_PLATFORM: u64 = 1 << 33;
}

/// The reason why a device cannot be used (any longer).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// It could not be opened.
    Device(rt::device::DeviceError),
    /// It is not a modern virtio device, or lacks a needed structure.
    NotModern,
    /// It refused the features, or offered too few.
    Features,
    /// It did not answer in time.
    Stuck,
    /// It has no such queue.
    NoQueue,
    /// No interrupt vector is left for it.
    NoVector,
    /// It wrote something invalid, which is logged once; then it was reset.
    Corrupt(&'static str),
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Error::Device(error) => error.fmt(f),
            Error::NotModern => f.write_str("it is no modern virtio device"),
            Error::Features => f.write_str("it and the driver agree on no features"),
            Error::Stuck => f.write_str("it did not answer in time"),
            Error::NoQueue => f.write_str("it has no such queue"),
            Error::NoVector => f.write_str("no interrupt vector is left"),
            Error::Corrupt(what) => f.write_str(what),
        }
    }
}

impl From<rt::device::DeviceError> for Error {
    fn from(error: rt::device::DeviceError) -> Self {
        Error::Device(error)
    }
}
