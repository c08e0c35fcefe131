//! [`Flows`]: the table of connections by their two ends, in shards with a lock each. The hash is keyed, so that outsiders cannot
//! choose ports that collide.
use super::{ends::reversed, socket::TcpSocket, waiting::Waiting};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use hash::Seed;
use hashbrown::HashTable;
use rt::{lock_class, sync::RwLock};
use tcp::Flow;

lock_class! {
    static FLOWS = "inet.tcp.flows";
}

const SHARDS: usize = 64;

/// The owner of a flow.
#[derive(Clone)]
pub(crate) enum FlowOwner {
    /// A connection.
    Live(Arc<TcpSocket>),
    /// A connection in TIME-WAIT.
    Waiting(Arc<Waiting>),
}

impl FlowOwner {
    /// Returns whether both are the same object.
    fn is(&self, other: &FlowOwner) -> bool {
        match (self, other) {
            (FlowOwner::Live(one), FlowOwner::Live(other)) => Arc::ptr_eq(one, other),
            (FlowOwner::Waiting(one), FlowOwner::Waiting(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

struct FlowEntry {
    hash: u64,
    flow: Flow,
    owner: FlowOwner,
}

/// The connections by their two ends.
pub(crate) struct Flows {
    seed: Seed,
    /// On the heap: the table is made on a stack of the kernel.
    shards: Box<[RwLock<HashTable<FlowEntry>>]>,
}

impl Flows {
    pub(crate) fn new(secret: [u8; 16]) -> Flows {
        let shards = (0..SHARDS).map(|_| RwLock::new(&FLOWS, HashTable::new())).collect();
        Flows { seed: Seed::new(secret), shards }
    }
    /// Returns the hash of a flow.
    pub(crate) fn hash(&self, flow: &Flow) -> u64 {
        let ports = u64::from(flow.local_port) << 16 | u64::from(flow.remote_port);
        let numbers = u64::from(flow.label.0) << 32 | ports;
        let addresses = [flow.local, flow.remote];
        self.seed.hash(numbers, addresses.as_flattened())
    }
    /// Returns the hash of a flow as its peer sees it, should the peer be on this host.
    pub(crate) fn peer_hash(&self, flow: &Flow) -> u64 {
        self.hash(&reversed(flow))
    }
    fn shard(&self, hash: u64) -> Option<&RwLock<HashTable<FlowEntry>>> {
        // The table of a shard uses the other bits.
        self.shards.get((hash >> 32) as usize % SHARDS)
    }
    /// Returns the owner of a flow.
    pub(crate) fn find(&self, flow: &Flow, hash: u64) -> Option<FlowOwner> {
        let table = self.shard(hash)?.read();
        table.find(hash, |entry| entry.flow == *flow).map(|entry| entry.owner.clone())
    }
    /// Gives a flow to `owner`, unless it has one. Returns whether it had none.
    pub(crate) fn insert(&self, flow: &Flow, hash: u64, owner: FlowOwner) -> bool {
        let Some(shard) = self.shard(hash) else { return false };
        let mut table = shard.write();
        if table.find(hash, |entry| entry.flow == *flow).is_some() {
            return false;
        }
        table.insert_unique(hash, FlowEntry { hash, flow: *flow, owner }, |entry| entry.hash);
        true
    }
    /// Gives a flow from one owner to another. Returns whether it had the first one.
    pub(crate) fn replace(&self, flow: &Flow, hash: u64, old: &FlowOwner, new: FlowOwner) -> bool {
        let Some(shard) = self.shard(hash) else { return false };
        let mut table = shard.write();
        let entry = table.find_mut(hash, |entry| entry.flow == *flow && entry.owner.is(old));
        let dropped = entry.map(|entry| core::mem::replace(&mut entry.owner, new));
        drop(table);
        dropped.is_some()
    }
    /// Takes a flow from an owner. Returns whether it had it.
    pub(crate) fn remove(&self, flow: &Flow, hash: u64, owner: &FlowOwner) -> bool {
        let Some(shard) = self.shard(hash) else { return false };
        let mut table = shard.write();
        let found = table.find_entry(hash, |entry| entry.flow == *flow && entry.owner.is(owner));
        let dropped = found.ok().map(|entry| entry.remove().0);
        drop(table);
        dropped.is_some()
    }
    /// Keeps the table of a flow from changing until another thread waits to change it; then does `work`.
    #[cfg(test)]
    pub(crate) fn freeze(&self, hash: u64, work: impl FnOnce()) {
        let shard = self.shard(hash).unwrap();
        let table = shard.read();
        while shard.try_read().is_some() {
            std::thread::yield_now();
        }
        work();
        drop(table);
    }
    /// Returns all owners with their flows.
    pub(crate) fn all(&self) -> Vec<(Flow, FlowOwner)> {
        let mut all = Vec::new();
        for shard in &*self.shards {
            all.extend(shard.read().iter().map(|entry| (entry.flow, entry.owner.clone())));
        }
        all
    }
}
