//! Packets that come, and their buffers.
use super::{model::*, settings::stack_over};
use crate::{buffers::BufferPool, card::Tools, copies::Copies, input::InputQueue, start_over};
use inet::{Inet, InterfaceAddress, InterfaceFlags, InterfaceIndex};
use interfaces::nic::{PacketSegment, ReceiveBuffer, Received, ReceivedPiece};
use std::sync::Arc;

const CARD: InterfaceIndex = InterfaceIndex(2);
const OWN: [u8; 4] = [10, 0, 0, 2];
const OTHER: [u8; 4] = [10, 0, 0, 1];

/// Returns a question of the peer for the address of Ethernet.
fn question() -> Vec<u8> {
    let header = [&[0xff; 6][..], &PEER, &[8, 6]].concat();
    let arp = [&[0, 1, 8, 0, 6, 4, 0, 1][..], &PEER, &OTHER, &[0; 6], &OWN].concat();
    [header, arp].concat()
}

/// Returns a datagram of the peer to a group of nobody, of `length` bytes in all.
fn stray(length: usize) -> Vec<u8> {
    let mut bytes = [&MAC[..], &PEER, &[0x88, 0xb5]].concat();
    bytes.resize(length, 3);
    bytes
}

/// Switches the card's interface on, and gives it its address.
fn set_up(inet: &Inet) {
    let address = InterfaceAddress::new(OWN.into(), 24).unwrap();
    inet.stack()
        .configure(|all| {
            all.edit_interface(CARD, |card| card.flags |= InterfaceFlags::UP)?;
            all.add_address(CARD, address)
        })
        .unwrap();
}

#[test]
fn a_packet_goes_through_the_threads_and_its_answer_to_the_card() {
    let model = Model::new();
    let inet = start_over(vec![model.clone()]).unwrap();
    set_up(&inet);
    for _ in 0..3 {
        model.receive(&question());
        let mut answers = Vec::new();
        wait_until(|| {
            answers.extend(model.take_sent());
            !answers.is_empty()
        });
        let answer = &answers[0];
        assert_eq!(
            (&answer[..6], &answer[6..12], &answer[12..14]),
            (&PEER[..], &MAC[..], &[8, 6][..])
        );
        assert_eq!((&answer[28..32], answer[21]), (&OWN[..], 2));
        wait_until(|| model.lent() == 64);
    }
}

#[test]
fn a_lone_packet_is_brought_by_the_driver_s_thread_unless_others_are_before_it() {
    let model = Model::new();
    let (inet, _card) = stack_over(&model);
    set_up(&inet);
    model.take_sent();
    // No netisr thread runs.
    model.receive(&question());
    assert_eq!((model.take_sent().len(), model.lent()), (1, 64));
    model.receive_all(&[question(), question()]);
    assert_eq!((model.take_sent().len(), model.lent()), (0, 62));
    model.receive(&question());
    assert_eq!((model.take_sent().len(), model.lent()), (0, 61));
}

#[test]
fn an_idle_queue_has_one_thread_at_a_time() {
    let queue = InputQueue::new();
    let lists = queue.claim().unwrap();
    assert!(queue.claim().is_none());
    queue.release(lists);
    assert!(queue.claim().is_some());
}

#[test]
fn buffers_of_packets_that_the_stack_does_not_keep_are_lent_again_at_once() {
    let model = Model::new();
    let (inet, card) = stack_over(&model);
    let mut tools = Tools::new(64);
    for round in 0..20 {
        let mut batch: Vec<Received> =
            [42, 200, 255, 256, 1500].map(|length| model.packet(&stray(length), 2048)).into();
        batch.push(model.packet(&stray(9000), 4000));
        card.bring(&inet, batch.drain(..), &mut tools);
        assert_eq!((batch.len(), model.lent()), (0, 64), "round {round}");
    }
}

#[test]
fn a_program_that_does_not_read_holds_at_most_half_of_the_buffers() {
    let model = Model::new();
    let pool = BufferPool::new(64);
    assert_eq!(pool.fill(&*model), 64);
    let mut kept = Vec::new();
    for round in 0..300 {
        let buffer = model.lent.lock().unwrap().pop_front().expect("a buffer is lent");
        assert_eq!(buffer.frame.references(), 1);
        kept.push(buffer.frame.clone());
        pool.give_back(&*model, &mut Vec::new(), &mut vec![buffer]);
        assert!(model.lent() >= 32, "round {round}: {}", model.lent());
    }
    // Once the program has read, its buffers come back, each once.
    kept.clear();
    pool.give_back(&*model, &mut Vec::new(), &mut Vec::new());
    let mut numbers: Vec<u32> = model.lent.lock().unwrap().iter().map(|one| one.number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..64).collect::<Vec<_>>());
}

#[test]
fn free_buffers_are_lent_whoever_holds_others() {
    let model = Model::new();
    let pool = BufferPool::new(16);
    pool.fill(&*model);
    let mut buffers: Vec<ReceiveBuffer> = model.lent.lock().unwrap().drain(..4).collect();
    let held = buffers[0].frame.clone();
    let mut free = buffers.split_off(2);
    pool.give_back(&*model, &mut free, &mut buffers);
    assert_eq!((free.len(), buffers.len(), model.lent()), (0, 0, 15));
    drop(held);
    pool.give_back(&*model, &mut free, &mut buffers);
    assert_eq!(model.lent(), 16);
}

#[test]
fn short_packets_share_frames_and_their_bytes_are_right() {
    let model = Model::new();
    BufferPool::new(64).fill(&*model);
    let mut copies = Copies::default();
    let mut kept = Vec::new();
    for number in 0..100u8 {
        let bytes: Vec<u8> = (0..60 + number).map(|at| at ^ number).collect();
        // Some packets take several buffers.
        let packet = model.packet(&bytes, if number % 3 == 0 { 50 } else { 500 });
        let segment = |piece: &ReceivedPiece| {
            let (offset, length) = (piece.offset.into(), piece.length.into());
            PacketSegment { frame: piece.buffer.frame.clone(), offset, length }
        };
        let pieces: Vec<_> = packet.pieces().map(segment).collect();
        let copy = copies.copy(&pieces).unwrap();
        kept.push((copy, bytes));
        model.lent.lock().unwrap().extend(packet.into_buffers());
    }
    for (copy, bytes) in &kept {
        let mut out = vec![0; copy.length as usize];
        copy.frame.read(copy.offset as usize, &mut out);
        assert_eq!(out, *bytes);
    }
    let mut frames: Vec<_> = kept.iter().map(|(copy, _)| copy.frame.id()).collect();
    frames.dedup();
    assert!(frames.len() < 8, "{}", frames.len());
}

#[test]
fn packets_without_room_in_the_queue_are_dropped_and_their_buffers_lent_again() {
    let model = Model::new();
    let (_inet, card) = stack_over(&model);
    // Nobody takes from the queue: it fills up, and buffers come back from then on.
    let mut frames = 0;
    while model.lent() > 0 && frames < 5000 {
        model.receive_all(&[stray(1500), stray(1500)]);
        frames += 2;
    }
    assert_eq!((frames, model.lent()), (64, 0));
    drop(card);
    let queue = InputQueue::new();
    let frame = rt::memory::Frame::zeroed().unwrap();
    let one = || {
        let buffer = ReceiveBuffer { number: 0, frame: frame.clone() };
        let first = interfaces::nic::ReceivedPiece {
            buffer,
            offset: 16,
            length: 60,
            lead: interfaces::nic::Lead::default(),
        };
        let packet = Received {
            first,
            more: Vec::new(),
            checksum: interfaces::nic::ChecksumState::Unknown,
            segmentation: None,
        };
        crate::input::WaitingPacket { card: 0, packet }
    };
    let mut batch: Vec<_> = (0..1100).map(|_| one()).collect();
    queue.put(&mut batch);
    assert_eq!(batch.len(), 100);
    let shared = Arc::new(queue);
    shared.put(&mut batch);
    assert_eq!(batch.len(), 100);
}
