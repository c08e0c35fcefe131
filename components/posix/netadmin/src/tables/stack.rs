//! Tables of the stack's parts: its protocols, its routing tables, and the work of its threads.
use super::pad;
use alloc::{collections::BTreeMap, format, string::String, vec::Vec};
use core::{fmt::Write, net::IpAddr};
use interfaces::sockets::{
    NetworkAdministration, RouteRecord, SocketProtocol, SocketRecord, TableRecord, number,
};

/// Nanoseconds of a tick of a packet scheduler in Linux, and of a microsecond and a second.
const NS_PER_TICK: u32 = 64;
const NS_PER_US: u32 = 1000;
const NS_PER_S: u32 = 1_000_000_000;
/// Columns of a line of `softnet_stat` in Linux 6.1, and the place of the processor's number.
const WORK_COLUMNS: usize = 13;
const PROCESSOR_AT: usize = 12;

/// Returns `/proc/net/psched`: the units of time of packet schedulers.
pub fn scheduler_units() -> String {
    format!("{NS_PER_US:08x} {NS_PER_TICK:08x} {:08x} {NS_PER_S:08x}\n", NS_PER_S / NS_PER_US)
}

/// Returns `/proc/net/ptype`: the protocols that the stack receives from cards.
pub fn packet_types() -> String {
    String::from(
        "Type Device      Function\n0800          ip_rcv\n0806          arp_rcv\n86dd          ipv6_rcv\n",
    )
}

/// Returns `/proc/net/protocols`. Objects of sockets have no caches of their own, so sizes are zero; pages are those of all
/// queues of TCP and UDP.
pub fn protocols(network: &dyn NetworkAdministration) -> String {
    const HEAD: &str = "protocol  size sockets  memory press maxhdr  slab module     \
                        cl co di ac io in de sh ss gs se re bi br ha uh gp em\n";
    /// Bytes of headers before a segment.
    const HEADERS: u32 = 192;
    let mut text = String::from(HEAD);
    let lists = [
        (
            "PING",
            SocketProtocol::Ping,
            None,
            0,
            "y  y  y  n  n  y  n  n  y  y  y  y  y  y  n  y  y  n",
        ),
        (
            "RAW",
            SocketProtocol::Raw,
            None,
            0,
            "y  y  y  n  y  y  y  n  y  y  y  y  y  y  y  y  n  n",
        ),
        (
            "UDP",
            SocketProtocol::Udp,
            Some("NI"),
            0,
            "y  y  y  n  y  y  y  n  y  y  y  y  n  n  y  y  y  n",
        ),
        (
            "TCP",
            SocketProtocol::Tcp,
            Some("no"),
            HEADERS,
            "y  y  y  y  y  y  y  y  y  y  y  y  n  y  y  y  y  y",
        ),
    ];
    let lists = lists.map(|(name, protocol, press, headers, calls)| {
        (name, network.sockets(protocol), press, headers, calls)
    });
    for is_version6 in [true, false] {
        let suffix = if is_version6 { "v6" } else { "" };
        for (name, sockets, press, headers, calls) in &lists {
            let count = sockets.iter().filter(|one| one.is_version6 == is_version6).count();
            let memory = press.map_or(-1, |_| pages(sockets));
            let _ = writeln!(
                text,
                "{:<9} {:4} {count:6}  {memory:6}   {:<3} {headers:6}   {:<3}  {:<10} {calls}",
                format!("{name}{suffix}"),
                0,
                press.unwrap_or("NI"),
                "yes",
                "kernel"
            );
        }
    }
    text
}

/// Returns the pages of the queues of sockets.
fn pages(sockets: &[SocketRecord]) -> i64 {
    let bytes = |one: &SocketRecord| u64::from(one.receive_queue) + u64::from(one.send_queue);
    let all: u64 = sockets.iter().filter(|one| one.inode != 0).map(bytes).sum();
    i64::try_from(all.div_ceil(4096)).unwrap_or(i64::MAX)
}

/// Returns `/proc/net/softnet_stat`: packets received and dropped, a line a processor. The stack does not count by processor: the line
/// of the first one tells all.
pub fn packet_work(network: &dyn NetworkAdministration, processors: usize) -> String {
    let links = network.links();
    let received: u64 = links.iter().map(|link| link.counts.rx_packets).sum();
    let dropped: u64 = links.iter().map(|link| link.counts.rx_dropped).sum();
    let mut text = String::new();
    for processor in 0..processors {
        let counts = if processor == 0 { (received, dropped) } else { (0, 0) };
        for column in 0..WORK_COLUMNS {
            let value = match column {
                0 => counts.0 as u32,
                1 => counts.1 as u32,
                PROCESSOR_AT => processor as u32,
                _ => 0,
            };
            let gap = if column == 0 { "" } else { " " };
            let _ = write!(text, "{gap}{value:08x}");
        }
        text.push('\n');
    }
    text
}

/// Returns the name of a scope, and that of a type, as `fib_trie` has them.
fn names(route: &RouteRecord) -> (String, &'static str) {
    let scope = match route.scope {
        number::SCOPE_UNIVERSE => "universe".into(),
        number::SCOPE_SITE => "site".into(),
        number::SCOPE_LINK => "link".into(),
        number::SCOPE_HOST => "host".into(),
        number::SCOPE_NOWHERE => "nowhere".into(),
        other => format!("scope={other}"),
    };
    let kind = match route.kind {
        number::KIND_UNICAST => "UNICAST",
        number::KIND_LOCAL => "LOCAL",
        number::KIND_BROADCAST => "BROADCAST",
        number::KIND_ANYCAST => "ANYCAST",
        number::KIND_MULTICAST => "MULTICAST",
        number::KIND_BLACKHOLE => "BLACKHOLE",
        number::KIND_UNREACHABLE => "UNREACHABLE",
        number::KIND_PROHIBIT => "PROHIBIT",
        number::KIND_THROW => "THROW",
        _ => "UNSPEC",
    };
    (scope, kind)
}

/// The routes of a table by their first addresses.
type Leaves = BTreeMap<IpAddr, Vec<RouteRecord>>;

/// Returns the tables of IPv4 with their routes.
fn tables(network: &dyn NetworkAdministration) -> Vec<(String, Leaves)> {
    let mut all: BTreeMap<u32, Leaves> = BTreeMap::new();
    let known = network.tables().into_iter().filter(|table| !table.is_version6);
    all.extend(known.map(|TableRecord { number, .. }| (number, Leaves::new())));
    for route in network.routes().into_iter().filter(|route| route.destination.is_ipv4()) {
        let leaves = all.entry(route.table).or_default();
        leaves.entry(route.destination).or_default().push(route);
    }
    let name = |table| match table {
        number::TABLE_LOCAL => "Local:".into(),
        number::TABLE_MAIN => "Main:".into(),
        other => format!("Id {other}:"),
    };
    all.into_iter().map(|(table, leaves)| (name(table), leaves)).collect()
}

/// Returns `/proc/net/fib_trie`: the routes of IPv4 by table and first address. The tables are no tries, so that there are leaves alone.
pub fn route_leaves(network: &dyn NetworkAdministration) -> String {
    let mut text = String::new();
    for (name, leaves) in tables(network) {
        let _ = writeln!(text, "{name}");
        for (first, mut routes) in leaves {
            let _ = writeln!(text, "  |-- {first}");
            routes.sort_by_key(|route| u8::MAX - route.prefix_length);
            for route in &routes {
                let (scope, kind) = names(route);
                let _ = writeln!(text, "     /{} {scope} {kind}", route.prefix_length);
            }
        }
    }
    text
}

/// Returns `/proc/net/fib_triestat`: the numbers of routes and destinations of IPv4, by table.
pub fn route_counts(network: &dyn NetworkAdministration) -> String {
    let mut text = format!(
        "Basic info: size of leaf: {} bytes, size of tnode: 0 bytes.\n",
        size_of::<RouteRecord>()
    );
    for (name, leaves) in tables(network) {
        let prefixes: usize = leaves.values().map(Vec::len).sum();
        let bytes = prefixes * size_of::<RouteRecord>();
        let _ = write!(
            text,
            "{name}\n\tAver depth:     0.00\n\tMax depth:      0\n\tLeaves:         {}\n\t\
             Prefixes:       {prefixes}\n\tInternal nodes: 0\n\t\n\tPointers: 0\nNull ptrs: 0\n\
             Total size: {}  kB\n",
            leaves.len(),
            bytes.div_ceil(1024)
        );
    }
    text
}

/// Returns `/proc/net/rt_cache`: Linux has had no cache of routes since 3.6.
pub fn route_cache() -> String {
    const WIDTH: usize = 127;
    let mut text = String::from(
        "Iface\tDestination\tGateway \tFlags\t\tRefCnt\tUse\tMetric\tSource\t\tMTU\tWindow\tIRTT\t\
         TOS\tHHRef\tHHUptod\tSpecDst",
    );
    pad(&mut text, 0, WIDTH);
    text
}
