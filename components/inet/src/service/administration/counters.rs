//! Counters.
use crate::{
    ip::{
        events::PacketEvent,
        statistics::{DROP_REASONS, DropReason},
    },
    service::{inet::Inet, streams},
};
use alloc::vec::Vec;
use interfaces::sockets::{LinkCounts, StackDrops};

/// Counters of IP that segments and datagrams between sockets of this host stand for, by family. They never were packets.
const OF_PACKETS: [[&str; 3]; 2] = [
    ["IpInReceives", "IpInDelivers", "IpOutRequests"],
    ["Ip6InReceives", "Ip6InDelivers", "Ip6OutRequests"],
];
/// The same of their bytes.
const OF_OCTETS: [[&str; 2]; 2] =
    [["IpExtInOctets", "IpExtOutOctets"], ["Ip6InOctets", "Ip6OutOctets"]];
/// The same of TCP.
const OF_SEGMENTS: [&str; 2] = ["TcpInSegs", "TcpOutSegs"];
/// The same of UDP, by family. What a queue took is counted by itself.
const OF_DATAGRAMS: [&str; 2] = ["UdpOutDatagrams", "Udp6OutDatagrams"];

/// Returns the counters that the stack keeps.
pub(super) fn all(inet: &Inet) -> Vec<(&'static str, u64)> {
    let events = &inet.stack().events;
    let [uncounted4, uncounted6] = streams::records::uncounted(inet);
    let segments = [
        events.get(PacketEvent::LocalSegments4) + uncounted4.0,
        events.get(PacketEvent::LocalSegments6) + uncounted6.0,
    ];
    let datagrams =
        [PacketEvent::LocalDatagrams4, PacketEvent::LocalDatagrams6].map(|it| events.get(it));
    let octets = [
        events.get(PacketEvent::LocalOctets4) + uncounted4.1,
        events.get(PacketEvent::LocalOctets6) + uncounted6.1,
    ];
    let mut all = events.named();
    for (name, count) in &mut all {
        for family in [0, 1] {
            let is_in = |names: &[&str]| names.contains(name);
            let of = |counts: &[u64; 2]| counts.get(family).copied().unwrap_or(0);
            if is_in(OF_PACKETS.get(family).map_or(&[], |names| names)) {
                *count += of(&segments) + of(&datagrams);
            }
            if is_in(&OF_SEGMENTS) {
                *count += of(&segments);
            }
            if OF_DATAGRAMS.get(family) == Some(name) {
                *count += of(&datagrams);
            }
            if is_in(OF_OCTETS.get(family).map_or(&[], |names| names)) {
                *count += of(&octets);
            }
        }
        if *name == "TcpRetransSegs" {
            *count += streams::records::retransmissions(inet);
        }
    }
    let of = |name| all.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count);
    let marked = |prefix: &str| {
        let is_mark = |name: &&str| {
            let rest = name.strip_prefix(prefix);
            rest.is_some_and(|rest| matches!(rest, "ECT1Pkts" | "ECT0Pkts" | "CEPkts"))
        };
        all.iter().filter(|(name, _)| is_mark(name)).map(|(_, count)| count).sum::<u64>()
    };
    let errors = |checksums, full, refused| of(checksums) + of(full) + events.get(refused);
    let more = [
        ("UdpInErrors", errors("UdpInCsumErrors", "UdpRcvbufErrors", PacketEvent::UdpRefused4)),
        ("Udp6InErrors", errors("Udp6InCsumErrors", "Udp6RcvbufErrors", PacketEvent::UdpRefused6)),
        (
            "UdpLiteInErrors",
            errors("UdpLiteInCsumErrors", "UdpLiteRcvbufErrors", PacketEvent::LiteRefused4),
        ),
        (
            "UdpLite6InErrors",
            errors("UdpLite6InCsumErrors", "UdpLite6RcvbufErrors", PacketEvent::LiteRefused6),
        ),
        ("IpExtInNoECTPkts", of("IpInReceives").saturating_sub(marked("IpExtIn"))),
        ("Ip6InNoECTPkts", of("Ip6InReceives").saturating_sub(marked("Ip6In"))),
    ];
    all.extend(more);
    all.extend(of_drops(inet));
    all
}

/// Returns the counters that are reasons of drops.
fn of_drops(inet: &Inet) -> [(&'static str, u64); 5] {
    let drops = &inet.stack().drops;
    let sum = |reasons: &[DropReason]| reasons.iter().map(|one| drops.get(*one)).sum::<u64>();
    [
        ("IpInHdrErrors", sum(&[DropReason::Malformed, DropReason::Option])),
        ("IpInAddrErrors", sum(&[DropReason::Martian, DropReason::NotForUs])),
        ("IpInDiscards", sum(&[DropReason::NoMemory])),
        ("IpReasmTimeout", sum(&[DropReason::ReassemblyTimeout])),
        ("IpReasmFails", sum(&[DropReason::ReassemblyTimeout, DropReason::Fragment])),
    ]
}

/// Returns the counts of the loopback interface: what is sent is received.
pub(super) fn of_loopback(inet: &Inet) -> LinkCounts {
    let events = &inet.stack().events;
    let sum = |names: &[PacketEvent]| names.iter().map(|one| events.get(*one)).sum::<u64>();
    let packets = sum(&[
        PacketEvent::LoopPackets,
        PacketEvent::LocalSegments4,
        PacketEvent::LocalSegments6,
        PacketEvent::LocalDatagrams4,
        PacketEvent::LocalDatagrams6,
    ]);
    let bytes =
        sum(&[PacketEvent::LoopOctets, PacketEvent::LocalOctets4, PacketEvent::LocalOctets6]);
    let uncounted = streams::records::uncounted(inet);
    let [(packets4, bytes4), (packets6, bytes6)] = uncounted;
    let (packets, bytes) = (packets + packets4 + packets6, bytes + bytes4 + bytes6);
    LinkCounts {
        rx_packets: packets,
        tx_packets: packets,
        rx_bytes: bytes,
        tx_bytes: bytes,
        ..LinkCounts::default()
    }
}

/// Returns the packets that the stack dropped, by reason.
pub(super) fn drops(inet: &Inet) -> Vec<StackDrops> {
    let drops = &inet.stack().drops;
    DROP_REASONS.iter().map(|(reason, name)| ((*name).into(), drops.get(*reason))).collect()
}
