//! Calls of programs that change a socket's state: bind, connect, listen, disconnect, close.
use super::{
    claims::{PortClaim, PortOrigin},
    ends::{self, flow},
    flows::FlowOwner,
    input::report,
    listen::NewChild,
    listening::Listening,
    options,
    output::{find_path, request_for},
    parameters::WaitingReuse,
    socket::{LiveConnection, SocketRole, SocketState, TcpSocket, unspecified},
};
use crate::{
    base::address::Family,
    ip::events::PacketEvent,
    ip::path::SendRequest,
    service::{inet::Inet, passage::Passage},
    sockets::bindings,
    tables::configuration::Configuration,
    transport::datagram_names::can_bind,
};
use alloc::{boxed::Box, sync::Arc};
use core::net::{IpAddr, SocketAddr};
use interfaces::sockets::{
    Acceptor, CloseKind, IpOptions, SocketError, SocketFamilies, Stream, StreamOptions, StreamState,
};
use tcp::{Connection, FastOpen, OwnNumbers, TcpEvents};

/// The use of Fast Open by a connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamOpening {
    Plain,
    WithData,
}

/// The end of a connection's flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowEnd {
    /// The flow has no owner any more.
    Taken,
    /// TIME-WAIT has the flow.
    Given,
}

/// A flow that was given to a socket, and the initial sequence number that TIME-WAIT chose, if it had the flow.
struct TakenFlow {
    flow: tcp::Flow,
    hash: u64,
    iss: Option<u32>,
}

impl SocketState {
    /// Binds the socket; see [`interfaces::sockets::StreamSocket::bind`]. The order of the checks is Linux's.
    pub(crate) fn bind(
        &mut self,
        inet: &Inet,
        configuration: &Configuration,
        end: SocketAddr,
    ) -> Result<(), SocketError> {
        let address = end.ip();
        if !bindings::includes(self.families(), Family::of(address)) {
            return Err(SocketError::Family);
        }
        let is_any = address.is_unspecified();
        let link = match end {
            SocketAddr::V6(end) => Some(end.scope_id()).filter(|scope| *scope != 0),
            SocketAddr::V4(_) => None,
        };
        can_bind(configuration, (address, link), &self.options.ip)?;
        if self.claim.is_some() || !matches!(self.role, SocketRole::Idle) {
            return Err(SocketError::Invalid);
        }
        let mut claim = self.wanted_claim((!is_any).then_some(address), PortOrigin::Bound);
        if is_any && address.is_ipv4() {
            claim.families = SocketFamilies::V4;
        }
        let ports = &inet.streams().ports;
        let port = match end.port() {
            0 if self.options.ip.binds_no_port => {
                self.has_own_address = !is_any;
                self.local = SocketAddr::new(address, 0);
                return Ok(());
            }
            0 => ports.bind_any(&claim, inet.stack().port_choice()).ok_or(SocketError::InUse)?,
            port if ports.bind(port, &claim) => port,
            _ => return Err(SocketError::InUse),
        };
        self.claim = Some(claim);
        self.has_own_address = !is_any;
        self.has_own_port = end.port() != 0;
        self.local = SocketAddr::new(address, port);
        Ok(())
    }
    /// Starts to connect; see [`interfaces::sockets::StreamSocket::connect`]. Returns the child of a listener of this host that has
    /// taken the connection, to be given to its program when the lock is released.
    pub(crate) fn connect(
        &mut self,
        inet: &Inet,
        passage: &mut Passage,
        socket: &Arc<TcpSocket>,
        (peer, opening): (SocketAddr, StreamOpening),
    ) -> Result<Option<NewChild>, SocketError> {
        if !matches!(self.role, SocketRole::Idle) {
            return Err(SocketError::Invalid);
        }
        if !bindings::includes(self.families(), Family::of(peer.ip())) {
            return Err(SocketError::Family);
        }
        let fast_open = match opening {
            StreamOpening::Plain => FastOpen::Off,
            StreamOpening::WithData if !inet.streams().parameters.may_open_fast() => {
                return Err(SocketError::Unsupported);
            }
            StreamOpening::WithData => {
                let cookie = inet.streams().cookies.get(peer.ip());
                cookie.map_or(FastOpen::Request, FastOpen::Cookie)
            }
        };
        let mut peer = peer;
        if peer.ip().is_unspecified() {
            peer.set_ip(Family::of(peer.ip()).loopback());
        }
        let request = request_for(
            (&self.options, self.owner.user),
            (self.own_address(), self.local.port()),
            peer,
        );
        let request = SendRequest { label: self.owner.label, ..request };
        let path = find_path(inet, passage, request, &self.options.ip)?;
        let taken = self.take_flow(inet, passage.now_ns, socket, (path.path.source, peer))?;
        let settings = match self.has_first_options {
            true => passage.first_settings(&path, &self.options),
            false => path.settings(&self.options, &inet.streams().parameters),
        };
        let (now_ns, room) = (passage.now_ns, self.room());
        let (iss, answer) = inet.streams().secret.initial_sequences(&taken.flow, now_ns);
        let numbers = OwnNumbers { iss, clock_offset: passage.clock_offset(&taken.flow) };
        let mut connection = Connection::connect_with(now_ns, numbers, &settings, room, fast_open);
        connection.write_to(self.stream.counters().written);
        if let Some(iss) = taken.iss {
            connection.start_at(iss);
        }
        passage.worker.events().add(PacketEvent::TcpActiveOpen, 1);
        self.peer = Some(peer);
        let hashes = (taken.hash, inet.streams().flows.peer_hash(&taken.flow));
        let live = LiveConnection::new((connection, taken.flow), hashes, Some(path));
        self.role = SocketRole::Live(live);
        let opened = self.open_to_listener(inet, passage, answer);
        let SocketRole::Live(live) = &mut self.role else { return Ok(opened) };
        if opened.is_none() || live.connection.written() > 0 {
            if opened.is_some() {
                report(live, &self.stream, TcpEvents::CONNECTED);
            }
            self.after(inet, passage, socket, TcpEvents::empty());
        } else {
            live.begin(inet, &self.stream);
            report(live, &self.stream, TcpEvents::CONNECTED);
            self.follow_state(inet, passage, socket);
        }
        Ok(opened)
    }
    /// Takes the flow from the bound port, or from one of the stack's choice, to `peer`.
    fn take_flow(
        &mut self,
        inet: &Inet,
        now_ns: u64,
        socket: &Arc<TcpSocket>,
        (source, peer): (IpAddr, SocketAddr),
    ) -> Result<TakenFlow, SocketError> {
        if self.claim.is_some() {
            let local = SocketAddr::new(source, self.local.port());
            let taken = enter(inet, now_ns, socket, flow(local, peer, self.owner.label));
            self.local = taken.as_ref().map_or(self.local, |_| local);
            return taken.ok_or(SocketError::NoAddress);
        }
        let ports = &inet.streams().ports;
        let claim = self.wanted_claim(Some(source), PortOrigin::Chosen);
        let (range, random) = inet.stack().port_choice();
        for port in bindings::candidates(range, random) {
            if !ports.share(port, &claim) {
                continue;
            }
            let local = SocketAddr::new(source, port);
            if let Some(taken) = enter(inet, now_ns, socket, flow(local, peer, claim.label)) {
                self.claim = Some(claim);
                self.has_own_port = false;
                self.local = local;
                return Ok(taken);
            }
            ports.release(port, &claim);
        }
        Err(SocketError::NoAddress)
    }
    /// Takes connections; see [`interfaces::sockets::StreamSocket::listen`].
    pub(crate) fn listen(
        &mut self,
        inet: &Inet,
        socket: &Arc<TcpSocket>,
        backlog: u32,
        acceptor: Arc<dyn Acceptor>,
    ) -> Result<(), SocketError> {
        match &mut self.role {
            SocketRole::Idle => {}
            SocketRole::Live(_) => return Err(SocketError::Invalid),
            SocketRole::Listening(listening) => {
                listening.backlog = backlog;
                listening.listener.settings_mut().backlog = backlog as usize;
                return Ok(());
            }
        }
        let ports = &inet.streams().ports;
        let bound = match self.claim {
            Some(claim) => claim,
            None => {
                let claim = self.wanted_claim(self.own_address(), PortOrigin::Bound);
                let port =
                    ports.bind_any(&claim, inet.stack().port_choice()).ok_or(SocketError::InUse)?;
                if !self.has_own_address {
                    self.local = unspecified(self.families());
                }
                self.local.set_port(port);
                *self.claim.insert(claim)
            }
        };
        let claim = ports.listen(self.local.port(), &bound, socket).ok_or(SocketError::InUse)?;
        self.claim = Some(claim);
        let listening = Listening::new(backlog, &self.options, acceptor);
        self.role = SocketRole::Listening(Box::new(listening));
        Ok(())
    }
    /// Sets the options. Returns whether bytes that were held back may go now: the caller sends them.
    pub(crate) fn configure(
        &mut self,
        inet: &Inet,
        passage: &mut Passage,
        socket: &Arc<TcpSocket>,
        options: &StreamOptions,
    ) -> bool {
        // A program that has set no options of the header leaves those that answer its SYN's.
        let header_options = options.ip.header_options.or(self.options.ip.header_options);
        let ip = IpOptions { header_options, ..options.ip };
        let options = &StreamOptions { ip, ..*options };
        // Servers set TCP_CORK at each answer.
        if self.options.cork != options.cork
            && let SocketRole::Live(live) = &mut self.role
            && (StreamOptions { cork: self.options.cork, ..*options }) == self.options
        {
            self.options.cork = options.cork;
            self.has_first_options = false;
            return live.connection.set_cork(options.cork || live.is_held_by_more);
        }
        // A path depends on these options alone.
        let is_way_kept = ip == self.options.ip;
        self.options = *options;
        self.has_first_options = false;
        if options.saves_syn {
            inet.streams().save_syns();
        }
        if let Some(old) = self.claim {
            let ip = &options.ip;
            let new = PortClaim {
                interface: ip.interface,
                reuses_address: ip.reuses_address,
                reuses_port: ip.reuses_port,
                ..old
            };
            if new != old {
                self.change_claim(inet, (&old, &new), socket);
            }
        }
        match &mut self.role {
            SocketRole::Idle => false,
            SocketRole::Listening(listening) => {
                listening.configure(options);
                false
            }
            SocketRole::Live(live) => {
                let segment_max = live.path.map(|path| path.segment_max());
                let parameters = &inet.streams().parameters;
                let mut settings = options::settings(options, segment_max, parameters);
                // The segment size stays that of the SYN: the peer was told it.
                settings.mss = live.connection.settings().mss;
                settings.cork |= live.is_held_by_more;
                let is_released = live.connection.set_settings(passage.now_ns, settings);
                live.path = live.path.filter(|_| is_way_kept);
                if let Some(path) = &live.path {
                    live.connection.set_path_mss(path.sent_max(options));
                }
                if !is_released {
                    self.after(inet, passage, socket, TcpEvents::empty());
                }
                is_released
            }
        }
    }
    /// Ends connection or listening at once. The port stays if the program bound it.
    pub(crate) fn stop(&mut self, inet: &Inet, passage: &mut Passage, socket: &Arc<TcpSocket>) {
        match &mut self.role {
            SocketRole::Idle => {}
            SocketRole::Listening(_) => {
                self.end_children_claim(inet);
                self.role = SocketRole::Idle;
                self.disarm(inet, socket);
                if let Some(claim) = self.claim {
                    let port = self.local.port();
                    self.claim = Some(inet.streams().ports.end_listening(port, &claim, socket));
                }
            }
            SocketRole::Live(live) => {
                live.connection.abort();
                self.after(inet, passage, socket, TcpEvents::empty());
            }
        }
    }
    /// Makes the socket one that is not connected, with a fresh stream (Linux: tcp_disconnect).
    pub(crate) fn disconnect(
        &mut self,
        inet: &Inet,
        passage: &mut Passage,
        socket: &Arc<TcpSocket>,
        stream: Arc<Stream>,
    ) {
        self.stop(inet, passage, socket);
        if !self.has_own_port {
            self.release_port(inet);
        }
        if !self.has_own_address {
            self.local.set_ip(unspecified(self.families()).ip());
        }
        if self.claim.is_none() {
            self.local.set_port(0);
        }
        self.peer = None;
        self.stream = stream;
    }
    /// Ends the program's use.
    pub(crate) fn close(
        &mut self,
        inet: &Inet,
        passage: &mut Passage,
        socket: &Arc<TcpSocket>,
        kind: CloseKind,
    ) {
        let room = self.room();
        self.is_orphan = true;
        match (&mut self.role, kind) {
            (SocketRole::Live(live), CloseKind::Orderly) => {
                let counters = self.stream.counters();
                live.connection.note_read(counters.read, room);
                live.connection.write_to(counters.written);
                if self.close_directly(inet, passage, socket) {
                    return;
                }
                let SocketRole::Live(live) = &mut self.role else { return };
                live.connection.read_to(counters.read, room);
                live.connection.close(passage.now_ns);
                live.is_closing = true;
                self.after(inet, passage, socket, TcpEvents::empty());
            }
            _ => {
                self.stop(inet, passage, socket);
                self.release_port(inet);
            }
        }
    }
    /// Returns whether the port stays when the connection ends.
    pub(super) fn keeps_port(&self) -> bool {
        self.has_own_port && !self.is_orphan
    }
    /// Notes the end of the connection, after its last segment. The peer stays: accept(2) tells it of a connection that has ended.
    pub(super) fn end(&mut self, inet: &Inet, socket: &Arc<TcpSocket>, flow_end: FlowEnd) {
        if let SocketRole::Live(live) = core::mem::replace(&mut self.role, SocketRole::Idle)
            && flow_end == FlowEnd::Taken
        {
            let owner = FlowOwner::Live(Arc::clone(socket));
            inet.streams().flows.remove(&live.flow, live.hash, &owner);
        }
        self.disarm(inet, socket);
        if !self.keeps_port() {
            self.release_port(inet);
        }
        let ended = StreamState::RECEIVE_ENDED | StreamState::SEND_ENDED;
        // A program that lingers in close hears of an orphan, too, by its last acknowledgement (`after`); no other does.
        let is_heard = !self.is_orphan || inet.is_kept();
        if is_heard && !self.stream.state().contains(ended) {
            self.stream.enter(ended);
        }
    }
}

/// Gives a flow to a socket, unless another has it. `None` if one has.
fn enter(inet: &Inet, now_ns: u64, socket: &Arc<TcpSocket>, flow: tcp::Flow) -> Option<TakenFlow> {
    let table = &inet.streams().flows;
    let hash = table.hash(&flow);
    if table.insert(&flow, hash, FlowOwner::Live(Arc::clone(socket))) {
        return Some(TakenFlow { flow, hash, iss: None });
    }
    let is_allowed = match inet.streams().parameters.waiting_reuse() {
        WaitingReuse::Off => false,
        WaitingReuse::All => true,
        WaitingReuse::Loopback => {
            ends::address(flow.local).is_loopback() && ends::address(flow.remote).is_loopback()
        }
    };
    match table.find(&flow, hash)? {
        FlowOwner::Waiting(waiting) if is_allowed => {
            let iss = waiting.reuse(inet, now_ns, socket)?;
            Some(TakenFlow { flow, hash, iss: Some(iss) })
        }
        _ => None,
    }
}
