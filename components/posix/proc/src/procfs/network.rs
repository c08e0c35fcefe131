//! `/proc/net`: the texts of crate `netadmin` over the network stack that sockets use. Without a stack they are empty.
use super::items::{Item, ItemTable};
use alloc::{string::String, vec::Vec};
use interfaces::sockets::NetworkAdministration;
use netadmin::tables;
use objects::socket::{common, internet, local, netlink, packet};

fn of(text: impl FnOnce(&dyn NetworkAdministration) -> String) -> Vec<u8> {
    internet::administration().map_or_else(Vec::new, |network| text(&*network).into_bytes())
}

/// Returns `/proc/skerry/net`.
pub fn report() -> Vec<u8> {
    of(tables::report)
}

/// The files of `/proc/net`.
pub const FILES: ItemTable = &[
    ("arp", Item::File(|| of(tables::neighbours))),
    ("dev", Item::File(|| of(tables::devices))),
    ("dev_mcast", Item::File(|| of(tables::hardware_groups))),
    ("icmp", Item::File(|| of(tables::ping4))),
    ("if_inet6", Item::File(|| of(tables::addresses6))),
    ("igmp", Item::File(|| of(tables::groups4))),
    ("igmp6", Item::File(|| of(tables::groups6))),
    ("ipv6_route", Item::File(|| of(tables::routes6))),
    ("netlink", Item::File(|| netlink::table().into_bytes())),
    ("netstat", Item::File(|| of(tables::extended))),
    ("packet", Item::File(|| packet::table().into_bytes())),
    ("raw", Item::File(|| of(tables::raw4))),
    ("raw6", Item::File(|| of(tables::raw6))),
    ("route", Item::File(|| of(tables::routes4))),
    ("snmp", Item::File(|| of(tables::simple))),
    ("snmp6", Item::File(|| of(tables::counters6))),
    ("sockstat", Item::File(|| of(|network| tables::socket_counts(network, common::counts().0)))),
    ("sockstat6", Item::File(|| of(tables::socket_counts6))),
    ("tcp", Item::File(|| of(tables::tcp4))),
    ("tcp6", Item::File(|| of(tables::tcp6))),
    ("udp", Item::File(|| of(tables::udp4))),
    ("udp6", Item::File(|| of(tables::udp6))),
    ("unix", Item::File(|| local::table().into_bytes())),
];
