//! Sockets of datagrams through the traits that clients use.
use super::{
    link::S,
    sockets::{RECEIVE_MAX, Told, bytes, datagram, end},
    streams::world::VirtualTime,
};
use crate::*;
use interfaces::sockets::{
    DatagramProtocol, DatagramQueue, DatagramSocket, IpOptions, Membership, Network,
    SocketFamilies, SocketOwner,
};
use labels::SecrecyId;
use std::sync::Arc;

struct Client {
    socket: Arc<dyn DatagramSocket>,
    queue: Arc<DatagramQueue>,
    told: Arc<Told>,
}

fn inet() -> Arc<Inet> {
    let time = VirtualTime::default();
    time.0.store(S, std::sync::atomic::Ordering::Relaxed);
    Inet::new([3; 32], Arc::new(time))
}

fn open(inet: &Inet, protocol: DatagramProtocol) -> Client {
    let told = Arc::new(Told::default());
    let queue = Arc::new(DatagramQueue::new(told.clone(), RECEIVE_MAX));
    let owner = SocketOwner { user: 5, inode: 9, label: SecrecyId::NONE };
    let socket = inet.open_datagram(queue.clone(), protocol, SocketFamilies::V4, owner).unwrap();
    Client { socket, queue, told }
}

#[test]
fn a_client_sends_receives_and_hears_errors() {
    let inet = inet();
    let [server, client] = [0, 1].map(|_| open(&inet, DatagramProtocol::Udp));
    server.socket.bind(end("127.0.0.1", 53)).unwrap();
    client.socket.connect(Some(end("127.0.0.1", 53))).unwrap();
    assert_eq!(client.socket.path_mtu(), Some(65_535));
    for length in [0, 1, 64, 65, 256, 257, 5000, 65_507] {
        let data = vec![length as u8; length];
        client.socket.send(datagram(None, &data)).unwrap();
        let got = server.queue.take().unwrap().unwrap();
        assert_eq!((got.source, bytes(&got.payload)), (client.socket.local(), data));
        server.socket.send(datagram(Some(got.source), &[1; 300])).unwrap();
        let answer = client.queue.take().unwrap().unwrap();
        assert_eq!((answer.source, bytes(&answer.payload)), (end("127.0.0.1", 53), vec![1; 300]));
    }
    assert_eq!(server.told.counts(), [8, 0]);
    assert_eq!(server.queue.usage(), (0, 0));
    server.socket.close();
    client.socket.send(datagram(None, b"x")).unwrap();
    assert_eq!(client.told.counts(), [8, 1]);
    let refused = client.socket.send(datagram(None, b"x"));
    assert_eq!(refused, Err(SocketError::Refused));
    client.socket.connect(None).unwrap();
    assert_eq!((client.socket.peer(), client.socket.path_mtu()), (None, None));
}

#[test]
fn a_handle_that_is_dropped_ends_its_socket() {
    let inet = inet();
    let lo = || {
        let view = inet.stack().view();
        view.configuration.interface(InterfaceIndex::LOOPBACK).unwrap().groups.len()
    };
    let clients = [DatagramProtocol::Udp, DatagramProtocol::Ping, DatagramProtocol::Raw(17)]
        .map(|protocol| open(&inet, protocol));
    for client in &clients {
        client.socket.bind(end("127.0.0.1", 77)).unwrap();
        let membership = Membership { group: end("239.1.2.3", 0).ip(), interface: 1 };
        client.socket.join(membership).unwrap();
        assert_eq!(
            client.socket.leave(Membership { interface: 7, ..membership }),
            Err(SocketError::NoAddress)
        );
    }
    let sockets = inet.stack().datagram_sockets();
    assert_eq!((sockets.len(), lo()), (3, 1));
    assert!(
        sockets
            .iter()
            .all(|(_, _, one)| one.owner
                == SocketOwner { user: 5, inode: 9, label: SecrecyId::NONE })
    );
    drop((sockets, clients));
    assert_eq!((inet.stack().datagram_sockets().len(), lo()), (0, 0));
    let again = open(&inet, DatagramProtocol::Udp);
    again.socket.bind(end("127.0.0.1", 77)).unwrap();
}

#[test]
fn options_of_a_client_count_from_now_on() {
    let inet = inet();
    let [server, client] = [0, 1].map(|_| open(&inet, DatagramProtocol::Udp));
    server.socket.bind(end("0.0.0.0", 53)).unwrap();
    let options = IpOptions { ttl: Some(9), type_of_service: 0x10, ..IpOptions::default() };
    client.socket.configure(&options);
    client.socket.send(datagram(Some(end("127.0.0.1", 53)), b"x")).unwrap();
    let got = server.queue.take().unwrap().unwrap();
    assert_eq!((got.hop_limit, got.traffic_class), (9, 0x10));
    let all = Some(end("127.255.255.255", 53));
    assert_eq!(client.socket.send(datagram(all, b"x")), Err(SocketError::Forbidden));
    client.socket.configure(&IpOptions { may_broadcast: true, ..options });
    client.socket.send(datagram(all, b"x")).unwrap();
    assert!(server.queue.take().unwrap().is_some());
}
