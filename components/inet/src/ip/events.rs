//! Counts of events, with the names of nstat(8).
//!
//! Each thread's part of the stack counts in a row of its own, so that counting takes neither a lock nor a shared cache line. A
//! reader adds the rows up.
use crate::base::address::Family;
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use rt::{lock_class, sync::Mutex};

lock_class! {
    static ROWS = "inet.events";
}

macro_rules! events {
    ($($event:ident $name:literal)+) => {
        /// An event that is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum PacketEvent {
            $(
                #[doc = $name]
                $event,
            )+
        }
        const NAMES: &[&str] = &[$($name),+];
    };
}

events! {
    LoopPackets "Packets of the loopback interface."
    LoopOctets "Bytes of them."
    LocalSegments4 "Segments of TCP over IPv4 that went to a connection of this host without a packet."
    LocalDatagrams4 "Datagrams of UDP over IPv4 that went to a socket of this host without a packet."
    LocalOctets4 "Bytes of the packets that both stand for."
    LocalSegments6 "The same for IPv6."
    LocalDatagrams6 "The same for IPv6."
    LocalOctets6 "The same for IPv6."
    In4 "IpInReceives"
    In6 "Ip6InReceives"
    InOctets4 "IpExtInOctets"
    InOctets6 "Ip6InOctets"
    Deliver4 "IpInDelivers"
    Deliver6 "Ip6InDelivers"
    Out4 "IpOutRequests"
    Out6 "Ip6OutRequests"
    OutOctets4 "IpExtOutOctets"
    OutOctets6 "Ip6OutOctets"
    InGroup4 "IpExtInMcastPkts"
    InGroup6 "Ip6InMcastPkts"
    InGroupOctets4 "IpExtInMcastOctets"
    InGroupOctets6 "Ip6InMcastOctets"
    OutGroup4 "IpExtOutMcastPkts"
    OutGroup6 "Ip6OutMcastPkts"
    OutGroupOctets4 "IpExtOutMcastOctets"
    OutGroupOctets6 "Ip6OutMcastOctets"
    InBroadcast "IpExtInBcastPkts"
    InBroadcastOctets "IpExtInBcastOctets"
    OutBroadcast "IpExtOutBcastPkts"
    OutBroadcastOctets "IpExtOutBcastOctets"
    Ect1In4 "IpExtInECT1Pkts"
    Ect1In6 "Ip6InECT1Pkts"
    Ect0In4 "IpExtInECT0Pkts"
    Ect0In6 "Ip6InECT0Pkts"
    MarkedIn4 "IpExtInCEPkts"
    MarkedIn6 "Ip6InCEPkts"
    Reassemble4 "IpReasmReqds"
    Reassemble6 "Ip6ReasmReqds"
    Reassembled4 "IpReasmOKs"
    Reassembled6 "Ip6ReasmOKs"
    Cut4 "IpFragOKs"
    Cut6 "Ip6FragOKs"
    Fragment4 "IpFragCreates"
    Fragment6 "Ip6FragCreates"
    UdpIn4 "UdpInDatagrams"
    UdpIn6 "Udp6InDatagrams"
    UdpOut4 "UdpOutDatagrams"
    UdpOut6 "Udp6OutDatagrams"
    UdpNoPort4 "UdpNoPorts"
    UdpNoPort6 "Udp6NoPorts"
    UdpChecksum4 "UdpInCsumErrors"
    UdpChecksum6 "Udp6InCsumErrors"
    UdpFull4 "UdpRcvbufErrors"
    UdpFull6 "Udp6RcvbufErrors"
    UdpRefused4 "Datagrams of UDP over IPv4 that the filter of a socket refused."
    UdpRefused6 "The same for IPv6."
    LiteIn4 "UdpLiteInDatagrams"
    LiteIn6 "UdpLite6InDatagrams"
    LiteOut4 "UdpLiteOutDatagrams"
    LiteOut6 "UdpLite6OutDatagrams"
    LiteNoPort4 "UdpLiteNoPorts"
    LiteNoPort6 "UdpLite6NoPorts"
    LiteChecksum4 "UdpLiteInCsumErrors"
    LiteChecksum6 "UdpLite6InCsumErrors"
    LiteFull4 "UdpLiteRcvbufErrors"
    LiteFull6 "UdpLite6RcvbufErrors"
    LiteRefused4 "Datagrams of UDP-Lite over IPv4 that a socket refused for its filter or their coverage."
    LiteRefused6 "The same for IPv6."
    TcpActiveOpen "TcpActiveOpens"
    TcpPassiveOpen "TcpPassiveOpens"
    TcpAttemptFail "TcpAttemptFails"
    TcpReset "TcpEstabResets"
    TcpIn "TcpInSegs"
    TcpOut "TcpOutSegs"
    TcpOutReset "TcpOutRsts"
    TcpRetransmit "TcpRetransSegs"
    TcpTimeWait "TcpExtTW"
    TcpBacklogDrop "TcpExtTCPBacklogDrop"
}

/// Numbers of messages of ICMP that are told apart, of a family and a direction.
const KINDS: usize = 32;
/// The first number of an informational message of ICMPv6, and its place.
const INFORMATIONAL: u8 = 128;
const INFORMATIONAL_AT: usize = 16;

/// The direction of a message of ICMP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpWay {
    /// It was received.
    In,
    /// It was sent.
    Out,
}

/// Messages of ICMP that have names: type, and the names of the counts of received and sent ones.
const ICMP: &[(u8, &str, &str)] = &[
    (0, "IcmpInEchoReps", "IcmpOutEchoReps"),
    (3, "IcmpInDestUnreachs", "IcmpOutDestUnreachs"),
    (4, "IcmpInSrcQuenchs", "IcmpOutSrcQuenchs"),
    (5, "IcmpInRedirects", "IcmpOutRedirects"),
    (8, "IcmpInEchos", "IcmpOutEchos"),
    (11, "IcmpInTimeExcds", "IcmpOutTimeExcds"),
    (12, "IcmpInParmProbs", "IcmpOutParmProbs"),
    (13, "IcmpInTimestamps", "IcmpOutTimestamps"),
    (14, "IcmpInTimestampReps", "IcmpOutTimestampReps"),
];
/// The same of ICMPv6.
const ICMP6: &[(u8, &str, &str)] = &[
    (1, "Icmp6InDestUnreachs", "Icmp6OutDestUnreachs"),
    (2, "Icmp6InPktTooBigs", "Icmp6OutPktTooBigs"),
    (3, "Icmp6InTimeExcds", "Icmp6OutTimeExcds"),
    (4, "Icmp6InParmProblems", "Icmp6OutParmProblems"),
    (128, "Icmp6InEchos", "Icmp6OutEchos"),
    (129, "Icmp6InEchoReplies", "Icmp6OutEchoReplies"),
    (130, "Icmp6InGroupMembQueries", "Icmp6OutGroupMembQueries"),
    (131, "Icmp6InGroupMembResponses", "Icmp6OutGroupMembResponses"),
    (132, "Icmp6InGroupMembReductions", "Icmp6OutGroupMembReductions"),
    (133, "Icmp6InRouterSolicits", "Icmp6OutRouterSolicits"),
    (134, "Icmp6InRouterAdvertisements", "Icmp6OutRouterAdvertisements"),
    (135, "Icmp6InNeighborSolicits", "Icmp6OutNeighborSolicits"),
    (136, "Icmp6InNeighborAdvertisements", "Icmp6OutNeighborAdvertisements"),
    (137, "Icmp6InRedirects", "Icmp6OutRedirects"),
    (143, "Icmp6InMLDv2Reports", "Icmp6OutMLDv2Reports"),
];

/// The counts of one thread's part of the stack.
#[derive(Debug)]
pub struct EventRow {
    counts: [AtomicU64; NAMES.len()],
    /// By family and direction: in, out, in of ICMPv6, out of ICMPv6.
    icmp: [[AtomicU64; KINDS]; 4],
}

fn grow(count: &AtomicU64, by: u64) {
    // The holder of the row alone writes to it.
    count.store(count.load(Relaxed).wrapping_add(by), Relaxed);
}

fn lane(family: Family, way: IcmpWay) -> usize {
    usize::from(family == Family::V6) * 2 + usize::from(way == IcmpWay::Out)
}

fn place(kind: u8) -> usize {
    match kind {
        INFORMATIONAL.. => usize::from(kind - INFORMATIONAL) + INFORMATIONAL_AT,
        _ => kind.into(),
    }
}

impl EventRow {
    fn new() -> EventRow {
        EventRow {
            counts: [const { AtomicU64::new(0) }; NAMES.len()],
            icmp: [const { [const { AtomicU64::new(0) }; KINDS] }; 4],
        }
    }
    /// Counts an event `by` times.
    pub fn add(&self, event: PacketEvent, by: u64) {
        if let Some(count) = self.counts.get(event as usize) {
            grow(count, by);
        }
    }
    /// Counts the event of a family once.
    pub fn note(&self, family: Family, [of_v4, of_v6]: [PacketEvent; 2]) {
        self.add(if family == Family::V4 { of_v4 } else { of_v6 }, 1);
    }
    /// Counts the ECN bits of a received packet (RFC 3168), unless they are zero.
    pub fn ecn(&self, family: Family, traffic_class: u8) {
        match traffic_class & 3 {
            1 => self.note(family, [PacketEvent::Ect1In4, PacketEvent::Ect1In6]),
            2 => self.note(family, [PacketEvent::Ect0In4, PacketEvent::Ect0In6]),
            3 => self.note(family, [PacketEvent::MarkedIn4, PacketEvent::MarkedIn6]),
            _ => {}
        }
    }
    /// Counts a message of ICMP.
    pub fn icmp(&self, family: Family, way: IcmpWay, kind: u8) {
        let lane = self.icmp.get(lane(family, way));
        if let Some(count) = lane.and_then(|lane| lane.get(place(kind))) {
            grow(count, 1);
        }
    }
}

/// The rows of all threads' parts of a stack.
pub struct EventTable(Mutex<Vec<Arc<EventRow>>>);

impl EventTable {
    pub(super) fn new() -> EventTable {
        EventTable(Mutex::new(&ROWS, Vec::new()))
    }
    /// Returns a row that nobody else holds.
    pub(super) fn row(&self) -> Arc<EventRow> {
        let mut rows = self.0.lock();
        if let Some(free) = rows.iter().find(|row| Arc::strong_count(row) == 1) {
            return Arc::clone(free);
        }
        let fresh = Arc::new(EventRow::new());
        rows.push(Arc::clone(&fresh));
        fresh
    }
    /// Returns the count of an event.
    pub fn get(&self, event: PacketEvent) -> u64 {
        let rows = self.0.lock();
        let counts = rows.iter().filter_map(|row| row.counts.get(event as usize));
        counts.fold(0, |all, count| all.wrapping_add(count.load(Relaxed)))
    }
    /// Returns the counts that have names of nstat(8).
    pub fn named(&self) -> Vec<(&'static str, u64)> {
        let rows = self.0.lock();
        let sum = |counts: &mut dyn Iterator<Item = &AtomicU64>| {
            counts.fold(0u64, |all, count| all.wrapping_add(count.load(Relaxed)))
        };
        let named = NAMES.iter().enumerate().filter(|(_, name)| !name.ends_with('.'));
        let mut all: Vec<(&'static str, u64)> = named
            .map(|(at, name)| (*name, sum(&mut rows.iter().filter_map(|row| row.counts.get(at)))))
            .collect();
        for (family, table, totals) in [
            (Family::V4, ICMP, ["IcmpInMsgs", "IcmpOutMsgs"]),
            (Family::V6, ICMP6, ["Icmp6InMsgs", "Icmp6OutMsgs"]),
        ] {
            for (way, total) in [IcmpWay::In, IcmpWay::Out].into_iter().zip(totals) {
                let lane = lane(family, way);
                let of = |at: usize| {
                    let counts = rows.iter().filter_map(|row| row.icmp.get(lane)?.get(at));
                    counts.fold(0u64, |all, count| all.wrapping_add(count.load(Relaxed)))
                };
                all.push((total, (0..KINDS).map(of).fold(0, u64::wrapping_add)));
                all.extend(table.iter().map(|(kind, received, sent)| {
                    let name = if way == IcmpWay::In { received } else { sent };
                    (*name, of(place(*kind)))
                }));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_add_up_and_are_used_again() {
        let table = EventTable::new();
        let (one, other) = (table.row(), table.row());
        one.add(PacketEvent::In4, 2);
        other.note(Family::V6, [PacketEvent::In4, PacketEvent::In6]);
        other.note(Family::V4, [PacketEvent::In4, PacketEvent::In6]);
        one.icmp(Family::V6, IcmpWay::Out, 135);
        one.icmp(Family::V4, IcmpWay::In, 3);
        one.icmp(Family::V4, IcmpWay::In, 250);
        drop(one);
        table.row().add(PacketEvent::In4, 1);
        assert_eq!((table.get(PacketEvent::In4), table.0.lock().len()), (4, 2));
        let named = table.named();
        let of = |name| named.iter().find(|(known, _)| *known == name).map(|(_, count)| *count);
        assert_eq!([of("IpInReceives"), of("Ip6InReceives")], [Some(4), Some(1)]);
        assert_eq!(of("Icmp6OutNeighborSolicits"), Some(1));
        assert_eq!([of("IcmpInMsgs"), of("IcmpInDestUnreachs")], [Some(1), Some(1)]);
        assert!(named.iter().all(|(name, _)| !name.contains(' ')));
    }
}
