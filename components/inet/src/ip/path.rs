//! The path of a packet: interface, next hop, source and MTU.
use super::stack::{Cast, Stack, StackRun};
use crate::{
    base::{
        address::{AddressScope, Family, bits},
        buffer::Buffer,
    },
    tables::{
        interface::{Interface, InterfaceFlags, InterfaceIndex},
        routes::{Route, RouteKind},
        rules::{NoRoute, RouteFlow, SenderTraits},
        sources,
    },
};
use core::net::{IpAddr, Ipv4Addr};
use interfaces::sockets::{PathDiscovery, RouteMetrics};
use labels::SecrecyId;
use packet::{ipv4, ipv6};

/// The bytes at the front of a packet that belong to its header of IP: options of IPv4, or extension headers of IPv6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderExtension {
    /// Their number.
    pub bytes: u16,
    /// The kind of the first extension header of IPv6.
    pub first: u8,
    /// The number of bytes of extension headers of IPv6 that each fragment repeats.
    pub repeated: u16,
}

/// A request to send a packet of IP.
#[derive(Clone, Copy, Debug)]
pub struct SendRequest {
    /// The sender; `None` leaves the choice to the stack.
    pub source: Option<IpAddr>,
    /// The receiver.
    pub destination: IpAddr,
    /// The protocol above IP.
    pub protocol: u8,
    /// The interface through which alone the packet may leave. Needed for link-local destinations of IPv6.
    pub interface: Option<InterfaceIndex>,
    /// Hops; `None` for those of the interface.
    pub hop_limit: Option<u8>,
    /// Differentiated services and ECN.
    pub traffic_class: u8,
    /// The discovery of the path's MTU.
    pub discovery: PathDiscovery,
    /// Bytes of a packet of IPv6, at most: longer ones are fragmented.
    pub packet_max6: Option<u32>,
    /// The front of the packet that belongs to the header of IP.
    pub extension: HeaderExtension,
    /// Members of the group on this host get the packet, too.
    pub is_looped: bool,
    /// Properties of the socket that choose the route.
    pub sender: SenderTraits,
    /// The secrecy. [`SecrecyId::NONE`] are the messages by which the stack itself gets along with its neighbours.
    pub label: SecrecyId,
}

impl SendRequest {
    /// Returns a request without special wishes, of no secrecy.
    pub fn new(destination: IpAddr, protocol: u8) -> SendRequest {
        SendRequest {
            source: None,
            destination,
            protocol,
            interface: None,
            hop_limit: None,
            traffic_class: 0,
            discovery: PathDiscovery::Never,
            packet_max6: None,
            extension: HeaderExtension::default(),
            is_looped: true,
            sender: SenderTraits::default(),
            label: SecrecyId::NONE,
        }
    }
    /// Returns the properties that choose the route.
    pub fn flow(&self) -> RouteFlow {
        RouteFlow {
            destination: self.destination,
            source: self.source.filter(|source| !source.is_unspecified()),
            interface: self.interface,
            protocol: self.protocol,
            traffic_class: self.traffic_class,
            sender: self.sender,
        }
    }
}

/// The reason why a packet cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// No route to the destination (`ENETUNREACH`).
    NoRoute,
    /// A route says that the host is unreachable (`EHOSTUNREACH`).
    Unreachable,
    /// A route, or the label of the interface, forbids it (`EACCES`).
    Prohibited,
    /// A route swallows it (`EINVAL`).
    Blackhole,
    /// This host has no such source, or none that fits (`EADDRNOTAVAIL`).
    NoSource,
    /// The packet is longer than the path's MTU, which is told, and may not be cut (`EMSGSIZE`).
    TooBig(u32),
    /// The destination is for all hosts, and the socket may not send to these (`EACCES`).
    Broadcast,
    /// Memory was refused, or headers do not fit (`ENOBUFS`).
    NoMemory,
}

impl From<NoRoute> for SendError {
    fn from(reason: NoRoute) -> SendError {
        match reason {
            NoRoute::Missing => SendError::NoRoute,
            NoRoute::Prohibited => SendError::Prohibited,
            NoRoute::Swallowed => SendError::Blackhole,
        }
    }
}

/// A path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The interface.
    pub interface: InterfaceIndex,
    /// The neighbour that gets the packet.
    pub next_hop: IpAddr,
    /// The source.
    pub source: IpAddr,
    /// Length of a packet, at most.
    pub mtu: u32,
    /// Hops.
    pub hop_limit: u8,
    /// The greatest segment of TCP that the peer is told (`RTAX_ADVMSS`); zero for that of the MTU.
    pub advertised_segment: u16,
    /// The receivers.
    pub cast: Cast,
    /// The receiver is this host.
    pub is_local: bool,
    /// Bytes of options, or of a header, by which each packet tells its secrecy. The MTU does not count them.
    pub label_length: u8,
}

impl Path {
    /// Returns the greatest number of bytes behind the header of IP that can be sent, in fragments if those are allowed.
    pub fn room(&self, discovery: PathDiscovery) -> usize {
        let (of_header, longest) = match Family::of(self.source) {
            Family::V4 => (ipv4::HEADER_LENGTH, ipv4::PACKET_MAX),
            // The length in the header of IPv6 does not count the header.
            Family::V6 => (ipv6::HEADER_LENGTH, ipv6::HEADER_LENGTH + ipv4::PACKET_MAX),
        };
        let may_cut = matches!(discovery, PathDiscovery::Never | PathDiscovery::Wanted);
        let whole = if may_cut { longest } else { longest.min(self.mtu as usize) };
        whole.saturating_sub(of_header)
    }
    /// Returns whether `length` bytes behind the header of IP fit in one packet.
    pub fn fits(&self, length: usize) -> bool {
        length <= self.room(PathDiscovery::Required)
    }
}

impl<B: Buffer> Stack<B> {
    /// Returns the path of a packet.
    ///
    /// # Errors
    /// [`SendError`], but [`SendError::TooBig`].
    pub fn path(&self, run: &StackRun<'_, B>, request: &SendRequest) -> Result<Path, SendError> {
        let destination = request.destination;
        if destination.is_unspecified() {
            return Err(SendError::NoRoute);
        }
        let is_all = destination == IpAddr::V4(Ipv4Addr::BROADCAST);
        if destination.is_multicast() || is_all {
            return self.path_to_many(run, request);
        }
        let is_on_link = destination.is_ipv6()
            && AddressScope::of(destination) == AddressScope::Link
            && request.interface.is_none();
        if is_on_link && run.configuration.local_kind(destination).is_none() {
            return Err(SendError::NoRoute);
        }
        let (_, route) = run.configuration.find_route(&request.flow(), run.now_ns)?;
        match route.kind {
            RouteKind::Blackhole => return Err(SendError::Blackhole),
            RouteKind::Unreachable => return Err(SendError::Unreachable),
            RouteKind::Prohibit => return Err(SendError::Prohibited),
            RouteKind::Throw => return Err(SendError::NoRoute),
            RouteKind::Unicast | RouteKind::Local | RouteKind::Broadcast => {}
        }
        let is_local = route.kind == RouteKind::Local;
        let (index, gateway) = match is_local {
            true => (InterfaceIndex::LOOPBACK, route.gateway),
            false => {
                let hash = || self.random.hash(&bits(destination).to_be_bytes());
                let way = run.configuration.way(route, request.interface, hash);
                way.ok_or(SendError::NoRoute)?
            }
        };
        let interface = run.configuration.interface(index).ok_or(SendError::NoRoute)?;
        let next_hop = gateway.unwrap_or(destination);
        let source = self.source_for(run, request, route, (interface, next_hop))?;
        let link = interface.mtu_for(destination);
        // A probe is to find out whether what is known of the path still holds.
        let ignores = matches!(request.discovery, PathDiscovery::Probe | PathDiscovery::Interface);
        let is_trusted = !is_local && !ignores;
        let known = self.path_mtus.get(destination, run.now_ns).filter(|_| is_trusted);
        let given = |number| Some(route.metrics.get(number)).filter(|value| *value != 0);
        let limits = [given(RouteMetrics::MTU), known];
        let mtu = limits.into_iter().flatten().fold(link, u32::min);
        let label_length = if is_local { 0 } else { self.label_length(run, request, interface)? };
        let is_broadcast = route.kind == RouteKind::Broadcast;
        Ok(Path {
            interface: interface.index,
            next_hop,
            source,
            mtu: mtu.saturating_sub(label_length.into()),
            hop_limit: request
                .hop_limit
                .or(given(RouteMetrics::HOP_LIMIT).map(|hops| hops as u8))
                .unwrap_or_else(|| hops(interface, destination)),
            advertised_segment: route.metrics.get(RouteMetrics::ADVERTISED_SEGMENT) as u16,
            cast: if is_broadcast { Cast::Broadcast } else { Cast::Unicast },
            is_local,
            label_length,
        })
    }
    /// Returns the path of packets of a connection. Of IPv4 the source that a first look finds chooses the route at a second one, as
    /// rules may have it (`ip_route_connect`).
    ///
    /// # Errors
    /// Those of [`Stack::path`].
    pub fn path_from(
        &self,
        run: &StackRun<'_, B>,
        request: &SendRequest,
    ) -> Result<Path, SendError> {
        let path = self.path(run, request)?;
        let has_rules = run.configuration.rules().changed(Family::V4).is_some();
        let has_source = request.source.is_some_and(|source| !source.is_unspecified());
        if !has_rules || has_source || request.destination.is_ipv6() {
            return Ok(path);
        }
        self.path(run, &SendRequest { source: Some(path.source), ..*request })
    }
    fn source_for(
        &self,
        run: &StackRun<'_, B>,
        request: &SendRequest,
        route: &Route,
        (interface, next_hop): (&Interface, IpAddr),
    ) -> Result<IpAddr, SendError> {
        if let Some(source) = request.source.filter(|source| !source.is_unspecified()) {
            return Ok(source);
        }
        // Of IPv4 the source is the address that brought the route: 127.0.0.1 to all of 127.0.0.0/8 (`fib_add_ifaddr`).
        if route.kind == RouteKind::Local {
            return Ok(route.preferred_source.unwrap_or(request.destination));
        }
        route
            .preferred_source
            .or_else(|| {
                sources::source(run.configuration, interface, request.destination, next_hop)
            })
            .ok_or(SendError::NoSource)
    }
    /// Returns the path of a packet to a group, or to all hosts of a link.
    fn path_to_many(
        &self,
        run: &StackRun<'_, B>,
        request: &SendRequest,
    ) -> Result<Path, SendError> {
        let destination = request.destination;
        let configuration = run.configuration;
        let by_route = || {
            let found = configuration.find_route(&request.flow(), run.now_ns);
            let (_, route) = found.ok()?;
            configuration.interface(route.interface)
        };
        let wanted = InterfaceFlags::UP | InterfaceFlags::MULTICAST;
        let takes = |one: &&Interface| one.flags.contains(wanted);
        let interface = match (request.interface, destination) {
            // An interface without the flag has no route to the groups of IPv6 (`addrconf_add_mroute`).
            (Some(index), IpAddr::V6(_)) => {
                by_route().or_else(|| configuration.interface(index).filter(takes))
            }
            (Some(index), _) => configuration.interface(index).filter(|one| one.is_up()),
            // The interface of the source that a socket of IPv4 has (`ip_route_output_key_hash_rcu`).
            (None, IpAddr::V4(_)) if request.source.is_some_and(|one| !one.is_unspecified()) => {
                let of_source = request.source.and_then(|one| configuration.local(one));
                of_source.and_then(|route| configuration.interface(route.interface))
            }
            (None, _) => by_route().or_else(|| configuration.interfaces().find(takes)),
        };
        let interface = interface.ok_or(SendError::NoRoute)?;
        // DHCP sends from no address, as does duplicate detection.
        let chosen = request
            .source
            .or_else(|| sources::source(run.configuration, interface, destination, destination));
        let label_length = self.label_length(run, request, interface)?;
        let is_group = destination.is_multicast();
        let hop_limit = if is_group { 1 } else { hops(interface, destination) };
        Ok(Path {
            interface: interface.index,
            next_hop: destination,
            source: chosen.unwrap_or(Family::of(destination).unspecified()),
            mtu: interface.mtu_for(destination).saturating_sub(label_length.into()),
            hop_limit: request.hop_limit.unwrap_or(hop_limit),
            advertised_segment: 0,
            cast: if is_group { Cast::Multicast } else { Cast::Broadcast },
            is_local: false,
            label_length,
        })
    }
}

fn hops(interface: &Interface, destination: IpAddr) -> u8 {
    match Family::of(destination) {
        Family::V4 => crate::tables::configuration::HOPS,
        Family::V6 => interface.ipv6.hop_limit,
    }
}
