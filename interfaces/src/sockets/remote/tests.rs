//! Records in cells, and stacks that lie to their client.
use super::{
    cells::{Cell, Outbox, PartBytes, RINGS, Record, RecordRead, put_parts, take_parts},
    channel::ControlChannel,
    client::{NetworkProxy, StackServer},
    kinds::back,
    packets::{put_packet, take_datagram, take_packet, take_report},
    sender::RecordSender,
};
use crate::{
    AttachError,
    call::{Again, Failure},
    link::Rings,
    nic::{HeaderBytes, NicInfo, Packet, PacketSegment, PartialChecksum},
    sockets::{
        EndNumber, Network, SocketEvents, SocketFamilies, SocketObserver, SocketOwner, Stream,
    },
};
use labels::SecrecyId;
use proptest::prelude::*;
use rt::{
    memory::{Frame, FrameId, Region},
    ring::{Consumer, Corrupt, Producer},
    thread::Policy,
};
use std::{
    boxed::Box,
    format,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    vec,
    vec::Vec,
};
use zerocopy::FromBytes;

/// Moves what an outbox has through rings of the real size, and returns the records.
fn through_rings(outbox: &mut Outbox) -> Vec<(u8, u32, u64, Vec<u8>)> {
    let rings = Rings::new(RINGS).unwrap();
    let (mut sent, _): (Producer<_, Cell>, Consumer<_, Cell>) = rings.client().unwrap();
    let (_, mut received): (Producer<_, Cell>, Consumer<_, Cell>) = rings.driver().unwrap();
    let (mut record, mut found) = (RecordRead::default(), Vec::new());
    loop {
        let _ = outbox.flush(&mut sent).unwrap();
        let before = found.len();
        while let Some((cell, _)) = received.pop().unwrap() {
            if record.add(&cell).unwrap() {
                found.push((record.kind, record.number, record.value, record.body.clone()));
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

fn segments_of(lengths: &[usize]) -> Vec<PacketSegment> {
    let part = |(number, length): (usize, &usize)| {
        let frame = Frame::zeroed().unwrap();
        frame.write(number, &vec![number as u8; *length]);
        PacketSegment { frame, offset: number as u32, length: *length as u32 }
    };
    lengths.iter().enumerate().map(part).collect()
}

proptest! {
    #[test]
    fn records_of_any_length_cross_the_rings(
        lengths in proptest::collection::vec(0usize..70_000, 1..40),
    ) {
        let mut outbox = Outbox::default();
        let mut expected = Vec::new();
        for (number, length) in lengths.iter().enumerate() {
            let body: Vec<u8> = (0..*length).map(|at| (at * 7 + number) as u8).collect();
            let (kind, number, value) = (back::NOTICE, number as u32, number as u64 * 3);
            let record = Record { kind, number, value, body: &body, ..Record::default() };
            prop_assert!(outbox.put(&record));
            expected.push((kind, number, value, body));
        }
        prop_assert!(through_rings(&mut outbox) == expected);
    }

    #[test]
    fn parts_are_those_that_were_put(
        lengths in proptest::collection::vec(1usize..4000, 0..30), reached in any::<u32>(),
    ) {
        let segments = segments_of(&lengths);
        let is_reached = |frame: &Frame| reached >> (frame.id().0 % 32) & 1 != 0;
        let mut body = Vec::new();
        put_parts(&mut body, &segments, is_reached);
        let mut at = 0;
        take_parts(&body, |part| {
            let PacketSegment { frame, offset, length } = &segments[at];
            at += 1;
            match part {
                PartBytes::Frame(id, from, bytes) => {
                    assert!(is_reached(frame));
                    assert_eq!((id, from, bytes), (frame.partner_id(), *offset, *length));
                }
                PartBytes::Inline(bytes) => {
                    assert!(!is_reached(frame));
                    assert_eq!(bytes, vec![*offset as u8; *length as usize]);
                }
            }
            Ok(())
        }).unwrap();
        prop_assert_eq!(at, segments.len());
    }

    #[test]
    fn a_packet_is_the_one_that_was_put(header in proptest::collection::vec(any::<u8>(), 14..100)) {
        let packet = Packet {
            tag: 9,
            header: HeaderBytes::new(&header).unwrap(),
            segments: segments_of(&[1, 2, 3]),
            checksum: Some(PartialChecksum { start: 14, offset: 16 }),
            segmentation: None,
            flow: 77,
        };
        let mut body = Vec::new();
        put_packet(&packet, &mut body, |_| true);
        let mut left = packet.segments.clone().into_iter();
        let found = take_packet(9, &body, |_| left.next().ok_or(Corrupt)).unwrap();
        prop_assert_eq!(format!("{found:?}"), format!("{packet:?}"));
    }

    #[test]
    fn bodies_of_any_bytes_are_no_harm(body in proptest::collection::vec(any::<u8>(), 0..300)) {
        let segment = segments_of(&[1]).remove(0);
        let _ = take_parts(&body, |_| Ok(()));
        let _ = take_packet(1, &body, |_| Ok(segment.clone()));
        let _ = take_datagram(&body, |_| Ok(segment.clone()));
        let _ = take_report(&body, |_| Ok(segment.clone()));
    }
}

/// A stack that keeps the rings, and answers each request by nothing.
#[derive(Clone, Default)]
struct Liar(Arc<Mutex<Option<Region>>>);

impl StackServer for Liar {
    fn attach(&self, rings: Region, _: &[NicInfo]) -> Result<(), AttachError> {
        *self.0.lock().unwrap() = Some(rings);
        Ok(())
    }
    fn add_pool(&self, _: Region, _: FrameId) -> Result<(), AttachError> {
        Ok(())
    }
}

impl ControlChannel for Liar {
    fn exchange(&self, request: &[u8], _: Again, answer: &mut Vec<u8>) -> Result<(), Failure> {
        answer.clear();
        answer.push(1);
        // The second call of a stream opens it.
        if request.get(1) == Some(&0) && request.get(6) == Some(&1) {
            answer.push(0);
        }
        Ok(())
    }
    fn report_corrupt(&self) {}
}

/// The server's side of a stack that talks by a [`RecordSender`].
struct Talker(Arc<RecordSender>);

impl StackServer for Talker {
    fn attach(&self, rings: Region, _: &[NicInfo]) -> Result<(), AttachError> {
        let rings = Rings::of(rings, RINGS)?;
        let (sent, _): (Producer<_, Cell>, Consumer<_, Cell>) = rings.driver()?;
        self.0.open(&rings, sent, Policy::Fair { nice: 0 })
    }
    fn add_pool(&self, _: Region, _: FrameId) -> Result<(), AttachError> {
        Ok(())
    }
}

#[test]
fn a_stack_that_waits_for_room_is_woken() {
    /// Some times as many as there is room for.
    const RECORDS: usize = 10_000;
    let sender = Arc::new(RecordSender::new());
    let ways = (Box::new(Talker(sender.clone())) as _, Arc::new(Liar::default()) as _);
    let proxy = NetworkProxy::new(ways, Vec::new(), Box::new(|| ())).unwrap();
    let told = Arc::new(Told::default());
    let stream = Arc::new(Stream::new(told.clone(), 1000, 1000));
    let owner = SocketOwner { user: 0, inode: 0, label: SecrecyId::NONE };
    let _socket = proxy.open_stream(stream, SocketFamilies::V4, owner).unwrap();
    let before = told.0.load(Ordering::Relaxed);
    for _ in 0..RECORDS {
        let events = SocketEvents::READABLE;
        sender.tell(back::NOTIFIED, 0, events.bits().into());
    }
    while told.0.load(Ordering::Relaxed) < before + RECORDS {
        std::thread::yield_now();
    }
}

#[derive(Default)]
struct Told(AtomicUsize);

impl SocketObserver for Told {
    fn notify(&self, _: SocketEvents) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn a_client_survives_a_stack_that_writes_anything(
        cells in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 128), 1..60),
        kinds in proptest::collection::vec(0u8..22, 60),
    ) {
        let liar = Liar::default();
        let blamed = Arc::new(AtomicUsize::new(0));
        let counts = blamed.clone();
        let on_corrupt = Box::new(move || {
            counts.fetch_add(1, Ordering::SeqCst);
        });
        let ways = (Box::new(liar.clone()) as _, Arc::new(liar.clone()) as _);
        let proxy = NetworkProxy::new(ways, Vec::new(), on_corrupt).unwrap();
        let told = Arc::new(Told::default());
        let stream = Arc::new(Stream::new(told, 1000, 1000));
        let owner = SocketOwner { user: 0, inode: 0, label: SecrecyId::NONE };
        let socket = proxy.open_stream(stream.clone(), SocketFamilies::V4, owner).unwrap();
        let region = liar.0.lock().unwrap().clone().unwrap();
        let rings = Rings::of(region, RINGS).unwrap();
        let (mut sent, _): (Producer<_, Cell>, Consumer<_, Cell>) = rings.driver().unwrap();
        for (bytes, kind) in cells.iter().zip(kinds) {
            let mut bytes = bytes.clone();
            // Mostly records that could be: of a kind that there is, in one cell, about the stream.
            (bytes[0], bytes[3]) = (kind, bytes[3] & 1);
            bytes[4..8].copy_from_slice(&[0; 4]);
            let cell = Cell::read_from_bytes(&bytes).unwrap();
            let _ = sent.push(&cell);
        }
        rings.back.consumer_bell().ring();
        let _ = socket.info();
        prop_assert!(blamed.load(Ordering::SeqCst) <= 1);
        let counters = stream.counters();
        prop_assert!(counters.acked <= counters.written);
        let _ = EndNumber(0);
    }
}
