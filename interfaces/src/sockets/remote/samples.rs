//! Values of the types of sockets, made of arbitrary bytes, for tests ([`Sample`]).
use crate::{
    marshal::{self, Marshal},
    sockets::*,
};
use alloc::{borrow::Cow, boxed::Box, format, string::String, vec::Vec};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Bytes of which values are made; zeroes behind their end.
pub(super) struct Source<'b>(pub(super) &'b [u8]);

impl Source<'_> {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        core::array::from_fn(|_| self.0.split_off_first().copied().unwrap_or(0))
    }
    pub(super) fn below(&mut self, limit: usize) -> usize {
        usize::from(u16::sample(self)) % limit
    }
}

/// A type of which a value can be made of any bytes.
pub(super) trait Sample: Sized {
    fn sample(from: &mut Source<'_>) -> Self;
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Sample for $number {
            fn sample(from: &mut Source<'_>) -> $number {
                <$number>::from_le_bytes(from.bytes())
            }
        }
    )*};
}
impl Sample for labels::SecrecyId {
    fn sample(from: &mut Source<'_>) -> labels::SecrecyId {
        labels::SecrecyId(Sample::sample(from))
    }
}

numbers! { u8 u16 u32 u64 u128 usize i8 i16 i32 i64 isize }

/// A structure, by all of its fields.
macro_rules! structures {
    ($($type:ident { $($field:ident)* })*) => {$(
        impl Sample for $type {
            fn sample(from: &mut Source<'_>) -> $type {
                $type { $($field: Sample::sample(from)),* }
            }
        }
    )*};
}

/// An enumeration without fields, by the bytes that encode its variants.
macro_rules! choices {
    ($($type:ident)*) => {$(
        impl Sample for $type {
            fn sample(from: &mut Source<'_>) -> $type {
                let variants = variants::<$type>();
                variants[from.below(variants.len())].1
            }
        }
    )*};
}

/// Returns the bytes that encode something, with what they encode.
pub(super) fn variants<T: Marshal>() -> Vec<(u8, T)> {
    (0..=u8::MAX).filter_map(|byte| Some((byte, marshal::decode(&[byte])?))).collect()
}

/// An enumeration, by a value of each variant.
macro_rules! variants {
    ($($type:ident { $($value:expr;)* })*) => {$(
        impl Sample for $type {
            fn sample(from: &mut Source<'_>) -> $type {
                use $type::*;
                let all: &[fn(&mut Source<'_>) -> $type] = &[$($value),*];
                all[from.below(all.len())](from)
            }
        }
    )*};
}

macro_rules! tuples {
    ($(($($name:ident)*))*) => {$(
        impl<$($name: Sample),*> Sample for ($($name,)*) {
            fn sample(from: &mut Source<'_>) -> Self {
                ($($name::sample(from),)*)
            }
        }
    )*};
}
tuples! { (A B) (A B C) (A B C D) }

impl Sample for bool {
    fn sample(from: &mut Source<'_>) -> bool {
        u8::sample(from) % 2 == 1
    }
}

impl<T: Sample> Sample for Option<T> {
    fn sample(from: &mut Source<'_>) -> Option<T> {
        bool::sample(from).then(|| T::sample(from))
    }
}

impl<T: Sample, E: Sample> Sample for Result<T, E> {
    fn sample(from: &mut Source<'_>) -> Result<T, E> {
        if bool::sample(from) { Ok(T::sample(from)) } else { Err(E::sample(from)) }
    }
}

impl<T: Sample> Sample for Vec<T> {
    fn sample(from: &mut Source<'_>) -> Vec<T> {
        (0..from.below(5)).map(|_| T::sample(from)).collect()
    }
}

impl<T: Sample> Sample for Box<T> {
    fn sample(from: &mut Source<'_>) -> Box<T> {
        Box::new(T::sample(from))
    }
}

impl Sample for Ipv4OptionList {
    fn sample(from: &mut Source<'_>) -> Ipv4OptionList {
        let bytes: Vec<u8> = (0..from.below(41)).map(|_| u8::sample(from)).collect();
        Ipv4OptionList::padded(&bytes).unwrap()
    }
}

impl Sample for String {
    fn sample(from: &mut Source<'_>) -> String {
        let texts = ["", "eth0", "größer", "a text that is a little longer"];
        format!("{}{}", texts[from.below(texts.len())], u8::sample(from))
    }
}

impl Sample for Cow<'static, str> {
    fn sample(from: &mut Source<'_>) -> Cow<'static, str> {
        if bool::sample(from) { "virtio_net".into() } else { String::sample(from).into() }
    }
}

impl<T: Sample, const N: usize> Sample for [T; N] {
    fn sample(from: &mut Source<'_>) -> [T; N] {
        core::array::from_fn(|_| T::sample(from))
    }
}

impl Sample for Ipv4Addr {
    fn sample(from: &mut Source<'_>) -> Ipv4Addr {
        Ipv4Addr::from_bits(u32::sample(from))
    }
}

impl Sample for IpAddr {
    fn sample(from: &mut Source<'_>) -> IpAddr {
        match bool::sample(from) {
            false => Ipv4Addr::sample(from).into(),
            true => Ipv6Addr::from_bits(u128::sample(from)).into(),
        }
    }
}

impl Sample for SocketAddr {
    fn sample(from: &mut Source<'_>) -> SocketAddr {
        let port = u16::sample(from);
        match IpAddr::sample(from) {
            IpAddr::V4(ip) => (ip, port).into(),
            IpAddr::V6(ip) => {
                SocketAddrV6::new(ip, port, u32::sample(from), u32::sample(from)).into()
            }
        }
    }
}

impl Sample for RouteMetrics {
    fn sample(from: &mut Source<'_>) -> RouteMetrics {
        let mut metrics = RouteMetrics::default();
        (1..=RouteMetrics::LAST).for_each(|number| metrics.set(number, Sample::sample(from)));
        metrics
    }
}

impl Sample for Payload {
    fn sample(from: &mut Source<'_>) -> Payload {
        Payload::Bytes(Vec::sample(from).into())
    }
}

choices! {
    SocketError SocketFamilies CloseKind ConnectionState MoreData QuickAcknowledge PathDiscovery
    CongestionControl FrameChecksum AdministrationError EntryMode InterfaceParameter LinkKind
    SocketProtocol SocketTimer
}

variants! {
    DatagramProtocol { |_| Udp; |_| UdpLite; |_| Ping; |from| Raw(Sample::sample(from)); }
    LinkMembership { |_| Promiscuous; |_| AllGroups; |from| Address(Sample::sample(from)); }
    ParameterScope { |_| All; |_| Default; |from| Interface(Sample::sample(from)); }
    NetworkParameter {
        |_| DefaultTtl; |_| TcpRfc1337; |_| TcpRmem;
        |from| Conf(Sample::sample(from), Sample::sample(from));
    }
    NetworkChange {
        |from| Link(Sample::sample(from));
        |from| RemoveLink(Sample::sample(from));
        |from| Address(Sample::sample(from), Sample::sample(from));
        |from| RemoveAddress(Sample::sample(from));
        |from| Route(Sample::sample(from), Sample::sample(from));
        |from| RemoveRoute(Sample::sample(from));
        |from| Rule(Sample::sample(from), Sample::sample(from));
        |from| RemoveRule(Sample::sample(from));
        |from| Neighbour(Sample::sample(from), Sample::sample(from));
        |from| RemoveNeighbour { interface: Sample::sample(from), address: Sample::sample(from) };
        |from| LinkGroup { interface: Sample::sample(from), address: Sample::sample(from) };
        |from| RemoveLinkGroup { interface: Sample::sample(from), address: Sample::sample(from) };
    }
    NetworkNotice {
        |from| Link(Sample::sample(from), Sample::sample(from));
        |from| LinkGone(Sample::sample(from));
        |from| Address(Sample::sample(from));
        |from| AddressGone(Sample::sample(from));
        |from| Route(Sample::sample(from));
        |from| RouteReplaced(Sample::sample(from));
        |from| RouteGone(Sample::sample(from));
        |from| Rule(Sample::sample(from));
        |from| RuleGone(Sample::sample(from));
        |from| Neighbour(Sample::sample(from));
        |from| NeighbourGone(Sample::sample(from));
    }
}

structures! {
    SocketOwner { user inode label }
    StreamInfo {
        state ca_state retransmits probes backoff options snd_wscale rcv_wscale rto ato snd_mss
        rcv_mss unacked sacked lost retrans last_data_sent_ms last_data_recv_ms last_ack_recv_ms
        pmtu rcv_ssthresh rtt rttvar snd_ssthresh snd_cwnd advmss reordering rcv_rtt rcv_space
        total_retrans pacing_rate max_pacing_rate bytes_acked bytes_received segs_out segs_in
        notsent_bytes min_rtt data_segs_in data_segs_out delivery_rate bytes_sent bytes_retrans
        dsack_dups reord_seen rcv_ooopack snd_wnd rcv_wnd
    }
    IpOptions {
        reuses_address reuses_port may_broadcast binds_foreign binds_no_port only_v6 interface mark
        ttl hops type_of_service traffic_class discovery discovery6 group_ttl group_hops
        group_interface group_source group_interface6 unicast_interface unicast_interface6
        ttl_least hops_least packet_max6 loops_groups loops_groups6 takes_all_groups
        takes_all_groups6 queues_errors queues_errors6 has_header icmp_filter checksum_at coverage
        coverage_least header_options
    }
    StreamOptions {
        ip no_delay cork keepalive pacing_rate keep_idle_s keep_interval_s keep_count
        user_timeout_ms syn_retries fin_timeout_s defer_accept_s segment_max window_max
        unsent_low_water saves_syn congestion fast_open_max
    }
    Membership { group interface }
    ReceivedOptions { came answer }
    ExtensionHeaders { hop_by_hop of_route routing destination }
    ReceivedExtensions { first bytes }
    SentDatagram {
        destination source interface hop_limit traffic_class segment header_options extensions
        payload
    }
    ReceivedDatagram {
        source destination interface hop_limit traffic_class received_ns dropped segment header_options
        extensions payload
    }
    ErrorCarrier { offender receiver interface hop_limit traffic_class received_ns }
    ErrorReport { error carrier message mtu destination payload }
    TapBinding { interface protocol }
    RouteQuery { destination source interface protocol ports type_of_service mark user }
    LinkChange { index flags mtu mac name transmit_queue alias has_carrier }
    AddressSelector { interface address label prefix_length }
    LinkCounts {
        rx_packets tx_packets rx_bytes tx_bytes rx_errors tx_errors rx_dropped tx_dropped multicast
        rx_frame_errors rx_nohandler
    }
    TunnelRecord { flags owner group queues disabled_queues }
    LinkRecord {
        index name kind hardware flags mtu mtu_min mtu_max mac mac_origin broadcast permanent_mac transmit_queue
        operational has_carrier carrier_changes queues speed_mbit alias driver groups tunnel counts
    }
    LinkGroupRecord { address users is_fixed }
    AddressRecord {
        interface address peer prefix_length scope flags broadcast label metric preferred_s valid_s
        created_cs updated_cs
    }
    RouteRecord {
        table destination prefix_length kind scope protocol interface gateway preferred_source
        metric metrics is_on_link ways expires_s
    }
    RouteWayRecord { interface gateway is_on_link is_dead weight }
    TableRecord { is_version6 number }
    NeighbourRecord {
        interface address mac state is_router used_ms confirmed_ms updated_ms probes
    }
    MembershipRecord { interface group users }
    SocketRecord {
        is_version6 is_version6_only local peer state receive_queue send_queue timer timer_ms
        retransmits probes user inode interface cookie drops not_taken congestion info label
    }
    RuleRecord {
        is_version6 priority action table target flags protocol source destination type_of_service
        mark mark_mask input output users ip_protocol source_ports destination_ports suppress_prefix
        suppress_group
    }
}
