//! A stack behind its client's proxy, as if in another world, and its successors.
use crate::StackComponent;
use inet::KeptArea;
use interfaces::{
    AttachError,
    call::{Again, Failure},
    nic::{Nic, NicInfo},
    sockets::{
        Acceptor, CloseKind, DatagramProtocol, DatagramQueue, DatagramSocket, LinkChange, MoreData,
        Network, NetworkChange, Payload, SentDatagram, SocketEvents, SocketFamilies,
        SocketObserver, SocketOwner, Stream, StreamSocket, StreamState,
        remote::{ControlChannel, ControlHandler, NetworkProxy, NetworkService, StackServer},
    },
};
use labels::SecrecyId;
use rt::{
    NoMemory,
    memory::{Frame, FrameId, Region, attach_pool},
    message::Error,
    ring::Part,
};
use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Condvar, Mutex, atomic::Ordering::SeqCst, mpsc},
    thread,
};

const OWNER: SocketOwner = SocketOwner { user: 1, inode: 7, label: SecrecyId::NONE };
const LOOPBACK: u32 = 1;
const IFF_UP: u32 = 1;

/// Memory that outlives a stack.
struct Kept(Mutex<Vec<u8>>);

impl KeptArea for Kept {
    fn length(&self) -> usize {
        self.0.lock().unwrap().len()
    }
    fn write(&self, at: usize, bytes: &[u8]) {
        self.0.lock().unwrap()[at..at + bytes.len()].copy_from_slice(bytes);
    }
    fn read(&self, at: usize, out: &mut [u8]) {
        out.copy_from_slice(&self.0.lock().unwrap()[at..at + out.len()]);
    }
    fn refused(&self, bytes: usize) {
        panic!("{bytes} bytes do not fit");
    }
}

/// A stack that lives, and its service.
struct Life {
    component: Arc<StackComponent>,
    service: Arc<NetworkService>,
    handler: Arc<dyn ControlHandler>,
}

impl Life {
    fn new(area: &Arc<Kept>) -> Life {
        let component = Arc::new(StackComponent::start(Some(area.clone())).unwrap());
        let service = NetworkService::new(component.clone());
        let handler = service.handler();
        Life { component, service, handler }
    }
}

/// The way to the stack that lives, and the rings that it got.
#[derive(Clone)]
struct Direct(Arc<Mutex<Life>>, Arc<Mutex<Option<Region>>>);

impl Direct {
    fn service(&self) -> Arc<NetworkService> {
        self.0.lock().unwrap().service.clone()
    }
}

impl StackServer for Direct {
    fn attach(&self, rings: Region, cards: &[NicInfo]) -> Result<(), AttachError> {
        *self.1.lock().unwrap() = Some(rings.clone());
        self.service().attach(rings, cards.to_vec())
    }
    fn add_pool(&self, region: Region, first: FrameId) -> Result<(), AttachError> {
        // The process of every life has the pools of the first one.
        let _ = attach_pool(region, first);
        Ok(())
    }
}

impl ControlChannel for Direct {
    fn exchange(&self, request: &[u8], again: Again, answer: &mut Vec<u8>) -> Result<(), Failure> {
        loop {
            answer.clear();
            let handler = self.0.lock().unwrap().handler.clone();
            handler.handle(request, answer);
            // The answer of one that died meanwhile is lost.
            match Arc::ptr_eq(&handler, &self.0.lock().unwrap().handler) {
                true => return Ok(()),
                false if again == Again::Never => return Err(Failure::Lost(Error::Restarted)),
                false => {}
            }
        }
    }
    fn report_corrupt(&self) {
        panic!("the stack breaks the protocol");
    }
}

/// A stack, its client, and the memory of the stack.
struct World {
    area: Arc<Kept>,
    direct: Direct,
    proxy: Arc<NetworkProxy>,
}

impl World {
    fn new(nics: Vec<Arc<dyn Nic>>) -> World {
        World::blaming(nics, || panic!("the stack breaks the protocol"))
    }
    /// Calls `on_corrupt` if the stack is to be ended.
    fn blaming(nics: Vec<Arc<dyn Nic>>, on_corrupt: impl Fn() + Send + Sync + 'static) -> World {
        let area = Arc::new(Kept(Mutex::new(vec![0; 1 << 16])));
        let direct = Direct(Arc::new(Mutex::new(Life::new(&area))), Arc::default());
        let on_corrupt = Box::new(on_corrupt);
        let ways = (Box::new(direct.clone()) as _, Arc::new(direct.clone()) as _);
        let proxy = NetworkProxy::new(ways, nics, on_corrupt).unwrap();
        let up =
            LinkChange { index: LOOPBACK, flags: Some((IFF_UP, IFF_UP)), ..LinkChange::default() };
        proxy.administration().change(&NetworkChange::Link(up)).unwrap();
        World { area, direct, proxy }
    }
    /// Kills the stack, and starts its successor.
    fn kill(&self) {
        {
            let mut life = self.direct.0.lock().unwrap();
            life.service.die();
            life.component.inet().retire();
            *life = Life::new(&self.area);
        }
        self.proxy.restarted().unwrap();
    }
}

/// A program that waits for events of its socket.
#[derive(Default)]
struct Wakes {
    count: Mutex<u64>,
    changed: Condvar,
}

impl SocketObserver for Wakes {
    fn notify(&self, _: SocketEvents) {
        *self.count.lock().unwrap() += 1;
        self.changed.notify_all();
    }
}

impl Wakes {
    /// Waits until `done` returns something.
    fn until<T>(&self, mut done: impl FnMut() -> Option<T>) -> T {
        loop {
            let before = *self.count.lock().unwrap();
            if let Some(result) = done() {
                return result;
            }
            let count = self.count.lock().unwrap();
            drop(self.changed.wait_while(count, |count| *count == before).unwrap());
        }
    }
}

/// A program's stream socket.
pub struct Program {
    stream: Arc<Stream>,
    pub socket: Arc<dyn StreamSocket>,
    wakes: Arc<Wakes>,
}

fn stream() -> (Arc<Stream>, Arc<Wakes>) {
    let wakes = Arc::new(Wakes::default());
    (Arc::new(Stream::new(wakes.clone(), 87_040, 131_072)), wakes)
}

impl Program {
    fn new(network: &dyn Network) -> Program {
        Program::of(network, SocketFamilies::V4)
    }
    /// Makes a socket for names like `end`.
    pub fn like(network: &dyn Network, end: SocketAddr) -> Program {
        Program::of(network, if end.is_ipv4() { SocketFamilies::V4 } else { SocketFamilies::V6 })
    }
    fn of(network: &dyn Network, families: SocketFamilies) -> Program {
        let (stream, wakes) = stream();
        let socket = network.open_stream(stream.clone(), families, OWNER).unwrap();
        Program { stream, socket, wakes }
    }
    fn connect(network: &dyn Network, end: SocketAddr) -> Program {
        let program = Program::new(network);
        program.socket.connect(end).unwrap();
        program.wakes.until(|| {
            assert_eq!(program.stream.take_error(), None);
            program.stream.state().contains(StreamState::CONNECTED).then_some(())
        });
        program
    }
    fn write_all(&self, data: &[u8]) {
        let mut at = 0;
        while at < data.len() {
            at += self.wakes.until(|| Some(self.try_write(&data[at..])).filter(|count| *count > 0));
        }
    }
    /// Writes as much of `data` as there is room for. Returns the number of bytes.
    pub fn try_write(&self, data: &[u8]) -> usize {
        assert_eq!(self.stream.take_error(), None);
        let copy = |frames: &[Frame], offset: usize, length: usize| {
            let mut done = 0;
            for (number, frame) in frames.iter().enumerate() {
                let at = if number == 0 { offset } else { 0 };
                done += frame.write(at, &data[done..length]);
            }
            Ok::<_, NoMemory>(done)
        };
        let count = self.stream.write(data.len(), copy).unwrap();
        if count > 0 {
            self.socket.written(MoreData::No);
        }
        count
    }
    /// Reads `length` bytes, or until the end.
    fn read(&self, length: usize) -> Vec<u8> {
        let mut found = Vec::new();
        while found.len() < length {
            let ended = self.wakes.until(|| {
                assert_eq!(self.stream.take_error(), None);
                let is_over = self.stream.state().contains(StreamState::RECEIVE_ENDED);
                let part = self.read_present(length - found.len());
                found.extend(&part);
                if !part.is_empty() {
                    return Some(false);
                }
                is_over.then_some(true)
            });
            self.tell_of_read();
            if ended {
                break;
            }
        }
        found
    }
    /// Reads what there is.
    pub fn try_read(&self) -> Vec<u8> {
        assert_eq!(self.stream.take_error(), None);
        let found = self.read_present(usize::MAX);
        self.tell_of_read();
        found
    }
    fn read_present(&self, length: usize) -> Vec<u8> {
        let mut found = Vec::new();
        let copy = |frame: &Frame, offset: usize, length: usize| {
            let mut bytes = vec![0; length];
            frame.read(offset, &mut bytes);
            found.extend(bytes);
            Ok::<_, NoMemory>(length)
        };
        self.stream.read(length, copy).unwrap();
        found
    }
    fn tell_of_read(&self) {
        if self.stream.is_read_awaited() {
            self.socket.read();
        }
    }
}

/// A listener's program.
#[derive(Default)]
pub struct Accepting {
    made: Mutex<Vec<(Arc<Stream>, Arc<Wakes>)>>,
    children: Mutex<VecDeque<Program>>,
    wakes: Wakes,
}

impl Acceptor for Accepting {
    fn stream(&self) -> Option<Arc<Stream>> {
        let made = stream();
        self.made.lock().unwrap().push(made.clone());
        Some(made.0)
    }
    fn arrived(&self, stream: Arc<Stream>, socket: Arc<dyn StreamSocket>) {
        let mut made = self.made.lock().unwrap();
        let place = made.iter().position(|(other, _)| Arc::ptr_eq(other, &stream)).unwrap();
        let (_, wakes) = made.swap_remove(place);
        self.children.lock().unwrap().push_back(Program { stream, socket, wakes });
        self.wakes.notify(SocketEvents::READABLE);
    }
}

/// Listens at `end`.
pub fn listen(network: &dyn Network, end: SocketAddr) -> (Program, Arc<Accepting>) {
    let program = Program::like(network, end);
    let accepting = Arc::new(Accepting::default());
    program.socket.bind(end).unwrap();
    program.socket.listen(5, accepting.clone()).unwrap();
    (program, accepting)
}

impl Accepting {
    /// Takes a connection, if there is one.
    pub fn take(&self, listener: &Program) -> Option<Program> {
        let child = self.children.lock().unwrap().pop_front()?;
        listener.socket.accepted();
        child.stream.set_owner(OWNER);
        Some(child)
    }
}

fn accept(listener: &Program, accepting: &Accepting) -> Program {
    accepting.wakes.until(|| accepting.take(listener))
}

pub fn pattern(length: usize, seed: u32) -> Vec<u8> {
    (0..length as u32).map(|at| (at.wrapping_mul(7).wrapping_add(seed) % 251) as u8).collect()
}

fn end(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// A client and a server exchange `rounds` times `length` bytes in each direction, while `meanwhile` runs.
fn exchange(world: &World, (port, rounds, length): (u16, u32, usize), meanwhile: impl FnOnce()) {
    let (listener, accepting) = listen(&*world.proxy, end(port));
    thread::scope(|scope| {
        scope.spawn(|| {
            let child = accept(&listener, &accepting);
            for round in 0..rounds {
                assert!(child.read(length) == pattern(length, round), "round {round}");
                child.write_all(&pattern(length, round + 100));
            }
            assert_eq!(child.read(1), []);
            child.socket.close(CloseKind::Orderly);
        });
        scope.spawn(|| {
            let client = Program::connect(&*world.proxy, end(port));
            for round in 0..rounds {
                client.write_all(&pattern(length, round));
                assert!(client.read(length) == pattern(length, round + 100), "round {round}");
            }
            client.socket.shut_down_send();
            assert_eq!(client.read(1), []);
            client.socket.close(CloseKind::Orderly);
        });
        meanwhile();
    });
    listener.socket.close(CloseKind::Orderly);
}

#[test]
fn bytes_of_streams_cross_to_a_stack_in_another_world_and_back() {
    let world = World::new(Vec::new());
    exchange(&world, (4000, 3, 1), || ());
    exchange(&world, (4001, 2, 300_000), || ());
}

#[test]
fn a_stack_that_cannot_read_its_rings_is_ended_and_its_successor_goes_on() {
    let (blame, blamed) = mpsc::channel();
    let world = World::blaming(Vec::new(), move || blame.send(()).unwrap());
    let program = Program::new(&*world.proxy);
    let rings = world.direct.1.lock().unwrap().clone().unwrap();
    // The first word counts the records that the client has written.
    rings.words()[0].store(u64::MAX / 2, SeqCst);
    Part::of(&rings, 0, rings.words().len()).unwrap().consumer_bell().ring();
    blamed.recv().unwrap();
    world.kill();
    program.socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
}

#[test]
fn connections_survive_a_stack_that_dies_again_and_again() {
    let world = World::new(Vec::new());
    exchange(&world, (4000, 20, 200_000), || {
        for _ in 0..10 {
            thread::sleep(std::time::Duration::from_millis(20));
            world.kill();
        }
    });
}

#[test]
fn datagrams_cross_and_sockets_survive() {
    let world = World::new(Vec::new());
    let open = || {
        let wakes = Arc::new(Wakes::default());
        let queue = Arc::new(DatagramQueue::new(wakes.clone(), 1 << 20));
        let (protocol, families) = (DatagramProtocol::Udp, SocketFamilies::V4);
        let socket = world.proxy.open_datagram(queue.clone(), protocol, families, OWNER).unwrap();
        (queue, socket, wakes)
    };
    let (queue, server, wakes) = open();
    server.bind(end(5000)).unwrap();
    let (_, client, _) = open();
    let send = |socket: &Arc<dyn DatagramSocket>, bytes: Vec<u8>| {
        socket.send(SentDatagram {
            destination: None,
            source: None,
            interface: None,
            hop_limit: None,
            traffic_class: None,
            segment: None,
            header_options: None,
            extensions: None,
            payload: Payload::Bytes(bytes.into()),
        })
    };
    client.connect(Some(end(5000))).unwrap();
    for life in 0..3 {
        for length in [0, 1, 100, 1024, 1025, 5000, 60_000] {
            send(&client, pattern(length, life)).unwrap();
            let came = wakes.until(|| queue.take().unwrap());
            let mut bytes = vec![0; came.payload.length()];
            came.payload.read(0, &mut bytes);
            assert!(bytes == pattern(length, life), "{length} bytes");
            assert_eq!(came.source, client.local());
        }
        world.kill();
    }
}
