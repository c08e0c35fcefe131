//! The deadline of a sender: one timer with three uses.
//!
//! - A scan for losses that RACK's tolerance delayed.
//! - A tail-loss probe (RFC 8985, section 7), which makes the peer report the loss of the last segments.
//! - The retransmission timeout (RFC 6298, section 5).
use super::{Sender, TimeoutCheck};
use crate::{
    api::{CongestionState, Expiry, RTO_MAX_NS, RTO_MIN_NS},
    scoreboard::Mark,
};

/// The time that a probe of a single segment waits longer, for the peer's delayed acknowledgement (`TLP.max_ack_delay`).
const MAX_ACK_DELAY_NS: u64 = RTO_MIN_NS;

/// The time that a probe of more segments waits longer: two of Linux's ticks at 250 Hz.
const PROBE_MARGIN_NS: u64 = 8_000_000;

/// The armed timer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    purpose: Purpose,
    at_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Scan,
    Probe,
    Timeout,
}

/// The tail-loss probe. At most one is outstanding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TailProbe {
    Idle,
    /// The timer has expired, and the caller sends the probe.
    Due,
    /// The probe is in flight. `end` is the end of the flight when it was sent.
    Sent {
        end: u64,
        is_new: bool,
    },
}

impl Sender {
    /// The time of the next call of [`Self::expired`], or nothing if nothing is in flight.
    #[inline]
    pub fn deadline_ns(&self) -> Option<u64> {
        self.timer.map(|timer| timer.at_ns)
    }

    /// Handles the deadline. Does nothing if it has not come.
    pub fn expired(&mut self, now_ns: u64) -> Expiry {
        let Some(timer) = self.timer.filter(|timer| timer.at_ns <= now_ns) else {
            return Expiry::Ask;
        };
        match timer.purpose {
            Purpose::Scan => {
                self.scan(now_ns);
                self.arm(now_ns);
                Expiry::Ask
            }
            Purpose::Probe => {
                let nxt = self.board.nxt();
                let start = nxt.saturating_sub(self.window.mss).max(self.board.una());
                self.probe = TailProbe::Due;
                self.rto_from_ns = now_ns;
                self.arm(now_ns);
                Expiry::Probe(start..nxt)
            }
            Purpose::Timeout => {
                self.time_out(now_ns);
                Expiry::Timeout
            }
        }
    }

    /// Sets the timer from the state of the flight.
    pub(super) fn arm(&mut self, now_ns: u64) {
        self.timer = self.next_timer(now_ns);
    }

    fn next_timer(&self, now_ns: u64) -> Option<Timer> {
        if self.board.in_flight() == 0 {
            return None;
        }
        let timeout_ns = self.rto_from_ns.saturating_add(self.rto_ns()).max(now_ns);
        if let Some(at_ns) = self.scan_ns.filter(|&scan_ns| scan_ns < timeout_ns) {
            return Some(Timer { purpose: Purpose::Scan, at_ns });
        }
        if self.may_probe() {
            let at_ns = now_ns.saturating_add(self.probe_delay_ns()).min(timeout_ns);
            return Some(Timer { purpose: Purpose::Probe, at_ns });
        }
        Some(Timer { purpose: Purpose::Timeout, at_ns: timeout_ns })
    }

    fn may_probe(&self) -> bool {
        self.has_sack
            && self.probe == TailProbe::Idle
            && matches!(self.state, CongestionState::Open | CongestionState::Reduced)
            && self.board.sacked() == 0
            && self.board.lost() == 0
            && self.rtt.srtt_ns().is_some()
    }

    fn probe_delay_ns(&self) -> u64 {
        let margin_ns = if self.board.in_flight() <= self.window.mss {
            MAX_ACK_DELAY_NS
        } else {
            PROBE_MARGIN_NS
        };
        2 * self.rtt.srtt_ns().unwrap_or(0) + margin_ns
    }

    /// Scans for losses after the tolerance has passed.
    fn scan(&mut self, now_ns: u64) {
        let lost = self.detect_losses(now_ns);
        if lost > 0 && !self.is_recovering() {
            self.enter_recovery();
        }
        if lost > 0 && self.state == CongestionState::Recovery {
            self.reduce_window(0, lost, super::recovery::Advance::None);
        }
    }

    /// Handles a retransmission timeout (RFC 6298, section 5; RFC 8985, section 6.3; RFC 5682).
    fn time_out(&mut self, now_ns: u64) {
        self.timeouts = self.timeouts.saturating_add(1);
        let is_first = self.timeouts == 1;
        let is_new = !self.is_recovering();
        let is_repaired = self.state == CongestionState::Loss && is_first;
        if !self.is_reduced() || self.board.una() >= self.recovery_end || is_repaired {
            self.begin_loss();
        }
        if is_new && self.has_enough_duplicates() {
            self.rack.distrust();
        }
        self.lose_flight(now_ns);
        self.window.cwnd = self.pipe().saturating_add(self.window.mss);
        self.state = CongestionState::Loss;
        self.recovery_end = self.board.nxt();
        self.recover = self.board.nxt();
        self.check = if is_new || !is_first { TimeoutCheck::Armed } else { TimeoutCheck::Off };
        self.control.time_out();
        self.owes_cwr = true;
        self.probe = TailProbe::Idle;
        self.scan_ns = None;
        self.backoff = self.backoff.saturating_add(1);
        self.rto_from_ns = now_ns;
        self.arm(now_ns);
    }

    /// Gives up the first segment and all that was sent long enough ago.
    fn lose_flight(&mut self, now_ns: u64) {
        self.virtual_sacked = 0;
        self.duplicates = 0;
        if self.board.get(0).is_some_and(|first| first.mark == Mark::Sacked) {
            // The peer reported the first byte but does not acknowledge it: it has dropped it.
            self.board.forget_sacked();
        }
        let path = self.path();
        for index in 0..self.board.count() {
            let is_recent = self
                .board
                .get(index)
                .is_some_and(|stretch| self.rack.lost_at_ns(stretch, &path) > now_ns);
            if index == 0 || !self.has_sack || !is_recent {
                self.board.lose(index);
            }
        }
    }

    /// The retransmission timeout with its backoff, in nanoseconds.
    #[inline]
    pub fn rto_ns(&self) -> u64 {
        self.probe_interval_ns(self.backoff)
    }

    /// The time before probe number `probes` of a closed window, in nanoseconds: the timeout, doubled for each probe before
    /// (RFC 9293, section 3.8.6.1).
    #[inline]
    pub fn probe_interval_ns(&self, probes: u32) -> u64 {
        self.rtt.rto_ns().saturating_mul(1 << probes.min(30)).min(RTO_MAX_NS)
    }
}
