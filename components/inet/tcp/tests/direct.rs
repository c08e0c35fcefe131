//! Two ends in the hands of one caller: bytes go by segments and without, in any order. The sequence numbers stay right.
use labels::SecrecyId;
use proptest::prelude::*;
use tcp::{clock::*, *};

const START: u64 = 1000 * SECOND;
const ROOM: u64 = 60_000;

/// One step of a program or of the caller.
#[derive(Clone, Debug)]
enum Step {
    /// An end writes bytes, which go without a segment if they can.
    Direct(usize, u16),
    /// An end writes bytes, which go as segments.
    Segments(usize, u16),
    /// An end reads bytes.
    Read(usize, u16),
    /// An end reads bytes, and the other one hears of it without a segment.
    DirectRead(usize, u16),
    /// Hundredths of a second pass.
    Wait(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..2_usize, 1..5000_u16).prop_map(|(end, bytes)| Step::Direct(end, bytes)),
        2 => (0..2_usize, 1..5000_u16).prop_map(|(end, bytes)| Step::Segments(end, bytes)),
        2 => (0..2_usize, 1..20_000_u16).prop_map(|(end, bytes)| Step::Read(end, bytes)),
        2 => (0..2_usize, 1..20_000_u16).prop_map(|(end, bytes)| Step::DirectRead(end, bytes)),
        1 => (1..50_u16).prop_map(Step::Wait),
    ]
}

fn free(end: &Connection) -> u64 {
    ROOM - (end.received() - end.read())
}

/// Brings all segments that both ends have to send, one at a time.
fn exchange(ends: &mut [Connection; 2], now: u64) {
    while let Some((from, out)) = (0..2).find_map(|at| Some((at, ends[at].output(now, 1)?))) {
        let room = free(&ends[1 - from]);
        let arrival = ends[1 - from].input(now, &out.segment, room);
        assert!(!arrival.events.contains(TcpEvents::FAILED));
        if let Some(place) = arrival.payload {
            assert!(place.is_in_order && place.skip == 0 && place.length == out.segment.length);
            assert_eq!(place.offset, out.payload.start);
        }
    }
}

fn established() -> [Connection; 2] {
    let settings = Settings { no_delay: true, ..Settings::default() };
    let secret = Secret::new([7; 16]);
    // Both open at once (RFC 9293 section 3.5): no listener is needed.
    let mut ends = [(1, 2), (2, 1)].map(|(local_port, remote_port)| {
        let flow = Flow {
            local: [1; 16],
            remote: [1; 16],
            local_port,
            remote_port,
            label: SecrecyId::NONE,
        };
        *Connection::connect(START, &flow, &secret, settings, ROOM, FastOpen::Off)
    });
    // The SYNs cross, and then the SYN-ACKs.
    for _ in 0..2 {
        let sent = [0, 1].map(|at| ends[at].output(START, 1460).expect("a SYN"));
        for at in 0..2 {
            ends[at].input(START, &sent[1 - at].segment, ROOM);
        }
    }
    exchange(&mut ends, START);
    assert_eq!(ends.each_ref().map(Connection::state), [TcpState::Established; 2]);
    ends
}

/// Sends what an end has written without a segment, if that can be. Returns the number of bytes that went so.
fn hand_over(ends: &mut [Connection; 2], from: usize, now: u64) -> Option<u64> {
    let [one, other] = ends;
    let (sender, peer) = if from == 0 { (one, other) } else { (other, one) };
    sender.direct_length()?;
    if let Some(segment) = sender.owed_acknowledgement(now) {
        let room = free(peer);
        peer.input(now, &segment, room);
    }
    if sender.awaits_only_acknowledgement(peer)
        && let Some(segment) = peer.owed_acknowledgement(now)
    {
        let room = free(sender);
        sender.input(now, &segment, room);
    }
    give(ends, from, now)
}

/// Tells the other end of the window, if a read opened it, and takes what waits there, without a segment.
fn open_window(ends: &mut [Connection; 2], reader: usize, now: u64) {
    if ends[reader].is_acknowledgement_due()
        && let Some(segment) = ends[reader].owed_acknowledgement(now)
    {
        let sender = &mut ends[1 - reader];
        let room = free(sender);
        assert_eq!(sender.input(now, &segment, room).payload, None);
        give(ends, 1 - reader, now);
    }
}

/// Gives what waits at an end, as far as the window admits it.
fn give(ends: &mut [Connection; 2], from: usize, now: u64) -> Option<u64> {
    let [one, other] = ends;
    let (sender, peer) = if from == 0 { (one, other) } else { (other, one) };
    let length = sender.direct_length()?;
    let count = sender.hand_over(peer, length, now, |peer| free(peer))?;
    assert!(count <= length);
    // Bytes that wait have a timer that looks after them.
    assert!(count == length || sender.deadline().is_some());
    Some(count)
}

proptest! {
    #[test]
    fn bytes_go_by_segments_and_without(steps in prop::collection::vec(step(), 1..200)) {
        let mut ends = established();
        let mut now = START;
        for step in steps {
            match step {
                Step::Direct(at, bytes) | Step::Segments(at, bytes) => {
                    let written = ends[at].written() + u64::from(bytes);
                    ends[at].write_to(written);
                    let before = ends[at].sent();
                    if matches!(step, Step::Direct(..))
                        && let Some(count) = hand_over(&mut ends, at, now)
                    {
                        let end = before + count;
                        prop_assert_eq!((ends[at].acked(), ends[at].sent()), (end, end));
                        prop_assert_eq!(ends[1 - at].received(), end);
                    }
                }
                Step::Read(at, bytes) | Step::DirectRead(at, bytes) => {
                    let read = (ends[at].read() + u64::from(bytes)).min(ends[at].received());
                    let room = free(&ends[at]) + read - ends[at].read();
                    ends[at].read_to(read, room);
                    if matches!(step, Step::DirectRead(..)) {
                        open_window(&mut ends, at, now);
                    }
                }
                Step::Wait(ticks) => {
                    for _ in 0..ticks {
                        now += 10 * MILLISECOND;
                        for end in &mut ends {
                            let events = end.expired(now);
                            prop_assert!(!events.contains(TcpEvents::FAILED));
                        }
                        exchange(&mut ends, now);
                    }
                }
            }
            exchange(&mut ends, now);
        }
        // In the end all bytes arrive, and nothing was sent again.
        for _ in 0..200 {
            now += 50 * MILLISECOND;
            for end in &mut ends {
                let _ = end.expired(now);
                let (read, room) = (end.received(), ROOM);
                end.read_to(read, room);
            }
            exchange(&mut ends, now);
        }
        for at in 0..2 {
            prop_assert_eq!(ends[at].written(), ends[1 - at].received());
            prop_assert_eq!(ends[at].acked(), ends[at].written());
            prop_assert_eq!(ends[at].retransmissions(), 0);
        }
    }
}

#[test]
fn a_loss_that_was_repaired_keeps_no_bytes_from_going_without_a_segment() {
    let mut ends = established();
    let mut now = START;
    let write = |ends: &mut [Connection; 2], now: u64| {
        let written = ends[0].written() + 100;
        ends[0].write_to(written);
        ends[0].output(now, 1460)
    };
    assert!(write(&mut ends, now).is_some(), "a segment, which is lost");
    while ends[0].acked() < ends[0].written() {
        now += 10 * MILLISECOND;
        assert!(now < START + 10 * SECOND);
        assert!(!ends[0].expired(now).contains(TcpEvents::FAILED));
        exchange(&mut ends, now);
    }
    // The window is reduced for a flight.
    for _ in 0..3 {
        if let Some(out) = write(&mut ends, now) {
            ends[1].input(now, &out.segment, ROOM);
        }
        now += 100 * MILLISECOND;
        let _ = ends[1].expired(now);
        exchange(&mut ends, now);
    }
    let written = ends[0].written() + 1;
    ends[0].write_to(written);
    assert_eq!(hand_over(&mut ends, 0, now), Some(1));
}

#[test]
fn an_open_connection_needs_no_segments() {
    let mut ends = established();
    exchange(&mut ends, START);
    let window = ends[1].known_window();
    for turn in 1..=2 * window {
        let at = (turn % 2) as usize;
        let written = ends[at].written() + 1;
        ends[at].write_to(written);
        assert_eq!(hand_over(&mut ends, at, START), Some(1), "byte {turn}");
        let read = ends[1 - at].received();
        ends[1 - at].note_read(read, ROOM);
    }
    assert_eq!(ends.each_ref().map(Connection::deadline), [None; 2]);
}
