//! Tests of datagram sockets without programs, over the loopback interface of the real stack.
use super::*;
use crate::socket::{
    interface::{Outgoing, Receive, Received, Send, Socket, SocketAddress},
    internet::{
        options::LEVEL_IP,
        test_support::{READ, SENT, given, nobody, stack},
    },
    option_input::OptionInput,
};
use inet::Inet;
use linux_raw_sys::net;
use std::{vec, vec::Vec};
use vfs::{
    Credentials, NOBODY,
    file::{File, Ready},
    io::{SliceSink, SliceSource},
};

const MORE: Send = Send { is_more: true, ..SENT };

fn udp(inet: &Inet) -> Arc<InternetDatagram> {
    let kind = (AddressFamily::V4, SocketKind::Datagram);
    let socket = InternetDatagram::open(inet, kind, DatagramProtocol::Udp, nobody()).unwrap();
    socket.bind_to(&Credentials::root(), &given("127.0.0.1:0")).unwrap();
    socket
}

/// Makes two sockets that are connected to each other.
fn pair(inet: &Inet) -> (Arc<InternetDatagram>, Arc<InternetDatagram>) {
    let (one, other) = (udp(inet), udp(inet));
    one.connect_to(&other.name()).unwrap();
    other.connect_to(&one.name()).unwrap();
    (one, other)
}

fn put(socket: &InternetDatagram, data: &[u8], how: Send) -> Result<usize, Errno> {
    socket.send_datagram(&mut SliceSource::new(data), &Outgoing::default(), how)
}

fn next(
    socket: &InternetDatagram,
    most: usize,
    how: Receive,
) -> Result<(Vec<u8>, Received, SocketAddress), Errno> {
    let (mut bytes, mut sender) = (vec![0; most], SocketAddress::NONE);
    let found = socket.receive_datagram(&mut SliceSink::new(&mut bytes), how, Some(&mut sender))?;
    bytes.truncate(found.count);
    Ok((bytes, found, sender))
}

fn get(socket: &InternetDatagram, most: usize) -> Result<Vec<u8>, Errno> {
    next(socket, most, READ).map(|(bytes, ..)| bytes)
}

fn set(socket: &InternetDatagram, number: u32, value: i32) -> Result<(), Errno> {
    let bytes = value.to_le_bytes();
    let read = |offset: usize, out: &mut [u8]| {
        out.copy_from_slice(&bytes[offset..offset + out.len()]);
        Ok(())
    };
    let input = OptionInput::new(4, read)?;
    socket.set_internet_option(&Credentials::root(), (LEVEL_IP, number), &input)
}

#[test]
fn datagrams_keep_their_ends() {
    let inet = stack();
    let (one, other) = pair(&inet);
    for length in [0, 1, 2048, 2049, 65_507] {
        let data: Vec<u8> = (0..length).map(|at| (at / 3) as u8).collect();
        assert_eq!(put(&one, &data, SENT), Ok(length));
        assert_eq!(other.readable_bytes(), Ok(length));
        let (bytes, found, sender) = next(&other, 70_000, READ).unwrap();
        assert!(bytes == data, "{length}");
        assert_eq!((found.length, sender.bytes()), (length, one.name().bytes()));
    }
    assert_eq!(put(&one, &vec![0; 65_508], SENT), Err(Errno::EMSGSIZE));
    assert_eq!(get(&other, 1), Err(Errno::EAGAIN));
}

#[test]
fn a_peek_leaves_the_datagram_and_a_short_read_cuts_it() {
    let inet = stack();
    let (one, other) = pair(&inet);
    put(&one, b"first", SENT).unwrap();
    put(&one, b"second", SENT).unwrap();
    let readable = Ready::IN | Ready::READ_NORMAL;
    assert!(other.poll(None, NOBODY).contains(readable));
    let peek = Receive { is_peek: true, ..READ };
    assert_eq!(next(&other, 9, peek).unwrap().0, b"first");
    let (bytes, found, _) = next(&other, 3, READ).unwrap();
    assert_eq!((&bytes[..], found.count, found.length), (&b"fir"[..], 3, 5));
    assert_eq!(get(&other, 9), Ok(b"second".to_vec()));
    assert_eq!(other.poll(None, NOBODY), Ready::OUT | Ready::WRITE_NORMAL);
}

#[test]
fn the_header_is_told_where_it_is_asked_for() {
    let inet = stack();
    let (one, other) = pair(&inet);
    for option in [net::IP_PKTINFO, net::IP_RECVTTL, net::IP_RECVTOS] {
        set(&other, option, 1).unwrap();
    }
    set(&one, net::IP_TTL, 9).unwrap();
    set(&one, net::IP_TOS, 0x10).unwrap();
    put(&one, b"x", SENT).unwrap();
    let control = next(&other, 9, READ).unwrap().1.control;
    let told: Vec<_> = control.iter().map(|item| (item.kind as u32, item.data())).collect();
    let info = [1, 0, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1];
    assert_eq!(
        told,
        [(net::IP_PKTINFO, &info[..]), (net::IP_TTL, &[9, 0, 0, 0]), (net::IP_TOS, &[0x10])]
    );
}

#[test]
fn parts_are_kept_until_the_last() {
    let inet = stack();
    let (one, other) = pair(&inet);
    assert_eq!(put(&one, b"with ", MORE), Ok(5));
    assert_eq!(get(&other, 9), Err(Errno::EAGAIN));
    assert_eq!(put(&one, b"more", SENT), Ok(4));
    assert_eq!(get(&other, 20), Ok(b"with more".to_vec()));
}

#[test]
fn nobody_at_the_port_is_told_once() {
    let inet = stack();
    let (one, other) = pair(&inet);
    other.closed();
    assert_eq!(put(&one, b"x", SENT), Ok(1));
    assert!(one.poll(None, NOBODY).contains(Ready::ERROR));
    assert_eq!(put(&one, b"x", SENT), Err(Errno::ECONNREFUSED));
    set(&one, net::IP_RECVERR, 1).unwrap();
    assert_eq!(put(&one, b"lost", SENT), Ok(4));
    let errors = Receive { is_error_queue: true, ..READ };
    let (bytes, found, to) = next(&one, 99, errors).unwrap();
    assert_eq!((&bytes[..], found.flags), (&b"lost"[..], net::MSG_ERRQUEUE));
    assert_eq!(to.bytes(), one.peer_name().unwrap().bytes());
    // ECONNREFUSED of ICMP, type 3 and code 3, then the address of the host that told it.
    let data = found.control[0].data();
    assert_eq!(data[..8], [111, 0, 0, 0, 2, 3, 3, 0]);
    assert_eq!((data.len(), &data[20..24]), (32, &[127, 0, 0, 1][..]));
    assert!(matches!(next(&one, 9, errors), Err(Errno::EAGAIN)));
}

#[test]
fn a_destination_is_needed_and_checked() {
    let inet = stack();
    let socket = udp(&inet);
    assert_eq!(put(&socket, b"x", SENT), Err(Errno::EDESTADDRREQ));
    assert!(matches!(socket.peer_name(), Err(Errno::ENOTCONN)));
    let send = |to: &SocketAddress| {
        let message = Outgoing { to: Some(to), ..Outgoing::default() };
        socket.send_datagram(&mut SliceSource::new(b"x"), &message, SENT)
    };
    assert_eq!(send(&given("127.0.0.1:0")), Err(Errno::EINVAL));
    assert_eq!(send(&SocketAddress::of_parts(&[&[2, 0, 0, 9]])), Err(Errno::EINVAL));
    assert_eq!(send(&socket.name()), Ok(1));
    assert_eq!(get(&socket, 9), Ok(b"x".to_vec()));
}
