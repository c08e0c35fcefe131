//! Labels of packets: sockets of several secrecies on a host, interfaces of one secrecy, and interfaces whose packets tell theirs.
use super::{
    sockets::{bytes, datagram, end},
    streams::world::*,
};
use crate::*;
use ::labels::{
    Categories, Secrecy, SecrecyId,
    wire::{PacketLabel, cipso},
};
use interfaces::sockets::{
    CloseKind, DatagramProtocol, DatagramQueue, DatagramSocket, FrameTap, LabelFault, LabelOption,
    LinkLabel, Network, PacketLabels, SeenFrame, SocketError, SocketFamilies, SocketOwner,
    SocketProtocol, StreamState, TapBinding,
};
use packet::ipv4::Ipv4;
use std::{
    net::SocketAddr,
    num::NonZeroU32,
    sync::{Arc, Mutex},
};

const LOW: SecrecyId = SecrecyId(1);
const MIDDLE: SecrecyId = SecrecyId(2);
const HIGH: SecrecyId = SecrecyId(3);

/// Levels, each of which dominates those of lesser numbers, and the label of all cards.
struct Levels(LinkLabel);

impl PacketLabels for Levels {
    fn link(&self, name: &str) -> LinkLabel {
        if name == "lo" { LinkLabel::Single(LOW) } else { self.0 }
    }
    fn dominates(&self, one: SecrecyId, other: SecrecyId) -> bool {
        one >= other
    }
    fn written(
        &self,
        label: SecrecyId,
        domain: NonZeroU32,
        option: LabelOption,
    ) -> Option<Vec<u8>> {
        let secrecy = Secrecy::new(label.0 as u8, Categories::NONE)?;
        option.written(&PacketLabel { domain: domain.get(), secrecy })
    }
    fn read(
        &self,
        bytes: &[u8],
        domain: NonZeroU32,
        option: LabelOption,
    ) -> Result<SecrecyId, LabelFault> {
        Ok(SecrecyId(option.read(bytes, domain)?.level().into()))
    }
}

/// Returns the label of a link whose packets tell a level up to the middle one.
fn told(domain: u32) -> LinkLabel {
    LinkLabel::Told { low: LOW, high: MIDDLE, domain: NonZeroU32::new(domain).unwrap() }
}

/// Returns two hosts whose cards have these labels.
fn labelled(links: [LinkLabel; 2]) -> Pair {
    let pair = Pair::new(1, Weather::default());
    for (host, link) in pair.hosts.iter().zip(links) {
        host.inet.set_labels(Arc::new(Levels(link))).unwrap();
    }
    pair
}

fn families_of(end: SocketAddr) -> SocketFamilies {
    if end.is_ipv4() { SocketFamilies::V4 } else { SocketFamilies::V6 }
}

fn listen(pair: &Pair, host: usize, address: &str, label: SecrecyId) -> Server {
    let families = families_of(at(address));
    Server::of(Program::labelled(&pair.hosts[host].inet, families, label), address, 5)
}

fn connect(pair: &Pair, to: &str, label: SecrecyId) -> (Program, Result<(), SocketError>) {
    let program = Program::labelled(&pair.hosts[0].inet, families_of(at(to)), label);
    let result = program.socket.connect(at(to));
    (program, result)
}

fn drops(pair: &Pair, host: usize, reason: DropReason) -> u64 {
    pair.hosts[host].inet.stack().drops.get(reason)
}

/// A socket of datagrams, and what came.
struct Mailbox(Arc<dyn DatagramSocket>, Arc<DatagramQueue>);

impl Mailbox {
    fn new(
        pair: &Pair,
        host: usize,
        (protocol, families): (DatagramProtocol, SocketFamilies),
        label: SecrecyId,
    ) -> Mailbox {
        let queue = Arc::new(DatagramQueue::new(Arc::new(Told::default()), 1 << 20));
        let owner = SocketOwner { user: 1, inode: 9, label };
        let inet = &pair.hosts[host].inet;
        let socket = inet.open_datagram(queue.clone(), protocol, families, owner).unwrap();
        Mailbox(socket, queue)
    }
    fn bound(pair: &Pair, host: usize, address: &str, label: SecrecyId) -> Mailbox {
        let kind = (DatagramProtocol::Udp, families_of(at(address)));
        let mailbox = Mailbox::new(pair, host, kind, label);
        mailbox.0.bind(at(address)).unwrap();
        mailbox
    }
    fn take(&self) -> Option<Vec<u8>> {
        self.1.take().unwrap().map(|datagram| bytes(&datagram.payload))
    }
}

#[test]
fn sockets_of_each_secrecy_have_ports_of_their_own_on_loopback() {
    let pair = labelled([LinkLabel::Single(LOW); 2]);
    let servers = [LOW, MIDDLE].map(|label| listen(&pair, 0, "127.0.0.1:80", label));
    let second = Program::labelled(&pair.hosts[0].inet, SocketFamilies::V4, LOW);
    assert_eq!(second.socket.bind(at("127.0.0.1:80")), Err(SocketError::InUse));
    for (server, label) in servers.iter().zip([LOW, MIDDLE]) {
        let (client, result) = connect(&pair, "127.0.0.1:80", label);
        assert_eq!(result, Ok(()));
        let child = server.accept().unwrap();
        assert_eq!((client.write(b"to"), child.read(9)), (2, b"to".to_vec()));
        assert_eq!((child.write(b"fro"), client.read(9)), (3, b"fro".to_vec()));
        assert!(servers.iter().all(|server| server.waiting() == 0));
    }
    // At the third level nobody listens, whatever the others do.
    let (client, _) = connect(&pair, "127.0.0.1:80", HIGH);
    assert_eq!(client.stream.take_error(), Some(SocketError::Refused));
    let records = pair.hosts[0].inet.administration().sockets(SocketProtocol::Tcp);
    let listeners = records.iter().filter(|record| record.peer.is_none());
    assert_eq!(listeners.map(|record| record.label).collect::<Vec<_>>(), [LOW, MIDDLE]);
    // A tap makes segments of what goes straight otherwise.
    let seen = Arc::new(Seen::default());
    let tap = Network::taps(&*pair.hosts[0].inet).open(seen.clone(), MIDDLE);
    tap.bind(TapBinding { interface: None, protocol: Some(TapBinding::ALL) }).unwrap();
    let (client, _) = connect(&pair, "127.0.0.1:80", HIGH);
    assert_eq!(client.stream.take_error(), Some(SocketError::Refused));
    assert_eq!(seen.take(), 0, "a tap does not see what is above it");
    let (client, _) = connect(&pair, "127.0.0.1:80", MIDDLE);
    assert!(client.is(StreamState::CONNECTED) && servers[1].accept().is_some());
    assert!(seen.take() > 2);
    let (client, _) = connect(&pair, "127.0.0.1:80", LOW);
    assert!(client.is(StreamState::CONNECTED) && servers[0].accept().is_some());
    assert!(seen.take() > 2);
}

/// A tap's count of frames.
#[derive(Default)]
struct Seen(Mutex<usize>);

impl Seen {
    fn take(&self) -> usize {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl FrameTap for Seen {
    fn see(&self, _: &SeenFrame<'_>) {
        *self.0.lock().unwrap() += 1;
    }
    fn failed(&self, _: SocketError) {}
}

#[test]
fn connections_of_two_secrecies_can_have_the_same_ends() {
    let pair = labelled([LinkLabel::Single(LOW); 2]);
    let mut ends = Vec::new();
    for label in [LOW, MIDDLE] {
        let server = listen(&pair, 0, "127.0.0.1:80", label);
        let client = Program::labelled(&pair.hosts[0].inet, SocketFamilies::V4, label);
        client.socket.bind(at("127.0.0.1:5000")).unwrap();
        client.socket.connect(at("127.0.0.1:80")).unwrap();
        ends.push((server.accept().unwrap(), client, server));
    }
    for (number, (child, client, _)) in ends.iter().enumerate() {
        assert_eq!(
            (client.socket.local(), child.socket.local()),
            (at("127.0.0.1:5000"), at("127.0.0.1:80"))
        );
        client.write(&[number as u8]);
        assert_eq!(child.read(9), [number as u8]);
    }
}

#[test]
fn datagrams_reach_sockets_of_their_secrecy_alone() {
    let pair = labelled([LinkLabel::Single(LOW); 2]);
    let boxes = [LOW, MIDDLE].map(|label| Mailbox::bound(&pair, 0, "127.0.0.1:53", label));
    for label in [LOW, MIDDLE, HIGH] {
        let kind = (DatagramProtocol::Udp, SocketFamilies::V4);
        let client = Mailbox::new(&pair, 0, kind, label);
        client.0.connect(Some(at("127.0.0.1:53"))).unwrap();
        let data = [label.0 as u8];
        client.0.send(datagram(None, &data)).unwrap();
        let came: Vec<_> = boxes.iter().map(Mailbox::take).collect();
        let of = |own: SecrecyId| (own == label).then(|| data.to_vec());
        assert_eq!(came, [of(LOW), of(MIDDLE)]);
        let error = (label == HIGH).then_some(SocketError::Refused);
        assert_eq!(client.1.take_error(), error);
    }
}

#[test]
fn raw_sockets_see_what_they_dominate() {
    let pair = labelled([LinkLabel::Single(LOW); 2]);
    let kind = (DatagramProtocol::Raw(17), SocketFamilies::V4);
    let raw = [LOW, MIDDLE].map(|label| Mailbox::new(&pair, 0, kind, label));
    let counts = |raw: &[Mailbox]| -> Vec<usize> {
        raw.iter().map(|one| std::iter::from_fn(|| one.take()).count()).collect()
    };
    for (label, expected) in [(LOW, [1, 1]), (MIDDLE, [0, 1]), (HIGH, [0, 0])] {
        let receiver = Mailbox::bound(&pair, 0, "127.0.0.1:53", label);
        let sender = Mailbox::new(&pair, 0, (DatagramProtocol::Udp, SocketFamilies::V4), label);
        sender.0.send(datagram(Some(end("127.0.0.1", 53)), b"x")).unwrap();
        assert!(receiver.take().is_some());
        assert_eq!(counts(&raw), expected);
    }
}

#[test]
fn a_link_of_one_secrecy_carries_no_other() {
    let mut pair = labelled([LinkLabel::Single(LOW), LinkLabel::Single(LOW)]);
    let servers = [LOW, MIDDLE].map(|label| listen(&pair, 1, "10.0.0.2:80", label));
    let (client, result) = connect(&pair, "10.0.0.2:80", LOW);
    assert_eq!(result, Ok(()));
    assert!(pair.until(10, |_| client.is(StreamState::CONNECTED) && servers[0].waiting() == 1));
    for to in ["10.0.0.2:80", "[fd00::2]:80"] {
        assert_eq!(connect(&pair, to, MIDDLE).1, Err(SocketError::Forbidden));
        let kind = (DatagramProtocol::Udp, families_of(at(to)));
        let sender = Mailbox::new(&pair, 0, kind, MIDDLE);
        let sent = sender.0.send(datagram(Some(at(to)), b"x"));
        assert_eq!(sent, Err(SocketError::Forbidden));
    }
    assert_eq!(drops(&pair, 0, DropReason::LabelSent), 4);
    assert_eq!(servers[1].waiting(), 0);
    // Another policy: the connection cannot go on.
    let child = servers[0].accept().unwrap();
    pair.hosts[0].inet.set_labels(Arc::new(Levels(LinkLabel::Single(MIDDLE)))).unwrap();
    client.write(b"secret");
    pair.wait(5 * S);
    assert_eq!(child.read(9), b"");
    pair.hosts[0].inet.set_labels(Arc::new(Levels(LinkLabel::Single(LOW)))).unwrap();
    assert!(pair.until(60, |_| child.stream.readable() == 6));
}

/// Returns whether each frame of IP has a label, and how many of them there are.
fn count_labelled(frames: &[Vec<u8>]) -> usize {
    let of_ip = frames.iter().filter(|frame| frame[12..14] == [8, 0]);
    let has_label = |frame: &Vec<u8>| {
        let packet = Ipv4::parse(&frame[14..], frame.len() - 14).unwrap();
        packet.options.first() == Some(&cipso::KIND)
    };
    assert!(of_ip.clone().all(has_label));
    of_ip.count()
}

#[test]
fn packets_tell_their_secrecy() {
    for (to, from) in [("10.0.0.2:80", "10.0.0.1:9"), ("[fd00::2]:80", "[fd00::1]:9")] {
        let mut pair = labelled([told(7); 2]);
        for label in [LOW, MIDDLE] {
            let server = listen(&pair, 1, to, label);
            let (client, result) = connect(&pair, to, label);
            assert_eq!(result, Ok(()));
            assert!(pair.until(10, |_| server.waiting() == 1), "{to} {label:?}");
            let child = server.accept().unwrap();
            let data: Vec<u8> = (0..50_000).map(byte).collect();
            assert_eq!(client.write(&data), data.len());
            let mut got = Vec::new();
            assert!(pair.until(60, |_| {
                got.extend(child.read(60_000));
                got.len() == data.len()
            }));
            assert_eq!(got, data);
            // Also in fragments.
            let (receiver, sender) =
                (Mailbox::bound(&pair, 1, to, label), Mailbox::bound(&pair, 0, from, label));
            sender.0.send(datagram(Some(at(to)), &data[..4000])).unwrap();
            pair.wait(S);
            assert_eq!(receiver.take(), Some(data[..4000].to_vec()));
        }
        // A reset has the secrecy of the segment that it answers, and so does an error of ICMP.
        let low = listen(&pair, 1, to, LOW);
        let (client, _) = connect(&pair, to, MIDDLE);
        assert!(pair.until(10, |_| client.stream.take_error() == Some(SocketError::Refused)));
        let sender = Mailbox::bound(&pair, 0, from, MIDDLE);
        sender.0.connect(Some(at(to))).unwrap();
        sender.0.send(datagram(None, b"x")).unwrap();
        assert!(pair.until(10, |_| sender.1.take_error() == Some(SocketError::Refused)));
        assert_eq!((low.waiting(), connect(&pair, to, HIGH).1), (0, Err(SocketError::Forbidden)));
        let reasons =
            [DropReason::LabelMissing, DropReason::LabelMalformed, DropReason::LabelRange];
        assert!((0..2).all(|host| reasons.iter().all(|reason| drops(&pair, host, *reason) == 0)));
    }
}

#[test]
fn every_frame_has_the_label_of_its_socket() {
    let mut pair = labelled([told(7); 2]);
    let server = listen(&pair, 1, "10.0.0.2:80", MIDDLE);
    let (client, _) = connect(&pair, "10.0.0.2:80", MIDDLE);
    assert!(pair.until(10, |_| server.waiting() == 1 && client.is(StreamState::CONNECTED)));
    client.write(&[7; 5000]);
    let sender = Mailbox::bound(&pair, 0, "10.0.0.1:9", MIDDLE);
    sender.0.send(datagram(Some(at("10.0.0.2:9")), &[7; 4000])).unwrap();
    let frames: Vec<_> = pair.cables[0].frames.lock().unwrap().iter().cloned().collect();
    assert!(count_labelled(&frames) >= 7);
    assert!(frames.iter().all(|frame| frame.len() <= 1514));
    drop(server);
    client.socket.close(CloseKind::Abort);
}

#[test]
fn packets_without_a_fitting_label_are_dropped() {
    let cases = [
        (LinkLabel::Single(LOW), LOW, DropReason::LabelMissing),
        (told(8), LOW, DropReason::LabelDomain),
        (
            LinkLabel::Told { low: LOW, high: HIGH, domain: NonZeroU32::new(7).unwrap() },
            HIGH,
            DropReason::LabelRange,
        ),
    ];
    for (link, label, reason) in cases {
        for to in ["10.0.0.2:53", "[fd00::2]:53"] {
            let mut pair = labelled([link, told(7)]);
            let receiver = Mailbox::bound(&pair, 1, to, label);
            let kind = (DatagramProtocol::Udp, families_of(at(to)));
            let sender = Mailbox::new(&pair, 0, kind, label);
            sender.0.send(datagram(Some(at(to)), b"x")).unwrap();
            pair.wait(S);
            assert_eq!((receiver.take(), drops(&pair, 1, reason)), (None, 1), "{to} {reason:?}");
        }
    }
    // A damaged option.
    let pair = labelled([told(7); 2]);
    let receiver = Mailbox::bound(&pair, 1, "10.0.0.2:53", LOW);
    let malformed = [134, 10, 0, 0, 0, 7, 1, 4, 0, 99, 0, 0];
    let fields = packet::ipv4::Ipv4Fields {
        source: [10, 0, 0, 1].into(),
        destination: [10, 0, 0, 2].into(),
        protocol: 17,
        traffic_class: 0,
        ttl: 64,
        identification: 0,
        cutting: packet::ipv4::Cutting::Allowed,
        place: packet::ipv4::FragmentPlace::default(),
    };
    let header = fields.header(&malformed, 8).unwrap();
    let ethernet = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let udp = [0, 9, 0, 53, 0, 8, 0, 0];
    pair.give(
        1,
        &[&ethernet[..], zerocopy::IntoBytes::as_bytes(&header), &malformed, &udp].concat(),
    );
    assert_eq!((receiver.take(), drops(&pair, 1, DropReason::LabelMalformed)), (None, 1));
}
