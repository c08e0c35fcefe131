//! Entries of the tables in the form of the interface.
use super::counters;
use crate::{
    base::address::{AddressScope, Prefix},
    service::{inet::Inet, links::LinkDetails},
    tables::{
        configuration::Configuration,
        interface::{Interface, InterfaceAddress, InterfaceFlags, InterfaceIndex},
        routes::{Route, RouteKind, RouteWay, TableId},
    },
};
use alloc::vec::Vec;
use core::{cmp::Reverse, net::IpAddr};
use interfaces::sockets::{
    AddressRecord, LinkCounts, LinkGroupRecord, LinkKind, LinkRecord, MembershipRecord,
    RouteRecord, RouteWayRecord, number,
};
use packet::{
    ethernet::{MacAddress, is_group},
    igmp, ipv6,
};

const NS_PER_S: u64 = 1_000_000_000;
const NS_PER_CS: u64 = 10_000_000;
/// `IFF_LOWER_UP`.
const LOWER_UP: u32 = 1 << 16;
/// The least MTU of IPv4, the greatest of Ethernet with offloads, and no limit.
const MTU_MIN: u32 = 68;
const MTU_MAX: u32 = 65_535;
/// The least MTU with which an interface has IPv6 (RFC 8200 section 5).
pub(super) const MTU6_MIN: u32 = ipv6::MTU_MIN as u32;
/// `IF_OPER_*`.
const UNKNOWN: u8 = 0;
const DOWN: u8 = 2;
const OPERATES: u8 = 6;

/// Returns the range of an interface's MTU.
pub(super) fn mtu_range(interface: &Interface, details: &LinkDetails) -> (u32, u32) {
    let mtu_max = if details.mtu_max == 0 { MTU_MAX } else { details.mtu_max };
    if interface.is_loopback() { (0, 0) } else { (MTU_MIN, mtu_max) }
}

/// Returns the flags of an interface as users see them.
pub(super) fn flags(interface: &Interface) -> u32 {
    let has_carrier = interface.flags.contains(InterfaceFlags::RUNNING);
    let shown = match interface.is_up() {
        true => interface.flags,
        false => interface.flags - InterfaceFlags::RUNNING,
    };
    let lower = if interface.is_up() && has_carrier { LOWER_UP } else { 0 };
    shown.bits() | lower
}

/// Describes an interface.
pub(in crate::service) fn link(inet: &Inet, interface: &Interface) -> LinkRecord {
    let device = inet.link(interface.index);
    let details = device.map_or_else(LinkDetails::default, |device| device.details());
    let has_carrier = interface.flags.contains(InterfaceFlags::RUNNING);
    let is_loopback = interface.is_loopback();
    let (mtu_min, mtu_max) = mtu_range(interface, &details);
    let tunnel = details.tunnel.as_ref();
    // Linux looks at the carrier of a device that was made with one when that changes.
    let is_unwatched = is_loopback || tunnel.is_some() && interface.carrier_changes == 0;
    let counts = &details.statistics;
    LinkRecord {
        index: interface.index.0,
        name: interface.name.clone(),
        kind: match interface.is_headerless() {
            _ if is_loopback => LinkKind::Loopback,
            true => LinkKind::Headerless,
            false => LinkKind::Ethernet,
        },
        hardware: interface.hardware,
        flags: flags(interface),
        mtu: interface.mtu,
        mtu_min,
        mtu_max,
        mac: interface.mac,
        mac_origin: details.mac_origin,
        broadcast: if interface.flags.contains(InterfaceFlags::BROADCAST) {
            [0xff; 6]
        } else {
            [0; 6]
        },
        permanent_mac: details.permanent_mac,
        transmit_queue: interface.transmit_queue,
        operational: match (is_unwatched, interface.is_up() && has_carrier) {
            (true, true) => UNKNOWN,
            (false, true) => OPERATES,
            (_, false) => DOWN,
        },
        has_carrier: interface.is_up() && has_carrier,
        carrier_changes: interface.carrier_changes,
        queues: details.pairs.max(1),
        speed_mbit: details.speed_mbit,
        alias: interface.alias.clone(),
        driver: details.driver.into(),
        groups: link_groups(interface),
        tunnel: tunnel.map(|(record, _)| *record),
        counts: match tunnel {
            _ if is_loopback => counters::of_loopback(inet),
            Some((_, counts)) => *counts,
            None => LinkCounts {
                rx_packets: counts.received_packets,
                tx_packets: counts.sent_packets,
                rx_bytes: counts.received_bytes,
                tx_bytes: counts.sent_bytes,
                rx_errors: counts.receive_errors,
                tx_errors: counts.send_errors,
                rx_dropped: counts.receive_dropped,
                ..LinkCounts::default()
            },
        },
    }
}

/// Returns the groups of a link that users ask for: first those that are fixed.
fn link_groups(interface: &Interface) -> Vec<LinkGroupRecord> {
    let of_sockets = &interface.wanted.addresses;
    let fixed = interface.fixed_groups.iter().map(|address| LinkGroupRecord {
        address: *address,
        users: of_sockets.get(address).copied().unwrap_or(0).saturating_add(1),
        is_fixed: true,
    });
    let is_other =
        |address: &MacAddress| is_group(*address) && !interface.fixed_groups.contains(address);
    let others = of_sockets.iter().filter(|(address, _)| is_other(address));
    let others = others.map(|(address, users)| LinkGroupRecord {
        address: *address,
        users: *users,
        is_fixed: false,
    });
    fixed.chain(others).collect()
}

/// Returns `RT_SCOPE_*` of a scope.
pub(super) fn scope(scope: AddressScope) -> u8 {
    match scope {
        AddressScope::Host => number::SCOPE_HOST,
        AddressScope::Link => number::SCOPE_LINK,
        AddressScope::Site => number::SCOPE_SITE,
        AddressScope::Organisation | AddressScope::Global => number::SCOPE_UNIVERSE,
    }
}

/// Returns the seconds that are left, rounded up.
fn left_s(until_ns: Option<u64>, now_ns: u64) -> Option<u32> {
    let left = until_ns?.saturating_sub(now_ns).div_ceil(NS_PER_S);
    Some(u32::try_from(left).unwrap_or(u32::MAX))
}

/// Describes an address.
pub(super) fn address(interface: &Interface, one: &InterfaceAddress, now_ns: u64) -> AddressRecord {
    let label = match (&one.address, one.label.is_empty()) {
        (IpAddr::V4(_), true) => interface.name.clone(),
        (IpAddr::V4(_), false) => one.label.clone(),
        (IpAddr::V6(_), _) => Default::default(),
    };
    let hundredths = |ns: u64| (ns / NS_PER_CS) as u32;
    AddressRecord {
        interface: interface.index.0,
        address: one.address,
        peer: one.peer,
        prefix_length: one.prefix_length,
        scope: scope(one.scope),
        flags: one.flags.bits(),
        broadcast: one.broadcast,
        label,
        metric: one.metric,
        preferred_s: left_s(one.preferred_until_ns, now_ns),
        valid_s: left_s(one.valid_until_ns, now_ns),
        created_cs: hundredths(one.changed_ns.0),
        updated_cs: hundredths(one.changed_ns.1),
    }
}

/// Describes the addresses of an interface: those of IPv4, then those of IPv6 with the widest scope first, and the newest of each.
pub(super) fn addresses(interface: &Interface, now_ns: u64) -> Vec<AddressRecord> {
    let of4 = interface.addresses.iter().filter(|one| one.address.is_ipv4());
    let of6 = interface.addresses.iter().rev().filter(|one| one.address.is_ipv6());
    let mut all: Vec<AddressRecord> =
        of4.chain(of6).map(|one| address(interface, one, now_ns)).collect();
    all.sort_by_key(|one| match one.address {
        // Secondary addresses follow the primary ones.
        IpAddr::V4(_) => (0, (one.flags & 1) as u8),
        IpAddr::V6(_) => (1, one.scope),
    });
    all
}

/// Returns the scope of a route: that of its maker, or the one that follows from its kind.
pub(super) fn route_scope(route: &Route) -> u8 {
    let is_version4 = route.destination.address().is_ipv4();
    route.scope.unwrap_or(match route.kind {
        _ if !is_version4 => number::SCOPE_UNIVERSE,
        RouteKind::Local => number::SCOPE_HOST,
        RouteKind::Broadcast => number::SCOPE_LINK,
        RouteKind::Unicast if route.gateway.is_none() => number::SCOPE_LINK,
        _ => number::SCOPE_UNIVERSE,
    })
}

/// Returns `RTN_*` of a kind.
pub(super) fn route_kind(kind: RouteKind) -> u8 {
    match kind {
        RouteKind::Unicast => number::KIND_UNICAST,
        RouteKind::Local => number::KIND_LOCAL,
        RouteKind::Broadcast => number::KIND_BROADCAST,
        RouteKind::Blackhole => number::KIND_BLACKHOLE,
        RouteKind::Unreachable => number::KIND_UNREACHABLE,
        RouteKind::Prohibit => number::KIND_PROHIBIT,
        RouteKind::Throw => number::KIND_THROW,
    }
}

/// Describes a route.
pub(super) fn route(table: TableId, route: &Route, now_ns: u64) -> RouteRecord {
    let is_version4 = route.destination.address().is_ipv4();
    // Routes of IPv6 that lead nowhere are those of the loopback interface.
    let has_interface = route.kind.has_interface() || !is_version4;
    RouteRecord {
        table: table.0,
        destination: route.destination.address(),
        prefix_length: route.destination.length(),
        kind: route_kind(route.kind),
        scope: route_scope(route),
        protocol: route.protocol,
        interface: has_interface.then_some(route.interface.0),
        gateway: route.gateway,
        preferred_source: route.preferred_source,
        metric: route.metric,
        metrics: route.metrics,
        is_on_link: route.is_on_link,
        ways: route.ways.iter().map(way).collect(),
        expires_s: left_s(route.expires_ns, now_ns),
    }
}

/// Describes a route in a configuration: of several ways it tells those whose interface is down.
pub(super) fn listed(
    all: &Configuration,
    (table, one): (TableId, &Route),
    now_ns: u64,
) -> RouteRecord {
    let mut record = route(table, one, now_ns);
    for way in &mut record.ways {
        way.is_dead = !all.interface(index(way.interface)).is_some_and(Interface::is_up);
    }
    record
}

fn way(way: &RouteWay) -> RouteWayRecord {
    RouteWayRecord {
        interface: way.interface.0,
        gateway: way.gateway,
        is_on_link: way.is_on_link,
        is_dead: false,
        weight: way.weight,
    }
}

/// Describes the groups of an interface. Those of all nodes are not in its table: it is in them without having joined (RFC 1112,
/// section 4; RFC 4291, section 2.8).
pub(super) fn memberships(interface: &Interface) -> Vec<MembershipRecord> {
    let one = |group, users| MembershipRecord { interface: interface.index.0, group, users };
    let joined = interface.groups.iter().map(|(group, users)| one(*group, *users));
    let of_all4 = interface.is_up().then_some(IpAddr::V4(igmp::ALL_HOSTS));
    let of_all6 = [ipv6::ALL_NODES, ipv6::ALL_NODES_OF_INTERFACE].map(IpAddr::V6);
    let of_all6 = of_all6.into_iter().filter(|_| interface.mtu >= MTU6_MIN);
    let inherent = of_all4.into_iter().chain(of_all6);
    let inherent = inherent.filter(|group| !interface.groups.contains_key(group));
    joined.chain(inherent.map(|group| one(group, 1))).collect()
}

/// Returns the place of a route in a list of its table, as Linux's trees have it: by the first address for IPv4, by the last for
/// IPv6, and narrow ones before those around them.
pub(super) fn place(route: &Route) -> (bool, u128, Reverse<u8>) {
    let (destination, length) = (&route.destination, Reverse(route.destination.length()));
    match destination.address() {
        IpAddr::V4(first) => (false, first.to_bits().into(), length),
        IpAddr::V6(_) => (true, destination.last_bits(), length),
    }
}

/// Returns the prefix of a record, or `None` for one that is too long.
pub(super) fn prefix(address: IpAddr, length: u8) -> Option<Prefix> {
    Prefix::new(address, length)
}

/// Returns the number of an interface.
pub(super) fn index(number: u32) -> InterfaceIndex {
    InterfaceIndex(number)
}
