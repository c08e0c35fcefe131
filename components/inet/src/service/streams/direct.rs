//! Bytes, handshakes and FINs that go straight from a connection to the other end of it on this host: no segment is made.
//!
//! It happens in the sender's call, or in that of the reader who opens the window for bytes that wait, under the locks of both ends, if
//! nothing is under way between them and nobody watches. The lock of the other end is only tried: who finds it held sends segments. So
//! two ends that send at once cannot wait for each other.
use super::{
    arrival::SynSaving,
    ends::{address, reversed},
    input::{report, tune},
    listen::NewChild,
    orphans::ORPHANS_MAX,
    output::{find_peer, local_peer},
    socket::{DirectCounts, LiveConnection, SocketRole, SocketState, TcpSocket},
};
use crate::{
    ip::events::{EventRow, PacketEvent},
    service::{inet::Inet, passage::Passage},
    tables::interface::InterfaceIndex,
};
use alloc::sync::Arc;
use bitflags::bitflags;
use interfaces::sockets::{Stream, StreamOptions};
use packet::{ipv4, ipv6, tcp::HEADER_LENGTH};
use tcp::{Connection, TcpEvents};

bitflags! {
    /// The result of a try to send without a segment, in one byte: mostly it is [`DirectTry::DONE`] alone.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct DirectTry: u8 {
        /// The other end has the bytes, or as many as its window admits. Otherwise they have to go as segments.
        const DONE = 1;
        /// Bytes wait for the window, and the timer of its probe is armed.
        const SHORT = 2;
        /// The other end is to be looked at: its program may have read without telling, or it may send what it held back.
        const AWAITED = 4;
    }
}

/// An end of a connection, whose lock the caller holds.
struct DirectEnd<'a> {
    live: &'a mut LiveConnection,
    stream: &'a Stream,
    options: &'a StreamOptions,
}

impl Inet {
    /// Returns whether somebody watches the segments of this host.
    #[inline]
    pub fn is_watched(&self) -> bool {
        self.taps().are_watching() || self.stack().hears_tcp()
    }
    /// Gives what a program wrote to the other end of a connection, if that is on this host, and nothing is under way between both.
    /// Returns whether it did.
    #[inline]
    pub(super) fn send_directly(&self, socket: &Arc<TcpSocket>) -> bool {
        if self.is_watched() {
            return false;
        }
        let result = socket.state.lock().send_directly(self, socket);
        let Some((peer, tried)) = result else { return false };
        if tried.contains(DirectTry::AWAITED) {
            self.look_after(&peer);
        }
        self.take_backlog(&peer);
        let is_done = tried.contains(DirectTry::DONE);
        if is_done {
            // The caller of a try that failed takes it anyway.
            self.take_backlog(socket);
        }
        is_done
    }
    /// Takes notice of the reads of a socket's program. If the other end should hear of them and is on this host, it does without a
    /// segment, and gives the bytes that waited for the window. Returns whether nothing is left to do.
    pub(super) fn read_directly(&self, socket: &Arc<TcpSocket>) -> bool {
        let now_ns = self.now_ns();
        let mut state = socket.state.lock();
        let is_due = state.note_reads(now_ns);
        let heard =
            if is_due && !self.is_watched() { state.open_to_peer(self, now_ns) } else { None };
        drop(state);
        let Some((peer, tried)) = heard else {
            // The caller of a read that is not done takes the backlog anyway.
            if !is_due {
                self.take_backlog(socket);
            }
            return !is_due;
        };
        if tried.contains(DirectTry::DONE) {
            self.take_backlog(&peer);
        } else {
            self.look_after(&peer);
        }
        let is_awaited = tried.contains(DirectTry::AWAITED);
        if !is_awaited {
            self.take_backlog(socket);
        }
        !is_awaited
    }
    /// Takes the segments that came while the lock of a socket was held.
    #[inline(always)]
    fn take_backlog(&self, socket: &Arc<TcpSocket>) {
        if socket.has_backlog() {
            self.take_waiting(socket);
        }
    }
    #[cold]
    fn take_waiting(&self, socket: &Arc<TcpSocket>) {
        self.pass(|passage| socket.with(self, passage, |_, _| ()));
    }
    /// Takes notice of the reads of a socket's program, and sends what it has to send.
    #[cold]
    fn look_after(&self, socket: &Arc<TcpSocket>) {
        self.pass(|passage| {
            socket.with(self, passage, |state, passage| {
                state.note_reads(passage.now_ns);
                state.after(self, passage, socket, TcpEvents::empty());
            });
        });
    }
}

impl SocketState {
    /// Tries to give what the program wrote to the other end. Returns that, if its lock was held.
    #[inline]
    fn send_directly(
        &mut self,
        inet: &Inet,
        socket: &Arc<TcpSocket>,
    ) -> Option<(Arc<TcpSocket>, DirectTry)> {
        // A client in another world hears of bytes and of what is kept one after the other, so a successor could get half of it.
        if self.stream.is_far() {
            return None;
        }
        let SocketRole::Live(live) = &mut self.role else { return None };
        if !live.is_near(inet) || live.is_held_by_more || self.options.unsent_low_water != 0 {
            return None;
        }
        live.connection.write_to(self.stream.counters().written);
        let length = live.connection.direct_length()?;
        let peer = live.peer_socket.upgrade()?;
        let sender = DirectEnd { live, stream: &self.stream, options: &self.options };
        let tried = peer.state.try_lock()?.take_directly(inet, sender, length);
        if tried.contains(DirectTry::SHORT) {
            self.arm_next(inet, socket);
        }
        Some((peer, tried))
    }
    /// Has the timers look at the socket at the next time that the connection waits for.
    fn arm_next(&mut self, inet: &Inet, socket: &Arc<TcpSocket>) {
        if let SocketRole::Live(live) = &self.role {
            let deadline = live.connection.deadline();
            self.arm(inet, socket, deadline);
        }
    }
    /// Tries to tell the other end of the window, which the program's reads have opened, and to take the bytes that wait there. Returns
    /// that end, if its lock was held and it heard of the window.
    fn open_to_peer(&mut self, inet: &Inet, now_ns: u64) -> Option<(Arc<TcpSocket>, DirectTry)> {
        if !self.admits_all() {
            return None;
        }
        let SocketRole::Live(live) = &mut self.role else { return None };
        if !live.is_near(inet) {
            return None;
        }
        let peer = local_peer(live, &inet.streams().flows, 1)?;
        let receiver = DirectEnd { live, stream: &self.stream, options: &self.options };
        let tried = peer.state.try_lock()?.hear_window(inet, receiver, (&peer, now_ns))?;
        Some((peer, tried))
    }
    /// Takes the acknowledgement that the other end owes, and gives what the window admits. Returns `None` if this is not the other end.
    fn hear_window(
        &mut self,
        inet: &Inet,
        mut receiver: DirectEnd<'_>,
        (socket, now_ns): (&Arc<TcpSocket>, u64),
    ) -> Option<DirectTry> {
        let is_plain = self.admits_all() && self.options.unsent_low_water == 0;
        let SocketRole::Live(live) = &mut self.role else { return None };
        if !is_plain || !receiver.live.connection.is_joined_to(&live.connection) {
            return None;
        }
        let may_give = live.is_near(inet) && !live.is_held_by_more;
        let mut sender = DirectEnd { live, stream: &self.stream, options: &self.options };
        receiver.acknowledge_to(&mut sender, now_ns);
        let mut tried = DirectTry::empty();
        if may_give && let Some(length) = sender.live.connection.direct_length() {
            sender.give_to(&mut receiver, (length, now_ns), &mut tried);
        }
        let connection = &sender.live.connection;
        let is_done = tried.contains(DirectTry::DONE) || connection.is_at_rest();
        tried.set(DirectTry::DONE, is_done && !connection.is_acknowledgement_due());
        tried.set(DirectTry::AWAITED, receiver.await_room());
        if inet.is_kept() {
            sender.live.keep_words(sender.stream);
            receiver.live.keep_words(receiver.stream);
        }
        self.arm_next(inet, socket);
        Some(tried)
    }
    /// Takes `length` bytes of the other end of the connection, if nothing is in the way.
    #[inline]
    fn take_directly(&mut self, inet: &Inet, mut sender: DirectEnd<'_>, length: u64) -> DirectTry {
        let mut tried = DirectTry::empty();
        if !self.admits_all() {
            return tried;
        }
        let SocketRole::Live(live) = &mut self.role else { return tried };
        let now_ns = inet.now_ns();
        let mut receiver = DirectEnd { live, stream: &self.stream, options: &self.options };
        tried.set(DirectTry::AWAITED, sender.acknowledge_to(&mut receiver, now_ns));
        let mut is_renewed = false;
        if sender.live.connection.awaits_only_acknowledgement(&receiver.live.connection) {
            receiver.note_reads(now_ns);
            is_renewed = receiver.acknowledge_to(&mut sender, now_ns);
        }
        is_renewed |= sender.give_to(&mut receiver, (length, now_ns), &mut tried);
        if inet.is_kept() {
            sender.live.keep_words(sender.stream);
            receiver.live.keep_words(receiver.stream);
        }
        if is_renewed && receiver.await_room() {
            tried |= DirectTry::AWAITED;
        }
        tried
    }
}

/// Takes notice of the reads of a program. Returns the room that they left.
#[inline]
fn note_reads(
    connection: &mut Connection,
    stream: &Stream,
    options: &StreamOptions,
    now_ns: u64,
) -> u64 {
    let room = SocketState::room_of(stream, options);
    connection.note_read(stream.counters().read, room);
    tune(connection, stream, now_ns);
    room
}

impl DirectEnd<'_> {
    #[inline]
    fn note_reads(&mut self, now_ns: u64) {
        note_reads(&mut self.live.connection, self.stream, self.options, now_ns);
    }
    /// Gives the `length` bytes that wait to be sent to the other end, or as many as its window admits. Returns whether it looked for room
    /// for a new window.
    #[inline(always)]
    fn give_to(
        &mut self,
        receiver: &mut DirectEnd<'_>,
        (length, now_ns): (u64, u64),
        tried: &mut DirectTry,
    ) -> bool {
        let mut is_renewed = false;
        let DirectEnd { live, stream, options } = receiver;
        let given =
            self.live.connection.hand_over(&mut live.connection, length, now_ns, |connection| {
                is_renewed = true;
                note_reads(connection, stream, options, now_ns)
            });
        match given {
            Some(count) if count == length => {
                *tried |= DirectTry::DONE;
                self.move_to(stream, count);
            }
            Some(count) => {
                *tried |= DirectTry::DONE | DirectTry::SHORT;
                self.move_some_to(stream, count);
            }
            None => {}
        }
        is_renewed
    }
    /// Moves the next bytes, of which both connections know, to the stream of the other end.
    #[inline(always)]
    fn move_to(&mut self, stream: &Stream, count: u64) {
        self.stream.hand_over(stream, count);
        self.live.count_direct(count);
    }
    #[cold]
    fn move_some_to(&mut self, stream: &Stream, count: u64) {
        if count > 0 {
            self.move_to(stream, count);
        }
    }
    /// Says which reads of the program are awaited. Returns whether there was one.
    #[inline]
    fn await_room(&self) -> bool {
        let memory = SocketState::memory_for_twice(self.live.connection.known_window());
        self.stream.await_room(memory)
    }
    /// Gives the acknowledgement that this end owes to the other end. Returns whether there was one.
    #[inline]
    fn acknowledge_to(&mut self, other: &mut DirectEnd<'_>, now_ns: u64) -> bool {
        let Some(segment) = self.live.connection.owed_acknowledgement(now_ns) else { return false };
        self.live.count_direct(0);
        let room = SocketState::room_of(other.stream, other.options);
        let effect = other.live.connection.input(now_ns, &segment, room);
        report(other.live, other.stream, effect.events);
        true
    }
}

impl SocketState {
    /// Returns whether the socket takes each segment as it is, and is one of this world: a client in another world hears of bytes and of
    /// what is kept one after the other, so a successor could get half of it.
    #[inline]
    pub(super) fn admits_all(&self) -> bool {
        let ip = &self.options.ip;
        ip.ttl_least | ip.hops_least == 0
            && self.stream.filter().get().is_none()
            && !self.stream.is_far()
    }
    /// Ends the handshake of a connection that has sent nothing within the call, if a listener of this host takes it, and nobody
    /// watches. `iss` is the child's initial sequence number. Returns the child; `None` if segments have to go. The lock of the
    /// listener is only tried.
    pub(super) fn open_to_listener(
        &mut self,
        inet: &Inet,
        passage: &mut Passage,
        iss: u32,
    ) -> Option<NewChild> {
        let streams = inet.streams();
        let is_seen = inet.is_watched() || streams.syn_saving() == SynSaving::On;
        if is_seen || !self.admits_all() {
            return None;
        }
        let SocketRole::Live(live) = &mut self.role else { return None };
        if !live.is_near(inet) {
            return None;
        }
        let flow = reversed(&live.flow);
        let end = (address(flow.local), flow.local_port);
        let choice = live.peer_hash >> 16;
        let listener =
            streams.ports.listener(end, (InterfaceIndex::LOOPBACK, flow.label), choice)?;
        let mut state = listener.state.try_lock()?;
        let opened = state.open_directly(inet, passage, live, (flow, iss));
        drop(state);
        passage.await_backlog(listener);
        opened
    }
    /// Closes the connection, if that is known to be all that is left to do, and the other end is on this host: the FIN and its
    /// acknowledgement are no segments. Returns whether it did. The lock of the other end is only tried.
    pub(super) fn close_directly(
        &mut self,
        inet: &Inet,
        passage: &mut Passage,
        socket: &Arc<TcpSocket>,
    ) -> bool {
        if inet.is_watched() || !self.admits_all() {
            return false;
        }
        let SocketRole::Live(live) = &mut self.role else { return false };
        if !live.is_near(inet) {
            return false;
        }
        let Some(peer) = find_peer(live, &inet.streams().flows) else { return false };
        let Some(mut state) = peer.state.try_lock() else { return false };
        let is_done = state.take_fin_directly(inet, passage, (&peer, live));
        drop(state);
        passage.await_backlog(peer);
        if !is_done {
            return false;
        }
        live.count_direct(0);
        live.count_direct(0);
        live.note_direct(passage.worker.events());
        if inet.is_kept() {
            live.keep_words(&self.stream);
        }
        if self.armed_ns == u64::MAX
            && let Some(deadline_ns) = live.connection.orphan_deadline()
            && inet.streams().orphans.add_last(deadline_ns, (live.flow, live.hash), ORPHANS_MAX)
        {
            inet.arm(deadline_ns);
        } else {
            self.follow_state(inet, passage, socket);
        }
        true
    }
    /// Takes the FIN of the other end of the connection, which closes. Returns whether it did.
    fn take_fin_directly(
        &mut self,
        inet: &Inet,
        passage: &mut Passage,
        (socket, closer): (&Arc<TcpSocket>, &mut LiveConnection),
    ) -> bool {
        let is_plain = self.admits_all();
        let SocketRole::Live(live) = &mut self.role else { return false };
        if !is_plain {
            return false;
        }
        let Some(events) = closer.connection.close_to(&mut live.connection, passage.now_ns) else {
            return false;
        };
        report(live, &self.stream, events);
        live.note_direct(passage.worker.events());
        if inet.is_kept() {
            live.keep_words(&self.stream);
        }
        self.follow_state(inet, passage, socket);
        true
    }
}

impl LiveConnection {
    /// Does what follows a handshake without segments, after which there is nothing to send.
    pub(super) fn begin(&mut self, inet: &Inet, stream: &Stream) {
        // The program cannot have read anything yet.
        stream.await_room(SocketState::memory_for_twice(self.connection.known_window()));
        if inet.is_kept() {
            self.keep_words(stream);
        }
    }
    /// Returns whether the other end is on this host, as far as the newest configuration tells.
    #[inline]
    fn is_near(&self, inet: &Inet) -> bool {
        let versions = inet.stack().newest_versions();
        self.path.as_ref().is_some_and(|path| path.versions == versions && path.path.is_local)
    }
    /// Counts a segment of `length` bytes that was not made.
    #[inline]
    fn count_direct(&mut self, length: u64) {
        let header = self.connection.header_length();
        self.direct.segments += 1;
        self.direct.octets += header + length;
    }
    /// Counts the three segments of a handshake, whose options have `options_length` bytes.
    pub(super) fn count_opening(&mut self, options_length: u64) {
        self.direct.segments += 3;
        self.direct.octets += 3 * HEADER_LENGTH as u64 + options_length;
    }
    /// Counts them as events.
    #[inline]
    pub(super) fn note_direct(&mut self, events: &EventRow) {
        if self.direct.segments == 0 {
            return;
        }
        let (segments, octets) = self.direct_packets();
        let (of_segments, of_octets) = match address(self.flow.local).is_ipv4() {
            true => (PacketEvent::LocalSegments4, PacketEvent::LocalOctets4),
            false => (PacketEvent::LocalSegments6, PacketEvent::LocalOctets6),
        };
        events.add(of_segments, segments);
        events.add(of_octets, octets);
        self.direct = DirectCounts::default();
    }
    /// Returns the packets that are not yet counted as events, and their bytes.
    pub(crate) fn direct_packets(&self) -> (u64, u64) {
        let header = match address(self.flow.local).is_ipv4() {
            true => ipv4::HEADER_LENGTH,
            false => ipv6::HEADER_LENGTH,
        };
        let DirectCounts { segments, octets } = self.direct;
        (segments, octets + segments * header as u64)
    }
}
