//! Changes of routes, and the way of a packet.
use super::records;
use crate::{
    base::address::Family,
    ip::path::{SendError, SendRequest},
    service::inet::Inet,
    tables::{
        configuration::Configuration,
        interface::InterfaceIndex,
        routes::{Route, RouteError, RouteKind, RouteWay, TableId},
        rules::{RouteFlow, SenderTraits},
    },
};
use alloc::vec::Vec;
use core::net::IpAddr;
use interfaces::sockets::{
    AdministrationError, EntryMode, RouteQuery, RouteRecord, RouteWayRecord, number,
};

impl From<RouteError> for AdministrationError {
    fn from(error: RouteError) -> AdministrationError {
        match error {
            RouteError::Exists => AdministrationError::Exists,
            RouteError::Missing => AdministrationError::NoRoute,
            RouteError::Invalid => AdministrationError::Invalid,
        }
    }
}

fn kind_of(kind: u8) -> Result<RouteKind, AdministrationError> {
    match kind {
        number::KIND_UNICAST => Ok(RouteKind::Unicast),
        number::KIND_LOCAL => Ok(RouteKind::Local),
        number::KIND_BROADCAST => Ok(RouteKind::Broadcast),
        number::KIND_BLACKHOLE => Ok(RouteKind::Blackhole),
        number::KIND_UNREACHABLE => Ok(RouteKind::Unreachable),
        number::KIND_PROHIBIT => Ok(RouteKind::Prohibit),
        number::KIND_THROW => Ok(RouteKind::Throw),
        number::KIND_ANYCAST | number::KIND_MULTICAST => Err(AdministrationError::Unsupported),
        _ => Err(AdministrationError::Invalid),
    }
}

/// Returns the interface of a route that is to be added.
fn interface_of(
    all: &Configuration,
    record: &RouteRecord,
    kind: RouteKind,
) -> Result<InterfaceIndex, AdministrationError> {
    if !kind.has_interface() {
        return Ok(InterfaceIndex::LOOPBACK);
    }
    let chosen = match record.interface {
        Some(index) => {
            Some(all.interface(records::index(index)).ok_or(AdministrationError::NoDevice)?)
        }
        None => None,
    };
    let is_down = chosen.is_some_and(|interface| !interface.is_up());
    let Some(gateway) = record.gateway.filter(|gateway| gateway.is_ipv4() || !is_down) else {
        return match chosen {
            Some(_) if is_down => Err(AdministrationError::NetworkDown),
            Some(interface) => Ok(interface.index),
            None => Err(AdministrationError::NoDevice),
        };
    };
    if is_down && record.is_on_link {
        return Err(AdministrationError::NetworkDown);
    }
    if let (Some(interface), true) = (chosen, record.is_on_link) {
        return Ok(interface.index);
    }
    // An address of this host, or one for all, is no gateway.
    match (gateway, all.local_kind(gateway)) {
        (IpAddr::V6(address), _) if address.is_multicast() => {
            return Err(AdministrationError::GatewayInvalid);
        }
        (IpAddr::V6(_), Some(_)) => return Err(AdministrationError::GatewayLocal),
        (_, Some(_)) => return Err(AdministrationError::GatewayInvalid),
        _ => {}
    }
    // A gateway is a neighbour: a route without a gateway leads to it, in the own table or in those that rules choose.
    let is_near = |route: &Route| {
        let is_chosen = chosen.is_none_or(|interface| interface.index == route.interface);
        route.kind == RouteKind::Unicast
            && is_chosen
            && all.interface(route.interface).is_some_and(|interface| interface.is_up())
    };
    let own = all.routes.find_in(TableId(record.table), gateway, is_near);
    let flow = RouteFlow::new(gateway, chosen.map(|interface| interface.index));
    let near = own.or_else(|| {
        let found = all.find_route(&flow, 0).ok();
        found.map(|(_, route)| route).filter(|route| is_near(route))
    });
    match near {
        Some(route) if route.gateway.is_none() => Ok(route.interface),
        _ => match (gateway, chosen) {
            // Any link has link-local addresses of IPv6.
            (IpAddr::V6(address), Some(interface)) if address.is_unicast_link_local() => {
                Ok(interface.index)
            }
            (IpAddr::V6(address), None) if address.is_unicast_link_local() => {
                Err(AdministrationError::GatewayUnbound)
            }
            (IpAddr::V6(_), _) => Err(AdministrationError::HostUnreachable),
            (IpAddr::V4(_), _) => Err(AdministrationError::GatewayUnreachable),
        },
    }
}

/// Returns the route of a record.
fn route_of(all: &Configuration, record: &RouteRecord) -> Result<Route, AdministrationError> {
    let prefix = records::prefix(record.destination, record.prefix_length);
    let prefix = prefix.ok_or(AdministrationError::Invalid)?;
    let kind = kind_of(record.kind)?;
    let has_host_bits = prefix.address() != record.destination;
    if has_host_bits && record.destination.is_ipv4() {
        return Err(AdministrationError::PrefixInvalid);
    }
    if let Some(source) = record.preferred_source
        && all.owner(source).is_none()
    {
        return Err(AdministrationError::SourceInvalid);
    }
    let ways = record.ways.iter().map(|way| way_of(all, record, kind, way));
    let ways = ways.collect::<Result<Vec<_>, _>>()?;
    let interface = match ways.first() {
        Some(first) => first.interface,
        None => interface_of(all, record, kind)?,
    };
    Ok(Route {
        destination: prefix,
        kind,
        interface,
        gateway: record.gateway,
        preferred_source: record.preferred_source,
        metric: record.metric,
        protocol: record.protocol,
        metrics: record.metrics,
        expires_ns: None,
        scope: Some(record.scope),
        is_on_link: record.is_on_link,
        ways,
    })
}

/// Returns one of several ways of a route that is to be added.
fn way_of(
    all: &Configuration,
    record: &RouteRecord,
    kind: RouteKind,
    way: &RouteWayRecord,
) -> Result<RouteWay, AdministrationError> {
    if !kind.has_interface() {
        return Err(AdministrationError::Invalid);
    }
    let alone = RouteRecord {
        interface: Some(way.interface).filter(|index| *index != 0),
        gateway: way.gateway,
        is_on_link: way.is_on_link,
        ways: Vec::new(),
        ..record.clone()
    };
    Ok(RouteWay {
        interface: interface_of(all, &alone, kind)?,
        gateway: way.gateway,
        is_on_link: way.is_on_link,
        weight: way.weight,
    })
}

/// Adds or changes a route.
///
/// # Errors
/// Those of [`interfaces::sockets::NetworkChange::Route`].
pub(super) fn add(
    inet: &Inet,
    record: &RouteRecord,
    mode: EntryMode,
) -> Result<(), AdministrationError> {
    let table = TableId(record.table);
    inet.stack().configure(|all| {
        let route = route_of(all, record)?;
        let old = all.routes.to(table, route.destination);
        let first = old.iter().find(|one| one.metric == route.metric).cloned();
        match (mode, first) {
            (EntryMode::Create, Some(_)) => return Err(AdministrationError::Exists),
            (EntryMode::Change, None) => return Err(AdministrationError::NoEntry),
            (EntryMode::Change | EntryMode::Replace, Some(first)) => {
                all.routes.remove(table, &first)?;
                all.routes.add_first(table, route)?;
            }
            (EntryMode::Prepend, Some(_)) if record.destination.is_ipv4() => {
                all.routes.add_first(table, route)?;
            }
            _ => all.routes.add(table, route)?,
        }
        Ok(())
    })
}

/// Removes the first route that matches.
///
/// # Errors
/// `NoRoute`, `Invalid`.
pub(super) fn remove(inet: &Inet, record: &RouteRecord) -> Result<(), AdministrationError> {
    let table = TableId(record.table);
    let prefix = records::prefix(record.destination, record.prefix_length);
    let prefix = prefix.ok_or(AdministrationError::Invalid)?;
    inet.stack().configure(|all| {
        let fits = |one: &&Route| {
            (record.metric == 0 || record.metric == one.metric)
                && (record.kind == 0 || record.kind == records::route_kind(one.kind))
                && (record.protocol == 0 || record.protocol == one.protocol)
                && (record.scope == number::SCOPE_NOWHERE
                    || record.scope == records::route_scope(one))
                && names_way(record, one)
                && (record.ways.is_empty() || are_ways(&record.ways, &one.ways))
                && record.preferred_source.is_none_or(|source| Some(source) == one.preferred_source)
        };
        let found = all.routes.to(table, prefix).iter().find(fits).cloned();
        let found = found.ok_or(AdministrationError::NoRoute)?;
        all.routes.remove(table, &found)?;
        match without_way(record, found) {
            Some(rest) => Ok(all.routes.add_first(table, rest)?),
            None => Ok(()),
        }
    })
}

/// Returns whether the way that a request names, if it does, is one of a route. Of several ways of IPv4 the first counts.
fn names_way(record: &RouteRecord, route: &Route) -> bool {
    let is_it = |interface: InterfaceIndex, gateway: Option<IpAddr>| {
        record.interface.is_none_or(|index| index == interface.0)
            && record.gateway.is_none_or(|wanted| Some(wanted) == gateway)
    };
    let has_more = record.destination.is_ipv6() && record.ways.is_empty();
    is_it(route.interface, route.gateway)
        || has_more && route.ways.iter().any(|way| is_it(way.interface, way.gateway))
}

/// Returns a route of IPv6 without the way that a request names by its gateway; `None` if that is the whole route
/// (`ip6_route_del`).
fn without_way(record: &RouteRecord, mut route: Route) -> Option<Route> {
    let gateway = record.gateway.filter(|gateway| gateway.is_ipv6() && record.ways.is_empty())?;
    let place = route.ways.iter().position(|way| {
        way.gateway == Some(gateway)
            && record.interface.is_none_or(|index| index == way.interface.0)
    });
    route.ways.remove(place?);
    let first = *route.ways.first()?;
    (route.interface, route.gateway) = (first.interface, first.gateway);
    route.is_on_link = first.is_on_link;
    if route.ways.len() == 1 {
        route.ways.clear();
    }
    Some(route)
}

/// Returns whether the ways that a request names are those of a route (`fib_nh_match`).
fn are_ways(wanted: &[RouteWayRecord], ways: &[RouteWay]) -> bool {
    let is_one = |(wanted, way): (&RouteWayRecord, &RouteWay)| {
        (wanted.interface == 0 || wanted.interface == way.interface.0)
            && wanted.gateway.is_none_or(|gateway| Some(gateway) == way.gateway)
    };
    wanted.len() == ways.len() && wanted.iter().zip(ways).all(is_one)
}

fn send_error(error: SendError) -> AdministrationError {
    match error {
        SendError::NoRoute => AdministrationError::NetworkUnreachable,
        SendError::Unreachable => AdministrationError::HostUnreachable,
        SendError::Prohibited | SendError::Broadcast => AdministrationError::Forbidden,
        SendError::Blackhole | SendError::TooBig(_) => AdministrationError::Invalid,
        SendError::NoSource => AdministrationError::NoAddress,
        SendError::NoMemory => AdministrationError::NoMemory,
    }
}

/// Returns the route of a packet, with its source.
///
/// # Errors
/// Those of [`interfaces::sockets::NetworkAdministration::route_to`].
pub(super) fn find(inet: &Inet, query: &RouteQuery) -> Result<RouteRecord, AdministrationError> {
    let interface = query.interface.map(records::index);
    // The unspecified address stands for this host.
    let destination = match query.destination {
        address if !address.is_unspecified() => address,
        address => Family::of(address).loopback(),
    };
    inet.run(|stack, run| {
        let all = run.configuration;
        if interface.is_some_and(|index| all.interface(index).is_none()) {
            return Err(AdministrationError::NoDevice);
        }
        if query.source.is_some_and(|source| {
            all.owner(source).is_none() && all.local_kind(source) != Some(RouteKind::Local)
        }) {
            return Err(AdministrationError::Invalid);
        }
        let request = SendRequest {
            source: query.source,
            interface,
            traffic_class: query.type_of_service,
            sender: SenderTraits { mark: query.mark, user: query.user, ports: query.ports },
            ..SendRequest::new(destination, query.protocol)
        };
        let path = stack.path(run, &request).map_err(send_error)?;
        let found = all.find_route(&request.flow(), run.now_ns).ok();
        let is_one = destination.is_ipv4() && !all.rules().has_changed4();
        let found = found.map(|(table, route)| {
            let told = if is_one && table == TableId::LOCAL { TableId::MAIN } else { table };
            records::route(told, route, run.now_ns)
        });
        let direct = Route::on_link(
            crate::base::address::Prefix::all(Family::of(destination)),
            path.interface,
        );
        let mut route = found.unwrap_or_else(|| records::route(TableId::MAIN, &direct, run.now_ns));
        if destination.is_multicast() {
            route.kind = number::KIND_MULTICAST;
        }
        route.interface = Some(path.interface.0);
        route.gateway = Some(path.next_hop).filter(|hop| *hop != destination);
        route.preferred_source = Some(path.source);
        Ok(route)
    })
}
