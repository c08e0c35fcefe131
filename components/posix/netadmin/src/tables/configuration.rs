//! Interfaces, addresses, routes, neighbours and groups.
use super::{digits6, pad};
use crate::base::{arp, colons, mask4};
use alloc::{collections::BTreeMap, format, string::String, vec, vec::Vec};
use core::{
    fmt::Write,
    net::{IpAddr, Ipv4Addr},
};
use interfaces::sockets::{
    LinkKind, LinkRecord, MembershipRecord, NetworkAdministration, RouteMetrics, RouteRecord,
    RouteWayRecord, number,
};

/// Writes to a text, which cannot fail.
macro_rules! line {
    ($text:expr, $($part:tt)*) => { let _ = write!($text, $($part)*); };
}

fn names(network: &dyn NetworkAdministration) -> BTreeMap<u32, LinkRecord> {
    network.links().into_iter().map(|link| (link.index, link)).collect()
}

fn name_of(links: &BTreeMap<u32, LinkRecord>, index: u32) -> &str {
    links.get(&index).map_or("", |link| link.name.as_str())
}

/// Returns `/proc/net/dev`.
pub fn devices(network: &dyn NetworkAdministration) -> String {
    let mut text = String::from(
        "Inter-|   Receive                                                |  Transmit\n \
         face |bytes    packets errs drop fifo frame compressed multicast|\
         bytes    packets errs drop fifo colls carrier compressed\n",
    );
    for link in network.links() {
        let it = &link.counts;
        line!(
            text,
            "{:>6}: {:7} {:7} {:4} {:4} {:4} {:5} {:10} {:9} ",
            link.name,
            it.rx_bytes,
            it.rx_packets,
            it.rx_errors,
            it.rx_dropped,
            0,
            it.rx_frame_errors,
            0,
            it.multicast
        );
        line!(
            text,
            "{:8} {:7} {:4} {:4} {:4} {:5} {:7} {:10}\n",
            it.tx_bytes,
            it.tx_packets,
            it.tx_errors,
            it.tx_dropped,
            0,
            0,
            0,
            0
        );
    }
    text
}

/// `RTF_*` as `/proc/net/route` shows them.
mod route_flag {
    pub(super) const UP: u32 = 1;
    pub(super) const GATEWAY: u32 = 2;
    pub(super) const HOST: u32 = 4;
    pub(super) const REJECT: u32 = 0x200;
    pub(super) const EXPIRES: u32 = 0x40_0000;
    pub(super) const ADVERTISED: u32 = 0x4_0000;
    pub(super) const NO_NEXT_HOP: u32 = 0x20_0000;
    pub(super) const LOCAL: u32 = 0x8000_0000;
}

fn is_rejecting(route: &RouteRecord) -> bool {
    matches!(route.kind, number::KIND_UNREACHABLE | number::KIND_PROHIBIT)
}

/// Returns the word of an address of IPv4 as Linux prints it: the bytes of the network as a number of the machine.
fn word(address: Ipv4Addr) -> u32 {
    u32::from_le_bytes(address.octets())
}

/// Returns `/proc/net/route`: the main table of IPv4.
pub fn routes4(network: &dyn NetworkAdministration) -> String {
    const WIDTH: usize = 127;
    /// Bytes of the headers of TCP and IP, with which a segment is told.
    const HEADERS: u32 = 40;
    const HEAD: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\t\
                        MTU\tWindow\tIRTT";
    let links = names(network);
    let mut text = String::from(HEAD);
    pad(&mut text, 0, WIDTH);
    let mut routes = network.routes();
    routes.retain(|route| {
        let is_shown = !matches!(route.kind, number::KIND_BROADCAST | number::KIND_MULTICAST);
        route.table == number::TABLE_MAIN && route.destination.is_ipv4() && is_shown
    });
    routes.sort_by_key(|route| (route.destination, u8::MAX - route.prefix_length, route.metric));
    for route in &routes {
        let IpAddr::V4(destination) = route.destination else { continue };
        let gateway = match route.gateway {
            Some(IpAddr::V4(gateway)) => word(gateway),
            _ => 0,
        };
        let mut flags = route_flag::UP;
        flags |= if is_rejecting(route) { route_flag::REJECT } else { 0 };
        flags |= if gateway != 0 { route_flag::GATEWAY } else { 0 };
        flags |= if route.prefix_length == 32 { route_flag::HOST } else { 0 };
        let mask = mask4(route.prefix_length).swap_bytes();
        let (name, metric) = match route.interface {
            Some(index) => (name_of(&links, index), route.metric),
            None => ("*", 0),
        };
        let segment = route.metrics.get(RouteMetrics::ADVERTISED_SEGMENT);
        let start = text.len();
        line!(
            text,
            "{name}\t{:08X}\t{gateway:08X}\t{flags:04X}\t0\t0\t{metric}\t{mask:08X}\t{}\t{}\t{}",
            word(destination),
            if segment == 0 { 0 } else { segment + HEADERS },
            route.metrics.get(RouteMetrics::WINDOW),
            route.metrics.get(RouteMetrics::ROUND_TRIP) >> 3
        );
        pad(&mut text, start, WIDTH);
    }
    text
}

/// Returns a route of several ways as one of each.
fn each_way(route: RouteRecord) -> Vec<RouteRecord> {
    if route.ways.is_empty() {
        return vec![route];
    }
    let one = |way: &RouteWayRecord| RouteRecord {
        interface: Some(way.interface),
        gateway: way.gateway,
        ways: Vec::new(),
        ..route.clone()
    };
    route.ways.iter().map(one).collect()
}

/// Returns `/proc/net/ipv6_route`: all tables of IPv6.
pub fn routes6(network: &dyn NetworkAdministration) -> String {
    let links = names(network);
    let mut text = String::new();
    let mut routes: Vec<_> = network.routes().into_iter().flat_map(each_way).collect();
    routes.sort_by_key(|route| (route.destination, route.prefix_length, route.metric));
    for route in &routes {
        let IpAddr::V6(destination) = route.destination else { continue };
        let gateway = match route.gateway {
            Some(IpAddr::V6(gateway)) => digits6(gateway),
            _ => digits6(core::net::Ipv6Addr::UNSPECIFIED),
        };
        let mut flags = route_flag::UP;
        let sets = [
            (is_rejecting(route), route_flag::REJECT | route_flag::NO_NEXT_HOP),
            (route.kind == number::KIND_LOCAL, route_flag::LOCAL | route_flag::NO_NEXT_HOP),
            (route.gateway.is_some(), route_flag::GATEWAY),
            (route.expires_s.is_some(), route_flag::EXPIRES),
            (route.protocol == number::PROTOCOL_ADVERTISEMENT, route_flag::ADVERTISED),
        ];
        flags |= sets.into_iter().filter(|(is, _)| *is).fold(0, |all, (_, bit)| all | bit);
        line!(
            text,
            "{} {:02x} {} 00 {gateway} {:08x} 00000001 00000000 {flags:08x} {:>8}\n",
            digits6(destination),
            route.prefix_length,
            digits6(core::net::Ipv6Addr::UNSPECIFIED),
            route.metric,
            name_of(&links, route.interface.unwrap_or(1))
        );
    }
    text
}

/// Returns `/proc/net/if_inet6`.
pub fn addresses6(network: &dyn NetworkAdministration) -> String {
    let links = names(network);
    let mut text = String::new();
    for one in network.addresses() {
        let IpAddr::V6(address) = one.address else { continue };
        // `IPV6_ADDR_LOOPBACK`, `IPV6_ADDR_LINKLOCAL`, `IPV6_ADDR_SITELOCAL`.
        let scope = match one.scope {
            number::SCOPE_HOST => 0x10,
            number::SCOPE_LINK => 0x20,
            number::SCOPE_SITE => 0x40,
            _ => 0,
        };
        line!(
            text,
            "{} {:02x} {:02x} {scope:02x} {:02x} {:>8}\n",
            digits6(address),
            one.interface,
            one.prefix_length,
            one.flags as u8,
            name_of(&links, one.interface)
        );
    }
    text
}

/// Returns `/proc/net/arp`.
pub fn neighbours(network: &dyn NetworkAdministration) -> String {
    let links = names(network);
    let mut text = String::from(
        "IP address       HW type     Flags       HW address            Mask     Device\n",
    );
    for one in network.neighbours() {
        let (IpAddr::V4(address), Some(link)) = (one.address, links.get(&one.interface)) else {
            continue;
        };
        if one.state & number::NEIGHBOUR_NOARP != 0 {
            continue;
        }
        let is_valid = one.state & number::NEIGHBOUR_VALID != 0;
        let is_permanent = one.state & number::NEIGHBOUR_PERMANENT != 0;
        let flags = match (is_permanent, is_valid) {
            (true, _) => arp::COMPLETE | arp::PERMANENT,
            (_, true) => arp::COMPLETE,
            _ => 0,
        };
        line!(
            text,
            "{:<16} 0x{:<10x}0x{flags:<10x}{:<17}     *        {}\n",
            format!("{address}"),
            link.hardware,
            colons(one.mac.unwrap_or_default()),
            link.name
        );
    }
    text
}

fn by_link(
    network: &dyn NetworkAdministration,
    takes: impl Fn(&MembershipRecord) -> bool,
) -> BTreeMap<u32, Vec<MembershipRecord>> {
    let mut all: BTreeMap<u32, Vec<MembershipRecord>> = BTreeMap::new();
    for one in network.memberships().into_iter().filter(takes) {
        all.entry(one.interface).or_default().push(one);
    }
    all
}

/// Returns `/proc/net/igmp`.
pub fn groups4(network: &dyn NetworkAdministration) -> String {
    let links = names(network);
    let mut text = String::from("Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n");
    for (index, groups) in by_link(network, |one| one.group.is_ipv4()) {
        let name = name_of(&links, index);
        line!(text, "{index}\t{name:<10}: {:5} {:>7}\n", groups.len(), "V3");
        for one in groups {
            let IpAddr::V4(group) = one.group else { continue };
            line!(text, "\t\t\t\t{:08X} {:5} 0:00000000\t\t0\n", word(group), one.users);
        }
    }
    text
}

/// Returns `/proc/net/igmp6`.
pub fn groups6(network: &dyn NetworkAdministration) -> String {
    /// `MAF_LAST_REPORTER | MAF_LOADED`.
    const FLAGS: u32 = 0xc;
    let links = names(network);
    let mut text = String::new();
    for (index, groups) in by_link(network, |one| one.group.is_ipv6()) {
        let name = name_of(&links, index);
        for one in groups {
            let IpAddr::V6(group) = one.group else { continue };
            line!(text, "{index:<4} {name:<15} {} {:5} {FLAGS:08X} 0\n", digits6(group), one.users);
        }
    }
    text
}

/// Returns `/proc/net/dev_mcast`: groups as addresses of Ethernet.
pub fn hardware_groups(network: &dyn NetworkAdministration) -> String {
    let links = names(network);
    let mut all: BTreeMap<(u32, [u8; 6]), (u32, u32)> = BTreeMap::new();
    for link in network.links() {
        let groups = link.groups.iter();
        all.extend(groups.map(|one| ((link.index, one.address), (one.users, one.is_fixed.into()))));
    }
    for one in network.memberships() {
        if links.get(&one.interface).is_none_or(|link| link.kind != LinkKind::Ethernet) {
            continue;
        }
        let mac = match one.group {
            IpAddr::V4(group) => {
                let [_, b, c, d] = group.octets();
                [1, 0, 0x5e, b & 0x7f, c, d]
            }
            // Groups of the interface alone reach no wire.
            IpAddr::V6(group) if group.segments()[0] & 0xf < 2 => continue,
            IpAddr::V6(group) => {
                let low = (group.to_bits() as u32).to_be_bytes();
                [0x33, 0x33, low[0], low[1], low[2], low[3]]
            }
        };
        let (users, _) = all.entry((one.interface, mac)).or_default();
        *users = users.saturating_add(1);
    }
    let mut text = String::new();
    for ((index, mac), (users, fixed)) in all {
        let hex: String = mac.iter().map(|byte| format!("{byte:02x}")).collect();
        line!(text, "{index:<4} {:<15} {users:<5} {fixed:<5} {hex}\n", name_of(&links, index));
    }
    text
}
