//! The table of raw sockets, by protocol. Each gets all packets that match its binding.
//!
//! Locks: `inet.raw`. No lock is held when a method ends.
use super::bindings::{Binding, PacketEnds};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicU32, Ordering};
use labels::SecrecyId;
use rt::{lock_class, sync::RwLock};

lock_class! {
    static RAW = "inet.raw";
}

const PROTOCOLS: usize = 256;

struct RawListener<S> {
    protocol: u8,
    binding: Binding,
    socket: Arc<S>,
}

/// Raw sockets.
pub struct Listeners<S> {
    list: RwLock<Vec<RawListener<S>>>,
    /// Sockets of each protocol. A packet of a protocol without any takes no lock.
    counts: [AtomicU32; PROTOCOLS],
}

impl<S> Default for Listeners<S> {
    fn default() -> Listeners<S> {
        Listeners {
            list: RwLock::new(&RAW, Vec::new()),
            counts: [const { AtomicU32::new(0) }; PROTOCOLS],
        }
    }
}

impl<S> Listeners<S> {
    /// Adds a socket of `protocol`, or changes its binding. The ports of the binding are not looked at.
    pub fn set(&self, protocol: u8, socket: &Arc<S>, binding: Binding) {
        let mut list = self.list.write();
        if let Some(old) = list.iter_mut().find(|one| Arc::ptr_eq(&one.socket, socket)) {
            old.binding = binding;
            return;
        }
        list.push(RawListener { protocol, binding, socket: Arc::clone(socket) });
        if let Some(count) = self.counts.get(usize::from(protocol)) {
            count.fetch_add(1, Ordering::Release);
        }
    }
    /// Removes a socket.
    pub fn remove(&self, socket: &Arc<S>) {
        let mut list = self.list.write();
        let Some(place) = list.iter().position(|one| Arc::ptr_eq(&one.socket, socket)) else {
            return;
        };
        let old = list.remove(place);
        if let Some(count) = self.counts.get(usize::from(old.protocol)) {
            count.fetch_sub(1, Ordering::Release);
        }
    }
    /// Returns whether there are sockets of `protocol`.
    #[inline]
    pub fn has_any(&self, protocol: u8) -> bool {
        let count = self.counts.get(usize::from(protocol));
        count.is_some_and(|count| count.load(Ordering::Acquire) != 0)
    }
    /// Returns the sockets of `protocol` that a packet is for, of those whose secrecy `sees` accepts.
    pub fn find_all(
        &self,
        protocol: u8,
        ends: &PacketEnds,
        sees: impl Fn(SecrecyId) -> bool,
    ) -> Vec<Arc<S>> {
        if !self.has_any(protocol) {
            return Vec::new();
        }
        let list = self.list.read();
        let of_protocol = list.iter().filter(|one| one.protocol == protocol);
        let found = of_protocol
            .filter(|one| one.binding.score_of_ends(ends).is_some() && sees(one.binding.label));
        found.map(|one| Arc::clone(&one.socket)).collect()
    }
    /// Returns all sockets with their protocols and bindings.
    pub fn list(&self) -> Vec<(u8, Binding, Arc<S>)> {
        let list = self.list.read();
        list.iter().map(|one| (one.protocol, one.binding, Arc::clone(&one.socket))).collect()
    }
}
