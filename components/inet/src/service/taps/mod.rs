//! Taps: frames of the links for sockets of AF_PACKET ([`interfaces::sockets::LinkTap`]).
//!
//! [`Taps`] is the table, `frames` makes what a tap sees of the packets on their way, `handle` is the client's side.
//!
//! Locks: `inet.taps` is held for reading while the clients of the taps look at a frame. They take none of the stack's.
mod frames;
mod handle;

use crate::tables::{
    configuration::{Configuration, ConfigurationWatcher},
    interface::{Interface, InterfaceIndex},
    labels::LabelSource,
};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use interfaces::sockets::{FrameTap, SeenFrame, SocketError, TapBinding, packet_kind};
use labels::SecrecyId;
use rt::{lock_class, sync::RwLock};

pub(crate) use handle::StackTaps;

lock_class! {
    static TAPS = "inet.taps";
    static SHAPES = "inet.taps.shapes";
    static LABELS = "inet.taps.labels";
}

/// A tap and what it is bound to.
struct TapEntry {
    number: u64,
    binding: TapBinding,
    client: Arc<dyn FrameTap>,
    /// It sees what this secrecy dominates.
    label: SecrecyId,
}

/// The taps that are bound.
pub(crate) struct Taps {
    /// The number of taps that are bound to a protocol.
    watching: AtomicUsize,
    next: AtomicU64,
    entries: RwLock<Vec<TapEntry>>,
    /// Interfaces that are not like cards: number, type of hardware, and whether their packets have a header of Ethernet.
    shapes: RwLock<Vec<(InterfaceIndex, u16, bool)>>,
    labels: RwLock<LinkLabels>,
}

/// The labels of interfaces, as a tap needs them.
#[derive(Default)]
struct LinkLabels {
    /// The greatest secrecy of the packets of each interface that has one.
    highs: Vec<(InterfaceIndex, SecrecyId)>,
    source: LabelSource,
}

impl Taps {
    pub(crate) fn new() -> Taps {
        Taps {
            watching: AtomicUsize::new(0),
            next: AtomicU64::new(1),
            entries: RwLock::new(&TAPS, Vec::new()),
            shapes: RwLock::new(&SHAPES, Vec::new()),
            labels: RwLock::new(&LABELS, LinkLabels::default()),
        }
    }
    /// Returns whether there is a tap that sees any frame.
    #[inline]
    pub(crate) fn are_watching(&self) -> bool {
        self.watching.load(Ordering::Relaxed) != 0
    }
    /// Returns a number for a new tap.
    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
    /// Returns the type of hardware of an interface, and whether its packets have a header of Ethernet.
    fn shape(&self, index: InterfaceIndex) -> (u16, bool) {
        let shapes = self.shapes.read();
        let found = shapes.iter().find(|(one, ..)| *one == index);
        found.map_or((index.hardware(), true), |(_, hardware, has_header)| (*hardware, *has_header))
    }
    /// Notes the interfaces that are not like cards.
    fn note_shapes(&self, all: &Configuration) {
        let shape = |one: &Interface| {
            let is_like_card = !one.is_headerless() && one.hardware == one.index.hardware();
            (!is_like_card).then(|| (one.index, one.hardware, !one.is_headerless()))
        };
        let fresh: Vec<_> = all.interfaces().filter_map(shape).collect();
        if *self.shapes.read() != fresh {
            *self.shapes.write() = fresh;
        }
    }
    /// Notes the labels of interfaces.
    fn note_labels(&self, all: &Configuration) {
        let high = |one: &Interface| (one.index, one.label.high());
        let labelled = all.interfaces().map(high).filter(|(_, high)| *high != SecrecyId::NONE);
        let fresh: Vec<_> = labelled.collect();
        if !fresh.is_empty() {
            *self.labels.write() = LinkLabels { highs: fresh, source: all.labels().clone() };
        }
    }
    /// Sets the binding of a tap of a secrecy.
    fn bind(
        &self,
        (number, label): (u64, SecrecyId),
        binding: TapBinding,
        client: &Arc<dyn FrameTap>,
    ) {
        let mut entries = self.entries.write();
        match entries.iter_mut().find(|entry| entry.number == number) {
            Some(entry) => entry.binding = binding,
            None => {
                entries.push(TapEntry { number, binding, client: Arc::clone(client), label });
            }
        }
        self.count(&entries);
    }
    /// Removes a tap.
    fn remove(&self, number: u64) {
        let mut entries = self.entries.write();
        let place = entries.iter().position(|entry| entry.number == number);
        let removed = place.map(|place| entries.swap_remove(place));
        self.count(&entries);
        drop(entries);
        drop(removed);
    }
    fn count(&self, entries: &[TapEntry]) {
        let watching = entries.iter().filter(|entry| entry.binding.protocol.is_some()).count();
        self.watching.store(watching, Ordering::Relaxed);
    }
    /// Shows a frame to the taps of its interface and protocol, but to the one that sent it. Sent frames are shown to those of all
    /// protocols alone, as on Linux.
    /// The secrecy of a frame without `label` is the greatest of its interface.
    fn show(&self, frame: &SeenFrame<'_>, sender: Option<u64>, label: Option<SecrecyId>) {
        let labels = self.labels.read();
        let own = |(one, _): &&(InterfaceIndex, SecrecyId)| one.0 == frame.interface;
        let high = || labels.highs.iter().find(own).map_or(SecrecyId::NONE, |(_, high)| *high);
        let label = label.unwrap_or_else(high);
        let is_sent = frame.kind == packet_kind::OUTGOING;
        for entry in self.entries.read().iter() {
            let is_of_interface =
                entry.binding.interface.is_none_or(|index| index == frame.interface);
            let is_of_protocol = match entry.binding.protocol {
                Some(TapBinding::ALL) => true,
                Some(protocol) => protocol == frame.protocol && !is_sent,
                None => false,
            };
            let is_shown = is_of_interface && is_of_protocol && sender != Some(entry.number);
            if is_shown && labels.source.dominates(entry.label, label) {
                entry.client.see(frame);
            }
        }
    }
}

/// Tells the taps of an interface that it was switched off.
impl ConfigurationWatcher for Taps {
    fn configured(&self, old: &Configuration, new: &Configuration) {
        self.note_shapes(new);
        self.note_labels(new);
        let ends = |before: &&Interface| {
            before.is_up() && new.interface(before.index).is_none_or(|now| !now.is_up())
        };
        for gone in old.interfaces().filter(ends) {
            for entry in self.entries.read().iter() {
                if entry.binding.interface == Some(gone.index.0) {
                    entry.client.failed(SocketError::NetworkDown);
                }
            }
        }
    }
}
