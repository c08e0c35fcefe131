//! A stack and a machine of smoltcp on one link: the second opinion on what both send.
use super::{
    link::{CARD, S, Station, ip},
    sockets::{Socket, end},
};
use crate::*;
use interfaces::sockets::SocketFamilies;
use packet::{Sum, icmp::IcmpMessage, icmpv6::Icmpv6Message, protocol};
use std::{net::SocketAddr, time::Duration};
use wire::{Addresses, Peer, end::End};
use zerocopy::IntoBytes;

/// The port of the peer's echo.
const ECHO: u16 = 7;

/// Makes a host 10.0.0.2 and fd00::2, whose addresses are in use.
fn station() -> Station {
    let mut station = Station::new(2, &[("10.0.0.2", 24), ("fd00::2", 64)]);
    station.run(|stack, run| stack.start_ipv6(run, CARD));
    station.wait_until(10 * S);
    station.sent();
    station
}

/// Brings frames between both until they are silent, for two seconds. Returns their number.
fn exchange(station: &mut Station, peer: &mut Peer) -> usize {
    let (mut count, end) = (0, station.now_ns + 2 * S);
    while station.now_ns < end {
        let now = Duration::from_nanos(station.now_ns);
        for frame in station.sent() {
            count += 1;
            peer.hear(&frame, now);
        }
        while let Some(frame) = peer.say(now).unwrap() {
            count += 1;
            station.receive(&frame);
        }
        station.wait_until(station.now_ns + S / 10);
    }
    count
}

fn ping(station: &mut Station, destination: &str) {
    let destination = ip(destination);
    let (protocol, header) = if destination.is_ipv4() {
        (protocol::ICMP, IcmpMessage::EchoRequest { identifier: 9, sequence: 1 }.header())
    } else {
        (protocol::ICMPV6, Icmpv6Message::EchoRequest { identifier: 9, sequence: 1 }.header())
    };
    let data = BufferChain::copy_of(b"second opinion").unwrap();
    let mut packet = Departure::new(header.as_bytes(), data).unwrap();
    let request = SendRequest::new(destination, protocol);
    station.run(|stack, run| {
        let path = stack.path(run, &request).unwrap();
        let mut sum = packet.sum();
        if destination.is_ipv6() {
            let length = packet.length() as u32;
            sum.append(Sum::pseudo_header(path.source, destination, protocol, length));
        }
        packet.patch(2, sum.checksum());
        stack.send_on(run, &path, &request, packet).unwrap();
    });
}

#[test]
fn smoltcp_answers_pings() {
    let (mut station, (mut peer, _handle)) = (station(), Peer::new(&Addresses::of(1), 1).unwrap());
    ping(&mut station, "10.0.0.1");
    exchange(&mut station, &mut peer);
    let (source, bytes) = station.ears.heard().pop().unwrap();
    let reply = IcmpMessage::EchoReply { identifier: 9, sequence: 1 };
    assert_eq!((source, IcmpMessage::parse(&bytes).unwrap()), (ip("10.0.0.1"), reply));
    ping(&mut station, "fd00::1");
    exchange(&mut station, &mut peer);
    let (source, bytes) = station.ears.heard().pop().unwrap();
    let reply = Icmpv6Message::EchoReply { identifier: 9, sequence: 1 };
    assert_eq!((source, Icmpv6Message::parse(&bytes).unwrap()), (ip("fd00::1"), reply));
    assert_eq!(&bytes[8..], b"second opinion");
}

#[test]
fn smoltcp_returns_datagrams_and_gets_its_own_answered() {
    let (mut station, (mut peer, handle)) = (station(), Peer::new(&Addresses::of(1), 1).unwrap());
    let families = [("10.0.0.1", SocketFamilies::V4), ("fd00::1", SocketFamilies::V6)];
    for (turn, (address, family)) in families.into_iter().enumerate() {
        let socket = Socket::udp(&station, family);
        let to = end(address, ECHO);
        socket.connect(&mut station, Some(to)).unwrap();
        for length in [0, 1, 999, 1400] {
            let data = vec![length as u8; length];
            socket.send(&mut station, None, &data).unwrap();
            exchange(&mut station, &mut peer);
            assert_eq!(socket.receive(), Some((to, data)));
        }
        let server = Socket::udp(&station, family);
        let own = if to.is_ipv4() { ip("10.0.0.2") } else { ip("fd00::2") };
        server.bind(&mut station, SocketAddr::new(own, 53)).unwrap();
        handle.send_datagram(SocketAddr::new(own, 53), b"question").unwrap();
        exchange(&mut station, &mut peer);
        let (source, data) = server.receive().unwrap();
        assert_eq!(data, b"question");
        server.send(&mut station, Some(source), b"answer").unwrap();
        exchange(&mut station, &mut peer);
        let heard = handle.datagrams();
        assert_eq!(heard[turn], (SocketAddr::new(own, 53), b"answer".to_vec()));
    }
    assert_eq!(station.stack.drops.get(DropReason::Checksum), 0);
}

#[test]
fn smoltcp_tells_that_a_port_is_closed() {
    let (mut station, (mut peer, _handle)) = (station(), Peer::new(&Addresses::of(1), 1).unwrap());
    for (address, family) in [("10.0.0.1", SocketFamilies::V4), ("fd00::1", SocketFamilies::V6)] {
        let socket = Socket::udp(&station, family);
        let to = end(address, 4321);
        socket.connect(&mut station, Some(to)).unwrap();
        socket.send(&mut station, None, b"anyone?").unwrap();
        exchange(&mut station, &mut peer);
        assert_eq!(socket.error(), Some(SocketError::Refused));
    }
}
