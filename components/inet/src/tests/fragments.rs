//! Fragments from one host to another.
use super::{
    link::{CARD, S, Station, exchange, ip},
    sockets::{Socket, end},
};
use crate::*;
use interfaces::sockets::{PathDiscovery, SocketFamilies};
use packet::{
    icmp::IcmpMessage,
    icmpv6::Icmpv6Message,
    ipv4::Ipv4,
    ipv6::{Walk, problem},
    protocol,
};
use std::net::SocketAddr;

/// Two hosts that know each other, a socket on each, and the address of the second.
struct Pair {
    one: Station,
    two: Station,
    client: Socket,
    server: Socket,
    to: SocketAddr,
}

fn pair(address: [&str; 2]) -> Pair {
    let one = Station::new(1, &[(address[0], 24)]);
    let mut two = Station::new(2, &[(address[1], 24)]);
    let to = end(address[1], 53);
    let families = if to.is_ipv4() { SocketFamilies::V4 } else { SocketFamilies::V6 };
    let (client, server) = (Socket::udp(&one, families), Socket::udp(&two, families));
    server.bind(&mut two, to).unwrap();
    let mut all = Pair { one, two, client, server, to };
    all.send(b"hello").unwrap();
    exchange(&mut all.one, &mut all.two);
    assert_eq!(all.receive().unwrap(), b"hello");
    all
}

impl Pair {
    fn send(&mut self, data: &[u8]) -> Result<(), SocketError> {
        self.client.send(&mut self.one, Some(self.to), data)
    }
    fn receive(&mut self) -> Option<Vec<u8>> {
        self.server.receive().map(|(_, data)| data)
    }
}

const ADDRESSES: [[&str; 2]; 2] = [["10.0.0.1", "10.0.0.2"], ["fd00::1", "fd00::2"]];

fn data(length: usize) -> Vec<u8> {
    (0..length).map(|number| (number / 7) as u8).collect()
}

#[test]
fn a_long_datagram_is_cut_and_put_together() {
    for addresses in ADDRESSES {
        let mut all = pair(addresses);
        for length in [1473, 2000, 5000, 65_507 - 20] {
            all.send(&data(length)).unwrap();
            let mut frames = all.one.sent();
            assert!(frames.len() > 1 && frames.iter().all(|frame| frame.len() <= 1514));
            frames.reverse();
            frames.iter().for_each(|frame| all.two.receive_split(frame, 70));
            assert_eq!(all.receive(), Some(data(length)));
        }
        assert_eq!(all.two.stack.drops.total(), 0);
    }
}

#[test]
fn a_datagram_that_must_not_be_cut_is_refused() {
    for addresses in ADDRESSES {
        let mut all = pair(addresses);
        all.client.configure(&all.one, |options| {
            options.discovery = PathDiscovery::Required;
            options.discovery6 = PathDiscovery::Required;
        });
        assert_eq!(all.send(&data(1473)), Err(SocketError::MessageSize));
        assert!(all.one.sent().is_empty());
    }
}

#[test]
fn a_missing_fragment_is_told_to_the_sender() {
    for addresses in ADDRESSES {
        let mut all = pair(addresses);
        all.send(&data(2000)).unwrap();
        let frames = all.one.sent();
        all.two.receive(&frames[0]);
        all.two.wait_until(all.two.now_ns + 61 * S);
        assert_eq!(all.two.stack.drops.get(DropReason::ReassemblyTimeout), 1);
        exchange(&mut all.one, &mut all.two);
        let (source, bytes) = all.one.ears.heard().pop().unwrap();
        if source.is_ipv4() {
            assert_eq!(IcmpMessage::parse(&bytes), Ok(IcmpMessage::TimeExceeded { code: 1 }));
            assert_eq!(bytes[8..], frames[0][14..14 + 548]);
        } else {
            assert_eq!(Icmpv6Message::parse(&bytes), Ok(Icmpv6Message::TimeExceeded { code: 1 }));
        }
    }
}

#[test]
fn the_host_itself_gets_long_datagrams_uncut() {
    let mut one = Station::new(1, &[]);
    let server = Socket::udp(&one, SocketFamilies::V4);
    server.bind(&mut one, end("127.0.0.1", 53)).unwrap();
    let client = Socket::udp(&one, SocketFamilies::V4);
    client.send(&mut one, Some(end("127.0.0.1", 53)), &data(65_507)).unwrap();
    assert_eq!(server.receive().unwrap().1, data(65_507));
    let long = client.send(&mut one, Some(end("127.0.0.1", 53)), &data(65_508));
    assert_eq!(long, Err(SocketError::MessageSize));
}

#[test]
fn fragments_of_ipv6_that_cannot_be_are_told() {
    let mut all = pair(ADDRESSES[1]);
    all.send(&data(2000)).unwrap();
    let frame = all.one.sent().remove(0);
    let walk = Walk::of(&frame[14..]).unwrap();
    assert_eq!(walk.fragment.unwrap().at, 40);
    let told = |all: &mut Pair| {
        let frame = all.two.sent().pop().unwrap();
        Icmpv6Message::parse(&frame[54..]).unwrap()
    };
    let mut odd = frame.clone();
    odd[19] -= 1;
    all.two.receive(&odd);
    let (code, pointer) = (problem::FIELD, 4);
    assert_eq!(told(&mut all), Icmpv6Message::ParameterProblem { code, pointer });
    let mut far = frame.clone();
    far[14 + 42..14 + 44].copy_from_slice(&0xfff9u16.to_be_bytes());
    all.two.receive(&far);
    assert_eq!(told(&mut all), Icmpv6Message::ParameterProblem { code, pointer: 42 });
    let mut tiny = frame[..14 + 48 + 8].to_vec();
    tiny[18..20].copy_from_slice(&16u16.to_be_bytes());
    tiny[14 + 40] = protocol::DESTINATION;
    tiny[14 + 48..14 + 56].copy_from_slice(&[protocol::UDP, 0, 1, 4, 0, 0, 0, 0]);
    all.two.receive(&tiny);
    let (code, pointer) = (problem::CHAIN, 0);
    assert_eq!(told(&mut all), Icmpv6Message::ParameterProblem { code, pointer });
}

#[test]
fn fragments_of_ipv4_have_no_flag_that_forbids_them() {
    let mut all = pair(ADDRESSES[0]);
    all.send(&data(2000)).unwrap();
    for frame in all.one.sent() {
        let packet = Ipv4::parse(&frame[14..], frame.len() - 14).unwrap();
        assert_eq!(packet.header.cutting(), packet::ipv4::Cutting::Allowed);
    }
    let path = Path {
        interface: CARD,
        next_hop: ip("10.0.0.2"),
        source: ip("10.0.0.1"),
        mtu: 68,
        hop_limit: 64,
        advertised_segment: 0,
        cast: Cast::Unicast,
        is_local: false,
        label_length: 0,
    };
    let request = SendRequest::new(ip("10.0.0.2"), 200);
    let packet = Departure::new(&[1; 20], BufferChain::copy_of(&[2; 100]).unwrap()).unwrap();
    all.one.run(|stack, run| stack.send_on(run, &path, &request, packet)).unwrap();
    assert_eq!(all.one.sent().len(), 3, "the least MTU leaves 48 bytes");
}
