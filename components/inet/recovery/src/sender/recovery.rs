//! The states of congestion control.
//!
//! ```text
//!            news out of order            losses
//!     Open <-------------------> Disorder ------> Recovery
//!       | ECE, or a repaired tail                   |
//!       v                                           |
//!     Reduced          a timeout from any: Loss <---+
//! ```
//! `Recovery`, `Reduced` and `Loss` end when the flight of their beginning is acknowledged. The window of `Recovery` and `Reduced`
//! follows proportional rate reduction (RFC 6937); the one of `Loss` starts from one segment.
//!
//! A reduction is undone if it proves needless:
//! - The first acknowledgement after it echoes a timestamp from before the retransmission (RFC 3522, RFC 4015).
//! - Duplicate reports cover all that was sent again (RFC 2883, RFC 3708).
//! - After a timeout, data that was not sent again is acknowledged (F-RTO, RFC 5682).
use super::{Sender, TailProbe, acknowledge::News};
use crate::{
    api::{Ack, CongestionState, TIMESTAMP_TICK_NS},
    congestion::Delivered,
    rack::REORDERING,
    scoreboard::Mark,
};

/// Proportional rate reduction (RFC 6937). All are in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reduction {
    /// The window before (`RecoverFS`).
    prior: u64,
    delivered: u64,
    out: u64,
}

impl Reduction {
    /// Counts sent bytes.
    pub(super) fn sent(&mut self, bytes: u64) {
        self.out = self.out.saturating_add(bytes);
    }
}

/// The progress of an acknowledgement, as the reduction of a window sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advance {
    /// The acknowledgement number did not move.
    None,
    /// It moved.
    Some,
}

/// The values to restore if a reduction proves needless.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    cwnd: u64,
    ssthresh: u64,
    /// The oldest unacknowledged offset at the reduction.
    marker: u64,
    /// The bytes sent again since and not reported as duplicates.
    unconfirmed: u64,
    first_resent_ns: Option<u64>,
}

impl Undo {
    /// Counts a retransmission.
    pub(super) fn resent(&mut self, bytes: u64, now_ns: u64) {
        self.unconfirmed = self.unconfirmed.saturating_add(bytes);
        self.first_resent_ns.get_or_insert(now_ns);
    }

    /// Counts a report of a duplicate that ends at `end`.
    pub(super) fn duplicated(&mut self, bytes: u64, end: u64) {
        if end > self.marker {
            self.unconfirmed = self.unconfirmed.saturating_sub(bytes);
        }
    }

    /// Duplicate reports cover every retransmission.
    fn is_confirmed(&self) -> bool {
        self.first_resent_ns.is_some() && self.unconfirmed == 0
    }

    /// The acknowledgement answers a segment from before the first retransmission.
    fn is_original(&self, echo_ns: Option<u64>) -> bool {
        match (self.first_resent_ns, echo_ns) {
            (None, _) => true,
            (Some(resent_ns), Some(echo_ns)) => echo_ns < resent_ns - resent_ns % TIMESTAMP_TICK_NS,
            (Some(_), None) => false,
        }
    }
}

/// The check whether a timeout was spurious (F-RTO, RFC 5682).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeoutCheck {
    Off,
    /// The first segment was sent again (step 1).
    Armed,
    /// The first acknowledgement moved. New data is sent before lost data (step 2).
    SendNew,
}

impl Sender {
    pub(super) fn is_recovering(&self) -> bool {
        matches!(self.state, CongestionState::Recovery | CongestionState::Loss)
    }

    /// The present flight has reduced the window.
    pub(super) fn is_reduced(&self) -> bool {
        self.is_recovering() || self.state == CongestionState::Reduced
    }

    fn is_reducing(&self) -> bool {
        matches!(self.state, CongestionState::Recovery | CongestionState::Reduced)
    }

    /// The threshold that stands for the present window.
    pub(super) fn current_threshold(&self) -> u64 {
        if self.is_reducing() {
            self.window.ssthresh
        } else {
            self.window.ssthresh.max(self.window.cwnd / 4 * 3)
        }
    }

    /// Takes the news of an acknowledgement through the states. Returns the bytes given up as lost.
    pub(super) fn react(&mut self, ack: &Ack<'_>, news: &mut News, now_ns: u64) -> u64 {
        self.judge_probe(ack, news);
        if self.board.una() >= self.recovery_end {
            self.leave_reduction(ack, news);
        }
        match self.state {
            CongestionState::Recovery if news.has_advanced() => self.undo_partly(ack, news),
            CongestionState::Loss => self.continue_loss(ack, news),
            _ => {}
        }
        if self.state != CongestionState::Loss {
            self.undo_confirmed(news);
        }
        let mut lost = self.detect_losses(now_ns);
        if !self.has_sack {
            lost += self.detect_without_sack(news);
        }
        if lost > 0 && !self.is_recovering() {
            self.enter_recovery();
            if ack.has_ece {
                self.undo = None;
            }
        }
        self.settle(ack);
        lost
    }

    /// Chooses between the states without losses.
    fn settle(&mut self, ack: &Ack<'_>) {
        if !matches!(self.state, CongestionState::Open | CongestionState::Disorder) {
            return;
        }
        let is_disordered = self.board.sacked() > 0
            || self.virtual_sacked > 0
            || self.board.lost() > 0
            || self.board.resent() > 0;
        self.state = if is_disordered { CongestionState::Disorder } else { CongestionState::Open };
        if ack.has_ece {
            self.enter_reduced();
        }
    }

    /// Ends `Recovery` and `Reduced` at the end of their flight.
    fn leave_reduction(&mut self, ack: &Ack<'_>, news: &mut News) {
        match self.state {
            // The sender's CWR is above the end, and the peer echoes until it has seen it.
            CongestionState::Reduced if self.board.una() > self.recovery_end => {
                self.window.cwnd = self.window.ssthresh.max(self.window.mss);
            }
            CongestionState::Recovery => {
                if self.may_undo(ack) {
                    self.undo_reduction(news);
                } else {
                    self.window.cwnd = self.window.ssthresh.max(self.window.mss);
                }
                self.rack.recovered();
            }
            _ => return,
        }
        self.state = CongestionState::Open;
    }

    /// Begins fast recovery (RFC 6675, section 5; RFC 6582).
    pub(super) fn enter_recovery(&mut self) {
        let was_reducing = self.is_reducing();
        self.undo = (!was_reducing).then(|| self.present());
        if !was_reducing {
            self.begin_reduction();
        }
        self.recovery_end = self.board.nxt();
        self.recover = self.board.nxt();
        self.state = CongestionState::Recovery;
        self.probe = TailProbe::Idle;
    }

    /// Begins a reduction without a loss (RFC 3168, section 6.1.2; RFC 8985, section 7.4).
    pub(super) fn enter_reduced(&mut self) {
        self.undo = None;
        self.begin_reduction();
        self.state = CongestionState::Reduced;
    }

    fn begin_reduction(&mut self) {
        self.reduction = Reduction { prior: self.window.cwnd.max(1), delivered: 0, out: 0 };
        self.window.ssthresh = self.control.reduce(&self.window);
        self.recovery_end = self.board.nxt();
        self.owes_cwr = true;
    }

    /// Begins recovery after a timeout.
    pub(super) fn begin_loss(&mut self) {
        self.undo = Some(self.present());
        self.window.ssthresh = self.control.reduce(&self.window);
    }

    fn present(&self) -> Undo {
        Undo {
            cwnd: self.window.cwnd,
            ssthresh: self.current_threshold(),
            marker: self.board.una(),
            unconfirmed: 0,
            first_resent_ns: None,
        }
    }

    /// Sets the window in a reduction after `delivered` bytes (RFC 6937, section 3, with the safe bound of slow start).
    pub(super) fn reduce_window(&mut self, delivered: u64, lost: u64, advance: Advance) {
        let mss = self.window.mss;
        let (pipe, ssthresh) = (self.pipe(), self.window.ssthresh);
        let reduction = &mut self.reduction;
        reduction.delivered = reduction.delivered.saturating_add(delivered);
        let unspent = reduction.delivered.saturating_sub(reduction.out);
        let mut allowance = if pipe > ssthresh {
            let share = u128::from(reduction.delivered) * u128::from(ssthresh);
            let share = share.div_ceil(u128::from(reduction.prior));
            u64::try_from(share).unwrap_or(u64::MAX).saturating_sub(reduction.out)
        } else {
            let is_safe = advance == Advance::Some && lost == 0;
            let bound = unspent.max(delivered) + if is_safe { mss } else { 0 };
            bound.min(ssthresh - pipe)
        };
        if reduction.out == 0 {
            allowance = allowance.max(mss);
        }
        self.window.cwnd = pipe.saturating_add(allowance).max(mss);
    }

    /// Sets the window after an acknowledgement, which came in the state `before`.
    pub(super) fn steer_window(
        &mut self,
        before: CongestionState,
        news: &News,
        lost: u64,
        now_ns: u64,
    ) {
        if self.is_reducing() {
            let advance = if news.has_advanced() { Advance::Some } else { Advance::None };
            if news.delivered > 0 || lost > 0 {
                self.reduce_window(news.delivered, lost, advance);
            }
        } else if self.has_growth(before, news) && self.usage.may_grow(&self.window) {
            // Without SACK, the number jumps over what the peer held before the timeout (RFC 3465, section 2.3).
            let is_jump = before == CongestionState::Loss && !self.has_sack;
            let bytes = if is_jump { news.delivered.min(self.window.mss) } else { news.delivered };
            self.grow(bytes, news.rtt_ns, now_ns);
        }
    }

    /// Grows the window by a delivery.
    pub(super) fn grow(&mut self, bytes: u64, rtt_ns: Option<u64>, now_ns: u64) {
        let delivered = Delivered {
            bytes,
            una: self.board.una(),
            nxt: self.board.nxt(),
            rtt_ns,
            srtt_ns: self.rtt.srtt_ns().unwrap_or(0),
            now_ns,
        };
        self.control.grow(&mut self.window, &delivered);
    }

    /// Tells whether an acknowledgement may grow the window. Reports out of order count only on a path that reorders. The one that
    /// ends a reduction leaves the window at the threshold (RFC 5681, section 3.2).
    fn has_growth(&self, before: CongestionState, news: &News) -> bool {
        let is_end = matches!(before, CongestionState::Recovery | CongestionState::Reduced);
        let has_progress = news.has_advanced() || self.rack.reordering() > REORDERING;
        news.delivered > 0 && !is_end && has_progress
    }

    fn may_undo(&self, ack: &Ack<'_>) -> bool {
        self.undo.is_some_and(|undo| undo.is_confirmed() || undo.is_original(ack.echo_ns))
    }

    /// Restores the window and the threshold of before the reduction.
    fn undo_reduction(&mut self, news: &mut News) {
        let Some(undo) = self.undo.take() else { return };
        self.window.cwnd = self.window.cwnd.max(undo.cwnd);
        self.window.ssthresh = self.window.ssthresh.max(undo.ssthresh);
        self.control.restore();
        self.check = TimeoutCheck::Off;
        news.is_undone = true;
    }

    /// Undoes fast recovery when the first hole was only late.
    fn undo_partly(&mut self, ack: &Ack<'_>, news: &mut News) {
        if self.undo.is_some_and(|undo| undo.is_original(ack.echo_ns)) && self.board.resent() == 0 {
            self.board.forgive();
            self.undo_reduction(news);
            self.state = CongestionState::Disorder;
        }
    }

    /// Undoes a reduction when duplicate reports cover every retransmission.
    fn undo_confirmed(&mut self, news: &mut News) {
        if news.has_duplicate && self.undo.is_some_and(|undo| undo.is_confirmed()) {
            self.board.forgive();
            self.undo_reduction(news);
            if self.state == CongestionState::Recovery {
                self.state = CongestionState::Disorder;
            }
        }
    }

    /// Continues recovery after a timeout.
    fn continue_loss(&mut self, ack: &Ack<'_>, news: &mut News) {
        if news.has_advanced() && self.may_undo(ack) || self.is_spurious(news) {
            self.board.forgive();
            self.undo_reduction(news);
            self.state = CongestionState::Disorder;
            return;
        }
        if self.board.una() >= self.recovery_end {
            self.check = TimeoutCheck::Off;
            self.state = CongestionState::Open;
        } else if self.check != TimeoutCheck::Off {
            self.continue_check(news);
        }
    }

    /// Data that was not sent again since the timeout arrived (RFC 5682, step 3b).
    fn is_spurious(&self, news: &News) -> bool {
        self.check != TimeoutCheck::Off && news.is_original && self.undo.is_some()
    }

    fn continue_check(&mut self, news: &News) {
        if self.board.nxt() > self.recovery_end {
            let is_duplicate = news.sacked > 0 || news.is_duplicate;
            self.check = if is_duplicate { TimeoutCheck::Off } else { TimeoutCheck::Armed };
        } else if news.has_advanced() {
            self.recovery_end = self.board.nxt();
            self.check = TimeoutCheck::SendNew;
        }
    }

    /// Handles the answer to a tail-loss probe (RFC 8985, section 7.4).
    fn judge_probe(&mut self, ack: &Ack<'_>, news: &News) {
        let TailProbe::Sent { end, is_new } = self.probe else { return };
        if ack.number < end {
            return;
        }
        if is_new || news.has_duplicate || news.is_duplicate {
            self.probe = TailProbe::Idle;
        } else if ack.number > end {
            // No duplicate was reported, so the probe repaired a loss.
            self.probe = TailProbe::Idle;
            if !self.is_reduced() {
                self.enter_reduced();
            }
        }
    }

    /// Gives up what RACK finds lost. Returns the bytes that left the pipe.
    pub(super) fn detect_losses(&mut self, now_ns: u64) -> u64 {
        self.scan_ns = None;
        if self.board.sacked() == 0 && self.board.resent() == 0 || !self.has_sack {
            return 0;
        }
        let path = self.path();
        let detected = self.rack.detect(&mut self.board, &path, now_ns);
        self.scan_ns = detected.again_ns;
        detected.lost
    }

    /// Gives up the first segment after enough duplicate acknowledgements, and after each partial one (RFC 6582).
    fn detect_without_sack(&mut self, news: &News) -> u64 {
        let is_due = match self.state {
            CongestionState::Open | CongestionState::Disorder | CongestionState::Reduced => {
                self.has_enough_duplicates() && self.board.una() > self.recover
            }
            CongestionState::Recovery => news.has_advanced(),
            CongestionState::Loss => false,
        };
        if is_due && self.board.get(0).is_some_and(|first| first.mark == Mark::Sent) {
            self.board.lose_head(self.window.mss)
        } else {
            0
        }
    }
}
