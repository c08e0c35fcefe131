//! The sender of a connection.
use core::ops::Range;

use crate::{
    Ack, Algorithm, CongestionState, Expiry, Options, Progress, RTO_MAX_NS, Setup, Statistics,
    Transmit, Verdict,
    rtt::Estimator,
    scoreboard::{Mark, Scoreboard, Stamp},
};

/// The sender's half of a connection: what is in flight, what is lost, and how much the network may hold.
#[derive(Debug)]
pub struct Sender {
    board: Scoreboard,
    rtt: Estimator,
    algorithm: Algorithm,
    state: CongestionState,
    mss: u64,
    cwnd: u64,
    ssthresh: u64,
    /// Acknowledged bytes that have not yet raised the window.
    credit: u64,
    /// The end of the flight when recovery began.
    recovery_end: u64,
    duplicates: u32,
    timeouts: u32,
    backoff: u32,
    deadline_ns: Option<u64>,
    progress_ns: u64,
    owes_cwr: bool,
    delivered: u64,
    total_resent: u64,
    total_retransmits: u64,
}

impl Sender {
    /// Makes the sender of a connection that has sent nothing.
    pub fn new(setup: Setup) -> Self {
        let mss = u64::from(setup.mss.max(1));
        Self {
            board: Scoreboard::new(setup.start),
            rtt: Estimator::new(),
            algorithm: setup.algorithm,
            state: CongestionState::Open,
            mss,
            cwnd: initial_window(mss),
            ssthresh: u64::MAX,
            credit: 0,
            recovery_end: setup.start,
            duplicates: 0,
            timeouts: 0,
            backoff: 0,
            deadline_ns: None,
            progress_ns: 0,
            owes_cwr: false,
            delivered: 0,
            total_resent: 0,
            total_retransmits: 0,
        }
    }

    /// Sets the options of the handshake. Call it after the acknowledgement of the SYN was passed to [`Self::acknowledged`], and
    /// before data is sent. The window becomes the initial window (RFC 6928), or one segment if the SYN was sent more than twice.
    pub fn established(&mut self, options: Options) {
        self.mss = u64::from(options.mss.max(1));
        self.state = CongestionState::Open;
        self.ssthresh = u64::MAX;
        self.cwnd = if self.total_retransmits > 1 { self.mss } else { initial_window(self.mss) };
    }

    /// Takes over the flight of a connection whose sender was lost: all of it is lost and will be sent again.
    pub fn resume(&mut self, flight: Range<u64>, now_ns: u64) {
        self.board = Scoreboard::new(flight.start);
        self.board.append(flight.end, Stamp { sent_ns: now_ns });
        for index in 0..self.board.count() {
            self.board.lose(index);
        }
        self.progress_ns = now_ns;
        self.arm(now_ns);
    }

    /// Sets the largest payload of a segment. Units: bytes without TCP options.
    pub fn set_mss(&mut self, mss: u32) {
        self.mss = u64::from(mss.max(1));
        self.cwnd = self.cwnd.max(self.mss);
    }

    /// Sets a smaller payload because a segment did not fit the path (RFC 1191, RFC 8201), and gives up the flight as lost. The
    /// window stays, because the loss is no sign of congestion.
    pub fn set_path_mss(&mut self, mss: u32, now_ns: u64) {
        self.set_mss(mss);
        for index in 0..self.board.count() {
            self.board.lose(index);
        }
        self.arm(now_ns);
    }

    /// Sets the congestion control.
    pub fn set_algorithm(&mut self, algorithm: Algorithm) {
        self.algorithm = algorithm;
    }

    /// The congestion control.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Tells what to send now. `unsent` is the number of bytes that were never sent, are there and fit into the peer's window. The
    /// answer is never less than a segment unless it is all of `unsent`.
    pub fn transmit(&mut self, unsent: u64, _now_ns: u64) -> Transmit {
        let room = self.cwnd.saturating_sub(self.board.pipe());
        if let Some(lost) = self.board.first_lost() {
            let length = (lost.end - lost.start).min(room);
            if length < self.mss.min(lost.end - lost.start) {
                return Transmit::Wait;
            }
            return Transmit::Again(lost.start..lost.start + length);
        }
        let length = unsent.min(room);
        if length == 0 || length < self.mss.min(unsent) {
            return Transmit::Wait;
        }
        Transmit::New(length)
    }

    /// Notes that a range was sent. Bytes from [`Self::nxt`] on are new, those below it are a retransmission.
    pub fn sent(&mut self, range: Range<u64>, now_ns: u64) {
        let stamp = Stamp { sent_ns: now_ns };
        if self.board.in_flight() == 0 {
            self.progress_ns = now_ns;
        }
        let nxt = self.board.nxt();
        if range.start < nxt {
            self.total_retransmits += 1;
            self.total_resent += range.end.min(nxt) - range.start;
            self.board.resend(range.start..range.end.min(nxt), stamp);
        }
        self.board.append(range.end, stamp);
        if self.deadline_ns.is_none() {
            self.arm(now_ns);
        }
    }

    /// Takes an acknowledgement.
    pub fn acknowledged(&mut self, ack: &Ack<'_>, now_ns: u64) -> Progress {
        let mut progress = Progress::default();
        if ack.number > self.board.nxt() {
            progress.verdict = Verdict::Unsent;
            return progress;
        }
        for block in ack.sacks {
            self.board.sack(block.clone(), |part| progress.sacked += part.len());
        }
        if ack.number <= self.board.una() {
            if ack.number == self.board.una() && ack.is_plain && self.board.in_flight() > 0 {
                progress.verdict = Verdict::Duplicate;
                self.duplicates += 1;
                if self.duplicates == 3 && self.state != CongestionState::Loss {
                    self.state = CongestionState::Recovery;
                    self.recovery_end = self.board.nxt();
                    self.ssthresh = (self.cwnd / 2).max(2 * self.mss);
                    self.cwnd = self.ssthresh;
                    self.owes_cwr = true;
                    progress.lost = self.board.lose_head(self.mss);
                }
            }
            return progress;
        }
        progress.verdict = Verdict::Advance;
        progress.acked = ack.number - self.board.una();
        let mut rtt_ns = None;
        let mut is_ambiguous = false;
        self.board.acknowledge(ack.number, |part| {
            is_ambiguous |= part.was_resent;
            rtt_ns = rtt_ns.or(Some(now_ns.saturating_sub(part.stamp.sent_ns)));
        });
        if is_ambiguous {
            rtt_ns = ack.echo_ns.map(|echo_ns| now_ns.saturating_sub(echo_ns));
        }
        if let Some(rtt_ns) = rtt_ns {
            self.rtt.sample(rtt_ns, self.board.una(), self.board.nxt(), now_ns);
            self.backoff = 0;
        }
        progress.rtt_ns = rtt_ns;
        self.advance(progress.acked, now_ns);
        progress
    }

    fn advance(&mut self, acked: u64, now_ns: u64) {
        self.duplicates = 0;
        self.timeouts = 0;
        self.progress_ns = now_ns;
        self.delivered += acked;
        if self.board.una() >= self.recovery_end {
            self.state = CongestionState::Open;
        } else if self.state == CongestionState::Recovery
            && self.board.get(0).is_some_and(|first| first.mark == Mark::Sent)
        {
            self.board.lose_head(self.mss);
        }
        if self.state != CongestionState::Recovery {
            self.grow(acked);
        }
        self.arm(now_ns);
    }

    fn grow(&mut self, acked: u64) {
        if self.cwnd < self.ssthresh {
            self.cwnd = self.cwnd.saturating_add(acked);
            return;
        }
        self.credit += acked;
        if self.credit >= self.cwnd {
            self.credit -= self.cwnd;
            self.cwnd = self.cwnd.saturating_add(self.mss);
        }
    }

    /// The time of the next call of [`Self::expired`], or nothing if nothing is in flight.
    pub fn deadline_ns(&self) -> Option<u64> {
        self.deadline_ns
    }

    /// Handles the deadline. Does nothing if it has not come.
    pub fn expired(&mut self, now_ns: u64) -> Expiry {
        if self.deadline_ns.is_none_or(|deadline_ns| now_ns < deadline_ns) {
            return Expiry::Ask;
        }
        if self.state != CongestionState::Loss {
            self.ssthresh = (self.cwnd / 2).max(2 * self.mss);
            self.owes_cwr = true;
        }
        self.state = CongestionState::Loss;
        self.recovery_end = self.board.nxt();
        self.cwnd = self.mss;
        for index in 0..self.board.count() {
            self.board.lose(index);
        }
        self.timeouts += 1;
        self.backoff += 1;
        self.arm(now_ns);
        Expiry::Timeout
    }

    fn arm(&mut self, now_ns: u64) {
        self.deadline_ns =
            (self.board.in_flight() > 0).then(|| now_ns.saturating_add(self.rto_ns()));
    }

    /// The retransmission timeout with its backoff, in nanoseconds.
    pub fn rto_ns(&self) -> u64 {
        self.probe_interval_ns(self.backoff)
    }

    /// The time before probe number `probes` of a closed window, in nanoseconds: the timeout, doubled for each probe before
    /// (RFC 9293, section 3.8.6.1).
    pub fn probe_interval_ns(&self, probes: u32) -> u64 {
        self.rtt.rto_ns().saturating_mul(1 << probes.min(30)).min(RTO_MAX_NS)
    }

    /// Consecutive timeouts without an acknowledgement of new bytes, for `tcp_syn_retries` and `tcp_retries2`.
    pub fn timeouts(&self) -> u32 {
        self.timeouts
    }

    /// The time since which nothing was acknowledged though something is in flight, for `TCP_USER_TIMEOUT`.
    pub fn stalled_since_ns(&self) -> Option<u64> {
        (self.board.in_flight() > 0).then_some(self.progress_ns)
    }

    /// Returns true once after each reduction of the window. The next segment of new data then carries CWR if the connection
    /// negotiated ECN (RFC 3168, section 6.1.2).
    pub fn take_cwr(&mut self) -> bool {
        core::mem::take(&mut self.owes_cwr)
    }

    /// The oldest unacknowledged offset.
    pub fn una(&self) -> u64 {
        self.board.una()
    }

    /// The next offset that was never sent.
    pub fn nxt(&self) -> u64 {
        self.board.nxt()
    }

    /// The congestion window, in bytes.
    pub fn cwnd(&self) -> u64 {
        self.cwnd
    }

    /// The smoothed round-trip time, in nanoseconds, or nothing before the first measurement.
    pub fn srtt_ns(&self) -> Option<u64> {
        self.rtt.srtt_ns()
    }

    /// The numbers of `tcp_info`.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            state: self.state,
            srtt_ns: self.rtt.srtt_ns().unwrap_or(0),
            rttvar_ns: self.rtt.deviation_ns(),
            min_rtt_ns: self.rtt.min_ns().unwrap_or(0),
            rto_ns: self.rto_ns(),
            cwnd: self.cwnd,
            ssthresh: self.ssthresh,
            mss: self.mss,
            in_flight: self.board.in_flight(),
            sacked: self.board.sacked(),
            lost: self.board.lost() + self.board.resent(),
            resent: self.board.resent(),
            total_resent: self.total_resent,
            total_retransmits: self.total_retransmits,
            delivered: self.delivered,
            duplicates: 0,
            reordering: 3,
            reorderings: 0,
            delivery_rate: 0,
            is_rate_app_limited: false,
            timeouts: self.timeouts,
            backoff: self.backoff,
        }
    }
}

/// The initial window (RFC 6928): ten segments. Linux does not apply the limit of 14600 bytes, which only concerns a larger MSS.
fn initial_window(mss: u64) -> u64 {
    10 * mss
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IdleRestart;

    #[test]
    fn a_timeout_sends_the_flight_again() {
        let setup =
            Setup { start: 0, mss: 1000, algorithm: Algorithm::Reno, idle: IdleRestart::Decay };
        let mut sender = Sender::new(setup);
        assert_eq!(sender.transmit(25_000, 0), Transmit::New(10_000));
        sender.sent(0..10_000, 0);
        assert_eq!(sender.transmit(15_000, 0), Transmit::Wait);
        assert_eq!(sender.deadline_ns(), Some(1_000_000_000));
        assert_eq!(sender.expired(1_000_000_000), Expiry::Timeout);
        assert_eq!(sender.transmit(15_000, 1_000_000_000), Transmit::Again(0..1000));
        sender.sent(0..1000, 1_000_000_000);
        assert_eq!(sender.deadline_ns(), Some(3_000_000_000));
        assert_eq!(sender.timeouts(), 1);
        let ack = Ack { number: 10_000, sacks: &[], echo_ns: None, is_plain: true, has_ece: false };
        let progress = sender.acknowledged(&ack, 1_100_000_000);
        assert_eq!((progress.acked, progress.rtt_ns), (10_000, None));
        assert_eq!((sender.timeouts(), sender.deadline_ns()), (0, None));
    }

    #[test]
    fn sequence_numbers_wrap_to_offsets() {
        assert_eq!(crate::offset(5, 3), 3);
        assert_eq!(crate::offset(5, u32::MAX), 0);
        assert_eq!(crate::offset(0xffff_fff0, 0x10), 0x1_0000_0010);
        assert_eq!(crate::offset(0x1_0000_0010, 0xffff_fff0), 0xffff_fff0);
    }
}
