//! Segments that are merged, and those that are not.
use super::{far, model::*, settings::stack_over};
use crate::{
    card::{Card, Tools},
    copies::Copies,
    merge::{ArrivedPacket, Merger},
};
use inet::{
    Buffer, Inet, InterfaceAddress, InterfaceFlags, InterfaceIndex, ReceivedFrame,
    TransportChecksum,
};
use interfaces::nic::PacketSegment;
use packet::{
    Sum,
    ipv4::{Cutting, FragmentPlace, Ipv4, Ipv4Fields},
    ipv6::{Ipv6Fields, Ipv6Header},
    protocol,
    tcp::{TcpFields, TcpFlags, TcpHeader},
};
use proptest::prelude::*;
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};
use zerocopy::IntoBytes;

const ACK: TcpFlags = TcpFlags::ACK;
const PSH: TcpFlags = TcpFlags::PSH;
const CLOCK: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];

/// A segment on the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    /// The version of IP is six.
    pub is_v6: bool,
    pub port: u16,
    pub sequence: u32,
    pub acknowledgement: u32,
    pub flags: TcpFlags,
    pub window: u16,
    pub options: Vec<u8>,
    pub class: u8,
    pub hops: u8,
    pub data: Vec<u8>,
}

impl Sent {
    /// Returns a segment of the flow `port` with `length` bytes from `sequence` on. Odd flows are of IPv6.
    pub fn new(port: u16, sequence: u32, length: usize) -> Sent {
        let byte = |at: usize| (sequence.wrapping_add(at as u32).wrapping_mul(7) % 251) as u8;
        Sent {
            is_v6: port % 2 == 1,
            port,
            sequence,
            acknowledgement: 77,
            flags: ACK,
            window: 500,
            options: CLOCK.to_vec(),
            class: 2,
            hops: 64,
            data: (0..length).map(byte).collect(),
        }
    }
    fn end(&self) -> u32 {
        self.sequence.wrapping_add(self.data.len() as u32)
    }
    fn ends(&self) -> (IpAddr, IpAddr) {
        if self.is_v6 {
            ([0xfd00, 0, 0, 0, 0, 0, 0, 1].into(), [0xfd00, 0, 0, 0, 0, 0, 0, 2].into())
        } else {
            ([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
        }
    }
    fn sum(&self, length: usize) -> Sum {
        let (source, destination) = self.ends();
        Sum::pseudo_header(source, destination, protocol::TCP, length as u32)
    }
    pub fn bytes(&self) -> Vec<u8> {
        let fields = TcpFields {
            source: self.port,
            destination: 80,
            sequence: self.sequence,
            acknowledgement: self.acknowledgement,
            flags: self.flags,
            window: self.window,
            urgent: 0,
        };
        let mut header = fields.header(self.options.len()).unwrap();
        let length = header.as_bytes().len() + self.options.len() + self.data.len();
        let mut sum = self.sum(length);
        [header.as_bytes(), &self.options, &self.data].iter().for_each(|part| sum.add(part));
        header.checksum = sum.checksum().into();
        let network = match self.ends() {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let fields = Ipv4Fields {
                    source,
                    destination,
                    protocol: protocol::TCP,
                    traffic_class: self.class,
                    ttl: self.hops,
                    identification: 0,
                    cutting: Cutting::Forbidden,
                    place: FragmentPlace::default(),
                };
                fields.header(&[], length).unwrap().as_bytes().to_vec()
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let fields = Ipv6Fields {
                    source,
                    destination,
                    next_header: protocol::TCP,
                    traffic_class: self.class,
                    flow_label: 9,
                    hop_limit: self.hops,
                };
                fields.header(length).unwrap().as_bytes().to_vec()
            }
            _ => unreachable!(),
        };
        let kind: [u8; 2] = if self.is_v6 { [0x86, 0xdd] } else { [8, 0] };
        let transport = [header.as_bytes(), &self.options, &self.data].concat();
        [&MAC[..], &PEER, &kind, &network, &transport].concat()
    }
    /// Parses a frame, whose lengths and sums must be right.
    pub fn parse(bytes: &[u8], checksum: TransportChecksum) -> Sent {
        let is_v6 = bytes[12] == 0x86;
        let network = &bytes[14..];
        let (class, hops, at) = if is_v6 {
            let header = Ipv6Header::parse(network, network.len()).unwrap();
            assert_eq!((header.total_length(), header.flow_label()), (network.len(), 9));
            (header.traffic_class(), header.hop_limit, 40)
        } else {
            let header = Ipv4::parse(network, network.len()).unwrap().header;
            assert_eq!(header.total_length(), network.len());
            (header.traffic_class, header.ttl, 20)
        };
        let transport = &network[at..];
        let (header, options) = TcpHeader::parse(transport, transport.len()).unwrap();
        let sent = Sent {
            is_v6,
            port: header.source.get(),
            sequence: header.sequence.get(),
            acknowledgement: header.acknowledgement.get(),
            flags: header.flags(),
            window: header.window.get(),
            options: options.to_vec(),
            class,
            hops,
            data: transport[header.length()..].to_vec(),
        };
        let mut sum = sent.sum(transport.len());
        if checksum == TransportChecksum::Partial {
            assert_eq!(header.checksum.get(), sum.folded());
        } else {
            sum.add(transport);
            assert!(sum.is_valid());
        }
        sent
    }
}

/// Returns `count` segments of `length` bytes that follow each other.
fn run(port: u16, count: usize, length: usize) -> Vec<Sent> {
    (0..count).map(|at| Sent::new(port, (at * length) as u32, length)).collect()
}

fn bytes_of_all(sent: &[Sent]) -> Vec<Vec<u8>> {
    sent.iter().map(Sent::bytes).collect()
}

/// Takes packets as one batch, in pieces of at most `most` bytes.
pub fn merged(packets: &[Vec<u8>], most: usize) -> Vec<ReceivedFrame> {
    merged_while(false, packets, most)
}

/// Does the same while somebody watches, or nobody.
pub fn merged_while(is_watched: bool, packets: &[Vec<u8>], most: usize) -> Vec<ReceivedFrame> {
    let (mut merger, mut copies) = (Merger::default(), Copies::default());
    merger.begin(is_watched);
    let mut frames = Vec::new();
    for bytes in packets {
        let mut pieces =
            bytes.chunks(most).map(|part| PacketSegment::copy_of(part).unwrap()).collect();
        let checksum = TransportChecksum::Unverified;
        let packet =
            ArrivedPacket { pieces: &mut pieces, checksum, segment: None, is_short: false };
        merger.take(&mut frames, &mut copies, packet);
    }
    merger.finish();
    frames
}

fn parse(frame: &ReceivedFrame) -> Sent {
    Sent::parse(&frame.payload.to_vec(), frame.checksum)
}

/// Asserts that each packet came as it is.
fn assert_unmerged(packets: &[Vec<u8>]) {
    let frames = merged(packets, 4096);
    let bytes: Vec<_> = frames.iter().map(|frame| frame.payload.to_vec()).collect();
    assert_eq!(bytes, packets);
    for frame in frames {
        assert_eq!((frame.checksum, frame.segment), (TransportChecksum::Unverified, None));
    }
}

#[test]
fn segments_that_follow_each_other_become_one_of_all_bytes() {
    for port in [2, 3] {
        let mut sent = run(port, 10, 1448);
        sent[9].data.truncate(300);
        sent[9].flags |= PSH;
        for most in [50, 1000, 4096] {
            let frames = merged(&bytes_of_all(&sent), most);
            let [frame] = &frames[..] else { panic!("{} frames", frames.len()) };
            assert_eq!((frame.checksum, frame.segment), (TransportChecksum::Partial, Some(1448)));
            let data = sent.iter().flat_map(|one| one.data.clone()).collect();
            assert_eq!(parse(frame), Sent { data, flags: ACK | PSH, ..sent[0].clone() });
        }
    }
}

#[test]
fn a_merged_segment_fits_the_field_of_its_length() {
    for port in [2, 3] {
        let frames = merged(&bytes_of_all(&run(port, 64, 1448)), 4096);
        let lengths: Vec<_> = frames.iter().map(|frame| parse(frame).data.len()).collect();
        assert_eq!(lengths, [45 * 1448, 19 * 1448]);
    }
}

#[test]
fn a_segment_that_is_not_like_the_one_before_stays_alone() {
    type Change = fn(&mut Sent);
    let changes: [Change; 13] = [
        |one| one.sequence += 1,
        |one| one.sequence -= 1,
        |one| one.sequence -= 1448,
        |one| one.acknowledgement += 1,
        |one| one.window += 1,
        |one| one.options[7] += 1,
        |one| one.options.truncate(0),
        |one| one.class ^= 1,
        |one| one.hops -= 1,
        |one| one.data.push(0),
        |one| one.port += 2,
        |one| one.is_v6 = !one.is_v6,
        |one| one.data.clear(),
    ];
    for port in [2, 3] {
        for change in changes {
            let mut sent = run(port, 2, 1448);
            change(&mut sent[1]);
            assert_unmerged(&bytes_of_all(&sent));
        }
        for flag in [
            TcpFlags::FIN,
            TcpFlags::SYN,
            TcpFlags::RST,
            TcpFlags::URG,
            TcpFlags::ECE,
            TcpFlags::CWR,
            TcpFlags::AE,
        ] {
            for place in [0, 1] {
                let mut sent = run(port, 2, 1448);
                sent[place].flags |= flag;
                assert_unmerged(&bytes_of_all(&sent));
            }
        }
    }
}

#[test]
fn a_damaged_packet_stays_alone_and_as_it_is() {
    for port in [2, 3] {
        let whole = bytes_of_all(&run(port, 2, 1448));
        // The header of TCP of both versions, and the payload.
        for at in (if port == 3 { 54 } else { 34 })..whole[0].len() {
            for place in [0, 1] {
                let mut packets = whole.clone();
                packets[place][at] ^= 0x10;
                assert_unmerged(&packets);
            }
        }
        // A frame may be longer than its packet, and the Ethernet header may differ.
        let mut packets = whole.clone();
        packets[1].push(0);
        assert_unmerged(&packets);
        let mut packets = whole.clone();
        packets[1][6] ^= 2;
        assert_unmerged(&packets);
    }
    // The header of IPv4 has a checksum of its own.
    for at in 14..34 {
        let mut packets = bytes_of_all(&run(2, 2, 1448));
        packets[1][at] ^= 1;
        assert_unmerged(&packets);
    }
}

#[test]
fn flows_are_merged_side_by_side() {
    for count in [8, 9, 20] {
        let runs: Vec<_> = (0..count).map(|port| run(port, 6, 500)).collect();
        let packets: Vec<_> =
            (0..6).flat_map(|at| runs.iter().map(move |run| run[at].bytes())).collect();
        let frames = merged(&packets, 4096);
        assert_eq!(frames.len(), if count == 8 { 8 } else { usize::from(count) * 6 });
    }
}

#[test]
fn a_packet_without_data_ends_the_merge_of_its_flow_alone() {
    let (one, other) = (run(2, 4, 1000), run(4, 4, 1000));
    let bare = Sent { acknowledgement: 99, ..Sent::new(2, 2000, 0) };
    let mut packets = bytes_of_all(&[one[0].clone(), other[0].clone(), one[1].clone()]);
    packets.extend(bytes_of_all(&[other[1].clone(), bare, one[2].clone(), other[2].clone()]));
    let seen: Vec<_> = merged(&packets, 4096).iter().map(parse).collect();
    let seen: Vec<_> = seen.iter().map(|one| (one.port, one.sequence, one.data.len())).collect();
    assert_eq!(seen, [(2, 0, 2000), (4, 0, 3000), (2, 2000, 0), (2, 2000, 1000)]);
}

#[test]
fn a_packet_of_an_unknown_flow_ends_all_merges() {
    let sent = run(2, 4, 1000);
    let mut fragment = sent[2].bytes();
    // More fragments follow. The sum of the header changes by the same.
    fragment[20] ^= 0x20;
    fragment[24] -= 0x20;
    assert!(Ipv4::parse(&fragment[14..], fragment.len() - 14).is_ok());
    let packets = [sent[0].bytes(), sent[1].bytes(), fragment, sent[2].bytes(), sent[3].bytes()];
    let lengths: Vec<_> =
        merged(&packets, 4096).iter().map(|frame| frame.payload.length()).collect();
    assert_eq!(lengths, [2066, 1066, 2066]);
}

#[test]
fn what_a_card_has_merged_is_not_merged_again() {
    let sent = run(2, 3, 1000);
    let (mut merger, mut copies, mut frames) = (Merger::default(), Copies::default(), Vec::new());
    for one in &sent {
        let mut pieces = vec![PacketSegment::copy_of(&one.bytes()).unwrap()];
        let segment = (one.sequence == 1000).then_some(500);
        let checksum = TransportChecksum::Verified;
        let packet = ArrivedPacket { pieces: &mut pieces, checksum, segment, is_short: false };
        merger.take(&mut frames, &mut copies, packet);
    }
    merger.finish();
    let segments: Vec<_> = frames.iter().map(|frame| frame.segment).collect();
    assert_eq!(segments, [None, Some(500), None]);
}

/// A step of a sender: the flow, the number of bytes, and what is odd about the segment.
fn step() -> impl Strategy<Value = (u16, usize, u8)> {
    let length = prop::sample::select(vec![0, 1, 100, 900, 900, 900, 900, 900]);
    (0u16..12, length, 0u8..24)
}

proptest! {
    /// The segments of each flow, cut again, are those that came: in order, and each once.
    #[test]
    fn merged_segments_are_those_that_came(
        steps in prop::collection::vec(step(), 0..64), flows in 1u16..12, most in 40usize..2000,
    ) {
        let mut next = [0u32.wrapping_sub(3000); 12];
        let (mut sent, mut packets) = (Vec::new(), Vec::new());
        for (port, length, oddity) in steps {
            let at = &mut next[usize::from(port % flows)];
            let mut one = Sent::new(port % flows, *at, length);
            *at = one.end();
            let mut damage = 0;
            match oddity {
                0 => one.sequence = one.sequence.wrapping_sub(900),
                1 => one.acknowledgement += 1,
                2 => one.window += 1,
                3 => one.flags |= TcpFlags::FIN,
                4 | 5 => one.flags |= PSH,
                6 => one.options.clear(),
                7 => one.class = 3,
                8 => damage = 0x40,
                _ => {}
            }
            let mut bytes = one.bytes();
            // The last byte is data, or a timestamp.
            *bytes.last_mut().unwrap() ^= damage;
            packets.push(bytes);
            sent.push((one, damage != 0));
        }
        let mut seen = Vec::new();
        let frames = merged(&packets, most);
        for frame in &frames {
            let bytes = frame.payload.to_vec();
            if frame.checksum == TransportChecksum::Unverified {
                prop_assert!(packets.contains(&bytes));
                prop_assert_eq!(frame.segment, None);
                let is_damaged = packets.iter().position(|one| *one == bytes).map(|at| sent[at].1);
                if is_damaged == Some(true) {
                    continue;
                }
                seen.push(parse(frame));
                continue;
            }
            let whole = parse(frame);
            let size = usize::from(frame.segment.unwrap());
            prop_assert!(whole.data.len() > size && bytes.len() <= 14 + 40 + 65_535);
            let parts = whole.data.chunks(size).enumerate();
            seen.extend(parts.map(|(at, data)| Sent {
                sequence: whole.sequence.wrapping_add((at * size) as u32),
                data: data.to_vec(),
                ..whole.clone()
            }));
        }
        for (bytes, (_, is_damaged)) in packets.iter().zip(&sent) {
            prop_assert!(!is_damaged || frames.iter().any(|one| one.payload.to_vec() == *bytes));
        }
        for port in 0..flows {
            // A flag of the whole is that of one of its segments.
            let plain = |one: &Sent| Sent { flags: one.flags - PSH, ..one.clone() };
            let came = sent.iter().filter(|(one, is_damaged)| one.port == port && !is_damaged);
            let came: Vec<_> = came.map(|(one, _)| plain(one)).collect();
            let seen: Vec<_> = seen.iter().filter(|one| one.port == port).map(plain).collect();
            prop_assert_eq!(seen, came);
        }
    }
}

const CARD: InterfaceIndex = InterfaceIndex(2);

/// A stack, its card, and the packets of a batch.
struct Host {
    model: Arc<Model>,
    inet: Arc<Inet>,
    card: Arc<Card>,
    tools: Tools,
}

impl Host {
    fn new(mac: [u8; 6], addresses: [IpAddr; 2]) -> Host {
        let model = Model::new();
        model.info.lock().unwrap().mac = mac;
        let (inet, card) = stack_over(&model);
        inet.stack()
            .configure(|all| {
                all.edit_interface(CARD, |card| card.flags |= InterfaceFlags::UP)?;
                addresses.into_iter().try_for_each(|address| {
                    let length = if address.is_ipv4() { 24 } else { 64 };
                    all.add_address(CARD, InterfaceAddress::new(address, length).unwrap())
                })
            })
            .unwrap();
        Host { model, inet, card, tools: Tools::new(64) }
    }
    /// Takes what `other` has sent, so many packets at once. Returns their number.
    fn take(&mut self, other: &Host, at_once: usize) -> usize {
        let packets = other.model.take_sent();
        other.model.end(packets.len());
        for part in packets.chunks(at_once) {
            let mut batch: Vec<_> =
                part.iter().map(|bytes| self.model.packet(bytes, 2048)).collect();
            self.card.bring(&self.inet, batch.drain(..), &mut self.tools);
        }
        packets.len()
    }
}

/// Carries bytes from a host to another that takes `at_once` packets at once. Returns the acknowledgements, and what the receiver
/// knows of the segments: their number and the size of full ones.
fn transfer(server_end: SocketAddr, at_once: usize) -> (usize, u32, u32) {
    let addresses =
        |host: u8| [IpAddr::from([10, 0, 0, host]), [0xfd00, 0, 0, 0, 0, 0, 0, host.into()].into()];
    let mut hosts = [Host::new(PEER, addresses(1)), Host::new(MAC, addresses(2))];
    let (listener, accepting) = far::listen(&*hosts[1].inet, server_end);
    let client = far::Program::like(&*hosts[0].inet, server_end);
    client.socket.connect(server_end).unwrap();
    let data = far::pattern(300_000, 5);
    let (mut written, mut got, mut child, mut answers) = (0, Vec::new(), None, 0);
    wait_until(|| {
        let [first, second] = &mut hosts;
        second.take(first, at_once);
        answers += first.take(second, 1);
        [first, second].into_iter().for_each(|host| _ = host.inet.poll());
        written += client.try_write(&data[written..]);
        if child.is_none() {
            child = accepting.take(&listener);
        }
        if let Some(child) = &child {
            got.extend(child.try_read());
        }
        got.len() == data.len()
    });
    assert!(got == data);
    let info = child.unwrap().socket.info();
    (answers, info.data_segs_in, info.rcv_mss)
}

#[test]
fn a_stack_gets_the_same_bytes_and_knows_the_segments_of_merged_ones() {
    for end in ["10.0.0.2:80", "[fd00::2]:80"] {
        let end = end.parse().unwrap();
        let (one_by_one, of_one, size) = transfer(end, 1);
        let (at_once, of_many, same_size) = transfer(end, 32);
        assert_eq!((size, same_size), (size.clamp(1428, 1448), size));
        // The bytes fill 208 to 211 segments, and a few more if the window cuts some.
        assert!([of_one, of_many].iter().all(|count| (208..250).contains(count)), "{of_many}");
        assert!(at_once * 2 < one_by_one, "{at_once} of {one_by_one} acknowledgements");
    }
}
