//! Changes of a stack's tables, their errors, and the notices of what has changed.
use super::{
    records::{AddressRecord, LinkRecord, NeighbourRecord, RouteRecord},
    rules::RuleRecord,
};
use crate::marshal::Marshal;
use alloc::string::String;
use core::net::IpAddr;

/// The reason why a change was refused, with the number that Linux gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub enum AdministrationError {
    /// It is there (`EEXIST`).
    Exists,
    /// No such address (`EADDRNOTAVAIL`).
    NoAddress,
    /// No such route (`ESRCH`).
    NoRoute,
    /// No such entry (`ENOENT`).
    NoEntry,
    /// No interface of this number (`ENODEV`).
    NoDevice,
    /// The request makes no sense (`EINVAL`).
    Invalid,
    /// The network has bits behind its prefix (`EINVAL`).
    PrefixInvalid,
    /// The source of a route is no address of this host (`EINVAL`).
    SourceInvalid,
    /// The gateway is no host's address (`EINVAL`).
    GatewayInvalid,
    /// The gateway is this host (`EINVAL`).
    GatewayLocal,
    /// The gateway is known on a link alone, and no interface is given (`EINVAL`).
    GatewayUnbound,
    /// No route leads to the gateway as a neighbour (`ENETUNREACH`).
    GatewayUnreachable,
    /// The MTU is less than the device can have (`EINVAL`).
    MtuSmall,
    /// The MTU is greater than the device can have (`EINVAL`).
    MtuGreat,
    /// A neighbour needs an address on the link (`EINVAL`).
    NoLinkAddress,
    /// A number is out of its range (`ERANGE`).
    Range,
    /// The interface is in use (`EBUSY`).
    Busy,
    /// The interface is down (`ENETDOWN`).
    NetworkDown,
    /// No route leads to the destination or the gateway (`ENETUNREACH`).
    NetworkUnreachable,
    /// The route says that the host cannot be reached (`EHOSTUNREACH`).
    HostUnreachable,
    /// The route forbids it (`EACCES`).
    Forbidden,
    /// The entry cannot be removed (`EPERM`).
    NotPermitted,
    /// The stack does not do it (`EOPNOTSUPP`).
    Unsupported,
    /// Memory was refused, or a table is full (`ENOBUFS`).
    NoMemory,
    /// The device does not answer (`EIO`).
    Device,
    /// The stack died over the change and was started again; whether the change was made is not known (`EIO`).
    Restarted,
}

/// A change of an interface; `None` leaves a property alone. All of them change, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Marshal)]
pub struct LinkChange {
    /// Number of the interface.
    pub index: u32,
    /// Values of `IFF_*`, and the mask of those that change. `IFF_UP`, `IFF_PROMISC`, `IFF_ALLMULTI`, `IFF_NOARP`,
    /// `IFF_MULTICAST`, `IFF_DYNAMIC` and some without an effect can be changed; others are ignored.
    pub flags: Option<(u32, u32)>,
    /// MTU. `MtuSmall` and `MtuGreat` out of the device's range.
    pub mtu: Option<u32>,
    /// Address on the link. `NoAddress` for that of a group, `Unsupported` if the device keeps its own.
    pub mac: Option<[u8; 6]>,
    /// Name. `Exists`, `Invalid`, and `Busy` while it is up.
    pub name: Option<String>,
    /// Length of the transmit queue.
    pub transmit_queue: Option<u32>,
    /// Text of the user's choice.
    pub alias: Option<String>,
    /// Carrier. `Unsupported` if the device has its own, `NotPermitted` if nobody is at the other end.
    pub has_carrier: Option<bool>,
}

/// The treatment of an entry that is there already: `NLM_F_CREATE`, `NLM_F_EXCL`, `NLM_F_REPLACE` and `NLM_F_APPEND`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub enum EntryMode {
    /// The entry must be new (`ip route add`).
    Create,
    /// It replaces one, or is new (`ip route replace`).
    Replace,
    /// It replaces one, which must be there (`ip route change`).
    Change,
    /// It comes behind others of its kind, which may be there (`ip route append`).
    Append,
    /// It comes before others of its kind, which may be there (`ip route prepend`).
    Prepend,
}

/// The choice of an address to be removed.
#[derive(Clone, Debug, PartialEq, Eq, Marshal)]
pub struct AddressSelector {
    /// Number of the interface.
    pub interface: u32,
    /// The address. `None` for the first of IPv4 that matches the rest.
    pub address: Option<IpAddr>,
    /// The label it must have.
    pub label: Option<String>,
    /// The network's bits that it must have.
    pub prefix_length: Option<u8>,
}

/// A change of a stack's tables.
#[derive(Clone, Debug, PartialEq, Eq, Marshal)]
pub enum NetworkChange {
    /// Changes an interface. `NoDevice`, and those of [`LinkChange`].
    Link(LinkChange),
    /// Removes the interface of this number. `NoDevice`, `Unsupported` for one that no program made.
    RemoveLink(u32),
    /// Adds an address, or changes its lifetimes, flags and metric. `NoDevice`, `Exists`, `Invalid`; `NoEntry` for a change of none.
    /// Its times of making and change do not count.
    Address(AddressRecord, EntryMode),
    /// Removes an address. `NoDevice`, `NoAddress`.
    RemoveAddress(AddressSelector),
    /// Adds or changes a route. `Exists`, `NoRoute` or `NoEntry` for a change of none, `NoDevice`, `NetworkDown`, `Invalid`, those
    /// of prefix, source and gateway, and `HostUnreachable` for a gateway of IPv6 that is no neighbour.
    Route(RouteRecord, EntryMode),
    /// Removes the first route that matches. Zero metric, kind, protocol and `None`s match any; so does a scope of
    /// `RT_SCOPE_NOWHERE`. `NoRoute`.
    RemoveRoute(RouteRecord),
    /// Adds a rule behind those of its priority. `Exists` for one that is there, if the mode is `Create`; `Invalid`; `NoMemory`.
    Rule(RuleRecord, EntryMode),
    /// Removes the first rule that matches: properties that are zero, empty or `None` match any. `NoEntry`; `NotPermitted` for one
    /// that cannot be removed.
    RemoveRule(RuleRecord),
    /// Sets a neighbour. `NoDevice`, `Exists`, `NoEntry` for a change of none, `NoLinkAddress`, `NoMemory`.
    Neighbour(NeighbourRecord, EntryMode),
    /// Removes a neighbour. `NoDevice`, `NoEntry`.
    RemoveNeighbour {
        /// Number of the interface.
        interface: u32,
        /// Address of the neighbour.
        address: IpAddr,
    },
    /// Has an interface receive frames to an address on its link until it is removed. It may be there already. `NoDevice`.
    LinkGroup {
        /// Number of the interface.
        interface: u32,
        /// The address.
        address: [u8; 6],
    },
    /// Removes an address that [`NetworkChange::LinkGroup`] added. `NoDevice`, `NoEntry`.
    RemoveLinkGroup {
        /// Number of the interface.
        interface: u32,
        /// The address.
        address: [u8; 6],
    },
}

/// A change that has happened.
#[derive(Clone, Debug, PartialEq, Eq, Marshal)]
pub enum NetworkNotice {
    /// An interface is new, or has changed; the mask tells the flags that did.
    Link(LinkRecord, u32),
    /// An interface is gone.
    LinkGone(LinkRecord),
    /// An address is new, or has changed.
    Address(AddressRecord),
    /// An address is gone.
    AddressGone(AddressRecord),
    /// A route is new.
    Route(RouteRecord),
    /// A route has taken the place of another.
    RouteReplaced(RouteRecord),
    /// A route is gone.
    RouteGone(RouteRecord),
    /// A rule is new.
    Rule(RuleRecord),
    /// A rule is gone.
    RuleGone(RuleRecord),
    /// A neighbour is new, or has changed.
    Neighbour(NeighbourRecord),
    /// A neighbour is gone.
    NeighbourGone(NeighbourRecord),
}
