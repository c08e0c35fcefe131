//! `/proc/net`: the texts of crate `netadmin` over the network stack that sockets use. Without a stack they are empty.
use super::items::{Item, ItemTable};
use alloc::{string::String, sync::Arc, vec::Vec};
use interfaces::sockets::NetworkAdministration;
use netadmin::tables;
use objects::socket::{common, internet, local, netlink, packet};
use process::Task;
use vfs::{Principal, security::SecuritySubject};

fn of(text: impl FnOnce(&dyn NetworkAdministration) -> String) -> Vec<u8> {
    internet::administration().map_or_else(Vec::new, |network| text(&*network).into_bytes())
}

/// Returns the subject of a reader.
fn subject_of(reader: &dyn Principal) -> Arc<SecuritySubject> {
    Task::of(reader).map_or_else(SecuritySubject::kernel, |task| task.credentials().subject.clone())
}

/// Returns a text about the sockets that a reader may see.
fn seen(
    reader: &dyn Principal,
    text: impl FnOnce(&dyn NetworkAdministration) -> String,
) -> Vec<u8> {
    let network = internet::administration_for(&subject_of(reader));
    network.map_or_else(Vec::new, |network| text(&*network).into_bytes())
}

/// Returns `/proc/skerry/net`, with the sockets that a reader may see.
pub fn report(reader: &dyn Principal) -> Vec<u8> {
    seen(reader, tables::report)
}

fn processors() -> usize {
    rt::thread::processors().0 as usize
}

/// The files of `/proc/net/stat`.
const STATISTICS: ItemTable = &[
    ("arp_cache", Item::File(|| of(|network| tables::arp_cache(network, processors())))),
    ("ndisc_cache", Item::File(|| of(|network| tables::ndisc_cache(network, processors())))),
    ("rt_cache", Item::File(|| tables::route_cache_counts(processors()).into_bytes())),
];

/// The files of `/proc/net`.
pub const FILES: ItemTable = &[
    ("anycast6", Item::File(Vec::new)),
    ("arp", Item::File(|| of(tables::neighbours))),
    ("dev", Item::Graded(|reader| seen(reader, tables::devices))),
    ("dev_mcast", Item::File(|| of(tables::hardware_groups))),
    ("fib_trie", Item::File(|| of(tables::route_leaves))),
    ("fib_triestat", Item::File(|| of(tables::route_counts))),
    ("icmp", Item::Graded(|reader| seen(reader, tables::ping4))),
    ("icmp6", Item::Graded(|reader| seen(reader, tables::ping6))),
    ("if_inet6", Item::File(|| of(tables::addresses6))),
    ("igmp", Item::File(|| of(tables::groups4))),
    ("igmp6", Item::File(|| of(tables::groups6))),
    ("ipv6_route", Item::File(|| of(tables::routes6))),
    ("mcfilter", Item::File(|| tables::sources4().into_bytes())),
    ("mcfilter6", Item::File(|| tables::sources6().into_bytes())),
    ("netlink", Item::Graded(|reader| netlink::table(&subject_of(reader)).into_bytes())),
    ("netstat", Item::OfAll(|| of(tables::extended))),
    ("packet", Item::Graded(|reader| packet::table(&subject_of(reader)).into_bytes())),
    ("protocols", Item::Graded(|reader| seen(reader, tables::protocols))),
    ("psched", Item::File(|| tables::scheduler_units().into_bytes())),
    ("ptype", Item::File(|| tables::packet_types().into_bytes())),
    ("raw", Item::Graded(|reader| seen(reader, tables::raw4))),
    ("raw6", Item::Graded(|reader| seen(reader, tables::raw6))),
    ("route", Item::File(|| of(tables::routes4))),
    ("rt_cache", Item::File(|| tables::route_cache().into_bytes())),
    ("snmp", Item::OfAll(|| of(tables::simple))),
    ("snmp6", Item::OfAll(|| of(tables::counters6))),
    ("sockstat", Item::OfAll(|| of(|network| tables::socket_counts(network, common::counts().0)))),
    ("sockstat6", Item::Graded(|reader| seen(reader, tables::socket_counts6))),
    ("softnet_stat", Item::OfAll(|| of(|network| tables::packet_work(network, processors())))),
    ("stat", Item::Directory(STATISTICS)),
    ("tcp", Item::Graded(|reader| seen(reader, tables::tcp4))),
    ("tcp6", Item::Graded(|reader| seen(reader, tables::tcp6))),
    ("udp", Item::Graded(|reader| seen(reader, tables::udp4))),
    ("udp6", Item::Graded(|reader| seen(reader, tables::udp6))),
    ("udplite", Item::Graded(|reader| seen(reader, tables::lite4))),
    ("udplite6", Item::Graded(|reader| seen(reader, tables::lite6))),
    ("unix", Item::Graded(|reader| local::table(reader).into_bytes())),
];
