//! The programs of the host under test: they accept, read, write, connect and close while packets come.
use super::kinds::{PORTS, at};
use crate::{
    Inet,
    tests::{
        sockets::{RECEIVE_MAX, Told, datagram},
        streams::world::*,
    },
};
use bpf::{PacketFacts, PacketProgram};
use interfaces::{
    nic::{ChecksumState, Packet, PacketSegment},
    sockets::*,
};
use labels::SecrecyId;
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};
use xorshift::Xorshift;

/// Connections that the programs hold, at most.
const STREAMS_MAX: usize = 12;
/// A filter that takes 96 bytes of packets whose byte 9 is not 3, and whole ones of an odd length.
const FILTER: [u64; 6] = [
    0x0000_0000_0000_0080,
    0x0000_0001_0000_0054,
    0x0000_0001_0001_0015,
    0x0000_0060_0000_0006,
    0xffff_ffff_0000_0006,
    0x0000_0000_0000_0006,
];

/// A socket of AF_PACKET that counts what its filter leaves.
pub struct Watcher {
    filter: PacketProgram,
    pub bytes: AtomicU64,
}

impl FrameTap for Watcher {
    fn see(&self, frame: &SeenFrame<'_>) {
        let facts = PacketFacts { protocol: frame.protocol, ..PacketFacts::default() };
        let Some(length) = self.filter.admit(frame.bytes, &facts) else { return };
        let mut copy = vec![0; length.min(frame.bytes.length())];
        assert!(frame.bytes.read(0, &mut copy) && frame.link_length <= frame.bytes.length());
        self.bytes.fetch_add(copy.len() as u64, Relaxed);
    }
    fn failed(&self, _: SocketError) {}
}

/// The program behind the tunnel, which drops what it gets.
struct TunnelProgram;

impl TunnelEnd for TunnelProgram {
    fn transmit(&self, batch: &mut Vec<Packet>) {
        batch.clear();
    }
    fn changed(&self, _: TunnelState) {}
    fn removed(&self) {}
    fn can_have_carrier(&self) -> bool {
        true
    }
    fn record(&self) -> TunnelRecord {
        TunnelRecord { flags: 1, owner: None, group: None, queues: 1, disabled_queues: 0 }
    }
    fn counts(&self) -> LinkCounts {
        LinkCounts::default()
    }
}

/// A socket of datagrams with its queue.
type DatagramProgram = (Arc<dyn DatagramSocket>, Arc<DatagramQueue>);

/// All programs of the host.
pub struct Programs {
    pub servers: Vec<Server>,
    pub streams: Vec<Program>,
    pub datagrams: Vec<DatagramProgram>,
    pub watcher: Arc<Watcher>,
    tap: Arc<dyn LinkTap>,
    pub tunnel: Arc<dyn Tunnel>,
    /// Connections that came to the listeners.
    pub accepted: u64,
    /// Datagrams that were read.
    pub heard: u64,
    /// Bytes that were read from streams.
    pub read: u64,
}

fn server(inet: &Arc<Inet>, families: SocketFamilies, end: &str, backlog: u32) -> Server {
    let program = Program::with(inet, families);
    let options =
        StreamOptions { fast_open_max: 4, saves_syn: backlog > 2, ..StreamOptions::default() };
    program.socket.configure(&options);
    Server::of(program, end, backlog)
}

fn open(inet: &Inet, protocol: DatagramProtocol, end: SocketAddr) -> DatagramProgram {
    let families = if end.is_ipv4() { SocketFamilies::V4 } else { SocketFamilies::V6 };
    let queue = Arc::new(DatagramQueue::new(Arc::new(Told::default()), RECEIVE_MAX));
    let owner = SocketOwner::default();
    let socket = inet.open_datagram(queue.clone(), protocol, families, owner).unwrap();
    let options = IpOptions {
        queues_errors: true,
        queues_errors6: true,
        reuses_address: true,
        ..IpOptions::default()
    };
    socket.configure(&options);
    socket.bind(end).unwrap();
    (socket, queue)
}

fn open_tunnel(inet: &Inet) -> Arc<dyn Tunnel> {
    let layer = TunnelLayer::Network;
    let request = TunnelRequest {
        name: "tun%d",
        number: None,
        layer,
        mac: [0; 6],
        has_carrier: true,
        label: SecrecyId::NONE,
    };
    let tunnel = inet.tunnels().unwrap().open(&request, Arc::new(TunnelProgram)).unwrap();
    let index = tunnel.index();
    let all = inet.administration();
    let change = LinkChange { index, flags: Some((1, 1)), ..LinkChange::default() };
    all.change(&NetworkChange::Link(change)).unwrap();
    let record = AddressRecord::new(index, "10.9.0.1".parse().unwrap(), 24);
    all.change(&NetworkChange::Address(record, EntryMode::Create)).unwrap();
    tunnel
}

impl Programs {
    /// Starts the programs.
    pub fn start(inet: &Arc<Inet>) -> Programs {
        let (four, six) = (SocketFamilies::V4, SocketFamilies::V6);
        inet.administration().set_parameter(NetworkParameter::TcpFastopen, &[3]).unwrap();
        let servers = vec![
            server(inet, four, "0.0.0.0:80", 2),
            server(inet, six, "[::]:81", 32),
            server(inet, SocketFamilies::Both, "[::]:82", 8),
        ];
        let wanted = [
            (DatagramProtocol::Udp, at("0.0.0.0", 53)),
            (DatagramProtocol::Udp, at("::", 54)),
            (DatagramProtocol::UdpLite, at("0.0.0.0", 53)),
            (DatagramProtocol::Ping, at("0.0.0.0", 7)),
            (DatagramProtocol::Ping, at("::", 7)),
            (DatagramProtocol::Raw(1), at("0.0.0.0", 0)),
            (DatagramProtocol::Raw(58), at("::", 0)),
            (DatagramProtocol::Raw(200), at("0.0.0.0", 0)),
        ];
        let datagrams: Vec<_> =
            wanted.into_iter().map(|(protocol, end)| open(inet, protocol, end)).collect();
        let filter = || Some(Arc::new(PacketProgram::new(&FILTER).unwrap()));
        datagrams[1].1.filter().set(filter());
        datagrams[7].1.filter().set(filter());
        for (place, group) in [(0, "239.1.2.3"), (1, "ff02::99")] {
            let membership = Membership { group: group.parse().unwrap(), interface: CARD.0 };
            datagrams[place].0.join(membership).unwrap();
        }
        let filter = PacketProgram::new(&FILTER).unwrap();
        let watcher = Arc::new(Watcher { filter, bytes: AtomicU64::new(0) });
        let tap = Network::taps(&**inet).open(watcher.clone(), SecrecyId::NONE);
        let binding = TapBinding { interface: None, protocol: Some(TapBinding::ALL) };
        tap.bind(binding).unwrap();
        let (streams, tunnel) = (Vec::new(), open_tunnel(inet));
        let (accepted, heard, read) = (0, 0, 0);
        Programs { servers, streams, datagrams, watcher, tap, tunnel, accepted, heard, read }
    }
    /// Gives the packet in a frame to the tunnel.
    pub fn write_to_tunnel(&self, frame: &[u8]) {
        let Some(packet) = frame.get(14..).filter(|packet| packet.len() < 65_536) else { return };
        let parts = packet.chunks(rt::PAGE_BYTES);
        let segments: Vec<PacketSegment> = parts
            .flat_map(|part| crate::BufferChain::copy_of(part).unwrap().into_pieces())
            .collect();
        let protocol = u16::from_be_bytes([frame[12], frame[13]]);
        let checksum = ChecksumState::Unknown;
        // Only an interface that is switched off refuses it.
        self.tunnel.receive(TunnelArrival { protocol, segments, checksum }).unwrap();
    }
    /// Lets a program make some of its calls.
    pub fn act(&mut self, inet: &Arc<Inet>, numbers: &mut Xorshift) {
        match numbers.below(8) {
            0 | 1 => self.accept(numbers),
            2 => self.connect(inet, numbers),
            3 => self.send(numbers),
            4 => self.receive(),
            5 => self.close(numbers),
            _ => self.transfer(numbers),
        }
    }
    fn accept(&mut self, numbers: &mut Xorshift) {
        let server = &self.servers[numbers.below(self.servers.len())];
        while let Some(child) = server.accept() {
            self.accepted += 1;
            if child.socket.take_saved_syn(200).is_ok_and(|syn| syn.len() > 120) {
                panic!("a header of more than 120 bytes was kept");
            }
            self.streams.push(child);
        }
        while self.streams.len() > STREAMS_MAX {
            self.streams.swap_remove(numbers.below(STREAMS_MAX));
        }
    }
    fn connect(&mut self, inet: &Arc<Inet>, numbers: &mut Xorshift) {
        let number = 64 + numbers.below(8);
        let end = match numbers.below(2) {
            0 => at(&format!("10.0.0.{number}"), 1000),
            _ => at(&format!("fd00::{number:x}"), 1000),
        };
        let families = if end.is_ipv4() { SocketFamilies::V4 } else { SocketFamilies::V6 };
        let program = Program::with(inet, families);
        let is_begun = match numbers.below(4) {
            0 => {
                program.write(&[5; 700]);
                program.socket.connect_with_data(end)
            }
            _ => program.socket.connect(end),
        };
        if is_begun.is_ok() {
            self.streams.push(program);
        }
    }
    fn transfer(&mut self, numbers: &mut Xorshift) {
        let place = numbers.below(self.streams.len());
        let Some(program) = self.streams.get(place) else { return };
        if numbers.chance(1, 2) {
            program.write(&vec![3; numbers.below(9000)]);
        }
        if numbers.chance(1, 2) {
            let most = [10, 5000, 100_000][numbers.below(3)];
            self.read += program.read(most).len() as u64;
        }
        match numbers.below(32) {
            0 => program.socket.shut_down_send(),
            1 => program.socket.mark_urgent(),
            2 => _ = program.socket.urgent_mark(),
            3 => _ = program.socket.info(),
            4 => program.stream.filter().set(None).map_or((), drop),
            _ => {}
        }
    }
    fn send(&mut self, numbers: &mut Xorshift) {
        let (socket, _) = &self.datagrams[numbers.below(5)];
        let host = 64 + numbers.below(8);
        let port = PORTS[numbers.below(PORTS.len())];
        let length = [4, 100, 1472, 9000][numbers.below(4)];
        let mut data = vec![8; length];
        let end = if socket.local().is_ipv4() {
            at(&format!("10.0.0.{host}"), port)
        } else {
            data[0] = 128;
            at(&format!("fd00::{host:x}"), port)
        };
        data[1..4].fill(0);
        // Errors that packets brought are told here.
        let _ = socket.send(datagram(Some(end), &data));
    }
    fn receive(&mut self) {
        for (_, queue) in &self.datagrams {
            while let Ok(Some(_)) | Err(_) = queue.take() {
                self.heard += 1;
            }
            while queue.take_report().is_some() {}
        }
    }
    fn close(&mut self, numbers: &mut Xorshift) {
        let place = numbers.below(self.streams.len().max(1));
        if self.streams.len() > 3 {
            let program = self.streams.swap_remove(place);
            match numbers.below(4) {
                0 => program.socket.close(CloseKind::Abort),
                1 => drop(program),
                _ => program.socket.close(CloseKind::Orderly),
            }
        }
    }
    /// Ends all programs.
    pub fn end(self) {
        for server in &self.servers {
            while server.accept().is_some() {}
        }
        self.datagrams.iter().for_each(|(socket, _)| socket.close());
        self.tap.close();
        self.tunnel.close();
    }
}
