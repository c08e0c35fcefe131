//! The calls of the program: write, read, close, options (RFC 9293 section 3.9.1).
use super::{
    Connection,
    types::{Shutdown, TcpError, TcpEvents, TcpState},
};
use crate::{
    clock::NEVER,
    receive::acknowledge::{Need, QuickAck},
};

impl Connection {
    /// Notes that the program has written up to stream offset `written`. Ignores offsets before the current one, and data after a
    /// close.
    #[inline]
    pub fn write_to(&mut self, written: u64) {
        let is_open = !self.send.is_closed && self.state != TcpState::Closed;
        if is_open && written >= self.send.written && written < u64::MAX >> 1 {
            self.send.written = written + 1;
        }
    }

    /// Notes that the last written byte is urgent (MSG_OOB).
    pub fn mark_urgent_byte(&mut self) {
        if !self.send.is_closed && self.send.written > self.send.una.max(1) {
            self.send.urgent_end = Some(self.send.written);
        }
    }

    /// Notes that the program has read up to stream offset `read`, and that the socket can now take `room` bytes beyond the data
    /// in order. The next [`Connection::output`] tells the peer if the window opened far enough.
    #[inline]
    pub fn read_to(&mut self, read: u64, room: u64) {
        self.note_read(read, room);
        if !self.state.can_receive() || self.state == TcpState::SynReceived {
            return;
        }
        let unread = self.receive.unread();
        let step = self.acks.peer_mss();
        if self.receive.window.is_update_due(self.receive.received, unread, step) {
            self.acks.demand();
        } else if self.acks.need() == Need::Delayed && unread == 0 {
            // Linux (tcp_cleanup_rbuf): a program that took everything will answer, or the peer waits for this.
            let behind = self.receive.received - self.receive.acked;
            if behind > u64::from(step) {
                self.acks.demand();
            }
        }
    }

    /// Notes the same without a thought of telling the peer: a segment that leaves for another reason carries the window.
    #[inline]
    pub fn note_read(&mut self, read: u64, room: u64) {
        let end = self.receive.data_end();
        self.receive.read = self.receive.read.max(read.saturating_add(1)).min(end);
        self.receive.window.set_room(room);
    }

    /// Returns the window that the peer knows, in bytes. A program's reads cannot be worth a segment of their own before the socket
    /// can take twice as many.
    #[inline]
    pub fn known_window(&self) -> u64 {
        self.receive.window.size(self.receive.received)
    }

    /// Returns whether an acknowledgement is due, which the next [`Connection::output`] sends.
    #[inline]
    pub fn is_acknowledgement_due(&self) -> bool {
        self.acks.need() == Need::Now
    }

    /// Closes the sending direction: shutdown(SHUT_WR).
    pub fn shutdown_write(&mut self) -> TcpEvents {
        if self.send.is_closed {
            return TcpEvents::empty();
        }
        match self.state {
            TcpState::Established => self.state = TcpState::FinWait1,
            TcpState::CloseWait => self.state = TcpState::LastAck,
            TcpState::SynSent => return self.finish(),
            TcpState::SynReceived => {}
            _ => return TcpEvents::empty(),
        }
        self.send.is_closed = true;
        TcpEvents::empty()
    }

    /// Closes the socket: close(). Aborts if data waits to be read, because the peer must know that it is lost (RFC 2525 section
    /// 2.17). After an orderly close the connection belongs to no program.
    pub fn close(&mut self, now_ns: u64) -> Shutdown {
        if self.receive.unread() > 0
            && self.state.is_synchronized()
            && self.state != TcpState::TimeWait
        {
            self.abort();
            return Shutdown::Aborted;
        }
        if self.state == TcpState::SynSent {
            self.finish();
        }
        if self.state == TcpState::Closed {
            return Shutdown::Aborted;
        }
        self.shutdown_write();
        self.is_detached = true;
        if self.state == TcpState::FinWait2 {
            self.linger_deadline_ns = now_ns.saturating_add(self.settings.fin_timeout_ns);
        }
        Shutdown::Orderly
    }

    /// Ends the connection by a reset: close() with a linger time of 0.
    pub fn abort(&mut self) {
        let is_known = self.state.is_synchronized() || self.state == TcpState::SynReceived;
        if is_known && self.state != TcpState::TimeWait {
            self.queue_reset();
        }
        self.error = (self.state == TcpState::SynSent).then_some(TcpError::Reset);
        self.finish();
    }

    /// Changes options. A pending partial segment goes out if TCP_NODELAY is set or TCP_CORK is cleared. Returns whether bytes wait
    /// that this lets go.
    pub fn set_settings(&mut self, now_ns: u64, settings: super::settings::Settings) -> bool {
        let is_released =
            settings.no_delay && !self.settings.no_delay || !settings.cork && self.settings.cork;
        self.settings = settings;
        self.sender.set_algorithm(settings.algorithm);
        self.arm_keepalive(now_ns);
        is_released && self.release()
    }

    /// Changes the setting `cork` alone. Returns whether bytes wait that this lets go.
    pub fn set_cork(&mut self, cork: bool) -> bool {
        let was_corked = core::mem::replace(&mut self.settings.cork, cork);
        was_corked && !cork && self.release()
    }

    /// Lets bytes go that a setting held back. Returns whether there are any.
    fn release(&mut self) -> bool {
        let is_released = self.send.written > self.send.nxt;
        if is_released {
            self.send.is_forced = self.send.edge > self.send.nxt;
            self.probe.deadline_ns = NEVER;
        }
        is_released
    }

    /// Sets TCP_QUICKACK.
    pub fn set_quick_ack(&mut self, quick: QuickAck) {
        self.acks.set_quick(quick);
    }

    /// Returns whether TCP_QUICKACK reads as on.
    pub fn is_quick_ack(&self) -> bool {
        self.acks.is_quick()
    }

    /// Counts the segments of a local peer's payload beside the first, which came together.
    pub fn count_more_segments(&mut self, more: u32) {
        self.totals.segments_in += u64::from(more);
        self.totals.data_segments_in += u64::from(more);
    }

    /// Returns whether lost data waits to be sent again, or the cause of a timeout is looked for.
    pub fn is_repairing(&self) -> bool {
        self.sender.is_repairing()
    }

    /// Counts acknowledgements without data that another one stood for.
    pub fn count_more_acks(&mut self, more: u32) {
        self.totals.segments_in += u64::from(more);
    }

    /// Returns the number of bytes that were written and not acknowledged (SIOCOUTQ).
    pub fn unacknowledged(&self) -> u64 {
        self.written() - self.acked()
    }

    /// Returns the number of bytes that were written and never sent (SIOCOUTQNSD).
    pub fn unsent(&self) -> u64 {
        self.written() - self.sent()
    }
}
