//! Input of TCP.
use super::{
    arrival::TcpArrival,
    control::FlowEnd,
    ends::address,
    filter,
    flows::FlowOwner,
    held::trim,
    listen, options,
    output::{find_path, request_for, send_bare},
    socket::{LiveConnection, SocketRole, SocketState, TcpSocket},
    time_wait,
};
use crate::{
    base::buffer::Buffer,
    ip::{
        events::{EventRow, PacketEvent},
        path::SendRequest,
    },
    service::{inet::Inet, passage::Passage},
    sockets::errors::RemoteError,
};
use alloc::{boxed::Box, sync::Arc};
use core::net::IpAddr;
use interfaces::{
    nic::PacketSegment,
    sockets::{SocketError, SocketEvents, Stream, StreamOptions, StreamState},
};
use rt::{PAGE_BYTES, memory::Frame};
use tcp::{Arrival, Connection, Flow, IcmpError, TcpEvents, TcpFlags, TcpSegment, TcpState};

/// Payload of a packet from outside that is copied, so that it does not hold a frame: less than this, in bytes.
const COPIED: usize = 1024;

impl Inet {
    /// Takes a segment.
    pub(crate) fn take_segment(&self, passage: &mut Passage, mut arrival: Box<TcpArrival>) {
        if let Some(socket) = arrival.likely_owner.take() {
            // A socket that has lost the flow gives the segment back.
            return socket.take(self, passage, arrival);
        }
        if !arrival.is_local {
            passage.worker.events().add(PacketEvent::TcpIn, 1);
        }
        let flows = &self.streams().flows;
        let hash = arrival.hash.unwrap_or_else(|| flows.hash(&arrival.flow));
        match flows.find(&arrival.flow, hash) {
            Some(FlowOwner::Live(socket)) => socket.take(self, passage, arrival),
            Some(FlowOwner::Waiting(waiting)) => {
                time_wait::input(self, passage, &waiting, arrival);
            }
            None => {
                arrival.hash = Some(hash);
                open(self, passage, arrival, None);
            }
        }
    }
}

/// Takes a segment of no connection. `iss` is the initial sequence number that TIME-WAIT chose for a new one. A successor that does
/// not have all sockets of its predecessor yet drops the segment: the connection may come, and the peer sends again.
pub(crate) fn open(inet: &Inet, passage: &mut Passage, arrival: Box<TcpArrival>, iss: Option<u32>) {
    if inet.stack().lacks_sockets() {
        return passage.recycle(arrival);
    }
    let flow = &arrival.flow;
    let end = (address(flow.local), flow.local_port);
    let hash = arrival.hash.unwrap_or_else(|| inet.streams().flows.hash(flow));
    match inet.streams().ports.listener(end, (arrival.interface, flow.label), hash >> 16) {
        Some(listener) => listen::input(inet, passage, &listener, (arrival, hash), iss),
        None => refuse(inet, passage, arrival),
    }
}

/// Answers a segment of no connection by a reset.
pub(crate) fn refuse(inet: &Inet, passage: &mut Passage, arrival: Box<TcpArrival>) {
    if let Some(reset) = arrival.segment.reset_reply() {
        let ends = (&arrival.flow, arrival.interface);
        send_bare(inet, passage, ends, &StreamOptions::default(), reset);
    }
    passage.recycle(arrival);
}

/// Returns whether a segment from outside has an acknowledgement, and nothing else.
fn is_bare(arrival: &TcpArrival) -> bool {
    let TcpSegment { flags, length, .. } = arrival.segment;
    !arrival.is_local && length == 0 && flags == TcpFlags::ACK
}

impl SocketState {
    /// Takes a segment, and those from outside that are next in this call if they are of the same flow. The connection does not send
    /// between acknowledgements that follow each other: the last of them has it send, in one long packet, into the room that all made.
    pub(crate) fn input(
        &mut self,
        inet: &Inet,
        passage: &mut Passage,
        socket: &Arc<TcpSocket>,
        arrival: Box<TcpArrival>,
    ) {
        self.take_segment(inet, passage, socket, arrival);
        while let SocketRole::Live(live) = &self.role
            && let Some(next) = passage
                .outside
                .segments
                .pop_front_if(|next| !next.is_local && next.flow == live.flow)
        {
            passage.worker.events().add(PacketEvent::TcpIn, 1);
            self.take_segment(inet, passage, socket, next);
        }
    }
    fn take_segment(
        &mut self,
        inet: &Inet,
        passage: &mut Passage,
        socket: &Arc<TcpSocket>,
        mut arrival: Box<TcpArrival>,
    ) {
        if !matches!(&self.role, SocketRole::Live(live) if live.flow == arrival.flow) {
            // The flow went to another owner since this one was found.
            return passage.outside.segments.push_back(arrival);
        }
        if !self.admits(&mut arrival) {
            return passage.recycle(arrival);
        }
        let room = self.room();
        let SocketRole::Live(live) = &mut self.role else { return };
        live.connection.note_read(self.stream.counters().read, room);
        tune(&mut live.connection, &self.stream, passage.now_ns);
        let effect = live.connection.input(passage.now_ns, &arrival.segment, room);
        let is_plain = is_bare(&arrival) && TcpEvents::WRITABLE.contains(effect.events);
        if arrival.more > 0 && effect.payload.is_none() {
            live.connection.count_more_acks(arrival.more);
        }
        keep(live, &self.stream, passage, &effect, arrival);
        if !is_plain || !self.takes_another(passage) {
            return self.after(inet, passage, socket, effect.events);
        }
        if let SocketRole::Live(live) = &mut self.role {
            report(live, &self.stream, effect.events);
        }
    }
    /// Returns whether the next segment of this call is an acknowledgement that the connection will take.
    fn takes_another(&self, passage: &Passage) -> bool {
        let (Some(next), SocketRole::Live(live)) = (passage.outside.segments.front(), &self.role)
        else {
            return false;
        };
        let has_ended = matches!(live.connection.state(), TcpState::Closed | TcpState::TimeWait);
        // Lost bytes go again at once, and F-RTO looks at the packets that each acknowledgement has sent.
        !has_ended
            && !live.connection.is_repairing()
            && is_bare(next)
            && next.flow == live.flow
            && !self.is_too_far(next)
            && self.stream.filter().get().is_none()
    }
    /// Does what follows each call of the connection: tells the program, sends, and sets the timers.
    pub(crate) fn after(
        &mut self,
        inet: &Inet,
        passage: &mut Passage,
        socket: &Arc<TcpSocket>,
        events: TcpEvents,
    ) {
        let SocketRole::Live(live) = &mut self.role else { return };
        live.note_direct(passage.worker.events());
        report(live, &self.stream, events);
        if events.contains(TcpEvents::CONNECTED)
            && let (Some(cookie), Some(peer)) = (live.connection.fast_open_cookie(), self.peer)
        {
            inet.streams().cookies.put(peer.ip(), cookie);
        }
        if self.send(inet, passage) {
            // The program read meanwhile, and was told that nobody awaits it.
            self.note_reads(passage.now_ns);
            self.send(inet, passage);
        }
        let SocketRole::Live(live) = &mut self.role else { return };
        if self.options.unsent_low_water != 0 {
            live.note_unsent(&self.stream, self.options.unsent_low_water);
        }
        if inet.is_kept() {
            // Packets leave when the call ends: the successor of this stack knows of all that has left.
            live.keep_words(&self.stream);
        }
        if self.is_orphan {
            let was_closing = live.is_closing;
            live.is_closing = is_closing(live);
            if was_closing && !live.is_closing {
                self.stream.enter(StreamState::empty());
            }
        }
        self.follow_state(inet, passage, socket);
    }
    /// Takes the connection out of the tables if it has ended; otherwise sets its timers.
    pub(super) fn follow_state(
        &mut self,
        inet: &Inet,
        passage: &mut Passage,
        socket: &Arc<TcpSocket>,
    ) {
        let SocketRole::Live(live) = &self.role else { return };
        match live.connection.state() {
            TcpState::Closed => {
                count_end(passage.worker.events(), live, &self.stream);
                self.end(inet, socket, FlowEnd::Taken);
            }
            TcpState::TimeWait => {
                count_end(passage.worker.events(), live, &self.stream);
                self.wait(inet, passage, socket);
            }
            _ => {
                let deadline = live.connection.deadline();
                self.arm(inet, socket, deadline);
            }
        }
    }
    /// Returns whether a segment has too few hops left (`IP_MINTTL`, `IPV6_MINHOPCOUNT`).
    #[inline]
    fn is_too_far(&self, arrival: &TcpArrival) -> bool {
        let ip = &self.options.ip;
        (ip.ttl_least | ip.hops_least) != 0
            && arrival.hop_limit
                < match address(arrival.flow.remote) {
                    IpAddr::V4(_) => ip.ttl_least,
                    IpAddr::V6(_) => ip.hops_least,
                }
    }
    /// Returns whether the socket takes a segment: its hops suffice, and the filter leaves something of it.
    pub(super) fn admits(&self, arrival: &mut TcpArrival) -> bool {
        !self.is_too_far(arrival)
            && self.stream.filter().get().is_none_or(|program| filter::admit(&program, arrival))
    }
    /// Sends what the connection has to send, and says which reads of the program are awaited. Returns whether there was one.
    fn send(&mut self, inet: &Inet, passage: &mut Passage) -> bool {
        let SocketRole::Live(live) = &mut self.role else { return false };
        SocketState::output(live, &self.stream, (self.peer, &self.options), inet, passage);
        self.stream.await_room(SocketState::memory_for_twice(live.connection.known_window()))
    }
    /// Takes notice of the program's reads. Returns whether the peer should hear of them.
    pub(crate) fn note_reads(&mut self, now_ns: u64) -> bool {
        let room = self.room();
        let SocketRole::Live(live) = &mut self.role else { return false };
        live.connection.read_to(self.stream.counters().read, room);
        tune(&mut live.connection, &self.stream, now_ns);
        live.connection.is_acknowledgement_due()
    }
    /// Returns whether the connection of `flow` sent the sequence number and waits for its acknowledgement.
    pub(crate) fn has_in_flight(&self, flow: &Flow, seq: u32) -> bool {
        match &self.role {
            SocketRole::Live(live) => live.flow == *flow && live.connection.is_in_flight(seq),
            _ => false,
        }
    }
    /// Takes an error about a segment that the connection sent.
    pub(crate) fn hear_error(
        &mut self,
        inet: &Inet,
        passage: &mut Passage,
        socket: &Arc<TcpSocket>,
        (error, seq): (&RemoteError, u32),
    ) {
        let (SocketRole::Live(live), Some(peer)) = (&mut self.role, self.peer) else { return };
        let kind = match error.error {
            SocketError::Refused => IcmpError::Port,
            SocketError::NoProtocol => IcmpError::Protocol,
            SocketError::NetworkUnreachable => IcmpError::Network,
            SocketError::MessageSize => {
                let source = (Some(address(live.flow.local)), live.flow.local_port);
                let socket = (&self.options, self.owner.user);
                let request = request_for(socket, source, peer);
                let request = SendRequest { label: live.flow.label, ..request };
                let Ok(path) = find_path(inet, passage, request, &self.options.ip) else { return };
                live.path = Some(path);
                IcmpError::TooBig(path.sent_max(&self.options))
            }
            _ => IcmpError::Host,
        };
        let events = live.connection.icmp(passage.now_ns, kind, seq);
        self.after(inet, passage, socket, events);
    }
}

/// Counts what is known of a connection at its end.
fn count_end(events: &EventRow, live: &LiveConnection, stream: &Stream) {
    events.add(PacketEvent::TcpRetransmit, live.connection.retransmissions());
    let is_failed = live.connection.error().is_some();
    let is_closed = live.connection.state() == TcpState::Closed;
    match (stream.state().contains(StreamState::CONNECTED), is_failed) {
        (false, _) if is_closed => events.add(PacketEvent::TcpAttemptFail, 1),
        (true, true) => events.add(PacketEvent::TcpReset, 1),
        _ => {}
    }
}

impl LiveConnection {
    /// Keeps the connection for a successor, with its stream.
    #[inline]
    pub(super) fn keep_words(&mut self, stream: &Stream) {
        let shape = self.connection.kept_shape();
        if self.kept_shape == Some(shape) {
            stream.keep(&self.connection.moving_words());
        } else {
            self.kept_shape = Some(shape);
            stream.keep(&self.connection.kept_words());
        }
    }
    /// Tells the program that it may write again once few enough bytes wait to be sent (`TCP_NOTSENT_LOWAT`).
    #[cold]
    fn note_unsent(&mut self, stream: &Stream, low_water: u32) {
        let is_high = self.connection.unsent().saturating_mul(2) >= low_water.into();
        if self.is_unsent_high && !is_high {
            stream.observer().notify(SocketEvents::WRITABLE);
        }
        self.is_unsent_high = is_high;
    }
}

/// Lets received bytes hold more memory, if the program's reads call for it.
#[inline]
pub(super) fn tune(connection: &mut Connection, stream: &Stream, now_ns: u64) {
    if let Some(wanted) = connection.wanted_room(now_ns) {
        // Half of the memory is for the payload.
        let memory = usize::try_from(wanted.saturating_mul(2));
        stream.grow_receive_limit(memory.unwrap_or(usize::MAX));
    }
}

/// Returns whether bytes or the FIN of this side wait for an acknowledgement.
pub(crate) fn is_closing(live: &LiveConnection) -> bool {
    let waits = matches!(
        live.connection.state(),
        TcpState::FinWait1 | TcpState::Closing | TcpState::LastAck
    );
    waits || live.connection.state().is_synchronized() && live.connection.unacknowledged() > 0
}

/// Keeps the payload of a segment: in order in the stream, before it is acknowledged; out of order beside it.
pub(crate) fn keep(
    live: &mut LiveConnection,
    stream: &Stream,
    passage: &mut Passage,
    effect: &Arrival,
    mut arrival: Box<TcpArrival>,
) {
    let (is_local, length) = (arrival.is_local, arrival.segment.length);
    let payload = &mut arrival.payload;
    if let Some(place) = effect.payload {
        if arrival.more > 0 {
            live.connection.count_more_segments(arrival.more);
        }
        if place.skip > 0 || place.length < length {
            trim(payload, place.skip, place.length);
        }
        let LiveConnection { held, packing, .. } = live;
        if place.is_in_order {
            if !is_local {
                pack(packing, payload);
            }
            if !held.is_empty() {
                held.take_from(place.offset + u64::from(place.length), payload);
            }
            stream.deliver(payload);
        } else {
            held.insert(place.offset, core::mem::take(payload), |part| {
                if !is_local {
                    pack(packing, part);
                }
            });
        }
    } else if !payload.is_empty() {
        live.not_taken = live.not_taken.wrapping_add(1);
    }
    passage.recycle(arrival);
}

/// Copies short pieces of a payload behind those before them. They stay as they are if memory is refused.
#[inline]
fn pack(packing: &mut Option<(Frame, usize)>, payload: &mut [PacketSegment]) {
    for piece in payload.iter_mut().filter(|piece| (piece.length as usize) < COPIED) {
        pack_piece(packing, piece);
    }
}

fn pack_piece(packing: &mut Option<(Frame, usize)>, piece: &mut PacketSegment) {
    let length = piece.length as usize;
    let room = packing.as_ref().map_or(0, |(_, used)| PAGE_BYTES - used);
    if room < length {
        // The frame goes to the program's reads piece by piece: none of its bytes may be somebody else's.
        *packing = Frame::zeroed().ok().map(|frame| (frame, 0));
    }
    let Some((frame, used)) = packing else { return };
    let mut bytes = [0; COPIED];
    let count = piece.read(0, &mut bytes);
    if frame.write(*used, bytes.get(..count).unwrap_or_default()) == length {
        *piece = PacketSegment { frame: frame.clone(), offset: *used as u32, length: piece.length };
        *used += length;
    }
}

/// Tells the program's side of what happened to the connection.
#[inline]
pub(crate) fn report(live: &mut LiveConnection, stream: &Stream, events: TcpEvents) {
    if events.contains(TcpEvents::WRITABLE) {
        stream.acknowledge(live.connection.acked());
    }
    if !events.difference(TcpEvents::WRITABLE | TcpEvents::READABLE).is_empty() {
        report_change(live, stream, events);
    }
}

/// Tells of more than bytes.
fn report_change(live: &mut LiveConnection, stream: &Stream, events: TcpEvents) {
    let mut state = StreamState::empty();
    state.set(StreamState::CONNECTED, events.contains(TcpEvents::CONNECTED));
    state.set(StreamState::RECEIVE_ENDED, events.contains(TcpEvents::PEER_CLOSED));
    if !state.is_empty() {
        stream.enter(state);
    }
    if events.contains(TcpEvents::URGENT) {
        stream.announce_urgent();
    }
    if events.contains(TcpEvents::FAILED)
        && let Some(error) = live.connection.error()
    {
        stream.fail(options::error(error));
    }
}
