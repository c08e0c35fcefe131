//! Arriving payload, the peer's FIN and its urgent byte (RFC 9293 section 3.10.7.4, sixth to eighth check).
use super::{
    Connection,
    time_wait::{TIME_WAIT_NS, TimeWait},
    types::{Arrival, Placement, TcpEvents, TcpState},
};
use crate::{
    clock::NEVER,
    wire::segment::{TcpFlags, TcpSegment},
};
use core::ops::Range;

impl Connection {
    /// Takes the payload of a segment that continues the data in order and fits the window.
    #[inline]
    pub(super) fn take_in_order(
        &mut self,
        now_ns: u64,
        segment: &TcpSegment,
    ) -> (Placement, TcpEvents) {
        let (offset, length) = (self.receive.received - 1, segment.length);
        self.receive.received += u64::from(length);
        self.note_data(now_ns, length, segment.longest_part());
        let placement = Placement { skip: 0, length, offset, is_in_order: true };
        (placement, TcpEvents::READABLE)
    }

    /// Notes `length` bytes in order, which came in segments of at most `part` bytes, and decides when to acknowledge them.
    #[inline]
    fn note_data(&mut self, now_ns: u64, length: u32, part: u32) {
        self.totals.data_segments_in += 1;
        self.totals.last_data_received_ns = now_ns;
        let received = self.receive.received;
        self.receive.window.use_room(u64::from(length));
        let window = self.receive.window.size(received);
        self.acks.note_data(now_ns, part, window, self.receive.mss);
        self.acks.decide(now_ns, received - self.receive.acked, self.sender.srtt_ns());
    }

    /// Takes the payload and the FIN of a segment that starts at `position`.
    pub(super) fn take_payload(
        &mut self,
        now_ns: u64,
        segment: &TcpSegment,
        position: u64,
        arrival: &mut Arrival,
    ) {
        let start = position + u64::from(segment.has(TcpFlags::SYN));
        let end = start + u64::from(segment.length);
        if self.is_detached && end > self.receive.received && segment.length > 0 {
            // The program is gone and cannot read: RFC 2525 section 2.17, as on Linux.
            self.queue_reset();
            arrival.events |= self.fail(super::types::TcpError::Reset);
            return;
        }
        let limit = self.receive.fin.unwrap_or(u64::MAX).min(self.receive.window.edge());
        let kept_end = end.min(limit);
        if segment.length > 0 {
            let part = segment.longest_part();
            arrival.payload = self.place(now_ns, start..end, kept_end, part);
            if arrival.payload.is_some_and(|placement| placement.is_in_order) {
                arrival.events |= TcpEvents::READABLE;
            }
        }
        if segment.has(TcpFlags::FIN) {
            self.note_fin(end, kept_end);
        }
        if self.receive.fin == Some(self.receive.received) {
            arrival.events |= self.take_fin(now_ns);
        }
    }

    /// Places the payload `range`, of which the bytes up to `kept_end` fit. It came in segments of at most `part` bytes.
    fn place(
        &mut self,
        now_ns: u64,
        range: Range<u64>,
        kept_end: u64,
        part: u32,
    ) -> Option<Placement> {
        let Range { start, end } = range;
        let received = self.receive.received;
        if start < received && self.send.has_sack {
            self.receive.held.note_duplicate(start..end.min(received));
        }
        let first = start.max(received);
        if first >= kept_end {
            let window = self.receive.window.size(received);
            self.acks.be_quick(window);
            self.acks.demand();
            return None;
        }
        let length = u32::try_from(kept_end - first).ok()?;
        let skip = u32::try_from(first - start).ok()?;
        let placement =
            Placement { skip, length, offset: first - 1, is_in_order: start <= received };
        if start <= received {
            let had_gap = !self.receive.held.is_empty();
            self.receive.received = self.receive.held.advance(kept_end);
            self.note_data(now_ns, length, part.min(length));
            if had_gap || skip > 0 || kept_end < end {
                self.acks.demand();
            }
            return Some(placement);
        }
        self.totals.out_of_order = self.totals.out_of_order.saturating_add(1);
        self.acks.demand();
        self.receive.held.insert(first..kept_end).then_some(placement)
    }

    /// Notes the FIN behind `end` if all data before it fits, and it does not contradict what arrived.
    fn note_fin(&mut self, end: u64, kept_end: u64) {
        let is_fitting = end == kept_end || end == self.receive.received;
        let is_last = self.receive.held.end().is_none_or(|held| held <= end);
        if self.receive.fin.is_none() && is_fitting && is_last && end >= self.receive.received {
            self.receive.fin = Some(end);
        }
        self.acks.demand();
    }

    /// Passes the peer's FIN.
    pub(super) fn take_fin(&mut self, now_ns: u64) -> TcpEvents {
        self.receive.received += 1;
        self.acks.demand();
        let events = TcpEvents::PEER_CLOSED | TcpEvents::READABLE;
        match self.state {
            TcpState::SynReceived | TcpState::Established => self.state = TcpState::CloseWait,
            TcpState::FinWait1 => self.state = TcpState::Closing,
            TcpState::FinWait2 => return events | self.enter_time_wait(now_ns),
            _ => {}
        }
        events
    }

    pub(super) fn enter_time_wait(&mut self, now_ns: u64) -> TcpEvents {
        self.state = TcpState::TimeWait;
        self.linger_deadline_ns = NEVER;
        self.keepalive.deadline_ns = NEVER;
        self.time_wait = Some(TimeWait {
            seq: self.send.origin.number(self.send.nxt),
            ack: self.acknowledgement(),
            window: self.receive.window.size(self.receive.received),
            scale: self.receive.window.scale(),
            clock: self.clock,
            deadline_ns: now_ns.saturating_add(TIME_WAIT_NS),
            answered_ns: NEVER,
            is_protected: self.settings.protect_time_wait,
        });
        TcpEvents::TIME_WAIT
    }

    /// Notes the urgent pointer (RFC 6093; Linux: tcp_check_urg). It points behind the urgent byte.
    pub(super) fn note_urgent(
        &mut self,
        segment: &TcpSegment,
        position: u64,
        events: &mut TcpEvents,
    ) {
        if !segment.has(TcpFlags::URG) || segment.urgent == 0 || !self.state.can_receive() {
            return;
        }
        let mark = position + u64::from(segment.urgent) - 1;
        let is_passed = mark < self.receive.received;
        if is_passed || self.receive.urgent.is_some_and(|old| mark <= old) {
            return;
        }
        self.receive.urgent = Some(mark);
        *events |= TcpEvents::URGENT;
    }
}
