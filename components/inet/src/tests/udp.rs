//! UDP: sockets on two hosts.
use super::link::{S, Station, exchange, ip};
use crate::*;
use packet::{
    icmp::{IcmpMessage, unreachable},
    ipv4::{Cutting, Ipv4},
    udp::UdpHeader,
};
use std::net::IpAddr;
use zerocopy::IntoBytes;

type Socket = UdpHandle<SharedBytes, Path>;

fn end(address: &str, port: u16) -> SocketEnd {
    SocketEnd { address: ip(address), port }
}

fn open(station: &mut Station, number: u64) -> Socket {
    station.stack.udp_open(number, Families::V4, 0)
}

fn bound(station: &mut Station, number: u64, address: &str, port: u16) -> Socket {
    let socket = open(station, number);
    station.run(|stack, run| stack.udp_bind(run, &socket, end(address, port))).unwrap();
    socket
}

fn connect(station: &mut Station, socket: &Socket, peer: SocketEnd) -> Result<(), SocketError> {
    station.run(|stack, run| stack.udp_connect(run, socket, Some(peer)))
}

fn send(
    station: &mut Station,
    socket: &Socket,
    to: Option<SocketEnd>,
    data: &[u8],
) -> Result<(), SocketError> {
    let payload = BufferChain::copy_of(data).unwrap();
    station.run(|stack, run| stack.udp_send(run, socket, to, payload))
}

fn receive(station: &Station, socket: &Socket) -> Option<(SocketEnd, Vec<u8>)> {
    let datagram = station.stack.udp_receive(socket).unwrap()?;
    Some((datagram.source, datagram.payload.to_vec()))
}

fn pair() -> (Station, Station) {
    (Station::new(1, &[("10.0.0.1", 24)]), Station::new(2, &[("10.0.0.2", 24)]))
}

#[test]
fn a_datagram_and_its_answer() {
    let (mut one, mut two) = pair();
    let server = bound(&mut two, 20, "0.0.0.0", 53);
    let client = open(&mut one, 10);
    send(&mut one, &client, Some(end("10.0.0.2", 53)), b"question").unwrap();
    exchange(&mut one, &mut two);
    assert_eq!(two.world.notified, [20]);
    let (from, data) = receive(&two, &server).unwrap();
    assert_eq!((from.address, data), (ip("10.0.0.1"), b"question".to_vec()));
    assert!((32_768..=60_999).contains(&from.port));
    send(&mut two, &server, Some(from), b"answer").unwrap();
    exchange(&mut one, &mut two);
    assert_eq!(receive(&one, &client), Some((end("10.0.0.2", 53), b"answer".to_vec())));
    assert_eq!(receive(&one, &client), None);
    assert_eq!(one.stack.drops.total() + two.stack.drops.total(), 0);
}

#[test]
fn a_connected_socket_hears_of_a_closed_port_once() {
    let (mut one, mut two) = pair();
    let client = open(&mut one, 10);
    connect(&mut one, &client, end("10.0.0.2", 53)).unwrap();
    send(&mut one, &client, None, b"anyone?").unwrap();
    exchange(&mut one, &mut two);
    assert_eq!(one.world.notified, [10]);
    assert_eq!(one.stack.udp_receive(&client).unwrap_err(), SocketError::Refused);
    assert!(one.stack.udp_receive(&client).unwrap().is_none());
    let other = open(&mut one, 11);
    send(&mut one, &other, Some(end("10.0.0.2", 53)), b"anyone?").unwrap();
    exchange(&mut one, &mut two);
    assert!(one.stack.udp_receive(&other).unwrap().is_none(), "it is not connected");
}

#[test]
fn the_error_queue_has_the_payload_and_the_offender() {
    let (mut one, mut two) = pair();
    let client = open(&mut one, 10);
    one.stack.udp_configure(&client, |options| options.queues_errors = true);
    send(&mut one, &client, Some(end("10.0.0.2", 99)), b"trace").unwrap();
    exchange(&mut one, &mut two);
    let error = one.stack.udp_take_error(&client).unwrap();
    assert_eq!(error.error.error, SocketError::Refused);
    assert_eq!((error.error.kind, error.error.code), (3, unreachable::PORT));
    assert_eq!(error.error.offender, ip("10.0.0.2"));
    assert_eq!(
        (error.destination, error.payload.to_vec()),
        (end("10.0.0.2", 99), b"trace".to_vec())
    );
    assert!(one.stack.udp_take_error(&client).is_none());
}

#[test]
fn a_socket_of_this_host_refuses_over_loopback() {
    let mut one = Station::new(1, &[]);
    let client = open(&mut one, 10);
    connect(&mut one, &client, end("127.0.0.1", 53)).unwrap();
    send(&mut one, &client, None, b"x").unwrap();
    assert_eq!(send(&mut one, &client, None, b"x"), Err(SocketError::Refused));
    let server = bound(&mut one, 11, "127.0.0.1", 53);
    send(&mut one, &client, None, b"y").unwrap();
    assert_eq!(receive(&one, &server).unwrap().1, b"y");
}

#[test]
fn a_connected_socket_hears_its_peer_alone() {
    let mut one = Station::new(1, &[]);
    let client = bound(&mut one, 10, "127.0.0.1", 1000);
    connect(&mut one, &client, end("127.0.0.1", 2000)).unwrap();
    let (peer, stranger) = (bound(&mut one, 11, "127.0.0.1", 2000), open(&mut one, 12));
    send(&mut one, &stranger, Some(end("127.0.0.1", 1000)), b"no").unwrap();
    send(&mut one, &peer, Some(end("127.0.0.1", 1000)), b"yes").unwrap();
    assert_eq!(receive(&one, &client).unwrap().1, b"yes");
    assert_eq!(receive(&one, &client), None);
    one.run(|stack, run| stack.udp_connect(run, &client, None)).unwrap();
    send(&mut one, &stranger, Some(end("127.0.0.1", 1000)), b"now").unwrap();
    assert_eq!(receive(&one, &client).unwrap().1, b"now");
}

#[test]
fn binding_refuses_what_linux_refuses() {
    let mut one = Station::new(1, &[("10.0.0.1", 24)]);
    let first = bound(&mut one, 10, "10.0.0.1", 53);
    let bind = |one: &mut Station, address: &str, port| {
        let socket = one.stack.udp_open(11, Families::V4, 0);
        one.run(|stack, run| stack.udp_bind(run, &socket, end(address, port)))
    };
    assert_eq!(bind(&mut one, "0.0.0.0", 53), Err(SocketError::InUse));
    assert_eq!(bind(&mut one, "10.0.0.9", 54), Err(SocketError::NoAddress));
    assert_eq!(bind(&mut one, "10.0.0.255", 54), Err(SocketError::NoAddress));
    assert_eq!(bind(&mut one, "fd00::1", 54), Err(SocketError::Family));
    assert_eq!(bind(&mut one, "224.1.1.1", 54), Ok(()));
    let again = one.run(|stack, run| stack.udp_bind(run, &first, end("10.0.0.1", 55)));
    assert_eq!(again, Err(SocketError::Invalid));
    one.stack.udp_close(&first);
    assert_eq!(bind(&mut one, "0.0.0.0", 53), Ok(()));
}

#[test]
fn a_broadcast_needs_permission_and_reaches_all_sockets() {
    let (mut one, mut two) = pair();
    let sender = open(&mut one, 10);
    let all = Some(end("10.0.0.255", 53));
    assert_eq!(send(&mut one, &sender, all, b"x"), Err(SocketError::Forbidden));
    one.stack.udp_configure(&sender, |options| options.may_broadcast = true);
    let listeners = [0, 1].map(|number| {
        let socket = open(&mut two, number);
        two.stack.udp_configure(&socket, |options| options.shares_address = true);
        two.run(|stack, run| stack.udp_bind(run, &socket, end("0.0.0.0", 53))).unwrap();
        socket
    });
    send(&mut one, &sender, all, b"x").unwrap();
    assert_eq!(exchange(&mut one, &mut two), 1);
    for socket in &listeners {
        assert_eq!(receive(&two, socket).unwrap().1, b"x");
    }
}

#[test]
fn a_full_queue_drops() {
    let mut one = Station::new(1, &[]);
    let server = bound(&mut one, 10, "127.0.0.1", 53);
    one.stack.udp_configure(&server, |options| options.receive_max = 3000);
    let client = open(&mut one, 11);
    for _ in 0..5 {
        send(&mut one, &client, Some(end("127.0.0.1", 53)), &[0; 1000]).unwrap();
    }
    assert_eq!(server.state.lock().counts(), (2, 3));
    assert_eq!(one.stack.drops.get(DropReason::QueueFull), 3);
    receive(&one, &server).unwrap();
    send(&mut one, &client, Some(end("127.0.0.1", 53)), &[0; 1000]).unwrap();
    assert_eq!(server.state.lock().counts(), (2, 3));
}

#[test]
fn a_wrong_checksum_is_dropped_and_none_is_taken() {
    let (mut one, mut two) = pair();
    let server = bound(&mut two, 20, "0.0.0.0", 53);
    let client = open(&mut one, 10);
    send(&mut one, &client, Some(end("10.0.0.2", 53)), b"data").unwrap();
    exchange(&mut one, &mut two);
    receive(&two, &server).unwrap();
    send(&mut one, &client, Some(end("10.0.0.2", 53)), b"data").unwrap();
    let mut frame = one.sent().remove(0);
    frame[43] ^= 1;
    two.receive(&frame);
    assert_eq!(two.stack.drops.get(DropReason::Checksum), 1);
    frame[40..42].fill(0);
    two.receive(&frame);
    assert_eq!(receive(&two, &server).unwrap().1.len(), 4);
}

#[test]
fn the_path_mtu_is_learnt_from_an_error_about_an_own_packet() {
    let (mut one, mut two) = pair();
    let server = bound(&mut two, 20, "0.0.0.0", 53);
    let client = open(&mut one, 10);
    one.stack.udp_configure(&client, |options| options.discovery = Discovery::Required);
    connect(&mut one, &client, end("10.0.0.2", 53)).unwrap();
    send(&mut one, &client, None, &[1; 1000]).unwrap();
    exchange(&mut one, &mut two);
    receive(&two, &server).unwrap();
    send(&mut one, &client, None, &[1; 1400]).unwrap();
    let frame = one.sent().remove(0);
    let quoted = &frame[14..14 + 28];
    assert_eq!(Ipv4::parse_quoted(quoted).unwrap().header.cutting(), Cutting::Forbidden);
    let tell = |one: &mut Station, two: &mut Station, quoted: &[u8]| {
        let message = IcmpMessage::Unreachable { code: unreachable::TOO_BIG, mtu: 1000 };
        let data = BufferChain::copy_of(quoted).unwrap();
        let mut packet = Departure::new(message.header().as_bytes(), data).unwrap();
        let checksum = packet.sum().checksum();
        packet.patch(2, checksum);
        let request = SendRequest::new(ip("10.0.0.1"), 1);
        two.run(|stack, run| stack.send(run, &request, packet)).unwrap();
        exchange(one, two);
    };
    let mut forged = quoted.to_vec();
    forged[21] ^= 1;
    tell(&mut one, &mut two, &forged);
    assert_eq!(send(&mut one, &client, None, &[1; 1400]), Ok(()), "no socket sent this");
    exchange(&mut one, &mut two);
    tell(&mut one, &mut two, quoted);
    assert_eq!(send(&mut one, &client, None, &[1; 1400]), Err(SocketError::MessageSize));
    assert_eq!(send(&mut one, &client, None, &[1; 972]), Ok(()));
    one.now_ns += 601 * S;
    one.stack.udp_configure(&client, |_| {});
    assert_eq!(send(&mut one, &client, None, &[1; 1400]), Ok(()), "the MTU is forgotten");
}

#[test]
fn a_connected_socket_notices_that_its_route_changed() {
    let (mut one, _) = pair();
    let client = open(&mut one, 10);
    connect(&mut one, &client, end("10.0.0.2", 53)).unwrap();
    send(&mut one, &client, None, b"x").unwrap();
    one.stack
        .configure(|all| {
            all.routes.retain(|table, _| table == TableId::LOCAL);
            Ok::<(), ()>(())
        })
        .unwrap();
    assert_eq!(send(&mut one, &client, None, b"x"), Err(SocketError::NetworkUnreachable));
}

#[test]
fn a_datagram_without_a_destination_or_too_long_is_refused() {
    let mut one = Station::new(1, &[("10.0.0.1", 24)]);
    let client = open(&mut one, 10);
    assert_eq!(send(&mut one, &client, None, b"x"), Err(SocketError::NoDestination));
    let to = Some(end("127.0.0.1", 53));
    assert_eq!(send(&mut one, &client, to, &[0; 65_528]), Err(SocketError::MessageSize));
    assert_eq!(send(&mut one, &client, Some(end("127.0.0.1", 0)), b""), Err(SocketError::Invalid));
    let header = UdpHeader::new(1, 2, 65_527).unwrap();
    assert_eq!(header.length(), 65_535);
}

#[test]
fn an_error_about_another_protocol_goes_to_who_knows_it() {
    let (mut one, mut two) = pair();
    let send = |one: &mut Station, two: &mut Station| {
        let packet = Departure::new(&[0; 8], BufferChain::default()).unwrap();
        let request = SendRequest::new(ip("10.0.0.2"), 200);
        one.run(|stack, run| stack.send(run, &request, packet)).unwrap();
        exchange(one, two);
    };
    send(&mut one, &mut two);
    assert_eq!(one.world.errors, [(200, ip("10.0.0.2"), SocketError::NoProtocol)]);
}

/// A world in which nobody listens.
struct Nowhere;

impl Surroundings<SharedBytes> for Nowhere {
    fn transmit(&mut self, _: InterfaceIndex, _: Departure<SharedBytes>) {}
    fn notify(&mut self, _: u64) {}
}

#[test]
fn threads_share_a_stack_whose_configuration_changes() {
    const ROUNDS: u32 = 2000;
    let stack = Stack::<SharedBytes>::new([1; 16]);
    let talk = |port: u16| {
        let mut worker = stack.worker();
        let server = stack.udp_open(1, Families::V4, 0);
        let client = stack.udp_open(2, Families::V4, 0);
        let end = end("127.0.0.1", port);
        let bound = |run: &mut StackRun<'_, SharedBytes>| {
            stack.udp_bind(run, &server, end)?;
            stack.udp_connect(run, &client, Some(end))
        };
        stack.run(&mut worker, &mut Nowhere, S, bound).unwrap();
        for round in 0..ROUNDS {
            let payload = BufferChain::copy_of(&round.to_be_bytes()).unwrap();
            let send =
                |run: &mut StackRun<'_, SharedBytes>| stack.udp_send(run, &client, None, payload);
            stack.run(&mut worker, &mut Nowhere, S, send).unwrap();
            let got = stack.udp_receive(&server).unwrap().unwrap();
            assert_eq!(got.payload.to_vec(), round.to_be_bytes());
        }
    };
    std::thread::scope(|scope| {
        for port in 1..4 {
            let talk = &talk;
            scope.spawn(move || talk(port));
        }
        for number in 0..500u32 {
            let host = Prefix::host(IpAddr::V4(number.into()));
            let route = Route::on_link(host, InterfaceIndex::LOOPBACK);
            stack.configure(|all| all.routes.add(TableId::MAIN, route)).unwrap();
        }
    });
    assert_eq!(stack.drops.total(), 0);
}
