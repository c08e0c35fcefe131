//! Acknowledgements that come in one batch: what they make room for leaves at once after the last of them.
use super::world::*;
use crate::*;
use packet::tcp::TcpHeader;
use std::sync::atomic::Ordering;

/// Place of the header of TCP in a frame of IPv4.
const TRANSPORT: usize = 34;

/// Two hosts with a connection, of which the first has sent its first window.
struct Flight {
    pair: Pair,
    client: Program,
    child: Program,
    /// The frames of the window.
    frames: Vec<Vec<u8>>,
}

impl Flight {
    fn new() -> Flight {
        let mut pair = Pair::new(1, Weather::default());
        pair.set_card(0, LinkOffloads::CUT_TCP);
        let server = Server::new(&pair.hosts[1].inet, "10.0.0.2:80", 5);
        let client = pair.hosts[0].connect("10.0.0.2:80");
        assert!(pair.until(10, |_| server.waiting() > 0));
        let child = server.accept().unwrap();
        assert!(client.write(&[7; 300_000]) > 60_000);
        let mut flight = Flight { pair, client, child, frames: Vec::new() };
        flight.frames = flight.take(0);
        assert_eq!(flight.frames.len(), 10, "the first window");
        flight
    }
    /// Takes the frames that a host has sent.
    fn take(&self, host: usize) -> Vec<Vec<u8>> {
        std::mem::take(&mut *self.pair.cables[host].frames.lock().unwrap()).into()
    }
    /// Gives frames to the peer one by one, and returns its answers.
    fn answers(&self, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        frames.iter().for_each(|frame| self.pair.give(1, frame));
        self.take(1)
    }
    /// Gives frames to the first host in batches of `size`. Returns the number of packets that it sent, and their frames.
    fn acknowledge(&self, frames: &[Vec<u8>], size: usize) -> (usize, Vec<Vec<u8>>) {
        let packets = || self.pair.cables[0].packets.load(Ordering::Relaxed);
        let before = packets();
        for batch in frames.chunks(size) {
            let frame = |bytes: &Vec<u8>| ReceivedFrame {
                payload: BufferChain::copy_of(bytes).unwrap(),
                checksum: TransportChecksum::Verified,
                segment: None,
                acks: 0,
            };
            self.pair.hosts[0].inet.received(CARD, &mut batch.iter().map(frame).collect());
        }
        (packets() - before, self.take(0))
    }
    /// Asserts that the peer gets every byte.
    fn finish(mut self) {
        let mut got = 0;
        let is_done = self.pair.until(60, |_| {
            let bytes = self.child.read(100_000);
            assert!(bytes.iter().all(|byte| *byte == 7));
            got += bytes.len();
            self.client.socket.info().notsent_bytes == 0 && self.client.socket.info().unacked == 0
        });
        assert!(is_done && got > 60_000);
    }
}

fn header(frame: &[u8]) -> &TcpHeader {
    TcpHeader::parse(&frame[TRANSPORT..], frame.len() - TRANSPORT).unwrap().0
}

#[test]
fn acknowledgements_of_a_batch_send_one_packet() {
    for is_batch in [true, false] {
        let flight = Flight::new();
        let answers = flight.answers(&flight.frames);
        assert!(answers.len() >= 5);
        let size = if is_batch { answers.len() } else { 1 };
        let (packets, frames) = flight.acknowledge(&answers, size);
        // Slow start: two segments for each that was acknowledged.
        assert_eq!((packets, frames.len()), (answers.len() / size, 20));
        frames.iter().for_each(|frame| flight.pair.give(1, frame));
        flight.finish();
    }
}

#[test]
fn duplicates_in_a_batch_have_the_lost_segment_sent_again_at_once() {
    let flight = Flight::new();
    let answers = flight.answers(&flight.frames[1..]);
    assert_eq!(answers.len(), 9, "each segment behind a gap is answered");
    let (_, frames) = flight.acknowledge(&answers, answers.len());
    let lost = header(&flight.frames[0]).sequence;
    assert!(frames.iter().any(|frame| header(frame).sequence == lost));
    frames.iter().for_each(|frame| flight.pair.give(1, frame));
    flight.finish();
}

#[test]
fn a_batch_that_ends_with_a_bad_acknowledgement_sends_as_well() {
    for oddity in 0..3 {
        let flight = Flight::new();
        let mut answers = flight.answers(&flight.frames);
        let mut last = answers.last().unwrap().clone();
        match oddity {
            // It acknowledges what was never sent.
            0 => last[TRANSPORT + 8] ^= 0x40,
            // It is of another place in the stream.
            1 => last[TRANSPORT + 4] ^= 0x40,
            // It is of a connection that is not there.
            _ => last[TRANSPORT] ^= 0x40,
        }
        answers.push(last);
        let (packets, frames) = flight.acknowledge(&answers, answers.len());
        let with_data = frames.iter().filter(|frame| frame.len() > 1000).count();
        assert_eq!((with_data, packets <= 2), (20, true), "{oddity}");
        frames.iter().for_each(|frame| flight.pair.give(1, frame));
        flight.finish();
    }
}
