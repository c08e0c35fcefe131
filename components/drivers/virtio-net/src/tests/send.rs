//! Tests of sending.
use super::rig::*;
use crate::features::*;
use interfaces::nic::{
    HeaderBytes, Nic, NicError, Offloads, Packet, PacketSegment, PartialChecksum, Segmentation,
    SegmentationKind,
};

#[test]
fn packets_of_every_number_of_segments_arrive_whole_and_their_frames_return() {
    for features in [USUAL, USUAL & !virtio::feature::INDIRECT, MAC | MTU] {
        let rig = rig(features);
        for segments in 0..=17 {
            let mut batch = vec![packet(segments as u64, segments)];
            rig.submit(&mut batch);
            assert!(batch.is_empty());
            let ended = rig.sink.ended(1);
            assert_eq!((ended[0].tag, ended[0].result), (segments as u64, Ok(())));
            assert_eq!(ended[0].segments.len(), segments);
            assert!(ended[0].segments.iter().all(|segment| segment.frame.references() == 1));
        }
        let sent = rig.sent();
        for (segments, (header, packet, buffers)) in sent.iter().enumerate() {
            assert_eq!(header, &[0; 12]);
            let numbers = (1..=segments as u8).flat_map(|number| [number; 100]);
            assert!(packet.iter().copied().eq([0xee; 14].into_iter().chain(numbers)));
            assert_eq!(*buffers, 1 + segments);
        }
        let counts = rig.port.statistics();
        assert_eq!((counts.sent_packets, counts.send_errors), (18, 0));
        assert_eq!(counts.sent_bytes, (0..18).map(|count| 14 + 100 * count).sum::<u64>());
    }
}

#[test]
fn a_batch_takes_one_notification_and_is_told_of_in_batches() {
    let rig = rig(USUAL);
    rig.set_mood(Mood::Lazy);
    rig.submit(&mut (0..100).map(|tag| packet(tag, 2)).collect());
    assert_eq!((rig.notified(1), rig.nic.kept()), (1, 100));
    rig.serve_kept();
    assert_eq!(rig.sink.ended(100).len(), 100);
}

#[test]
fn few_ends_are_told_of_without_an_interrupt_and_many_with_few() {
    let rig = rig(USUAL);
    rig.set_mood(Mood::Lazy);
    for tag in 0..15 {
        rig.submit(&mut vec![packet(tag, 1)]);
    }
    rig.serve_kept();
    assert_eq!(rig.sink.ended(15).len(), 15);
    assert_eq!(rig.model.interrupts(), 0);
    rig.submit(&mut (0..200).map(|tag| packet(tag, 1)).collect());
    rig.serve_kept();
    assert_eq!(rig.sink.ended(200).len(), 200);
    assert!(rig.model.interrupts() <= 200 / 64);
}

#[test]
fn the_next_end_interrupts_while_a_packet_waits_for_room() {
    let rig = rig_with(USUAL, configuration(1), 16);
    rig.set_mood(Mood::Lazy);
    let mut batch: Vec<_> = (0..17).map(|tag| packet(tag, 1)).collect();
    rig.submit(&mut batch);
    assert_eq!((batch.len(), rig.model.interrupts()), (1, 0));
    let (queue, chain) = rig.nic.0.lock().unwrap().kept.pop().unwrap();
    rig.nic.serve(&rig.model, queue, &chain);
    assert_eq!((rig.sink.ended(1).len(), rig.model.interrupts()), (1, 1));
}

#[test]
fn ends_come_in_the_device_s_order() {
    let rig = rig(USUAL);
    rig.set_mood(Mood::Lazy);
    rig.submit(&mut (0..3).map(|tag| packet(tag, 1)).collect());
    rig.serve_kept();
    let tags: Vec<u64> = rig.sink.ended(3).iter().map(|sent| sent.tag).collect();
    assert_eq!(tags, [2, 1, 0]);
}

#[test]
fn packets_without_room_stay_with_the_client_in_order() {
    for (features, size, fits) in [(USUAL, 16, 16), (MAC, 16, 5), (USUAL, 256, 256)] {
        let rig = rig_with(features, configuration(1), size);
        rig.set_mood(Mood::Lazy);
        let mut batch = (0..300).map(|tag| packet(tag, 2)).collect();
        rig.submit(&mut batch);
        assert_eq!((rig.nic.kept(), batch.len()), (fits, 300 - fits));
        assert_eq!(rig.notified(1), 1);
        assert!(batch.iter().map(|packet| packet.tag).eq(fits as u64..300));
        rig.submit(&mut batch);
        assert_eq!(batch.len(), 300 - fits, "the queue is full");
        rig.set_mood(Mood::Prompt);
        rig.serve_kept();
        rig.sink.ended(fits);
        let mut ended = 0;
        while !batch.is_empty() {
            let before = batch.len();
            rig.submit(&mut batch);
            ended += rig.sink.ended(before - batch.len()).len();
        }
        assert_eq!(ended, 300 - fits);
    }
}

#[test]
fn checksums_and_segmentation_go_into_the_device_s_header() {
    let rig = rig(USUAL | HOST_ECN | HOST_USO);
    let kinds =
        [(SegmentationKind::Tcp4, 1), (SegmentationKind::Tcp6, 4), (SegmentationKind::Udp, 5)];
    for (kind, code) in kinds {
        let mut one = packet(1, 17);
        one.checksum = Some(PartialChecksum { start: 34, offset: 16 });
        let has_ecn = kind == SegmentationKind::Tcp4;
        one.segmentation = Some(Segmentation { kind, size: 1448, header_length: 54, has_ecn });
        rig.submit(&mut vec![one]);
        assert_eq!(rig.sink.ended(1)[0].result, Ok(()));
        let code = if has_ecn { code | 0x80 } else { code };
        let expected = device_header((1, code, [54, 1448, 34, 16]), 0);
        assert_eq!(rig.sent().last().unwrap().0, expected);
    }
}

/// A packet of one segment, changed.
fn with(change: impl Fn(&mut Packet)) -> Packet {
    let mut one = packet(1, 1);
    change(&mut one);
    one
}

/// A packet that is cut, changed.
fn cut(change: impl Fn(&mut Packet, &mut Segmentation)) -> Packet {
    let kind = SegmentationKind::Tcp4;
    let segmentation = Segmentation { kind, size: 100, header_length: 54, has_ecn: false };
    with(|one| {
        one.checksum = Some(PartialChecksum { start: 14, offset: 6 });
        let mut segmentation = segmentation;
        change(one, &mut segmentation);
        one.segmentation = Some(segmentation);
    })
}

/// Makes a packet too long for any device.
fn make_huge(one: &mut Packet) {
    let frame = one.segments[0].frame.clone();
    let whole = |_| PacketSegment { frame: frame.clone(), offset: 0, length: 4096 };
    one.segments = (0..17).map(whole).collect();
}

fn senseless() -> Vec<Packet> {
    vec![
        with(|one| one.segments[0].length = 0),
        with(|one| one.segments[0].length = 4090),
        with(|one| one.segments[0].offset = u32::MAX),
        with(|one| one.segments = packet(1, 22).segments),
        with(|one| (one.header, one.segments) = (HeaderBytes::new(&[0; 13]).unwrap(), vec![])),
        with(|one| one.checksum = Some(PartialChecksum { start: 100, offset: 13 })),
        with(|one| one.checksum = Some(PartialChecksum { start: u16::MAX, offset: u16::MAX })),
        with(make_huge),
        cut(|one, _| make_huge(one)),
        cut(|one, _| one.checksum = None),
        cut(|_, segmentation| segmentation.size = 0),
        cut(|_, segmentation| segmentation.header_length = 115),
        cut(|_, segmentation| segmentation.header_length = 13),
    ]
}

#[test]
fn packets_that_make_no_sense_end_once_with_the_reason_and_never_reach_the_device() {
    let rig = rig(USUAL & !HOST_TSO6);
    let unsupported = vec![
        cut(|_, segmentation| segmentation.kind = SegmentationKind::Tcp6),
        cut(|_, segmentation| segmentation.has_ecn = true),
    ];
    for (mut batch, error) in
        [(senseless(), NicError::Invalid), (unsupported, NicError::Unsupported)]
    {
        let count = batch.len();
        rig.submit(&mut batch);
        let ended = rig.sink.ended(count);
        assert!(ended.iter().all(|sent| sent.result == Err(error)), "{error:?}: {ended:?}");
        assert_eq!(ended.len(), count);
    }
    assert!(rig.sent().is_empty());
    assert_eq!(rig.port.statistics().send_errors, 15);
    let mut whole = vec![cut(|_, _| {})];
    rig.submit(&mut whole);
    assert_eq!(rig.sink.ended(1)[0].result, Ok(()));
    let plain = self::rig(MAC);
    assert_eq!(plain.port.info().offloads, Offloads::empty());
    let checksum = Some(PartialChecksum { start: 14, offset: 6 });
    plain.submit(&mut vec![with(|one| one.checksum = checksum)]);
    assert_eq!(plain.sink.ended(1)[0].result, Err(NicError::Unsupported));
}

#[test]
fn stopping_ends_packets_as_restarted() {
    let rig = rig(USUAL);
    rig.set_mood(Mood::Lazy);
    rig.submit(&mut vec![packet(1, 1)]);
    rig.port.stop();
    assert_eq!(rig.sink.ended(1)[0].result, Err(NicError::Restarted));
    rig.submit(&mut vec![packet(2, 1)]);
    assert_eq!(rig.sink.ended(1)[0].result, Err(NicError::Restarted));
}
