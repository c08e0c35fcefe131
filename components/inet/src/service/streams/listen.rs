//! Listeners: segments of no connection yet, and their children.
use super::{
    arrival::TcpArrival,
    claims::{PortClaim, PortOrigin},
    ends::address,
    flows::FlowOwner,
    handle::StreamHandle,
    input::{self, keep, report},
    listening::{Came, Listening},
    output::{bare_request, find_path, send, send_bare},
    path::StreamPath,
    socket::{LiveConnection, SocketRole, SocketState, TcpSocket},
};
use crate::{
    base::address::Family,
    ip::events::PacketEvent,
    service::{inet::Inet, kept::flows::KeptSlot, passage::Passage},
    tables::interface::InterfaceIndex,
};
use alloc::{boxed::Box, sync::Arc};
use core::net::SocketAddr;
use interfaces::sockets::{Acceptor, SocketOwner, Stream, StreamOptions, StreamState};
use tcp::{Context, Flow, ListenerReply, Outgoing, OwnNumbers, TcpEvents, TcpSegment};

impl Listening {
    /// Repeats SYN-ACKs whose time has come.
    pub(crate) fn expire(&mut self, inet: &Inet, passage: &mut Passage, options: &StreamOptions) {
        while let Some((flow, segment)) = self.listener.output(passage.now_ns) {
            let answering = self.answering(&flow, options);
            let options = answering.as_ref().unwrap_or(options);
            send_bare(inet, passage, (&flow, InterfaceIndex::LOOPBACK), options, segment);
        }
        self.keep_less();
    }
}

/// The rest of the work for a segment, after the listener's lock is released.
enum ListenNext {
    /// None.
    Done,
    /// The flow has an owner by now.
    Again(Box<TcpArrival>),
    /// Nobody listens any more.
    Refuse(Box<TcpArrival>),
    /// A connection was made.
    Child(NewChild),
}

/// A connection that a listener made, for the program that listens.
pub(crate) struct NewChild {
    child: Arc<TcpSocket>,
    stream: Arc<Stream>,
    acceptor: Arc<dyn Acceptor>,
    /// Its slot as a half-open connection is kept until the program knows of it.
    kept: Option<KeptSlot>,
    /// It has nothing to send, and no timer.
    is_settled: bool,
}

impl NewChild {
    /// Gives it to the program. No lock is held.
    pub(super) fn arrive(self, inet: &Inet, passage: &mut Passage) {
        let NewChild { child, stream, acceptor, kept, is_settled } = self;
        if !is_settled {
            child.with(inet, passage, |state, passage| {
                state.after(inet, passage, &child, TcpEvents::empty());
            });
        }
        if let Ok(inet) = inet.itself() {
            acceptor.arrived(stream, Arc::new(StreamHandle::new(inet, child)));
        }
        drop(kept);
    }
}

/// Takes a segment of no connection, for a listener.
pub(crate) fn input(
    inet: &Inet,
    passage: &mut Passage,
    listener: &Arc<TcpSocket>,
    (arrival, hash): (Box<TcpArrival>, u64),
    iss: Option<u32>,
) {
    let next = listener.with(inet, passage, |state, passage| {
        let next = state.input_listening(inet, passage, (arrival, hash), iss);
        if let SocketRole::Listening(listening) = &state.role {
            let deadline = listening.listener.deadline();
            state.arm(inet, listener, deadline);
        }
        next
    });
    match next {
        ListenNext::Done => {}
        ListenNext::Again(arrival) => passage.outside.segments.push_back(arrival),
        ListenNext::Refuse(arrival) => input::refuse(inet, passage, arrival),
        ListenNext::Child(child) => child.arrive(inet, passage),
    }
}

impl SocketState {
    fn input_listening(
        &mut self,
        inet: &Inet,
        passage: &mut Passage,
        (mut arrival, hash): (Box<TcpArrival>, u64),
        iss: Option<u32>,
    ) -> ListenNext {
        if !self.admits(&mut arrival) {
            return ListenNext::Done;
        }
        let room = self.room();
        let SocketRole::Listening(listening) = &mut self.role else {
            return ListenNext::Refuse(arrival);
        };
        // Another segment may have made the connection since this one was looked up.
        if inet.streams().flows.find(&arrival.flow, hash).is_some() {
            return ListenNext::Again(arrival);
        }
        let came = (&arrival.flow, arrival.interface);
        listening.note_options(&arrival);
        let answering = listening.answering(&arrival.flow, &self.options);
        let options = answering.as_ref().unwrap_or(&self.options);
        let socket = (options, self.owner.user);
        let Some(path) = answer_path(inet, passage, listening, (came, socket)) else {
            return ListenNext::Done;
        };
        let parameters = &inet.streams().parameters;
        listening.follow(&path, &self.options, parameters);
        let secret = &inet.streams().secret;
        let headers = arrival.headers.as_deref().filter(|_| self.options.saves_syn);
        let context = Context { now_ns: passage.now_ns, flow: arrival.flow, secret, room, headers };
        let reply_of_listener = listening.listener.input(&context, &arrival.segment, iss);
        let kept = inet.kept_flows().and_then(|flows| listening.keep(flows, came));
        match reply_of_listener {
            ListenerReply::Drop => ListenNext::Done,
            ListenerReply::Send(segment) => {
                reply(passage, &path, &arrival, segment);
                ListenNext::Done
            }
            ListenerReply::Child(connection, effect) => {
                let Some(stream) = listening.acceptor.stream() else {
                    listening.listener.forget(&arrival.flow);
                    if let Some(reset) = arrival.segment.reset_reply() {
                        reply(passage, &path, &arrival, reset);
                    }
                    return ListenNext::Done;
                };
                passage.worker.events().add(PacketEvent::TcpPassiveOpen, 1);
                let acceptor = Arc::clone(&listening.acceptor);
                let hashes = (hash, inet.streams().flows.peer_hash(&arrival.flow));
                let mut live = LiveConnection::new((connection, arrival.flow), hashes, Some(path));
                let options = listening.take_answering(&arrival.flow, &self.options);
                keep(&mut live, &stream, passage, &effect, arrival);
                let child = self.child(inet, Arc::clone(&stream), (live, effect.events, options));
                ListenNext::Child(NewChild { child, stream, acceptor, kept, is_settled: false })
            }
        }
    }
    /// Opens the connection of `client`, whose SYN from this host has the flow `flow` here: SYN, SYN-ACK and acknowledgement in one
    /// step, without a segment. `None` if they have to be segments; then nothing has changed.
    pub(super) fn open_directly(
        &mut self,
        inet: &Inet,
        passage: &mut Passage,
        client: &mut LiveConnection,
        (flow, iss): (Flow, u32),
    ) -> Option<NewChild> {
        let (hash, is_plain, room) = (client.peer_hash, self.admits_all(), self.room());
        let SocketRole::Listening(listening) = &mut self.role else { return None };
        let is_plain = is_plain && listening.answering(&flow, &self.options).is_none();
        let streams = inet.streams();
        if !is_plain || streams.flows.find(&flow, hash).is_some() {
            return None;
        }
        let answer = ((&flow, InterfaceIndex::LOOPBACK), (&self.options, self.owner.user));
        let path = answer_path(inet, passage, listening, answer)?;
        listening.follow(&path, &self.options, &streams.parameters);
        if !path.path.is_local || !listening.listener.would_open(&flow) {
            return None;
        }
        let stream = listening.acceptor.stream()?;
        let (secret, now_ns) = (&streams.secret, passage.now_ns);
        let numbers = OwnNumbers { iss, clock_offset: passage.clock_offset(&flow) };
        let context = Context { now_ns, flow, secret, room, headers: None };
        let opened = listening.listener.open(&context, numbers, &mut client.connection)?;
        let (connection, options_length) = opened;
        passage.worker.events().add(PacketEvent::TcpPassiveOpen, 1);
        client.count_opening(options_length);
        let acceptor = Arc::clone(&listening.acceptor);
        let mut live = LiveConnection::new((connection, flow), (hash, client.hash), Some(path));
        live.begin(inet, &stream);
        let is_settled = live.connection.deadline().is_none();
        let events = TcpEvents::CONNECTED;
        let child = self.child(inet, Arc::clone(&stream), (live, events, self.options));
        Some(NewChild { child, stream, acceptor, kept: None, is_settled })
    }
    /// Makes the socket of a child, and enters it into the tables.
    fn child(
        &mut self,
        inet: &Inet,
        stream: Arc<Stream>,
        (mut live, events, options): (Box<LiveConnection>, TcpEvents, StreamOptions),
    ) -> Arc<TcpSocket> {
        let (flow, hash) = (live.flow, live.hash);
        let (local, remote) = (address(flow.local), address(flow.remote));
        report(&mut live, &stream, events);
        if !stream.state().contains(StreamState::CONNECTED) {
            // A child of Fast Open, whose handshake goes on.
            stream.enter(StreamState::CONNECTED);
        }
        let claim =
            PortClaim { address: Some(local), ..self.wanted_claim(None, PortOrigin::Bound) };
        let streams = inet.streams();
        let shared_claim = match &mut self.role {
            SocketRole::Listening(listening) => {
                Some(listening.share_claim(&streams.ports, flow.local_port, &claim))
            }
            _ => {
                streams.ports.add(flow.local_port, &claim);
                None
            }
        };
        // All fields are named: the defaults of a new socket's options would be made for nothing.
        let child = SocketState {
            stream,
            made_for: self.made_for,
            owner: SocketOwner { inode: 0, ..self.owner },
            options,
            has_first_options: self.has_first_options && options.ip.header_options.is_none(),
            claim: Some(claim),
            shared_claim,
            has_own_address: false,
            has_own_port: false,
            local: SocketAddr::new(local, flow.local_port),
            peer: Some(SocketAddr::new(remote, flow.remote_port)),
            role: SocketRole::Live(live),
            armed_ns: u64::MAX,
            is_orphan: false,
        };
        let child = Arc::new(TcpSocket::new(streams.number(), child));
        streams.flows.insert(&flow, hash, FlowOwner::Live(Arc::clone(&child)));
        child
    }
}

/// Sends a segment without payload to the sender of `arrival`.
fn reply(passage: &mut Passage, path: &StreamPath, arrival: &TcpArrival, segment: TcpSegment) {
    let out = Outgoing { segment, payload: 0..0, mss: 1, is_ecn_capable: false };
    let blank = passage.unhashed();
    send(passage, path, &arrival.flow, &out, blank);
}

/// Returns the path of answers to a segment that came so, of a socket with those options and user.
fn answer_path(
    inet: &Inet,
    passage: &mut Passage,
    listening: &mut Listening,
    (came, socket): (Came<'_>, (&StreamOptions, u32)),
) -> Option<StreamPath> {
    let versions = inet.stack().refresh(&mut passage.worker);
    let has_options = socket.0.ip.header_options.is_some();
    if !has_options && let Some(path) = listening.answer_path(came, versions) {
        return Some(path);
    }
    let path = find_path(inet, passage, bare_request(came, socket), &socket.0.ip).ok()?;
    if has_options {
        return Some(path);
    }
    // Rules may look at ports.
    let rules = passage.worker.view().configuration.rules();
    if rules.changed(Family::of(path.request.destination)).is_none() {
        listening.keep_answer_path(came, path);
    }
    Some(path)
}
