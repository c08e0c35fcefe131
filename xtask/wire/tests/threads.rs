//! The wire by the machine's clock: peers, and a socket in a machine's place.
use std::{
    net::SocketAddr,
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use wire::{Addresses, Faults, Peer, Port, Settings, Stream, Wire, peer::Handle};

const FIRST: Addresses = Addresses::of(1);
const SECOND: Addresses = Addresses::of(2);
/// No test waits so long unless it fails.
const LIMIT: Duration = Duration::from_secs(60);

fn peer(addresses: &Addresses) -> (Box<Peer>, Handle) {
    let (peer, handle) = Peer::new(addresses, 1).unwrap();
    (Box::new(peer), handle)
}

/// A socket in a machine's place.
struct Machine {
    socket: UnixDatagram,
    /// The wire's socket.
    wire: PathBuf,
}

impl Machine {
    fn new() -> (Box<Port>, Machine) {
        let port = Port::new().unwrap();
        let machine = Machine::at(&port.machine_path(), &port.path());
        (Box::new(port), machine)
    }
    fn at(own: &Path, wire: &Path) -> Machine {
        let socket = UnixDatagram::bind(own).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        Machine { socket, wire: wire.to_owned() }
    }
    fn send(&self, frame: &[u8]) -> std::io::Result<usize> {
        self.socket.send_to(frame, &self.wire)
    }
    fn receive(&self) -> Vec<u8> {
        let mut buffer = [0; 4096];
        let length = self.socket.recv(&mut buffer).unwrap();
        buffer[..length].to_vec()
    }
}

/// An IPv4 frame of this length.
fn frame(length: usize) -> Vec<u8> {
    let mut frame = vec![0xff; length];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame
}

#[test]
fn streams_go_both_ways_over_a_bad_wire() {
    let faults = Faults {
        loss: 0.01,
        duplication: 0.01,
        corruption: 0.01,
        reordering: 0.02,
        delay_us: 200,
        ..Faults::default()
    };
    let settings = Settings { faults: [faults; 2], ..Settings::default() };
    let ((first, one), (second, other)) = (peer(&FIRST), peer(&SECOND));
    let wire = Wire::start(&settings, [first, second]).unwrap();
    let stream = Stream::Pattern { seed: 1, length: 300_000 };
    let forth = one.connect_to_echo(SocketAddr::new(SECOND.v4.into(), 7), stream.clone());
    let back = other.connect_to_echo(SocketAddr::new(FIRST.v6.into(), 7), stream);
    assert_eq!(one.wait(forth, LIMIT).unwrap(), 300_000);
    assert_eq!(other.wait(back, LIMIT).unwrap(), 300_000);
    for of in wire.finish().unwrap() {
        assert!(of.lost > 0 && of.delivered > 400, "{of:?}");
    }
}

#[test]
fn frames_of_a_machine_pass_and_those_that_are_none_are_refused() {
    let ((one, first), (other, second)) = (Machine::new(), Machine::new());
    let wire = Wire::start(&Settings::default(), [one, other]).unwrap();
    for length in [0, 1, 13, 1515, 3000, 100_000] {
        let bytes = vec![0; length];
        assert_eq!(first.send(&bytes).unwrap(), length);
    }
    for length in [14, 60, 1514] {
        first.send(&frame(length)).unwrap();
    }
    for length in [14, 60, 1514] {
        assert_eq!(second.receive(), frame(length));
    }
    second.send(&frame(77)).unwrap();
    assert_eq!(first.receive(), frame(77));
    let [forth, back] = wire.finish().unwrap();
    assert_eq!((forth.refused, forth.taken, forth.delivered), (6, 3, 3));
    assert_eq!((back.refused, back.taken), (0, 1));
    assert!(!first.wire.parent().unwrap().exists(), "the sockets are gone");
}

#[test]
fn a_machine_that_reads_late_gets_every_frame() {
    const COUNT: u16 = 2000;
    let ((one, first), (other, second)) = (Machine::new(), Machine::new());
    let wire = Wire::start(&Settings::default(), [one, other]).unwrap();
    let numbered = |number: u16| {
        let mut frame = frame(60);
        frame[20..22].copy_from_slice(&number.to_le_bytes());
        frame
    };
    // Far more than a socket holds: they wait in the wire.
    for number in 0..COUNT {
        first.send(&numbered(number)).unwrap();
    }
    for number in 0..COUNT {
        assert_eq!(second.receive(), numbered(number));
    }
    assert_eq!(wire.finish().unwrap()[0].delivered, u64::from(COUNT));
}

#[test]
fn a_machine_may_be_absent_and_start_again() {
    let ((one, first), port) = (Machine::new(), Port::new().unwrap());
    let (path, ours) = (port.machine_path(), port.path());
    let wire = Wire::start(&Settings::default(), [one, Box::new(port)]).unwrap();
    let wait = |is_so: &dyn Fn() -> bool| {
        let end = Instant::now() + LIMIT;
        while !is_so() {
            assert!(Instant::now() < end, "{:?}", wire.counters());
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    first.send(&frame(60)).unwrap();
    wait(&|| wire.counters()[0].undelivered == 1);
    for start in 1..=2 {
        let second = Machine::at(&path, &ours);
        first.send(&frame(60 + start)).unwrap();
        assert_eq!(second.receive(), frame(60 + start));
        drop(second);
        std::fs::remove_file(&path).unwrap();
    }
    first.send(&frame(60)).unwrap();
    wait(&|| wire.counters()[0].undelivered == 2);
}

#[test]
fn a_wire_is_dropped_while_frames_fly() {
    let slow = Faults { delay_us: 3_600_000_000, ..Faults::default() };
    let settings = Settings { faults: [slow; 2], ..Settings::default() };
    let ((one, first), (other, _handle)) = (Machine::new(), peer(&SECOND));
    let wire = Wire::start(&settings, [one, other]).unwrap();
    for _ in 0..100 {
        first.send(&frame(100)).unwrap();
    }
    let start = Instant::now();
    drop(wire);
    assert!(start.elapsed() < LIMIT);
    assert!(!first.wire.exists());
    // Under full load, with a receiver that never reads.
    let ((one, first), (other, second)) = (Machine::new(), Machine::new());
    let wire = Wire::start(&Settings::default(), [one, other]).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| while first.send(&frame(100)).is_ok() {});
        assert_eq!(second.receive(), frame(100));
        drop(wire);
    });
}

#[test]
fn wrong_settings_are_refused() {
    let wrong = Faults { loss: 2.0, ..Faults::default() };
    let settings = Settings { faults: [wrong; 2], ..Settings::default() };
    assert!(Wire::start(&settings, [peer(&FIRST).0, peer(&SECOND).0]).is_err());
    let nowhere = Some(PathBuf::from("/nowhere/file"));
    let settings = Settings { capture: nowhere, ..Settings::default() };
    assert!(Wire::start(&settings, [peer(&FIRST).0, peer(&SECOND).0]).is_err());
}
