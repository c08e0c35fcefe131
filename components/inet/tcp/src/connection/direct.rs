//! Bytes that go from one connection of this host to the other end of it without a segment.
//!
//! Both ends are in the hands of one caller, so the receiver acknowledges in the same step. Before and after it nothing is in flight in
//! either direction, and both ends are as if segments had come and gone: a later segment finds the sequence numbers, the window and the
//! totals right. No timer is armed but that of the probe of a closed window, for bytes that the window does not admit.
use super::{
    Connection,
    types::{TcpEvents, TcpState},
};
use crate::{
    clock::{NEVER, tick},
    receive::acknowledge::Need,
    wire::segment::TcpSegment,
};

/// Bytes of a header without options, and of the option of timestamps with its padding.
const HEADER_LENGTH: u64 = 20;
const TIMESTAMPS_LENGTH: u64 = 12;

impl Connection {
    /// Returns whether nothing is under way from this end or held by it, so that bytes may come or go without a segment.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.state == TcpState::Established
            && self.receive.fin.is_none()
            && self.has_nothing_under_way()
    }

    /// Returns the same of an end that may have sent or received a FIN, and that holds no bytes back for the window.
    fn is_still(&self) -> bool {
        self.probe.deadline_ns == NEVER && self.has_nothing_under_way()
    }

    #[inline]
    fn has_nothing_under_way(&self) -> bool {
        self.send.una == self.send.nxt
            && self.receive.held.is_idle()
            && self.reset.is_none()
            && self.tail_probe.is_none()
            && !self.probe.is_due
            && self.sender.is_resting()
    }

    /// Returns the number of bytes that [`Connection::hand_over`] is to give to the other end once this end is quiet; `None` if they
    /// have to go as segments: this end has nothing to send, or holds bytes back.
    #[inline]
    pub fn direct_length(&self) -> Option<u64> {
        let length = self.send.written - self.send.nxt;
        let is_free = !self.settings.cork && !self.send.is_urgent() && !self.is_paced();
        (length > 0 && is_free).then_some(length)
    }

    /// Returns whether this end has sent bytes that are not acknowledged yet, and `peer`, the other end, has all of them. Then
    /// [`Connection::owed_acknowledgement`] of that end makes this one quiet.
    #[inline]
    pub fn awaits_only_acknowledgement(&self, peer: &Connection) -> bool {
        self.send.una != self.send.nxt
            && self.send.origin == peer.receive.origin
            && self.send.nxt == peer.receive.received
    }

    /// Returns the acknowledgement that this end owes, and sends it thereby; `None` if it owes none. The other end takes it in the
    /// same step.
    #[inline]
    pub fn owed_acknowledgement(&mut self, now_ns: u64) -> Option<TcpSegment> {
        let owes = self.acks.need() != Need::None || self.receive.acked != self.receive.received;
        owes.then(|| {
            self.totals.segments_out += 1;
            self.bare_segment(now_ns)
        })
    }

    /// Returns the length of the header of a segment with data, with its options, in bytes.
    #[inline]
    pub fn header_length(&self) -> u64 {
        if self.clock.is_enabled { HEADER_LENGTH + TIMESTAMPS_LENGTH } else { HEADER_LENGTH }
    }

    /// Gives the `length` bytes that wait to be sent to `peer`, the other end: all, or as many of them in full segments as the window
    /// admits. `room` is as for [`Connection::input`], and asked for if the window runs low. Returns the number of bytes. If there are
    /// more, the timer that probes the window is armed. Returns `None`, and changes nothing, if an end is not quiet: then the bytes
    /// have to go as segments.
    #[inline(always)]
    pub fn hand_over(
        &mut self,
        peer: &mut Connection,
        length: u64,
        now_ns: u64,
        room: impl FnOnce(&mut Connection) -> u64,
    ) -> Option<u64> {
        let start = self.send.nxt;
        if !self.is_quiet() || !peer.is_quiet() || !self.is_other_end(peer) {
            return None;
        }
        let low = length.saturating_add(self.send.max_window / 2);
        if peer.receive.window.size(start) < low {
            let room = room(peer);
            peer.receive.window.set_room(room);
            let (unread, step) = (peer.receive.unread(), peer.acks.peer_mss().max(1));
            let field = peer.receive.window.advertise(start, unread, step);
            self.send.window_field = field;
            self.send.max_window = self.send.max_window.max(u64::from(field) << self.send.scale);
        }
        self.send.edge = self.send.edge.max(peer.receive.window.edge());
        let size = peer.receive.window.size(start);
        if size < length {
            return Some(self.hand_over_segments(peer, size, now_ns));
        }
        self.note_handed_over(length, now_ns);
        peer.note_taken(length, self.send.mss, now_ns);
        Some(length)
    }

    /// Gives as many bytes as full segments of the window of `size` bytes have, and arms the timer that probes the window for those
    /// behind them. Returns their number.
    #[cold]
    fn hand_over_segments(&mut self, peer: &mut Connection, size: u64, now_ns: u64) -> u64 {
        let count = self.whole_segments(size);
        if count > 0 {
            self.note_handed_over(count, now_ns);
            peer.note_taken(count, self.send.mss, now_ns);
        }
        self.hold(now_ns);
        count
    }

    /// Returns whether `peer` is the other end, as far as the numbers that both began with tell.
    #[inline]
    pub fn is_joined_to(&self, peer: &Connection) -> bool {
        self.send.origin == peer.receive.origin && peer.send.origin == self.receive.origin
    }

    /// Returns whether `peer` is the other end, and has received all that was sent.
    #[inline]
    fn is_other_end(&self, peer: &Connection) -> bool {
        self.is_joined_to(peer)
            && self.send.nxt == peer.receive.received
            && peer.send.nxt == self.receive.received
    }

    #[inline(always)]
    fn note_handed_over(&mut self, length: u64, now_ns: u64) {
        let end = self.send.nxt + length;
        (self.send.una, self.send.nxt, self.send.pushed) = (end, end, end);
        self.send.is_forced = false;
        if self.probe.deadline_ns != NEVER {
            self.open_window();
        }
        self.sender.skip(end, now_ns);
        self.acks.note_data_sent(now_ns);
        self.retry_since_ns = NEVER;
        self.soft_error = None;
        let count = self.segments_of(length);
        self.totals.segments_out += count;
        self.totals.data_segments_out += count;
        self.totals.last_data_sent_ns = now_ns;
        self.totals.last_ack_received_ns = now_ns;
        self.keepalive.heard_ns = now_ns;
        self.keepalive.probes = 0;
    }

    /// Notes bytes that the other end, whose segments have `mss` bytes, gave.
    #[inline(always)]
    fn note_taken(&mut self, length: u64, mss: u32, now_ns: u64) {
        self.receive.received += length;
        self.receive.acked = self.receive.received;
        self.receive.window.use_room(length);
        let window = self.receive.window.size(self.receive.received);
        // No segment would have been longer.
        let size = length.min(mss.into()) as u32;
        self.acks.note_data(now_ns, size, window, self.receive.mss);
        self.measure_direct();
        let count = self.segments_of(length);
        self.totals.segments_in += count;
        self.totals.data_segments_in += count;
        self.totals.last_data_received_ns = now_ns;
        self.keepalive.heard_ns = now_ns;
        self.keepalive.probes = 0;
    }

    /// Closes the socket as [`Connection::close`] does, if the FIN is all that is left to do: `peer`, the other end, takes it and
    /// acknowledges it in the same step. Returns the events of `peer`; `None` if nothing was done.
    pub fn close_to(&mut self, peer: &mut Connection, now_ns: u64) -> Option<TcpEvents> {
        let is_in_step = matches!(
            (self.state, peer.state),
            (TcpState::Established, TcpState::Established)
                | (TcpState::CloseWait, TcpState::FinWait2)
        );
        let has_more = self.send.written != self.send.nxt
            || self.receive.unread() > 0
            || self.send.is_urgent()
            || self.is_paced();
        let is_free = is_in_step && !has_more && self.is_still() && peer.is_still();
        if !is_free || peer.receive.fin.is_some() || !self.is_other_end(peer) {
            return None;
        }
        self.acks.note_data_sent(now_ns);
        self.send.is_closed = true;
        self.send.is_forced = false;
        self.is_detached = true;
        let window = self.acknowledge_directly();
        peer.note_bare(self, window, now_ns);
        peer.receive.fin = Some(peer.receive.received);
        let events = peer.take_fin(now_ns);
        let end = self.send.nxt + 1;
        (self.send.una, self.send.nxt) = (end, end);
        self.sender.skip(end, now_ns);
        (self.retry_since_ns, self.soft_error) = (NEVER, None);
        let window = peer.acknowledge_directly();
        self.note_bare(peer, window, now_ns);
        if self.state == TcpState::Established {
            self.state = TcpState::FinWait2;
            self.linger_deadline_ns = now_ns.saturating_add(self.settings.fin_timeout_ns);
        } else {
            self.finish();
        }
        Some(events)
    }

    /// Sends an acknowledgement that the other end takes in the same step. Returns the window field.
    fn acknowledge_directly(&mut self) -> u16 {
        self.totals.segments_out += 1;
        self.advertise()
    }

    /// Takes the header of a segment of the other end that acknowledges all that was sent.
    fn note_bare(&mut self, peer: &Connection, window: u16, now_ns: u64) {
        self.send.window_seq = self.receive.received;
        self.send.window_field = window;
        let bytes = u64::from(window) << self.send.scale;
        self.send.max_window = self.send.max_window.max(bytes);
        self.send.edge = self.send.una + bytes;
        if self.clock.is_enabled {
            self.clock.recent = tick(now_ns).wrapping_add(peer.clock.offset);
            self.clock.recent_ns = now_ns;
        }
        self.probe.count = 0;
        self.totals.segments_in += 1;
        self.totals.last_ack_received_ns = now_ns;
        self.keepalive.heard_ns = now_ns;
        self.keepalive.probes = 0;
    }

    /// The number of segments that `length` bytes would have been.
    #[inline]
    fn segments_of(&self, length: u64) -> u64 {
        let mss = u64::from(self.send.mss.max(1));
        if length <= mss { 1 } else { length.div_ceil(mss) }
    }
}
