//! Tests against a device that lies.
use super::rig::*;
use interfaces::nic::{LinkState, Nic, NicError};
use proptest::prelude::*;

/// Returns whether the driver gave the device up.
fn is_given_up(rig: &Rig) -> bool {
    wait_until(|| !rig.model.is_running());
    rig.submit(&mut vec![packet(99, 1)]);
    rig.sink.ended(1).iter().any(|sent| sent.tag == 99 && sent.result == Err(NicError::Device))
}

#[test]
fn a_device_that_breaks_the_protocol_is_reset_and_fails_everything() {
    for queue in [0, 1] {
        for (head, written) in [(700, 0), (255, 4092), (u32::MAX, u32::MAX)] {
            let rig = rig(USUAL);
            rig.set_mood(Mood::Lazy);
            rig.lend(0..8);
            rig.submit(&mut vec![packet(1, 2)]);
            rig.model.tamper(queue, head, written);
            let ended = rig.sink.ended(1);
            assert_eq!(ended[0].result, Err(NicError::Device));
            assert!(ended[0].segments.iter().all(|segment| segment.frame.references() == 1));
            assert!(is_given_up(&rig));
            wait_until(|| *rig.sink.links.lock().unwrap() == [LinkState::Down]);
            assert_eq!(rig.port.set_mac(&[2; 6]), Err(NicError::Device));
        }
    }
}

#[test]
fn a_used_index_that_overruns_is_noticed() {
    for queue in [0, 1, 2] {
        let rig = rig(USUAL);
        rig.set_mood(Mood::Lazy);
        rig.lend(0..8);
        rig.model.skip_used(queue, 9);
        assert!(is_given_up(&rig));
    }
}

#[test]
fn packets_that_make_no_sense_are_counted_and_their_buffers_are_used_again() {
    let rig = rig(USUAL);
    rig.lend(0..4);
    let packet = [7; 100];
    let bad: [(Fields, &[u8], Option<u16>); 12] = [
        (PLAIN, &packet[..13], None),
        (PLAIN, &[], None),
        (PLAIN, &packet, Some(0)),
        (PLAIN, &packet, Some(5)),
        (PLAIN, &packet, Some(u16::MAX)),
        ((1, 0, [0, 0, 99, 0]), &packet, None),
        ((1, 0, [0, 0, u16::MAX, u16::MAX]), &packet, None),
        ((0, 1, [54, 0, 0, 0]), &packet, None),
        ((0, 3, [54, 100, 0, 0]), &packet, None),
        ((0, 0x80, [54, 100, 0, 0]), &packet, None),
        ((0, 5, [54, 100, 0, 0]), &packet, None),
        ((0, 0x81, [54, 100, 0, 0]), &packet, None),
    ];
    for (index, (fields, packet, said)) in (1..).zip(bad) {
        rig.deliver(fields, packet, said);
        wait_until(|| rig.port.statistics().receive_errors == index);
        wait_until(|| rig.model.waiting(0) == 4);
    }
    rig.deliver(PLAIN, &packet, None);
    assert!(contents(&rig.sink.received(1)[0]) == packet);
    assert!(rig.model.is_running());
}

#[test]
fn a_packet_that_never_becomes_whole_or_is_too_long_is_dropped() {
    let rig = rig(USUAL);
    rig.lend(0..64);
    // One more buffer is said than comes: the next packet's is taken for it.
    rig.deliver(PLAIN, &[7; 100], Some(2));
    rig.deliver(PLAIN, &[8; 100], None);
    let one = rig.sink.received(1).pop().unwrap();
    assert_eq!((one.buffers(), one.bytes()), (2, 100 + 112));
    rig.deliver(PLAIN, &vec![9; 70_000], None);
    wait_until(|| rig.port.statistics().receive_errors > 0);
    assert!(rig.model.is_running());
}

/// Waits until the driver has looked at all that the device did: its thread takes the second answer in a later round, and the ends of
/// few packets at the next look for them. A driver that then resets the device does not do so while the device uses its memory.
fn settle(rig: &Rig) {
    let _ = (rig.port.set_mac(&[2; 6]), rig.port.set_mac(&[2; 6]));
    wait_until(|| !rig.model.is_running() || !rig.port.has_ends());
}

/// A thing that a device does.
#[derive(Clone, Debug)]
enum Deed {
    Deliver(Fields, usize, Option<u16>),
    Tamper(u16, u32, u32),
    Skip(u16, u16),
    Serve,
    Submit(usize),
    Config(usize, u8),
}

fn deed() -> impl Strategy<Value = Deed> {
    let fields = (any::<u8>(), any::<u8>(), any::<[u16; 4]>());
    prop_oneof![
        6 => (fields, 0_usize..9000, proptest::option::of(any::<u16>()))
            .prop_map(|(fields, length, said)| Deed::Deliver(fields, length, said)),
        2 => (0_u16..3, 0_u32..20, any::<u32>())
            .prop_map(|(queue, head, written)| Deed::Tamper(queue, head, written)),
        1 => (0_u16..3, any::<u16>()).prop_map(|(queue, by)| Deed::Skip(queue, by)),
        4 => Just(Deed::Serve),
        6 => (0_usize..20).prop_map(Deed::Submit),
        1 => (0_usize..16, any::<u8>()).prop_map(|(at, byte)| Deed::Config(at, byte)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_device_makes_the_driver_panic_or_lose_a_packet(
        deeds in prop::collection::vec(deed(), 1..40),
    ) {
        let rig = rig_with(USUAL, configuration(1), 16);
        rig.set_mood(Mood::Lazy);
        rig.lend(0..32);
        let (mut taken, mut tag) = (0, 0);
        for deed in deeds {
            match deed {
                Deed::Deliver(fields, length, said) => {
                    if rig.model.is_running() && rig.model.waiting(0) > 3 {
                        rig.deliver(fields, &vec![1; length], said);
                    }
                }
                Deed::Tamper(queue, head, written) if rig.model.is_running() => {
                    rig.model.tamper(queue, head, written);
                    settle(&rig);
                }
                Deed::Skip(queue, by) if rig.model.is_running() => {
                    rig.model.skip_used(queue, by);
                    settle(&rig);
                }
                Deed::Tamper(..) | Deed::Skip(..) => {}
                Deed::Serve if rig.model.is_running() => {
                    rig.serve_kept();
                    settle(&rig);
                }
                Deed::Serve => {}
                Deed::Submit(segments) => {
                    let mut batch = vec![packet(tag, segments)];
                    rig.submit(&mut batch);
                    tag += 1;
                    taken += 1 - batch.len();
                }
                Deed::Config(at, byte) => rig.model.change_config(at, &[byte]),
            }
            let received = std::mem::take(&mut *rig.sink.received.lock().unwrap());
            for one in received {
                prop_assert!(one.bytes() >= 14 && contents(&one).len() == one.bytes());
                rig.port.lend(&mut one.into_buffers().collect());
            }
        }
        rig.port.stop();
        let ended = rig.sink.ended(taken);
        prop_assert_eq!(ended.len(), taken);
        let mut tags: Vec<u64> = ended.iter().map(|sent| sent.tag).collect();
        tags.sort_unstable();
        tags.dedup();
        prop_assert_eq!(tags.len(), taken);
    }
}
