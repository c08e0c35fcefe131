//! The options of IPv4 (ip(7)), of IPv6 (ipv6(7)) and of UDP (udp(7)).
use super::{Having, LEVEL_IP, LEVEL_IP6, LEVEL_UDP, OptionRow, ValueRange, bit, flag, row};
use interfaces::sockets::PathDiscovery;
use linux_raw_sys::net as raw;
use vfs::{Capabilities, Errno};

/// Hops of a packet if no option says otherwise (`net.ipv4.ip_default_ttl`, `net.ipv6.conf.all.hop_limit`).
const HOPS: i32 = 64;
/// Hops of a packet to a group if no option says otherwise.
const GROUP_HOPS: u8 = 1;
/// Bits of the TOS octet that are ECN's (RFC 3168); those of a stream are TCP's own.
const ECN: u8 = 3;
const ALL: Having = Having::ALL;
const STREAM: Having = Having::STREAM;
const DATAGRAM: Having = Having::DATAGRAM;
const RAW: Having = Having::RAW;
const NOT_STREAM: Having = DATAGRAM.union(Having::RAW);
const NOT_RAW: Having = DATAGRAM.union(Having::STREAM);
/// The least MTU of IPv6.
const MTU6_LEAST: i32 = 1280;

// Numbers that the bindings of the kernel's headers lack: those of `linux/udp.h`.
const UDP_CORK: u32 = 1;
const UDP_SEGMENT: u32 = 103;
const UDP_GRO: u32 = 104;

/// The greatest value of IP_MTU_DISCOVER: IP_PMTUDISC_OMIT.
const DISCOVERY: ValueRange = ValueRange::From(0, 5);
const OCTET: ValueRange = ValueRange::From(0, 255);
const OCTET_OR_DEFAULT: ValueRange = ValueRange::From(-1, 255);
const SWITCH: ValueRange = ValueRange::From(0, 1);

/// Returns the discovery with a number of Linux. IP_PMTUDISC_OMIT sends packets that may be fragmented.
fn discovery(value: i32) -> PathDiscovery {
    match value {
        1 => PathDiscovery::Wanted,
        2 => PathDiscovery::Required,
        3 => PathDiscovery::Probe,
        4 => PathDiscovery::Interface,
        _ => PathDiscovery::Never,
    }
}

fn octet(value: i32) -> Option<u8> {
    u8::try_from(value).ok()
}

/// Makes a row that CAP_NET_ADMIN or CAP_NET_RAW is needed for.
const fn privileged(row: OptionRow) -> OptionRow {
    OptionRow { needs: Capabilities::NET_ADMIN.union(Capabilities::NET_RAW), ..row }
}

/// The rows of these levels.
#[rustfmt::skip]
pub(super) static ROWS: &[OptionRow] = &[
    row!(LEVEL_IP, raw::IP_TOS, STREAM, Any, ValueRange::Any, |s| i32::from(s.stream.ip.type_of_service),
        |s, v| s.stream.ip.type_of_service = v as u8 & !ECN | s.stream.ip.type_of_service & ECN),
    row!(LEVEL_IP, raw::IP_TOS, NOT_STREAM, Any, ValueRange::Any, |s| i32::from(s.stream.ip.type_of_service),
        |s, v| s.stream.ip.type_of_service = v as u8),
    row!(LEVEL_IP, raw::IP_TTL, ALL, Some, ValueRange::Hops, |s| s.stream.ip.ttl.map_or(HOPS, i32::from),
        |s, v| s.stream.ip.ttl = octet(v)),
    bit!(LEVEL_IP, raw::IP_PKTINFO, ALL, Any, INTERFACE),
    bit!(LEVEL_IP, raw::IP_RECVTTL, ALL, Any, TTL),
    bit!(LEVEL_IP, raw::IP_RECVTOS, ALL, Any, TOS),
    bit!(LEVEL_IP, raw::IP_RECVORIGDSTADDR, ALL, Any, DESTINATION),
    row!(LEVEL_IP, raw::IP_MTU_DISCOVER, ALL, Any, DISCOVERY, |s| s.discovery[0],
        |s, v| { s.discovery[0] = v; s.stream.ip.discovery = discovery(v) }),
    flag!(LEVEL_IP, raw::IP_RECVERR, ALL, Any, stream.ip.queues_errors),
    bit!(LEVEL_IP, raw::IP_FREEBIND, ALL, Some, FREE_BIND),
    privileged(bit!(LEVEL_IP, raw::IP_TRANSPARENT, ALL, Some, TRANSPARENT)),
    bit!(LEVEL_IP, raw::IP_BIND_ADDRESS_NO_PORT, ALL, Any, NO_PORT),
    row!(LEVEL_IP, raw::IP_MINTTL, ALL, Some, OCTET, |s| i32::from(s.stream.ip.ttl_least),
        |s, v| s.stream.ip.ttl_least = v as u8),
    bit!(LEVEL_IP, raw::IP_RECVOPTS, ALL, Any, OPTIONS),
    bit!(LEVEL_IP, raw::IP_RETOPTS, ALL, Any, OPTIONS_BACK),
    bit!(LEVEL_IP, raw::IP_CHECKSUM, ALL, Any, CHECKSUM),
    bit!(LEVEL_IP, raw::IP_PASSSEC, ALL, Any, LABELS),
    row!(LEVEL_IP, raw::IP_MULTICAST_TTL, STREAM, Some, ValueRange::ReadOnly(Errno::EINVAL),
        |s| i32::from(s.stream.ip.group_ttl), |_s, _v| ()),
    row!(LEVEL_IP, raw::IP_MULTICAST_TTL, NOT_STREAM, Some, OCTET_OR_DEFAULT,
        |s| i32::from(s.stream.ip.group_ttl), |s, v| s.stream.ip.group_ttl = octet(v).unwrap_or(GROUP_HOPS)),
    flag!(LEVEL_IP, raw::IP_MULTICAST_LOOP, ALL, Some, stream.ip.loops_groups),
    row!(LEVEL_IP, raw::IP_MULTICAST_ALL, ALL, Some, SWITCH, |s| i32::from(s.stream.ip.takes_all_groups),
        |s, v| s.stream.ip.takes_all_groups = v != 0),

    row!(LEVEL_IP6, raw::IPV6_UNICAST_HOPS, ALL, Int, OCTET_OR_DEFAULT, |s| s.stream.ip.hops.map_or(HOPS, i32::from),
        |s, v| s.stream.ip.hops = octet(v)),
    row!(LEVEL_IP6, raw::IPV6_MULTICAST_HOPS, STREAM, Loose, ValueRange::ReadOnly(Errno::ENOPROTOOPT),
        |s| i32::from(s.stream.ip.group_hops), |_s, _v| ()),
    row!(LEVEL_IP6, raw::IPV6_MULTICAST_HOPS, NOT_STREAM, Int, OCTET_OR_DEFAULT,
        |s| i32::from(s.stream.ip.group_hops), |s, v| s.stream.ip.group_hops = octet(v).unwrap_or(GROUP_HOPS)),
    row!(LEVEL_IP6, raw::IPV6_MULTICAST_LOOP, ALL, Int, SWITCH, |s| i32::from(s.stream.ip.loops_groups6),
        |s, v| s.stream.ip.loops_groups6 = v != 0),
    row!(LEVEL_IP6, raw::IPV6_MULTICAST_ALL, ALL, Int, ValueRange::Any, |s| i32::from(s.stream.ip.takes_all_groups6),
        |s, v| s.stream.ip.takes_all_groups6 = v != 0),
    row!(LEVEL_IP6, raw::IPV6_MTU_DISCOVER, ALL, Int, DISCOVERY, |s| s.discovery[1],
        |s, v| { s.discovery[1] = v; s.stream.ip.discovery6 = discovery(v) }),
    flag!(LEVEL_IP6, raw::IPV6_RECVERR, ALL, Int, stream.ip.queues_errors6),
    bit!(LEVEL_IP6, raw::IPV6_RECVPKTINFO, ALL, Int, INTERFACE6),
    bit!(LEVEL_IP6, raw::IPV6_2292PKTINFO, ALL, Int, INTERFACE6_OLD),
    bit!(LEVEL_IP6, raw::IPV6_RECVHOPLIMIT, ALL, Int, HOPS),
    bit!(LEVEL_IP6, raw::IPV6_2292HOPLIMIT, ALL, Int, HOPS_OLD),
    bit!(LEVEL_IP6, raw::IPV6_RECVTCLASS, ALL, Int, CLASS),
    bit!(LEVEL_IP6, raw::IPV6_RECVHOPOPTS, ALL, Int, HOP_OPTIONS),
    bit!(LEVEL_IP6, raw::IPV6_RECVDSTOPTS, ALL, Int, END_OPTIONS),
    bit!(LEVEL_IP6, raw::IPV6_RECVRTHDR, ALL, Int, ROUTE),
    bit!(LEVEL_IP6, raw::IPV6_2292HOPOPTS, ALL, Int, HOP_OPTIONS_OLD),
    bit!(LEVEL_IP6, raw::IPV6_2292DSTOPTS, ALL, Int, END_OPTIONS_OLD),
    bit!(LEVEL_IP6, raw::IPV6_2292RTHDR, ALL, Int, ROUTE_OLD),
    bit!(LEVEL_IP6, raw::IPV6_RECVORIGDSTADDR, ALL, Int, DESTINATION6),
    row!(LEVEL_IP6, raw::IPV6_TCLASS, STREAM, Int, OCTET_OR_DEFAULT, |s| i32::from(s.stream.ip.traffic_class),
        |s, v| s.stream.ip.traffic_class = octet(v).unwrap_or(0) & !ECN | s.stream.ip.traffic_class & ECN),
    row!(LEVEL_IP6, raw::IPV6_TCLASS, NOT_STREAM, Int, OCTET_OR_DEFAULT, |s| i32::from(s.stream.ip.traffic_class),
        |s, v| s.stream.ip.traffic_class = octet(v).unwrap_or(0)),
    row!(LEVEL_IP6, raw::IPV6_MINHOPCOUNT, ALL, Int, OCTET, |s| i32::from(s.stream.ip.hops_least),
        |s, v| s.stream.ip.hops_least = v as u8),
    bit!(LEVEL_IP6, raw::IPV6_DONTFRAG, ALL, Loose, NO_FRAGMENTS),
    row!(LEVEL_IP6, raw::IPV6_MTU, ALL, Int, ValueRange::ZeroOrFrom(MTU6_LEAST),
        |s| s.stream.ip.packet_max6.unwrap_or(0) as i32,
        |s, v| s.stream.ip.packet_max6 = u32::try_from(v).ok().filter(|v| *v != 0)),
    privileged(bit!(LEVEL_IP6, raw::IPV6_TRANSPARENT, ALL, Int, TRANSPARENT)),
    bit!(LEVEL_IP6, raw::IPV6_FREEBIND, ALL, Int, FREE_BIND),

    flag!(LEVEL_IP, raw::IP_HDRINCL, RAW, Any, stream.ip.has_header),
    row!(LEVEL_IP, raw::IP_HDRINCL, NOT_RAW, Any, ValueRange::ReadOnly(Errno::ENOPROTOOPT), |_s| 0, |_s, _v| ()),
    // A packet filter that puts fragments together would obey it; there is none.
    bit!(LEVEL_IP, raw::IP_NODEFRAG, RAW, Any, FRAGMENTS_KEPT),
    row!(LEVEL_IP, raw::IP_NODEFRAG, NOT_RAW, Any, ValueRange::ReadOnly(Errno::ENOPROTOOPT), |_s| 0, |_s, _v| ()),
    flag!(LEVEL_IP6, raw::IPV6_HDRINCL, RAW, Int, stream.ip.has_header),
    row!(LEVEL_IP6, raw::IPV6_CHECKSUM, RAW, Int, ValueRange::Even, |s| s.stream.ip.checksum_at.map_or(-1, i32::from),
        |s, v| s.stream.ip.checksum_at = u16::try_from(v).ok()),

    bit!(LEVEL_UDP, UDP_CORK, DATAGRAM, Int, CORK),
    bit!(LEVEL_UDP, UDP_GRO, DATAGRAM, Int, SEVERAL),
    row!(LEVEL_UDP, UDP_SEGMENT, DATAGRAM, Int, ValueRange::From(0, 65_535), |s| i32::from(s.segment),
        |s, v| s.segment = v as u16),
];
