//! [`ClientAdministration`]: the administration of a stack in another world, with what only its client knows of sockets.
use super::NetworkProxy;
use crate::sockets::{
    AddressRecord, AdministrationError, AdministrationObserver, ConnectionState, LinkRecord,
    MembershipRecord, NeighbourRecord, NetworkAdministration, NetworkChange, NetworkParameter,
    RouteQuery, RouteRecord, RuleRecord, SocketProtocol, SocketRecord, StackDrops, TableRecord,
};
use alloc::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, Weak},
    vec::Vec,
};

/// The administration of a stack in another world. The queues of sockets are the client's.
pub(super) struct ClientAdministration(pub(super) Weak<NetworkProxy>);

/// The queues of a socket: bytes to be read, bytes to be acknowledged, datagrams that found no room.
#[derive(Clone, Copy)]
pub(super) struct Queues {
    pub(super) receive: usize,
    pub(super) send: usize,
    pub(super) drops: u64,
}

impl ClientAdministration {
    fn ask<T: Default>(&self, ask: impl FnOnce(&dyn NetworkAdministration) -> T) -> T {
        self.0.upgrade().map(|proxy| ask(&*proxy.administration)).unwrap_or_default()
    }
    fn attempt<T>(
        &self,
        ask: impl FnOnce(&dyn NetworkAdministration) -> Result<T, AdministrationError>,
    ) -> Result<T, AdministrationError> {
        let proxy = self.0.upgrade().ok_or(AdministrationError::NetworkDown)?;
        ask(&*proxy.administration)
    }
}

impl NetworkAdministration for ClientAdministration {
    fn links(&self) -> Vec<LinkRecord> {
        self.ask(|all| all.links())
    }
    fn addresses(&self) -> Vec<AddressRecord> {
        self.ask(|all| all.addresses())
    }
    fn routes(&self) -> Vec<RouteRecord> {
        self.ask(|all| all.routes())
    }
    fn tables(&self) -> Vec<TableRecord> {
        self.ask(|all| all.tables())
    }
    fn rules(&self) -> Vec<RuleRecord> {
        self.ask(|all| all.rules())
    }
    fn neighbours(&self) -> Vec<NeighbourRecord> {
        self.ask(|all| all.neighbours())
    }
    fn memberships(&self) -> Vec<MembershipRecord> {
        self.ask(|all| all.memberships())
    }
    fn change(&self, change: &NetworkChange) -> Result<(), AdministrationError> {
        self.attempt(|all| all.change(change))
    }
    fn route_to(&self, query: &RouteQuery) -> Result<RouteRecord, AdministrationError> {
        self.attempt(|all| all.route_to(query))
    }
    fn sockets(&self, protocol: SocketProtocol) -> Vec<SocketRecord> {
        let mut records = self.ask(|all| all.sockets(protocol));
        let queues = self.0.upgrade().map(|proxy| proxy.queues()).unwrap_or_default();
        for record in &mut records {
            if record.state != ConnectionState::Listen
                && let Some(known) = queues.get(&record.inode)
            {
                let number = |bytes| u32::try_from(bytes).unwrap_or(u32::MAX);
                record.receive_queue = number(known.receive);
                record.send_queue = number(known.send);
                // The count that programs see has 32 bits and wraps.
                record.drops = record.drops.wrapping_add(known.drops as u32);
            }
        }
        records
    }
    fn counters(&self) -> Vec<(Cow<'static, str>, u64)> {
        self.ask(|all| all.counters())
    }
    fn drops(&self) -> Vec<StackDrops> {
        self.ask(|all| all.drops())
    }
    fn parameter(&self, parameter: NetworkParameter) -> Option<Vec<i64>> {
        self.ask(|all| all.parameter(parameter))
    }
    fn set_parameter(
        &self,
        parameter: NetworkParameter,
        values: &[i64],
    ) -> Result<(), AdministrationError> {
        self.attempt(|all| all.set_parameter(parameter, values))
    }
    fn observe(&self, observer: Arc<dyn AdministrationObserver>) {
        self.ask(|all| all.observe(observer));
    }
}

impl NetworkProxy {
    /// Returns the queues of all sockets that have an owner, by the inodes.
    pub(super) fn queues(&self) -> BTreeMap<u64, Queues> {
        let table = self.table.lock();
        let streams = table.streams.values().map(|remote| {
            let stream = remote.stream();
            let (receive, send) = (stream.readable(), stream.unacknowledged());
            (stream.owner().inode, Queues { receive, send, drops: 0 })
        });
        let queues = table.queues.values().map(|remote| {
            let (receive, drops) = remote.queue().usage();
            (remote.owner().inode, Queues { receive, send: 0, drops })
        });
        streams.chain(queues).filter(|(inode, _)| *inode != 0).collect()
    }
}
