//! Tests of packets and settings with a driver that lives.
use super::card::*;
use crate::nic::{
    ChecksumState, Filter, FilterMessage, LinkState, Nic, NicDescription, NicError, NicInfo,
    Offloads, PartialChecksum, ReceiveBuffer, Segmentation, SegmentationKind,
};
use rt::memory::Frame;
use std::{string::String, sync::atomic::Ordering::SeqCst, vec, vec::Vec};

#[test]
fn packets_of_any_number_of_segments_are_sent_whole_and_their_frames_return() {
    let (client, driver) = connected();
    assert_eq!(client.proxy.info(), info());
    for count in 0..=21 {
        let mut one = packet(count as u8, count);
        one.checksum = Some(PartialChecksum { start: 34, offset: 16 });
        let kind = SegmentationKind::Tcp6;
        let segmentation = Segmentation { kind, size: 1448, header_length: 74, has_ecn: true };
        one.segmentation = (count > 3).then_some(segmentation);
        one.flow = 0xdead_0000 + count as u32;
        let expected = one.clone();
        client.submit(&mut vec![one]);
        let ended = client.sink.ended(1);
        assert_eq!((ended[0].tag, ended[0].result), (1000 + count as u64, Ok(())));
        assert_eq!(ended[0].segments.len(), count);
        let (sent, bytes) = client.cable.sent.lock().unwrap().pop().unwrap();
        assert_eq!((sent.checksum, sent.flow), (expected.checksum, expected.flow));
        assert_eq!((sent.segmentation, sent.header), (expected.segmentation, expected.header));
        let parts = (1..=count as u8).flat_map(|number| [number; 100]);
        assert!(bytes.iter().copied().eq([count as u8; 14].into_iter().chain(parts)));
        drop(expected);
        wait_until(|| ended[0].segments.iter().all(|segment| segment.frame.references() == 1));
        assert_eq!(client.lent(), 0);
    }
    client.submit(&mut vec![packet(1, 22)]);
    assert_eq!(client.sink.ended(1)[0].result, Err(NicError::Invalid));
    let counts = client.proxy.statistics();
    assert_eq!((counts.sent_packets, counts.send_errors, counts.receive_errors), (22, 1, 3));
    client.proxy.close();
    driver.kill();
}

#[test]
fn packets_of_any_number_of_pieces_are_received_whole_and_the_pool_is_lent_once() {
    let (client, driver) = connected();
    client.lend(0..40);
    // While the driver has eight times as many, buffers wait for others.
    let has_most = || driver.card.buffers.lock().unwrap().len() >= 36;
    for turn in 0..100_usize {
        let parts: Vec<Vec<u8>> =
            (0..1 + turn % 17).map(|part| vec![part as u8; 20 + part * 7]).collect();
        let checksum = match turn % 3 {
            0 => ChecksumState::Unknown,
            1 => ChecksumState::Valid,
            _ => ChecksumState::Partial(PartialChecksum { start: 14, offset: 4 }),
        };
        let kind = SegmentationKind::Tcp4;
        let segmentation = Segmentation { kind, size: 1448, header_length: 14, has_ecn: false };
        let segmentation = (turn % 2 == 0).then_some(segmentation);
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        wait_until(has_most);
        driver.card.receive(&parts, checksum, segmentation);
        let one = client.sink.received(1).pop().unwrap();
        assert_eq!(contents(&one), parts.concat());
        assert_eq!((one.buffers(), one.checksum), (parts.len(), checksum));
        assert_eq!(one.segmentation, segmentation);
        assert!((36..=40).contains(&client.lent()));
        client.proxy.lend(&mut one.into_buffers().collect());
    }
    // Another frame under the same number takes the place of the old one.
    driver.card.receive(&[&[7; 60]], ChecksumState::Unknown, None);
    let one = client.sink.received(1).pop().unwrap();
    let number = one.first.buffer.number;
    client.proxy.lend(&mut vec![ReceiveBuffer { number, frame: Frame::zeroed().unwrap() }]);
    for _ in 0..5 {
        driver.card.receive(&[&[8; 60]], ChecksumState::Unknown, None);
        let other = client.sink.received(1).pop().unwrap();
        client.proxy.lend(&mut other.into_buffers().collect());
    }
    wait_until(has_most);
    assert_eq!((client.lent(), one.first.buffer.frame.references()), (40, 1));
    client.proxy.close();
    assert_eq!(client.lent(), 0);
    driver.kill();
}

#[test]
fn buffers_are_lent_in_batches_while_the_driver_has_enough() {
    let (client, driver) = connected();
    let has = || driver.card.buffers.lock().unwrap().len();
    client.lend(0..162);
    wait_until(|| has() == 162);
    for round in 1..=36 {
        driver.card.receive(&[&[8; 60]], ChecksumState::Unknown, None);
        let one = client.sink.received(1).pop().unwrap();
        client.proxy.lend(&mut one.into_buffers().collect());
        // The driver gets 18 at once.
        wait_until(|| has() == 162 - round % 18);
    }
    client.proxy.close();
    assert_eq!(client.lent(), 0);
    driver.kill();
}

#[test]
fn a_buffer_is_lent_again_once_nobody_else_has_its_frame() {
    let (client, driver) = connected();
    client.lend(0..4);
    wait_until(|| driver.card.buffers.lock().unwrap().len() == 4);
    driver.card.receive(&[&[7; 60]], ChecksumState::Unknown, None);
    let one = client.sink.received(1).pop().unwrap();
    let held = one.first.buffer.frame.clone();
    let mut buffers = one.into_buffers().collect();
    client.proxy.lend_unused(&mut buffers);
    assert_eq!(buffers.len(), 1);
    // A driver that dies gives its loans back: the count alone would look like that of an unused frame.
    let (cable, endpoint) = (client.cable.clone(), client.endpoint.clone());
    driver.kill();
    let driver = Driver::start(&cable, &endpoint);
    client.proxy.restarted().unwrap();
    client.proxy.lend_unused(&mut buffers);
    assert_eq!(buffers.len(), 1);
    drop(held);
    client.proxy.lend_unused(&mut buffers);
    assert!(buffers.is_empty());
    wait_until(|| driver.card.buffers.lock().unwrap().len() == 4);
    client.proxy.close();
    // A buffer that is not lent stays with the client.
    let mut buffers = vec![ReceiveBuffer { number: 4, frame: Frame::zeroed().unwrap() }];
    client.proxy.lend_unused(&mut buffers);
    assert_eq!((client.lent(), buffers.len()), (0, 1));
    driver.kill();
}

#[test]
fn packets_stay_in_order_and_without_room_with_the_client() {
    let (client, driver) = connected();
    *driver.card.room.lock().unwrap() = Some(1000);
    let mut batch: Vec<_> = (0..600).map(|number| packet(number as u8, 1)).collect();
    client.submit(&mut batch);
    assert_eq!(batch.len(), 600 - 256);
    wait_until(|| driver.card.kept() == 256);
    client.submit(&mut batch);
    assert_eq!(batch.len(), 600 - 256);
    *driver.card.room.lock().unwrap() = None;
    driver.card.flush();
    let mut ended = client.sink.ended(256).len();
    while !batch.is_empty() {
        client.submit(&mut batch);
        ended += client.sink.ended(1).len();
    }
    ended += client.sink.ended(600 - ended).len();
    assert_eq!(ended, 600);
    assert!(client.cable.firsts().into_iter().eq((0..600).map(|number| number as u8)));
    client.proxy.close();
    driver.kill();
}

#[test]
fn a_card_that_holds_few_packets_gets_all_of_them_in_order() {
    let (client, driver) = connected();
    *driver.card.room.lock().unwrap() = Some(4);
    client.submit(&mut (0..100).map(|number| packet(number, 5)).collect());
    let mut ended = 0;
    while ended < 100 {
        // Buffers go past packets that wait.
        driver.card.flush();
        ended += client.sink.ended(0).len();
        std::thread::yield_now();
    }
    assert!(client.cable.firsts().into_iter().eq(0..100));
    client.proxy.close();
    driver.kill();
}

#[test]
fn settings_reach_the_driver_and_its_errors_come_back() {
    let (client, driver) = connected();
    let filter = Filter {
        is_promiscuous: true,
        is_all_multicast: false,
        unicast: vec![[2; 6], [4; 6]],
        multicast: vec![[1; 6]],
    };
    assert_eq!(client.proxy.set_mac(&[6; 6]), Ok(()));
    assert_eq!(client.proxy.set_filter(&filter), Ok(()));
    assert_eq!(client.proxy.set_offloads(Offloads::RECEIVE), Ok(()));
    assert_eq!(client.proxy.set_pairs(3), Ok(()));
    let info = client.proxy.info();
    assert_eq!((info.mac, info.pairs), ([6; 6], 3));
    let expected = [
        std::format!("mac {:?}", [6_u8; 6]),
        std::format!("{filter:?}"),
        std::format!("{:?}", Offloads::RECEIVE),
        String::from("pairs 3"),
    ];
    assert_eq!(client.cable.log(), expected);
    for error in [NicError::Refused, NicError::TimedOut, NicError::Unsupported] {
        *driver.card.answer.lock().unwrap() = Err(error);
        assert_eq!(client.proxy.set_mac(&[8; 6]), Err(error));
    }
    assert_eq!(client.proxy.info().mac, [6; 6]);
    let many = Filter { multicast: vec![[1; 6]; 65], ..Filter::default() };
    assert_eq!(client.proxy.set_filter(&many), Err(NicError::Invalid));
    assert!(FilterMessage::of(&Filter { multicast: vec![[1; 6]; 64], ..many }).is_some());
    client.proxy.close();
    driver.kill();
}

#[test]
fn events_reach_the_client() {
    let (client, driver) = connected();
    for (state, links) in
        [(LinkState::Down, 1), (LinkState::Down, 1), (LinkState::Up, 2), (LinkState::Up, 2)]
    {
        driver.card.set_link(state);
        wait_until(|| client.sink.links.lock().unwrap().len() == links);
        assert_eq!(client.proxy.info().link, state);
    }
    driver.card.announce();
    wait_until(|| client.sink.announcements.load(SeqCst) == 1);
    client.proxy.close();
    driver.kill();
}

#[test]
fn a_description_that_cannot_be_is_refused() {
    let good = info();
    assert_eq!(NicDescription::of(&good).info(), Some(good.clone()));
    let bad = [
        NicInfo { name: String::new(), ..good.clone() },
        NicInfo { name: String::from("../x"), ..good.clone() },
        NicInfo { mtu: 67, ..good.clone() },
        NicInfo { pairs: 0, ..good.clone() },
        NicInfo { pairs: 5, ..good.clone() },
        NicInfo { max_segments: 0, ..good.clone() },
        NicInfo { depth: 0, ..good.clone() },
        NicInfo { buffers: 0, ..good.clone() },
        NicInfo { offloads: Offloads::from_bits_retain(1 << 31), ..good },
    ];
    for info in bad {
        assert_eq!(NicDescription::of(&info).info(), None, "{info:?}");
    }
}
