//! Options and parameters that change what streams send.
use super::world::*;
use crate::InetClock;
use interfaces::sockets::{
    CongestionControl, Network, NetworkParameter, SocketEvents, SocketProtocol, StreamOptions,
    StreamState,
};

#[test]
fn a_rate_bounds_what_leaves() {
    const RATE: u64 = 1_000_000;
    const TOTAL: usize = 2_000_000;
    let host = Host::new(1);
    let server = Server::new(&host.inet, "127.0.0.1:80", 5);
    let client = host.connect("127.0.0.1:80");
    let child = server.accept().unwrap();
    client.socket.configure(&StreamOptions { pacing_rate: RATE, ..StreamOptions::default() });
    let start = host.time.now_ns();
    let (mut sent, mut got) = (0, 0);
    while got < TOTAL {
        let elapsed = host.time.now_ns() - start;
        assert!(elapsed < 4 * S, "{got} bytes after {elapsed} ns");
        sent += client.write(&vec![1; (TOTAL - sent).min(50_000)]);
        got += child.read(usize::MAX).len();
        host.wait(MS);
    }
    let elapsed = host.time.now_ns() - start;
    // The first ten segments leave at once.
    assert!((1300 * MS..2600 * MS).contains(&elapsed), "{elapsed} ns");
    let info = client.socket.info();
    assert_eq!((info.pacing_rate, info.max_pacing_rate), (RATE, RATE));
}

#[test]
fn a_writer_is_told_when_few_bytes_are_unsent() {
    let host = Host::new(1);
    let server = Server::new(&host.inet, "127.0.0.1:80", 5);
    let client = host.connect("127.0.0.1:80");
    let child = server.accept().unwrap();
    let options = StreamOptions { unsent_low_water: 1000, cork: true, ..StreamOptions::default() };
    client.socket.configure(&options);
    assert_eq!(client.write(&[1; 900]), 900);
    client.told.take();
    assert!(child.read(9999).is_empty());
    client.socket.configure(&StreamOptions { cork: false, ..options });
    assert!(client.told.take().contains(SocketEvents::WRITABLE));
    assert_eq!(child.read(9999), [1; 900]);
}

#[test]
fn answers_of_a_listener_follow_its_options() {
    let host = Host::new(1);
    let server = Server::new(&host.inet, "127.0.0.1:80", 5);
    let end = "127.0.0.1:80".parse().unwrap();
    let is_answered = |least| {
        let client = Program::new(&host.inet);
        let mut options = StreamOptions::default();
        options.ip.ttl_least = least;
        client.socket.configure(&options);
        client.socket.connect(end).unwrap();
        client.is(StreamState::CONNECTED)
    };
    assert!(is_answered(64));
    let mut options = StreamOptions::default();
    options.ip.ttl = Some(5);
    server.program.socket.configure(&options);
    assert!(!is_answered(6) && is_answered(5));
}

#[test]
fn parameters_choose_what_sockets_left_open() {
    let host = Host::new(1);
    let administration = host.inet.administration();
    let set = |parameter, value| administration.set_parameter(parameter, &[value]).unwrap();
    set(NetworkParameter::TcpTimestamps, 0);
    set(NetworkParameter::TcpSack, 0);
    let server = Server::new(&host.inet, "127.0.0.1:80", 5);
    let client = host.connect("127.0.0.1:80");
    assert_eq!(client.socket.info().options & 7, 4, "window scaling alone");
    set(NetworkParameter::TcpFinTimeout, 5);
    let child = server.accept().unwrap();
    drop(client);
    drop(child);
    let records = administration.sockets(SocketProtocol::Tcp);
    assert_eq!(records.first().map(|one| one.congestion), Some(CongestionControl::Cubic));
    set(NetworkParameter::TcpCongestionControl, 0);
    let records = administration.sockets(SocketProtocol::Tcp);
    assert_eq!(records.first().map(|one| one.congestion), Some(CongestionControl::Reno));
    let refused = administration.set_parameter(NetworkParameter::TcpEcn, &[9]);
    assert!(refused.is_err());
    assert_eq!(administration.parameter(NetworkParameter::TcpEcn), Some(vec![2]));
}

#[test]
fn the_room_follows_a_fast_reader_only() {
    let host = Host::new(1);
    let server = Server::new(&host.inet, "127.0.0.1:80", 5);
    let room_after = |most: usize, length: usize, pause_ns: u64| {
        let client = host.connect("127.0.0.1:80");
        let child = server.accept().unwrap();
        child.stream.set_receive_limit_max(most);
        for _ in 0..200 {
            client.write(&vec![1; length]);
            child.read(usize::MAX);
            host.wait(pause_ns);
        }
        assert!(child.socket.info().rcv_rtt >= 1000);
        child.stream.receive_limit()
    };
    assert_eq!(room_after(0, 60_000, MS / 4), RECEIVE_ROOM, "the program has set it");
    assert_eq!(room_after(6 << 20, 60_000, MS / 4), 6 << 20);
    assert_eq!(room_after(6 << 20, 30_000, 20 * MS), RECEIVE_ROOM, "no more than the window comes");
}

#[test]
fn urgent_bytes_are_announced() {
    let host = Host::new(1);
    let server = Server::new(&host.inet, "127.0.0.1:80", 5);
    let client = host.connect("127.0.0.1:80");
    let child = server.accept().unwrap();
    child.told.take();
    client.write(b"x");
    assert!(!child.told.take().contains(SocketEvents::URGENT));
    client.socket.configure(&StreamOptions { cork: true, ..StreamOptions::default() });
    client.write(b"yz");
    client.socket.mark_urgent();
    assert!(child.told.take().contains(SocketEvents::URGENT | SocketEvents::STATE));
    assert_eq!(child.socket.urgent_mark(), Some(2));
}
