//! [`NetworkAdministration`]: interfaces, addresses, routes, neighbours, tables of sockets, counters and parameters of a network
//! stack, as plain data.
//!
//! The personality makes netlink(7), the ioctls of netdevice(7), `/proc/net` and `/proc/sys/net` of it. Numbers whose names begin
//! with a prefix of Linux (`IFF_`, `RT_SCOPE_`, `NUD_`) are those of rtnetlink(7), so that neither side translates them.
mod changes;
mod parameters;
mod records;
mod rules;

pub use changes::{
    AddressSelector, AdministrationError, EntryMode, LinkChange, NetworkChange, NetworkNotice,
};
pub use parameters::{InterfaceParameter, NetworkParameter, ParameterScope};
pub use records::{
    AddressRecord, LinkCounts, LinkGroupRecord, LinkKind, LinkRecord, MembershipRecord,
    NeighbourRecord, RouteMetrics, RouteRecord, RouteWayRecord, SocketProtocol, SocketRecord,
    SocketTimer, TableRecord, TunnelRecord, number,
};
pub use rules::RuleRecord;

use crate::marshal::Marshal;
use alloc::{borrow::Cow, sync::Arc, vec::Vec};
use core::net::IpAddr;
use interfaces_macro::interface;

/// A question about the way of a packet (`ip route get`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub struct RouteQuery {
    /// The destination.
    pub destination: IpAddr,
    /// The source, if the sender chooses it.
    pub source: Option<IpAddr>,
    /// Number of the only interface to leave by.
    pub interface: Option<u32>,
    /// Number of the protocol above IP; zero for none.
    pub protocol: u8,
    /// Ports of the source and of the destination; zero for none.
    pub ports: (u16, u16),
    /// Type of service.
    pub type_of_service: u8,
    /// Mark (`SO_MARK`).
    pub mark: u32,
    /// User id of the sender.
    pub user: u32,
}

impl RouteQuery {
    /// Returns a question about packets to `destination` without further properties.
    pub fn new(destination: IpAddr) -> RouteQuery {
        RouteQuery {
            destination,
            source: None,
            interface: None,
            protocol: 0,
            ports: (0, 0),
            type_of_service: 0,
            mark: 0,
            user: 0,
        }
    }
}

/// A reason for which a stack drops packets, in a few words, and the number of packets.
pub type StackDrops = (Cow<'static, str>, u64);

/// The client's side of an administration: it hears of each change, whoever caused it. It is called on threads of the stack and on
/// those that make changes, without a lock of the stack, and must not block.
#[interface(direct)]
pub trait AdministrationObserver: Send + Sync {
    /// Hears of a change that has happened.
    fn changed(&self, notice: &NetworkNotice);
    /// Hears that notices were lost, so that only the lists tell the present state.
    fn missed(&self);
}

/// The administration of a network stack. No call waits for the network. A list is a snapshot.
#[interface(direct)]
pub trait NetworkAdministration: Send + Sync {
    /// Returns the interfaces, by number.
    fn links(&self) -> Vec<LinkRecord>;
    /// Returns the addresses, by interface; of an interface in the order in which Linux lists them.
    fn addresses(&self) -> Vec<AddressRecord>;
    /// Returns the routes of all tables.
    fn routes(&self) -> Vec<RouteRecord>;
    /// Returns the routing tables that have or had routes.
    fn tables(&self) -> Vec<TableRecord>;
    /// Returns the rules that choose a table, by family, then by priority.
    fn rules(&self) -> Vec<RuleRecord>;
    /// Returns the neighbours.
    fn neighbours(&self) -> Vec<NeighbourRecord>;
    /// Returns the groups that interfaces take part in.
    fn memberships(&self) -> Vec<MembershipRecord>;
    /// Makes a change. Observers have heard of it when the call returns.
    ///
    /// # Errors
    /// [`AdministrationError`], where each change names those it can have. Nothing is changed then.
    fn change(&self, change: &NetworkChange) -> Result<(), AdministrationError>;
    /// Returns the route of a packet, with the source that it would have.
    ///
    /// # Errors
    /// `Unreachable` of several kinds, `NoDevice`, `Invalid` for a source that is no address of this host. The tables of IPv4 for
    /// local addresses and for others are one, and named as the latter, until the first change of a rule.
    fn route_to(&self, query: &RouteQuery) -> Result<RouteRecord, AdministrationError>;
    /// Returns the sockets of a protocol, for sock_diag(7) and `/proc/net`.
    fn sockets(&self, protocol: SocketProtocol) -> Vec<SocketRecord>;
    /// Returns the counters by their names in nstat(8): the group, then the counter (`IpInReceives`, `TcpExtTCPTimeouts`). One that is
    /// absent counts an event that the stack does not know.
    fn counters(&self) -> Vec<(Cow<'static, str>, u64)>;
    /// Returns the packets that the stack dropped, by reason.
    fn drops(&self) -> Vec<StackDrops>;
    /// Returns the values of a parameter. `None` if the stack does not have it.
    fn parameter(&self, parameter: NetworkParameter) -> Option<Vec<i64>>;
    /// Sets a parameter. Fewer values than it has set the first ones.
    ///
    /// # Errors
    /// `Invalid` for a value out of its range, `Unsupported` for a parameter that the stack does not have.
    fn set_parameter(
        &self,
        parameter: NetworkParameter,
        values: &[i64],
    ) -> Result<(), AdministrationError>;
    /// Adds an observer, for good.
    fn observe(&self, observer: Arc<dyn AdministrationObserver>);
}
