//! Tests of the options of streams that change what calls do, over the loopback interface of the real stack.
use super::{
    tests::{events, get, listener, pair, put, tcp},
    *,
};
use crate::socket::{
    interface::{Patience, Receive, Received, Send, Socket, SocketAddress},
    internet::{
        options::{LEVEL_IP, LEVEL_TCP},
        test_support::{READ, SENT, stack},
    },
    option_input::OptionInput,
};
use interfaces::sockets::{Network, NetworkParameter};
use linux_raw_sys::net;
use std::vec;
use vfs::{
    Credentials,
    file::Ready,
    io::{SliceSink, SliceSource},
};

const AT_ONCE: Send = Send { is_fast_open: true, ..SENT };

fn set(socket: &InternetStream, level: u32, number: u32, value: i32) -> Result<(), Errno> {
    let bytes = value.to_le_bytes();
    let read = |offset: usize, out: &mut [u8]| {
        out.copy_from_slice(&bytes[offset..offset + out.len()]);
        Ok(())
    };
    let input = OptionInput::new(4, read)?;
    socket.set_internet_option(&Credentials::root(), (level, number), &input)
}

fn receive(socket: &InternetStream, most: usize) -> Received {
    let mut bytes = vec![0; most];
    socket.receive_bytes(&mut SliceSink::new(&mut bytes), READ).unwrap()
}

#[test]
fn unsent_bytes_take_the_socket_s_room() {
    let inet = stack();
    let (client, child) = pair(&inet);
    set(&client, LEVEL_TCP, net::TCP_NOTSENT_LOWAT, 1000).unwrap();
    set(&client, LEVEL_TCP, net::TCP_CORK, 1).unwrap();
    assert_eq!(put(&client, &[1; 400]), Ok(400));
    assert!(events(&*client).contains(Ready::OUT), "less than a half");
    assert_eq!(put(&client, &[1; 600]), Ok(600));
    assert!(!events(&*client).contains(Ready::OUT));
    assert_eq!(put(&client, &[1; 10]), Err(Errno::EAGAIN));
    set(&client, LEVEL_TCP, net::TCP_CORK, 0).unwrap();
    assert!(events(&*client).contains(Ready::OUT));
    assert_eq!(get(&child, 9999).map(|bytes| bytes.len()), Ok(1000));
}

#[test]
fn the_bytes_left_are_told() {
    let inet = stack();
    let (client, child) = pair(&inet);
    put(&client, &[1; 100]).unwrap();
    assert!(receive(&child, 10).control.is_empty());
    set(&child, LEVEL_TCP, net::TCP_INQ, 1).unwrap();
    assert_eq!(receive(&child, 10).control[0].data(), 80u32.to_le_bytes());
    assert_eq!(receive(&child, 80).control[0].data(), 0u32.to_le_bytes());
    client.end_directions(Shut::SEND).unwrap();
    assert_eq!(receive(&child, 80).control[0].data(), 1u32.to_le_bytes(), "the end");
}

#[test]
fn a_send_without_a_copy_is_told() {
    let inet = stack();
    let (client, _child) = pair(&inet);
    let how = Send { is_zero_copy: true, ..SENT };
    let send = || client.send_bytes(&mut SliceSource::new(b"bytes"), how);
    assert_eq!((send(), client.notices.has_any()), (Ok(5), false), "it is off");
    client.common.options.keep(net::SO_ZEROCOPY, 1);
    assert_eq!((send(), events(&*client).contains(Ready::ERROR)), (Ok(5), true));
    let errors = Receive { is_error_queue: true, ..READ };
    let told = client.receive(&mut SliceSink::new(&mut []), errors, None).unwrap();
    assert_eq!((told.flags, told.control.len()), (net::MSG_ERRQUEUE, 1));
    let again = client.receive(&mut SliceSink::new(&mut []), errors, None);
    assert_eq!(again.err(), Some(Errno::EAGAIN));
}

#[test]
fn the_syn_of_a_child_is_kept_and_told_once() {
    let inet = stack();
    let (listener, to) = listener(&inet);
    set(&listener, LEVEL_TCP, net::TCP_SAVE_SYN, 1).unwrap();
    let client = tcp(&inet);
    client.connect_to(&to, Patience::Wait).unwrap();
    let child = listener.take_connection(Patience::None).unwrap();
    let saved = |room| child.internet_option((LEVEL_TCP, net::TCP_SAVED_SYN), room);
    assert_eq!(saved(20), Err(Errno::EINVAL));
    let syn = saved(200).unwrap();
    assert_eq!((syn[0], syn[9], syn[33], syn.len()), (0x45, 6, 2, 60));
    assert_eq!(syn[20..22], client.name().bytes()[2..4]);
    assert_eq!(saved(200), Ok(vec![]));
}

#[test]
fn segments_from_afar_are_dropped() {
    let inet = stack();
    let (listener, to) = listener(&inet);
    set(&listener, LEVEL_IP, net::IP_MINTTL, 100).unwrap();
    let far = tcp(&inet);
    set(&far, LEVEL_IP, net::IP_TTL, 99).unwrap();
    assert_eq!(far.connect_to(&to, Patience::None), Err(Errno::EINPROGRESS));
    assert!(listener.take_connection(Patience::None).is_err());
    let near = tcp(&inet);
    set(&near, LEVEL_IP, net::IP_TTL, 100).unwrap();
    assert_eq!(near.connect_to(&to, Patience::Wait), Ok(()));
    let child = listener.take_connection(Patience::None).unwrap();
    put(&near, b"a").unwrap();
    set(&near, LEVEL_IP, net::IP_TTL, 99).unwrap();
    put(&near, b"b").unwrap();
    assert_eq!(get(&child, 9), Ok(b"a".to_vec()), "the child has its listener's");
}

#[test]
fn data_goes_with_the_second_connect() {
    let inet = stack();
    inet.administration().set_parameter(NetworkParameter::TcpFastopen, &[3]).unwrap();
    let (listener, to) = listener(&inet);
    set(&listener, LEVEL_TCP, net::TCP_FASTOPEN, 5).unwrap();
    let open = |client: &InternetStream, to: Option<&SocketAddress>| {
        let mut source = SliceSource::new(b"first");
        let sent = client.send_opening(&mut source, to, AT_ONCE)?;
        client.send_rest(&mut source, SENT, sent)
    };
    let client = tcp(&inet);
    assert_eq!(open(&client, None), Err(Errno::EINVAL));
    assert_eq!(open(&client, Some(&to)), Err(Errno::EINPROGRESS), "there is no cookie");
    assert_eq!(client.connect_to(&to, Patience::None), Ok(()));
    assert_eq!(open(&client, Some(&to)), Err(Errno::EISCONN));
    let child = listener.take_connection(Patience::None).unwrap();
    assert_eq!(get(&child, 9), Err(Errno::EAGAIN));
    let client = tcp(&inet);
    assert_eq!(open(&client, Some(&to)), Ok(5));
    let child = listener.take_connection(Patience::None).unwrap();
    assert_eq!(get(&child, 9), Ok(b"first".to_vec()));
    let info = child.internet_option((LEVEL_TCP, net::TCP_INFO), 500).unwrap();
    assert_eq!(u32::from_le_bytes(info[152..156].try_into().unwrap()), 1, "data segments");
    let info = client.internet_option((LEVEL_TCP, net::TCP_INFO), 500).unwrap();
    assert_ne!(info[5] & 32, 0, "TCPI_OPT_SYN_DATA");
}

#[test]
fn a_connect_can_be_put_off_until_the_first_bytes() {
    let inet = stack();
    inet.administration().set_parameter(NetworkParameter::TcpFastopen, &[3]).unwrap();
    let (listener, to) = listener(&inet);
    set(&listener, LEVEL_TCP, net::TCP_FASTOPEN, 5).unwrap();
    let first = tcp(&inet);
    assert_eq!(
        first.send_opening(&mut SliceSource::new(b""), Some(&to), AT_ONCE),
        Err(Errno::EINPROGRESS)
    );
    listener.take_connection(Patience::None).unwrap();
    let client = tcp(&inet);
    set(&client, LEVEL_TCP, net::TCP_FASTOPEN_CONNECT, 1).unwrap();
    assert_eq!(client.connect_to(&to, Patience::Wait), Ok(()));
    assert!(listener.take_connection(Patience::None).is_err(), "nothing was sent");
    assert!(events(&*client).contains(Ready::OUT));
    assert_eq!(client.connect_to(&to, Patience::Wait), Err(Errno::EISCONN));
    assert_eq!(put(&client, b"hello"), Ok(5));
    let child = listener.take_connection(Patience::None).unwrap();
    assert_eq!(get(&child, 9), Ok(b"hello".to_vec()));
    assert_eq!(put(&child, b"back"), Ok(4));
    assert_eq!(get(&client, 9), Ok(b"back".to_vec()));
}
