//! Tests of streams without programs, over the loopback interface of the real stack.
use super::*;
use crate::socket::{
    interface::{Patience, Receive, Send, Socket, SocketAddress},
    internet::{
        address, options,
        test_support::{READ, SENT, given, nobody, stack},
    },
    option_input::OptionInput,
};
use inet::Inet;
use linux_raw_sys::net;
use std::{thread, vec, vec::Vec};
use vfs::{
    Credentials, NOBODY,
    file::{File, Ready},
    io::{SliceSink, SliceSource},
};

const URGENT: Send = Send { is_urgent: true, ..SENT };
const READABLE: Ready = Ready::IN.union(Ready::READ_NORMAL);
const WRITABLE: Ready = Ready::OUT.union(Ready::WRITE_NORMAL);

pub(super) fn tcp(inet: &Inet) -> Arc<InternetStream> {
    InternetStream::open(inet, AddressFamily::V4, nobody()).unwrap()
}

fn name_of(socket: &dyn Socket) -> SocketAddr {
    let bytes = socket.name();
    let at = |index: usize| bytes.bytes()[index];
    let ip = core::net::Ipv4Addr::new(at(4), at(5), at(6), at(7));
    SocketAddr::new(ip.into(), u16::from_be_bytes([at(2), at(3)]))
}

pub(super) fn listener(inet: &Inet) -> (Arc<InternetStream>, SocketAddress) {
    let socket = tcp(inet);
    socket.bind_to(&Credentials::root(), &given("127.0.0.1:0")).unwrap();
    socket.listen_for(8).unwrap();
    let name = socket.name();
    (socket, name)
}

pub(super) fn pair(inet: &Inet) -> (Arc<InternetStream>, Arc<InternetStream>) {
    let (listener, to) = listener(inet);
    let client = tcp(inet);
    client.connect_to(&to, Patience::Wait).unwrap();
    let child = listener.take_connection(Patience::None).unwrap();
    listener.closed();
    (client, child)
}

pub(super) fn put(socket: &InternetStream, data: &[u8]) -> Result<usize, Errno> {
    socket.send_bytes(&mut SliceSource::new(data), SENT)
}

fn get_as(socket: &InternetStream, most: usize, how: Receive) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; most];
    let count = socket.receive_bytes(&mut SliceSink::new(&mut bytes), how)?.count;
    bytes.truncate(count);
    Ok(bytes)
}

pub(super) fn get(socket: &InternetStream, most: usize) -> Result<Vec<u8>, Errno> {
    get_as(socket, most, READ)
}

pub(super) fn events(socket: &dyn File) -> Ready {
    socket.poll(None, NOBODY)
}

#[test]
fn bytes_pass_and_the_ends_are_told() {
    let inet = stack();
    let (client, child) = pair(&inet);
    assert_eq!(client.peer_name().unwrap().bytes(), child.name().bytes());
    assert_eq!(put(&client, b"hello"), Ok(5));
    assert_eq!(child.readable_bytes(), Ok(5));
    assert_eq!(get_as(&child, 2, Receive { is_peek: true, ..READ }), Ok(b"he".to_vec()));
    assert_eq!(get_as(&child, 2, Receive { is_discarding: true, ..READ }), Ok(vec![0; 2]));
    assert_eq!(get(&child, 9), Ok(b"llo".to_vec()));
    assert_eq!(get(&child, 9), Err(Errno::EAGAIN));
    assert_eq!(events(&*child), WRITABLE);
    assert_eq!(client.end_directions(Shut::SEND), Ok(()));
    assert_eq!(events(&*client), WRITABLE, "the own end is no event");
    assert_eq!(events(&*child), WRITABLE | READABLE | Ready::READ_HANGUP);
    assert_eq!(get(&child, 9), Ok(vec![]));
    assert_eq!(put(&client, b"more"), Err(Errno::EPIPE));
    assert_eq!(put(&child, b"back"), Ok(4));
    child.closed();
    let all = WRITABLE | READABLE | Ready::READ_HANGUP | Ready::HANGUP;
    assert_eq!(events(&*client), all);
    assert_eq!(get(&client, 9), Ok(b"back".to_vec()));
    assert_eq!(get(&client, 9), Ok(vec![]));
}

#[test]
fn a_fresh_socket_is_not_connected() {
    let inet = stack();
    let socket = tcp(&inet);
    assert_eq!(events(&*socket), WRITABLE | Ready::HANGUP);
    assert_eq!(get(&socket, 1), Err(Errno::ENOTCONN));
    assert_eq!(put(&socket, b"x"), Err(Errno::EPIPE));
    assert_eq!(socket.end_directions(Shut::SEND), Err(Errno::ENOTCONN));
    assert_eq!(socket.peer_name().map(|_| ()), Err(Errno::ENOTCONN));
    assert!(matches!(socket.take_connection(Patience::None), Err(Errno::EINVAL)));
    assert_eq!(name_of(&*socket), "0.0.0.0:0".parse().unwrap());
}

#[test]
fn a_connect_without_waiting_tells_its_end_to_the_next_call() {
    let inet = stack();
    let (listener, to) = listener(&inet);
    assert_eq!(events(&*listener), Ready::empty());
    let client = tcp(&inet);
    assert_eq!(client.connect_to(&to, Patience::None), Err(Errno::EINPROGRESS));
    assert_eq!(events(&*listener), READABLE);
    assert_eq!(client.connect_to(&to, Patience::None), Ok(()));
    assert_eq!(client.connect_to(&to, Patience::None), Err(Errno::EISCONN));
    assert_eq!(listener.connect_to(&to, Patience::None), Err(Errno::EISCONN));
    assert!(listener.take_connection(Patience::None).is_ok());
    assert!(matches!(listener.take_connection(Patience::None), Err(Errno::EAGAIN)));
}

#[test]
fn a_refused_connect_is_told_once() {
    let inet = stack();
    let (gone, to) = listener(&inet);
    gone.closed();
    let client = tcp(&inet);
    assert_eq!(client.connect_to(&to, Patience::Wait), Err(Errno::ECONNREFUSED));
    assert_eq!(get(&client, 1), Err(Errno::ENOTCONN), "the socket is as new");
    assert_eq!(client.connect_to(&to, Patience::None), Err(Errno::EINPROGRESS));
    let all = WRITABLE | READABLE | Ready::READ_HANGUP | Ready::HANGUP;
    assert_eq!(events(&*client), all | Ready::ERROR);
    assert_eq!(client.take_error(), Some(Errno::ECONNREFUSED));
    assert_eq!(events(&*client), all);
    assert_eq!(client.connect_to(&to, Patience::None), Err(Errno::ECONNABORTED));
    assert_eq!(client.connect_to(&to, Patience::None), Err(Errno::EINPROGRESS));
    assert_eq!(get(&client, 1), Err(Errno::ECONNREFUSED));
    assert_eq!(get(&client, 1), Ok(vec![]));
}

#[test]
fn a_socket_connects_again_after_it_was_disconnected() {
    let inet = stack();
    let (listener, to) = listener(&inet);
    let client = tcp(&inet);
    for turn in 0..3u8 {
        client.connect_to(&to, Patience::Wait).unwrap();
        let child = listener.take_connection(Patience::None).unwrap();
        assert_eq!(put(&client, &[turn]), Ok(1));
        assert_eq!(get(&child, 9), Ok(vec![turn]));
        client.connect_to(&SocketAddress::of_parts(&[&[0, 0]]), Patience::Wait).unwrap();
        assert_eq!(get(&client, 1), Err(Errno::ENOTCONN));
        assert_eq!(get(&child, 9), Err(Errno::ECONNRESET));
        assert_eq!(get(&child, 9), Ok(vec![]));
    }
}

#[test]
fn a_listener_that_ends_resets_those_that_wait() {
    let inet = stack();
    let (listener, to) = listener(&inet);
    let client = tcp(&inet);
    client.connect_to(&to, Patience::Wait).unwrap();
    assert_eq!(listener.end_directions(Shut::SEND), Ok(()));
    assert!(listener.is_listening());
    assert_eq!(listener.end_directions(Shut::RECEIVE), Ok(()));
    assert!(!listener.is_listening());
    assert!(matches!(listener.take_connection(Patience::None), Err(Errno::EINVAL)));
    assert_eq!(get(&client, 1), Err(Errno::ECONNRESET));
    assert!(client.peer_name().is_err());
}

#[test]
fn a_writer_waits_for_room_and_a_reader_for_all() {
    let inet = stack();
    let (client, child) = pair(&inet);
    let data: Vec<u8> = (0..3_000_000u32).map(|at| (at / 7) as u8).collect();
    let sent = data.clone();
    let writer = thread::spawn(move || {
        let how = Send { is_nonblocking: false, ..SENT };
        let count = client.send_bytes(&mut SliceSource::new(&sent), how);
        client.closed();
        count
    });
    let how = Receive { is_nonblocking: false, is_whole: true, ..READ };
    let half = data.len() / 2;
    assert!(get_as(&child, half, how) == Ok(data[..half].to_vec()));
    let rest = get_as(&child, data.len(), how).unwrap();
    assert!(rest == data[half..], "{} of {}", rest.len(), data.len() - half);
    assert_eq!(writer.join().unwrap(), Ok(data.len()));
}

#[test]
fn without_waiting_a_full_stream_takes_no_more() {
    let inet = stack();
    let (client, child) = pair(&inet);
    let data = vec![1; 100_000];
    let mut sent = 0;
    let full = loop {
        match put(&client, &data) {
            Ok(count) => sent += count,
            Err(error) => break error,
        }
    };
    assert_eq!(full, Errno::EAGAIN);
    assert_eq!(events(&*client), Ready::empty());
    let mut got = 0;
    while let Ok(bytes) = get(&child, 50_000) {
        got += bytes.len();
    }
    assert!(got > 0 && got <= sent, "{got} of {sent}");
    assert!(events(&*client).contains(Ready::OUT) || client.unsent_bytes().unwrap() > 0);
}

#[test]
fn an_urgent_byte_stands_beside_the_stream() {
    let inet = stack();
    let (client, child) = pair(&inet);
    let urgently = Receive { is_urgent: true, ..READ };
    assert_eq!(get_as(&child, 1, urgently), Err(Errno::EINVAL));
    assert_eq!(put(&client, b"ab"), Ok(2));
    assert_eq!(client.send_bytes(&mut SliceSource::new(b"cX"), URGENT), Ok(2));
    assert_eq!(put(&client, b"de"), Ok(2));
    assert!(events(&*child).contains(Ready::PRIORITY));
    assert_eq!(child.readable_bytes(), Ok(3));
    assert!(!child.is_at_mark());
    assert_eq!(get(&child, 9), Ok(b"abc".to_vec()));
    assert!(child.is_at_mark());
    assert_eq!(get_as(&child, 1, urgently), Ok(b"X".to_vec()));
    assert_eq!(get_as(&child, 1, urgently), Err(Errno::EINVAL));
    assert_eq!(get(&child, 9), Ok(b"de".to_vec()));
    assert!(!child.is_at_mark());
}

#[test]
fn options_are_kept_and_inherited() {
    let inet = stack();
    let (listener, to) = listener(&inet);
    let set = |socket: &InternetStream, level, number, value: i32| {
        let bytes = value.to_le_bytes();
        let read = |offset: usize, out: &mut [u8]| {
            out.copy_from_slice(&bytes[offset..offset + out.len()]);
            Ok(())
        };
        let input = OptionInput::new(4, read)?;
        socket.set_internet_option(&Credentials::root(), (level, number), &input)
    };
    let told = |socket: &InternetStream, level, number| {
        let bytes = socket.internet_option((level, number), 4)?;
        Ok(i32::from_le_bytes(bytes.try_into().unwrap()))
    };
    let (ip, tcp_level) = (options::LEVEL_IP, options::LEVEL_TCP);
    for (level, number, value) in [
        (tcp_level, net::TCP_NODELAY, 1),
        (tcp_level, net::TCP_KEEPIDLE, 77),
        (tcp_level, net::TCP_KEEPCNT, 5),
        (tcp_level, net::TCP_USER_TIMEOUT, 3000),
        (ip, net::IP_TTL, 9),
        (ip, net::IP_TOS, 0x10),
    ] {
        assert_ne!(told(&listener, level, number), Ok(value), "{number}");
        assert_eq!(set(&listener, level, number, value), Ok(()));
    }
    for (level, number, bad) in [
        (tcp_level, net::TCP_KEEPIDLE, 0),
        (tcp_level, net::TCP_KEEPCNT, 128),
        (tcp_level, net::TCP_MAXSEG, 87),
        (ip, net::IP_TTL, 0),
        (ip, net::IP_MULTICAST_TTL, 1),
    ] {
        assert_eq!(set(&listener, level, number, bad), Err(Errno::EINVAL), "{number}");
    }
    assert_eq!(set(&listener, tcp_level, 99, 1), Err(Errno::ENOPROTOOPT));
    assert_eq!(set(&listener, options::LEVEL_UDP, 1, 1), Err(Errno::ENOPROTOOPT));
    assert_eq!(set(&listener, options::LEVEL_IP6, 26, 1), Err(Errno::ENOPROTOOPT));
    assert_eq!(told(&listener, options::LEVEL_IP6, 26), Err(Errno::EOPNOTSUPP));
    let client = tcp(&inet);
    client.connect_to(&to, Patience::Wait).unwrap();
    let child = listener.take_connection(Patience::None).unwrap();
    assert_eq!(told(&child, tcp_level, net::TCP_KEEPIDLE), Ok(77));
    assert_eq!(told(&child, ip, net::IP_TTL), Ok(9));
    let info = child.internet_option((tcp_level, net::TCP_INFO), 500).unwrap();
    assert_eq!((info.len(), info[0]), (232, 1));
    let waiting = listener.internet_option((tcp_level, net::TCP_INFO), 500).unwrap();
    assert_eq!((waiting[0], waiting[28]), (10, 8), "LISTEN, and the backlog");
}

#[test]
fn a_port_needs_its_privilege() {
    let inet = stack();
    let nobody = Credentials::user(1000, 1000, &[]);
    let socket = tcp(&inet);
    assert_eq!(socket.bind_to(&nobody, &given("127.0.0.1:80")), Err(Errno::EACCES));
    assert_eq!(socket.bind_to(&nobody, &given("127.0.0.1:0")), Ok(()));
    assert_eq!(socket.bind_to(&nobody, &given("127.0.0.1:0")), Err(Errno::EINVAL));
}

#[test]
fn many_connections_leave_nothing_behind() {
    let inet = stack();
    let (listener, to) = listener(&inet);
    for _ in 0..200 {
        let client = tcp(&inet);
        client.connect_to(&to, Patience::Wait).unwrap();
        let child = listener.take_connection(Patience::None).unwrap();
        assert_eq!(put(&client, b"request"), Ok(7));
        assert_eq!(get(&child, 99), Ok(b"request".to_vec()));
        child.closed();
        assert_eq!(get(&client, 9), Ok(vec![]));
        client.closed();
        let (weak, weaker) = (Arc::downgrade(&client), Arc::downgrade(&child));
        drop((client, child));
        assert_eq!((weak.strong_count(), weaker.strong_count()), (0, 0));
    }
}

#[test]
fn a_socket_of_ipv6_alone_leaves_the_port_to_ipv4() {
    let inet = stack();
    crate::socket::internet::set_network(inet.clone());
    for (is_only, bound) in [(0i32, Err(Errno::EADDRINUSE)), (1, Ok(()))] {
        let socket = InternetStream::open(&*inet, AddressFamily::V6, nobody()).unwrap();
        let value = is_only.to_le_bytes();
        let read = |offset: usize, out: &mut [u8]| {
            out.copy_from_slice(&value[offset..offset + out.len()]);
            Ok(())
        };
        let input = OptionInput::new(4, read).unwrap();
        let option = (options::LEVEL_IP6, net::IPV6_V6ONLY);
        assert_eq!(socket.set_internet_option(&Credentials::root(), option, &input), Ok(()));
        let all = address::encode(AddressFamily::V6, "[::]:0".parse().unwrap());
        socket.bind_to(&Credentials::root(), &all).unwrap();
        socket.listen_for(1).unwrap();
        let port = u16::from_be_bytes([socket.name().bytes()[2], socket.name().bytes()[3]]);
        let other = tcp(&inet);
        let at = given(&std::format!("0.0.0.0:{port}"));
        assert_eq!(other.bind_to(&Credentials::root(), &at), bound);
        let again = socket.set_internet_option(&Credentials::root(), option, &input);
        assert_eq!(again, Err(Errno::EINVAL), "it is bound");
    }
}
