//! Tunnels: interfaces with a program at their other end, which the test plays.
use super::{
    link::S,
    sockets::{RECEIVE_MAX, Told, bytes, datagram, end},
    streams::world::VirtualTime,
};
use crate::*;
use interfaces::{
    nic::{ChecksumState, Packet, PacketSegment},
    sockets::{
        AddressRecord, AdministrationError, DatagramProtocol, DatagramQueue, DatagramSocket,
        EntryMode, LinkChange, LinkCounts, LinkKind, LinkRecord, Network, NetworkAdministration,
        NetworkChange, SocketError, SocketFamilies, SocketOwner, Tunnel, TunnelArrival, TunnelEnd,
        TunnelLayer, TunnelRecord, TunnelRequest, TunnelState,
    },
};
use labels::SecrecyId;
use packet::Sum;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};

/// The program's end: it keeps what it is told.
#[derive(Default)]
struct Program {
    taken: Mutex<Vec<Vec<u8>>>,
    states: Mutex<Vec<TunnelState>>,
    removed: AtomicUsize,
    is_there: AtomicBool,
}

impl TunnelEnd for Program {
    fn transmit(&self, batch: &mut Vec<Packet>) {
        let whole = |packet: Packet| {
            let mut all = packet.header.as_slice().to_vec();
            for PacketSegment { frame, offset, length } in packet.segments {
                let start = all.len();
                all.resize(start + length as usize, 0);
                frame.read(offset as usize, &mut all[start..]);
            }
            all
        };
        self.taken.lock().unwrap().extend(batch.drain(..).map(whole));
    }
    fn changed(&self, state: TunnelState) {
        self.states.lock().unwrap().push(state);
    }
    fn removed(&self) {
        self.removed.fetch_add(1, Relaxed);
    }
    fn can_have_carrier(&self) -> bool {
        self.is_there.load(Relaxed)
    }
    fn record(&self) -> TunnelRecord {
        TunnelRecord { flags: 1, owner: Some(7), group: None, queues: 1, disabled_queues: 0 }
    }
    fn counts(&self) -> LinkCounts {
        LinkCounts { rx_packets: 3, tx_dropped: 4, ..LinkCounts::default() }
    }
}

struct Bench {
    inet: Arc<Inet>,
    all: Arc<dyn NetworkAdministration>,
}

struct Opened {
    program: Arc<Program>,
    tunnel: Arc<dyn Tunnel>,
}

impl Bench {
    fn new() -> Bench {
        let time = VirtualTime::default();
        time.0.store(S, Relaxed);
        let inet = Inet::new([3; 32], Arc::new(time));
        let all = inet.administration();
        Bench { inet, all }
    }
    fn try_open(&self, name: &str, layer: TunnelLayer) -> Result<Opened, AdministrationError> {
        let program = Arc::new(Program::default());
        let request = TunnelRequest {
            name,
            number: None,
            layer,
            mac: [2, 0, 0, 0, 0, 9],
            has_carrier: true,
            label: SecrecyId::NONE,
        };
        let tunnel = self.inet.tunnels().unwrap().open(&request, program.clone())?;
        Ok(Opened { program, tunnel })
    }
    fn open(&self, name: &str, layer: TunnelLayer) -> Opened {
        self.try_open(name, layer).unwrap()
    }
    fn link(&self, tunnel: &Opened) -> Option<LinkRecord> {
        self.all.links().into_iter().find(|link| link.index == tunnel.tunnel.index())
    }
    fn up(&self, tunnel: &Opened, address: &str, prefix_length: u8) {
        let index = tunnel.tunnel.index();
        let change = LinkChange { index, flags: Some((1, 1)), ..LinkChange::default() };
        self.all.change(&NetworkChange::Link(change)).unwrap();
        let record = AddressRecord::new(index, address.parse().unwrap(), prefix_length);
        self.all.change(&NetworkChange::Address(record, EntryMode::Create)).unwrap();
        tunnel.program.taken.lock().unwrap().clear();
    }
    fn udp(&self, address: &str) -> (Arc<dyn DatagramSocket>, Arc<DatagramQueue>) {
        let queue = Arc::new(DatagramQueue::new(Arc::new(Told::default()), RECEIVE_MAX));
        let (protocol, families) = (DatagramProtocol::Udp, SocketFamilies::V4);
        let owner = SocketOwner::default();
        let socket = self.inet.open_datagram(queue.clone(), protocol, families, owner).unwrap();
        socket.bind(end(address, 53)).unwrap();
        (socket, queue)
    }
}

impl Opened {
    fn write(&self, protocol: u16, bytes: &[u8]) -> Result<(), SocketError> {
        let parts = bytes.chunks(rt::PAGE_BYTES);
        let segments =
            parts.flat_map(|part| BufferChain::copy_of(part).unwrap().into_pieces()).collect();
        let checksum = ChecksumState::Unknown;
        self.tunnel.receive(TunnelArrival { protocol, segments, checksum })
    }
    fn taken(&self) -> Vec<Vec<u8>> {
        core::mem::take(&mut *self.program.taken.lock().unwrap())
    }
}

/// Returns the packet that goes the other way: addresses and ports change places, which leaves all sums right.
fn answer(packet: &[u8]) -> Vec<u8> {
    let mut back = packet.to_vec();
    back[12..16].copy_from_slice(&packet[16..20]);
    back[16..20].copy_from_slice(&packet[12..16]);
    back[20..22].copy_from_slice(&packet[22..24]);
    back[22..24].copy_from_slice(&packet[20..22]);
    back
}

#[test]
fn packets_have_no_header_of_a_link_and_need_no_neighbour() {
    let bench = Bench::new();
    let tunnel = bench.open("tun%d", TunnelLayer::Network);
    bench.up(&tunnel, "10.9.0.1", 24);
    let (socket, queue) = bench.udp("10.9.0.1");
    socket.send(datagram(Some(end("10.9.0.77", 53)), &[5; 300])).unwrap();
    let taken = tunnel.taken();
    assert_eq!(taken.len(), 1);
    assert_eq!((taken[0].len(), taken[0][0]), (328, 0x45));
    assert_eq!(taken[0][16..20], [10, 9, 0, 77]);
    assert_eq!(Sum::of(&taken[0][..20]).folded(), 0xffff);
    assert!(bench.all.neighbours().is_empty());
    tunnel.write(0x0800, &answer(&taken[0])).unwrap();
    let got = queue.take().unwrap().unwrap();
    assert_eq!((got.source, bytes(&got.payload)), (end("10.9.0.77", 53), vec![5; 300]));
    // What the program calls by another name is none of IP.
    tunnel.write(0x86dd, &answer(&taken[0])).unwrap();
    assert!(queue.take().unwrap().is_none());
}

#[test]
fn hostile_packets_are_dropped() {
    let bench = Bench::new();
    let tunnel = bench.open("tun%d", TunnelLayer::Network);
    assert_eq!(tunnel.write(0x0800, &[0x45; 40]), Err(SocketError::NetworkDown));
    bench.up(&tunnel, "10.9.0.1", 24);
    for length in [0, 1, 19, 20, 21, 300, 5000] {
        for protocol in [0, 0x0800, 0x0806, 0x86dd] {
            for first in [0, 0x45, 0x4f, 0x60] {
                let mut bytes = vec![0xff; length];
                bytes.iter_mut().take(1).for_each(|byte| *byte = first);
                tunnel.write(protocol, &bytes).unwrap();
            }
        }
    }
    assert!(tunnel.taken().is_empty());
}

#[test]
fn frames_have_a_header_and_neighbours_are_asked() {
    let bench = Bench::new();
    let tunnel = bench.open("tap%d", TunnelLayer::Link);
    bench.up(&tunnel, "10.9.0.1", 24);
    let (socket, _queue) = bench.udp("10.9.0.1");
    socket.send(datagram(Some(end("10.9.0.77", 53)), b"x")).unwrap();
    let taken = tunnel.taken();
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0][..14], [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 9, 8, 6]);
    let link = bench.link(&tunnel).unwrap();
    assert_eq!((link.kind, link.hardware, link.mac_origin), (LinkKind::Ethernet, 1, 1));
    assert_eq!((link.mtu_max, link.transmit_queue, link.flags & 0x1fff), (65_521, 1000, 0x1043));
    let mac = Some([2, 0, 0, 0, 0, 8]);
    let change = LinkChange { index: link.index, mac, ..LinkChange::default() };
    bench.all.change(&NetworkChange::Link(change)).unwrap();
    let link = bench.link(&tunnel).unwrap();
    assert_eq!((link.mac, link.mac_origin), ([2, 0, 0, 0, 0, 8], 3));
}

#[test]
fn names_are_chosen_and_numbers_are_never_used_again() {
    let bench = Bench::new();
    let name = |tunnel: &Opened| bench.link(tunnel).unwrap().name;
    let [first, second] = [0, 1].map(|_| bench.open("x%dy", TunnelLayer::Network));
    assert_eq!((name(&first), name(&second)), ("x0y".into(), "x1y".into()));
    let refused = |wanted| bench.try_open(wanted, TunnelLayer::Network).err();
    assert_eq!(refused("lo"), Some(AdministrationError::Exists));
    assert_eq!(refused("x0y"), Some(AdministrationError::Exists));
    assert_eq!(refused("x%s"), Some(AdministrationError::Invalid));
    assert_eq!(refused("x%d%d"), Some(AdministrationError::Invalid));
    first.tunnel.close();
    let third = bench.open("x%dy", TunnelLayer::Network);
    assert_eq!(name(&third), "x0y");
    assert!(third.tunnel.index() > second.tunnel.index());
    let open = |number| bench.try_open(&format!("n{number}"), TunnelLayer::Network);
    let all: Vec<_> = (0..1100).map_while(|number| open(number).ok()).collect();
    assert_eq!(all.len(), 1022, "a stack has 1,024");
}

#[test]
fn an_interface_goes_with_its_addresses_and_routes() {
    let bench = Bench::new();
    let before = bench.all.routes();
    let tunnel = bench.open("tun%d", TunnelLayer::Network);
    bench.up(&tunnel, "10.9.0.1", 24);
    let link = bench.link(&tunnel).unwrap();
    assert_eq!(
        (link.kind, link.hardware, link.address_length()),
        (LinkKind::Headerless, 0xfffe, 0)
    );
    assert_eq!((link.mtu_max, link.transmit_queue, link.operational), (65_535, 500, 0));
    assert_eq!(link.flags, 0x1_10d1);
    assert_eq!((link.counts.rx_packets, link.counts.tx_dropped, &*link.driver), (3, 4, "tun"));
    assert_eq!(link.tunnel.unwrap().owner, Some(7));
    let of_link: Vec<_> =
        bench.all.addresses().into_iter().filter(|one| one.interface == link.index).collect();
    assert_eq!(of_link.len(), 2, "its own, and one of the link, which nobody else is asked about");
    assert_eq!(of_link[1].flags, 0x880);
    assert!(bench.all.routes().len() > before.len());
    bench.all.change(&NetworkChange::RemoveLink(link.index)).unwrap();
    assert_eq!(bench.all.routes(), before);
    assert!(bench.link(&tunnel).is_none());
    assert!(!bench.all.addresses().iter().any(|one| one.interface == link.index));
    let again = bench.all.change(&NetworkChange::RemoveLink(link.index));
    assert_eq!(again, Err(AdministrationError::NoDevice));
    let other = bench.all.change(&NetworkChange::RemoveLink(1));
    assert_eq!(other, Err(AdministrationError::Unsupported));
    tunnel.tunnel.close();
    assert_eq!(tunnel.program.removed.load(Relaxed), 1);
    assert_eq!(tunnel.tunnel.set_hardware(1), Err(SocketError::NoInterface));
}

#[test]
fn the_end_hears_of_the_interface() {
    let bench = Bench::new();
    let tunnel = bench.open("tun%d", TunnelLayer::Network);
    assert_eq!(tunnel.tunnel.set_hardware(65_534), Ok(()));
    bench.up(&tunnel, "10.9.0.1", 24);
    assert_eq!(tunnel.tunnel.set_hardware(1), Err(SocketError::InUse));
    let index = tunnel.tunnel.index();
    let change = |change: LinkChange| bench.all.change(&NetworkChange::Link(change));
    change(LinkChange { index, has_carrier: Some(false), ..LinkChange::default() }).unwrap();
    assert_eq!(bench.link(&tunnel).unwrap().operational, 2);
    let refused = change(LinkChange { index, has_carrier: Some(true), ..LinkChange::default() });
    assert_eq!(refused, Err(AdministrationError::NotPermitted), "no program is at the end");
    tunnel.program.is_there.store(true, Relaxed);
    change(LinkChange { index, has_carrier: Some(true), ..LinkChange::default() }).unwrap();
    let link = bench.link(&tunnel).unwrap();
    assert_eq!((link.operational, link.carrier_changes), (6, 2));
    change(LinkChange { index, transmit_queue: Some(9), ..LinkChange::default() }).unwrap();
    let states: Vec<_> = core::mem::take(&mut *tunnel.program.states.lock().unwrap());
    let shown: Vec<_> =
        states.iter().map(|one| (one.is_up, one.has_carrier, one.transmit_queue)).collect();
    let expected = [
        (false, true, 500),
        (true, true, 500),
        (true, false, 500),
        (true, true, 500),
        (true, true, 9),
    ];
    assert_eq!(shown, expected);
}
