//! Errors of ICMP that name a segment of the connection (RFC 5927, RFC 1191, RFC 8201).
use super::{
    Connection,
    types::{IcmpError, TcpError, TcpEvents, TcpState},
};

impl IcmpError {
    fn error(self) -> Option<TcpError> {
        match self {
            IcmpError::Port => Some(TcpError::Refused),
            IcmpError::Protocol => Some(TcpError::ProtocolUnreachable),
            IcmpError::Host => Some(TcpError::HostUnreachable),
            IcmpError::Network => Some(TcpError::NetworkUnreachable),
            IcmpError::TooBig(_) => None,
        }
    }
}

impl Connection {
    /// Returns whether the sequence number `seq` was sent and not acknowledged (RFC 5927 section 4.1).
    pub fn is_in_flight(&self, seq: u32) -> bool {
        let distance = self.send.origin.distance(self.send.una, seq);
        self.state != TcpState::Closed
            && distance >= 0
            && distance.unsigned_abs() < self.send.nxt - self.send.una
    }

    /// Takes an ICMP error for a segment with the sequence number `seq`. Ignores one that is not in flight (RFC 5927 section 4.1).
    /// Before the connection is established an error ends it. Later it is only remembered, and told if the connection times out
    /// (RFC 5927 section 5.2).
    pub fn icmp(&mut self, now_ns: u64, error: IcmpError, seq: u32) -> TcpEvents {
        if !self.is_in_flight(seq) {
            return TcpEvents::empty();
        }
        match error {
            IcmpError::TooBig(mss) => self.shrink_path(now_ns, mss),
            _ if matches!(self.state, TcpState::SynSent | TcpState::SynReceived) => {
                return error.error().map_or(TcpEvents::empty(), |error| self.fail(error));
            }
            _ => self.soft_error = error.error(),
        }
        TcpEvents::empty()
    }

    /// Sets the greatest segment of the path if it is smaller than the one in use.
    fn shrink_path(&mut self, now_ns: u64, mss: u16) {
        if mss >= self.send.path_mss.min(self.send.peer_mss) {
            return;
        }
        self.set_path(mss);
        if self.state.is_synchronized() {
            self.sender.set_path_mss(self.send.mss, now_ns);
        }
    }

    /// Sets the greatest segment of the path, in bytes of options and payload, for example after its MTU grew again.
    pub fn set_path_mss(&mut self, mss: u16) {
        self.set_path(mss.min(self.settings.path_mss));
        self.sender.set_mss(self.send.mss);
    }

    fn set_path(&mut self, mss: u16) {
        /// Least path that is believed: an MTU of 552 bytes (Linux: `min_pmtu`).
        const PATH_MIN: u16 = 512;
        self.send.path_mss = mss.max(PATH_MIN.min(self.send.path_mss));
        self.update_mss();
    }
}
