//! Capabilities: what isolated components hold (K3), named by handles in a [`Table`].
use crate::{dma::DmaBuffer, irq::Interrupt, thread::Endpoint};
use alloc::sync::Arc;

/// What a component holds.
pub type Table = ipc::Table<Capability>;

/// What the holder may do with an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Call, send and signal.
    Call,
    /// Receive and reply as well.
    Serve,
}

/// The right to an object.
#[derive(Clone, Debug)]
pub enum Capability {
    /// To meet others at an endpoint, where they see `badge`.
    Endpoint {
        /// The endpoint.
        endpoint: Arc<Endpoint>,
        /// What the server sees.
        badge: u64,
        /// What may be done.
        right: Right,
    },
    /// To shared memory.
    Region(Arc<DmaBuffer>),
    /// To an interrupt.
    Interrupt(Arc<Interrupt>),
}
