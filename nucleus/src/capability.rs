//! Capabilities: the rights of isolated components (K3), named by handles in a [`Table`]. They are copied and moved along
//! with messages. A [`Derivation`] is a copy that can be revoked.
use crate::{
    dma::{DmaBuffer, Lending, Loans},
    irq::Interrupt,
    memory::space::{Inner, Space},
    thread::Endpoint,
};
use ::calls::{MAY_READ, MAY_SERVE, MAY_WRITE};
use alloc::sync::Arc;
use core::ops::Deref;
pub use ipc::Derivation;
use program::Access;

/// The table of a component's capabilities.
pub type Table = ipc::Table<Capability>;

fn is_over(derivation: &Option<Arc<Derivation>>) -> bool {
    derivation.as_ref().is_some_and(|derivation| derivation.is_over())
}

/// The right of a holder of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Call, send and signal.
    Call,
    /// Receive and reply as well.
    Serve,
}

/// The right to exchange messages at an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointRight {
    /// The endpoint.
    pub endpoint: Arc<Endpoint>,
    /// The badge that the server sees.
    pub badge: u64,
    /// The right.
    pub right: Right,
    derivation: Option<Arc<Derivation>>,
}

impl EndpointRight {
    /// Returns the right to serve `endpoint`.
    pub fn to(endpoint: Arc<Endpoint>) -> EndpointRight {
        EndpointRight { endpoint, badge: 0, right: Right::Serve, derivation: None }
    }

    /// Returns the right to call the endpoint with `badge`.
    pub fn badged(&self, badge: u64) -> EndpointRight {
        EndpointRight { badge, right: Right::Call, ..self.clone() }
    }

    /// Signals `bits` at the endpoint, unless the right was revoked. Interrupt handlers may call this.
    pub fn signal(&self, bits: u64) {
        if !self.is_over() {
            self.endpoint.signal(bits);
        }
    }

    /// Returns whether the right was revoked.
    #[inline]
    pub fn is_over(&self) -> bool {
        is_over(&self.derivation)
    }
}

/// The right to shared memory.
#[derive(Clone, Debug)]
pub struct Region {
    buffer: Arc<DmaBuffer>,
    /// The region may also be mapped for writing.
    pub can_write: bool,
    derivation: Option<Arc<Derivation>>,
}

impl From<Arc<DmaBuffer>> for Region {
    fn from(buffer: Arc<DmaBuffer>) -> Region {
        Region { buffer, can_write: true, derivation: None }
    }
}

impl Region {
    /// Returns whether the right may be revoked.
    pub fn is_given(&self) -> bool {
        self.derivation.is_some()
    }
}

impl Deref for Region {
    type Target = DmaBuffer;
    fn deref(&self) -> &DmaBuffer {
        &self.buffer
    }
}

/// The right to copy to or from a range of a component's memory.
#[derive(Clone, Debug)]
pub struct Window {
    space: Arc<Inner>,
    start: u64,
    bytes: u64,
    rights: u64,
    derivation: Option<Arc<Derivation>>,
}

impl Window {
    /// Makes a window on `bytes` bytes from `start` of `space`; `None` if the range passes the end of the space.
    pub fn new(space: &Arc<Inner>, start: u64, bytes: u64, rights: u64) -> Option<Window> {
        let window = Window { space: space.clone(), start, bytes, rights, derivation: None };
        (space.bytes_from(start) >= bytes).then_some(window)
    }

    /// Waits until copies that were under way when the window was revoked have stopped.
    pub fn settle(&self) {
        drop(self.space.lock.lock());
    }

    /// Copies `bytes` bytes between `offset` of the window and `own`, which is in the calling thread's space. Returns the number
    /// copied. Bytes outside the window or not present, and bytes after the window was revoked, are not copied.
    pub fn copy(&self, own: (&Inner, u64), offset: u64, bytes: u64, access: Access) -> u64 {
        let right = if access == Access::Write { MAY_WRITE } else { MAY_READ };
        let shown = self.bytes.saturating_sub(offset).min(bytes);
        if self.rights & right == 0 {
            return 0;
        }
        let place = self.start.saturating_add(offset);
        self.space.copy_across(place, own, shown, access, || !is_over(&self.derivation))
    }
}

/// The right to lend frames to a domain's devices.
#[derive(Clone, Debug)]
pub struct Lender {
    /// The loans by this right.
    pub loans: Arc<Loans>,
    derivation: Option<Arc<Derivation>>,
}

impl Default for Lender {
    fn default() -> Lender {
        Lending::default().into()
    }
}

impl From<Lending> for Lender {
    fn from(to: Lending) -> Lender {
        Lender { loans: Arc::new(Loans::new(to)), derivation: None }
    }
}

/// A capability: the right to an object.
#[derive(Clone, Debug)]
pub enum Capability {
    /// An endpoint.
    Endpoint(EndpointRight),
    /// Shared memory.
    Region(Region),
    /// An interrupt.
    Interrupt(Arc<Interrupt>),
    /// A range of a component's memory, for copying.
    Window(Window),
    /// The memory of a driver's devices.
    Lender(Lender),
    /// The space of a program of the component.
    Space(Arc<Space>),
    /// An object whose right was revoked.
    Gone,
}

impl Capability {
    fn derivation(&mut self) -> Option<&mut Option<Arc<Derivation>>> {
        match self {
            Capability::Endpoint(EndpointRight { derivation, .. })
            | Capability::Region(Region { derivation, .. })
            | Capability::Lender(Lender { derivation, .. })
            | Capability::Window(Window { derivation, .. }) => Some(derivation),
            Capability::Interrupt(_) | Capability::Space(_) | Capability::Gone => None,
        }
    }

    /// Returns whether the right was revoked.
    pub fn is_over(&self) -> bool {
        match self {
            Capability::Endpoint(EndpointRight { derivation, .. })
            | Capability::Region(Region { derivation, .. })
            | Capability::Lender(Lender { derivation, .. })
            | Capability::Window(Window { derivation, .. }) => is_over(derivation),
            Capability::Interrupt(_) | Capability::Space(_) => false,
            Capability::Gone => true,
        }
    }

    /// Makes a copy to be given to others, with at most `rights`. Returns `None` for a capability that cannot be given, or
    /// was given on too often.
    pub fn give(&self, rights: u64, badge: u64) -> Option<(Capability, Arc<Derivation>)> {
        let mut copy = self.clone();
        match &mut copy {
            Capability::Endpoint(to) if to.right == Right::Serve && rights & MAY_SERVE == 0 => {
                *to = to.badged(badge);
            }
            Capability::Region(region) => region.can_write &= rights & MAY_WRITE != 0,
            Capability::Window(window) => window.rights &= rights,
            // Each holder has its own loans.
            Capability::Lender(lender) => *lender = lender.loans.to.clone().into(),
            _ => {}
        }
        let place = copy.derivation()?;
        let derivation = Derivation::new(place.take())?;
        *place = Some(derivation.clone());
        Some((copy, derivation))
    }
}
