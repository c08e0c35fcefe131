//! The state of a connection that survives its stack. A successor makes the connection of it again: it acknowledges at once and
//! sends again from the last acknowledged byte. Held data, the congestion window and round-trip times are lost on purpose: the
//! protocol repairs them.
use super::{
    Connection,
    parts::{Receive, Send, TimestampClock},
    settings::{MIN_MSS, Settings},
    types::TcpState,
};
use crate::{receive::window::ReceiveWindow, wire::sequence::Origin};

/// Greatest distance between two counters of one direction: half of the sequence space.
const DISTANCE_MAX: u64 = 1 << 31;

/// The kept state. Counters are stream offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptConnection {
    /// State. It tells which FINs were sent, received and acknowledged.
    pub state: TcpState,
    /// No program holds the socket.
    pub is_detached: bool,
    /// Initial sequence number of this side.
    pub iss: u32,
    /// Initial sequence number of the peer.
    pub irs: u32,
    /// Bytes that the program has written.
    pub written: u64,
    /// Bytes that were sent.
    pub sent: u64,
    /// Bytes that the peer has acknowledged.
    pub acked: u64,
    /// Bytes that arrived in order.
    pub received: u64,
    /// Bytes that the program has read.
    pub read: u64,
    /// Stream offset up to which the peer may send.
    pub edge: u64,
    /// The peer's window in bytes from `acked`.
    pub window: u64,
    /// Window scale of the peer, `None` without scaling.
    pub send_scale: Option<u8>,
    /// Window scale of this side.
    pub receive_scale: u8,
    /// The peer's MSS.
    pub peer_mss: u16,
    /// The MSS of the path.
    pub path_mss: u16,
    /// SACK is in use.
    pub has_sack: bool,
    /// ECN is in use.
    pub has_ecn: bool,
    /// Offset and last value of the timestamps, if they are in use.
    pub clock: Option<KeptClock>,
}

/// The kept state of timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptClock {
    /// Offset of this side's clock.
    pub offset: u32,
    /// The peer's timestamp to echo.
    pub recent: u32,
}

/// A kept state that contradicts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptError;

impl KeptConnection {
    fn is_valid(&self) -> bool {
        let is_sending_right = self.acked <= self.sent
            && self.sent <= self.written
            && self.written < u64::MAX >> 1
            && self.sent - self.acked < DISTANCE_MAX;
        let is_receiving_right = self.read <= self.received
            && self.received <= self.edge
            && self.edge < u64::MAX >> 1
            && self.edge - self.received < DISTANCE_MAX;
        let is_all_acked = self.acked == self.written;
        let is_state_right = match self.state {
            TcpState::FinWait2 => is_all_acked,
            TcpState::Closed | TcpState::SynSent | TcpState::SynReceived | TcpState::TimeWait => {
                false
            }
            _ => true,
        };
        let scales = [self.send_scale.unwrap_or(0), self.receive_scale];
        is_sending_right
            && is_receiving_right
            && is_state_right
            && self.window <= 1 << 30
            && self.peer_mss >= MIN_MSS
            && scales.iter().all(|scale| *scale <= 14)
    }

    fn sending(&self) -> Send {
        let is_closed = !matches!(self.state, TcpState::Established | TcpState::CloseWait);
        let is_fin_acked = self.state == TcpState::FinWait2;
        // A FIN may have left if all data has: its acknowledgement must be acceptable.
        let is_fin_sent = is_closed && self.sent == self.written;
        let una = 1 + self.acked + u64::from(is_fin_acked);
        Send {
            una,
            nxt: 1 + self.sent + u64::from(is_fin_sent),
            written: 1 + self.written,
            edge: una + self.window,
            max_window: self.window.max(u64::from(self.peer_mss)),
            scale: self.send_scale.unwrap_or(0),
            is_closed,
            has_sack: self.has_sack,
            has_ecn: self.has_ecn,
            peer_mss: self.peer_mss,
            ..Send::new(Origin(self.iss), self.path_mss)
        }
    }

    fn receiving(&self, settings: &Settings) -> Receive {
        let is_finished =
            matches!(self.state, TcpState::CloseWait | TcpState::Closing | TcpState::LastAck);
        let end = 1 + self.received;
        let received = end + u64::from(is_finished);
        Receive {
            origin: Origin(self.irs),
            received,
            acked: received,
            read: 1 + self.read,
            fin: is_finished.then_some(end),
            window: ReceiveWindow::new((1 + self.edge).max(received), self.receive_scale),
            is_scaled: self.send_scale.is_some(),
            ..Receive::new(settings)
        }
    }
}

impl Connection {
    /// Returns the state to keep, `None` while the handshake runs and after the end.
    pub fn kept(&self) -> Option<KeptConnection> {
        if !self.state.is_synchronized() || self.state == TcpState::TimeWait {
            return None;
        }
        Some(KeptConnection {
            state: self.state,
            is_detached: self.is_detached,
            iss: self.send.origin.0,
            irs: self.receive.origin.0,
            written: self.written(),
            sent: self.sent(),
            acked: self.acked(),
            received: self.received(),
            read: self.read(),
            edge: self.window_edge().max(self.received()),
            window: self.send.window(),
            send_scale: self.receive.is_scaled.then_some(self.send.scale),
            receive_scale: self.receive.window.scale(),
            peer_mss: self.send.peer_mss,
            path_mss: self.send.path_mss,
            has_sack: self.send.has_sack,
            has_ecn: self.send.has_ecn,
            clock: self
                .clock
                .is_enabled
                .then_some(KeptClock { offset: self.clock.offset, recent: self.clock.recent }),
        })
    }

    /// Makes a connection again. The next [`Connection::output`] gives an acknowledgement and what was sent and not acknowledged.
    ///
    /// # Errors
    /// [`KeptError`] if the counters contradict each other or the state.
    pub fn rebuild(
        now_ns: u64,
        kept: &KeptConnection,
        settings: Settings,
        room: u64,
    ) -> Result<Connection, KeptError> {
        if !kept.is_valid() {
            return Err(KeptError);
        }
        let mut connection = *Connection::boxed(&settings, kept.iss, 0);
        connection.state = kept.state;
        connection.is_detached = kept.is_detached;
        connection.send = kept.sending();
        connection.receive = kept.receiving(&settings);
        connection.receive.window.set_room(room);
        if let Some(clock) = kept.clock {
            let (offset, recent) = (clock.offset, clock.recent);
            connection.clock =
                TimestampClock { is_enabled: true, offset, recent, recent_ns: now_ns };
        }
        connection.update_mss();
        connection.start(now_ns);
        connection.sender.resume(connection.send.una..connection.send.nxt, now_ns);
        connection.acks.demand();
        if kept.is_detached && kept.state == TcpState::FinWait2 {
            connection.linger_deadline_ns = now_ns.saturating_add(settings.fin_timeout_ns);
        }
        Ok(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> KeptConnection {
        KeptConnection {
            state: TcpState::Established,
            is_detached: false,
            iss: 1,
            irs: 2,
            written: 300,
            sent: 200,
            acked: 100,
            received: 50,
            read: 40,
            edge: 1000,
            window: 500,
            send_scale: Some(2),
            receive_scale: 3,
            peer_mss: 1000,
            path_mss: 1460,
            has_sack: true,
            has_ecn: false,
            clock: None,
        }
    }

    fn rebuild(kept: &KeptConnection) -> Result<Connection, KeptError> {
        Connection::rebuild(0, kept, Settings::default(), 10_000)
    }

    #[test]
    fn a_rebuilt_connection_keeps_what_was_kept() {
        assert_eq!(rebuild(&kept()).unwrap().kept(), Some(kept()));
    }

    #[test]
    fn states_that_contradict_themselves_are_refused() {
        let wrong = [
            KeptConnection { acked: 201, ..kept() },
            KeptConnection { sent: 301, ..kept() },
            KeptConnection { read: 51, ..kept() },
            KeptConnection { edge: 49, ..kept() },
            KeptConnection { edge: 50 + (1 << 31), ..kept() },
            KeptConnection { written: u64::MAX, ..kept() },
            KeptConnection { window: u64::MAX, ..kept() },
            KeptConnection { peer_mss: 0, ..kept() },
            KeptConnection { receive_scale: 15, ..kept() },
            KeptConnection { state: TcpState::FinWait2, ..kept() },
            KeptConnection { state: TcpState::TimeWait, ..kept() },
            KeptConnection { state: TcpState::SynSent, ..kept() },
        ];
        for one in wrong {
            assert!(rebuild(&one).is_err(), "{one:?}");
        }
    }

    #[test]
    fn a_connection_is_small() {
        // Ten thousand idle connections take less than 16 MiB.
        assert!(size_of::<Connection>() <= 1600, "{} bytes", size_of::<Connection>());
    }
}
