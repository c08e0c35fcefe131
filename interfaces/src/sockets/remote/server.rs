//! [`NetworkService`]: serves a network stack to a client in another world.
//!
//! Calls come as requests, bytes and packets as records of a ring. Records that came before a request are taken before it, on
//! whatever thread that is, so a call finds what its program did before.
use super::{
    acceptor::FarAcceptor,
    administration::AdministrationService,
    calls::{CardAnswer, DatagramCall, SocketRequest, StreamCall, StreamStart},
    card::FarCard,
    cells::{Cell, PartBytes, RINGS, Record, RecordRead, take_parts},
    channel::{ControlHandler, Post, Subjects},
    kinds::{back, forth},
    packets::take_payload,
    sender::RecordSender,
    taps::TapService,
};
use crate::{
    AttachError,
    link::Rings,
    marshal::{Marshal, decode},
    nic::{LinkState, Nic, NicInfo, PacketSegment, Received},
    sockets::{
        Acceptor, DatagramQueue, DatagramSocket, EndNumber, FarEnd, KeptDatagram, KeptStream,
        MoreData, Payload, QuickAcknowledge, ReadReport, ResumableNetwork, SentDatagram,
        SocketError, Stream, StreamSocket, StreamState,
    },
};
use alloc::{boxed::Box, collections::BTreeMap, sync::Arc, vec::Vec};
use bpf::PacketProgram;
use core::{
    net::SocketAddr,
    sync::atomic::{AtomicU32, Ordering},
};
use rt::{
    lock_class,
    memory::{Frame, Region},
    ring::{Bell, Consumer, Corrupt, Part},
    sync::{Mutex, Once},
    thread::Policy,
};

lock_class! {
    static STREAMS = "network.served.streams";
    static QUEUES = "network.served.queues";
    static INTAKE = "network.intake";
}

const SERVER_NICE: i8 = -10;

/// A stream at the stack, and its socket once it has one.
#[derive(Clone)]
pub(crate) struct ServedStream {
    pub(crate) stream: Arc<Stream>,
    pub(crate) socket: Option<Arc<dyn StreamSocket>>,
}

/// A queue at the stack.
#[derive(Clone)]
struct ServedQueue {
    queue: Arc<DatagramQueue>,
    socket: Arc<dyn DatagramSocket>,
}

/// The streams and queues that the client knows.
pub(crate) struct Ends {
    streams: Mutex<BTreeMap<EndNumber, ServedStream>>,
    queues: Mutex<BTreeMap<EndNumber, ServedQueue>>,
    next: AtomicU32,
}

impl Ends {
    fn new() -> Ends {
        Ends {
            streams: Mutex::new(&STREAMS, BTreeMap::new()),
            queues: Mutex::new(&QUEUES, BTreeMap::new()),
            next: AtomicU32::new(0),
        }
    }
    /// Returns a number for a stream of a listener.
    pub(crate) fn next_of_stack(&self) -> EndNumber {
        EndNumber(self.next.fetch_add(1, Ordering::Relaxed) | EndNumber::OF_STACK)
    }
    pub(crate) fn add_stream(&self, number: EndNumber, served: ServedStream) {
        let before = self.streams.lock().insert(number, served);
        drop(before);
    }
    /// Sets the socket of a stream. Returns whether the client still knows the stream.
    pub(crate) fn set_socket(&self, number: EndNumber, socket: &Arc<dyn StreamSocket>) -> bool {
        let mut streams = self.streams.lock();
        let Some(served) = streams.get_mut(&number) else { return false };
        served.socket = Some(Arc::clone(socket));
        true
    }
    fn stream(&self, number: u32) -> Option<ServedStream> {
        self.streams.lock().get(&EndNumber(number)).cloned()
    }
    fn queue(&self, number: u32) -> Option<ServedQueue> {
        self.queues.lock().get(&EndNumber(number)).cloned()
    }
}

/// The client's records, and what they are gathered in.
struct Intake {
    ring: Consumer<Part, Cell>,
    record: RecordRead,
    segments: Vec<PacketSegment>,
    /// Packets that came one after another by one card.
    batch: Vec<Received>,
    batch_card: u32,
}

/// Serves a network stack to a client in another world.
pub struct NetworkService {
    stack: Arc<dyn ResumableNetwork>,
    post: Arc<RecordSender>,
    ends: Arc<Ends>,
    cards: Once<Vec<Arc<FarCard>>>,
    intake: Mutex<Option<Intake>>,
    bell: Once<Bell>,
}

impl NetworkService {
    /// Makes a service for `stack`, which works once a client has attached itself.
    pub fn new(stack: Arc<dyn ResumableNetwork>) -> Arc<NetworkService> {
        Arc::new(NetworkService {
            stack,
            post: Arc::new(RecordSender::new()),
            ends: Arc::new(Ends::new()),
            cards: Once::new(),
            intake: Mutex::new(&INTAKE, None),
            bell: Once::new(),
        })
    }
    /// Returns the handler of all requests: about sockets, the administration and taps.
    pub fn handler(self: &Arc<NetworkService>) -> Arc<dyn ControlHandler> {
        let post = |kind| -> Post {
            let sender = Arc::clone(&self.post);
            Arc::new(move |body: &[u8]| {
                sender.send(|outbox, _| {
                    outbox.put(&Record { kind, body, ..Record::default() });
                });
            })
        };
        let administration = self.stack.administration();
        let administration = AdministrationService::new(administration, post(back::NOTICE));
        let taps = TapService::new(self.stack.taps(), post(back::SEEN));
        // In the order of their numbers (`subject`).
        let handlers: Vec<Arc<dyn ControlHandler>> =
            Vec::from([Arc::new(administration) as _, Arc::new(taps) as _, self.clone() as _]);
        Arc::new(Subjects(handlers))
    }
    /// Takes the rings of the client, which describes its cards. There is one client.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach(
        self: &Arc<NetworkService>,
        region: Region,
        cards: Vec<NicInfo>,
    ) -> Result<(), AttachError> {
        let rings = Rings::of(region, RINGS)?;
        let (sent, ring) = rings.driver()?;
        let policy = Policy::Fair { nice: SERVER_NICE };
        self.bell.get_or_init(|| rings.forth.producer_bell());
        let intake = Intake {
            ring,
            record: RecordRead::default(),
            segments: Vec::new(),
            batch: Vec::new(),
            batch_card: 0,
        };
        *self.intake.lock() = Some(intake);
        self.post.open(&rings, sent, policy)?;
        let far = |(number, info)| Arc::new(FarCard::new(number, info, Arc::clone(&self.post)));
        let cards: Vec<_> = (0..).zip(cards).map(far).collect();
        self.cards.get_or_init(|| cards);
        let this = Arc::clone(self);
        rings.forth.consumer_bell().set_handler("inet/client", policy, move || this.take_all())?;
        Ok(())
    }
    /// Dies: from now on nothing of it reaches the client.
    #[cfg(not(target_os = "none"))]
    pub fn die(&self) {
        *self.intake.lock() = None;
        self.post.die();
    }
    /// Takes the client's records until there are none. A stack that cannot read them asks to be ended: its successor gets new rings.
    pub(crate) fn take_all(&self) {
        let _held = self.post.hold_bell();
        let mut place = self.intake.lock();
        let Some(intake) = &mut *place else { return };
        if self.take_from(intake).is_err() {
            log::error!("inet: its client breaks the protocol of the rings");
            *place = None;
            self.post.tell(back::UNREADABLE, 0, 0);
        }
    }
    fn take_from(&self, intake: &mut Intake) -> Result<(), Corrupt> {
        loop {
            while let Some((cell, doorbell)) = intake.ring.pop()? {
                if let Some(bell) = self.bell.get() {
                    bell.answer(doorbell);
                }
                if intake.record.add(&cell)? {
                    self.take(intake)?;
                }
            }
            self.bring(intake);
            self.give_back();
            if intake.ring.wait_begins()? {
                return Ok(());
            }
        }
    }
    /// Takes a record.
    fn take(&self, intake: &mut Intake) -> Result<(), Corrupt> {
        let Intake { record, segments, batch, batch_card, .. } = intake;
        let RecordRead { kind, number, value, .. } = *record;
        let card = || self.cards.get().and_then(|cards| cards.get(number as usize)).ok_or(Corrupt);
        match kind {
            forth::WRITTEN => {
                let mut body = record.body.as_slice();
                let report = ReadReport::take(&mut body).ok_or(Corrupt)?;
                segments.clear();
                take_parts(body, |part| {
                    segments.push(lent(part)?);
                    Ok(())
                })?;
                let Some(ServedStream { stream, socket }) = self.ends.stream(number) else {
                    return Ok(());
                };
                stream.note_reads(&report);
                stream.accept(segments);
                if let Some(socket) = socket.filter(|_| record.flags & forth::CALL_FOLLOWS == 0) {
                    let is_more = record.flags & forth::MORE_SOON != 0;
                    socket.written(if is_more { MoreData::Soon } else { MoreData::No });
                }
            }
            forth::READ => {
                let report = decode(&record.body).ok_or(Corrupt)?;
                if let Some(ServedStream { stream, socket }) = self.ends.stream(number) {
                    stream.note_reads(&report);
                    if let Some(socket) = socket {
                        socket.read();
                    }
                }
            }
            forth::RECEIVED => {
                if *batch_card != number {
                    self.bring_batch(*batch_card, batch);
                    *batch_card = number;
                }
                card()?.receive(record, batch)?;
            }
            forth::SENT => card()?.end(record),
            forth::LINK => {
                card()?.note_link(if value == 0 { LinkState::Down } else { LinkState::Up });
            }
            forth::ANNOUNCE => card()?.announce(),
            forth::DONE => {
                let answer: CardAnswer = decode(&record.body).ok_or(Corrupt)?;
                card()?.answer(value, answer);
            }
            forth::FILTER => self.set_filter(number, &record.body)?,
            forth::REFUSED => {
                let served = self.ends.streams.lock().remove(&EndNumber(number));
                drop(served);
            }
            _ => return Err(Corrupt),
        }
        Ok(())
    }
    /// Sets the filter of a stream or a queue.
    fn set_filter(&self, number: u32, body: &[u8]) -> Result<(), Corrupt> {
        let instructions: Vec<u64> = decode(body).ok_or(Corrupt)?;
        let program = match instructions.as_slice() {
            [] => None,
            some => Some(Arc::new(PacketProgram::new(some).map_err(|_| Corrupt)?)),
        };
        if let Some(served) = self.ends.stream(number) {
            served.stream.filter().set(program);
        } else if let Some(served) = self.ends.queue(number) {
            served.queue.filter().set(program);
        }
        Ok(())
    }
    fn bring(&self, intake: &mut Intake) {
        self.bring_batch(intake.batch_card, &mut intake.batch);
    }
    fn bring_batch(&self, card: u32, batch: &mut Vec<Received>) {
        if !batch.is_empty()
            && let Some(card) = self.cards.get().and_then(|cards| cards.get(card as usize))
        {
            card.bring(batch);
        }
    }
    /// Tells the client of handed frames that were dropped.
    fn give_back(&self) {
        super::released::tell(&self.post);
    }
    /// Answers a request about a socket. The answer begins with a 1; it is empty if there is no such stream or queue here, which a
    /// predecessor may have had.
    fn answer(&self, mut request: &[u8], answer: &mut Vec<u8>) {
        answer.push(1);
        match SocketRequest::take(&mut request) {
            Some(SocketRequest::Stream(number, call)) => self.stream_call(number, call, answer),
            Some(SocketRequest::Datagram(number, call)) => {
                self.datagram_call(number, call, request, answer);
            }
            Some(SocketRequest::Start) => self.start(),
            Some(SocketRequest::GoOn) => self.stack.go_on(),
            None => answer.clear(),
        }
    }
    /// Gives the stack its cards. It may give them commands, which the client does once it is attached.
    fn start(&self) {
        let cards = self.cards.get().into_iter().flatten();
        self.stack.attach(cards.map(|card| card.clone() as Arc<dyn Nic>).collect());
    }
    fn stream_call(&self, number: u32, call: StreamCall, answer: &mut Vec<u8>) {
        let end = EndNumber(number);
        if let StreamCall::Make(start) = &call {
            if self.ends.stream(number).is_some() {
                // A call that opens a socket is repeated if its client heard of a restart meanwhile.
                return;
            }
            let stream = self.make(end, start);
            return self.ends.add_stream(end, ServedStream { stream, socket: None });
        }
        let Some(ServedStream { stream, socket }) = self.ends.stream(number) else {
            return answer.clear();
        };
        let opened = match call {
            StreamCall::Open(..) | StreamCall::Restore(_) if socket.is_some() => {
                return Ok::<(), SocketError>(()).put(answer);
            }
            StreamCall::Open(families, owner) => self.stack.open_stream(stream, families, owner),
            StreamCall::Restore(kept) => self.restore(end, stream, kept),
            call => {
                return match socket {
                    Some(socket) => self.socket_call((end, &stream), &*socket, call, answer),
                    None => answer.clear(),
                };
            }
        };
        let opened = opened.map(|socket| {
            self.ends.set_socket(end, &socket);
        });
        opened.put(answer);
    }
    fn make(&self, number: EndNumber, start: &StreamStart) -> Arc<Stream> {
        let stream = Stream::at_stack(FarEnd::new(number, self.post.clone()));
        stream.begin_at(start.acked, start.report.received, &start.kept);
        stream.begin_in(StreamState::from_bits_truncate(start.state));
        stream.note_reads(&start.report);
        stream.set_owner(start.owner);
        Arc::new(stream)
    }
    fn acceptor(&self, listener: EndNumber, stream: &Stream) -> Arc<FarAcceptor> {
        let ways = (Arc::clone(&self.ends), Arc::clone(&self.post));
        Arc::new(FarAcceptor::new(listener, ways, stream.read_report()))
    }
    fn restore(
        &self,
        number: EndNumber,
        stream: Arc<Stream>,
        kept: KeptStream,
    ) -> Result<Arc<dyn StreamSocket>, SocketError> {
        // Numbers that the predecessor gave are not given again.
        if number.is_of_stack() {
            self.ends.next.fetch_max((number.0 & !EndNumber::OF_STACK) + 1, Ordering::Relaxed);
        }
        let acceptor = kept.listening.is_some().then(|| {
            let acceptor: Arc<dyn Acceptor> = self.acceptor(number, &stream);
            acceptor
        });
        self.stack.restore_stream(stream, kept, acceptor)
    }
    fn socket_call(
        &self,
        (number, stream): (EndNumber, &Arc<Stream>),
        socket: &dyn StreamSocket,
        call: StreamCall,
        answer: &mut Vec<u8>,
    ) {
        match call {
            StreamCall::Make(_) | StreamCall::Open(..) | StreamCall::Restore(_) => {}
            StreamCall::Bind(address) => put_names(socket, socket.bind(address), answer),
            StreamCall::Names => names(socket).put(answer),
            StreamCall::Connect(peer) => put_names(socket, socket.connect(peer), answer),
            StreamCall::ConnectWithData(peer) => {
                put_names(socket, socket.connect_with_data(peer), answer);
            }
            StreamCall::HasCookie(peer) => socket.has_fast_open_cookie(peer).put(answer),
            StreamCall::Disconnect(fresh) => {
                let fresh = EndNumber(fresh);
                let report = ReadReport { read: 0, received: 0, held: 0, ..stream.read_report() };
                let start = StreamStart { report, owner: stream.owner(), ..StreamStart::default() };
                let next = self.make(fresh, &start);
                socket.disconnect(Arc::clone(&next));
                let mut streams = self.ends.streams.lock();
                let moved = streams.remove(&number).and_then(|served| served.socket);
                streams.insert(fresh, ServedStream { stream: next, socket: moved });
            }
            StreamCall::Listen(backlog) => {
                let result = socket.listen(backlog, self.acceptor(number, stream));
                put_names(socket, result, answer);
            }
            StreamCall::Accepted => socket.accepted(),
            StreamCall::MarkUrgent => socket.mark_urgent(),
            StreamCall::UrgentMark => socket.urgent_mark().put(answer),
            StreamCall::ShutDownSend => socket.shut_down_send(),
            StreamCall::Configure(options) => socket.configure(&options),
            StreamCall::QuickAcknowledge(is_quick) => socket.set_quick_ack(match is_quick {
                true => QuickAcknowledge::On,
                false => QuickAcknowledge::Off,
            }),
            StreamCall::SavedSyn(room) => socket.take_saved_syn(room).put(answer),
            StreamCall::Info => socket.info().put(answer),
            StreamCall::HeaderOptions => socket.header_options().put(answer),
            StreamCall::SendWindow => socket.send_window().put(answer),
            StreamCall::IsClosing => socket.is_closing().put(answer),
            StreamCall::Owner(owner) => stream.set_owner(owner),
            StreamCall::Close(kind) => {
                socket.close(kind);
                socket.is_closing().put(answer);
                let served = self.ends.streams.lock().remove(&number);
                drop(served);
            }
        }
    }
    fn datagram_call(&self, number: u32, call: DatagramCall, rest: &[u8], answer: &mut Vec<u8>) {
        let end = EndNumber(number);
        let opened = match call {
            DatagramCall::Open(..) | DatagramCall::Restore(_)
                if self.ends.queue(number).is_some() =>
            {
                return Ok::<(), SocketError>(()).put(answer);
            }
            DatagramCall::Open(protocol, families, owner) => {
                let queue = Arc::new(DatagramQueue::at_stack(self.far_end(end)));
                let socket = self.stack.open_datagram(queue.clone(), protocol, families, owner);
                socket.map(|socket| ServedQueue { queue, socket })
            }
            DatagramCall::Restore(kept) => self.restore_queue(end, kept),
            call => {
                let Some(served) = self.ends.queue(number) else {
                    if matches!(call, DatagramCall::Send(_)) {
                        // The client hears that its frames are dropped.
                        drop(sent_datagram(rest));
                    }
                    return answer.clear();
                };
                if call == DatagramCall::Close {
                    served.socket.close();
                    let served = self.ends.queues.lock().remove(&end);
                    return drop(served);
                }
                return queue_call(&served, call, rest, answer);
            }
        };
        let opened = opened.map(|served| {
            self.ends.queues.lock().insert(end, served);
        });
        opened.put(answer);
    }
    fn far_end(&self, number: EndNumber) -> FarEnd {
        FarEnd::new(number, self.post.clone())
    }
    fn restore_queue(
        &self,
        number: EndNumber,
        kept: KeptDatagram,
    ) -> Result<ServedQueue, SocketError> {
        let queue = Arc::new(DatagramQueue::at_stack(self.far_end(number)));
        let socket = self.stack.restore_datagram(Arc::clone(&queue), kept)?;
        Ok(ServedQueue { queue, socket })
    }
}

/// Returns the ends of a socket: this side's, and the peer's.
fn names(socket: &dyn StreamSocket) -> (SocketAddr, Option<SocketAddr>) {
    (socket.local(), socket.peer())
}

/// Answers a call that gives a socket names.
fn put_names(socket: &dyn StreamSocket, result: Result<(), SocketError>, answer: &mut Vec<u8>) {
    result.map(|()| names(socket)).put(answer);
}

impl ControlHandler for NetworkService {
    fn handle(&self, request: &[u8], answer: &mut Vec<u8>) {
        let _held = self.post.hold_bell();
        self.take_all();
        self.answer(request, answer);
        self.give_back();
    }
}

/// Does a call of a datagram socket.
fn queue_call(
    ServedQueue { queue, socket }: &ServedQueue,
    call: DatagramCall,
    rest: &[u8],
    answer: &mut Vec<u8>,
) {
    match call {
        DatagramCall::Open(..) | DatagramCall::Restore(_) | DatagramCall::Close => {}
        DatagramCall::Bind(address) => {
            socket.bind(address).map(|()| (socket.local(), socket.peer())).put(answer);
        }
        DatagramCall::Names => (socket.local(), socket.peer()).put(answer),
        DatagramCall::Connect(peer) => {
            socket.connect(peer).map(|()| (socket.local(), socket.peer())).put(answer);
        }
        DatagramCall::Send(error) => {
            queue.lend_error(error);
            let result = sent_datagram(rest).and_then(|datagram| socket.send(datagram));
            // The client keeps an error that was not told.
            (result, queue.take_error(), socket.local()).put(answer);
        }
        DatagramCall::Configure(options) => socket.configure(&options),
        DatagramCall::Join(membership) => socket.join(membership).put(answer),
        DatagramCall::Leave(membership) => socket.leave(membership).put(answer),
        DatagramCall::PathMtu => socket.path_mtu().put(answer),
    }
}

/// Takes a datagram to be sent. The frames of its payload are handed.
fn sent_datagram(mut rest: &[u8]) -> Result<SentDatagram, SocketError> {
    let nothing = Payload::Bytes(Box::default());
    let head = SentDatagram::take_head(&mut rest, nothing).ok_or(SocketError::Invalid)?;
    let payload = take_payload(rest, handed).map_err(|Corrupt| SocketError::Invalid)?;
    Ok(SentDatagram { payload, ..head })
}

/// Returns a part of a frame that the client keeps for as long as the stack knows of it by other means.
fn lent(part: PartBytes<'_>) -> Result<PacketSegment, Corrupt> {
    let PartBytes::Frame(id, offset, length) = part else { return Err(Corrupt) };
    Ok(PacketSegment { frame: Frame::lent(id).ok_or(Corrupt)?, offset, length })
}

/// Returns a part of a frame that the client keeps until it hears that the stack has dropped it.
fn handed(part: PartBytes<'_>) -> Result<PacketSegment, Corrupt> {
    let PartBytes::Frame(id, offset, length) = part else { return Err(Corrupt) };
    Ok(PacketSegment { frame: Frame::handed(id).ok_or(Corrupt)?, offset, length })
}
