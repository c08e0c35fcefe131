//! Tests of [`Stream`]: a model of two queues of bytes, and the memory that is held.
use super::*;
use crate::nic::PacketSegment;
use alloc::{collections::VecDeque, sync::Arc, vec, vec::Vec};
use core::sync::atomic::{AtomicU8, Ordering};
use proptest::prelude::*;
use rt::{NoMemory, PAGE_BYTES, memory::Frame};

#[derive(Default)]
struct Told(AtomicU8);

impl Told {
    fn take(&self) -> SocketEvents {
        SocketEvents::from_bits_truncate(self.0.swap(0, Ordering::Relaxed))
    }
}

impl SocketObserver for Told {
    fn notify(&self, events: SocketEvents) {
        self.0.fetch_or(events.bits(), Ordering::Relaxed);
    }
}

fn stream(send: usize, receive: usize) -> (Stream, Arc<Told>) {
    let told = Arc::new(Told::default());
    (Stream::new(told.clone(), send, receive), told)
}

/// Copies `data` into frames that follow each other, as far as `most` bytes.
fn fill(frames: &[Frame], offset: usize, data: &[u8]) -> usize {
    let mut done = 0;
    for (number, frame) in frames.iter().enumerate() {
        let at = if number == 0 { offset } else { 0 };
        done += frame.write(at, &data[done..]);
    }
    done
}

fn write(stream: &Stream, data: &[u8]) -> Result<usize, NoMemory> {
    stream.write(data.len(), |frames, offset, length| Ok(fill(frames, offset, &data[..length])))
}

fn read(stream: &Stream, most: usize) -> Vec<u8> {
    let mut found = Vec::new();
    let copy = |frame: &Frame, offset: usize, length: usize| {
        let mut bytes = vec![0; length];
        frame.read(offset, &mut bytes);
        found.extend(bytes);
        Ok::<_, NoMemory>(length)
    };
    stream.read(most, copy).unwrap();
    found
}

/// Moves bytes that one stream has to send to the other.
fn carry(from: &Stream, at: u64, most: usize, to: &Stream) -> usize {
    let mut segments = Vec::new();
    let count = from.segments(at, most, &mut segments);
    to.deliver(&mut segments);
    count
}

#[derive(Clone, Debug)]
enum Step {
    Write(usize),
    Carry(usize),
    Acknowledge(usize),
    HandOver(usize),
    Read(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = || prop_oneof![1..40usize, 3000..9000usize];
    let step = prop_oneof![
        size().prop_map(Step::Write),
        size().prop_map(Step::Carry),
        size().prop_map(Step::Acknowledge),
        size().prop_map(Step::HandOver),
        size().prop_map(Step::Read),
    ];
    prop::collection::vec(step, 1..80)
}

proptest! {
    /// Bytes that are written at one end are read at the other, whatever the sizes; afterwards no memory is held.
    #[test]
    fn bytes_come_out_as_they_went_in(steps in steps()) {
        let (near, _) = stream(40_000, 60_000);
        let (far, _) = stream(40_000, 60_000);
        let (mut next, mut sent, mut expected) = (0u8, 0u64, VecDeque::new());
        for step in steps {
            match step {
                Step::Write(size) => {
                    let data: Vec<u8> = (0..size).map(|at| next.wrapping_add(at as u8)).collect();
                    let room = near.room();
                    let count = write(&near, &data).unwrap();
                    prop_assert_eq!(count, size.min(room));
                    expected.extend(&data[..count]);
                    next = next.wrapping_add(count as u8);
                }
                Step::Carry(size) => sent += carry(&near, sent, size, &far) as u64,
                Step::Acknowledge(size) => {
                    let to = (near.counters().acked + size as u64).min(sent);
                    near.acknowledge(to);
                    prop_assert_eq!(near.counters().acked, to);
                }
                Step::HandOver(size) => {
                    // The bytes that were carried are acknowledged before.
                    near.acknowledge(sent);
                    let length = size.min(near.unacknowledged());
                    near.hand_over(&far, length as u64);
                    sent += length as u64;
                    prop_assert_eq!(near.counters().acked, sent);
                }
                Step::Read(size) => {
                    let found = read(&far, size);
                    let wanted: Vec<u8> = expected.drain(..found.len()).collect();
                    prop_assert_eq!(found, wanted);
                }
            }
            prop_assert_eq!(far.counters().received, sent);
        }
        sent += carry(&near, sent, usize::MAX, &far) as u64;
        near.acknowledge(sent);
        prop_assert_eq!(near.unacknowledged(), 0);
        let rest = read(&far, usize::MAX);
        prop_assert_eq!(rest, Vec::from(expected));
        prop_assert_eq!(far.receive_room(), 60_000);
        prop_assert_eq!(near.segments(0, usize::MAX, &mut Vec::new()), 0, "none is held");
    }
}

#[test]
fn bytes_of_small_writes_share_a_frame() {
    let (near, _) = stream(40_000, 60_000);
    for byte in 0..100 {
        write(&near, &[byte]).unwrap();
    }
    let mut segments = Vec::new();
    assert_eq!(near.segments(10, 90, &mut segments), 90);
    let [part] = segments.as_slice() else { panic!("one part: {segments:?}") };
    assert_eq!((part.offset, part.length), (10, 90));
    let (far, _) = stream(40_000, 60_000);
    for at in 0..100 {
        carry(&near, at, 1, &far);
    }
    assert_eq!(far.receive_room(), 60_000 - PAGE_BYTES, "the memory of one frame is held");
    assert_eq!(read(&far, 1000), (0..100).collect::<Vec<u8>>());
}

#[test]
fn room_is_told_of_once_a_third_is_free() {
    let (near, told) = stream(9000, 9000);
    assert_eq!(write(&near, &[1; 10_000]), Ok(9000));
    assert_eq!((near.room(), near.is_writable()), (0, false));
    assert_eq!(write(&near, &[1]), Ok(0));
    near.acknowledge(2999);
    assert_eq!(told.take(), SocketEvents::empty());
    near.acknowledge(3000);
    assert_eq!(told.take(), SocketEvents::WRITABLE);
    assert!(!near.acknowledge(2000), "an acknowledgement never goes back");
    near.acknowledge(u64::MAX);
    assert_eq!(near.counters().acked, 9000, "nothing is acknowledged that was not written");
}

#[test]
fn a_copy_that_fails_part_way_loses_nothing() {
    let (near, _) = stream(40_000, 60_000);
    write(&near, &[1; 100]).unwrap();
    assert_eq!(near.write(5000, |_, _, _| Err(NoMemory)), Err(NoMemory));
    let short =
        near.write(5000, |frames, offset, _| Ok::<_, NoMemory>(fill(frames, offset, &[2; 4500])));
    assert_eq!(short, Ok(4500));
    write(&near, &[3; 10]).unwrap();
    let (far, told) = stream(40_000, 60_000);
    carry(&near, 0, usize::MAX, &far);
    assert_eq!(told.take(), SocketEvents::READABLE);
    let failed = far.read(100, |_, _, _| Err::<usize, _>(NoMemory));
    assert_eq!(failed, Err(NoMemory));
    let some = far.read(1000, |_, _, length| Ok::<_, NoMemory>(length.min(40)));
    assert_eq!(some, Ok(40), "the rest stays");
    let peeked = far.peek((50, 20), |_, offset, length| {
        Ok::<_, NoMemory>({
            assert_eq!(offset, 90);
            length
        })
    });
    assert_eq!(peeked, Ok(20));
    let rest = read(&far, usize::MAX);
    let expected = [vec![1; 60], vec![2; 4500], vec![3; 10]].concat();
    assert!(rest == expected);
}

#[test]
fn an_end_and_an_error_are_told_once() {
    let (near, told) = stream(9000, 9000);
    near.enter(StreamState::CONNECTED);
    assert_eq!(told.take(), SocketEvents::STATE);
    near.fail(SocketError::Reset);
    assert!(near.state().contains(StreamState::all()));
    assert_eq!(told.take(), SocketEvents::STATE | SocketEvents::READABLE);
    assert_eq!((near.take_error(), near.take_error()), (Some(SocketError::Reset), None));
}

#[test]
fn frames_that_follow_each_other_are_read_at_once() {
    let (near, _) = stream(40_000, 60_000);
    let (far, _) = stream(40_000, 60_000);
    let data: Vec<u8> = (0..10_000).map(|at| at as u8).collect();
    write(&near, &data).unwrap();
    let apart = PacketSegment { frame: Frame::zeroed().unwrap(), offset: 100, length: 50 };
    let shared = near.write_shared(1000, |room, take| {
        assert_eq!(room, 1000);
        (0..2).for_each(|_| take(apart.frame.clone(), 100, 50));
        100
    });
    assert_eq!(shared, Ok(100));
    carry(&near, 0, usize::MAX, &far);
    let mut calls = Vec::new();
    let mut note = |frames: &[Frame], offset, length| {
        calls.push((frames.len(), offset, length));
        Ok::<_, NoMemory>(length)
    };
    assert_eq!(far.read_frames(9000, &mut note), Ok(9000));
    assert_eq!(far.read_frames(usize::MAX, &mut note), Ok(1100));
    let within = 9000 % PAGE_BYTES;
    assert_eq!(calls, [(3, 0, 9000), (1, within, 1000), (1, 100, 50), (1, 100, 50)]);
    assert_eq!(far.receive_room(), 60_000);
}

#[test]
fn peeked_bytes_stay_and_hold_their_memory() {
    let (near, _) = stream(40_000, 60_000);
    let (far, _) = stream(40_000, 60_000);
    let data: Vec<u8> = (0..9000).map(|at| at as u8).collect();
    write(&near, &data).unwrap();
    carry(&near, 0, 5000, &far);
    let count = |_: &Frame, _: usize, length: usize| Ok::<_, NoMemory>(length);
    assert_eq!(far.peek((0, usize::MAX), count), Ok(5000));
    carry(&near, 5000, 4000, &far);
    assert_eq!(far.peek((4999, 2000), count), Ok(2000));
    assert_eq!((far.readable(), far.counters().read), (9000, 0));
    assert!(far.receive_room() <= 60_000 - 3 * PAGE_BYTES);
    assert_eq!(read(&far, 1), data[..1]);
    assert_eq!(read(&far, usize::MAX), data[1..]);
    assert_eq!((far.readable(), far.receive_room()), (0, 60_000));
}

#[test]
fn bytes_are_handed_over_from_the_middle_of_a_piece() {
    let ((from, _), (to, told)) = (stream(1 << 20, 1 << 20), stream(1 << 20, 1 << 20));
    write(&from, b"a").unwrap();
    assert_eq!(carry(&from, 0, 1, &to), 1);
    // The piece grows behind the byte that is acknowledged then.
    write(&from, b"bcd").unwrap();
    from.acknowledge(1);
    told.take();
    from.hand_over(&to, 2);
    assert_eq!(told.take(), SocketEvents::READABLE);
    assert_eq!((from.unacknowledged(), to.readable()), (1, 3));
    write(&from, &[b'e'; 2 * PAGE_BYTES]).unwrap();
    from.hand_over(&to, 1 + 2 * PAGE_BYTES as u64);
    assert_eq!(from.unacknowledged(), 0);
    let mut expected = b"abcd".to_vec();
    expected.resize(4 + 2 * PAGE_BYTES, b'e');
    assert!(read(&to, usize::MAX) == expected);
    assert_eq!(to.receive_room(), 1 << 20);
}
