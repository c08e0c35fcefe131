//! Tests of reception.
use super::rig::*;
use crate::features::*;
use interfaces::nic::{
    ChecksumState, Nic, PAYLOAD_OFFSET, PartialChecksum, Segmentation, SegmentationKind,
};
use std::sync::atomic::Ordering::SeqCst;

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|index| (index % 251) as u8).collect()
}

#[test]
fn packets_of_one_to_many_buffers_come_whole_and_their_buffers_go_round() {
    let rig = rig(USUAL);
    rig.lend(0..64);
    for length in [14, 60, 4080, 4081, 4092, 8172, 8173, 30_000, 65_549] {
        for _ in 0..5 {
            let packet = bytes(length);
            let buffers = rig.deliver(PLAIN, &packet, None);
            assert_eq!(buffers, 1 + length.saturating_sub(4080).div_ceil(4092));
            let mut received = rig.sink.received(1);
            let one = received.pop().unwrap();
            assert_eq!((one.buffers(), one.bytes()), (buffers, length));
            assert_eq!(one.first.offset, PAYLOAD_OFFSET);
            assert!(contents(&one) == packet);
            assert_eq!((one.checksum, one.segmentation), (ChecksumState::Unknown, None));
            rig.port.lend(&mut one.into_buffers().collect());
        }
    }
    let counts = rig.port.statistics();
    assert_eq!(
        (counts.received_packets, counts.receive_errors, counts.receive_dropped),
        (45, 0, 0)
    );
}

#[test]
fn more_buffers_than_the_queue_holds_are_used_in_turn() {
    let rig = rig_with(USUAL, configuration(1), 8);
    rig.lend(0..100);
    let mut numbers = Vec::new();
    for _ in 0..100 {
        rig.deliver(PLAIN, &bytes(60), None);
        let one = rig.sink.received(1).pop().unwrap();
        numbers.push(one.first.buffer.number);
        // The buffer is kept by the client.
        std::mem::forget(one);
    }
    assert!(numbers.iter().copied().eq(0..100));
    assert!(rig.model.pop(0).is_none());
}

#[test]
fn lending_many_buffers_takes_one_notification() {
    let rig = rig(USUAL);
    rig.lend(0..200);
    assert_eq!(rig.notified(0), 1);
}

#[test]
fn checksum_states_and_merging_are_passed_on() {
    let rig = rig(USUAL | GUEST_ECN | GUEST_USO4 | GUEST_USO6);
    rig.lend(0..64);
    let partial = ChecksumState::Partial(PartialChecksum { start: 34, offset: 16 });
    let merged =
        |kind, has_ecn| Some(Segmentation { kind, size: 1448, header_length: 54, has_ecn });
    let cases = [
        ((1, 0, [0, 0, 34, 16]), partial, None),
        ((2, 0, [0, 0, 0, 0]), ChecksumState::Valid, None),
        ((1, 1, [54, 1448, 34, 16]), partial, merged(SegmentationKind::Tcp4, false)),
        ((2, 0x81, [54, 1448, 0, 0]), ChecksumState::Valid, merged(SegmentationKind::Tcp4, true)),
        ((2, 4, [54, 1448, 0, 0]), ChecksumState::Valid, merged(SegmentationKind::Tcp6, false)),
        ((2, 5, [54, 1448, 0, 0]), ChecksumState::Valid, merged(SegmentationKind::Udp, false)),
    ];
    for (fields, checksum, segmentation) in cases {
        rig.deliver(fields, &bytes(3000), None);
        let one = rig.sink.received(1).pop().unwrap();
        assert_eq!((one.checksum, one.segmentation), (checksum, segmentation));
    }
}

#[test]
fn packets_that_nobody_takes_give_their_buffers_back() {
    let rig = rig(USUAL);
    let idle = std::sync::Arc::new(Idle);
    rig.port.set_sink(idle);
    rig.lend(0..4);
    for turn in 1..=20 {
        wait_until(|| rig.model_has_buffer());
        rig.deliver(PLAIN, &bytes(100), None);
        wait_until(|| rig.port.statistics().receive_dropped == turn);
    }
}

struct Idle;

impl interfaces::nic::NicSink for Idle {
    fn received(&self, _: &mut Vec<interfaces::nic::Received>) {}
    fn link(&self, _: interfaces::nic::LinkState) {}
    fn announce(&self) {}
}

impl Rig {
    /// Returns whether the driver has lent a buffer that the device has not seen.
    fn model_has_buffer(&self) -> bool {
        self.model.waiting(0) > 0
    }
}

#[test]
fn without_merged_buffers_a_packet_has_one_and_merging_is_not_agreed() {
    let rig = rig(USUAL & !MERGED_BUFFERS);
    assert_eq!(rig.model.driver_features() & (GUEST_TSO4 | GUEST_TSO6), 0);
    assert_eq!(rig.port.info().mtu, 4062);
    rig.lend(0..4);
    // The number of buffers says nothing then.
    rig.deliver(PLAIN, &bytes(1514), Some(7));
    let one = rig.sink.received(1).pop().unwrap();
    assert!(contents(&one) == bytes(1514));
}

#[test]
fn changes_of_the_link_and_requests_to_announce_reach_the_sink() {
    use interfaces::nic::LinkState::{Down, Up};
    let rig = rig(USUAL);
    assert_eq!(rig.port.info().link, Up);
    // Each change is told, so the driver has seen it before the next.
    for (status, links) in [(0_u8, vec![Down]), (1, vec![Down, Up])] {
        rig.model.change_config(6, &[status]);
        wait_until(|| *rig.sink.links.lock().unwrap() == links);
    }
    rig.model.change_config(6, &[3]);
    wait_until(|| !rig.commands().is_empty());
    assert_eq!(rig.commands(), [[3, 0]]);
    assert_eq!(rig.sink.announcements.load(SeqCst), 1);
    assert_eq!(rig.port.info().link, Up);
    assert_eq!(*rig.sink.links.lock().unwrap(), [Down, Up], "an unchanged link is not told again");
}
