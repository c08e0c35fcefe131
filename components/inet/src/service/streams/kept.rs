//! [`KeptStream`]: a socket whose stack is gone, as its client knows it. [`Inet::restore_stream`] makes it again.
//!
//! The client has the stream with its bytes and counters, the options, the ends and the acceptor. The words that the predecessor
//! kept with the stream ([`tcp::Connection::kept_words`]) are the rest. A connection acknowledges at once and sends again from the
//! last acknowledged byte. The SYN of one that was being opened is sent again with the same sequence number. Handshakes that
//! others began go on ([`Inet::go_on`]). Bytes out of order are lost: the peer sends them again.
use super::{
    claims::{PortClaim, PortOrigin, PortStage},
    ends,
    flows::FlowOwner,
    handle::StreamHandle,
    input::is_closing,
    listening::Listening,
    options,
    output::{bare_request, find_path, request_for},
    socket::{LiveConnection, SocketRole, SocketState, TcpSocket},
};
use crate::{
    service::{
        inet::Inet,
        kept::flows::{FlowStage, KeptFlow, KeptSlot},
        passage::Passage,
    },
    tables::interface::InterfaceIndex,
};
use alloc::{boxed::Box, sync::Arc};
use interfaces::sockets::{
    Acceptor, KeptListening, KeptPort, KeptStream, SocketError, SocketFamilies, Stream,
    StreamSocket, StreamState,
};
use tcp::{Connection, FastOpen, Flow, KeptCounters, KeptState, Settings, TcpEvents};

/// The state of a stream whose connection has ended.
const ENDED: StreamState = StreamState::RECEIVE_ENDED.union(StreamState::SEND_ENDED);

/// The program's direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sending {
    /// Bytes may follow.
    Open,
    /// It ends with the last byte written.
    ShutDown,
}

impl Inet {
    /// Makes the socket of a stack that is gone again. The addresses and routes are set before. The
    /// predecessor was retired ([`Inet::retire`]), and its handle is not used any more.
    ///
    /// # Errors
    /// `Reset` if the state that was kept contradicts itself, or another socket has the connection's ends; the stream has ended
    /// then. `Invalid` for a listener without a port or an acceptor.
    pub fn restore_stream(
        &self,
        stream: Arc<Stream>,
        kept: KeptStream,
        acceptor: Option<Arc<dyn Acceptor>>,
    ) -> Result<Arc<dyn StreamSocket>, SocketError> {
        let inet = self.itself()?;
        let KeptStream { families, owner, options, local, peer, .. } = kept;
        let mut state = SocketState::new(stream, families, owner);
        (state.options, state.local, state.peer) = (options, local, peer);
        state.has_first_options = false;
        state.has_own_address = kept.has_own_address;
        state.has_own_port = kept.port == KeptPort::Named;
        if options.saves_syn {
            self.streams().save_syns();
        }
        let socket = Arc::new(TcpSocket::new(self.streams().number(), state));
        let sending = if kept.is_shut_down { Sending::ShutDown } else { Sending::Open };
        self.pass(|passage| {
            socket.with(self, passage, |state, passage| {
                state.claim_again(self, kept.port);
                match kept.listening {
                    Some(listening) => state.listen_again(self, &socket, listening, acceptor),
                    None => state.connect_again(self, passage, &socket, sending),
                }
            })
        })?;
        Ok(Arc::new(StreamHandle::new(inet, socket)))
    }
    /// Begins the work of a successor, whose sockets were made again: connections in TIME-WAIT and half-open ones go on, and each
    /// connection acknowledges and sends again.
    pub fn go_on(&self) {
        for (kept, slot) in self.take_found() {
            match kept.stage {
                FlowStage::Waiting(claim) => self.wait_again(&kept, claim, slot),
                FlowStage::HalfOpen(interface) => self.open_again(&kept, interface, slot),
            }
        }
        self.end_restoring();
        self.pass(|passage| {
            for (_, owner) in self.streams().flows.all() {
                let FlowOwner::Live(socket) = owner else { continue };
                socket.with(self, passage, |state, passage| {
                    state.after(self, passage, &socket, TcpEvents::empty());
                });
            }
        });
    }
    /// Gives a half-open connection of the predecessor to its listener. It ends if there is none, or it has become a connection.
    fn open_again(&self, kept: &KeptFlow, interface: u32, slot: KeptSlot) {
        let (streams, flow) = (self.streams(), kept.flow);
        let hash = streams.flows.hash(&flow);
        let end = (ends::address(flow.local), flow.local_port);
        if streams.flows.find(&flow, hash).is_some() {
            return;
        }
        let Some(socket) =
            streams.ports.listener(end, (InterfaceIndex(interface), flow.label), hash >> 16)
        else {
            return;
        };
        let now_ns = self.now_ns();
        self.pass(|passage| {
            socket.with(self, passage, |state, passage| {
                let request = bare_request(
                    (&flow, InterfaceIndex(interface)),
                    (&state.options, state.owner.user),
                );
                let Ok(path) = find_path(self, passage, request, &state.options.ip) else { return };
                let child = path.settings(&state.options, &streams.parameters);
                let SocketRole::Listening(listening) = &mut state.role else { return };
                // The SYN-ACK says the same as the predecessor's.
                listening.set_child(child, &streams.parameters);
                let place = (&flow, &streams.secret);
                listening.listener.resume_request(now_ns, place, &kept.words);
                listening.keep_on(flow, slot);
                let deadline = listening.listener.deadline();
                state.arm(self, &socket, deadline);
            });
        });
    }
}

impl SocketState {
    /// Claims the port that the socket had. The predecessor checked that it may have it.
    fn claim_again(&mut self, inet: &Inet, port: KeptPort) {
        let has_ended = self.stream.state().contains(ENDED) && !self.has_own_port;
        if self.local.port() == 0 || has_ended {
            return;
        }
        let address = self.local.ip();
        let (origin, is_one) = match port {
            KeptPort::Named | KeptPort::Bound => (PortOrigin::Bound, self.has_own_address),
            KeptPort::Inherited => (PortOrigin::Bound, true),
            KeptPort::Chosen => (PortOrigin::Chosen, true),
        };
        let mut claim = self.wanted_claim(is_one.then_some(address), origin);
        if address.is_unspecified() && address.is_ipv4() {
            claim.families = SocketFamilies::V4;
        }
        inet.streams().ports.add(self.local.port(), &claim);
        self.claim = Some(claim);
    }
    fn listen_again(
        &mut self,
        inet: &Inet,
        socket: &Arc<TcpSocket>,
        kept: KeptListening,
        acceptor: Option<Arc<dyn Acceptor>>,
    ) -> Result<(), SocketError> {
        let acceptor = acceptor.ok_or(SocketError::Invalid)?;
        let bound = self.claim.ok_or(SocketError::Invalid)?;
        let claim = PortClaim { stage: PortStage::Listening, ..bound };
        inet.streams().ports.listen_again(self.local.port(), (&bound, &claim), socket);
        self.claim = Some(claim);
        let mut listening = Listening::new(kept.backlog, &self.options, acceptor);
        let label = self.owner.label;
        let flows = kept.waiting.into_iter().map(|(local, peer)| ends::flow(local, peer, label));
        flows.for_each(|flow| listening.listener.adopt(flow));
        self.role = SocketRole::Listening(Box::new(listening));
        Ok(())
    }
    /// Makes the connection again, if there was one.
    fn connect_again(
        &mut self,
        inet: &Inet,
        passage: &mut Passage,
        socket: &Arc<TcpSocket>,
        sending: Sending,
    ) -> Result<(), SocketError> {
        let Some(peer) = self.peer else { return Ok(()) };
        let counters = self.stream.counters();
        let kept = KeptState::of_words(
            &self.stream.kept().load(),
            &KeptCounters {
                written: counters.written,
                acked: counters.acked,
                received: counters.received,
                read: counters.read,
            },
        );
        if kept == KeptState::None {
            return self.end_again(inet);
        }
        let request = request_for(
            (&self.options, self.owner.user),
            (Some(self.local.ip()), self.local.port()),
            peer,
        );
        let path = find_path(inet, passage, request, &self.options.ip).ok();
        let parameters = &inet.streams().parameters;
        let settings = path.map_or_else(
            || options::settings(&self.options, None, parameters),
            |path| path.settings(&self.options, parameters),
        );
        let flow = ends::flow(self.local, peer, self.owner.label);
        let made = self.connection_again(inet, (passage.now_ns, &flow), &kept, settings);
        let table = &inet.streams().flows;
        let hash = table.hash(&flow);
        let hashes = (hash, table.peer_hash(&flow));
        let owner = FlowOwner::Live(Arc::clone(socket));
        let Some(mut connection) = made.filter(|_| table.insert(&flow, hash, owner)) else {
            self.release_port(inet);
            self.stream.fail(SocketError::Reset);
            return Err(SocketError::Reset);
        };
        connection.write_to(counters.written);
        if sending == Sending::ShutDown {
            connection.shutdown_write();
        }
        self.tell_again(&connection);
        let mut live = LiveConnection::new((connection, flow), hashes, path);
        live.is_closing = self.is_orphan && is_closing(&live);
        self.role = SocketRole::Live(live);
        Ok(())
    }
    /// Makes a connection of what was kept; `None` if that contradicts itself.
    fn connection_again(
        &mut self,
        inet: &Inet,
        (now_ns, flow): (u64, &Flow),
        kept: &KeptState,
        settings: Settings,
    ) -> Option<Box<Connection>> {
        let room = self.room();
        match kept {
            KeptState::None => None,
            KeptState::Connecting { iss, syn_ns } => {
                let secret = &inet.streams().secret;
                let mut connection =
                    Connection::connect(now_ns, flow, secret, settings, room, FastOpen::Off);
                connection.resume_at(*iss, *syn_ns);
                Some(connection)
            }
            KeptState::Connected(kept) => {
                self.is_orphan = kept.is_detached;
                Connection::rebuild(now_ns, kept, settings, room).ok().map(Box::new)
            }
        }
    }
    /// Ends a connection of which nothing was kept: it had ended, or its handshake was under way.
    fn end_again(&mut self, inet: &Inet) -> Result<(), SocketError> {
        self.peer = None;
        if !self.has_own_port {
            self.release_port(inet);
        }
        if self.stream.state().contains(ENDED) {
            return Ok(());
        }
        self.stream.fail(SocketError::Reset);
        Err(SocketError::Reset)
    }
    /// Tells the client of changes that the predecessor kept and did not tell any more.
    fn tell_again(&self, connection: &Connection) {
        let mut state = StreamState::empty();
        state.set(StreamState::CONNECTED, connection.state().is_synchronized());
        state.set(StreamState::RECEIVE_ENDED, connection.is_peer_closed());
        if !self.stream.state().contains(state) {
            self.stream.enter(state);
        }
    }
}
