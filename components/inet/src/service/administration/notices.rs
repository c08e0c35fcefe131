//! The differences between two configurations.
use super::records;
use crate::{
    base::address::Family,
    service::inet::Inet,
    tables::{
        configuration::Configuration,
        interface::Interface,
        routes::{Route, RouteKind, TableId, maker},
    },
};
use alloc::vec::Vec;
use core::net::IpAddr;
use interfaces::sockets::{NetworkNotice, RuleRecord};

/// Returns the notices of what has changed: first what is gone, then what is new; rules between them.
pub(super) fn between(inet: &Inet, old: &Configuration, new: &Configuration) -> Vec<NetworkNotice> {
    let now_ns = inet.now_ns();
    let mut notices = Vec::new();
    let are_routes_new = old.routes != new.routes;
    for one in old.interfaces() {
        let next = new.interface(one.index);
        if next.is_some_and(|next| core::ptr::eq(next, one)) {
            continue;
        }
        gone_addresses(one, next, now_ns, &mut notices);
        if next.is_none() {
            notices.push(NetworkNotice::LinkGone(records::link(inet, one)));
        }
    }
    if are_routes_new {
        gone_routes(old, new, now_ns, &mut notices);
    }
    rules_between(old, new, &mut notices);
    let mut fresh = Vec::new();
    for next in new.interfaces() {
        let one = old.interface(next.index);
        if one.is_some_and(|one| core::ptr::eq(next, one)) {
            continue;
        }
        if one.is_none_or(|one| is_link_new(one, next)) {
            let before = one.map_or(!0, records::flags);
            let changed = if one.is_none() { !0 } else { before ^ records::flags(next) };
            notices.push(NetworkNotice::Link(records::link(inet, next), changed));
        }
        for address in &next.addresses {
            let known = one.and_then(|one| one.address(address.address));
            if known != Some(address) {
                let record = records::address(next, address, now_ns);
                fresh.push((place_of_address(address.address), NetworkNotice::Address(record)));
            }
        }
    }
    if are_routes_new {
        for (table, route) in new.routes.iter().filter(|(table, one)| !has(old, *table, one)) {
            let record = records::route(table, route, now_ns);
            let is_replacement = route.protocol != maker::KERNEL
                && old
                    .routes
                    .to(table, route.destination)
                    .iter()
                    .any(|one| one.metric == route.metric && !has(new, table, one));
            let notice = match is_replacement {
                true => NetworkNotice::RouteReplaced(record),
                false => NetworkNotice::Route(record),
            };
            fresh.push((place_of_route(route), notice));
        }
    }
    fresh.sort_by_key(|(place, _)| *place);
    notices.extend(fresh.into_iter().map(|(_, notice)| notice));
    notices
}

/// Returns the place of a new address among the notices of its own routes, as on Linux: the network's route of IPv6 comes before it.
fn place_of_address(address: IpAddr) -> u8 {
    u8::from(address.is_ipv6())
}

/// Returns the place of a new route: those that come with an address are in the order of Linux, before all others.
fn place_of_route(route: &Route) -> u8 {
    match (route.destination.address(), route.kind) {
        _ if route.protocol != maker::KERNEL => 4,
        (IpAddr::V4(_), RouteKind::Local) if route.destination.is_host() => 1,
        (IpAddr::V4(_), RouteKind::Broadcast) => 3,
        (IpAddr::V4(_), _) => 2,
        (IpAddr::V6(_), RouteKind::Local) => 2,
        (IpAddr::V6(_), _) => 0,
    }
}

/// Adds the notices of routes that are gone without a successor. Those that went with an address are in the order of Linux: the other
/// way round.
fn gone_routes(
    old: &Configuration,
    new: &Configuration,
    now_ns: u64,
    notices: &mut Vec<NetworkNotice>,
) {
    let mut gone = Vec::new();
    for (table, route) in old.routes.iter() {
        let is_gone = !has(new, table, route);
        if is_gone && successors(new, table, route).all(|next| has(old, table, next)) {
            let place = match (route.destination.address(), place_of_route(route)) {
                (IpAddr::V4(_), 1) => 4,
                (IpAddr::V6(_), place @ 0..=2) => 3 - place,
                (_, place) => place,
            };
            let notice = NetworkNotice::RouteGone(records::route(table, route, now_ns));
            gone.push((place, notice));
        }
    }
    gone.sort_by_key(|(place, _)| *place);
    notices.extend(gone.into_iter().map(|(_, notice)| notice));
}

/// Adds the notices of rules: first of those that are gone. A list may have a rule twice.
fn rules_between(old: &Configuration, new: &Configuration, notices: &mut Vec<NetworkNotice>) {
    for family in [Family::V4, Family::V6] {
        if old.rules().changed(family) == new.rules().changed(family) {
            continue;
        }
        let [before, mut after] = [old, new].map(|all| all.list_rules(family));
        // Flags follow from other tables.
        let is_one = |one: &RuleRecord, other: &RuleRecord| {
            RuleRecord { flags: other.flags, ..one.clone() } == *other
        };
        for rule in before {
            match after.iter().position(|other| is_one(other, &rule)) {
                Some(place) => drop(after.remove(place)),
                None => notices.push(NetworkNotice::RuleGone(rule)),
            }
        }
        notices.extend(after.into_iter().map(NetworkNotice::Rule));
    }
}

/// Returns whether a table has a route. Its lifetime does not count: a router that renews a route changes nothing else.
fn has(all: &Configuration, table: TableId, route: &Route) -> bool {
    let route = Route { expires_ns: None, ..route.clone() };
    let mut known = all.routes.to(table, route.destination).iter();
    known.any(|one| Route { expires_ns: None, ..one.clone() } == route)
}

/// Returns the routes that may have taken the place of `route` at a user's or a router's word: those of its metric. The routes of
/// addresses come and go by themselves.
fn successors<'c>(
    new: &'c Configuration,
    table: TableId,
    route: &Route,
) -> impl Iterator<Item = &'c Route> {
    let metric = route.metric;
    let all = new.routes.to(table, route.destination).iter();
    all.filter(move |one| one.metric == metric && one.protocol != maker::KERNEL)
}

fn gone_addresses(
    one: &Interface,
    next: Option<&Interface>,
    now_ns: u64,
    notices: &mut Vec<NetworkNotice>,
) {
    for address in &one.addresses {
        if next.is_none_or(|next| next.address(address.address).is_none()) {
            let record = records::address(one, address, now_ns);
            notices.push(NetworkNotice::AddressGone(record));
        }
    }
}

/// Returns whether users see a difference between two states of an interface.
fn is_link_new(one: &Interface, next: &Interface) -> bool {
    let key = |interface: &Interface| {
        let Interface { flags, mtu, mac, transmit_queue, hardware, .. } = *interface;
        (flags, mtu, mac, transmit_queue, hardware)
    };
    key(one) != key(next) || (&one.name, &one.alias) != (&next.name, &next.alias)
}
