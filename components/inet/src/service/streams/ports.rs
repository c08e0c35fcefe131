//! [`TcpPorts`]: the claims on ports, and the listeners.
//!
//! A claim says who uses a port: a bound socket, the children of a listener, a connection of the stack's choice, TIME-WAIT. Equal
//! claims are counted. A listener and its children share one claim beside the listener's own ([`TcpPorts::leave`]): the listener's
//! stands in the way of all that theirs does. The rules are those of Linux (`inet_csk_get_port`, `inet_bind_conflict`).
use super::{
    claims::{PortClaim, PortOrigin, PortStage, Strictness},
    socket::TcpSocket,
};
use crate::{sockets::bindings, tables::interface::InterfaceIndex};
use alloc::{boxed::Box, collections::BTreeMap, sync::Arc, vec::Vec};
use core::net::IpAddr;
use labels::SecrecyId;
use rt::{lock_class, sync::RwLock};

lock_class! {
    static PORTS = "inet.tcp.ports";
}

const SHARDS: usize = 64;

#[derive(Default)]
struct PortUse {
    /// One claim and its count: most ports have no other.
    first: Option<(PortClaim, usize)>,
    /// The others.
    more: Vec<(PortClaim, usize)>,
    listeners: Vec<(PortClaim, Arc<TcpSocket>)>,
}

impl PortUse {
    fn claims(&self) -> impl Iterator<Item = &(PortClaim, usize)> {
        self.first.iter().chain(&self.more)
    }
    fn is_free(&self, claim: &PortClaim, strictness: Strictness) -> bool {
        self.claims().all(|(other, _)| !claim.conflicts(other, strictness))
    }
    fn add(&mut self, claim: &PortClaim) {
        let Some(first) = &mut self.first else {
            self.first = Some((*claim, 1));
            return;
        };
        match core::iter::once(first).chain(&mut self.more).find(|(other, _)| other == claim) {
            Some((_, count)) => *count += 1,
            None => self.more.push((*claim, 1)),
        }
    }
    fn remove(&mut self, claim: &PortClaim) {
        match &mut self.first {
            Some((first, count)) if first == claim => {
                *count -= 1;
                if *count == 0 {
                    self.first = self.more.pop();
                }
            }
            _ => self.remove_other(claim),
        }
    }
    /// Does the same for a claim that is not the first.
    fn remove_other(&mut self, claim: &PortClaim) {
        let Some(place) = self.more.iter().position(|(other, _)| other == claim) else { return };
        if let Some((_, count)) = self.more.get_mut(place) {
            *count -= 1;
            if *count == 0 {
                self.more.swap_remove(place);
            }
        }
    }
}

/// The claims on ports, and the listeners, in shards with a lock each.
pub(crate) struct TcpPorts {
    /// On the heap: the table is made on a stack of the kernel.
    shards: Box<[RwLock<BTreeMap<u16, PortUse>>]>,
}

impl TcpPorts {
    pub(crate) fn new() -> TcpPorts {
        let shards = (0..SHARDS).map(|_| RwLock::new(&PORTS, BTreeMap::new())).collect();
        TcpPorts { shards }
    }
    fn change<T>(&self, port: u16, work: impl FnOnce(&mut PortUse) -> T) -> Option<T> {
        let mut shard = self.shards.get(usize::from(port) % SHARDS)?.write();
        let entry = shard.entry(port).or_default();
        let result = work(entry);
        if entry.first.is_none() {
            shard.remove(&port);
        }
        Some(result)
    }
    fn add_if(&self, port: u16, claim: &PortClaim, is_free: impl FnOnce(&PortUse) -> bool) -> bool {
        let added = self.change(port, |entry| {
            let is_free = is_free(entry);
            if is_free {
                entry.add(claim);
            }
            is_free
        });
        added == Some(true)
    }
    /// Claims a port that a program names. Returns whether it could be had.
    pub(crate) fn bind(&self, port: u16, claim: &PortClaim) -> bool {
        self.add_if(port, claim, |entry| entry.is_free(claim, Strictness::Named))
    }
    /// Claims a free port of `range`, from the first to the last. `None` if there is none.
    pub(crate) fn bind_any(
        &self,
        claim: &PortClaim,
        (range, random): ((u16, u16), u64),
    ) -> Option<u16> {
        bindings::candidates(range, random).find(|port| {
            self.add_if(*port, claim, |entry| entry.is_free(claim, Strictness::Searched))
        })
    }
    /// Claims a port for a connection, which may share it with other connections of the stack's choice.
    pub(crate) fn share(&self, port: u16, claim: &PortClaim) -> bool {
        self.add_if(port, claim, |entry| {
            let is_shared = |other: &PortClaim| other.origin == PortOrigin::Chosen;
            entry.claims().all(|(other, _)| is_shared(other) || other.label != claim.label)
        })
    }
    /// Adds a claim that needs no check: that of a listener's child.
    pub(crate) fn add(&self, port: u16, claim: &PortClaim) {
        self.add_if(port, claim, |_| true);
    }
    /// Ends a claim.
    pub(crate) fn release(&self, port: u16, claim: &PortClaim) {
        self.change(port, |entry| entry.remove(claim));
    }
    /// Ends one holder's part of a claim that several share, and with the last one the claim.
    pub(crate) fn leave(&self, port: u16, shared: Arc<PortClaim>) {
        if let Some(claim) = Arc::into_inner(shared) {
            self.release(port, &claim);
        }
    }
    /// Puts a claim in the place of another one, or of a part in that.
    pub(crate) fn turn(
        &self,
        port: u16,
        (old, shared): (&PortClaim, Option<Arc<PortClaim>>),
        new: &PortClaim,
    ) {
        if let Some(shared) = shared {
            self.add(port, new);
            return self.leave(port, shared);
        }
        self.change(port, |entry| match &mut entry.first {
            Some((only, 1)) if only == old && entry.more.is_empty() => *only = *new,
            _ => {
                entry.remove(old);
                entry.add(new);
            }
        });
    }
    /// Changes the claim of a socket.
    pub(crate) fn replace(
        &self,
        port: u16,
        (old, new): (&PortClaim, &PortClaim),
        socket: &Arc<TcpSocket>,
    ) {
        self.change(port, |entry| {
            entry.remove(old);
            entry.add(new);
            let mut listeners = entry.listeners.iter_mut();
            if let Some((claim, _)) = listeners.find(|(_, other)| Arc::ptr_eq(other, socket)) {
                *claim = *new;
            }
        });
    }
    /// Makes the socket that has the claim `bound` a listener. Returns its new claim; `None` if another listener is in the way.
    pub(crate) fn listen(
        &self,
        port: u16,
        bound: &PortClaim,
        socket: &Arc<TcpSocket>,
    ) -> Option<PortClaim> {
        let claim = PortClaim { stage: PortStage::Listening, ..*bound };
        let is_listening = self.change(port, |entry| {
            entry.remove(bound);
            let is_free = entry.is_free(&claim, Strictness::Named);
            if is_free {
                entry.add(&claim);
                entry.listeners.push((claim, Arc::clone(socket)));
            } else {
                entry.add(bound);
            }
            is_free
        });
        (is_listening == Some(true)).then_some(claim)
    }
    /// Makes the socket that has the claim `bound` the listener with the claim `claim`, which its predecessor was.
    pub(crate) fn listen_again(
        &self,
        port: u16,
        (bound, claim): (&PortClaim, &PortClaim),
        socket: &Arc<TcpSocket>,
    ) {
        self.change(port, |entry| {
            entry.remove(bound);
            entry.add(claim);
            entry.listeners.push((*claim, Arc::clone(socket)));
        });
    }
    /// Ends listening. The claim becomes that of a bound socket, which is returned.
    pub(crate) fn end_listening(
        &self,
        port: u16,
        claim: &PortClaim,
        socket: &Arc<TcpSocket>,
    ) -> PortClaim {
        let bound = PortClaim { stage: PortStage::Open, ..*claim };
        self.change(port, |entry| {
            entry.remove(claim);
            entry.add(&bound);
            entry.listeners.retain(|(_, other)| !Arc::ptr_eq(other, socket));
        });
        bound
    }
    /// Returns the listener for a segment. Of those that share a port by `SO_REUSEPORT`, `flow` chooses one.
    pub(crate) fn listener(
        &self,
        (local, port): (IpAddr, u16),
        (interface, label): (InterfaceIndex, SecrecyId),
        flow: u64,
    ) -> Option<Arc<TcpSocket>> {
        let shard = self.shards.get(usize::from(port) % SHARDS)?.read();
        let listeners = &shard.get(&port)?.listeners;
        if let [(claim, socket)] = listeners.as_slice() {
            claim.place().score(local, interface)?;
            return (claim.label == label).then(|| Arc::clone(socket));
        }
        let scored = || {
            let of_label = listeners.iter().filter(|(claim, _)| claim.label == label);
            of_label.filter_map(|(claim, socket)| {
                Some((claim.place().score(local, interface)?, socket))
            })
        };
        let best = scored().map(|(score, _)| score).max()?;
        let equal = || scored().filter(|(score, _)| *score == best);
        let place = flow % equal().count().max(1) as u64;
        equal().nth(place as usize).map(|(_, socket)| Arc::clone(socket))
    }
    /// Returns all listeners.
    pub(crate) fn listeners(&self) -> Vec<Arc<TcpSocket>> {
        let mut all = Vec::new();
        for shard in &*self.shards {
            let shard = shard.read();
            let listeners = shard.values().flat_map(|entry| &entry.listeners);
            all.extend(listeners.map(|(_, socket)| Arc::clone(socket)));
        }
        all
    }
    /// Returns the number of claims.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        let claims = |shard: &RwLock<BTreeMap<u16, PortUse>>| {
            let shard = shard.read();
            shard.values().flat_map(PortUse::claims).map(|(_, count)| count).sum::<usize>()
        };
        self.shards.iter().map(claims).sum()
    }
}
