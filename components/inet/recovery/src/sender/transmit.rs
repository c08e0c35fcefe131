//! The allowance to send, and the record of what was sent.
use core::ops::Range;

use super::{Sender, TailProbe, TimeoutCheck};
use crate::{
    api::{CongestionState, IdleRestart, Transmit},
    congestion::CongestionWindow,
    scoreboard::Stamp,
};

/// The use of the window in the last round trip. Only a window that is used may grow (RFC 7661, Linux's rule).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    is_limited: bool,
    /// The largest flight of the round.
    peak: u64,
    /// The offset whose acknowledgement ends the round.
    round_end: u64,
}

impl Usage {
    /// Notes a transmission of new data. The window limits the flow if its remaining `room` is less than a segment.
    fn note(&mut self, flight: Range<u64>, room: u64, mss: u64) {
        let Range { start: una, end: nxt } = flight;
        let flight = nxt - una;
        let is_limited = room < mss;
        if una >= self.round_end || is_limited || (!self.is_limited && flight > self.peak) {
            *self = Self { is_limited, peak: flight, round_end: nxt };
        }
    }

    /// Tells whether the window may grow: it limited the flow, or in slow start at least half of it was used.
    pub(super) fn may_grow(&self, window: &CongestionWindow) -> bool {
        self.is_limited
            || (window.cwnd < window.ssthresh && window.cwnd < self.peak.saturating_mul(2))
    }

    /// Forgets the use after an idle time.
    fn reset(&mut self) {
        *self = Self::default();
    }
}

impl Sender {
    /// Tells what to send now. `unsent` is the number of bytes that were never sent, are there and fit into the peer's window. The
    /// answer is a multiple of the largest payload, or all there is of its kind.
    pub fn transmit(&mut self, unsent: u64, now_ns: u64) -> Transmit {
        if self.board.in_flight() == 0 && unsent > 0 {
            self.restart_after_idle(now_ns);
        }
        let pipe = self.pipe();
        let room = self.window.cwnd.saturating_sub(pipe);
        if self.may_resend(unsent)
            && let Some(lost) = self.board.first_lost()
        {
            let length = whole_segments(lost.end - lost.start, room, self.window.mss);
            if length == 0 {
                return Transmit::Wait;
            }
            return Transmit::Again(lost.start..lost.start + length);
        }
        if unsent == 0 {
            self.note_rest();
            return Transmit::Wait;
        }
        match whole_segments(unsent, room, self.window.mss) {
            0 => Transmit::Wait,
            length => Transmit::New(length),
        }
    }

    /// Tells whether lost data waits to be sent again, or a timeout is checked: then [`Self::transmit`] has to be asked.
    #[inline]
    pub fn is_repairing(&self) -> bool {
        self.board.lost() > 0 || self.check != TimeoutCheck::Off
    }

    /// Notes that there is nothing to send: the application limits the flow, unless the window is used up or data is lost.
    #[inline]
    pub fn note_rest(&mut self) {
        let pipe = self.pipe();
        if self.window.cwnd > pipe && self.board.lost() == 0 {
            self.rate.limit(pipe);
        }
    }

    /// Tells whether lost data comes before new data. The second step of F-RTO sends new data first, if there is any (RFC 5682).
    fn may_resend(&mut self, unsent: u64) -> bool {
        if self.check != TimeoutCheck::SendNew {
            return true;
        }
        if unsent == 0 && self.board.nxt() == self.recovery_end {
            self.check = TimeoutCheck::Off;
            return true;
        }
        false
    }

    /// Shrinks a window that was not used for a timeout or longer (RFC 2861; RFC 5681, section 4.1).
    #[inline]
    fn restart_after_idle(&mut self, now_ns: u64) {
        let idle_ns = now_ns.saturating_sub(self.last_sent_ns);
        let rto_ns = self.rto_ns();
        if self.idle != IdleRestart::Keep && self.last_sent_ns != 0 && idle_ns > rto_ns {
            self.shrink_after(idle_ns, rto_ns, now_ns);
        }
    }

    #[cold]
    fn shrink_after(&mut self, mut idle_ns: u64, rto_ns: u64, now_ns: u64) {
        let restart = CongestionWindow::initial(self.window.mss).min(self.window.cwnd);
        self.window.ssthresh = self.current_threshold();
        while idle_ns > rto_ns && self.window.cwnd > restart {
            self.window.cwnd /= 2;
            idle_ns -= rto_ns;
        }
        self.window.cwnd = self.window.cwnd.max(restart);
        self.usage.reset();
        self.control.skip(now_ns.saturating_sub(self.last_sent_ns));
        self.last_sent_ns = now_ns;
    }

    /// Notes that a range was sent. Bytes from [`Self::nxt`] on are new, those below it are a retransmission.
    pub fn sent(&mut self, range: Range<u64>, now_ns: u64) {
        let (una, nxt) = (self.board.una(), self.board.nxt());
        let was_empty = nxt == una;
        let stamp = self.rate.stamp(nxt - una, now_ns);
        if was_empty {
            self.progress_ns = now_ns;
            self.rto_from_ns = now_ns;
            if self.last_sent_ns != 0 {
                self.control.skip(now_ns.saturating_sub(self.last_sent_ns));
            }
        }
        let again = range.start.max(una)..range.end.min(nxt);
        if !again.is_empty() {
            self.resent(&again, stamp, now_ns);
        }
        let fresh = range.end.saturating_sub(nxt);
        self.reduction.sent(fresh + again.end.saturating_sub(again.start));
        self.last_sent_ns = now_ns;
        let is_probe = self.note_probe(range.end, nxt);
        if fresh > 0 {
            self.board.append(range.end, stamp);
            let room = self.window.cwnd.saturating_sub(self.pipe());
            self.usage.note(una..self.board.nxt(), room, self.window.mss);
        }
        if fresh > 0 || is_probe || self.timer.is_none() || again.start == una {
            self.arm(now_ns);
        }
    }

    /// Tells whether nothing is in flight, and nothing is to be repaired or checked.
    #[inline]
    pub fn is_resting(&self) -> bool {
        self.board.in_flight() == 0
            && self.state == CongestionState::Open
            && self.check == TimeoutCheck::Off
            && self.probe == TailProbe::Idle
            && !self.owes_cwr
    }

    /// Notes that the bytes up to `end` came to the peer without a segment, and were acknowledged at once. They tell nothing of a
    /// path. Does nothing unless [`Self::is_resting`].
    #[inline]
    pub fn skip(&mut self, end: u64, now_ns: u64) {
        if !self.is_resting() {
            return;
        }
        self.rate.skip(end.saturating_sub(self.board.nxt()), now_ns);
        self.board.skip(end);
        self.rack.raise(end);
        self.last_sent_ns = now_ns;
        self.progress_ns = now_ns;
        self.rto_from_ns = now_ns;
    }

    /// Notes that the bytes up to `end`, the SYN, came to the peer and were acknowledged within a call: [`Self::sent`] and
    /// [`Self::acknowledged`] in one. Does nothing unless [`Self::is_resting`].
    pub fn exchange(&mut self, end: u64, now_ns: u64) {
        let una = self.board.una();
        if !self.is_resting() || end <= una {
            return;
        }
        self.rate.exchange(end - una, now_ns);
        self.board.skip(end);
        self.rack.exchange(end, now_ns);
        self.rtt.sample(0, end, end, now_ns);
        self.reduction.sent(end - una);
        let room = self.window.cwnd.saturating_sub(end - una);
        self.usage.note(una..end, room, self.window.mss);
        self.last_sent_ns = now_ns;
        self.progress_ns = now_ns;
        self.rto_from_ns = now_ns;
    }

    /// Notes that a range of the flight was sent again.
    #[cold]
    fn resent(&mut self, again: &Range<u64>, stamp: Stamp, now_ns: u64) {
        self.count_resent(again, now_ns);
        self.board.resend(again.clone(), stamp);
    }

    fn count_resent(&mut self, again: &Range<u64>, now_ns: u64) {
        let length = again.end - again.start;
        self.total_retransmits += length.div_ceil(self.window.mss);
        self.total_resent += length;
        if let Some(undo) = &mut self.undo {
            undo.resent(length, now_ns);
        }
        if again.start == self.board.una() {
            self.rto_from_ns = now_ns;
        }
    }

    /// Notes the transmission of a probe. Returns whether it was one.
    fn note_probe(&mut self, end: u64, nxt: u64) -> bool {
        if self.probe != TailProbe::Due {
            return false;
        }
        self.probe = TailProbe::Sent { end: end.max(nxt), is_new: end > nxt };
        self.rto_from_ns = self.last_sent_ns;
        true
    }
}

/// The bytes of `wanted` that `room` allows: all, or a number of whole segments.
fn whole_segments(wanted: u64, room: u64, mss: u64) -> u64 {
    if wanted <= room { wanted } else { room - room % mss }
}
