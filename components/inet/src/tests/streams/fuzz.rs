//! Mutated segments for a host that listens and has connections: it neither panics nor keeps memory without end, and it still works.
//!
//! `STREAM_FUZZ_COUNT` is the number of frames (20,000 by default), `STREAM_FUZZ_SEED` the first state of the generator.
use super::world::*;
use interfaces::sockets::StreamState;
use packet::{Sum, ipv4::Ipv4};
use xorshift::{Xorshift, variable};

const COUNT: u64 = 20_000;
/// Offset of the header of TCP in a frame of IPv4.
const TCP: usize = 34;

/// Makes the checksum of TCP right.
fn seal(frame: &mut [u8]) {
    let Ok(packet) = Ipv4::parse_quoted(&frame[14..]) else { return };
    let (source, destination) = (packet.header.source(), packet.header.destination());
    let bytes = &mut frame[TCP..];
    bytes[16..18].fill(0);
    let mut sum = Sum::pseudo_header4(source, destination, 6, bytes.len() as u32);
    sum.add(bytes);
    bytes[16..18].copy_from_slice(&sum.checksum().to_be_bytes());
}

fn mutate(numbers: &mut Xorshift, frame: &mut [u8]) {
    // Numbers near the right ones pass the checks of the window.
    for place in [TCP + 4, TCP + 8] {
        if numbers.below(2) == 0 {
            let field = u32::from_be_bytes(frame[place..place + 4].try_into().unwrap());
            let distance = match numbers.below(3) {
                0 => numbers.below(20) as u32,
                1 => numbers.below(60_000) as u32,
                _ => numbers.next() as u32,
            };
            let field = field.wrapping_add(distance).wrapping_sub(10);
            frame[place..place + 4].copy_from_slice(&field.to_be_bytes());
        }
    }
    if numbers.below(2) == 0 {
        frame[TCP + 13] = numbers.next() as u8 & if numbers.below(4) == 0 { 0xff } else { 0x38 };
    }
    for _ in 0..numbers.below(4) {
        let place = TCP + numbers.below(frame.len() - TCP);
        frame[place] = numbers.next() as u8;
    }
    if numbers.below(20) > 0 {
        seal(frame);
    }
}

/// A connection from host 0 to host 1, and the frames of its client.
struct Life {
    pair: Pair,
    server: Server,
    client: Program,
    child: Program,
    frames: Vec<Vec<u8>>,
    /// Segments that reached the connection.
    reached: u32,
}

fn life() -> Life {
    let mut pair = Pair::new(1, Weather::default());
    let server = Server::new(&pair.hosts[1].inet, "10.0.0.2:80", 5);
    let client = pair.hosts[0].connect("10.0.0.2:80");
    let mut frames = Vec::new();
    assert!(pair.until(10, |pair| {
        frames.extend(pair.cables[0].frames.lock().unwrap().iter().cloned());
        server.waiting() > 0
    }));
    let child = server.accept().unwrap();
    for _ in 0..3 {
        client.write(&[7; 300]);
        frames.extend(pair.cables[0].frames.lock().unwrap().iter().cloned());
        pair.wait(S);
        child.read(1000);
    }
    frames.retain(|frame| frame.len() > TCP + 20 && frame[12..14] == [8, 0] && frame[23] == 6);
    assert!(frames.len() > 4);
    Life { pair, server, client, child, frames, reached: 0 }
}

impl Life {
    /// Gives a mutated frame to the host. Returns the number of its answers.
    fn step(&mut self, numbers: &mut Xorshift) -> usize {
        let mut frame = self.frames[numbers.below(self.frames.len())].clone();
        mutate(numbers, &mut frame);
        self.pair.give(1, &frame);
        self.reached = self.reached.max(self.child.socket.info().segs_in);
        let host = &self.pair.hosts[1];
        if numbers.below(50) == 0 {
            self.child.read(numbers.below(100_000));
            self.child.write(&[1; 100]);
        }
        if numbers.below(100) == 0 {
            host.wait(numbers.below(2000) as u64 * MS);
            while let Some(other) = self.server.accept() {
                drop(other);
            }
        }
        let counts = host.counts();
        assert!(counts.0 < 400 && counts.1 < 400 && counts.2 < 400, "{counts:?}");
        std::mem::take(&mut *self.pair.cables[1].frames.lock().unwrap()).len()
    }
    /// Ends everything, after a last connection that shows that the host still works.
    fn end(mut self) {
        drop((self.child, self.client));
        while self.server.accept().is_some() {}
        let last = self.pair.hosts[0].connect("10.0.0.2:80");
        assert!(self.pair.until(100, |_| self.server.waiting() > 0));
        let child = std::iter::from_fn(|| self.server.accept()).last().unwrap();
        last.write(b"still there?");
        self.pair.wait(2 * S);
        assert_eq!(child.read(100), b"still there?");
        drop((last, child, self.server));
        self.pair.wait(200 * S);
        assert_eq!(self.pair.hosts[1].counts(), (0, 0, 0));
    }
}

#[test]
fn a_host_survives_mutated_segments() {
    let mut numbers = Xorshift::new(variable("STREAM_FUZZ_SEED", 1));
    let (mut answers, mut reached) = (0, 0);
    let (mut turn, count) = (0, variable("STREAM_FUZZ_COUNT", COUNT));
    while turn < count {
        let mut life = life();
        // A reset that hits ends a life.
        while turn < count && !life.child.is(StreamState::RECEIVE_ENDED) {
            answers += life.step(&mut numbers);
            turn += 1;
        }
        reached += u64::from(life.reached);
        life.end();
    }
    // Answers to segments without data are limited to one in 500 ms.
    assert!(reached > count / 4 && answers as u64 > count / 100, "{answers} of {reached}");
}
