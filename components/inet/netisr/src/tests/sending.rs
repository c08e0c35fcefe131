//! Packets that go.
use super::model::*;
use crate::{outgoing::Limits, sender::Sender};
use inet::{BufferChain, Departure, LinkOffloads, TransportOffload};
use interfaces::nic::{
    HeaderBytes, NicInfo, Offloads, Packet, PacketSegment, PartialChecksum, Segmentation,
    SegmentationKind,
};
use rt::memory::Frame;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

fn numbered(number: usize) -> Packet {
    let mut header = [0; 14];
    header[..8].copy_from_slice(&number.to_be_bytes());
    Packet {
        tag: 0,
        header: HeaderBytes::new(&header).unwrap(),
        segments: Vec::new(),
        checksum: None,
        segmentation: None,
        flow: 0,
    }
}

fn numbers(sent: &[Vec<u8>]) -> Vec<usize> {
    sent.iter().map(|one| usize::from_be_bytes(one[..8].try_into().unwrap())).collect()
}

#[test]
fn packets_without_room_wait_in_order_and_too_many_are_dropped() {
    let model = Model::new();
    let sender = Sender::new(model.clone());
    *model.room.lock().unwrap() = 10;
    sender.send((0..8).map(numbered).collect());
    sender.send((8..16).map(numbered).collect());
    sender.send((16..20).map(numbered).collect());
    assert_eq!(numbers(&model.take_sent()), (0..10).collect::<Vec<_>>());
    model.end(3);
    assert_eq!(numbers(&model.take_sent()), [10, 11, 12]);
    sender.send(vec![numbered(20)]);
    model.end(100);
    assert_eq!(numbers(&model.take_sent()), (13..21).collect::<Vec<_>>());
    // Now the way is free again.
    sender.send(vec![numbered(21)]);
    assert_eq!(numbers(&model.take_sent()), [21]);
    *model.room.lock().unwrap() = 0;
    sender.send((0..600).map(numbered).collect());
    sender.send((600..1200).map(numbered).collect());
    assert_eq!(sender.dropped(), 200);
    model.end(1);
    *model.room.lock().unwrap() = 5000;
    sender.send(vec![numbered(1200)]);
    model.end(1);
    assert_eq!(numbers(&model.take_sent()), (0..1000).chain([1200]).collect::<Vec<_>>());
}

#[test]
fn no_packet_is_forgotten_while_threads_send_and_packets_end() {
    const EACH: usize = 2_000;
    let model = Model::new();
    let sender = Sender::new(model.clone());
    *model.room.lock().unwrap() = 7;
    let is_over = Arc::new(AtomicBool::new(false));
    let (ending, over) = (model.clone(), is_over.clone());
    let ender = std::thread::spawn(move || {
        while !over.load(SeqCst) {
            ending.end(3);
            std::thread::yield_now();
        }
    });
    let senders: Vec<_> = (0..2)
        .map(|thread| {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for number in 0..EACH {
                    sender.send(vec![numbered(thread * EACH + number)]);
                    std::thread::yield_now();
                }
            })
        })
        .collect();
    senders.into_iter().for_each(|thread| thread.join().unwrap());
    wait_until(|| model.sent.lock().unwrap().len() as u64 + sender.dropped() == 2 * EACH as u64);
    is_over.store(true, SeqCst);
    ender.join().unwrap();
    // The packets of each thread are in order.
    let sent = numbers(&model.take_sent());
    for thread in 0..2 {
        let of_thread: Vec<_> = sent.iter().filter(|one| **one / EACH == thread).collect();
        assert!(of_thread.is_sorted());
    }
}

fn info(offloads: Offloads) -> NicInfo {
    let info = Model::new().info.lock().unwrap().clone();
    NicInfo { offloads, ..info }
}

/// Returns a chain of `pieces` parts of `length` bytes.
fn chain(pieces: usize, length: usize) -> BufferChain<PacketSegment> {
    let mut chain = BufferChain::default();
    for number in 0..pieces {
        let frame = Frame::zeroed().unwrap();
        let bytes: Vec<u8> = (0..length).map(|at| (at * 7 + number) as u8).collect();
        frame.write(3, &bytes);
        chain.push(PacketSegment { frame, offset: 3, length: length as u32 });
    }
    chain
}

/// Returns the packets of a departure; `None` if any is lost.
fn packets(limits: &Limits, departure: Departure<PacketSegment>) -> Option<Vec<Packet>> {
    let mut packets = Vec::new();
    (limits.packets(departure, &mut packets) == 0).then_some(packets)
}

/// Returns the only packet of a departure; `None` if it is lost.
fn packet(limits: &Limits, departure: Departure<PacketSegment>) -> Option<Packet> {
    let mut packets = packets(limits, departure)?;
    assert_eq!(packets.len(), 1);
    packets.pop()
}

fn headers(length: usize, type_of: u16) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..length).map(|at| at as u8).collect();
    bytes[12..14].copy_from_slice(&type_of.to_be_bytes());
    bytes[14] = if type_of == 0x86dd { 0x60 } else { 0x45 };
    bytes
}

#[test]
fn packets_keep_their_bytes_in_as_few_segments_as_the_card_takes() {
    let limits = Limits::of(&info(Offloads::empty()), 1);
    assert_eq!(limits.link_offloads(), LinkOffloads::CUT_TCP);
    // (pieces, bytes of each, segments of the packet)
    for (pieces, length, segments) in
        [(0, 0, 0), (1, 90, 0), (1, 91, 1), (17, 1000, 17), (18, 50, 1), (30, 1500, 11), (18, 1, 0)]
    {
        let payload = chain(pieces, length);
        let header = headers(54, 0x0800);
        let expected = [header.clone(), payload.to_vec()].concat();
        let packet = packet(&limits, Departure::new(&header, payload).unwrap()).unwrap();
        assert_eq!(bytes_of(&packet), expected, "{pieces} pieces of {length}");
        assert_eq!(packet.segments.len(), segments, "{pieces} pieces of {length}");
        assert_eq!((packet.checksum, packet.segmentation), (None, None));
    }
    // More than all segments hold.
    let huge = Departure::new(&headers(54, 0x0800), chain(40, 4000)).unwrap();
    assert!(packet(&limits, huge).is_none());
}

#[test]
fn checksums_and_segmentation_are_left_to_a_card_that_has_them() {
    let limits = Limits::of(&info(Offloads::all()), 1);
    assert_eq!(limits.link_offloads(), LinkOffloads::all());
    let offload = |length: usize, type_of: u16, offload: TransportOffload| {
        let departure = Departure::new(&headers(length, type_of), chain(2, 4000)).unwrap();
        let packet = packet(&limits, Departure { offload: Some(offload), ..departure }).unwrap();
        (packet.checksum.unwrap(), packet.segmentation)
    };
    let tcp = TransportOffload { header_length: 32, checksum_offset: 16, segment: Some(1448) };
    let udp = TransportOffload { header_length: 8, checksum_offset: 6, segment: None };
    let cut = |kind, header_length: u16, has_ecn| {
        Some(Segmentation { kind, size: 1448, header_length, has_ecn })
    };
    // The flags of TCP are byte 47 of 66, and 67 of 86: the first has no CWR.
    let [kind4, kind6] = [SegmentationKind::Tcp4, SegmentationKind::Tcp6];
    let expected = (PartialChecksum { start: 34, offset: 16 }, cut(kind4, 66, false));
    assert_eq!(offload(66, 0x0800, tcp), expected);
    let expected = (PartialChecksum { start: 54, offset: 16 }, cut(kind6, 86, false));
    assert_eq!(offload(86, 0x86dd, tcp), expected);
    let expected = (PartialChecksum { start: 34, offset: 6 }, None);
    assert_eq!(offload(42, 0x0800, udp), expected);
    // The same with CWR.
    let mut bytes = headers(66, 0x0800);
    bytes[34 + 13] = 0x90;
    let departure = Departure::new(&bytes, chain(2, 4000)).unwrap();
    let cut_by_card = packet(&limits, Departure { offload: Some(tcp), ..departure }).unwrap();
    assert_eq!(cut_by_card.segmentation, cut(kind4, 66, true));
    // Work about headers that are not there is refused.
    let wrong = TransportOffload { header_length: 99, ..tcp };
    let departure = Departure::new(&bytes, chain(1, 400)).unwrap();
    assert!(packet(&limits, Departure { offload: Some(wrong), ..departure }).is_none());
}

#[test]
fn segments_that_the_card_does_not_cut_are_cut_here() {
    let work = Offloads::SEND_CHECKSUM | Offloads::SEND_TCP4;
    // (offloads, flags of TCP, pieces of 3500 bytes, packets, whether their checksums are left to the card)
    for (offloads, flags, pieces, count, is_left) in [
        (Offloads::empty(), 0x10, 2, 5, false),
        (Offloads::SEND_CHECKSUM, 0x10, 2, 5, true),
        (work, 0x10, 2, 1, true),
        // Without knowledge of ECN it would repeat CWR.
        (work, 0x90, 2, 5, true),
        (work | Offloads::SEND_ECN, 0x90, 2, 1, true),
        // More pieces than it takes.
        (work, 0x10, 18, 44, true),
    ] {
        let limits = Limits::of(&info(offloads), 1);
        let mut bytes = headers(66, 0x0800);
        bytes[34 + 13] = flags;
        let payload = chain(pieces, 3500);
        let whole = payload.to_vec();
        let offload =
            TransportOffload { header_length: 32, checksum_offset: 16, segment: Some(1448) };
        let departure = Departure::new(&bytes, payload).unwrap();
        let cut = packets(&limits, Departure { offload: Some(offload), ..departure }).unwrap();
        assert_eq!(cut.len(), count, "{offloads:?} {flags:x} {pieces}");
        let bodies: Vec<u8> = cut.iter().flat_map(|one| bytes_of(one).split_off(66)).collect();
        assert_eq!(bodies, whole);
        assert!(cut.iter().all(|one| one.checksum.is_some() == is_left));
        assert!(cut.iter().all(|one| one.segmentation.is_some() == (count == 1)));
        assert!(cut.iter().all(|one| one.segments.len() <= 17));
        let sequences: Vec<u32> = cut
            .iter()
            .map(|one| u32::from_be_bytes(bytes_of(one)[38..42].try_into().unwrap()))
            .collect();
        assert!(sequences.windows(2).all(|two| two[1] - two[0] == 1448));
    }
    // A packet that cannot be cut counts as lost once for each of its parts.
    let limits = Limits::of(&info(Offloads::SEND_CHECKSUM), 1);
    let bytes = headers(66, 0x0800);
    let offload = TransportOffload { header_length: 60, checksum_offset: 16, segment: Some(1448) };
    let departure = Departure::new(&bytes, chain(2, 4000)).unwrap();
    let mut none = Vec::new();
    assert_eq!(limits.packets(Departure { offload: Some(offload), ..departure }, &mut none), 6);
    assert!(none.is_empty());
}
