//! Headers that are built are parsed to the same, by this crate and by smoltcp.
use packet::{
    HeaderWriter, Sum,
    groups::{GroupRecord, RecordKind},
    icmp::IcmpMessage,
    icmpv6::Icmpv6Message,
    igmp::{self, IgmpMessage},
    ipv4::{Cutting, FragmentPlace, Ipv4, Ipv4Fields},
    ipv6::{FragmentHeader, Ipv6Fields, Ipv6Header},
    mld::{self, MldMessage},
    ndp::{NdpMessage, NdpOption, NeighbourFlags},
    protocol,
    tcp::{TcpFields, TcpFlags, TcpHeader},
    tcp_options::{FastOpenCookie, SackBlock, SegmentStage, TcpOptions, TcpTimestamps},
    udp::UdpHeader,
};
use proptest::{collection::vec, prelude::*};
use smoltcp::{
    phy::ChecksumCapabilities,
    wire::{self, Icmpv4Packet, Icmpv6Packet, Ipv4Packet, Ipv6Packet, TcpPacket, UdpPacket},
};
use std::net::{Ipv4Addr, Ipv6Addr};
use zerocopy::IntoBytes;

fn options() -> impl Strategy<Value = TcpOptions> {
    let cookie = vec(any::<u8>(), 2..=4).prop_map(|half| half.repeat(2));
    (
        proptest::option::of(1..=u16::MAX),
        proptest::option::of(0..=14u8),
        any::<bool>(),
        proptest::option::of((any::<u32>(), any::<u32>())),
        proptest::option::of(cookie),
    )
        .prop_map(|(segment_size, window_scale, is_sack_permitted, timestamps, cookie)| {
            TcpOptions {
                segment_size,
                window_scale,
                is_sack_permitted,
                timestamps: timestamps.map(|(value, echo)| TcpTimestamps { value, echo }),
                fast_open: cookie.and_then(|bytes| FastOpenCookie::new(&bytes)),
                ..TcpOptions::default()
            }
        })
}

proptest! {
    #[test]
    fn ipv4(
        source in any::<u32>(), destination in any::<u32>(), protocol in any::<u8>(),
        traffic_class in any::<u8>(), ttl in any::<u8>(), identification in any::<u16>(),
        is_forbidden in any::<bool>(), eighth in 0u16..8192, has_more in any::<bool>(),
        payload in 0usize..65_000, words in 0usize..=10,
    ) {
        let fields = Ipv4Fields {
            source: source.into(), destination: destination.into(), protocol, traffic_class, ttl,
            identification,
            cutting: if is_forbidden { Cutting::Forbidden } else { Cutting::Allowed },
            place: FragmentPlace { offset: eighth * 8, has_more },
        };
        let options = vec![1; words * 4];
        let mut bytes = fields.header(&options, payload).unwrap().as_bytes().to_vec();
        bytes.extend(options);
        let parsed = Ipv4::parse(&bytes, bytes.len() + payload).unwrap();
        prop_assert_eq!(parsed.header.source(), fields.source);
        prop_assert_eq!(parsed.header.destination(), fields.destination);
        prop_assert_eq!(parsed.header.place(), fields.place);
        prop_assert_eq!(parsed.header.cutting(), fields.cutting);
        prop_assert_eq!(parsed.payload(), bytes.len()..bytes.len() + payload);
        let other = Ipv4Packet::new_unchecked(&bytes);
        prop_assert!(other.verify_checksum());
        prop_assert_eq!(other.src_addr(), fields.source);
        prop_assert_eq!(other.frag_offset(), fields.place.offset);
        prop_assert_eq!(other.more_frags(), has_more);
        prop_assert_eq!(other.dont_frag(), is_forbidden);
        prop_assert_eq!(usize::from(other.total_len()), bytes.len() + payload);
        prop_assert_eq!(u8::from(other.next_header()), protocol);
    }

    #[test]
    fn ipv6(
        source in any::<u128>(), destination in any::<u128>(), next_header in any::<u8>(),
        traffic_class in any::<u8>(), flow_label in 0u32..1 << 20, hop_limit in any::<u8>(),
        body in vec(any::<u8>(), 0..50),
    ) {
        let (source, destination) = (Ipv6Addr::from(source), Ipv6Addr::from(destination));
        let fields =
            Ipv6Fields { source, destination, next_header, traffic_class, flow_label, hop_limit };
        let mut bytes = fields.header(body.len()).unwrap().as_bytes().to_vec();
        bytes.extend(&body);
        let parsed = Ipv6Header::parse(&bytes, bytes.len()).unwrap();
        prop_assert_eq!(parsed.source(), source);
        prop_assert_eq!(parsed.traffic_class(), traffic_class);
        prop_assert_eq!(parsed.flow_label(), flow_label);
        let other = Ipv6Packet::new_checked(&bytes).unwrap();
        prop_assert_eq!(other.dst_addr(), destination);
        prop_assert_eq!(other.traffic_class(), traffic_class);
        prop_assert_eq!(other.flow_label(), flow_label);
        prop_assert_eq!(other.payload(), &body[..]);
    }

    #[test]
    fn fragment_header(eighth in 0u16..8192, has_more in any::<bool>(), number in any::<u32>()) {
        let place = FragmentPlace { offset: eighth * 8, has_more };
        let header = FragmentHeader::new(17, place, number);
        prop_assert_eq!(header.place(), place);
        let bytes = header.as_bytes();
        let other = wire::Ipv6FragmentHeader::new_checked(&bytes[2..]).unwrap();
        prop_assert_eq!(other.frag_offset(), eighth);
        prop_assert_eq!(other.more_frags(), has_more);
        prop_assert_eq!(other.ident(), number);
    }

    #[test]
    fn udp(
        source in 1u16.., destination in 1u16.., payload in vec(any::<u8>(), 0..100),
        from in any::<u32>(), to in any::<u32>(),
    ) {
        let (from, to) = (Ipv4Addr::from(from), Ipv4Addr::from(to));
        let mut header = UdpHeader::new(source, destination, payload.len()).unwrap();
        let mut sum = Sum::pseudo_header4(from, to, protocol::UDP, header.length() as u32);
        sum.add(header.as_bytes());
        sum.add(&payload);
        header.checksum = sum.checksum_of_udp().into();
        let bytes = [header.as_bytes(), &payload].concat();
        prop_assert_eq!(UdpHeader::parse(&bytes, bytes.len()).unwrap(), &header);
        let other = UdpPacket::new_checked(&bytes).unwrap();
        prop_assert!(other.verify_checksum(&from.into(), &to.into()));
        prop_assert_eq!((other.src_port(), other.dst_port()), (source, destination));
    }

    #[test]
    fn tcp(
        options in options(), sequence in any::<u32>(), acknowledgement in any::<u32>(),
        bits in 0u16..0x200, window in any::<u16>(), payload in vec(any::<u8>(), 0..100),
        from in any::<u128>(), to in any::<u128>(),
    ) {
        let mut room = [0; 64];
        let mut writer = HeaderWriter::new(&mut room);
        options.write(&mut writer).unwrap();
        prop_assume!(writer.length() <= 40);
        let flags = TcpFlags::from_bits_truncate(bits);
        let fields = TcpFields {
            source: 1, destination: 2, sequence, acknowledgement, flags, window, urgent: 0,
        };
        let mut header = fields.header(writer.length()).unwrap();
        let (from, to) = (Ipv6Addr::from(from), Ipv6Addr::from(to));
        let length = header.length() + payload.len();
        let mut sum = Sum::pseudo_header6(from, to, protocol::TCP, length as u32);
        sum.add(header.as_bytes());
        sum.add(writer.written());
        sum.add(&payload);
        header.checksum = sum.checksum().into();
        let bytes = [header.as_bytes(), writer.written(), &payload].concat();
        let (parsed, option_bytes) = TcpHeader::parse(&bytes, bytes.len()).unwrap();
        prop_assert_eq!(parsed.flags(), flags);
        let parsed = TcpOptions::parse(option_bytes, SegmentStage::Opening);
        prop_assert_eq!(parsed, options);
        let other = TcpPacket::new_checked(&bytes).unwrap();
        prop_assert!(other.verify_checksum(&from.into(), &to.into()));
        prop_assert_eq!(other.seq_number().0 as u32, sequence);
        prop_assert_eq!(other.window_len(), window);
        prop_assert_eq!(other.syn(), flags.contains(TcpFlags::SYN));
        prop_assert_eq!(other.payload(), &payload[..]);
    }

    #[test]
    fn sack_blocks(blocks in vec((any::<u32>(), any::<u32>()), 0..6), has_clock in any::<bool>()) {
        let all = blocks.iter().map(|(start, end)| SackBlock { start: *start, end: *end });
        let options = TcpOptions {
            sack: all.collect(),
            timestamps: has_clock.then(TcpTimestamps::default),
            ..TcpOptions::default()
        };
        let mut room = [0; 40];
        let mut writer = HeaderWriter::new(&mut room);
        options.write(&mut writer).unwrap();
        let parsed = TcpOptions::parse(writer.written(), SegmentStage::Open);
        let room = if has_clock { 3 } else { 4 };
        prop_assert_eq!(parsed.sack.as_slice(), &options.sack.as_slice()[..blocks.len().min(room)]);
    }

    #[test]
    fn echo(identifier in any::<u16>(), sequence in any::<u16>(), data in vec(any::<u8>(), 0..50)) {
        let message = IcmpMessage::EchoRequest { identifier, sequence };
        let mut header = message.header();
        let mut sum = Sum::of(header.as_bytes());
        sum.add(&data);
        header.checksum = sum.checksum().into();
        let bytes = [header.as_bytes(), &data].concat();
        prop_assert_eq!(IcmpMessage::parse(&bytes).unwrap(), message);
        let other = Icmpv4Packet::new_checked(&bytes).unwrap();
        let other = wire::Icmpv4Repr::parse(&other, &ChecksumCapabilities::default()).unwrap();
        let echo = wire::Icmpv4Repr::EchoRequest { ident: identifier, seq_no: sequence, data: &data };
        prop_assert_eq!(other, echo);
        let message = Icmpv6Message::EchoReply { identifier, sequence };
        prop_assert_eq!(Icmpv6Message::parse(message.header().as_bytes()).unwrap(), message);
    }

    #[test]
    fn neighbour_advertisement(target in 0u128..0xff << 120, mac in any::<[u8; 6]>(), bits in 0u8..8) {
        let flags = NeighbourFlags::from_bits_truncate(bits << 5);
        let message = NdpMessage::NeighbourAdvertisement { flags, target: target.into() };
        let mut room = [0; 64];
        let mut writer = HeaderWriter::new(&mut room);
        message.write(&mut writer).unwrap();
        NdpOption::TargetLink(mac).write(&mut writer).unwrap();
        let (parsed, mut options) = NdpMessage::parse(writer.written()).unwrap().unwrap();
        prop_assert_eq!(parsed, message);
        prop_assert_eq!(options.next(), Some(Ok(NdpOption::TargetLink(mac))));
        prop_assert_eq!(options.next(), None);
        let other = Icmpv6Packet::new_checked(writer.written()).unwrap();
        prop_assert_eq!(other.target_addr(), Ipv6Addr::from(target));
    }

    #[test]
    fn reports_of_groups(
        groups in vec((0u8..6, any::<[u8; 16]>(), vec(any::<[u8; 16]>(), 0..4)), 0..5),
    ) {
        let kinds = [1, 2, 3, 4, 5, 6].map(|number| RecordKind::of(number).unwrap());
        let records: Vec<GroupRecord<'_, 16>> = groups
            .iter()
            .map(|(kind, group, sources)| {
                GroupRecord { kind: kinds[usize::from(*kind)], group: *group, sources }
            })
            .collect();
        let mut room = [0; 1000];
        let mut writer = HeaderWriter::new(&mut room);
        mld::write_report(&mut writer, records.len() as u16).unwrap();
        records.iter().for_each(|record| record.write(&mut writer).unwrap());
        let Some(MldMessage::Records(parsed)) = MldMessage::parse(writer.written()).unwrap() else {
            panic!()
        };
        prop_assert_eq!(parsed.map(Result::unwrap).collect::<Vec<_>>(), records);
    }

    #[test]
    fn igmp_report(group in any::<[u8; 4]>(), sources in vec(any::<[u8; 4]>(), 0..4)) {
        let record = GroupRecord { kind: RecordKind::ToExclude, group, sources: &sources };
        let (mut body, mut room) = ([0; 100], [0; 100]);
        let mut records = HeaderWriter::new(&mut body);
        record.write(&mut records).unwrap();
        let mut writer = HeaderWriter::new(&mut room);
        igmp::write_report(&mut writer, 1, Sum::of(records.written())).unwrap();
        writer.put(records.written()).unwrap();
        let IgmpMessage::Records(parsed) = IgmpMessage::parse(writer.written()).unwrap() else {
            panic!()
        };
        prop_assert_eq!(parsed.map(Result::unwrap).collect::<Vec<_>>(), vec![record]);
    }
}
