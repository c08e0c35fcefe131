//! Sockets of datagrams on a host, with their queues.
use super::link::Station;
use crate::*;
use interfaces::sockets::{
    DatagramProtocol, DatagramQueue, ErrorReport, IpOptions, Membership, Payload, ReceivedDatagram,
    SentDatagram, SocketEvents, SocketFamilies, SocketObserver, SocketOwner,
};
use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Memory of a queue by default (`net.core.rmem_default`).
pub const RECEIVE_MAX: usize = 212_992;

/// Counts of what a socket was told: datagrams, errors.
#[derive(Default)]
pub struct Told([AtomicUsize; 2]);

impl Told {
    pub fn counts(&self) -> [usize; 2] {
        self.0.each_ref().map(|count| count.load(Ordering::Relaxed))
    }
}

impl SocketObserver for Told {
    fn notify(&self, events: SocketEvents) {
        for (event, count) in [SocketEvents::READABLE, SocketEvents::ERROR].iter().zip(&self.0) {
            count.fetch_add(usize::from(events.contains(*event)), Ordering::Relaxed);
        }
    }
}

/// A socket and its queue.
pub struct Socket {
    pub end: DatagramHandle,
    pub queue: Arc<DatagramQueue>,
    pub told: Arc<Told>,
    options: std::cell::Cell<IpOptions>,
}

/// Returns an address and a port.
pub fn end(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), port)
}

/// Returns the bytes of a payload.
pub fn bytes(payload: &Payload) -> Vec<u8> {
    let mut bytes = vec![0; payload.length()];
    assert_eq!(payload.read(0, &mut bytes), bytes.len());
    bytes
}

/// Returns a datagram without special wishes.
pub fn datagram(destination: Option<SocketAddr>, data: &[u8]) -> SentDatagram {
    SentDatagram {
        destination,
        source: None,
        interface: None,
        hop_limit: None,
        traffic_class: None,
        segment: None,
        header_options: None,
        extensions: None,
        payload: Payload::Bytes(data.into()),
    }
}

impl Socket {
    pub fn of_stack<B: Buffer>(
        stack: &Stack<B>,
        protocol: DatagramProtocol,
        families: SocketFamilies,
    ) -> Socket {
        let told = Arc::new(Told::default());
        let queue = Arc::new(DatagramQueue::new(told.clone(), RECEIVE_MAX));
        let owner = SocketOwner::default();
        let end = stack.datagram_open(Arc::clone(&queue), protocol, families, owner);
        Socket { end, queue, told, options: IpOptions::default().into() }
    }
    pub fn open(station: &Station, protocol: DatagramProtocol, families: SocketFamilies) -> Socket {
        Socket::of_stack(&station.stack, protocol, families)
    }
    pub fn udp(station: &Station, families: SocketFamilies) -> Socket {
        Socket::open(station, DatagramProtocol::Udp, families)
    }
    pub fn bind(&self, station: &mut Station, to: SocketAddr) -> Result<(), SocketError> {
        station.run(|stack, run| stack.datagram_bind(run, &self.end, to))
    }
    pub fn connect(
        &self,
        station: &mut Station,
        peer: Option<SocketAddr>,
    ) -> Result<(), SocketError> {
        station.run(|stack, run| stack.datagram_connect(run, &self.end, peer))
    }
    pub fn send(
        &self,
        station: &mut Station,
        to: Option<SocketAddr>,
        data: &[u8],
    ) -> Result<(), SocketError> {
        self.send_with(station, &datagram(to, data))
    }
    pub fn send_with(
        &self,
        station: &mut Station,
        datagram: &SentDatagram,
    ) -> Result<(), SocketError> {
        station.run(|stack, run| stack.datagram_send(run, &self.end, datagram.clone()))
    }
    pub fn configure(&self, station: &Station, change: impl FnOnce(&mut IpOptions)) {
        let mut options = self.options.get();
        change(&mut options);
        self.options.set(options);
        station.stack.datagram_configure(&self.end, &options);
    }
    pub fn join(
        &self,
        station: &mut Station,
        group: &str,
        interface: u32,
    ) -> Result<(), SocketError> {
        let membership = Membership { group: group.parse().unwrap(), interface };
        station.run(|stack, run| stack.datagram_join(run, &self.end, membership))
    }
    pub fn leave(
        &self,
        station: &mut Station,
        group: &str,
        interface: u32,
    ) -> Result<(), SocketError> {
        let membership = Membership { group: group.parse().unwrap(), interface };
        station.run(|stack, run| stack.datagram_leave(run, &self.end, membership))
    }
    pub fn close(&self, station: &mut Station) {
        station.run(|stack, run| stack.datagram_close(run, &self.end));
    }
    pub fn local(&self, station: &Station) -> SocketAddr {
        station.stack.datagram_local(&self.end)
    }
    pub fn peer(&self, station: &Station) -> Option<SocketAddr> {
        station.stack.datagram_peer(&self.end)
    }
    pub fn take(&self) -> Option<ReceivedDatagram> {
        self.queue.take().unwrap()
    }
    pub fn receive(&self) -> Option<(SocketAddr, Vec<u8>)> {
        self.take().map(|one| (one.source, bytes(&one.payload)))
    }
    pub fn error(&self) -> Option<SocketError> {
        self.queue.take().err()
    }
    pub fn report(&self) -> Option<ErrorReport> {
        self.queue.take_report()
    }
}

/// Raw sockets that hear all messages of ICMP and ICMPv6 of a host.
pub struct Ears([Socket; 2]);

impl Ears {
    pub fn new(stack: &Stack<SharedBytes>) -> Ears {
        let families = [(1, SocketFamilies::V4), (58, SocketFamilies::V6)];
        Ears(families.map(|(number, families)| {
            Socket::of_stack(stack, DatagramProtocol::Raw(number), families)
        }))
    }
    /// Returns the memory of both queues.
    pub fn charged(&self) -> usize {
        self.0.iter().map(|socket| socket.queue.usage().0).sum()
    }
    pub fn close(&self, station: &mut Station) {
        self.0.iter().for_each(|socket| socket.close(station));
    }
    /// Takes the messages that came, with their senders, but no requests for echo, neighbours, routers and groups.
    pub fn heard(&self) -> Vec<(IpAddr, Vec<u8>)> {
        let mut all = Vec::new();
        for (socket, of_header) in self.0.iter().zip([20, 0]) {
            while let Some((source, mut message)) = socket.receive() {
                message.drain(..of_header);
                if of_header > 0 && message[0] != 8
                    || of_header == 0 && message[0] < 130 && message[0] != 128
                {
                    all.push((source.ip(), message));
                }
            }
        }
        all
    }
}
