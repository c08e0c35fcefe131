//! [`Lane`]: the state of the rings to a stack.
use super::super::cells::{Cell, Outbox};
use crate::{
    AttachError,
    link::{Rings, Traffic},
};
use alloc::vec::Vec;
use rt::ring::{Consumer, Corrupt, Doorbell, Part, Producer};

/// The client's side of the rings, guarded by the link's lock.
pub(super) struct Lane {
    pub(super) received: Consumer<Part, Cell>,
    pub(super) outbox: Outbox,
    /// The last records of a stack that has died.
    pub(super) left: Vec<Cell>,
}

impl Lane {
    pub(super) fn new(received: Consumer<Part, Cell>) -> Lane {
        Lane { received, outbox: Outbox::default(), left: Vec::new() }
    }
}

impl Traffic for Lane {
    type Sent = Cell;

    /// Keeps what the dead stack did last, and forgets what it was told: its successor is told everything anew.
    fn renew(
        &mut self,
        _: &Producer<Part, Cell>,
        rings: &Rings,
    ) -> Result<Producer<Part, Cell>, AttachError> {
        while let Ok(Some((cell, _))) = self.received.pop() {
            self.left.push(cell);
        }
        self.outbox.clear();
        rings.clear();
        let (sent, received) = rings.client()?;
        self.received = received;
        Ok(sent)
    }
    fn send(&mut self, ring: &mut Producer<Part, Cell>) -> Result<Doorbell, Corrupt> {
        self.outbox.flush(ring)
    }
}
