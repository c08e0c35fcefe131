//! Segments to send: RFC 9293 section 3.8.6.2 (silly windows), Nagle's algorithm in Minshall's variant, the probe of a closed
//! window.
use super::{
    Connection,
    settings::{CORK_NS, Ecn},
    types::{Outgoing, TcpState},
};
use crate::{
    clock::NEVER,
    receive::acknowledge::Need,
    wire::segment::{SackBlocks, SegmentOptions, TcpFlags, TcpSegment},
};
use core::ops::Range;
use recovery::Transmit;

/// Furthest distance of an urgent pointer.
const URGENT_MAX: u64 = 0xffff;

impl Connection {
    /// Returns the next segment to send. Call it after every other call until it returns `None`. `limit` bounds the payload in
    /// bytes: more than one segment's is for segmentation offload.
    pub fn output(&mut self, now_ns: u64, limit: u32) -> Option<Outgoing> {
        let mut out = Outgoing::default();
        self.output_into(now_ns, limit, &mut out).then_some(out)
    }

    /// Does the same as [`Connection::output`], but puts the segment into `out`. Returns whether there was one.
    #[inline]
    pub fn output_into(&mut self, now_ns: u64, limit: u32, out: &mut Outgoing) -> bool {
        if self.is_at_rest() {
            self.sender.note_rest();
            return false;
        }
        let is_found = self.next_output(now_ns, limit, out);
        self.totals.segments_out += u64::from(is_found);
        is_found
    }

    /// Returns whether an established connection has sent all that it has to send.
    #[inline]
    pub fn is_at_rest(&self) -> bool {
        self.send.end() == self.send.nxt
            && self.acks.need() != Need::Now
            && self.state == TcpState::Established
            && self.reset.is_none()
            && self.tail_probe.is_none()
            && !self.probe.is_due
            && !self.sender.is_repairing()
    }

    fn next_output(&mut self, now_ns: u64, limit: u32, out: &mut Outgoing) -> bool {
        if let Some(reset) = self.reset.take() {
            let flags =
                if reset.ack.is_some() { TcpFlags::RST | TcpFlags::ACK } else { TcpFlags::RST };
            let ack = reset.ack.unwrap_or(0);
            let segment = TcpSegment { seq: reset.seq, ack, flags, ..TcpSegment::default() };
            *out = self.without_payload(segment);
            return true;
        }
        match self.state {
            TcpState::Closed => false,
            TcpState::SynSent => self.output_syn(now_ns, out),
            TcpState::SynReceived => self.output_answer(now_ns, limit, out),
            TcpState::TimeWait => self.output_ack(now_ns, out),
            _ => {
                self.output_data(now_ns, limit, out)
                    || self.output_probe(now_ns, out)
                    || self.output_ack(now_ns, out)
            }
        }
    }

    /// The SYN-ACK, and the data that may leave before it is acknowledged.
    #[cold]
    fn output_answer(&mut self, now_ns: u64, limit: u32, out: &mut Outgoing) -> bool {
        self.output_syn(now_ns, out) || self.send.is_early && self.output_data(now_ns, limit, out)
    }

    fn without_payload(&self, segment: TcpSegment) -> Outgoing {
        Outgoing { segment, payload: 0..0, mss: self.send.mss, is_ecn_capable: false }
    }

    #[inline]
    fn output_data(&mut self, now_ns: u64, limit: u32, out: &mut Outgoing) -> bool {
        let sendable = self.sendable();
        if let Some(range) = self.tail_probe.take()
            && self.send_tail_probe(now_ns, range, sendable, out)
        {
            return true;
        }
        let mut limit = limit;
        if self.is_paced() {
            let Some(paced) = self.paced_limit(now_ns, limit) else { return false };
            limit = paced;
        }
        match self.sender.transmit(sendable, now_ns) {
            Transmit::Again(range) => self.send_again(now_ns, range, limit, out),
            Transmit::New(budget) if budget > 0 => {
                self.send_new(now_ns, budget.min(sendable), limit, out)
            }
            _ => {
                self.hold(now_ns);
                false
            }
        }
    }

    /// The bytes of sequence space, never sent before, that the peer's window and Nagle's algorithm admit. The FIN counts if all
    /// data before it goes and the window has room for it.
    #[inline]
    fn sendable(&self) -> u64 {
        let send = &self.send;
        if send.end() == send.nxt {
            return 0;
        }
        let waiting = send.written.saturating_sub(send.nxt);
        let room = send.edge.saturating_sub(send.nxt);
        let fitting = waiting.min(room);
        let is_whole = fitting == waiting;
        let full = self.whole_segments(fitting);
        if full < fitting
            && !send.is_forced
            && !(is_whole && (send.is_closed || self.may_send_partial()))
        {
            return full;
        }
        fitting + u64::from(is_whole && send.is_closed && room > fitting)
    }

    /// The payload of a full segment: bounded by half of the largest window that the peer offered, so that a small window does
    /// not stop the connection (Linux: tcp_bound_to_half_wnd).
    #[inline]
    fn full_payload(&self) -> u32 {
        let window = self.send.max_window;
        let bound = if window > 536 { window / 2 } else { window.max(48) };
        u64::from(self.send.mss).min(bound).max(1) as u32
    }

    /// The most of `room` bytes that full segments fill.
    #[inline]
    pub(super) fn whole_segments(&self, room: u64) -> u64 {
        room - room % u64::from(self.full_payload())
    }

    /// Nagle's algorithm (RFC 9293 section 3.7.4): whether a partial segment may go out.
    fn may_send_partial(&self) -> bool {
        // An urgent byte does not wait, not even for TCP_CORK (Linux: tcp_nagle_test).
        if self.send.is_urgent() {
            return true;
        }
        if self.settings.cork {
            return false;
        }
        let small = self.send.small_end;
        let is_small_in_flight = small > self.send.una && small <= self.send.nxt;
        self.settings.no_delay || !is_small_in_flight
    }

    #[inline(always)]
    fn send_new(&mut self, now_ns: u64, budget: u64, limit: u32, out: &mut Outgoing) -> bool {
        let start = self.send.nxt;
        let mss = self.payload_limit();
        let waiting = self.send.written - start;
        let most = if self.send.is_urgent() { mss } else { u64::from(limit).max(mss) };
        let mut length = budget.min(waiting).min(most);
        if length < waiting && length > mss && !self.send.is_forced {
            length -= length % mss;
        }
        let has_fin = self.send.is_closed && length == waiting && (length < budget || waiting == 0);
        let end = start + length + u64::from(has_fin);
        if end == start {
            return false;
        }
        self.data_segment(now_ns, start..end, out);
        self.sender.sent(start..end, now_ns);
        self.send.nxt = end;
        if length % mss != 0 {
            self.send.small_end = start + length;
        }
        self.send.is_forced = false;
        self.open_probe();
        self.acks.note_data_sent(now_ns);
        true
    }

    /// Forgets the probes of a window that opened.
    fn open_probe(&mut self) {
        self.probe.deadline_ns = NEVER;
        self.probe.since_ns = NEVER;
        self.probe.is_due = false;
    }

    #[cold]
    #[inline(never)]
    fn send_again(
        &mut self,
        now_ns: u64,
        range: Range<u64>,
        limit: u32,
        out: &mut Outgoing,
    ) -> bool {
        let mss = self.payload_limit();
        let most = u64::from(limit).max(mss);
        let start = range.start.max(self.send.una.max(1));
        let range_end = range.end.min(self.send.nxt);
        let data_end = range_end.min(self.send.written).max(start);
        let length = (data_end - start).min(most - most % mss);
        let has_fin = self.send.is_closed
            && start + length == self.send.written
            && range_end > self.send.written;
        let end = start + length + u64::from(has_fin);
        if end == start {
            return false;
        }
        self.data_segment(now_ns, start..end, out);
        self.sender.sent(start..end, now_ns);
        true
    }

    /// Sends one segment of new data as a tail-loss probe, or the end of the flight again (RFC 8985 section 7.3).
    #[cold]
    #[inline(never)]
    fn send_tail_probe(
        &mut self,
        now_ns: u64,
        range: Range<u64>,
        sendable: u64,
        out: &mut Outgoing,
    ) -> bool {
        let mss = self.payload_limit();
        sendable > 0 && self.send_new(now_ns, sendable.min(mss), 1, out)
            || self.send_again(now_ns, range, 1, out)
    }

    /// Arms the persist timer where data waits, nothing is in flight and nothing may be sent.
    #[inline]
    pub(super) fn hold(&mut self, now_ns: u64) {
        let is_idle = self.send.end() == self.send.nxt || self.send.una != self.send.nxt;
        if is_idle || self.probe.deadline_ns != NEVER {
            return;
        }
        let is_corked = self.send.edge > self.send.nxt && self.settings.cork;
        let interval = self.sender.probe_interval_ns(self.probe.backoff);
        let wait = if is_corked { CORK_NS } else { interval };
        self.probe.deadline_ns = now_ns.saturating_add(wait);
    }

    /// The probe of a closed window, or of keepalive: an old sequence number, which the peer answers by an acknowledgement.
    fn output_probe(&mut self, now_ns: u64, out: &mut Outgoing) -> bool {
        if !self.probe.is_due {
            return false;
        }
        // The peer does not take the acknowledgement of an old sequence number: one that is owed goes before the probe.
        let is_owed = self.acks.need() != Need::None;
        self.acknowledgement_segment(now_ns, out);
        if !is_owed {
            self.probe.is_due = false;
            out.segment.seq = self.send.origin.number(self.send.una.wrapping_sub(1));
        }
        true
    }

    fn output_ack(&mut self, now_ns: u64, out: &mut Outgoing) -> bool {
        let is_due = self.acks.need() == Need::Now;
        if is_due {
            self.acknowledgement_segment(now_ns, out);
        }
        is_due
    }

    /// A segment without payload, which carries the acknowledgement.
    pub(super) fn bare_segment(&mut self, now_ns: u64) -> TcpSegment {
        let mut segment = TcpSegment::default();
        self.header(now_ns, self.sequence_now(), &mut segment);
        segment
    }

    #[inline(never)]
    fn acknowledgement_segment(&mut self, now_ns: u64, out: &mut Outgoing) {
        let seq = self.sequence_now();
        self.header(now_ns, seq, &mut out.segment);
        out.payload = 0..0;
        out.mss = self.send.mss;
        out.is_ecn_capable = false;
    }

    /// The payload of a full segment, less the SACK blocks that it carries. All options together take 40 bytes at most, so at least
    /// eight bytes of the smallest MSS are left for data (Linux: TCP_MIN_SND_MSS).
    #[inline]
    fn payload_limit(&self) -> u64 {
        let blocks =
            match (self.receive.held.is_idle() || !self.send.has_sack, self.clock.is_enabled) {
                (true, _) => 0,
                (false, true) => 28,
                (false, false) => 36,
            };
        u64::from(self.full_payload().saturating_sub(blocks).max(1))
    }

    /// Puts the segment of a range of positions, which may end by the FIN, into `out`.
    #[inline(always)]
    fn data_segment(&mut self, now_ns: u64, range: Range<u64>, out: &mut Outgoing) {
        let is_new = range.start >= self.send.nxt;
        let has_fin = range.end > self.send.written;
        let payload = range.start..range.end.min(self.send.written);
        let segment = &mut out.segment;
        self.header(now_ns, self.send.origin.number(payload.start), segment);
        segment.length = (payload.end - payload.start) as u32;
        let mss = self.payload_limit() as u32;
        if segment.length > 0 {
            self.totals.data_segments_out += 1;
            if segment.length > mss {
                let more = u64::from(segment.length.div_ceil(mss) - 1);
                self.totals.data_segments_out += more;
                self.totals.segments_out += more;
            }
            self.totals.last_data_sent_ns = now_ns;
            if self.is_paced() {
                self.note_paced(now_ns, segment.length.into());
            }
        }
        self.mark_push(segment, &payload);
        self.mark_urgent(segment, &payload);
        segment.flags.set(TcpFlags::FIN, has_fin);
        let is_new_data = is_new && segment.length > 0;
        let is_ecn_capable = self.send.has_ecn && is_new_data;
        // Without ECN the peer need not hear of a reduction.
        if is_new_data && self.sender.take_cwr() && is_ecn_capable {
            segment.flags |= TcpFlags::CWR;
        }
        out.payload = payload.start - 1..payload.end - 1;
        out.mss = mss;
        out.is_ecn_capable = is_ecn_capable;
    }

    /// Sets PSH on the end of the written data, and where half of the peer's window has gone without.
    #[inline]
    fn mark_push(&mut self, segment: &mut TcpSegment, payload: &Range<u64>) {
        let is_far = payload.end.saturating_sub(self.send.pushed) > self.send.max_window / 2;
        if segment.length > 0 && (payload.end == self.send.written || is_far) {
            segment.flags |= TcpFlags::PSH;
            self.send.pushed = self.send.pushed.max(payload.end);
        }
    }

    /// Sets the urgent pointer, behind the urgent byte (RFC 6093).
    #[inline]
    fn mark_urgent(&self, segment: &mut TcpSegment, payload: &Range<u64>) {
        if let Some(end) = self.send.urgent_end.filter(|end| *end > payload.start) {
            segment.flags |= TcpFlags::URG;
            segment.urgent = (end - payload.start).min(URGENT_MAX) as u16;
        }
    }

    /// Notes that a segment sent now carries the acknowledgement that was due. Returns its window field.
    #[inline(always)]
    pub(super) fn advertise(&mut self) -> u16 {
        let (received, unread) = (self.receive.received, self.receive.unread());
        let step = self.acks.peer_mss().max(1);
        self.receive.acked = received;
        self.acks.note_sent();
        self.receive.window.advertise(received, unread, step)
    }

    /// Puts the header of a segment that is sent now into `out`. It carries the acknowledgement that was due.
    #[inline(always)]
    fn header(&mut self, now_ns: u64, seq: u32, out: &mut TcpSegment) {
        let window = self.advertise();
        let mut flags = TcpFlags::ACK;
        flags.set(TcpFlags::ECE, self.receive.is_echoing);
        *out = TcpSegment {
            seq,
            ack: self.acknowledgement(),
            flags,
            window,
            options: SegmentOptions { timestamps: self.timestamps(now_ns), ..Default::default() },
            ..TcpSegment::default()
        };
        if !self.receive.held.is_idle() {
            let most = if out.options.timestamps.is_some() { 3 } else { 4 };
            out.options.sack = self.take_blocks(most);
        }
    }

    /// The blocks to report; none without SACK.
    fn take_blocks(&mut self, most: usize) -> SackBlocks {
        let most = if self.send.has_sack { most } else { 0 };
        let mut blocks = SackBlocks::default();
        let origin = self.receive.origin;
        self.receive.held.take_blocks(|range| {
            if blocks.len() < most {
                blocks.push(origin.number(range.start), origin.number(range.end));
            }
        });
        blocks
    }

    fn output_syn(&mut self, now_ns: u64, out: &mut Outgoing) -> bool {
        if self.send.una > 0 {
            return false;
        }
        let is_due = core::mem::take(&mut self.is_syn_ack_due);
        let unsent = u64::from(self.send.nxt == 0);
        let is_wanted =
            matches!(self.sender.transmit(unsent, now_ns), Transmit::New(_) | Transmit::Again(_));
        if !is_due && !is_wanted {
            return false;
        }
        let is_first = self.send.nxt == 0;
        if is_first || is_wanted {
            self.sender.sent(0..1, now_ns);
        }
        self.send.nxt = self.send.nxt.max(1);
        let is_active = self.state == TcpState::SynSent;
        *out = if is_active { self.syn(now_ns) } else { self.syn_ack(now_ns) };
        true
    }

    /// The SYN of an active open. Repeated ones request no ECN (RFC 3168 section 6.1.1.1) and no Fast Open.
    pub(super) fn syn(&mut self, now_ns: u64) -> Outgoing {
        let is_first = self.send.syn_ns == NEVER;
        self.send.syn_ns = self.send.syn_ns.min(now_ns);
        let mut flags = TcpFlags::SYN;
        let settings = &self.settings;
        if settings.ecn == Ecn::Request && is_first {
            flags |= TcpFlags::ECE | TcpFlags::CWR;
        }
        self.clock.is_enabled = settings.timestamps;
        let options = SegmentOptions {
            mss: Some(settings.mss),
            wscale: settings.window_scaling.then(|| self.receive.window.scale()),
            sack_permitted: settings.sack,
            timestamps: self.timestamps(now_ns),
            fast_open: self.send.cookie.filter(|_| is_first),
            ..Default::default()
        };
        let window = self.receive.window.advertise_unscaled(1);
        let has_cookie = options.fast_open.is_some_and(|cookie| !cookie.is_request());
        let room = u64::from(settings.path_mss.min(settings.mss))
            .saturating_sub(u64::from(options.encoded_len()));
        let length = if has_cookie { (self.send.written - 1).min(room) } else { 0 };
        self.send.syn_data = self.send.syn_data.max(length);
        let seq = self.send.origin.number(0);
        let segment = TcpSegment {
            seq,
            flags,
            window,
            options,
            length: length as u32,
            ..TcpSegment::default()
        };
        Outgoing { payload: 0..length, ..self.without_payload(segment) }
    }

    /// The SYN-ACK of a simultaneous open or of a Fast Open server, with the options that the peer's SYN had.
    pub(crate) fn syn_ack(&mut self, now_ns: u64) -> Outgoing {
        let options = SegmentOptions {
            mss: Some(self.settings.mss),
            wscale: self.receive.is_scaled.then(|| self.receive.window.scale()),
            sack_permitted: self.send.has_sack,
            timestamps: self.timestamps(now_ns),
            ..Default::default()
        };
        let mut flags = TcpFlags::SYN | TcpFlags::ACK;
        flags.set(TcpFlags::ECE, self.send.has_ecn);
        let window = self.receive.window.advertise_unscaled(self.receive.received);
        self.receive.acked = self.receive.received;
        self.acks.note_sent();
        let (seq, ack) = (self.send.origin.number(0), self.acknowledgement());
        self.without_payload(TcpSegment {
            seq,
            ack,
            flags,
            window,
            options,
            ..TcpSegment::default()
        })
    }
}
