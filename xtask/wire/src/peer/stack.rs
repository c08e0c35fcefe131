//! [`Stack`]: smoltcp with its sockets, the services on them and the connections outward. Whoever holds it has its lock.
use super::{
    TalkId,
    device::Queues,
    questions::{Answers, Asking, Questions},
    service::{Conversation, ECHO, Served, Service, Wish},
    syns::{Opening, opening},
    talk::Talk,
};
use crate::pattern::Stream;
use smoltcp::{
    iface::{Config, Interface, SocketHandle, SocketSet},
    socket::{tcp, udp},
    time::Instant,
    wire::{EthernetAddress, IpAddress, IpCidr},
};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

/// The addresses of a peer.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// Its Ethernet address.
    pub ethernet: [u8; 6],
    /// Its IPv4 address, in a network of 24 bits.
    pub v4: Ipv4Addr,
    /// Its IPv6 address, in a network of 64 bits.
    pub v6: Ipv6Addr,
}

impl Addresses {
    /// Returns those of the `number`-th machine: 02::NUMBER, 10.0.0.NUMBER, fd00::NUMBER.
    pub const fn of(number: u8) -> Addresses {
        Addresses {
            ethernet: [2, 0, 0, 0, 0, number],
            v4: Ipv4Addr::new(10, 0, 0, number),
            v6: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number as u16),
        }
    }
}

/// Bytes of a socket's buffer for each direction.
const BUFFER: usize = 1 << 16;
/// Datagrams that a socket holds.
const DATAGRAMS: usize = 64;
/// Sockets of a service that wait for callers.
const WAITING: usize = 4;
/// Greatest number of sockets.
const SOCKETS: usize = 512;
/// Time after which a connection whose other side does not answer is given up.
const PATIENCE: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(180);
/// Time after which an idle connection asks for an answer.
const KEEP_ALIVE: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(20);
/// The first port of connections outward.
const FIRST_PORT: u16 = 49152;
/// The port that datagrams are sent from.
const DATAGRAM_PORT: u16 = 40000;

/// A connection of the stack.
enum Use {
    Served(Conversation),
    Talk(TalkId),
}

/// The stack of a peer.
pub struct Stack {
    /// The frames.
    pub queues: Queues,
    /// The work that the services have done.
    pub served: Served,
    /// Connections outward, by their number.
    pub talks: Vec<Talk>,
    /// Datagrams that came to the port of [`Stack::send_datagram`].
    pub datagrams: Vec<(SocketAddr, Vec<u8>)>,
    interface: Interface,
    sockets: SocketSet<'static>,
    uses: Vec<(SocketHandle, Use)>,
    echo: SocketHandle,
    outward: SocketHandle,
    questions: Option<Questions>,
}

fn tcp_socket() -> tcp::Socket<'static> {
    let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER]);
    let mut socket = tcp::Socket::new(buffer(), buffer());
    socket.set_timeout(Some(PATIENCE));
    socket.set_keep_alive(Some(KEEP_ALIVE));
    socket
}

fn udp_socket(port: u16) -> udp::Socket<'static> {
    let buffer =
        || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; DATAGRAMS], vec![0; BUFFER]);
    let mut socket = udp::Socket::new(buffer(), buffer());
    // The port is not zero, and the socket is new.
    let _ = socket.bind(port);
    socket
}

fn instant(now: Duration) -> Instant {
    Instant::from_micros(now.as_micros() as i64)
}

impl Stack {
    /// Makes the stack of a machine with these addresses.
    pub fn new(addresses: &Addresses, seed: u64) -> Stack {
        let mut queues = Queues::default();
        let mut config = Config::new(EthernetAddress(addresses.ethernet).into());
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut queues, Instant::ZERO);
        interface.update_ip_addrs(|all| {
            // There is room for four.
            let _ = all.push(IpCidr::new(IpAddress::Ipv4(addresses.v4), 24));
            let _ = all.push(IpCidr::new(IpAddress::Ipv6(addresses.v6), 64));
        });
        let mut sockets = SocketSet::new(Vec::new());
        let echo = sockets.add(udp_socket(ECHO));
        let outward = sockets.add(udp_socket(DATAGRAM_PORT));
        Stack {
            queues,
            served: Served::default(),
            talks: Vec::new(),
            datagrams: Vec::new(),
            interface,
            sockets,
            uses: Vec::new(),
            echo,
            outward,
            questions: None,
        }
    }

    /// Asks a machine questions, instead of those before.
    pub fn ask(&mut self, asking: Asking) {
        if let Some(before) = &self.questions {
            before.end(&mut self.sockets);
        }
        self.questions = Some(Questions::new(asking, &mut self.sockets));
    }

    /// Returns what became of the questions so far.
    pub fn answers(&self) -> Option<&Answers> {
        self.questions.as_ref().map(Questions::answers)
    }

    /// Does all that is to be done now. Returns whether anything was.
    pub fn turn(&mut self, now: Duration) -> bool {
        let mut has_moved = false;
        loop {
            self.listen();
            self.drop_repeated_syns();
            let polled = self.interface.poll(instant(now), &mut self.queues, &mut self.sockets);
            let mut is_moving = polled == smoltcp::iface::PollResult::SocketStateChanged;
            is_moving |= self.datagrams_turn();
            is_moving |= self.connections_turn();
            if let Some(questions) = &mut self.questions {
                is_moving |= questions.turn(now, &mut self.sockets);
            }
            if !is_moving {
                return has_moved;
            }
            has_moved = true;
        }
    }

    /// Returns the time of its next turn, unless a frame comes first.
    pub fn next_turn(&mut self, now: Duration) -> Option<Duration> {
        let next = self.interface.poll_at(instant(now), &self.sockets);
        let next = next.map(|next| Duration::from_micros(next.total_micros().max(0) as u64));
        let asked = self.questions.as_ref().and_then(Questions::next_turn);
        next.into_iter().chain(asked).min().map(|next| now.max(next))
    }

    /// Drops the SYNs of connections that there are, and all but the first of the others.
    fn drop_repeated_syns(&mut self) {
        let Stack { queues, uses, sockets, .. } = self;
        let mut known: Vec<Opening> = Vec::new();
        queues.heard.retain(|frame| {
            let Some(opening) = opening(frame) else { return true };
            let is_there = uses.iter().any(|(handle, _)| {
                let socket = sockets.get::<tcp::Socket<'_>>(*handle);
                let here = socket.local_endpoint().map(|end| end.port);
                socket.remote_endpoint().zip(here) == Some(opening)
            });
            let is_first = !is_there && !known.contains(&opening);
            known.push(opening);
            is_first
        });
    }

    /// Keeps sockets of each service waiting.
    fn listen(&mut self) {
        for service in Service::ALL {
            let waiting = self.uses.iter().filter(|(handle, of)| {
                matches!(of, Use::Served(one) if one.service == service)
                    && self.sockets.get::<tcp::Socket<'_>>(*handle).is_listening()
            });
            for _ in waiting.count()..WAITING {
                let mut socket = tcp_socket();
                if self.uses.len() < SOCKETS && socket.listen(service.port()).is_ok() {
                    let handle = self.sockets.add(socket);
                    self.uses.push((handle, Use::Served(Conversation::new(service))));
                }
            }
        }
    }

    /// Connects outward, to send one stream and expect the other.
    pub fn connect(&mut self, to: SocketAddr, sent: Stream, expected: Stream) -> TalkId {
        let id = self.talks.len();
        let port = FIRST_PORT + (id % usize::from(u16::MAX - FIRST_PORT)) as u16;
        let mut socket = tcp_socket();
        let mut talk = Talk::new(sent, expected);
        match socket.connect(self.interface.context(), to, port) {
            Ok(()) => {
                let handle = self.sockets.add(socket);
                self.uses.push((handle, Use::Talk(id)));
            }
            Err(why) => talk.fail(why.to_string()),
        }
        self.talks.push(talk);
        id
    }

    /// Sends a datagram.
    ///
    /// # Errors
    /// Says why it cannot be sent.
    pub fn send_datagram(&mut self, to: SocketAddr, bytes: &[u8]) -> Result<(), String> {
        let socket = self.sockets.get_mut::<udp::Socket<'_>>(self.outward);
        let to = smoltcp::wire::IpEndpoint::from(to);
        socket.send_slice(bytes, to).map_err(|why| why.to_string())
    }

    /// Moves all connections on. Returns whether any moved.
    fn connections_turn(&mut self) -> bool {
        let mut has_moved = false;
        let mut calls = Vec::new();
        let Stack { uses, sockets, talks, served, .. } = self;
        for (index, (handle, of)) in uses.iter_mut().enumerate() {
            let socket = sockets.get_mut::<tcp::Socket<'_>>(*handle);
            match of {
                Use::Talk(id) => has_moved |= talks[*id].step(socket),
                Use::Served(one) => {
                    if let Some(outcome) = one.awaited().and_then(|id| talks[id].outcome()) {
                        one.heard(outcome);
                    }
                    let (wish, moved) = one.step(socket, served);
                    has_moved |= moved;
                    if let (Wish::Call { port, stream }, Some(caller)) =
                        (wish, socket.remote_endpoint())
                    {
                        let address = SocketAddr::new(IpAddr::from(caller.addr), port);
                        calls.push((index, address, stream));
                    }
                }
            }
        }
        for (index, address, stream) in calls {
            let id = self.connect(address, stream.clone(), stream);
            if let Some((_, Use::Served(one))) = self.uses.get_mut(index) {
                one.called(id);
            }
        }
        self.bury();
        has_moved
    }

    /// Drops the sockets of connections that are over.
    fn bury(&mut self) {
        let sockets = &mut self.sockets;
        self.uses.retain(|(handle, _)| {
            let is_over = !sockets.get::<tcp::Socket<'_>>(*handle).is_open();
            if is_over {
                sockets.remove(*handle);
            }
            !is_over
        });
    }

    /// Sends datagrams back and keeps those that came. Returns whether there were any.
    fn datagrams_turn(&mut self) -> bool {
        let mut has_moved = false;
        let socket = self.sockets.get_mut::<udp::Socket<'_>>(self.echo);
        while socket.can_recv() && socket.can_send() {
            let Ok((bytes, from)) = socket.recv() else { break };
            let bytes = bytes.to_vec();
            let is_sent = socket.send_slice(&bytes, from.endpoint).is_ok();
            self.served.datagrams += u64::from(is_sent);
            has_moved = true;
        }
        let socket = self.sockets.get_mut::<udp::Socket<'_>>(self.outward);
        while let Ok((bytes, from)) = socket.recv() {
            let from = SocketAddr::new(from.endpoint.addr.into(), from.endpoint.port);
            self.datagrams.push((from, bytes.to_vec()));
            has_moved = true;
        }
        has_moved
    }
}
