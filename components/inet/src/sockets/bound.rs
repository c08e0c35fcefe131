//! The table of bound sockets: the socket that gets a packet, and the ports that are free.
//!
//! Sockets stand at their ports. Those whose packets are of one flow alone also stand at their flow, and are found there first. Both
//! are split into shards, so that a look-up takes the lock of a shard for reading, twice at most, and a change of one socket is
//! hardly ever in its way.
//!
//! Locks: `inet.ports` (a shard) > `inet.flows` (a shard). No lock is held when a method ends.
use super::bindings::{Binding, Flow, NumberSpace, PacketEnds, candidates};
use alloc::{boxed::Box, collections::BTreeMap, sync::Arc, vec::Vec};
use core::{
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};
use rt::{lock_class, sync::RwLock};

lock_class! {
    static PORTS = "inet.ports";
    static FLOWS = "inet.flows";
}

/// Shards of ports, and of flows. A power of two.
const SHARDS: usize = 64;

struct BoundSocket<S> {
    binding: Binding,
    socket: Arc<S>,
}

impl<S> Clone for BoundSocket<S> {
    fn clone(&self) -> BoundSocket<S> {
        BoundSocket { binding: self.binding, socket: Arc::clone(&self.socket) }
    }
}

/// Sockets of one port.
struct PortSockets<S> {
    /// Sockets that get packets of many flows, in the order in which they came.
    open: Vec<BoundSocket<S>>,
    /// Sockets that also stand at their flow.
    connected: Vec<BoundSocket<S>>,
}

impl<S> Default for PortSockets<S> {
    fn default() -> PortSockets<S> {
        PortSockets { open: Vec::new(), connected: Vec::new() }
    }
}

impl<S> PortSockets<S> {
    fn all(&self) -> impl Iterator<Item = &BoundSocket<S>> {
        self.open.iter().chain(&self.connected)
    }
    fn is_free(&self, binding: &Binding, space: NumberSpace) -> bool {
        self.all().all(|entry| !entry.binding.conflicts(binding, space))
    }
    fn remove(&mut self, socket: &Arc<S>) {
        for list in [&mut self.open, &mut self.connected] {
            if let Some(place) = list.iter().position(|one| Arc::ptr_eq(&one.socket, socket)) {
                list.remove(place);
            }
        }
    }
}

type PortShard<S> = RwLock<BTreeMap<u16, PortSockets<S>>>;
type FlowShard<S> = RwLock<BTreeMap<Flow, Vec<BoundSocket<S>>>>;

/// Bound sockets.
pub struct Bindings<S> {
    space: NumberSpace,
    /// On the heap, as the flows: a table is made on a stack of the kernel.
    ports: Box<[PortShard<S>]>,
    flows: Box<[FlowShard<S>]>,
    /// Sockets that stand at a flow.
    connected: AtomicUsize,
    /// Number of changes of the table.
    changes: AtomicU64,
}

impl<S> Bindings<S> {
    /// Returns an empty table.
    pub fn new(space: NumberSpace) -> Bindings<S> {
        Bindings {
            space,
            ports: (0..SHARDS).map(|_| RwLock::new(&PORTS, BTreeMap::new())).collect(),
            flows: (0..SHARDS).map(|_| RwLock::new(&FLOWS, BTreeMap::new())).collect(),
            connected: AtomicUsize::new(0),
            changes: AtomicU64::new(0),
        }
    }
    /// Returns a number that is another one after each change. What is found after it was read holds as long as it stays.
    #[inline]
    pub fn version(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }
    /// Adds a socket that is at no port. Returns whether its port was free.
    pub fn bind(&self, socket: &Arc<S>, binding: Binding) -> bool {
        let Some(shard) = self.ports(binding.port) else { return false };
        let mut ports = shard.write();
        let is_free = ports.get(&binding.port).is_none_or(|at| at.is_free(&binding, self.space));
        if is_free {
            self.add(&mut ports, socket, binding);
        }
        is_free
    }
    /// Adds a socket that is at no port. Other sockets are not looked at.
    pub fn put(&self, socket: &Arc<S>, binding: Binding) {
        if let Some(shard) = self.ports(binding.port) {
            self.add(&mut shard.write(), socket, binding);
        }
    }
    /// Adds a socket that is at no port at one of `range`, from the first to the last. Returns the port; `None` if none is free. All
    /// identifiers are taken for one range.
    pub fn bind_any(
        &self,
        socket: &Arc<S>,
        binding: Binding,
        (range, random): ((u16, u16), u64),
    ) -> Option<u16> {
        let range = if self.space == NumberSpace::Ports { range } else { (1, u16::MAX) };
        candidates(range, random).find(|port| self.bind(socket, Binding { port: *port, ..binding }))
    }
    /// Changes the binding of a socket at a port, which stays. Other sockets are not looked at.
    pub fn rebind(&self, socket: &Arc<S>, old: &Binding, new: Binding) {
        let Some(shard) = self.ports(old.port) else { return };
        let mut ports = shard.write();
        self.take(&mut ports, socket, old);
        self.add(&mut ports, socket, Binding { port: old.port, ..new });
    }
    /// Removes a socket.
    pub fn remove(&self, socket: &Arc<S>, old: &Binding) {
        if let Some(shard) = self.ports(old.port) {
            self.take(&mut shard.write(), socket, old);
        }
    }
    /// Returns the socket that a packet is for. Of sockets that share a port by `SO_REUSEPORT`, the hash of the flow chooses one.
    pub fn find(&self, ends: &PacketEnds, hash: impl FnOnce() -> u64) -> Option<Arc<S>> {
        self.find_connected(ends).or_else(|| {
            let ports = self.ports(ends.local.port())?.read();
            choose(&ports.get(&ends.local.port())?.open, ends, hash).map(Arc::clone)
        })
    }
    fn find_connected(&self, ends: &PacketEnds) -> Option<Arc<S>> {
        if self.connected.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let flow = ends.flow();
        let flows = self.flows(&flow)?.read();
        choose(flows.get(&flow)?, ends, || 0).map(Arc::clone)
    }
    /// Returns all sockets that a packet to many is for.
    pub fn find_all(&self, ends: &PacketEnds) -> Vec<Arc<S>> {
        let Some(shard) = self.ports(ends.local.port()) else { return Vec::new() };
        let ports = shard.read();
        let Some(at) = ports.get(&ends.local.port()) else { return Vec::new() };
        let all = at.all().filter(|entry| entry.binding.score(ends).is_some());
        all.map(|entry| Arc::clone(&entry.socket)).collect()
    }
    /// Returns all sockets with their bindings.
    pub fn list(&self) -> Vec<(Binding, Arc<S>)> {
        let mut all = Vec::new();
        for shard in &*self.ports {
            let ports = shard.read();
            let entries = ports.values().flat_map(PortSockets::all);
            all.extend(entries.map(|entry| (entry.binding, Arc::clone(&entry.socket))));
        }
        all
    }
    fn add(&self, ports: &mut BTreeMap<u16, PortSockets<S>>, socket: &Arc<S>, binding: Binding) {
        self.enter(ports, socket, binding);
        self.changes.fetch_add(1, Ordering::Release);
    }
    fn take(&self, ports: &mut BTreeMap<u16, PortSockets<S>>, socket: &Arc<S>, old: &Binding) {
        self.leave(ports, socket, old);
        self.changes.fetch_add(1, Ordering::Release);
    }
    fn enter(&self, ports: &mut BTreeMap<u16, PortSockets<S>>, socket: &Arc<S>, binding: Binding) {
        let entry = BoundSocket { binding, socket: Arc::clone(socket) };
        let at = ports.entry(binding.port).or_default();
        let Some(flow) = binding.flow() else { return at.open.push(entry) };
        at.connected.push(entry.clone());
        if let Some(shard) = self.flows(&flow) {
            shard.write().entry(flow).or_default().push(entry);
            self.connected.fetch_add(1, Ordering::Relaxed);
        }
    }
    fn leave(&self, ports: &mut BTreeMap<u16, PortSockets<S>>, socket: &Arc<S>, old: &Binding) {
        let Some(at) = ports.get_mut(&old.port) else { return };
        at.remove(socket);
        if at.all().next().is_none() {
            ports.remove(&old.port);
        }
        let Some(flow) = old.flow() else { return };
        let Some(mut flows) = self.flows(&flow).map(RwLock::write) else { return };
        let Some(list) = flows.get_mut(&flow) else { return };
        let before = list.len();
        list.retain(|one| !Arc::ptr_eq(&one.socket, socket));
        self.connected.fetch_sub(before - list.len(), Ordering::Relaxed);
        if list.is_empty() {
            flows.remove(&flow);
        }
    }
    fn ports(&self, port: u16) -> Option<&PortShard<S>> {
        self.ports.get(usize::from(port) % SHARDS)
    }
    /// Returns the shard of a flow. A flood of flows of one shard makes its tree deeper, and no look-up slow.
    fn flows(&self, flow: &Flow) -> Option<&FlowShard<S>> {
        let low = |end: SocketAddr| {
            let of_address = match end.ip() {
                IpAddr::V4(address) => u64::from(address.to_bits()),
                IpAddr::V6(address) => address.to_bits() as u64,
            };
            of_address ^ u64::from(end.port())
        };
        let mixed = (low(flow.local) ^ low(flow.remote).rotate_left(32))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.flows.get((mixed >> 58) as usize % SHARDS)
    }
}

/// Returns the socket of a list that a packet is for.
fn choose<'l, S>(
    list: &'l [BoundSocket<S>],
    ends: &PacketEnds,
    hash: impl FnOnce() -> u64,
) -> Option<&'l Arc<S>> {
    if let [only] = list {
        return only.binding.score(ends).map(|_| &only.socket);
    }
    let scored = || list.iter().filter_map(|entry| Some((entry.binding.score(ends)?, entry)));
    let best = scored().map(|(score, _)| score).max()?;
    let equal = || scored().filter(|(score, _)| *score == best).map(|(_, entry)| entry);
    // The last bound wins, unless all share the load.
    let last = equal().next_back()?;
    if !last.binding.shares_port || last.binding.peer.is_some() {
        return Some(&last.socket);
    }
    let group = || equal().filter(|entry| entry.binding.shares_port);
    let place = hash() % group().count().max(1) as u64;
    group().nth(place as usize).map(|entry| &entry.socket)
}
