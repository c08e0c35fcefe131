//! The differences between two configurations.
use super::records;
use crate::{
    base::address::Family,
    service::inet::Inet,
    tables::{
        configuration::Configuration,
        interface::Interface,
        routes::{Route, TableId, maker},
    },
};
use alloc::vec::Vec;
use interfaces::sockets::{NetworkNotice, RuleRecord};

/// Returns the notices of what has changed: first what is gone, from routes down to interfaces, then what is new.
pub(super) fn between(inet: &Inet, old: &Configuration, new: &Configuration) -> Vec<NetworkNotice> {
    let now_ns = inet.now_ns();
    let mut notices = Vec::new();
    let are_routes_new = old.routes != new.routes;
    if are_routes_new {
        for (table, route) in old.routes.iter() {
            let is_gone = !has(new, table, route);
            if is_gone && successors(new, table, route).all(|next| has(old, table, next)) {
                notices.push(NetworkNotice::RouteGone(records::route(table, route, now_ns)));
            }
        }
    }
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
                notices.push(NetworkNotice::Address(record));
            }
        }
    }
    rules_between(old, new, &mut notices);
    if are_routes_new {
        for (table, route) in new.routes.iter().filter(|(table, one)| !has(old, *table, one)) {
            let record = records::route(table, route, now_ns);
            let is_replacement = route.protocol != maker::KERNEL
                && old
                    .routes
                    .to(table, route.destination)
                    .iter()
                    .any(|one| one.metric == route.metric && !has(new, table, one));
            notices.push(match is_replacement {
                true => NetworkNotice::RouteReplaced(record),
                false => NetworkNotice::Route(record),
            });
        }
    }
    notices
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
        (interface.flags, interface.mtu, interface.mac, interface.transmit_queue)
    };
    key(one) != key(next) || (&one.name, &one.alias) != (&next.name, &next.alias)
}
