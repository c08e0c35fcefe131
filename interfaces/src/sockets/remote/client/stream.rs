//! [`RemoteStream`]: a stream socket whose stack is in another world.
use super::{
    super::{
        calls::{SocketRequest, StreamCall, StreamStart},
        cells::{Outbox, Record, put_parts},
        kinds::forth,
    },
    NetworkProxy,
};
use crate::{
    marshal::Marshal,
    nic::PacketSegment,
    sockets::{
        Acceptor, CloseKind, EndNumber, Ipv4OptionList, KeptListening, KeptPort, KeptStream,
        MoreData, QuickAcknowledge, SocketError, SocketEvents, SocketFamilies, SocketOwner, Stream,
        StreamInfo, StreamOptions, StreamSocket, StreamState,
    },
};
use alloc::{collections::VecDeque, sync::Arc, vec::Vec};
use core::net::{IpAddr, SocketAddr};
use rt::{
    PAGE_BYTES, lock_class,
    memory::Frame,
    sync::{Mutex, MutexGuard},
};

lock_class! {
    static STREAM = "network.remote.stream";
}

/// Ends of a connection: this side's, and the peer's.
type Names = (SocketAddr, Option<SocketAddr>);

/// The state of a listener.
struct ListenerRecord {
    backlog: u32,
    acceptor: Arc<dyn Acceptor>,
    /// Ends of connections that wait for accept.
    waiting: VecDeque<(SocketAddr, SocketAddr)>,
}

/// The state of a socket that a successor of the stack is told.
struct StreamRecord {
    number: EndNumber,
    stream: Arc<Stream>,
    /// The stack that is told of written bytes and of reads; 0 for none yet.
    epoch: u64,
    /// The last stack that was told this record, or made the socket: an answer of another one adds nothing to the record, and the
    /// call is repeated.
    known_to: u64,
    /// Bytes written of which the stack was told, and bytes read.
    told: u64,
    told_read: u64,
    /// The owner of which it was told.
    owner: SocketOwner,
    options: StreamOptions,
    local: SocketAddr,
    peer: Option<SocketAddr>,
    has_own_address: bool,
    port: KeptPort,
    listening: Option<ListenerRecord>,
    is_shut_down: bool,
    closed: Option<CloseKind>,
    is_closing: bool,
    /// The frame for copies of short payload, and the bytes that are used.
    packing: Option<(Frame, usize)>,
}

/// A stream socket whose stack is in another world.
pub(super) struct RemoteStream {
    proxy: Arc<NetworkProxy>,
    families: SocketFamilies,
    record: Mutex<StreamRecord>,
}

pub(super) fn unspecified(families: SocketFamilies) -> SocketAddr {
    match families {
        SocketFamilies::V4 => SocketAddr::from(([0, 0, 0, 0], 0)),
        SocketFamilies::V6 | SocketFamilies::Both => SocketAddr::from(([0u16; 8], 0)),
    }
}

/// The beginning of a socket that a listener's connection has.
pub(super) struct ChildStart {
    pub(super) options: StreamOptions,
    pub(super) names: Names,
    pub(super) epoch: u64,
}

impl RemoteStream {
    /// Makes the record of a socket; `child` for one that the stack has already.
    pub(super) fn new(
        proxy: Arc<NetworkProxy>,
        (number, stream): (EndNumber, Arc<Stream>),
        families: SocketFamilies,
        child: Option<ChildStart>,
    ) -> RemoteStream {
        let owner = stream.owner();
        let names = (unspecified(families), None);
        let fresh = || ChildStart { options: StreamOptions::default(), names, epoch: 0 };
        let port = if child.is_some() { KeptPort::Inherited } else { KeptPort::Chosen };
        let ChildStart { options, names: (local, peer), epoch } = child.unwrap_or_else(fresh);
        let record = StreamRecord {
            number,
            stream,
            epoch,
            known_to: epoch,
            told: 0,
            told_read: 0,
            owner,
            options,
            local,
            peer,
            has_own_address: false,
            port,
            listening: None,
            is_shut_down: false,
            closed: None,
            is_closing: false,
            packing: None,
        };
        RemoteStream { proxy, families, record: Mutex::new(&STREAM, record) }
    }
    pub(super) fn number(&self) -> EndNumber {
        self.record.lock().number
    }
    pub(super) fn stream(&self) -> Arc<Stream> {
        Arc::clone(&self.record.lock().stream)
    }
    pub(super) fn families(&self) -> SocketFamilies {
        self.families
    }
    pub(super) fn options(&self) -> StreamOptions {
        self.record.lock().options
    }
    /// Returns the client of a listener.
    pub(super) fn acceptor(&self) -> Option<Arc<dyn Acceptor>> {
        self.record.lock().listening.as_ref().map(|listening| Arc::clone(&listening.acceptor))
    }
    /// Returns whether the stack has made the stream for a connection that did not arrive any more.
    pub(super) fn is_unborn(&self) -> bool {
        let record = self.record.lock();
        record.number.is_of_stack() && record.peer.is_none()
    }
    /// Notes the ends of a connection, which the stack made.
    pub(super) fn set_names(&self, names: (SocketAddr, SocketAddr)) {
        let mut record = self.record.lock();
        (record.local, record.peer) = (names.0, Some(names.1));
    }
    /// Notes that a connection waits for accept.
    pub(super) fn note_arrival(&self, names: (SocketAddr, SocketAddr)) {
        if let Some(listening) = &mut self.record.lock().listening {
            listening.waiting.push_back(names);
        }
    }

    /// Makes the socket at a stack that has none, and tells it what the client knows.
    ///
    /// # Errors
    /// Those of the stack. The stream has ended then.
    pub(super) fn restore(&self, epoch: u64) -> Result<(), SocketError> {
        let (number, start, kept, closed) = {
            let mut record = self.record.lock();
            if record.epoch == 0 {
                // The call that opens it goes on by itself.
                return Ok(());
            }
            record.known_to = epoch;
            let report = record.stream.read_report();
            record.owner = record.stream.owner();
            record.told = record.stream.counters().acked;
            let start = StreamStart {
                acked: record.told,
                state: record.stream.state().bits(),
                kept: record.stream.kept().load(),
                report,
                owner: record.owner,
            };
            // A listener without a port has not been one yet.
            let listening = record.listening.as_ref().filter(|_| record.local.port() != 0);
            let listening = listening.map(|listening| {
                let waiting = listening.waiting.iter().copied().collect();
                KeptListening { backlog: listening.backlog, waiting }
            });
            let kept = KeptStream {
                families: self.families,
                owner: record.owner,
                options: record.options,
                local: record.local,
                peer: record.peer,
                has_own_address: record.has_own_address,
                port: record.port,
                listening,
                is_shut_down: record.is_shut_down,
            };
            (record.number, start, kept, record.closed)
        };
        let ask = |call| SocketRequest::Stream(number.0, call);
        self.proxy.ask_at_once::<()>(&ask(StreamCall::Make(start)))?;
        {
            // What is written from now on is told as ever.
            let mut record = self.record.lock();
            record.epoch = epoch;
            self.tell_written(&mut record, forth::CALL_FOLLOWS);
            if let Some(program) = record.stream.filter().get() {
                self.proxy.tell_filter(record.number, Some(&program));
            }
        }
        let owner = kept.owner;
        let call = ask(StreamCall::Restore(kept));
        let result: Result<(), SocketError> = self.proxy.ask_at_once(&call)?;
        if result.is_err() {
            // The program may still ask things of the socket.
            let open = ask(StreamCall::Open(self.families, owner));
            self.proxy.ask_at_once::<Result<(), SocketError>>(&open)??;
        }
        if let Some(kind) = closed {
            let is_closing: bool =
                self.proxy.ask_at_once(&ask(StreamCall::Close(kind))).unwrap_or(false);
            self.record.lock().is_closing = is_closing;
        }
        result
    }

    /// Tells the stack of bytes that were written since it was told last.
    fn tell_written(&self, record: &mut StreamRecord, flags: u8) {
        if record.epoch != self.proxy.epoch() {
            return;
        }
        let written = record.stream.counters().written;
        let report = record.stream.read_report();
        let mut segments: Vec<PacketSegment> = Vec::new();
        let length = written.saturating_sub(record.told) as usize;
        record.stream.segments(record.told, length, &mut segments);
        (record.told, record.told_read) = (written, report.read);
        let (kind, number) = (forth::WRITTEN, record.number.0);
        self.proxy.post(|outbox: &mut Outbox, body: &mut Vec<u8>| {
            report.put(body);
            put_parts(body, &segments, |_| true);
            outbox.put(&Record { kind, flags, number, value: written, body });
        });
    }
    /// Tells the stack of the client's reads.
    pub(super) fn tell_read(&self) {
        let mut record = self.record.lock();
        if record.epoch != self.proxy.epoch() {
            return;
        }
        let report = record.stream.read_report();
        record.told_read = report.read;
        self.proxy.post(|outbox, body| {
            report.put(body);
            let (kind, number) = (forth::READ, record.number.0);
            outbox.put(&Record { kind, number, body, ..Record::default() });
        });
    }

    /// Asks the stack that has the socket. Repeats the call at a successor, which knows nothing of it.
    fn ask<T: Marshal>(&self, call: &StreamCall) -> Result<T, SocketError> {
        self.ask_and(call, |_, _: &T| ())
    }
    /// Asks, and keeps the effect by `keep`, unless a successor was told the record without it: then it asks that one.
    fn ask_and<T: Marshal>(
        &self,
        call: &StreamCall,
        mut keep: impl FnMut(&mut StreamRecord, &T),
    ) -> Result<T, SocketError> {
        loop {
            let epoch = self.proxy.wait_until_running()?;
            self.tell_owner();
            let number = self.tell_all();
            let answer = self.proxy.ask(&SocketRequest::Stream(number.0, call.clone()), &[]);
            let Some(answer) = self.proxy.settled::<T>(epoch, answer)? else { continue };
            let mut record = self.record.lock();
            if record.known_to != epoch {
                continue;
            }
            keep(&mut record, &answer);
            return Ok(answer);
        }
    }
    /// Tells the stack of bytes that were written or read and not told yet: a call about them follows. Returns the stream's number.
    fn tell_all(&self) -> EndNumber {
        let mut record = self.record.lock();
        let counters = record.stream.counters();
        if (counters.written, counters.read) != (record.told, record.told_read) {
            self.tell_written(&mut record, forth::CALL_FOLLOWS);
        }
        record.number
    }
    /// Tells the stack of the owner, if a program has taken the connection since.
    fn tell_owner(&self) {
        let (number, owner) = {
            let mut record = self.record.lock();
            let owner = record.stream.owner();
            if owner == record.owner {
                return;
            }
            record.owner = owner;
            (record.number, owner)
        };
        let call = SocketRequest::Stream(number.0, StreamCall::Owner(owner));
        // A successor gets it with the record.
        let _ = self.proxy.ask(&call, &[]);
    }
    /// Opens the socket at the stack.
    ///
    /// # Errors
    /// Those of the stack.
    pub(super) fn open(&self) -> Result<(), SocketError> {
        loop {
            let epoch = self.proxy.wait_until_running()?;
            let (number, stream) = {
                let record = self.record.lock();
                (record.number, Arc::clone(&record.stream))
            };
            let owner = stream.owner();
            let start =
                StreamStart { report: stream.read_report(), owner, ..StreamStart::default() };
            let ask = |call| SocketRequest::Stream(number.0, call);
            let made = self.proxy.ask(&ask(StreamCall::Make(start)), &[]);
            if self.proxy.settled::<()>(epoch, made)?.is_none() {
                continue;
            }
            let opened = self.proxy.ask(&ask(StreamCall::Open(self.families, owner)), &[]);
            let Some(opened) = self.proxy.settled::<Result<(), SocketError>>(epoch, opened)? else {
                continue;
            };
            opened?;
            let mut record = self.record.lock();
            // A successor makes the sockets that have been opened: this one is opened there.
            if self.proxy.epoch() == epoch {
                (record.epoch, record.known_to) = (epoch, epoch);
                return Ok(());
            }
        }
    }

    // What the stack does.

    /// Takes bytes that came. Those that do not stand in frames are copied behind the ones before them.
    pub(super) fn pack(&self, bytes: &[u8]) -> Option<PacketSegment> {
        let mut record = self.record.lock();
        let room = record.packing.as_ref().map_or(0, |(_, used)| PAGE_BYTES - used);
        if room < bytes.len() {
            record.packing = Frame::zeroed().ok().map(|frame| (frame, 0));
        }
        let (frame, used) = record.packing.as_mut()?;
        let offset = *used;
        *used += frame.write(offset, bytes);
        (*used == offset + bytes.len()).then(|| PacketSegment {
            frame: frame.clone(),
            offset: offset as u32,
            length: bytes.len() as u32,
        })
    }
    /// Adds to the stream's state. For a closed socket no news are that it closes no more.
    pub(super) fn enter(&self, state: StreamState) {
        let stream = {
            let mut record = self.record.lock();
            if state.is_empty() && record.closed.is_some() {
                record.is_closing = false;
            }
            Arc::clone(&record.stream)
        };
        stream.enter(state);
    }
    /// Hears that the stack has dropped its end.
    pub(super) fn dropped(&self) {
        let stream = {
            let mut record = self.record.lock();
            record.is_closing = false;
            Arc::clone(&record.stream)
        };
        stream.observer().notify(SocketEvents::STATE);
    }
    fn lock(&self) -> MutexGuard<'_, StreamRecord> {
        self.record.lock()
    }
}

/// A program's handle of a [`RemoteStream`]. Its drop aborts the connection, unless the socket was closed.
pub(super) struct RemoteStreamHandle(pub(super) Arc<RemoteStream>);

impl RemoteStreamHandle {
    /// Asks for something whose effect is that the socket has names.
    fn ask_names(
        &self,
        call: &StreamCall,
        keep: impl Fn(&mut StreamRecord),
    ) -> Result<(), SocketError> {
        let answer = self.0.ask_and(call, |record, answer: &Result<Names, SocketError>| {
            if let Ok((local, peer)) = answer {
                (record.local, record.peer) = (*local, *peer);
                keep(record);
            }
        })?;
        answer.map(drop)
    }
    fn names(&self) -> Names {
        self.0.ask(&StreamCall::Names).unwrap_or_else(|_| {
            let record = self.0.lock();
            (record.local, record.peer)
        })
    }
}

impl StreamSocket for RemoteStreamHandle {
    fn bind(&self, address: SocketAddr) -> Result<(), SocketError> {
        self.ask_names(&StreamCall::Bind(address), |record| {
            record.has_own_address = !address.ip().is_unspecified();
            record.port = if address.port() == 0 { KeptPort::Bound } else { KeptPort::Named };
        })
    }
    fn local(&self) -> SocketAddr {
        self.names().0
    }
    fn peer(&self) -> Option<SocketAddr> {
        self.names().1
    }
    fn connect(&self, peer: SocketAddr) -> Result<(), SocketError> {
        self.ask_names(&StreamCall::Connect(peer), |_| ())
    }
    fn connect_with_data(&self, peer: SocketAddr) -> Result<(), SocketError> {
        self.ask_names(&StreamCall::ConnectWithData(peer), |_| ())
    }
    fn has_fast_open_cookie(&self, peer: IpAddr) -> bool {
        self.0.ask(&StreamCall::HasCookie(peer)).unwrap_or(false)
    }
    fn disconnect(&self, stream: Arc<Stream>) {
        let fresh = self.0.proxy.next_number();
        self.0.proxy.prepare(fresh, &stream);
        self.0.proxy.add_stream(fresh, &self.0);
        let before = self.0.number();
        // A stack that is given up has no socket to disconnect.
        let _ = self.0.ask_and(&StreamCall::Disconnect(fresh.0), |record, (): &()| {
            record.number = fresh;
            record.stream = Arc::clone(&stream);
            (record.told, record.told_read) = (0, 0);
            record.listening = None;
            record.is_shut_down = false;
            record.peer = None;
        });
        self.0.proxy.forget_stream(before);
        let names = self.names();
        let mut record = self.0.lock();
        (record.local, record.peer) = names;
    }
    fn listen(&self, backlog: u32, acceptor: Arc<dyn Acceptor>) -> Result<(), SocketError> {
        // The acceptor has to be there before the first connection.
        let is_first = {
            let mut record = self.0.lock();
            match &mut record.listening {
                Some(listening) => {
                    listening.backlog = backlog;
                    false
                }
                place @ None => {
                    let waiting = VecDeque::new();
                    *place = Some(ListenerRecord { backlog, acceptor, waiting });
                    true
                }
            }
        };
        let result = self.ask_names(&StreamCall::Listen(backlog), |record| {
            if record.port == KeptPort::Chosen {
                record.port = KeptPort::Bound;
            }
        });
        if result.is_err() && is_first {
            self.0.lock().listening = None;
        }
        result
    }
    fn accepted(&self) {
        if let Some(listening) = &mut self.0.lock().listening {
            listening.waiting.pop_front();
        }
        let _ = self.0.ask::<()>(&StreamCall::Accepted);
    }
    fn written(&self, more: MoreData) {
        let flags = if more == MoreData::Soon { forth::MORE_SOON } else { 0 };
        self.0.tell_written(&mut self.0.lock(), flags);
    }
    fn mark_urgent(&self) {
        let _ = self.0.ask::<()>(&StreamCall::MarkUrgent);
    }
    fn urgent_mark(&self) -> Option<u64> {
        let mark: Option<u64> = self.0.ask(&StreamCall::UrgentMark).unwrap_or(None);
        // The stack need not have heard of the last reads.
        mark.filter(|mark| *mark >= self.0.stream().counters().read)
    }
    fn read(&self) {
        self.0.tell_read();
    }
    fn shut_down_send(&self) {
        let keep = |record: &mut StreamRecord, (): &()| record.is_shut_down = true;
        let _ = self.0.ask_and(&StreamCall::ShutDownSend, keep);
    }
    fn configure(&self, options: &StreamOptions) {
        let keep = |record: &mut StreamRecord, (): &()| record.options = *options;
        let _ = self.0.ask_and(&StreamCall::Configure(*options), keep);
    }
    fn set_quick_ack(&self, quick: QuickAcknowledge) {
        let is_quick = quick == QuickAcknowledge::On;
        let _ = self.0.ask::<()>(&StreamCall::QuickAcknowledge(is_quick));
    }
    fn take_saved_syn(&self, room: usize) -> Result<Vec<u8>, SocketError> {
        self.0.ask(&StreamCall::SavedSyn(room))?
    }
    fn info(&self) -> StreamInfo {
        self.0.ask(&StreamCall::Info).unwrap_or_default()
    }
    fn header_options(&self) -> Ipv4OptionList {
        self.0.ask(&StreamCall::HeaderOptions).unwrap_or(Ipv4OptionList::EMPTY)
    }
    fn send_window(&self) -> (u32, u32) {
        self.0.ask(&StreamCall::SendWindow).unwrap_or_default()
    }
    fn close(&self, kind: CloseKind) {
        let known_to = {
            let mut record = self.0.lock();
            if record.closed.is_some() {
                return;
            }
            record.closed = Some(kind);
            record.is_closing = true;
            record.known_to
        };
        self.0.tell_owner();
        let number = self.0.tell_all();
        let proxy = &self.0.proxy;
        let answer = proxy.wait_until_running().and_then(|epoch| {
            if epoch != known_to {
                // It was told so with the record, and may know nothing of the socket any more.
                return Ok(None);
            }
            let call = SocketRequest::Stream(number.0, StreamCall::Close(kind));
            proxy.settled::<bool>(epoch, proxy.ask(&call, &[]))
        });
        match answer {
            Ok(Some(is_closing)) => self.0.lock().is_closing &= is_closing,
            // The successor gets a socket that is closed.
            Ok(None) => {}
            Err(_) => {
                self.0.lock().is_closing = false;
                proxy.forget_stream(number);
            }
        }
    }
    fn is_closing(&self) -> bool {
        {
            let record = self.0.lock();
            if record.closed.is_some() {
                return record.is_closing;
            }
        }
        self.0.ask(&StreamCall::IsClosing).unwrap_or(false)
    }
}

impl Drop for RemoteStreamHandle {
    fn drop(&mut self) {
        let number = {
            let mut record = self.0.lock();
            if record.closed.is_some() {
                return;
            }
            record.closed = Some(CloseKind::Abort);
            record.number
        };
        // The stack's own thread may be the one that drops the handle, so nothing is asked.
        self.0.proxy.refuse(number);
    }
}
