//! Notices of changes, for programs that listen to groups (`ip monitor`).
use super::{address, inquiry::kind, link, neighbour, routes, rule, settings};
use crate::{
    base::{INET, INET6, family_of},
    wire::{Reply, flag},
};
use alloc::vec::Vec;
use core::net::IpAddr;
use interfaces::sockets::{NetworkNotice, RuleRecord};

/// `RTNLGRP_*`.
mod group {
    pub(super) const LINK: u32 = 1;
    pub(super) const NEIGHBOUR: u32 = 3;
    pub(super) const ADDRESS4: u32 = 5;
    pub(super) const ROUTE4: u32 = 7;
    pub(super) const RULE4: u32 = 8;
    pub(super) const ADDRESS6: u32 = 9;
    pub(super) const ROUTE6: u32 = 11;
    pub(super) const RULE6: u32 = 19;
    pub(super) const SETTINGS4: u32 = 24;
    pub(super) const SETTINGS6: u32 = 25;
}

/// A message to the listeners of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// Number of the group, from 1.
    pub group: u32,
    /// The message.
    pub message: Vec<u8>,
}

fn chosen(address: IpAddr, version4: u32, version6: u32) -> u32 {
    if family_of(address) == INET { version4 } else { version6 }
}

fn rule_group(rule: &RuleRecord) -> u32 {
    if rule.is_version6 { group::RULE6 } else { group::RULE4 }
}

/// Returns the messages that tell of a change: of an interface that comes or goes also its settings (`RTNLGRP_IPV4_NETCONF`).
pub fn notifications(notice: &NetworkNotice) -> Vec<Notification> {
    let reply = Reply::default();
    let of_families = |describe: fn(Reply, u8, u32) -> Vec<u8>, index| {
        [(group::SETTINGS4, INET), (group::SETTINGS6, INET6)]
            .map(|(group, family)| Notification { group, message: describe(reply, family, index) })
    };
    let mut all = Vec::from([notification(notice)]);
    match notice {
        // All flags of a new interface have changed.
        NetworkNotice::Link(one, u32::MAX) => all.extend(of_families(settings::of_new, one.index)),
        NetworkNotice::LinkGone(one) => all.extend(of_families(settings::of_gone, one.index)),
        _ => {}
    }
    all
}

/// Returns the message that tells of a change.
pub(crate) fn notification(notice: &NetworkNotice) -> Notification {
    let reply = Reply::default();
    let replaced = Reply { flags: flag::REPLACE, ..reply };
    let (group, message) = match notice {
        NetworkNotice::Link(one, change) => (
            group::LINK,
            link::describe(reply, (kind::NEW_LINK, *change), one, link::CountsShown::Told),
        ),
        NetworkNotice::LinkGone(one) => {
            let head = (kind::DELETE_LINK, u32::MAX);
            (group::LINK, link::describe(reply, head, one, link::CountsShown::Told))
        }
        NetworkNotice::Address(one) => (
            chosen(one.address, group::ADDRESS4, group::ADDRESS6),
            address::describe(reply, kind::NEW_ADDRESS, one),
        ),
        NetworkNotice::AddressGone(one) => (
            chosen(one.address, group::ADDRESS4, group::ADDRESS6),
            address::describe(reply, kind::DELETE_ADDRESS, one),
        ),
        NetworkNotice::Route(one) => (
            chosen(one.destination, group::ROUTE4, group::ROUTE6),
            routes::describe(reply, kind::NEW_ROUTE, one),
        ),
        NetworkNotice::RouteReplaced(one) => (
            chosen(one.destination, group::ROUTE4, group::ROUTE6),
            routes::describe(replaced, kind::NEW_ROUTE, one),
        ),
        NetworkNotice::RouteGone(one) => (
            chosen(one.destination, group::ROUTE4, group::ROUTE6),
            routes::describe(reply, kind::DELETE_ROUTE, one),
        ),
        NetworkNotice::Rule(one) => (rule_group(one), rule::describe(reply, kind::NEW_RULE, one)),
        NetworkNotice::RuleGone(one) => {
            (rule_group(one), rule::describe(reply, kind::DELETE_RULE, one))
        }
        NetworkNotice::Neighbour(one) => {
            (group::NEIGHBOUR, neighbour::describe(reply, kind::NEW_NEIGHBOUR, one))
        }
        NetworkNotice::NeighbourGone(one) => {
            (group::NEIGHBOUR, neighbour::describe(reply, kind::DELETE_NEIGHBOUR, one))
        }
    };
    Notification { group, message }
}
