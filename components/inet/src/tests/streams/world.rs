//! Programs on hosts with virtual time: sockets of streams, and a link between two hosts that loses, repeats, delays and damages.
use crate::{tests::link::ip, *};
use interfaces::{
    nic::PacketSegment,
    sockets::{
        Acceptor, MoreData, Network, SocketEvents, SocketFamilies, SocketObserver, SocketOwner,
        Stream, StreamSocket, StreamState,
    },
};
use labels::SecrecyId;
use rt::{NoMemory, memory::Frame};
use std::{
    collections::{BinaryHeap, VecDeque},
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering},
    },
};
use xorshift::Xorshift;

/// A second.
pub const S: u64 = 1_000_000_000;
/// A millisecond.
pub const MS: u64 = 1_000_000;
/// The card of each host.
pub const CARD: InterfaceIndex = InterfaceIndex(2);
/// The buffers of a socket, as Linux has them at first.
pub const SEND_ROOM: usize = 87_040;
pub const RECEIVE_ROOM: usize = 131_072;

/// A clock that the test sets.
#[derive(Default)]
pub struct VirtualTime(pub AtomicU64);

impl InetClock for VirtualTime {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The events that a program was told of.
#[derive(Default)]
pub struct Told(AtomicU8);

impl SocketObserver for Told {
    fn notify(&self, events: SocketEvents) {
        self.0.fetch_or(events.bits(), Ordering::Relaxed);
    }
}

impl Told {
    pub fn take(&self) -> SocketEvents {
        SocketEvents::from_bits_truncate(self.0.swap(0, Ordering::Relaxed))
    }
}

/// A program's socket.
pub struct Program {
    pub stream: Arc<Stream>,
    pub socket: Arc<dyn StreamSocket>,
    pub told: Arc<Told>,
}

pub fn stream() -> (Arc<Stream>, Arc<Told>) {
    let told = Arc::new(Told::default());
    (Arc::new(Stream::new(told.clone(), SEND_ROOM, RECEIVE_ROOM)), told)
}

impl Program {
    pub fn new(inet: &Arc<Inet>) -> Program {
        Program::with(inet, SocketFamilies::V4)
    }
    pub fn with(inet: &Arc<Inet>, families: SocketFamilies) -> Program {
        Program::labelled(inet, families, SecrecyId::NONE)
    }
    /// Makes a socket of a secrecy.
    pub fn labelled(inet: &Arc<Inet>, families: SocketFamilies, label: SecrecyId) -> Program {
        let (stream, told) = stream();
        let owner = SocketOwner { user: 1, inode: 7, label };
        let socket = inet.open_stream(stream.clone(), families, owner).unwrap();
        Program { stream, socket, told }
    }
    /// Writes as much of `data` as there is room for.
    pub fn write(&self, data: &[u8]) -> usize {
        let copy = |frames: &[Frame], offset: usize, length: usize| {
            let mut done = 0;
            for (number, frame) in frames.iter().enumerate() {
                let at = if number == 0 { offset } else { 0 };
                done += frame.write(at, &data[done..length]);
            }
            Ok::<_, NoMemory>(done)
        };
        let count = self.stream.write(data.len(), copy).unwrap();
        self.socket.written(MoreData::No);
        count
    }
    /// Reads at most `most` bytes.
    pub fn read(&self, most: usize) -> Vec<u8> {
        let mut found = Vec::new();
        let copy = |frame: &Frame, offset: usize, length: usize| {
            let mut bytes = vec![0; length];
            frame.read(offset, &mut bytes);
            found.extend(bytes);
            Ok::<_, NoMemory>(length)
        };
        self.stream.read(most, copy).unwrap();
        if self.stream.is_read_awaited() {
            self.socket.read();
        }
        found
    }
    pub fn is(&self, state: StreamState) -> bool {
        self.stream.state().contains(state)
    }
}

/// A program that listens.
#[derive(Default)]
pub struct Accepting {
    pub children: Mutex<VecDeque<Program>>,
    made: Mutex<Vec<(Arc<Stream>, Arc<Told>)>>,
    /// A stack that dies before it has told of its next connection.
    pub dying: Mutex<Option<Arc<Inet>>>,
}

impl Acceptor for Accepting {
    fn stream(&self) -> Option<Arc<Stream>> {
        let (stream, told) = stream();
        self.made.lock().unwrap().push((stream.clone(), told));
        Some(stream)
    }
    fn arrived(&self, stream: Arc<Stream>, socket: Arc<dyn StreamSocket>) {
        if let Some(inet) = self.dying.lock().unwrap().take() {
            return inet.retire();
        }
        let mut made = self.made.lock().unwrap();
        let place = made.iter().position(|(other, _)| Arc::ptr_eq(other, &stream)).unwrap();
        let (_, told) = made.swap_remove(place);
        self.children.lock().unwrap().push_back(Program { stream, socket, told });
    }
}

/// A listener and its children.
pub struct Server {
    pub program: Program,
    pub accepting: Arc<Accepting>,
}

impl Server {
    pub fn new(inet: &Arc<Inet>, end: &str, backlog: u32) -> Server {
        Server::of(Program::new(inet), end, backlog)
    }
    pub fn of(program: Program, end: &str, backlog: u32) -> Server {
        let accepting = Arc::new(Accepting::default());
        program.socket.bind(end.parse().unwrap()).unwrap();
        program.socket.listen(backlog, accepting.clone()).unwrap();
        Server { program, accepting }
    }
    pub fn waiting(&self) -> usize {
        self.accepting.children.lock().unwrap().len()
    }
    pub fn accept(&self) -> Option<Program> {
        let child = self.accepting.children.lock().unwrap().pop_front()?;
        self.program.socket.accepted();
        Some(child)
    }
}

/// Memory that outlives a stack, and the number of bytes that can still be written to it.
pub struct Memory(pub Mutex<(Vec<u8>, usize)>);

impl Memory {
    pub fn new(length: usize) -> Memory {
        Memory(Mutex::new((vec![0; length], usize::MAX)))
    }
}

impl KeptArea for Memory {
    fn length(&self) -> usize {
        self.0.lock().unwrap().0.len()
    }
    fn write(&self, at: usize, bytes: &[u8]) {
        let mut memory = self.0.lock().unwrap();
        let count = bytes.len().min(memory.1);
        memory.1 -= count;
        memory.0.iter_mut().skip(at).zip(&bytes[..count]).for_each(|(place, byte)| *place = *byte);
    }
    fn read(&self, at: usize, out: &mut [u8]) {
        out.fill(0);
        let memory = self.0.lock().unwrap();
        memory.0.iter().skip(at).zip(out).for_each(|(byte, place)| *place = *byte);
    }
    fn refused(&self, bytes: usize) {
        panic!("{bytes} bytes do not fit");
    }
}

/// A host.
pub struct Host {
    pub inet: Arc<Inet>,
    pub time: Arc<VirtualTime>,
    memory: Arc<Memory>,
}

impl Host {
    pub fn new(seed: u8) -> Host {
        let time = Arc::new(VirtualTime(AtomicU64::new(1000 * S)));
        let memory = Arc::new(Memory::new(1 << 16));
        let (inet, has_predecessor) = Inet::resume([seed; 32], time.clone(), memory.clone());
        assert!(!has_predecessor);
        Host::of(inet, time, memory)
    }
    pub fn of(inet: Arc<Inet>, time: Arc<VirtualTime>, memory: Arc<Memory>) -> Host {
        Host { inet, time, memory }
    }
    /// Lets time pass, and runs the timers.
    pub fn wait(&self, ns: u64) {
        let end = self.time.now_ns() + ns;
        loop {
            let next = self.inet.poll();
            if next > end {
                break;
            }
            self.time.0.fetch_max(next, Ordering::Relaxed);
        }
        self.time.0.store(end, Ordering::Relaxed);
        self.inet.poll();
    }
    pub fn connect(&self, end: &str) -> Program {
        let program = Program::new(&self.inet);
        program.socket.connect(end.parse().unwrap()).unwrap();
        program
    }
    /// Returns the numbers of flows, claims on ports, and armed timers.
    pub fn counts(&self) -> (usize, usize, usize) {
        let streams = self.inet.streams();
        (streams.flows.all().len(), streams.ports.count(), streams.timers.count())
    }
}

/// Returns the byte at `offset` of a test's data.
pub fn byte(offset: usize) -> u8 {
    (offset as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0]
}

/// Frames on their way, and the weather.
#[derive(Clone, Copy, Default)]
pub struct Weather {
    pub loss: u64,
    pub repeats: u64,
    pub damage: u64,
    pub jitter_ms: u64,
}

/// The sending side of a card: frames that wait for the test.
pub struct Cable {
    pub frames: Mutex<VecDeque<Vec<u8>>>,
    /// Packets, of which some were cut into frames.
    pub packets: AtomicUsize,
    pub offloads: LinkOffloads,
}

impl Cable {
    pub fn new(offloads: LinkOffloads) -> Arc<Cable> {
        Arc::new(Cable { frames: Mutex::default(), packets: AtomicUsize::new(0), offloads })
    }
}

impl PacketLink for Cable {
    fn transmit(&self, batch: &mut Vec<Departure<PacketSegment>>) {
        let mut frames = self.frames.lock().unwrap();
        self.packets.fetch_add(batch.len(), Ordering::Relaxed);
        for packet in batch.drain(..) {
            let is_cut = packet.offload.is_some_and(|offload| offload.segment.is_some());
            if is_cut && self.offloads.contains(LinkOffloads::CUT_TCP) {
                let cut = cut_tcp(packet, 14, PartChecksum::Written, |headers, payload| {
                    frames.push_back([headers, &payload.to_vec()].concat());
                });
                cut.expect("the packet is one of TCP");
                continue;
            }
            assert!(packet.offload.is_none() || !self.offloads.is_empty());
            frames.push_back([packet.headers.as_slice(), &packet.payload.to_vec()].concat());
        }
    }
    fn offloads(&self) -> LinkOffloads {
        self.offloads
    }
}

/// Gives the stack of a host a card.
fn cable(inet: &Inet) -> Arc<Cable> {
    let cable = Cable::new(LinkOffloads::empty());
    inet.set_link(CARD, Some(cable.clone()));
    cable
}

/// Adds the interface of a host's card.
fn add_card(host: usize, inet: &Inet) {
    let number = host as u8 + 1;
    let mut card = Interface::ethernet(CARD, "eth0", [2, 0, 0, 0, 0, number], 1500);
    card.flags |= InterfaceFlags::UP | InterfaceFlags::RUNNING;
    let addresses = [(format!("10.0.0.{number}"), 24), (format!("fd00::{number}"), 64)];
    card.addresses = addresses
        .iter()
        .map(|(text, length)| InterfaceAddress::new(ip(text), *length).unwrap())
        .collect();
    inet.stack().configure(|all| all.add_interface(card)).unwrap();
}

/// A frame on its way: time of arrival, number, host that gets it, bytes.
type OnTheWay = (u64, u64, usize, Vec<u8>);

/// Two hosts, 10.0.0.1 and 10.0.0.2, and a link.
pub struct Pair {
    pub hosts: [Host; 2],
    pub cables: [Arc<Cable>; 2],
    pub weather: Weather,
    on_the_way: BinaryHeap<std::cmp::Reverse<OnTheWay>>,
    random: Xorshift,
    count: u64,
}

impl Pair {
    pub fn new(seed: u64, weather: Weather) -> Pair {
        let hosts = [Host::new(1), Host::new(2)];
        let cables = [0, 1].map(|place| {
            add_card(place, &hosts[place].inet);
            cable(&hosts[place].inet)
        });
        let random = Xorshift::new(seed);
        Pair { hosts, cables, weather, on_the_way: BinaryHeap::new(), random, count: 0 }
    }
    /// Gives a host another card.
    pub fn set_card(&mut self, host: usize, offloads: LinkOffloads) {
        self.cables[host] = Cable::new(offloads);
        self.hosts[host].inet.set_link(CARD, Some(self.cables[host].clone()));
    }
    /// Retires the stack of a host, and gives the host a successor with a fresh card. Returns the old one, whose frames go nowhere
    /// from now on.
    pub fn replace(&mut self, host: usize) -> Arc<Inet> {
        self.collect();
        let Host { inet, time, memory } = &mut self.hosts[host];
        inet.retire();
        let (next, has_predecessor) = Inet::resume([9; 32], time.clone(), memory.clone());
        assert!(has_predecessor);
        self.cables[host] = cable(&next);
        std::mem::replace(inet, next)
    }
    fn chance(&mut self, per_mille: u64) -> bool {
        self.random.chance(per_mille, 1000)
    }
    /// Takes the frames that were sent, and puts them on the way.
    fn collect(&mut self) {
        for from in 0..2 {
            let frames = std::mem::take(&mut *self.cables[from].frames.lock().unwrap());
            for mut frame in frames {
                let copies = if self.chance(self.weather.repeats) { 2 } else { 1 };
                for _ in 0..copies {
                    if self.chance(self.weather.loss) {
                        continue;
                    }
                    if self.chance(self.weather.damage) {
                        let place = self.random.below(frame.len());
                        frame[place] ^= 1 << self.random.below(8);
                    }
                    let delay = MS + self.random.next() % (self.weather.jitter_ms * MS + 1);
                    self.count += 1;
                    let at = self.hosts[0].time.now_ns() + delay;
                    let entry = (at, self.count, 1 - from, frame.clone());
                    self.on_the_way.push(std::cmp::Reverse(entry));
                }
            }
        }
    }
    /// Goes on to the next event, at most `most_ns` later.
    pub fn step(&mut self, most_ns: u64) {
        self.collect();
        let now = self.hosts[0].time.now_ns();
        let frame = self.on_the_way.peek().map_or(u64::MAX, |entry| entry.0.0);
        let timers = self.hosts.iter().map(|host| host.inet.poll()).min().unwrap();
        let next = frame.min(timers).clamp(now, now + most_ns);
        self.hosts.iter().for_each(|host| host.time.0.store(next, Ordering::Relaxed));
        self.hosts.iter().for_each(|host| _ = host.inet.poll());
        while self.on_the_way.peek().is_some_and(|entry| entry.0.0 <= next) {
            let (_, _, to, frame) = self.on_the_way.pop().unwrap().0;
            self.give(to, &frame);
        }
    }
    /// Gives a frame to a host.
    pub fn give(&self, to: usize, frame: &[u8]) {
        let payload = BufferChain::copy_of(frame).unwrap();
        let checksum = TransportChecksum::Unverified;
        let frame = ReceivedFrame { payload, checksum, segment: None, acks: 0 };
        self.hosts[to].inet.received(CARD, &mut vec![frame]);
    }
    /// Lets time pass.
    pub fn wait(&mut self, ns: u64) {
        let end = self.hosts[0].time.now_ns() + ns;
        while self.hosts[0].time.now_ns() < end {
            let rest = end - self.hosts[0].time.now_ns();
            self.step(rest);
        }
    }
    /// Goes on until `is_done`, for `most_s` seconds at most. Returns whether it came about.
    pub fn until(&mut self, most_s: u64, mut is_done: impl FnMut(&mut Pair) -> bool) -> bool {
        let end = self.hosts[0].time.now_ns() + most_s * S;
        while self.hosts[0].time.now_ns() < end {
            if is_done(self) {
                return true;
            }
            self.step(10 * MS);
        }
        false
    }
}

/// Parses an address and a port.
pub fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// One end of a transfer.
pub struct End {
    pub program: Program,
    pub sent: usize,
    pub got: Vec<u8>,
    /// Its direction has ended.
    pub is_shut: bool,
}

impl End {
    pub fn new(program: Program) -> End {
        End { program, sent: 0, got: Vec::new(), is_shut: false }
    }
    /// Writes and reads what is possible, and ends the direction when all is written.
    pub fn work(&mut self, data: &[u8]) {
        let next = (self.sent + 20_000).min(data.len());
        self.sent += self.program.write(&data[self.sent..next]);
        self.got.extend(self.program.read(30_000));
        if self.sent == data.len() && !self.is_shut {
            self.is_shut = true;
            self.program.socket.shut_down_send();
        }
    }
    pub fn is_done(&self) -> bool {
        self.is_shut
            && self.program.is(StreamState::RECEIVE_ENDED)
            && self.program.stream.readable() == 0
    }
}
