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

/// The right to meet others at an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointRight {
    /// The endpoint.
    pub endpoint: Arc<Endpoint>,
    /// What the server sees.
    pub badge: u64,
    /// What may be done.
    pub right: Right,
}

impl EndpointRight {
    /// The right to serve a new endpoint.
    pub fn new() -> EndpointRight {
        EndpointRight { endpoint: Arc::default(), badge: 0, right: Right::Serve }
    }

    /// The right to call there, seen as `badge`.
    pub fn badged(&self, badge: u64) -> EndpointRight {
        EndpointRight { endpoint: self.endpoint.clone(), badge, right: Right::Call }
    }
}

impl Default for EndpointRight {
    fn default() -> Self {
        EndpointRight::new()
    }
}

/// The right to an object.
#[derive(Clone, Debug)]
pub enum Capability {
    /// To an endpoint.
    Endpoint(EndpointRight),
    /// To shared memory.
    Region(Arc<DmaBuffer>),
    /// To an interrupt.
    Interrupt(Arc<Interrupt>),
}
