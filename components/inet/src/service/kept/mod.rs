//! The state of a stack that outlives it, beside its sockets: interfaces, addresses, routes, neighbours, settings and the secret.
//!
//! The stack writes an image of it into a [`KeptArea`] whenever it changes, and a successor begins with the image
//! ([`Inet::resume`]). Connections that no client knows have slots there ([`flows`]). Sockets are made again by their client, from
//! what that knows of them ([`Inet::restore_stream`], [`Inet::restore_datagram`]); a tap of a link is opened again. Then the
//! successor goes on ([`Inet::go_on`]): until then it takes no frames, because it would refuse those of sockets that are not there
//! yet. With the sockets come back the groups and frames that the links receive for them.
//!
//! Lost on purpose: solicitations under way, fragments, what was learnt of paths, reports of groups. The protocols repeat them. The
//! probe of an address that is not in use yet begins anew.
//!
//! Locks: `inet.kept` > those of the tables. It is held while an image is written.
mod area;
pub(crate) mod flows;
mod image;
#[cfg(test)]
mod tests;

use super::inet::{Inet, InetClock};
use crate::{
    ip::stack::Stack,
    tables::configuration::{Configuration, ConfigurationWatcher},
};
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use flows::{KeptFlow, KeptFlows, KeptSlot};
use image::StackImage;
use interfaces::{marshal::Marshal, nic::PacketSegment};
use rt::{lock_class, sync::Mutex};

pub use area::KeptArea;

lock_class! {
    static KEPT = "inet.kept";
    static FOUND = "inet.kept.found";
}

/// Time between two images that are written for neighbours, at least, in nanoseconds.
const NEIGHBOURS_NS: u64 = 100_000_000;

/// The writer of images.
pub(crate) struct ImageWriter {
    inet: Weak<Inet>,
    secret: [u8; 32],
    area: Arc<dyn KeptArea>,
    flows: Arc<KeptFlows>,
    /// Flows of the predecessor that are not made again yet.
    found: Mutex<Vec<(KeptFlow, KeptSlot)>>,
    last: Mutex<LastImage>,
    /// Earliest time of the next image for new neighbours, in nanoseconds.
    due_ns: AtomicU64,
}

/// The last image that was written.
struct LastImage {
    number: u64,
    bytes: Vec<u8>,
    /// The last one did not fit.
    is_too_large: bool,
    /// A successor has the area.
    is_left: bool,
}

impl ImageWriter {
    /// Writes an image, unless it is the same as the last.
    pub(crate) fn keep(&self) {
        let Some(inet) = self.inet.upgrade() else { return };
        let mut last = self.last.lock();
        let mut bytes = Vec::with_capacity(last.bytes.len());
        StackImage::of(&inet, self.secret).put(&mut bytes);
        if last.is_left || bytes == last.bytes {
            return;
        }
        let is_too_large = area::write(&*self.area, last.number + 1, &bytes).is_err();
        if is_too_large && !last.is_too_large {
            self.area.refused(bytes.len());
        }
        last.is_too_large = is_too_large;
        if !is_too_large {
            last.number += 1;
            last.bytes = bytes;
        }
    }
}

impl ImageWriter {
    /// Returns the time at which new neighbours are to be kept, in nanoseconds: images are not written for each of many.
    pub(crate) fn neighbours_due_ns(&self, stack: &Stack<PacketSegment>) -> u64 {
        match stack.has_new_neighbours.load(Relaxed) {
            true => self.due_ns.load(Relaxed),
            false => u64::MAX,
        }
    }
    /// Keeps all neighbours that are known now.
    pub(crate) fn keep_neighbours(&self, stack: &Stack<PacketSegment>, now_ns: u64) {
        self.due_ns.store(now_ns.saturating_add(NEIGHBOURS_NS), Relaxed);
        stack.has_new_neighbours.store(false, Relaxed);
        self.keep();
    }
    /// Returns the slots of flows.
    pub(crate) fn flows(&self) -> &Arc<KeptFlows> {
        &self.flows
    }
    /// Takes the flows of the predecessor.
    pub(crate) fn take_found(&self) -> Vec<(KeptFlow, KeptSlot)> {
        core::mem::take(&mut *self.found.lock())
    }
    /// Leaves all that is kept as it is, for a successor.
    pub(crate) fn leave(&self) {
        self.flows.leave();
        self.last.lock().is_left = true;
    }
}

impl ConfigurationWatcher for ImageWriter {
    fn configured(&self, _old: &Configuration, _new: &Configuration) {
        self.keep();
    }
}

impl Inet {
    /// Makes a stack that keeps its state in `area`, and has the state that a predecessor kept there, if there is a whole image.
    /// `secret` are random bytes for a stack without predecessor. Returns also whether there was one.
    ///
    /// The predecessor has stopped. A successor waits for [`Inet::go_on`]. The cards are to be set again ([`Inet::set_link`]), of
    /// interfaces that are there already.
    pub fn resume(
        secret: [u8; 32],
        clock: Arc<dyn InetClock>,
        area: Arc<dyn KeptArea>,
    ) -> (Arc<Inet>, bool) {
        let found = area::newest(&*area);
        let number = found.as_ref().map_or(0, |(number, _)| *number);
        let image = found.and_then(|(_, bytes)| StackImage::of_bytes(&bytes));
        let secret = image.as_ref().map_or(secret, |image| image.secret);
        let inet = Inet::new(secret, clock);
        let has_predecessor = image.is_some();
        if let Some(image) = image {
            inet.begin_restoring();
            image.restore(&inet);
        }
        let last = LastImage { number, bytes: Vec::new(), is_too_large: false, is_left: false };
        let (flows, found) = KeptFlows::new(Arc::clone(&area));
        // Flows of no stack are those of one whose image is lost: their sequence numbers stand for nothing.
        let found = if has_predecessor { found } else { Vec::new() };
        let writer = Arc::new(ImageWriter {
            inet: inet.weak(),
            secret,
            area,
            flows,
            found: Mutex::new(&FOUND, found),
            last: Mutex::new(&KEPT, last),
            due_ns: AtomicU64::new(0),
        });
        inet.stack().watch(writer.clone());
        writer.keep();
        inet.set_writer(writer);
        (inet, has_predecessor)
    }
}
