//! UDP: sockets on two hosts.
use super::{
    link::{CARD, S, Station, exchange, ip},
    sockets::{Socket, bytes, datagram, end},
};
use crate::*;
use interfaces::sockets::{DatagramProtocol, PathDiscovery, SocketFamilies};
use packet::{
    icmp::{IcmpMessage, unreachable},
    ipv4::{Cutting, Ipv4},
    udp::UdpHeader,
};
use std::net::IpAddr;
use zerocopy::IntoBytes;

fn open(station: &Station) -> Socket {
    Socket::udp(station, SocketFamilies::V4)
}

fn bound(station: &mut Station, address: &str, port: u16) -> Socket {
    let socket = open(station);
    socket.bind(station, end(address, port)).unwrap();
    socket
}

fn pair() -> (Station, Station) {
    (Station::new(1, &[("10.0.0.1", 24)]), Station::new(2, &[("10.0.0.2", 24)]))
}

#[test]
fn a_datagram_and_its_answer() {
    let (mut one, mut two) = pair();
    let server = bound(&mut two, "0.0.0.0", 53);
    let client = open(&one);
    client.send(&mut one, Some(end("10.0.0.2", 53)), b"question").unwrap();
    exchange(&mut one, &mut two);
    assert_eq!(server.told.counts(), [1, 0]);
    let (from, data) = server.receive().unwrap();
    assert_eq!((from.ip(), data), (ip("10.0.0.1"), b"question".to_vec()));
    assert!((32_768..=60_999).contains(&from.port()));
    server.send(&mut two, Some(from), b"answer").unwrap();
    exchange(&mut one, &mut two);
    assert_eq!(client.receive(), Some((end("10.0.0.2", 53), b"answer".to_vec())));
    assert_eq!(client.receive(), None);
    assert_eq!(one.stack.drops.total() + two.stack.drops.total(), 0);
}

#[test]
fn a_connected_socket_hears_of_a_closed_port_once() {
    let (mut one, mut two) = pair();
    let client = open(&one);
    client.connect(&mut one, Some(end("10.0.0.2", 53))).unwrap();
    client.send(&mut one, None, b"anyone?").unwrap();
    exchange(&mut one, &mut two);
    assert_eq!(client.told.counts(), [0, 1]);
    assert_eq!(client.error().unwrap(), SocketError::Refused);
    assert!(client.take().is_none());
    let other = open(&one);
    other.send(&mut one, Some(end("10.0.0.2", 53)), b"anyone?").unwrap();
    exchange(&mut one, &mut two);
    assert!(other.take().is_none(), "it is not connected");
}

#[test]
fn the_error_queue_has_the_payload_and_the_offender() {
    let (mut one, mut two) = pair();
    let client = open(&one);
    client.configure(&one, |options| options.queues_errors = true);
    client.send(&mut one, Some(end("10.0.0.2", 99)), b"trace").unwrap();
    exchange(&mut one, &mut two);
    let error = client.report().unwrap();
    assert_eq!((error.error, error.message), (SocketError::Refused, (3, unreachable::PORT)));
    let carrier = error.carrier.unwrap();
    assert_eq!((carrier.offender, carrier.interface), (ip("10.0.0.2"), CARD.0));
    assert_eq!((carrier.receiver, carrier.hop_limit), (ip("10.0.0.1"), 64));
    let about = (error.destination, bytes(&error.payload));
    assert_eq!(about, (end("10.0.0.2", 99), b"trace".to_vec()));
    assert!(client.report().is_none());
}

#[test]
fn a_socket_of_this_host_refuses_over_loopback() {
    let mut one = Station::new(1, &[]);
    let client = open(&one);
    client.connect(&mut one, Some(end("127.0.0.1", 53))).unwrap();
    client.send(&mut one, None, b"x").unwrap();
    assert_eq!(client.send(&mut one, None, b"x"), Err(SocketError::Refused));
    let server = bound(&mut one, "127.0.0.1", 53);
    client.send(&mut one, None, b"y").unwrap();
    assert_eq!(server.receive().unwrap().1, b"y");
}

#[test]
fn a_connected_socket_hears_its_peer_alone() {
    let mut one = Station::new(1, &[]);
    let client = bound(&mut one, "127.0.0.1", 1000);
    client.connect(&mut one, Some(end("127.0.0.1", 2000))).unwrap();
    let (peer, stranger) = (bound(&mut one, "127.0.0.1", 2000), open(&one));
    stranger.send(&mut one, Some(end("127.0.0.1", 1000)), b"no").unwrap();
    peer.send(&mut one, Some(end("127.0.0.1", 1000)), b"yes").unwrap();
    assert_eq!(client.receive().unwrap().1, b"yes");
    assert_eq!(client.receive(), None);
    client.connect(&mut one, None).unwrap();
    stranger.send(&mut one, Some(end("127.0.0.1", 1000)), b"now").unwrap();
    assert_eq!(client.receive().unwrap().1, b"now");
}

#[test]
fn binding_refuses_what_linux_refuses() {
    let mut one = Station::new(1, &[("10.0.0.1", 24)]);
    let first = bound(&mut one, "10.0.0.1", 53);
    let bind = |one: &mut Station, address: &str, port| {
        let socket = open(one);
        socket.bind(one, end(address, port))
    };
    assert_eq!(bind(&mut one, "0.0.0.0", 53), Err(SocketError::InUse));
    assert_eq!(bind(&mut one, "10.0.0.9", 54), Err(SocketError::NoAddress));
    assert_eq!(bind(&mut one, "10.0.0.255", 54), Ok(()));
    assert_eq!(bind(&mut one, "fd00::1", 54), Err(SocketError::Family));
    assert_eq!(bind(&mut one, "224.1.1.1", 54), Ok(()));
    let again = first.bind(&mut one, end("10.0.0.1", 55));
    assert_eq!(again, Err(SocketError::Invalid));
    first.close(&mut one);
    assert_eq!(bind(&mut one, "0.0.0.0", 53), Ok(()));
}

#[test]
fn a_broadcast_needs_permission_and_reaches_all_sockets() {
    let (mut one, mut two) = pair();
    let sender = open(&one);
    let all = Some(end("10.0.0.255", 53));
    assert_eq!(sender.send(&mut one, all, b"x"), Err(SocketError::Forbidden));
    sender.configure(&one, |options| options.may_broadcast = true);
    let listeners = [0, 1].map(|_| {
        let socket = open(&two);
        socket.configure(&two, |options| options.reuses_address = true);
        socket.bind(&mut two, end("0.0.0.0", 53)).unwrap();
        socket
    });
    sender.send(&mut one, all, b"x").unwrap();
    assert_eq!(exchange(&mut one, &mut two), 1);
    for socket in &listeners {
        assert_eq!(socket.receive().unwrap().1, b"x");
    }
}

#[test]
fn a_full_queue_drops() {
    let mut one = Station::new(1, &[]);
    let server = bound(&mut one, "127.0.0.1", 53);
    server.queue.set_limit(2000);
    let client = open(&one);
    for _ in 0..5 {
        client.send(&mut one, Some(end("127.0.0.1", 53)), &[0; 1000]).unwrap();
    }
    assert_eq!(server.queue.usage(), (2 * 1256, 3));
    assert_eq!(one.stack.drops.get(DropReason::QueueFull), 3);
    server.receive().unwrap();
    client.send(&mut one, Some(end("127.0.0.1", 53)), &[0; 1000]).unwrap();
    assert_eq!(server.queue.usage(), (2 * 1256, 3));
}

#[test]
fn a_wrong_checksum_is_dropped_and_none_is_taken() {
    let (mut one, mut two) = pair();
    let server = bound(&mut two, "0.0.0.0", 53);
    let client = open(&one);
    client.send(&mut one, Some(end("10.0.0.2", 53)), b"data").unwrap();
    exchange(&mut one, &mut two);
    server.receive().unwrap();
    client.send(&mut one, Some(end("10.0.0.2", 53)), b"data").unwrap();
    let mut frame = one.sent().remove(0);
    frame[43] ^= 1;
    two.receive(&frame);
    assert_eq!(two.stack.drops.get(DropReason::Checksum), 1);
    frame[40..42].fill(0);
    two.receive(&frame);
    assert_eq!(server.receive().unwrap().1.len(), 4);
}

#[test]
fn the_path_mtu_is_learnt_from_an_error_about_an_own_packet() {
    let (mut one, mut two) = pair();
    let server = bound(&mut two, "0.0.0.0", 53);
    let client = open(&one);
    client.configure(&one, |options| options.discovery = PathDiscovery::Required);
    client.connect(&mut one, Some(end("10.0.0.2", 53))).unwrap();
    client.send(&mut one, None, &[1; 1000]).unwrap();
    exchange(&mut one, &mut two);
    server.receive().unwrap();
    client.send(&mut one, None, &[1; 1400]).unwrap();
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
    assert_eq!(client.send(&mut one, None, &[1; 1400]), Ok(()), "no socket sent this");
    exchange(&mut one, &mut two);
    tell(&mut one, &mut two, quoted);
    assert_eq!(client.send(&mut one, None, &[1; 1400]), Err(SocketError::MessageSize));
    assert_eq!(client.error(), Some(SocketError::MessageSize), "the error waits, too");
    assert_eq!(client.send(&mut one, None, &[1; 972]), Ok(()));
    one.now_ns += 601 * S;
    client.configure(&one, |_| {});
    assert_eq!(client.send(&mut one, None, &[1; 1400]), Ok(()), "the MTU is forgotten");
}

#[test]
fn a_connected_socket_notices_that_its_route_changed() {
    let (mut one, _) = pair();
    let client = open(&one);
    client.connect(&mut one, Some(end("10.0.0.2", 53))).unwrap();
    client.send(&mut one, None, b"x").unwrap();
    one.stack
        .configure(|all| {
            all.routes.retain(|table, _| table == TableId::LOCAL);
            Ok::<(), ()>(())
        })
        .unwrap();
    assert_eq!(client.send(&mut one, None, b"x"), Err(SocketError::NetworkUnreachable));
}

#[test]
fn a_datagram_without_a_destination_or_too_long_is_refused() {
    let mut one = Station::new(1, &[("10.0.0.1", 24)]);
    let client = open(&one);
    assert_eq!(client.send(&mut one, None, b"x"), Err(SocketError::NoDestination));
    let to = Some(end("127.0.0.1", 53));
    assert_eq!(client.send(&mut one, to, &[0; 65_528]), Err(SocketError::MessageSize));
    assert_eq!(client.send(&mut one, Some(end("127.0.0.1", 0)), b""), Err(SocketError::Invalid));
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
}

#[test]
fn threads_share_a_stack_whose_configuration_changes() {
    const ROUNDS: u32 = 2000;
    let stack = Stack::<SharedBytes>::new([1; 16]);
    let talk = |port: u16| {
        let mut worker = stack.worker();
        let [server, client] =
            [0, 1].map(|_| Socket::of_stack(&stack, DatagramProtocol::Udp, SocketFamilies::V4));
        let end = end("127.0.0.1", port);
        let bound = |run: &mut StackRun<'_, SharedBytes>| {
            stack.datagram_bind(run, &server.end, end)?;
            stack.datagram_connect(run, &client.end, Some(end))
        };
        stack.run(&mut worker, &mut Nowhere, S, bound).unwrap();
        for round in 0..ROUNDS {
            let one = datagram(None, &round.to_be_bytes());
            let send =
                |run: &mut StackRun<'_, SharedBytes>| stack.datagram_send(run, &client.end, one);
            stack.run(&mut worker, &mut Nowhere, S, send).unwrap();
            assert_eq!(server.receive().unwrap().1, round.to_be_bytes());
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
