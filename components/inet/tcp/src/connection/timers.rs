//! The timers of a connection: retransmission, persist, delayed acknowledgement, keepalive (RFC 9293 section 3.8), user timeout
//! (RFC 5482), FIN-WAIT-2.
use super::{
    Connection,
    settings::retry_time_ns,
    types::{TcpError, TcpEvents, TcpState},
};
use crate::clock::NEVER;
use recovery::Expiry;

impl Connection {
    /// Returns the time of the next call of [`Connection::expired`], `None` if no timer is armed.
    #[inline]
    pub fn deadline(&self) -> Option<u64> {
        if let Some(wait) = &self.time_wait {
            return (self.state == TcpState::TimeWait).then(|| wait.deadline());
        }
        let earliest = self
            .sender
            .deadline_ns()
            .unwrap_or(NEVER)
            .min(self.acks.deadline())
            .min(self.probe.deadline_ns)
            .min(self.keepalive.deadline_ns)
            .min(self.linger_deadline_ns)
            .min(self.pacing.deadline_ns)
            .min(self.user_deadline());
        let is_dead = self.state == TcpState::Closed || earliest == NEVER;
        if is_dead {
            return None;
        }
        Some(earliest)
    }

    /// Returns the time at which a connection in FIN-WAIT-2 that no program holds ends, if it has no other timer.
    pub fn orphan_deadline(&self) -> Option<u64> {
        let at = Some(self.linger_deadline_ns).filter(|at| *at != NEVER);
        at.filter(|_| self.state == TcpState::FinWait2 && self.deadline() == at)
    }

    /// Runs the timers whose time has come. Does nothing if there is none.
    pub fn expired(&mut self, now_ns: u64) -> TcpEvents {
        if let Some(wait) = &self.time_wait {
            let is_over = self.state == TcpState::TimeWait && wait.deadline() <= now_ns;
            return if is_over { self.finish() } else { TcpEvents::empty() };
        }
        let mut events = TcpEvents::empty();
        if self.state == TcpState::Closed {
            return events;
        }
        if self.acks.deadline() <= now_ns {
            self.acks.expire();
        }
        if self.sender.deadline_ns().is_some_and(|deadline| deadline <= now_ns) {
            match self.sender.expired(now_ns) {
                Expiry::Ask => {}
                Expiry::Probe(range) => self.tail_probe = Some(range),
                Expiry::Timeout => events |= self.time_out(now_ns),
            }
        }
        if self.user_deadline() <= now_ns {
            events |= self.give_up();
        }
        if self.probe.deadline_ns <= now_ns {
            events |= self.expire_probe(now_ns);
        }
        if self.keepalive.deadline_ns <= now_ns {
            events |= self.expire_keepalive(now_ns);
        }
        if self.pacing.deadline_ns <= now_ns {
            // The segments that pacing held back leave with the next output.
            self.pacing.deadline_ns = NEVER;
        }
        if self.linger_deadline_ns <= now_ns {
            events |= self.finish();
        }
        events
    }

    /// The time at which the user timeout ends the connection.
    #[inline]
    fn user_deadline(&self) -> u64 {
        if self.settings.user_timeout_ns == 0 {
            return NEVER;
        }
        let stalled = self.sender.stalled_since_ns().unwrap_or(self.probe.since_ns);
        stalled.saturating_add(self.settings.user_timeout_ns)
    }

    /// Ends the connection because the peer does not answer.
    fn give_up(&mut self) -> TcpEvents {
        if self.state == TcpState::Closed {
            return TcpEvents::empty();
        }
        let error = self.soft_error.unwrap_or(TcpError::TimedOut);
        self.fail(error)
    }

    /// Handles a retransmission timeout (Linux: tcp_write_timeout).
    fn time_out(&mut self, now_ns: u64) -> TcpEvents {
        let is_over = match self.state {
            TcpState::SynSent => self.sender.timeouts() > self.settings.syn_retries,
            TcpState::SynReceived => self.sender.timeouts() > self.settings.synack_retries,
            _ => {
                let retries = if self.is_detached {
                    self.settings.orphan_retries
                } else {
                    self.settings.retries
                };
                let since = now_ns.saturating_sub(self.retry_since_ns);
                self.retry_since_ns != NEVER
                    && self.settings.user_timeout_ns == 0
                    && since >= retry_time_ns(retries)
            }
        };
        if is_over && !self.is_stopped_by_peer(now_ns) {
            return self.give_up();
        }
        if self.retry_since_ns == NEVER {
            self.retry_since_ns = now_ns;
        }
        TcpEvents::empty()
    }

    /// Whether the peer closed its window below what was sent, and still answers (Linux: tcp_retransmit_timer).
    fn is_stopped_by_peer(&self, now_ns: u64) -> bool {
        let heard = self.totals.last_ack_received_ns;
        self.state.is_synchronized()
            && self.send.window() == 0
            && now_ns.saturating_sub(heard) <= recovery::RTO_MAX_NS
    }

    /// Handles the persist timer: the next segment is a partial one if the window admits some, else a probe (RFC 9293 section
    /// 3.8.6.1).
    fn expire_probe(&mut self, now_ns: u64) -> TcpEvents {
        self.probe.deadline_ns = NEVER;
        if self.send.edge > self.send.nxt {
            self.send.is_forced = true;
            return TcpEvents::empty();
        }
        let limit =
            if self.is_detached { self.settings.orphan_retries } else { self.settings.retries };
        if self.settings.user_timeout_ns == 0 && self.probe.count >= limit {
            return self.give_up();
        }
        if self.probe.since_ns == NEVER {
            self.probe.since_ns = now_ns;
        }
        self.probe.count += 1;
        self.probe.backoff += 1;
        self.probe.is_due = true;
        TcpEvents::empty()
    }

    /// Arms or disarms the keepalive timer after a change of its options.
    pub(super) fn arm_keepalive(&mut self, now_ns: u64) {
        let is_wanted = self.settings.keepalive && self.state.is_synchronized();
        self.keepalive.deadline_ns = if is_wanted && self.state != TcpState::TimeWait {
            self.keepalive.heard_ns.saturating_add(self.settings.keep_idle_ns).max(now_ns)
        } else {
            NEVER
        };
    }

    /// Handles the keepalive timer (RFC 9293 section 3.8.4; Linux: tcp_keepalive_timer). It is armed late: segments of the peer do
    /// not move it.
    fn expire_keepalive(&mut self, now_ns: u64) -> TcpEvents {
        let settings = &self.settings;
        let is_sending = self.send.end() > self.send.una;
        let silent = now_ns.saturating_sub(self.keepalive.heard_ns);
        if is_sending || silent < settings.keep_idle_ns {
            let rest = settings.keep_idle_ns.saturating_sub(silent);
            let wait = if is_sending { settings.keep_idle_ns } else { rest };
            self.keepalive.deadline_ns = now_ns.saturating_add(wait);
            return TcpEvents::empty();
        }
        let is_over = if settings.user_timeout_ns > 0 {
            silent >= settings.user_timeout_ns && self.keepalive.probes > 0
        } else {
            self.keepalive.probes >= settings.keep_count
        };
        if is_over {
            self.queue_reset();
            return self.give_up();
        }
        self.keepalive.probes += 1;
        self.probe.is_due = true;
        self.keepalive.deadline_ns = now_ns.saturating_add(settings.keep_interval_ns);
        TcpEvents::empty()
    }
}
