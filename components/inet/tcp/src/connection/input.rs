//! Arriving segments: a short path for those in order, and the checks of RFC 9293 section 3.10.7.4, RFC 5961 and RFC 7323.
use super::{
    Connection, Reset,
    time_wait::TimeWaitReply,
    types::{Arrival, TcpError, TcpEvents, TcpState},
};
use crate::{
    clock::SECOND,
    wire::{
        segment::{TcpFlags, TcpSegment},
        sequence::is_before,
    },
};

/// Age at which a remembered timestamp is no longer compared, in nanoseconds: 24 days (RFC 7323 section 5.5).
const CLOCK_AGE_NS: u64 = 24 * 24 * 3600 * SECOND;

/// The result of a check.
type Checked = Result<(), Rejection>;

/// The treatment of a segment that a check refused.
#[derive(Clone, Copy, Debug)]
enum Rejection {
    /// Drop it.
    Drop,
    /// Drop it and answer by an acknowledgement, at a limited rate.
    Challenge,
    /// Drop it and answer by an acknowledgement.
    Acknowledge,
    /// End the connection.
    Reset,
}

impl Connection {
    /// Takes a segment. `room` is the number of bytes that the socket can take beyond the data in order, before this segment.
    #[inline]
    pub fn input(&mut self, now_ns: u64, segment: &TcpSegment, room: u64) -> Arrival {
        self.totals.segments_in += 1;
        self.receive.window.set_room(room);
        if self.is_expected(segment) {
            return self.input_in_order(now_ns, segment);
        }
        self.input_checked(now_ns, segment)
    }

    /// Header prediction: whether the segment is the next in order, changes nothing but its data and its acknowledgement, and
    /// finds nothing held out of order.
    #[inline]
    fn is_expected(&self, segment: &TcpSegment) -> bool {
        let length = u64::from(segment.length);
        let acked = segment.ack.wrapping_sub(self.send.origin.number(self.send.una));
        let clock_is_right = match segment.options.timestamps {
            Some(clock) => self.clock.is_enabled && !is_before(clock.value, self.clock.recent),
            None => !self.clock.is_enabled,
        };
        self.state == TcpState::Established
            && segment.flags.difference(TcpFlags::PSH) == TcpFlags::ACK
            && segment.seq == self.receive.origin.number(self.receive.received)
            && segment.window == self.send.window_field
            && u64::from(acked) <= self.send.nxt - self.send.una
            && (length > 0 || acked > 0)
            && length <= self.receive.window.size(self.receive.received)
            && clock_is_right
            && segment.options.sack.is_empty()
            && self.receive.held.is_idle()
            && !segment.is_marked
            && self.receive.fin.is_none()
    }

    #[inline]
    fn input_in_order(&mut self, now_ns: u64, segment: &TcpSegment) -> Arrival {
        let mut arrival = Arrival::default();
        self.note_clock(now_ns, segment, self.receive.received);
        self.keepalive.heard_ns = now_ns;
        self.keepalive.probes = 0;
        if segment.ack != self.send.origin.number(self.send.una) {
            arrival.events |= self.apply_advance(now_ns, segment);
        }
        if segment.length > 0 {
            self.measure_by_echo(now_ns, segment);
            let (placement, events) = self.take_in_order(now_ns, segment);
            arrival.payload = Some(placement);
            arrival.events |= events;
        }
        arrival
    }

    #[cold]
    fn input_checked(&mut self, now_ns: u64, segment: &TcpSegment) -> Arrival {
        match self.state {
            TcpState::Closed => self.input_closed(segment),
            TcpState::SynSent => self.input_syn_sent(now_ns, segment),
            TcpState::TimeWait => self.input_time_wait(now_ns, segment),
            _ => self.input_open(now_ns, segment),
        }
    }

    fn input_closed(&mut self, segment: &TcpSegment) -> Arrival {
        if let Some(reset) = segment.reset_reply() {
            let ack = reset.has(TcpFlags::ACK).then_some(reset.ack);
            self.reset = Some(Reset { seq: reset.seq, ack });
        }
        Arrival::default()
    }

    fn input_time_wait(&mut self, now_ns: u64, segment: &TcpSegment) -> Arrival {
        let reply = self.time_wait.as_mut().map(|wait| wait.input(now_ns, segment));
        let mut arrival = Arrival::default();
        match reply {
            Some(TimeWaitReply::Acknowledge(_)) => self.acks.demand(),
            Some(TimeWaitReply::Close) => arrival.events = self.finish(),
            _ => {}
        }
        arrival
    }

    fn input_open(&mut self, now_ns: u64, segment: &TcpSegment) -> Arrival {
        let near = self.receive.received;
        let position = self.receive.origin.position(near, segment.seq);
        let Some(position) = position else {
            let refusal = self.refuse_outside(now_ns, segment, near);
            return self.refuse(now_ns, refusal);
        };
        if let Err(refusal) = self.check(now_ns, segment, position) {
            return self.refuse(now_ns, refusal);
        }
        self.keepalive.heard_ns = now_ns;
        self.keepalive.probes = 0;
        self.note_clock(now_ns, segment, position);
        let mut arrival = Arrival::default();
        match self.apply_ack(now_ns, segment, position) {
            Ok(events) => arrival.events = events,
            Err(events) => return Arrival { payload: None, events },
        }
        self.note_congestion(segment);
        self.note_urgent(segment, position, &mut arrival.events);
        if self.state.can_receive() {
            self.take_payload(now_ns, segment, position, &mut arrival);
        } else if segment.sequence_len() > 0
            && position + u64::from(segment.sequence_len()) <= self.receive.received
        {
            // A repeated FIN or repeated data: the acknowledgement was lost.
            self.acks.demand();
        }
        arrival
    }

    /// Runs the checks in their order. The segment changes nothing before it has passed them all.
    fn check(&mut self, now_ns: u64, segment: &TcpSegment, position: u64) -> Checked {
        let is_reset = segment.has(TcpFlags::RST);
        if !is_reset
            && self.is_old_clock(now_ns, segment)
            && !self.is_disordered_ack(segment, position)
        {
            return Err(self.refuse_outside(now_ns, segment, position));
        }
        let end = position + u64::from(segment.sequence_len());
        let is_inside = end >= self.receive.acked && position <= self.receive.window.edge();
        if !is_inside && !self.is_late_syn_ack(segment, position) {
            if is_reset {
                return Err(Rejection::Drop);
            }
            return Err(self.refuse_outside(now_ns, segment, position));
        }
        if is_reset {
            let is_exact = position == self.receive.received
                || self.receive.held.end().is_some_and(|end| position == end);
            return Err(if is_exact { Rejection::Reset } else { Rejection::Challenge });
        }
        if segment.has(TcpFlags::SYN) && !self.is_late_syn_ack(segment, position) {
            if self.is_repeated_syn(segment, position) {
                self.is_syn_ack_due = true;
                return Err(Rejection::Drop);
            }
            return Err(Rejection::Challenge);
        }
        if segment.has(TcpFlags::ACK) { Ok(()) } else { Err(Rejection::Drop) }
    }

    /// Whether the segment repeats the SYN that a connection in SYN-RECEIVED was made from.
    fn is_repeated_syn(&self, segment: &TcpSegment, position: u64) -> bool {
        self.state == TcpState::SynReceived && position == 0 && !segment.has(TcpFlags::ACK)
    }

    /// Whether the segment is the SYN-ACK of a simultaneous open, which acknowledges this side's SYN.
    fn is_late_syn_ack(&self, segment: &TcpSegment, position: u64) -> bool {
        self.state == TcpState::SynReceived
            && segment.flags.contains(TcpFlags::SYN | TcpFlags::ACK)
            && position == 0
            && self.receive.received == 1
            && segment.ack == self.send.origin.number(self.send.nxt)
    }

    /// Notes a segment outside of the window: an acknowledgement tells the peer the right place (RFC 9293 section 3.10.7.4), and a
    /// duplicate's range (RFC 2883). Segments without data are answered at a limited rate.
    fn refuse_outside(&mut self, now_ns: u64, segment: &TcpSegment, position: u64) -> Rejection {
        if segment.has(TcpFlags::RST) {
            return Rejection::Drop;
        }
        if segment.length == 0 || segment.has(TcpFlags::SYN) {
            self.challenge(now_ns);
            return Rejection::Drop;
        }
        let end = (position + u64::from(segment.length)).min(self.receive.received);
        if self.send.has_sack && position < end {
            self.receive.held.note_duplicate(position..end);
        }
        let window = self.receive.window.size(self.receive.received);
        self.acks.be_quick(window);
        Rejection::Acknowledge
    }

    fn refuse(&mut self, now_ns: u64, refusal: Rejection) -> Arrival {
        let mut arrival = Arrival::default();
        match refusal {
            Rejection::Drop => {}
            Rejection::Challenge => self.challenge(now_ns),
            Rejection::Acknowledge => self.acks.demand(),
            Rejection::Reset => arrival.events = self.be_reset(),
        }
        arrival
    }

    /// Ends the connection because the peer reset it. The errors are those of Linux (tcp_reset).
    pub(super) fn be_reset(&mut self) -> TcpEvents {
        match self.state {
            TcpState::SynSent => self.fail(TcpError::Refused),
            TcpState::CloseWait => self.fail(TcpError::BrokenPipe),
            TcpState::TimeWait => self.finish(),
            _ => self.fail(TcpError::Reset),
        }
    }

    /// PAWS: whether the timestamp is older than one that was seen (RFC 7323 section 5).
    fn is_old_clock(&self, now_ns: u64, segment: &TcpSegment) -> bool {
        self.clock.is_enabled
            && segment
                .options
                .timestamps
                .is_some_and(|clock| is_before(clock.value, self.clock.recent))
            && now_ns.saturating_sub(self.clock.recent_ns) < CLOCK_AGE_NS
    }

    /// Whether an acknowledgement with an old timestamp was only reordered: it repeats what is known (Linux:
    /// tcp_disordered_ack).
    fn is_disordered_ack(&self, segment: &TcpSegment, position: u64) -> bool {
        let age = segment
            .options
            .timestamps
            .map_or(0, |clock| self.clock.recent.wrapping_sub(clock.value));
        segment.has(TcpFlags::ACK)
            && segment.sequence_len() == 0
            && position == self.receive.received
            && segment.ack == self.send.origin.number(self.send.una)
            && segment.window == self.send.window_field
            && u64::from(age) <= self.sender.rto_ns() / recovery::TIMESTAMP_TICK_NS
    }

    /// Remembers the timestamp to echo (RFC 7323 section 4.3): that of a segment which covers the last acknowledgement sent.
    #[inline]
    fn note_clock(&mut self, now_ns: u64, segment: &TcpSegment, position: u64) {
        if let Some(clock) = segment.options.timestamps
            && self.clock.is_enabled
            && position <= self.receive.acked
            && (!is_before(clock.value, self.clock.recent)
                || now_ns.saturating_sub(self.clock.recent_ns) >= CLOCK_AGE_NS)
        {
            self.clock.recent = clock.value;
            self.clock.recent_ns = now_ns;
        }
    }

    /// Notes a mark of congestion, which is echoed until the peer confirms (RFC 3168 section 6.1.3).
    fn note_congestion(&mut self, segment: &TcpSegment) {
        if !self.send.has_ecn {
            return;
        }
        if segment.has(TcpFlags::CWR) {
            self.receive.is_echoing = false;
        }
        if segment.is_marked && segment.length > 0 {
            if !self.receive.is_echoing {
                self.acks.demand();
            }
            self.receive.is_echoing = true;
        }
    }
}
