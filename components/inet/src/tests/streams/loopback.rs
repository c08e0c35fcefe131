//! Streams over loopback: everything happens within the calls of the programs.
use super::world::*;
use interfaces::sockets::{
    CloseKind, ConnectionState, IpOptions, SocketError, SocketEvents, SocketFamilies,
    StreamOptions, StreamState,
};
use xorshift::variable;

fn pair(host: &Host, server: &Server, end: &str) -> (Program, Program) {
    let client = host.connect(end);
    let child = server.accept().expect("a child");
    (client, child)
}

#[test]
fn an_echo_returns_within_the_calls_and_everything_is_given_back() {
    let host = Host::new(1);
    assert_eq!(host.counts(), (0, 0, 0));
    let server = Server::new(&host.inet, "127.0.0.1:80", 5);
    let (client, child) = pair(&host, &server, "127.0.0.1:80");
    assert!(client.is(StreamState::CONNECTED) && child.is(StreamState::CONNECTED));
    assert_eq!(child.socket.local(), at("127.0.0.1:80"));
    assert_eq!(child.socket.peer(), Some(client.socket.local()));
    assert_eq!(client.socket.info().state, ConnectionState::Established);
    for turn in 0..variable("STREAM_ROUNDS", 100) {
        let turn = turn as u8;
        client.told.take();
        assert_eq!(client.write(&[turn]), 1);
        assert_eq!(child.read(10), [turn]);
        assert_eq!(child.write(&[turn, 1]), 2);
        assert!(client.told.take().contains(SocketEvents::READABLE));
        assert_eq!(client.read(10), [turn, 1]);
    }
    client.socket.close(CloseKind::Orderly);
    assert!(child.is(StreamState::RECEIVE_ENDED) && !child.is(StreamState::SEND_ENDED));
    child.socket.close(CloseKind::Orderly);
    server.program.socket.close(CloseKind::Orderly);
    assert_eq!(host.counts().0, 1, "TIME-WAIT");
    host.wait(61 * S);
    assert_eq!(host.counts(), (0, 0, 0));
    assert_eq!(host.inet.streams().waiting.count(), 0);
}

#[test]
fn a_listener_and_its_children_share_a_claim_that_the_last_of_them_ends() {
    let host = Host::new(2);
    let server = Server::new(&host.inet, "127.0.0.1:80", 5);
    assert_eq!(host.counts().1, 1);
    let pairs = [(); 3].map(|()| pair(&host, &server, "127.0.0.1:80"));
    assert_eq!(host.counts().1, 1 + 1 + 3, "the listener, its children, and three chosen ports");
    server.program.socket.close(CloseKind::Orderly);
    assert_eq!(host.counts().1, 1 + 3);
    let bind = || Program::new(&host.inet).socket.bind(at("127.0.0.1:80"));
    for (client, child) in pairs {
        assert_eq!(bind(), Err(SocketError::InUse));
        client.socket.close(CloseKind::Orderly);
        child.socket.close(CloseKind::Orderly);
    }
    // TIME-WAIT is with the clients.
    assert_eq!((host.counts().1, bind()), (3, Ok(())));
}

#[test]
fn a_child_that_waits_or_changes_its_options_leaves_the_shared_claim() {
    let host = Host::new(3);
    let server = Server::new(&host.inet, "127.0.0.1:80", 5);
    let [waits, changes] = [(); 2].map(|()| pair(&host, &server, "127.0.0.1:80"));
    let options = StreamOptions {
        ip: IpOptions { reuses_address: true, ..IpOptions::default() },
        ..StreamOptions::default()
    };
    changes.1.socket.configure(&options);
    assert_eq!(host.counts().1, 1 + 1 + 1 + 2, "a claim more, that of the child");
    waits.1.socket.close(CloseKind::Orderly);
    waits.0.socket.close(CloseKind::Orderly);
    assert_eq!(host.counts().1, 1 + 1 + 1 + 1 + 1, "TIME-WAIT, but one chosen port less");
    server.program.socket.configure(&options);
    assert_eq!(host.counts().1, 1 + 1 + 1 + 1, "no child shares the listener's old options");
    drop(pair(&host, &server, "127.0.0.1:80"));
    server.program.socket.close(CloseKind::Orderly);
    changes.0.socket.close(CloseKind::Orderly);
    changes.1.socket.close(CloseKind::Orderly);
    host.wait(61 * S);
    assert_eq!(host.counts(), (0, 0, 0));
}

#[test]
fn many_bytes_arrive_in_both_directions() {
    let host = Host::new(1);
    let server = Server::new(&host.inet, "127.0.0.1:80", 5);
    let (client, child) = pair(&host, &server, "127.0.0.1:80");
    let data: Vec<u8> = (0..1_000_000).map(byte).collect();
    for (from, to) in [(&client, &child), (&child, &client)] {
        let (mut sent, mut got) = (0, Vec::new());
        for turn in 0.. {
            assert!(turn < 10_000, "{} bytes of {sent}", got.len());
            if sent < data.len() {
                sent += from.write(&data[sent..(sent + 30_000).min(data.len())]);
            }
            got.extend(to.read(50_000));
            if got.len() == data.len() {
                break;
            }
            if turn % 100 == 99 {
                host.wait(50 * MS);
            }
        }
        assert!(got == data);
    }
}

#[test]
fn a_port_without_a_listener_refuses() {
    let host = Host::new(1);
    let client = host.connect("127.0.0.1:81");
    assert_eq!(client.stream.take_error(), Some(SocketError::Refused));
    assert!(client.is(StreamState::RECEIVE_ENDED | StreamState::SEND_ENDED));
    assert_eq!(client.socket.info().state, ConnectionState::Closed);
    assert_eq!(host.counts(), (0, 0, 0));
}

#[test]
fn a_connection_that_was_reset_before_it_was_accepted_has_its_peer() {
    let host = Host::new(1);
    let server = Server::new(&host.inet, "127.0.0.1:80", 5);
    let client = host.connect("127.0.0.1:80");
    let name = client.socket.local();
    client.socket.close(CloseKind::Abort);
    let child = server.accept().expect("it still waits");
    assert_eq!(child.stream.take_error(), Some(SocketError::Reset));
    assert_eq!(child.socket.peer(), Some(name));
    assert_eq!(child.socket.info().state, ConnectionState::Closed);
}

#[test]
fn one_direction_ends_before_the_other() {
    let host = Host::new(1);
    let server = Server::new(&host.inet, "127.0.0.1:80", 5);
    let (client, child) = pair(&host, &server, "127.0.0.1:80");
    client.write(b"question");
    client.socket.shut_down_send();
    assert!(child.is(StreamState::RECEIVE_ENDED));
    assert_eq!(child.read(100), b"question");
    child.write(b"answer");
    child.socket.close(CloseKind::Orderly);
    assert_eq!(client.read(100), b"answer");
    assert!(client.is(StreamState::RECEIVE_ENDED));
}

#[test]
fn bytes_that_nobody_read_make_a_reset_of_a_close() {
    let host = Host::new(1);
    let server = Server::new(&host.inet, "127.0.0.1:80", 5);
    let (client, child) = pair(&host, &server, "127.0.0.1:80");
    client.write(b"unread");
    child.socket.close(CloseKind::Orderly);
    assert_eq!(client.stream.take_error(), Some(SocketError::Reset));
    let (client, child) = pair(&host, &server, "127.0.0.1:80");
    drop(client);
    assert_eq!(child.stream.take_error(), Some(SocketError::Reset), "a dropped handle aborts");
    drop(child);
    server.program.socket.close(CloseKind::Orderly);
    assert_eq!(host.counts(), (0, 0, 0));
}

#[test]
fn a_socket_connects_to_itself() {
    let host = Host::new(1);
    let program = Program::new(&host.inet);
    program.socket.bind(at("127.0.0.1:5000")).unwrap();
    program.socket.connect(at("127.0.0.1:5000")).unwrap();
    assert!(program.is(StreamState::CONNECTED));
    program.write(b"to myself");
    assert_eq!(program.read(100), b"to myself");
    program.socket.close(CloseKind::Orderly);
    host.wait(130 * S);
    assert_eq!(host.counts(), (0, 0, 0));
}

#[test]
fn a_full_accept_queue_loses_nobody() {
    let host = Host::new(1);
    let server = Server::new(&host.inet, "127.0.0.1:80", 4);
    let clients: Vec<_> = (0..12).map(|_| host.connect("127.0.0.1:80")).collect();
    assert_eq!(server.waiting(), 5, "the backlog and one, as on Linux");
    let mut children = Vec::new();
    for _ in 0..5 {
        children.extend(std::iter::from_fn(|| server.accept()));
        host.wait(4 * S);
    }
    // Those who were answered by a cookie while the queue was full are connected on their side alone, until they send.
    for (client, turn) in clients.iter().zip(0u8..) {
        assert!(client.is(StreamState::CONNECTED));
        client.write(&[turn]);
    }
    children.extend(std::iter::from_fn(|| server.accept()));
    assert_eq!(children.len(), 12);
    host.wait(S);
    let entries = crate::service::streams::records::all(&host.inet);
    assert_eq!(entries.len(), 1 + 2 * 12);
    let unread = entries.iter().filter(|entry| entry.receive_queue == 1).count();
    assert_eq!(unread, 12, "each child has a byte");
    let mut got: Vec<u8> = children.iter().flat_map(|child| child.read(10)).collect();
    got.sort_unstable();
    assert_eq!(got, (0..12).collect::<Vec<u8>>());
}

fn with_ip(program: &Program, ip: IpOptions) {
    program.socket.configure(&StreamOptions { ip, ..StreamOptions::default() });
}

#[test]
fn ports_are_shared_as_on_linux() {
    let host = Host::new(1);
    let reuse = IpOptions { reuses_address: true, ..IpOptions::default() };
    let share = IpOptions { reuses_port: true, ..IpOptions::default() };
    let bind = |ip: IpOptions, end: &str| {
        let program = Program::new(&host.inet);
        with_ip(&program, ip);
        program.socket.bind(at(end)).map(|()| program)
    };
    let first = bind(IpOptions::default(), "127.0.0.1:80").unwrap();
    assert_eq!(first.socket.bind(at("127.0.0.1:81")).err(), Some(SocketError::Invalid));
    assert_eq!(bind(reuse, "0.0.0.0:80").err().unwrap(), SocketError::InUse);
    assert!(bind(IpOptions::default(), "127.0.0.2:80").is_ok());
    assert_eq!(bind(reuse, "10.9.9.9:80").err().unwrap(), SocketError::NoAddress);
    let one = bind(reuse, "127.0.0.1:90").unwrap();
    let other = bind(reuse, "127.0.0.1:90").unwrap();
    let accepting = std::sync::Arc::new(Accepting::default());
    one.socket.listen(1, accepting.clone()).unwrap();
    assert_eq!(other.socket.listen(1, accepting.clone()), Err(SocketError::InUse));
    assert_eq!(bind(reuse, "127.0.0.1:90").err().unwrap(), SocketError::InUse);
    let group: Vec<Server> = (0..2)
        .map(|_| {
            let program = Program::new(&host.inet);
            with_ip(&program, share);
            Server::of(program, "127.0.0.1:100", 100)
        })
        .collect();
    let clients: Vec<_> = (0..40).map(|_| host.connect("127.0.0.1:100")).collect();
    assert!(group.iter().all(|server| server.waiting() > 5));
    assert_eq!(group.iter().map(Server::waiting).sum::<usize>(), clients.len());
}

#[test]
fn a_port_in_time_wait_is_bound_with_reuse_alone() {
    let host = Host::new(1);
    let server = Server::new(&host.inet, "127.0.0.1:80", 5);
    let (client, child) = pair(&host, &server, "127.0.0.1:80");
    child.socket.close(CloseKind::Orderly);
    client.socket.close(CloseKind::Orderly);
    server.program.socket.close(CloseKind::Orderly);
    let again = Program::new(&host.inet);
    assert_eq!(again.socket.bind(at("127.0.0.1:80")), Err(SocketError::InUse));
    host.wait(61 * S);
    assert_eq!(again.socket.bind(at("127.0.0.1:80")), Ok(()));
}

#[test]
fn families_are_kept_apart_and_brought_together() {
    let host = Host::new(1);
    let server = Server::of(Program::with(&host.inet, SocketFamilies::Both), "[::]:80", 5);
    let (_client, child) = pair(&host, &server, "127.0.0.1:80");
    assert_eq!(child.socket.local(), at("127.0.0.1:80"));
    let client = Program::with(&host.inet, SocketFamilies::V6);
    assert_eq!(client.socket.connect(at("127.0.0.1:80")), Err(SocketError::Family));
    client.socket.connect(at("[::1]:80")).unwrap();
    assert!(client.is(StreamState::CONNECTED));
    let lonely = Program::new(&host.inet);
    assert_eq!(lonely.socket.connect(at("10.1.1.1:80")), Err(SocketError::NetworkUnreachable));
    assert_eq!(lonely.socket.connect(at("224.0.0.1:80")), Err(SocketError::NetworkUnreachable));
}

#[test]
fn thousands_of_connections_come_and_go() {
    let host = Host::new(1);
    let server = Server::new(&host.inet, "0.0.0.0:80", 5000);
    let clients: Vec<_> = (0..3000).map(|_| host.connect("127.0.0.1:80")).collect();
    let children: Vec<_> = std::iter::from_fn(|| server.accept()).collect();
    assert_eq!((clients.len(), children.len()), (3000, 3000));
    let mut ports: Vec<u16> = clients.iter().map(|client| client.socket.local().port()).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 3000);
    clients.iter().for_each(|client| _ = client.write(b"x"));
    assert!(children.iter().all(|child| child.read(9) == b"x"));
    drop((clients, children));
    server.program.socket.close(CloseKind::Orderly);
    host.wait(S);
    assert_eq!(host.counts(), (0, 0, 0));
}

#[test]
fn a_disconnected_socket_connects_again() {
    let host = Host::new(1);
    let server = Server::new(&host.inet, "127.0.0.1:80", 5);
    let (mut client, child) = pair(&host, &server, "127.0.0.1:80");
    let (stream, told) = stream();
    client.socket.disconnect(stream.clone());
    assert_eq!(child.stream.take_error(), Some(SocketError::Reset));
    (client.stream, client.told) = (stream, told);
    assert_eq!((client.socket.local(), client.socket.peer()), (at("0.0.0.0:0"), None));
    client.socket.connect(at("127.0.0.1:80")).unwrap();
    assert!(client.is(StreamState::CONNECTED));
}
