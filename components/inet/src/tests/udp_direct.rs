//! Datagrams of UDP between sockets of one host.
use super::{
    link::Station,
    sockets::{Socket, bytes, datagram, end},
};
use crate::{ip::events::PacketEvent, *};
use interfaces::sockets::{DatagramProtocol, SentDatagram, SocketFamilies};

fn bound(station: &mut Station, families: SocketFamilies, address: &str, port: u16) -> Socket {
    let socket = Socket::udp(station, families);
    socket.bind(station, end(address, port)).unwrap();
    socket
}

fn connected(station: &mut Station, to: std::net::SocketAddr) -> Socket {
    let families = if to.is_ipv4() { SocketFamilies::V4 } else { SocketFamilies::V6 };
    let socket = Socket::udp(station, families);
    socket.connect(station, Some(to)).unwrap();
    socket
}

/// Returns the datagrams that never were packets, the packets of loopback, and the datagrams that queues took.
fn counted(station: &Station) -> [u64; 3] {
    let of = |events: [PacketEvent; 2]| events.map(|event| station.stack.events.get(event));
    let direct = of([PacketEvent::LocalDatagrams4, PacketEvent::LocalDatagrams6]);
    let queued = of([PacketEvent::UdpIn4, PacketEvent::UdpIn6]);
    let [looped, _] = of([PacketEvent::LoopPackets; 2]);
    [direct.iter().sum(), looped, queued.iter().sum()]
}

#[test]
fn datagrams_to_this_host_are_no_packets() {
    let mut host = Station::new(1, &[("10.0.0.1", 24)]);
    for (families, address) in [(SocketFamilies::V4, "127.0.0.1"), (SocketFamilies::V6, "::1")] {
        let to = end(address, 53);
        let server = bound(&mut host, families, address, 53);
        let client = connected(&mut host, to);
        client.configure(&host, |options| {
            (options.ttl, options.type_of_service) = (Some(9), 0x10);
            (options.hops, options.traffic_class) = (Some(9), 0x10);
        });
        let before = counted(&host);
        for data in [&b"one"[..], b"", &[7; 3000]] {
            client.send(&mut host, None, data).unwrap();
            client.send(&mut host, Some(to), data).unwrap();
            for _ in 0..2 {
                let got = server.take().unwrap();
                assert_eq!((got.source, got.destination), (client.local(&host), to));
                assert_eq!((got.hop_limit, got.traffic_class, got.interface), (9, 0x10, 1));
                assert_eq!(bytes(&got.payload), data);
            }
        }
        let after = counted(&host);
        assert_eq!([0, 1, 2].map(|at| after[at] - before[at]), [6, 0, 6]);
        // A hop limit of its own makes no difference for the way.
        let one = SentDatagram { hop_limit: Some(3), ..datagram(None, b"x") };
        client.send_with(&mut host, &one).unwrap();
        assert_eq!(server.take().unwrap().hop_limit, 3);
        server.close(&mut host);
    }
}

#[test]
fn a_peer_that_goes_or_is_replaced_is_noticed() {
    let mut host = Station::new(1, &[("10.0.0.1", 24)]);
    let to = end("127.0.0.1", 53);
    let server = bound(&mut host, SocketFamilies::V4, "0.0.0.0", 53);
    let client = connected(&mut host, to);
    client.send(&mut host, None, b"1").unwrap();
    assert_eq!(server.receive().unwrap().1, b"1");
    // A socket of the address itself comes first, and one that is connected to the client before that.
    server.configure(&host, |options| options.reuses_address = true);
    let nearer = Socket::udp(&host, SocketFamilies::V4);
    nearer.configure(&host, |options| options.reuses_address = true);
    nearer.bind(&mut host, to).unwrap();
    client.send(&mut host, None, b"2").unwrap();
    assert_eq!((server.receive(), nearer.receive().unwrap().1), (None, b"2".to_vec()));
    let name = client.local(&host);
    server.connect(&mut host, Some(name)).unwrap();
    client.send(&mut host, None, b"3").unwrap();
    assert_eq!((nearer.receive(), server.receive().unwrap().1), (None, b"3".to_vec()));
    // The client's peer becomes another one, and no one.
    let other = bound(&mut host, SocketFamilies::V4, "127.0.0.2", 54);
    client.connect(&mut host, Some(end("127.0.0.2", 54))).unwrap();
    client.send(&mut host, None, b"4").unwrap();
    assert_eq!((nearer.receive(), other.receive().unwrap().1), (None, b"4".to_vec()));
    other.close(&mut host);
    client.send(&mut host, None, b"5").unwrap();
    assert_eq!(client.error(), Some(SocketError::Refused));
    assert_eq!(other.receive(), None);
}

#[test]
fn who_watches_sees_packets() {
    let mut host = Station::new(1, &[("10.0.0.1", 24)]);
    let to = end("127.0.0.1", 53);
    let server = bound(&mut host, SocketFamilies::V4, "127.0.0.1", 53);
    let client = connected(&mut host, to);
    client.send(&mut host, None, b"1").unwrap();
    let watcher = Socket::open(&host, DatagramProtocol::Raw(17), SocketFamilies::V4);
    client.send(&mut host, None, b"2").unwrap();
    client.send(&mut host, Some(to), b"3").unwrap();
    let seen: Vec<u8> =
        std::iter::from_fn(|| watcher.receive().map(|(_, data)| data[28])).collect();
    assert_eq!(seen, b"23");
    watcher.close(&mut host);
    client.send(&mut host, None, b"4").unwrap();
    let got: Vec<_> = std::iter::from_fn(|| server.receive().map(|(_, data)| data[0])).collect();
    assert_eq!(got, b"1234");
    assert_eq!(counted(&host), [2, 2, 4]);
}

#[test]
fn a_full_queue_and_an_error_are_told_as_for_packets() {
    let mut host = Station::new(1, &[("10.0.0.1", 24)]);
    let server = bound(&mut host, SocketFamilies::V4, "127.0.0.1", 53);
    let client = connected(&mut host, end("127.0.0.1", 53));
    client.send(&mut host, None, b"1").unwrap();
    client.queue.fail(SocketError::Refused);
    assert_eq!(client.send(&mut host, None, b"2"), Err(SocketError::Refused));
    server.queue.set_limit(0);
    client.send(&mut host, None, b"3").unwrap();
    assert_eq!(server.queue.usage().1, 1);
    assert_eq!(host.stack.events.get(PacketEvent::UdpFull4), 1);
    assert_eq!(server.receive().unwrap().1, b"1");
    assert_eq!(server.receive(), None);
}
