//! Sockets of datagrams and taps of links whose stack is dropped, and its successor.
use super::{
    sockets::{RECEIVE_MAX, Told, bytes, datagram, end},
    streams::world::{CARD, Host, MS, Pair, Weather},
};
use crate::*;
use interfaces::sockets::{
    DatagramProtocol, DatagramQueue, DatagramSocket, FrameTap, IpOptions, KeptDatagram,
    LinkMembership, Membership, Network, SeenFrame, SocketFamilies, SocketOwner, TapBinding,
};
use labels::SecrecyId;
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

const OWNER: SocketOwner = SocketOwner { user: 5, inode: 9, label: SecrecyId::NONE };

/// A program's socket, and what the client of the stack knows of it.
struct Client {
    socket: Arc<dyn DatagramSocket>,
    queue: Arc<DatagramQueue>,
    protocol: DatagramProtocol,
    families: SocketFamilies,
    options: IpOptions,
    is_own: (bool, bool),
    memberships: Vec<Membership>,
}

impl Client {
    fn new(host: &Host, protocol: DatagramProtocol, families: SocketFamilies) -> Client {
        let queue = Arc::new(DatagramQueue::new(Arc::new(Told::default()), RECEIVE_MAX));
        let socket = host.inet.open_datagram(queue.clone(), protocol, families, OWNER).unwrap();
        let (options, is_own) = (IpOptions::default(), (false, false));
        Client { socket, queue, protocol, families, options, is_own, memberships: Vec::new() }
    }
    fn bound(host: &Host, families: SocketFamilies, to: SocketAddr) -> Client {
        let mut client = Client::new(host, DatagramProtocol::Udp, families);
        client.bind(to);
        client
    }
    fn bind(&mut self, to: SocketAddr) {
        self.socket.bind(to).unwrap();
        self.is_own = (!to.ip().is_unspecified(), to.port() != 0);
    }
    fn configure(&mut self, options: IpOptions) {
        self.options = options;
        self.socket.configure(&options);
    }
    fn join(&mut self, group: &str) {
        let membership = Membership { group: end(group, 0).ip(), interface: CARD.0 };
        self.socket.join(membership).unwrap();
        self.memberships.push(membership);
    }
    /// Makes the socket again in another stack.
    fn move_to(&mut self, inet: &Inet) {
        let names = (self.socket.local(), self.socket.peer());
        let kept = KeptDatagram {
            protocol: self.protocol,
            families: self.families,
            owner: OWNER,
            options: self.options,
            local: names.0,
            peer: names.1,
            has_own_address: self.is_own.0,
            has_own_port: self.is_own.1,
            memberships: self.memberships.clone(),
        };
        self.socket = inet.restore_datagram(self.queue.clone(), kept).unwrap();
        assert_eq!((self.socket.local(), self.socket.peer()), names);
    }
    fn got(&self) -> Option<(SocketAddr, Vec<u8>)> {
        let got = self.queue.take().unwrap()?;
        Some((got.source, bytes(&got.payload)))
    }
}

/// Replaces the stack of a host, and moves its sockets.
fn restart(pair: &mut Pair, host: usize, clients: &mut [&mut Client]) {
    let old = pair.replace(host);
    for client in clients {
        client.move_to(&pair.hosts[host].inet);
    }
    assert_eq!(Arc::strong_count(&old), 1, "nobody has the old stack");
    drop(old);
    pair.hosts[host].inet.go_on();
}

#[test]
fn a_datagram_to_a_socket_that_is_to_come_is_lost_without_an_error() {
    for (families, own) in [(SocketFamilies::V4, "10.0.0.1"), (SocketFamilies::Both, "fd00::1")] {
        let mut pair = Pair::new(1, Weather::default());
        let mut server = Client::bound(&pair.hosts[0], families, end(own, 53));
        let mut client = Client::new(&pair.hosts[0], DatagramProtocol::Udp, families);
        client.socket.connect(Some(end(own, 53))).unwrap();
        let old = pair.replace(0);
        client.move_to(&pair.hosts[0].inet);
        client.socket.send(datagram(None, &[1])).unwrap();
        server.move_to(&pair.hosts[0].inet);
        drop(old);
        pair.hosts[0].inet.go_on();
        pair.wait(10 * MS);
        client.socket.send(datagram(None, &[2])).unwrap();
        pair.wait(10 * MS);
        assert_eq!((client.got(), server.got().unwrap().1), (None, vec![2]), "{own}");
        // A port of nobody is refused again.
        drop(server);
        client.socket.send(datagram(None, &[3])).unwrap();
        pair.wait(10 * MS);
        assert!(client.queue.take().is_err(), "{own}");
    }
}

#[test]
fn servers_and_clients_go_on() {
    for (families, server_at, local) in [
        (SocketFamilies::V4, "10.0.0.2", "0.0.0.0"),
        (SocketFamilies::Both, "fd00::2", "::"),
        (SocketFamilies::Both, "10.0.0.2", "0.0.0.0"),
    ] {
        let mut pair = Pair::new(1, Weather::default());
        let mut server = Client::bound(&pair.hosts[1], families, end(local, 53));
        let mut connected = Client::new(&pair.hosts[0], DatagramProtocol::Udp, families);
        connected.socket.connect(Some(end(server_at, 53))).unwrap();
        let mut open = Client::new(&pair.hosts[0], DatagramProtocol::Udp, families);
        open.configure(IpOptions { ttl: Some(9), hops: Some(9), ..IpOptions::default() });
        for turn in 0..4u8 {
            connected.socket.send(datagram(None, &[turn, 1])).unwrap();
            open.socket.send(datagram(Some(end(server_at, 53)), &[turn, 2])).unwrap();
            pair.wait(10 * MS);
            for (number, client) in [(1, &connected), (2, &open)] {
                let got = server.queue.take().unwrap().unwrap();
                assert_eq!(bytes(&got.payload), [turn, number], "{server_at}");
                assert_eq!(got.hop_limit, if number == 2 { 9 } else { 64 });
                assert_eq!(got.source.port(), client.socket.local().port(), "the same port");
                server.socket.send(datagram(Some(got.source), &[turn, number])).unwrap();
            }
            pair.wait(10 * MS);
            assert_eq!(connected.got(), Some((end(server_at, 53), vec![turn, 1])));
            assert_eq!(open.got(), Some((end(server_at, 53), vec![turn, 2])));
            restart(&mut pair, 0, &mut [&mut connected, &mut open]);
            restart(&mut pair, 1, &mut [&mut server]);
        }
        // An address or a port that the program did not bind goes with the peer, as before.
        connected.socket.connect(None).unwrap();
        assert_eq!(connected.socket.local().port(), 0);
        let taken = Client::new(&pair.hosts[1], DatagramProtocol::Udp, families);
        assert!(taken.socket.bind(end(local, 53)).is_err(), "the port is in use");
        server.socket.close();
        taken.socket.bind(end(local, 53)).unwrap();
    }
}

#[test]
fn sockets_that_share_a_port_share_it_again() {
    let mut pair = Pair::new(1, Weather::default());
    let shared = IpOptions { reuses_address: true, ..IpOptions::default() };
    let mut sockets = [0, 1].map(|_| {
        let mut one = Client::new(&pair.hosts[1], DatagramProtocol::Udp, SocketFamilies::V4);
        one.configure(shared);
        one.bind(end("0.0.0.0", 53));
        one
    });
    // The option counts when a socket is bound, and not any more.
    sockets.iter_mut().for_each(|one| one.configure(IpOptions::default()));
    let [first, second] = &mut sockets;
    restart(&mut pair, 1, &mut [first, second]);
    let client = Client::new(&pair.hosts[0], DatagramProtocol::Udp, SocketFamilies::V4);
    client.socket.send(datagram(Some(end("10.0.0.2", 53)), b"last")).unwrap();
    pair.wait(10 * MS);
    assert_eq!(sockets[1].got().unwrap().1, b"last", "the last bound gets it");
    assert!(sockets[0].got().is_none());
}

#[test]
fn groups_are_joined_again_and_left_with_the_socket() {
    let mut pair = Pair::new(1, Weather::default());
    let groups = |pair: &Pair| {
        let view = pair.hosts[1].inet.stack().view();
        let groups = view.configuration.interface(CARD).unwrap().groups.clone();
        groups.into_iter().filter(|(group, _)| group.is_ipv4()).collect::<Vec<_>>()
    };
    let before = groups(&pair);
    let mut member = Client::bound(&pair.hosts[1], SocketFamilies::V4, end("239.1.2.3", 5000));
    member.join("239.1.2.3");
    let joined = groups(&pair);
    assert_eq!(joined.len(), before.len() + 1);
    restart(&mut pair, 1, &mut [&mut member]);
    assert_eq!(groups(&pair), joined);
    let mut sender = Client::new(&pair.hosts[0], DatagramProtocol::Udp, SocketFamilies::V4);
    sender.configure(IpOptions { group_interface: Some(CARD.0), ..IpOptions::default() });
    restart(&mut pair, 0, &mut [&mut sender]);
    sender.socket.send(datagram(Some(end("239.1.2.3", 5000)), b"all")).unwrap();
    pair.wait(10 * MS);
    assert_eq!(member.got().unwrap().1, b"all");
    member.socket.close();
    assert_eq!(groups(&pair), before);
}

#[test]
fn ping_and_raw_sockets_get_their_answers() {
    let mut pair = Pair::new(1, Weather::default());
    let mut ping = Client::new(&pair.hosts[0], DatagramProtocol::Ping, SocketFamilies::V4);
    ping.bind(end("0.0.0.0", 77));
    let mut raw = Client::new(&pair.hosts[0], DatagramProtocol::Raw(1), SocketFamilies::V4);
    raw.socket.connect(Some(end("10.0.0.2", 0))).unwrap();
    let echo = [8, 0, 0, 0, 0, 0, 0, 1];
    for _ in 0..3 {
        ping.socket.send(datagram(Some(end("10.0.0.2", 0)), &echo)).unwrap();
        pair.wait(10 * MS);
        let (from, reply) = ping.got().unwrap();
        assert_eq!((from.ip(), reply[0], &reply[4..6]), (end("10.0.0.2", 0).ip(), 0, &[0, 77][..]));
        assert_eq!(raw.got().unwrap().1[20..][..6], reply[..6]);
        restart(&mut pair, 0, &mut [&mut ping, &mut raw]);
    }
}

/// A client that counts frames.
#[derive(Default)]
struct Counted(AtomicUsize);

impl FrameTap for Counted {
    fn see(&self, _frame: &SeenFrame<'_>) {
        self.0.fetch_add(1, Relaxed);
    }
    fn failed(&self, error: interfaces::sockets::SocketError) {
        panic!("{error:?}");
    }
}

#[test]
fn a_tap_is_opened_again_with_what_its_client_knows() {
    let mut pair = Pair::new(1, Weather::default());
    let counted = Arc::new(Counted::default());
    let binding = TapBinding { interface: Some(CARD.0), protocol: Some(TapBinding::ALL) };
    let open = |inet: &Inet| {
        let tap = Network::taps(inet).open(counted.clone(), SecrecyId::NONE);
        tap.bind(binding).unwrap();
        tap.join(CARD.0, LinkMembership::Promiscuous).unwrap();
        tap
    };
    let wanted = |pair: &Pair| {
        let view = pair.hosts[1].inet.stack().view();
        view.configuration.interface(CARD).unwrap().wanted.all
    };
    let mut tap = open(&pair.hosts[1].inet);
    let client = Client::new(&pair.hosts[0], DatagramProtocol::Udp, SocketFamilies::V4);
    for _ in 0..3 {
        let before = counted.0.load(Relaxed);
        client.socket.send(datagram(Some(end("10.0.0.2", 9)), b"seen")).unwrap();
        pair.wait(10 * MS);
        assert!(counted.0.load(Relaxed) > before);
        assert_eq!(wanted(&pair), 1);
        let old = pair.replace(1);
        tap = open(&pair.hosts[1].inet);
        pair.hosts[1].inet.go_on();
        drop(old);
    }
    tap.close();
    assert_eq!(wanted(&pair), 0);
}
