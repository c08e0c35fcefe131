//! A stack that is dropped in the middle of transfers, and its successor, which has what the client kept.
use super::world::*;
use interfaces::sockets::{
    Acceptor, CloseKind, IpOptions, KeptListening, KeptPort, KeptStream, Network, SocketFamilies,
    SocketOwner, SocketProtocol, StreamOptions, StreamState,
};
use labels::SecrecyId;
use std::sync::Arc;
use xorshift::Xorshift;

/// The link of the tests.
const WEATHER: Weather = Weather { loss: 20, repeats: 10, damage: 10, jitter_ms: 5 };

/// Returns what the client knows of an end.
fn kept_end(end: &End) -> KeptStream {
    KeptStream { is_shut_down: end.is_shut, ..kept(&end.program) }
}

fn kept(program: &Program) -> KeptStream {
    KeptStream {
        families: SocketFamilies::V4,
        owner: SocketOwner { user: 1, inode: 7, label: SecrecyId::NONE },
        options: StreamOptions::default(),
        local: program.socket.local(),
        peer: program.socket.peer(),
        has_own_address: false,
        port: KeptPort::Chosen,
        listening: None,
        is_shut_down: false,
    }
}

/// Drops the stack of a host. Its successor has the sockets of `clients`, whose handles are replaced, and that of `server`.
fn restart(pair: &mut Pair, host: usize, clients: &mut [&mut End], server: Option<&mut Server>) {
    let old = pair.replace(host);
    let new = pair.hosts[host].inet.clone();
    let again = |program: &Program, kept, acceptor| {
        let stream = program.stream.clone();
        new.restore_stream(stream, kept, acceptor).expect("a socket that its client kept")
    };
    if let Some(server) = server {
        let children = server.accepting.children.lock().unwrap();
        let ends = children.iter().map(|one| (one.socket.local(), one.socket.peer().unwrap()));
        let waiting = ends.collect();
        drop(children);
        let acceptor: Arc<dyn Acceptor> = server.accepting.clone();
        let listening = Some(KeptListening { backlog: 5, waiting });
        let known = KeptStream { listening, port: KeptPort::Named, ..kept(&server.program) };
        server.program.socket = again(&server.program, known, Some(acceptor));
        for child in server.accepting.children.lock().unwrap().iter_mut() {
            let known = KeptStream { port: KeptPort::Inherited, ..kept(child) };
            child.socket = again(child, known, None);
        }
    }
    for client in clients {
        let known = kept_end(client);
        let is_child = known.local.port() == 80;
        let port = if is_child { KeptPort::Inherited } else { KeptPort::Chosen };
        let known = KeptStream { port, ..known };
        client.program.socket = again(&client.program, known, None);
    }
    assert_eq!(Arc::strong_count(&old), 1, "nobody has the old stack");
    drop(old);
    new.go_on();
}

#[test]
fn no_byte_is_lost_when_stacks_die_again_and_again() {
    for seed in 1..6 {
        let mut pair = Pair::new(seed, WEATHER);
        let mut random = Xorshift::new(seed);
        let mut server = Server::new(&pair.hosts[1].inet, "10.0.0.2:80", 5);
        let client = pair.hosts[0].connect("10.0.0.2:80");
        let is_there =
            pair.until(600, |_| server.waiting() > 0 && client.is(StreamState::CONNECTED));
        assert!(is_there, "seed {seed}: no connection");
        let mut ends = [End::new(client), End::new(server.accept().unwrap())];
        let data: Vec<u8> = (0..300_000).map(byte).collect();
        let mut restarts = 0;
        let is_done = pair.until(3600, |pair| {
            ends.iter_mut().for_each(|end| end.work(&data));
            if random.chance(1, 20) {
                let [first, second] = &mut ends;
                match random.below(2) {
                    0 => restart(pair, 0, &mut [first], None),
                    _ => restart(pair, 1, &mut [second], Some(&mut server)),
                }
                restarts += 1;
            }
            ends.iter().all(End::is_done)
        });
        for end in &ends {
            let error = end.program.stream.take_error();
            let info = end.program.socket.info();
            let got = end.got.len();
            assert!(is_done && end.got == data, "seed {seed}: {got} {error:?} {info:?}");
        }
        assert!(restarts > 5, "seed {seed}: {restarts} restarts");
        ends.iter().for_each(|end| end.program.socket.close(CloseKind::Orderly));
        drop((ends, server));
        pair.wait(700 * S);
        for host in &pair.hosts {
            assert_eq!(host.counts(), (0, 0, 0), "seed {seed}");
        }
    }
}

#[test]
fn a_listener_and_a_connect_under_way_go_on() {
    for seed in 1..20 {
        let mut pair = Pair::new(seed, WEATHER);
        let mut server = Server::new(&pair.hosts[1].inet, "10.0.0.2:80", 5);
        let mut client = End::new(pair.hosts[0].connect("10.0.0.2:80"));
        let mut random = Xorshift::new(seed);
        // Damage to packets of ARP goes unnoticed: it takes some seconds of life to find the right neighbour again.
        let mut turns = 0;
        let is_there = pair.until(600, |pair| {
            turns += 1;
            match random.below(8) {
                0 if turns < 200 => restart(pair, 0, &mut [&mut client], None),
                1 if turns < 200 => restart(pair, 1, &mut [], Some(&mut server)),
                _ => {}
            }
            server.waiting() > 0 && client.program.is(StreamState::CONNECTED)
        });
        let error = client.program.stream.take_error();
        assert!(is_there, "seed {seed}: {error:?} {:?}", client.program.socket.info());
        client.program.write(b"after all");
        let child = server.accept().unwrap();
        assert!(pair.until(60, |_| child.stream.readable() == 9), "seed {seed}");
        assert_eq!(child.read(100), b"after all");
        assert_eq!(client.program.stream.take_error(), None);
    }
}

/// The other end of an early write is not there yet; its listener may be.
fn write_before_the_other_end(is_listening: bool) {
    let mut pair = Pair::new(1, Weather::default());
    let server = Server::new(&pair.hosts[0].inet, "127.0.0.1:80", 5);
    let mut client = pair.hosts[0].connect("127.0.0.1:80");
    let mut child = server.accept().unwrap();
    let old = pair.replace(0);
    let new = pair.hosts[0].inet.clone();
    let again = |program: &Program, known, acceptor| {
        new.restore_stream(program.stream.clone(), known, acceptor).unwrap()
    };
    let known = KeptStream { port: KeptPort::Chosen, ..kept(&client) };
    client.socket = again(&client, known, None);
    let listener = is_listening.then(|| {
        let listening = Some(KeptListening { backlog: 5, waiting: Vec::new() });
        let known = KeptStream { listening, port: KeptPort::Named, ..kept(&server.program) };
        again(&server.program, known, Some(server.accepting.clone()))
    });
    client.write(b"early");
    let known = KeptStream { port: KeptPort::Inherited, ..kept(&child) };
    child.socket = again(&child, known, None);
    drop(old);
    new.go_on();
    assert!(pair.until(60, |_| child.stream.readable() == 5));
    assert_eq!(child.read(100), b"early");
    assert_eq!((client.stream.take_error(), child.stream.take_error()), (None, None));
    drop(listener);
}

#[test]
fn a_write_before_the_other_end_is_there_again_resets_nothing() {
    [false, true].into_iter().for_each(write_before_the_other_end);
}

#[test]
fn a_successor_refuses_words_that_contradict_themselves() {
    let mut pair = Pair::new(1, Weather::default());
    let server = Server::new(&pair.hosts[1].inet, "10.0.0.2:80", 5);
    let client = End::new(pair.hosts[0].connect("10.0.0.2:80"));
    assert!(pair.until(10, |_| server.waiting() > 0));
    let words = client.program.stream.kept().load();
    // More was sent than was written.
    client.program.stream.kept().store(&[9, words[1], words[2], words[3], words[4], words[5]]);
    pair.replace(0);
    let again =
        pair.hosts[0].inet.restore_stream(client.program.stream.clone(), kept_end(&client), None);
    assert_eq!(again.err(), Some(interfaces::sockets::SocketError::Reset));
    assert!(client.program.is(StreamState::RECEIVE_ENDED | StreamState::SEND_ENDED));
    assert_eq!(pair.hosts[0].counts(), (0, 0, 0));
}

#[test]
fn a_handshake_goes_on_whenever_the_listener_dies() {
    for steps in 0..8 {
        let mut pair = Pair::new(1, Weather::default());
        let mut server = Server::new(&pair.hosts[1].inet, "10.0.0.2:80", 5);
        let client = End::new(pair.hosts[0].connect("10.0.0.2:80"));
        (0..steps).for_each(|_| pair.step(MS));
        restart(&mut pair, 1, &mut [], Some(&mut server));
        client.program.write(b"early");
        // A SYN that was lost with its stack comes again after a second.
        assert!(pair.until(2, |_| server.waiting() > 0), "after {steps} steps");
        let child = server.accept().unwrap();
        assert!(pair.until(2, |_| child.stream.readable() == 5), "after {steps} steps");
        assert_eq!(client.program.stream.take_error(), None);
        let records = pair.hosts[1].inet.administration().sockets(SocketProtocol::Tcp);
        assert_eq!(records.len(), 2, "the listener and its connection");
    }
}

#[test]
fn a_connection_of_which_its_listener_did_not_hear_is_made_again() {
    let mut pair = Pair::new(1, Weather::default());
    let mut server = Server::new(&pair.hosts[1].inet, "10.0.0.2:80", 5);
    *server.accepting.dying.lock().unwrap() = Some(pair.hosts[1].inet.clone());
    let client = End::new(pair.hosts[0].connect("10.0.0.2:80"));
    assert!(pair.until(10, |_| server.accepting.dying.lock().unwrap().is_none()));
    assert!(client.program.is(StreamState::CONNECTED) && server.waiting() == 0);
    restart(&mut pair, 1, &mut [], Some(&mut server));
    client.program.write(b"early");
    assert!(pair.until(2, |_| server.waiting() > 0));
    let child = server.accept().unwrap();
    assert!(pair.until(2, |_| child.stream.readable() == 5));
    assert_eq!(client.program.stream.take_error(), None);
}

#[test]
fn a_backlog_stays_as_long_as_it_was() {
    let mut pair = Pair::new(1, Weather::default());
    let mut server = Server::new(&pair.hosts[1].inet, "10.0.0.2:80", 5);
    let clients: Vec<_> = (0..3).map(|_| pair.hosts[0].connect("10.0.0.2:80")).collect();
    assert!(pair.until(10, |_| server.waiting() == clients.len()));
    restart(&mut pair, 1, &mut [], Some(&mut server));
    // Linux tells the length of the queue as unacknowledged segments.
    assert_eq!(server.program.socket.info().unacked, 3);
    let _child = server.accept().unwrap();
    assert_eq!(server.program.socket.info().unacked, 2);
}

#[test]
fn a_connection_in_time_wait_still_answers() {
    let mut pair = Pair::new(1, Weather::default());
    let server = Server::new(&pair.hosts[1].inet, "10.0.0.2:80", 5);
    let client = pair.hosts[0].connect("10.0.0.2:80");
    assert!(pair.until(10, |_| server.waiting() > 0));
    let child = server.accept().unwrap();
    client.socket.close(CloseKind::Orderly);
    assert!(pair.until(10, |_| child.is(StreamState::RECEIVE_ENDED)));
    pair.wait(S);
    child.socket.shut_down_send();
    // The acknowledgement of the second FIN is lost with its stack.
    assert!(pair.until(10, |pair| pair.hosts[0].inet.streams().waiting.count() == 1));
    pair.weather.loss = 1000;
    pair.step(0);
    pair.weather.loss = 0;
    drop(client);
    restart(&mut pair, 0, &mut [], None);
    assert_eq!(pair.hosts[0].counts(), (1, 1, 0));
    assert!(pair.until(10, |_| child.is(StreamState::SEND_ENDED)));
    assert_eq!(child.stream.take_error(), None);
    pair.wait(61 * S);
    assert_eq!(pair.hosts[0].counts(), (0, 0, 0));
    // Nothing of it is left for a further successor.
    restart(&mut pair, 0, &mut [], None);
    assert_eq!(pair.hosts[0].counts(), (0, 0, 0));
}

#[test]
fn both_ends_on_one_host_go_on() {
    let mut pair = Pair::new(1, Weather::default());
    let mut server = Server::new(&pair.hosts[0].inet, "127.0.0.1:80", 5);
    let mut client = End::new(pair.hosts[0].connect("127.0.0.1:80"));
    let mut child = End::new(server.accept().unwrap());
    let data: Vec<u8> = (0..200_000).map(byte).collect();
    let mut restarts = 0;
    while !(client.is_done() && child.is_done()) {
        client.work(&data);
        restart(&mut pair, 0, &mut [&mut client, &mut child], Some(&mut server));
        child.work(&data);
        restarts += 1;
        pair.wait(10 * MS);
        assert!(restarts < 100, "{:?}", client.program.socket.info());
    }
    assert!(client.got == data && child.got == data && restarts > 5);
}

#[test]
fn options_and_the_claim_on_a_port_come_back() {
    let mut pair = Pair::new(1, Weather::default());
    let shared = StreamOptions {
        ip: IpOptions { reuses_port: true, ttl: Some(9), ..IpOptions::default() },
        no_delay: true,
        ..StreamOptions::default()
    };
    let bind = |pair: &Pair, options: &StreamOptions| {
        let program = Program::new(&pair.hosts[0].inet);
        program.socket.configure(options);
        let bound = program.socket.bind(at("0.0.0.0:80"));
        (program, bound)
    };
    let (mut program, bound) = bind(&pair, &shared);
    assert_eq!(bound, Ok(()));
    let old = pair.replace(0);
    let known = KeptStream { options: shared, port: KeptPort::Named, ..kept(&program) };
    program.socket =
        pair.hosts[0].inet.restore_stream(program.stream.clone(), known, None).unwrap();
    drop(old);
    pair.hosts[0].inet.go_on();
    assert_eq!(program.socket.local(), at("0.0.0.0:80"));
    assert!(bind(&pair, &StreamOptions::default()).1.is_err(), "the port is in use");
    assert_eq!(bind(&pair, &shared).1, Ok(()), "the options of the socket let it be shared");
    program.socket.connect(at("10.0.0.2:9")).unwrap();
    program.socket.close(CloseKind::Abort);
}
