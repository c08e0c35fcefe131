//! The sender of a connection.
//!
//! - `acknowledge`: the way of an acknowledgement through the scoreboard.
//! - `recovery`: the states of congestion control, from Open to Loss, and the undoing of needless reductions.
//! - `timer`: the deadline and what it does.
//! - `transmit`: the allowance to send, and the record of what was sent.
mod acknowledge;
mod recovery;
mod timer;
mod transmit;

use core::ops::Range;

use crate::{
    api::{CongestionState, IdleRestart, Options, Setup, Statistics},
    congestion::{Algorithm, CongestionWindow, Control},
    rack::{Path, Rack},
    rate::Rate,
    rtt::Estimator,
    scoreboard::Scoreboard,
};
use recovery::{Reduction, TimeoutCheck, Undo};
use timer::{TailProbe, Timer};
use transmit::Usage;

/// The largest payload of a segment that the sender believes, in bytes. It bounds products of windows.
pub(crate) const MSS_MAX: u64 = 1 << 20;

/// The sender's half of a connection: what is in flight, what is lost, and how much the network may hold.
#[derive(Debug)]
pub struct Sender {
    board: Scoreboard,
    window: CongestionWindow,
    state: CongestionState,
    has_sack: bool,
    rtt: Estimator,
    rate: Rate,
    rack: Rack,
    control: Control,
    usage: Usage,
    timer: Option<Timer>,
    /// The time from which the retransmission timeout counts.
    rto_from_ns: u64,
    /// The time of the next scan for losses.
    scan_ns: Option<u64>,
    last_sent_ns: u64,
    progress_ns: u64,
    /// The end of the flight when the last reduction of the window began (`high_seq`).
    recovery_end: u64,
    /// The end of the flight when the last recovery began. Without SACK, duplicates below it are not counted (RFC 6582).
    recover: u64,
    reduction: Reduction,
    undo: Option<Undo>,
    check: TimeoutCheck,
    probe: TailProbe,
    /// The bytes that duplicate acknowledgements without SACK blocks stand for.
    virtual_sacked: u64,
    /// The acknowledgements since the last progress that reported something new out of order.
    duplicates: u32,
    timeouts: u32,
    backoff: u32,
    idle: IdleRestart,
    owes_cwr: bool,
    duplicate_bytes: u64,
    total_resent: u64,
    total_retransmits: u64,
}

impl Sender {
    /// Makes the sender of a connection that has sent nothing.
    #[inline]
    pub fn new(setup: Setup) -> Self {
        let mss = u64::from(setup.mss).clamp(1, MSS_MAX);
        Self {
            board: Scoreboard::new(setup.start),
            window: CongestionWindow {
                cwnd: CongestionWindow::initial(mss),
                ssthresh: u64::MAX,
                mss,
            },
            state: CongestionState::Open,
            has_sack: false,
            rtt: Estimator::new(),
            rate: Rate::default(),
            rack: Rack::new(setup.start),
            control: Control::new(setup.algorithm),
            usage: Usage::default(),
            timer: None,
            rto_from_ns: 0,
            scan_ns: None,
            last_sent_ns: 0,
            progress_ns: 0,
            recovery_end: setup.start,
            recover: setup.start,
            reduction: Reduction::default(),
            undo: None,
            check: TimeoutCheck::Off,
            probe: TailProbe::Idle,
            virtual_sacked: 0,
            duplicates: 0,
            timeouts: 0,
            backoff: 0,
            idle: setup.idle,
            owes_cwr: false,
            duplicate_bytes: 0,
            total_resent: 0,
            total_retransmits: 0,
        }
    }

    /// Sets the options of the handshake. Call it after the acknowledgement of the SYN was passed to [`Self::acknowledged`], and
    /// before data is sent. The window becomes the initial window (RFC 6928), or one segment if the SYN was sent more than twice.
    /// Without a measurement, the timeout becomes three seconds if the SYN was sent again (RFC 6298, section 5.7).
    pub fn established(&mut self, options: Options) {
        let mss = u64::from(options.mss).clamp(1, MSS_MAX);
        let cwnd = if self.total_retransmits > 1 { mss } else { CongestionWindow::initial(mss) };
        self.window = CongestionWindow { cwnd, ssthresh: u64::MAX, mss };
        self.has_sack = options.has_sack;
        self.control = Control::new(self.control.algorithm());
        self.state = CongestionState::Open;
        self.recover = self.board.una().saturating_sub(1);
        self.backoff = 0;
        if self.total_retransmits > 0 {
            self.rtt.distrust();
        }
        self.undo = None;
        self.check = TimeoutCheck::Off;
        self.owes_cwr = false;
    }

    /// Takes over the flight of a connection whose sender was lost: all of it is lost and will be sent again. Call it after
    /// [`Self::established`].
    pub fn resume(&mut self, flight: Range<u64>, now_ns: u64) {
        self.board = Scoreboard::new(flight.start);
        self.rack = Rack::new(flight.start);
        let stamp = self.rate.stamp(0, now_ns);
        self.board.append(flight.end, stamp);
        self.progress_ns = now_ns;
        self.rto_from_ns = now_ns;
        self.resend_all();
        self.arm(now_ns);
    }

    /// Sets the largest payload of a segment. Units: bytes without TCP options.
    pub fn set_mss(&mut self, mss: u32) {
        self.window.mss = u64::from(mss).clamp(1, MSS_MAX);
        self.window.cwnd = self.window.cwnd.max(self.window.mss);
    }

    /// Sets a smaller payload because a segment did not fit the path (RFC 1191, RFC 8201), and gives up the flight as lost. The
    /// window stays, because the loss is no sign of congestion.
    pub fn set_path_mss(&mut self, mss: u32, now_ns: u64) {
        self.set_mss(mss);
        if self.board.in_flight() > 0 {
            self.window.ssthresh = self.current_threshold();
            self.resend_all();
            self.arm(now_ns);
        }
    }

    fn resend_all(&mut self) {
        self.board.lose_all();
        self.virtual_sacked = 0;
        self.state = CongestionState::Loss;
        self.recovery_end = self.board.nxt();
        self.recover = self.board.nxt();
        self.undo = None;
        self.check = TimeoutCheck::Off;
        self.probe = TailProbe::Idle;
        self.scan_ns = None;
    }

    /// Sets the congestion control. The window stays.
    pub fn set_algorithm(&mut self, algorithm: Algorithm) {
        if algorithm != self.control.algorithm() {
            self.control = Control::new(algorithm);
        }
    }

    /// The congestion control.
    pub fn algorithm(&self) -> Algorithm {
        self.control.algorithm()
    }

    /// Consecutive timeouts without an acknowledgement of new bytes, for `tcp_syn_retries` and `tcp_retries2`.
    pub fn timeouts(&self) -> u32 {
        self.timeouts
    }

    /// The time since which nothing was acknowledged though something is in flight, for `TCP_USER_TIMEOUT`.
    #[inline]
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
        self.window.cwnd
    }

    /// The smoothed round-trip time, in nanoseconds, or nothing before the first measurement.
    #[inline]
    pub fn srtt_ns(&self) -> Option<u64> {
        self.rtt.srtt_ns()
    }

    /// The estimate of the bytes in the network (RFC 6675, section 4).
    #[inline]
    pub fn pipe(&self) -> u64 {
        self.board.pipe().saturating_sub(self.virtual_sacked)
    }

    fn path(&self) -> Path {
        let is_suspect = matches!(self.state, CongestionState::Recovery | CongestionState::Loss)
            || self.has_enough_duplicates();
        Path {
            min_rtt_ns: self.rtt.min_ns().unwrap_or(0),
            srtt_ns: self.rtt.srtt_ns().unwrap_or(0),
            is_suspect,
        }
    }

    /// The rule of RFC 6675 with the tolerated reordering as DupThresh.
    fn has_enough_duplicates(&self) -> bool {
        let reordering = self.rack.reordering();
        let sacked = self.board.sacked() + self.virtual_sacked;
        self.duplicates >= reordering || sacked > u64::from(reordering - 1) * self.window.mss
    }

    /// The segments that were sent again since the connection began.
    pub fn total_retransmits(&self) -> u64 {
        self.total_retransmits
    }

    /// The numbers of `tcp_info`.
    pub fn statistics(&self) -> Statistics {
        let (delivery_rate, is_rate_app_limited) = self.rate.last();
        let sent_once = self.board.pipe() - self.board.resent();
        Statistics {
            state: self.state,
            srtt_ns: self.rtt.srtt_ns().unwrap_or(0),
            rttvar_ns: self.rtt.deviation_ns(),
            min_rtt_ns: self.rtt.min_ns().unwrap_or(0),
            rto_ns: self.rto_ns(),
            cwnd: self.window.cwnd,
            ssthresh: self.window.ssthresh,
            mss: self.window.mss,
            in_flight: self.board.in_flight(),
            sacked: self.board.sacked() + self.virtual_sacked.min(sent_once),
            lost: self.board.lost() + self.board.resent(),
            resent: self.board.resent(),
            total_resent: self.total_resent,
            total_retransmits: self.total_retransmits,
            delivered: self.rate.delivered(),
            duplicates: self.duplicate_bytes,
            reordering: self.rack.reordering(),
            reorderings: self.rack.reorderings(),
            delivery_rate,
            is_rate_app_limited,
            timeouts: self.timeouts,
            backoff: self.backoff,
        }
    }
}
