//! Routes (`struct rtentry`, `struct in6_rtmsg`) and ARP (`struct arpreq`).
use super::{IoctlCaller, command, put};
use crate::{
    NetErrno,
    base::{INET, METRIC6, NAME_BYTES, arp, link_named, link_numbered, mask4, text},
    wire::Fields,
};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use interfaces::sockets::{
    EntryMode, NeighbourRecord, NetworkAdministration, NetworkChange, RouteMetrics, RouteQuery,
    RouteRecord, number,
};

/// Tells whether a route comes or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Add,
    Delete,
}

/// `RTF_*`.
mod route_flag {
    pub(super) const GATEWAY: u16 = 2;
    pub(super) const HOST: u16 = 4;
    pub(super) const MTU: u16 = 0x40;
    pub(super) const WINDOW: u16 = 0x80;
    pub(super) const ROUND_TRIP: u16 = 0x100;
    pub(super) const REJECT: u16 = 0x200;
}
/// Offsets in `struct rtentry`.
const DESTINATION_AT: usize = 8;
const GATEWAY_AT: usize = 24;
const MASK_AT: usize = 40;
const FLAGS_AT: usize = 56;
const METRIC_AT: usize = 80;
const MTU_AT: usize = 96;
const WINDOW_AT: usize = 104;
const ROUND_TRIP_AT: usize = 112;
/// Bytes of the headers of TCP and IP.
const HEADERS: u32 = 40;

/// Returns the segment that `RTF_MTU` stands for.
fn segment(mtu: Option<u32>) -> Option<u32> {
    mtu.map(|mtu| mtu.saturating_sub(HEADERS))
}

/// Returns a time in eighths of a millisecond, as metrics have it.
fn eighths(ms: u16) -> u32 {
    u32::from(ms) << 3
}

/// Returns family and address of a `struct sockaddr_in`.
fn end(fields: Fields<'_>, at: usize) -> (u16, Ipv4Addr) {
    let address = fields.array::<4>(at + 4).map_or(Ipv4Addr::UNSPECIFIED, Ipv4Addr::from);
    (fields.u16(at).unwrap_or(0), address)
}

/// Returns the bits of the network that a request for IPv4 is about.
fn prefix(fields: Fields<'_>, flags: u16, destination: Ipv4Addr) -> Result<u8, NetErrno> {
    if flags & route_flag::HOST != 0 {
        return Ok(32);
    }
    let (family, mask) = end(fields, MASK_AT);
    if family != INET.into() && (family != 0 || !mask.is_unspecified()) {
        return Err(NetErrno::EAFNOSUPPORT);
    }
    let length = mask.to_bits().leading_ones() as u8;
    let is_whole = mask4(length) == mask.to_bits();
    let has_rest = destination.to_bits() & !mask.to_bits() != 0;
    if is_whole && !has_rest { Ok(length) } else { Err(NetErrno::EINVAL) }
}

/// Adds or removes a route of IPv4.
///
/// # Errors
/// `EAFNOSUPPORT`, `EINVAL`, `ENODEV`, and those of the change.
pub(super) fn change4(
    network: &dyn NetworkAdministration,
    way: Way,
    argument: &[u8],
    device: Option<&str>,
) -> Result<(), NetErrno> {
    let fields = Fields(argument);
    let (family, destination) = end(fields, DESTINATION_AT);
    if family != INET.into() {
        return Err(NetErrno::EAFNOSUPPORT);
    }
    let flags = fields.u16(FLAGS_AT).unwrap_or(0);
    let prefix_length = prefix(fields, flags, destination)?;
    let metric = u32::from(fields.u16(METRIC_AT).unwrap_or(0)).saturating_sub(1);
    let is_rejected = flags & route_flag::REJECT != 0;
    let interface = match device.filter(|_| !is_rejected) {
        Some(name) => Some(link_named(network, name.split(':').next().unwrap_or(name))?.index),
        None => None,
    };
    let (gateway_family, gateway) = end(fields, GATEWAY_AT);
    let has_gateway = gateway_family == INET.into() && !gateway.is_unspecified() && !is_rejected;
    if way == Way::Add && flags & route_flag::GATEWAY != 0 && !has_gateway && !is_rejected {
        return Err(NetErrno::EINVAL);
    }
    let is_far = has_gateway && flags & route_flag::GATEWAY != 0;
    let scope = match (is_rejected, is_far, way) {
        (true, ..) => number::SCOPE_HOST,
        (_, true, _) => number::SCOPE_UNIVERSE,
        (_, _, Way::Add) => number::SCOPE_LINK,
        (_, _, Way::Delete) => number::SCOPE_NOWHERE,
    };
    let kind = match (is_rejected, way) {
        (true, _) => number::KIND_UNREACHABLE,
        (false, Way::Add) => number::KIND_UNICAST,
        (false, Way::Delete) => 0,
    };
    let mut metrics = RouteMetrics::default();
    let given = [
        (route_flag::MTU, RouteMetrics::ADVERTISED_SEGMENT, segment(fields.u32(MTU_AT))),
        (route_flag::WINDOW, RouteMetrics::WINDOW, fields.u32(WINDOW_AT)),
        (route_flag::ROUND_TRIP, RouteMetrics::ROUND_TRIP, fields.u16(ROUND_TRIP_AT).map(eighths)),
    ];
    for (flag, number, value) in given {
        if flags & flag != 0 {
            metrics.set(number, value.unwrap_or(0));
        }
    }
    let route = RouteRecord {
        table: number::TABLE_MAIN,
        destination: destination.into(),
        prefix_length,
        kind,
        scope,
        protocol: if way == Way::Add { number::PROTOCOL_BOOT } else { 0 },
        interface,
        gateway: has_gateway.then_some(gateway.into()),
        preferred_source: None,
        metric,
        metrics,
        is_on_link: false,
        ways: Vec::new(),
        expires_s: None,
    };
    apply(network, way, route)
}

fn apply(
    network: &dyn NetworkAdministration,
    way: Way,
    route: RouteRecord,
) -> Result<(), NetErrno> {
    let change = match way {
        Way::Add => NetworkChange::Route(route, EntryMode::Prepend),
        Way::Delete => NetworkChange::RemoveRoute(route),
    };
    Ok(network.change(&change)?)
}

/// Adds or removes a route of IPv6: destination, source, gateway, type, bits of both, metric, info, flags, number of the interface.
///
/// # Errors
/// `EINVAL`, and those of the change.
pub(super) fn change6(
    network: &dyn NetworkAdministration,
    way: Way,
    argument: &[u8],
) -> Result<(), NetErrno> {
    let fields = Fields(argument);
    let one = |at| fields.array::<16>(at).map_or(Ipv6Addr::UNSPECIFIED, Ipv6Addr::from);
    let length = fields.u16(52).and_then(|length| u8::try_from(length).ok());
    let prefix_length = length.filter(|length| *length <= 128).ok_or(NetErrno::EINVAL)?;
    if fields.u16(54).unwrap_or(0) != 0 {
        // Routes by source do not exist.
        return Err(NetErrno::EINVAL);
    }
    let metric = match (fields.u32(56).unwrap_or(0), way) {
        (0, Way::Add) => METRIC6,
        (metric, _) => metric,
    };
    let flags = fields.u32(72).unwrap_or(0) as u16;
    let is_rejected = flags & route_flag::REJECT != 0;
    let gateway = one(32);
    let has_gateway = flags & route_flag::GATEWAY != 0 && !gateway.is_unspecified();
    let route = RouteRecord {
        table: number::TABLE_MAIN,
        destination: one(0).into(),
        prefix_length,
        kind: if is_rejected { number::KIND_UNREACHABLE } else { number::KIND_UNICAST },
        scope: if way == Way::Add { number::SCOPE_UNIVERSE } else { number::SCOPE_NOWHERE },
        protocol: if way == Way::Add { number::PROTOCOL_BOOT } else { 0 },
        interface: fields.u32(76).filter(|index| *index != 0),
        gateway: has_gateway.then_some(gateway.into()),
        preferred_source: None,
        metric,
        metrics: RouteMetrics::default(),
        is_on_link: false,
        ways: Vec::new(),
        expires_s: None,
    };
    apply(network, way, route)
}

/// Offsets in `struct arpreq`, and `ATF_*`.
const HARDWARE_AT: usize = 16;
const ARP_FLAGS_AT: usize = 32;
const DEVICE_AT: usize = 52;
const PUBLISHED: u32 = 8;
const NEEDS_PUBLISHED: u32 = 0x60;

/// Does a request about a neighbour of IPv4.
///
/// # Errors
/// `EPERM`, `EPFNOSUPPORT`, `EINVAL`, `ENODEV`, `ENXIO`, and those of the change.
pub(super) fn neighbour(
    network: &dyn NetworkAdministration,
    caller: IoctlCaller,
    number: u32,
    argument: &mut [u8],
) -> Result<(), NetErrno> {
    if number != command::GET_NEIGHBOUR {
        caller.check()?;
    }
    let fields = Fields(argument);
    let (family, address) = end(fields, 0);
    let flags = fields.u32(ARP_FLAGS_AT).unwrap_or(0);
    if family != INET.into() {
        return Err(NetErrno::EPFNOSUPPORT);
    }
    if flags & PUBLISHED == 0 && flags & NEEDS_PUBLISHED != 0 {
        return Err(NetErrno::EINVAL);
    }
    if flags & PUBLISHED != 0 {
        // Nothing is answered for other hosts.
        return Err(match number {
            command::DELETE_NEIGHBOUR => NetErrno::ENOENT,
            _ => NetErrno::EOPNOTSUPP,
        });
    }
    let name = fields.bytes(DEVICE_AT, NAME_BYTES - 1).and_then(text).unwrap_or("");
    let link = if !name.is_empty() {
        link_named(network, name)?
    } else if number == command::GET_NEIGHBOUR {
        return Err(NetErrno::ENODEV);
    } else {
        let query = RouteQuery::new(address.into());
        link_numbered(network, network.route_to(&query)?.interface.ok_or(NetErrno::EINVAL)?)?
    };
    let family = fields.u16(HARDWARE_AT).unwrap_or(0);
    if family != 0 && family != link.hardware && number != command::GET_NEIGHBOUR {
        return Err(NetErrno::EINVAL);
    }
    match number {
        command::GET_NEIGHBOUR => tell(network, (link.index, link.hardware), argument, address),
        command::SET_NEIGHBOUR => {
            let is_permanent = flags & arp::PERMANENT != 0;
            let state =
                if is_permanent { number::NEIGHBOUR_PERMANENT } else { number::NEIGHBOUR_STALE };
            let record = NeighbourRecord {
                mac: fields.array::<6>(HARDWARE_AT + 2),
                ..NeighbourRecord::new(link.index, address.into(), state)
            };
            Ok(network.change(&NetworkChange::Neighbour(record, EntryMode::Replace))?)
        }
        _ => {
            let change =
                NetworkChange::RemoveNeighbour { interface: link.index, address: address.into() };
            network.change(&change).map_err(|error| match NetErrno::from(error) {
                NetErrno::ENOENT => NetErrno::ENXIO,
                error => error,
            })
        }
    }
}

/// Tells a neighbour's address on the link.
fn tell(
    network: &dyn NetworkAdministration,
    (index, hardware): (u32, u16),
    argument: &mut [u8],
    address: Ipv4Addr,
) -> Result<(), NetErrno> {
    let all = network.neighbours();
    let found = all.iter().find(|one| one.interface == index && one.address == IpAddr::V4(address));
    let found =
        found.filter(|one| one.state & number::NEIGHBOUR_VALID != 0).ok_or(NetErrno::ENXIO)?;
    let is_permanent = found.state & number::NEIGHBOUR_PERMANENT != 0;
    let flags = arp::COMPLETE | if is_permanent { arp::PERMANENT } else { 0 };
    put(argument, HARDWARE_AT, &hardware.to_le_bytes());
    put(argument, HARDWARE_AT + 2, &found.mac.unwrap_or_default());
    put(argument, ARP_FLAGS_AT, &flags.to_le_bytes());
    Ok(())
}
