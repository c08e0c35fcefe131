//! [`NetworkProxy`]: a network stack in another world, as its client sees it.
//!
//! The proxy keeps what must survive the stack: the bytes of streams, the options and names of sockets, the cards and their buffers.
//! The successor of a stack that died gets all of it ([`NetworkProxy::restarted`]). Calls wait meanwhile, and a call that the dead
//! stack has not answered is repeated: its successor knows nothing of it.
//!
//! Locks: `network.remote.stream` and `network.remote.datagram` > the link's; `network.proxy.table` alone. No lock is held over a
//! call.
mod administration;
mod apply;
mod bridge;
mod datagram;
mod frames;
mod handed;
mod stream;
mod traffic;

use super::{
    administration::RemoteAdministration,
    calls::{CardCommand, SocketRequest},
    cells::{Outbox, RINGS, Record},
    channel::{ControlChannel, subject},
    kinds::forth,
    taps::RemoteTaps,
};
use crate::{
    AttachError,
    call::{Again, Failure},
    link::Link,
    marshal::{Marshal, decode},
    nic::{Nic, NicInfo},
    sockets::{
        DatagramProtocol, DatagramQueue, DatagramSocket, EndNumber, FilterWatcher, FrameSource,
        LinkTaps, Network, NetworkAdministration, SocketError, SocketFamilies, SocketOwner, Stream,
        StreamSocket,
    },
};
use administration::ClientAdministration;
use alloc::{
    boxed::Box,
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Weak},
    vec::Vec,
};
use apply::Applying;
use bpf::PacketProgram;
use bridge::CardBridge;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use datagram::{RemoteDatagram, RemoteDatagramHandle};
use frames::SharedFrames;
use handed::{Handed, Returned};
use rt::{
    lock_class,
    memory::{FrameId, Region},
    ring::Bell,
    sync::{Event, Mutex},
    thread::{self, Policy},
    time,
};
use stream::{RemoteStream, RemoteStreamHandle};
use traffic::Lane;

lock_class! {
    static LINK = "network.proxy";
    static TABLE = "network.proxy.table";
    static COMMANDS = "network.proxy.commands";
    static APPLYING = "network.proxy.applying";
    static BODY = "network.proxy.body";
}

/// Nice value of the threads, that of drivers.
const NICE: i8 = -10;

/// The messages to the server of a stack.
pub trait StackServer: Send + Sync {
    /// Gives the server the rings, and the descriptions of the cards. A server takes them once.
    ///
    /// # Errors
    /// [`AttachError`].
    fn attach(&self, rings: Region, cards: &[NicInfo]) -> Result<(), AttachError>;
    /// Gives the server frames to read, of which the first has that number.
    ///
    /// # Errors
    /// [`AttachError`].
    fn add_pool(&self, region: Region, first: FrameId) -> Result<(), AttachError>;
}

/// The sockets of the client.
#[derive(Default)]
struct SocketTable {
    streams: BTreeMap<EndNumber, Arc<RemoteStream>>,
    queues: BTreeMap<EndNumber, Arc<RemoteDatagram>>,
}

/// Whether calls may go to the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
enum StackPhase {
    /// There is no stack, or it does not have the sockets yet.
    Restoring,
    /// It works.
    Running,
    /// There is none, and none is expected.
    Closed,
}

/// A network stack in another world.
pub struct NetworkProxy {
    server: Box<dyn StackServer>,
    link: Link<Lane>,
    frames: Arc<SharedFrames>,
    handed: Handed,
    cards: Vec<Arc<CardBridge>>,
    table: Mutex<SocketTable>,
    next_number: AtomicU32,
    /// Number of the stack that has the sockets, or gets them.
    epoch: AtomicU64,
    /// A [`StackPhase`].
    phase: AtomicUsize,
    phase_changed: Event,
    /// The bell at which the stack waits for room for records.
    stack_room: Bell,
    applying: Mutex<Applying>,
    /// Memory for bodies.
    body: Mutex<Vec<u8>>,
    commands: Mutex<VecDeque<(u64, u32, u64, CardCommand)>>,
    commanded: Event,
    /// Cards want frames, and none is free.
    wants_frames: AtomicBool,
    channel: Arc<dyn ControlChannel>,
    administration: Arc<RemoteAdministration>,
    taps: Arc<RemoteTaps>,
    itself: Weak<NetworkProxy>,
}

impl NetworkProxy {
    /// Connects to a stack that uses `nics` by way of the proxy. Requests go by `channel`, the rest by `server`. `on_corrupt` is
    /// called when the stack breaks the protocol.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn new(
        (server, channel): (Box<dyn StackServer>, Arc<dyn ControlChannel>),
        nics: Vec<Arc<dyn Nic>>,
        on_corrupt: Box<dyn Fn() + Send + Sync>,
    ) -> Result<Arc<NetworkProxy>, AttachError> {
        let link = Link::new("inet".into(), &LINK, RINGS, Lane::new, on_corrupt)?;
        let frames = Arc::new(SharedFrames::new());
        let proxy = Arc::new_cyclic(|this| {
            let bridge =
                |(number, nic)| CardBridge::new(number, nic, this.clone(), Arc::clone(&frames));
            NetworkProxy {
                server,
                stack_room: link.driver_room_bell(),
                link,
                handed: Handed::new(),
                cards: (0..).zip(nics).map(bridge).collect(),
                frames: Arc::clone(&frames),
                table: Mutex::new(&TABLE, SocketTable::default()),
                next_number: AtomicU32::new(0),
                epoch: AtomicU64::new(0),
                phase: AtomicUsize::new(StackPhase::Restoring as usize),
                phase_changed: Event::new(),
                applying: Mutex::new(&APPLYING, Applying::default()),
                body: Mutex::new(&BODY, Vec::new()),
                commands: Mutex::new(&COMMANDS, VecDeque::new()),
                commanded: Event::new(),
                wants_frames: AtomicBool::new(false),
                administration: Arc::new(RemoteAdministration::new(channel.clone())),
                taps: Arc::new(RemoteTaps::new(channel.clone())),
                channel,
                itself: Weak::clone(this),
            }
        });
        let gives = Arc::downgrade(&proxy);
        frames.set_give(Box::new(move |region, first| {
            if let Some(proxy) = gives.upgrade() {
                // A stack that dies meanwhile has a successor, which gets all pools.
                let _ = proxy.server.add_pool(region, first);
            }
        }));
        let policy = Policy::Fair { nice: NICE };
        let (takes, sends, works) = (proxy.clone(), proxy.clone(), proxy.clone());
        proxy.link.bell.set_handler("inet/news", policy, move || takes.apply_all())?;
        proxy.link.room_bell.set_handler("inet/room", policy, move || sends.post(|_, _| ()))?;
        thread::spawn("inet/commands", policy, move || works.work())?;
        proxy.restarted()?;
        proxy.cards.iter().for_each(|card| card.open());
        Ok(proxy)
    }

    /// Gives the successor of a stack that has died the cards and all sockets, and has it go on.
    ///
    /// # Errors
    /// [`AttachError`]: the successor died, too, or does not take part. Calls wait on.
    pub fn restarted(&self) -> Result<(), AttachError> {
        self.enter(StackPhase::Restoring);
        let start = time::now();
        let epoch = self.epoch.fetch_add(1, SeqCst) + 1;
        self.link.restart(
            |rings| {
                self.take_last();
                let infos: Vec<_> = self.cards.iter().map(|card| card.info()).collect();
                self.server.attach(rings, &infos).inspect_err(|error| {
                    log::warn!("inet: the rings are not attached: {error:?}");
                })?;
                self.frames.all().into_iter().try_for_each(|(region, first)| {
                    self.server.add_pool(region, first).inspect_err(|error| {
                        log::warn!("inet: a pool is not attached: {error:?}");
                    })
                })
            },
            |_, ()| (),
        )?;
        self.restore(epoch).map_err(|_| AttachError::Lost)?;
        self.enter(StackPhase::Running);
        self.cards.iter().for_each(|card| card.bring_held());
        if epoch > 1 {
            let us = time::now().since(start) / 1000;
            log::info!("inet: stack {epoch} has all sockets after {us} us");
        }
        Ok(())
    }
    /// Takes what the dead stack did last, and takes back what it had in its hands: its successor gets the packets.
    fn take_last(&self) {
        let left = core::mem::take(&mut self.link.lock().traffic.left);
        {
            let mut applying = self.applying.lock();
            for cell in &left {
                if self.apply_cell(&mut applying, cell).is_err() {
                    break;
                }
            }
            applying.clear();
        }
        self.commands.lock().clear();
        let Returned { buffers, mut packets } = self.handed.take_all_back();
        for (number, card) in (0..).zip(&self.cards) {
            card.forget();
            let own = packets.extract_if(.., |(of, _)| *of == number);
            card.hold(own.map(|(_, packet)| packet));
        }
        self.lend_again(buffers.into_iter());
    }
    fn restore(&self, epoch: u64) -> Result<(), SocketError> {
        self.ask_at_once::<()>(&SocketRequest::Start)
            .inspect_err(|error| log::warn!("inet: the stack does not start: {error:?}"))?;
        let (mut streams, unborn, queues) = {
            let mut table = self.table.lock();
            // The listener goes on with the half-open connections of those.
            let unborn: Vec<_> =
                table.streams.extract_if(.., |_, stream| stream.is_unborn()).collect();
            let streams: Vec<_> = table.streams.values().cloned().collect();
            (streams, unborn, table.queues.values().cloned().collect::<Vec<_>>())
        };
        drop(unborn);
        // A connection that waits for accept is counted by its listener.
        streams.sort_by_key(|stream| stream.acceptor().is_none());
        for stream in streams {
            if let Err(error) = stream.restore(epoch) {
                if error == SocketError::NetworkDown {
                    log::warn!("inet: stream {:?} is not restored", stream.number());
                    return Err(error);
                }
                log::warn!("inet: a connection did not survive the stack: {error:?}");
            }
        }
        for queue in queues {
            queue.restore(epoch).inspect_err(|error| {
                log::warn!("inet: queue {:?} is not restored: {error:?}", queue.number());
            })?;
        }
        self.taps.restarted();
        self.administration.restarted();
        self.ask_at_once(&SocketRequest::GoOn)
    }
    /// Expects no stack any more: calls end with `NetworkDown`, and so do connections.
    pub fn close(&self) {
        self.link.close();
        self.enter(StackPhase::Closed);
        self.cards.iter().for_each(|card| card.drop_held());
        let table = core::mem::take(&mut *self.table.lock());
        for stream in table.streams.values() {
            stream.stream().fail(SocketError::NetworkDown);
        }
    }
    fn itself(&self) -> Option<Arc<NetworkProxy>> {
        self.itself.upgrade()
    }
    fn enter(&self, phase: StackPhase) {
        self.phase.store(phase as usize, SeqCst);
        self.phase_changed.signal();
    }
    /// Returns the number of the stack that has the sockets, or gets them.
    fn epoch(&self) -> u64 {
        self.epoch.load(SeqCst)
    }
    fn is_up(&self) -> bool {
        self.phase.load(SeqCst) == StackPhase::Running as usize
    }
    /// Waits until a stack has all sockets. Returns its number.
    ///
    /// # Errors
    /// `NetworkDown` if none is expected.
    fn wait_until_running(&self) -> Result<u64, SocketError> {
        loop {
            let ticket = self.phase_changed.ticket();
            let epoch = self.epoch();
            let phase = self.phase.load(SeqCst);
            if phase == StackPhase::Closed as usize {
                return Err(SocketError::NetworkDown);
            }
            if phase == StackPhase::Running as usize && epoch == self.epoch() {
                return Ok(epoch);
            }
            self.phase_changed.wait(ticket, None);
        }
    }
    /// Has the stack abort the connection of a stream, and forgets that.
    fn refuse(&self, number: EndNumber) {
        self.forget_stream(number);
        self.post(|outbox, _| {
            let (kind, number) = (forth::REFUSED, number.0);
            outbox.put(&Record { kind, number, ..Record::default() });
        });
    }
    /// Makes a request, with `rest` behind it. What the stack did before it answered has come about when it returns.
    fn ask(&self, request: &SocketRequest, rest: &[u8]) -> Result<Vec<u8>, Failure> {
        let (mut bytes, mut answer) = (Vec::from([subject::SOCKETS]), Vec::new());
        request.put(&mut bytes);
        bytes.extend_from_slice(rest);
        let result = self.channel.exchange(&bytes, Again::Never, &mut answer);
        self.apply_all();
        result.map(|()| answer)
    }
    /// Reads an answer to a request that was made when the stack of number `epoch` had the sockets. `None` if that died over the
    /// request: a successor is asked again.
    ///
    /// # Errors
    /// `NetworkDown` for an answer that makes no sense.
    fn settled<T: Marshal>(
        &self,
        epoch: u64,
        answer: Result<Vec<u8>, Failure>,
    ) -> Result<Option<T>, SocketError> {
        match answer {
            Ok(bytes) if !bytes.is_empty() => {
                read_answer(&bytes).map(Some).ok_or(SocketError::NetworkDown)
            }
            // The stack died, or a successor was asked that has no sockets yet. The supervisor tells of the successor, or closes this.
            Ok(_) | Err(Failure::Lost(_)) => {
                self.wait_for_successor(epoch);
                Ok(None)
            }
            Err(Failure::Refused(_) | Failure::Malformed) => Err(SocketError::NetworkDown),
        }
    }
    /// Waits until the stack of that number is not the one that has the sockets any more.
    fn wait_for_successor(&self, epoch: u64) {
        loop {
            let ticket = self.phase_changed.ticket();
            if self.epoch() != epoch || !self.is_up() {
                return;
            }
            self.phase_changed.wait(ticket, None);
        }
    }
    /// Makes a request of a stack that does not have all sockets yet.
    fn ask_at_once<T: Marshal>(&self, request: &SocketRequest) -> Result<T, SocketError> {
        let answer = self.ask(request, &[]).map_err(|failure| {
            log::warn!("inet: {failure:?}");
            SocketError::NetworkDown
        })?;
        read_answer(&answer).ok_or(SocketError::NetworkDown)
    }
    /// Posts records, as `put` makes them; the second argument is empty memory for a body.
    fn post(&self, put: impl FnOnce(&mut Outbox, &mut Vec<u8>)) {
        let mut body = core::mem::take(&mut *self.body.lock());
        body.clear();
        let doorbell = {
            let mut linked = self.link.lock();
            put(&mut linked.traffic.outbox, &mut body);
            linked.send()
        };
        self.link.answer(doorbell);
        *self.body.lock() = body;
    }
    fn frames(&self) -> &Arc<SharedFrames> {
        &self.frames
    }
    fn handed(&self) -> &Handed {
        &self.handed
    }
    /// Has a stream take its frames from those that the stack can read, and tells the stack of its filter.
    fn prepare(&self, number: EndNumber, stream: &Stream) {
        stream.set_source(Arc::clone(&self.frames) as Arc<dyn FrameSource>);
        stream.filter().watch(self.filter_teller(number));
    }
    /// Returns a function that tells the stack of the filter of a stream or a queue.
    fn filter_teller(&self, number: EndNumber) -> FilterWatcher {
        let proxy = Weak::clone(&self.itself);
        Box::new(move |program| {
            if let Some(proxy) = proxy.upgrade() {
                proxy.tell_filter(number, program);
            }
        })
    }
    fn tell_filter(&self, number: EndNumber, program: Option<&PacketProgram>) {
        let words = program.map(|program| program.words().to_vec()).unwrap_or_default();
        self.post(|outbox, body| {
            words.put(body);
            let (kind, number) = (forth::FILTER, number.0);
            outbox.put(&Record { kind, number, body, ..Record::default() });
        });
    }
    fn next_number(&self) -> EndNumber {
        EndNumber(self.next_number.fetch_add(1, Relaxed) & !EndNumber::OF_STACK)
    }
    fn add_stream(&self, number: EndNumber, stream: &Arc<RemoteStream>) {
        self.table.lock().streams.insert(number, Arc::clone(stream));
    }
    fn find_stream(&self, number: u32) -> Option<Arc<RemoteStream>> {
        self.table.lock().streams.get(&EndNumber(number)).cloned()
    }
    fn forget_stream(&self, number: EndNumber) -> Option<Arc<RemoteStream>> {
        self.table.lock().streams.remove(&number)
    }
    fn find_queue(&self, number: u32) -> Option<Arc<DatagramQueue>> {
        self.table.lock().queues.get(&EndNumber(number)).map(|one| Arc::clone(one.queue()))
    }
    fn forget_queue(&self, number: EndNumber) {
        let queue = self.table.lock().queues.remove(&number);
        drop(queue);
    }
    /// Has a thread of the client's own make frames for the buffers of cards.
    fn want_frames(&self) {
        self.wants_frames.store(true, SeqCst);
        self.commanded.signal();
    }
    /// Body of the thread that gives cards commands, which may take seconds, and frames.
    fn work(&self) -> ! {
        loop {
            let ticket = self.commanded.ticket();
            if self.wants_frames.swap(false, SeqCst) {
                self.frames.grow();
                self.cards.iter().for_each(|card| card.lend_starved());
            }
            let next = self.commands.lock().pop_front();
            let Some((epoch, card, number, command)) = next else {
                self.commanded.wait(ticket, None);
                continue;
            };
            let Some(bridge) = self.cards.get(card as usize) else { continue };
            let answer = bridge.command(command);
            if epoch == self.epoch() {
                self.post(|outbox, body| {
                    answer.put(body);
                    let record = Record {
                        kind: forth::DONE,
                        number: card,
                        value: number,
                        ..Record::default()
                    };
                    outbox.put(&Record { body, ..record });
                });
            }
        }
    }
}

/// Reads an answer of a stack that has the socket.
fn read_answer<T: Marshal>(answer: &[u8]) -> Option<T> {
    answer.strip_prefix(&[1]).and_then(decode)
}

impl Network for NetworkProxy {
    fn open_stream(
        &self,
        stream: Arc<Stream>,
        families: SocketFamilies,
        owner: SocketOwner,
    ) -> Result<Arc<dyn StreamSocket>, SocketError> {
        let this = self.itself().ok_or(SocketError::NetworkDown)?;
        stream.set_owner(owner);
        let number = self.next_number();
        self.prepare(number, &stream);
        let remote = Arc::new(RemoteStream::new(this, (number, stream), families, None));
        self.add_stream(number, &remote);
        if let Err(error) = remote.open() {
            self.forget_stream(number);
            return Err(error);
        }
        Ok(Arc::new(RemoteStreamHandle(remote)))
    }
    fn open_datagram(
        &self,
        queue: Arc<DatagramQueue>,
        protocol: DatagramProtocol,
        families: SocketFamilies,
        owner: SocketOwner,
    ) -> Result<Arc<dyn DatagramSocket>, SocketError> {
        let this = self.itself().ok_or(SocketError::NetworkDown)?;
        let number = self.next_number();
        queue.filter().watch(self.filter_teller(number));
        let remote =
            Arc::new(RemoteDatagram::new((this, number), queue, (protocol, families), owner));
        self.table.lock().queues.insert(remote.number(), Arc::clone(&remote));
        if let Err(error) = remote.open() {
            self.forget_queue(number);
            return Err(error);
        }
        Ok(Arc::new(RemoteDatagramHandle(remote)))
    }
    fn taps(&self) -> Arc<dyn LinkTaps> {
        self.taps.clone()
    }
    fn administration(&self) -> Arc<dyn NetworkAdministration> {
        Arc::new(ClientAdministration(Weak::clone(&self.itself)))
    }
}
