//! The options of a socket and the parameters of a stack that a connection obeys, with Linux's defaults.
use crate::clock::{MILLISECOND, SECOND};
use recovery::Algorithm;

/// Parameters of a connection. A change takes effect at the next event; those of the handshake do so at the next connection.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Maximum segment size to advertise, in bytes: the MTU of the interface less the headers of IP and TCP (RFC 6691).
    pub mss: u16,
    /// Greatest segment that the path and TCP_MAXSEG admit, in bytes, TCP options included (RFC 1191).
    pub path_mss: u16,
    /// Greatest size that the receive buffer may grow to, in bytes. It decides the window scale.
    pub buffer_limit: u64,
    /// Use window scaling (RFC 7323; `tcp_window_scaling`).
    pub window_scaling: bool,
    /// Use timestamps (RFC 7323; `tcp_timestamps`).
    pub timestamps: bool,
    /// Use selective acknowledgements (RFC 2018; `tcp_sack`).
    pub sack: bool,
    /// Use of explicit congestion notification.
    pub ecn: Ecn,
    /// TCP_NODELAY: no Nagle's algorithm.
    pub no_delay: bool,
    /// TCP_CORK: no partial segments for up to 200 ms.
    pub cork: bool,
    /// SO_KEEPALIVE.
    pub keepalive: bool,
    /// TCP_KEEPIDLE, in nanoseconds.
    pub keep_idle_ns: u64,
    /// TCP_KEEPINTVL, in nanoseconds.
    pub keep_interval_ns: u64,
    /// TCP_KEEPCNT.
    pub keep_count: u32,
    /// TCP_USER_TIMEOUT in nanoseconds (RFC 5482); 0 for the limits by number of retransmissions.
    pub user_timeout_ns: u64,
    /// TCP_SYNCNT or `tcp_syn_retries`: retransmissions of a SYN.
    pub syn_retries: u32,
    /// `tcp_synack_retries`: retransmissions of a SYN-ACK.
    pub synack_retries: u32,
    /// `tcp_retries2`: the number of retransmissions that gives the time after which a connection dies.
    pub retries: u32,
    /// The same for connections that no program holds any more (`tcp_orphan_retries`).
    pub orphan_retries: u32,
    /// TCP_LINGER2 or `tcp_fin_timeout`: time in FIN-WAIT-2 without a program, in nanoseconds.
    pub fin_timeout_ns: u64,
    /// `tcp_rfc1337`: a reset does not end TIME-WAIT.
    pub protect_time_wait: bool,
    /// SO_MAX_PACING_RATE, in bytes of payload a second; 0 and `u64::MAX` for no limit.
    pub pacing_rate: u64,
    /// The congestion window stays after an idle time (no `tcp_slow_start_after_idle`).
    pub keeps_idle_window: bool,
    /// The congestion control.
    pub algorithm: Algorithm,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            mss: 1460,
            path_mss: 1460,
            buffer_limit: 6 << 20,
            window_scaling: true,
            timestamps: true,
            sack: true,
            ecn: Ecn::Accept,
            no_delay: false,
            cork: false,
            keepalive: false,
            keep_idle_ns: 7200 * SECOND,
            keep_interval_ns: 75 * SECOND,
            keep_count: 9,
            user_timeout_ns: 0,
            syn_retries: 6,
            synack_retries: 5,
            retries: 15,
            orphan_retries: 8,
            fin_timeout_ns: 60 * SECOND,
            protect_time_wait: false,
            pacing_rate: u64::MAX,
            keeps_idle_window: false,
            algorithm: Algorithm::Cubic,
        }
    }
}

/// Use of explicit congestion notification (RFC 3168; `tcp_ecn`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// Never.
    Off,
    /// Request it when connecting, accept it when the peer requests it.
    Request,
    /// Accept it when the peer requests it.
    Accept,
}

/// Least time between two acknowledgements that answer invalid segments, in nanoseconds (`tcp_invalid_ratelimit`).
pub(crate) const INVALID_INTERVAL_NS: u64 = 500 * MILLISECOND;
/// Longest time that TCP_CORK holds a partial segment, in nanoseconds.
pub(crate) const CORK_NS: u64 = 200 * MILLISECOND;
/// TcpSegment size of a peer that sends no option MSS (RFC 9293 section 3.7.1).
pub(crate) const DEFAULT_MSS: u16 = 536;
/// Least segment size that is believed (Linux: TCP_MIN_SND_MSS).
pub(crate) const MIN_MSS: u16 = 48;

/// Returns the time that `retries` retransmissions with doubling timeouts from 200 ms take (Linux: tcp_model_timeout).
pub(crate) fn retry_time_ns(retries: u32) -> u64 {
    /// Doublings until the timeout reaches 120 s.
    const DOUBLINGS: u32 = 9;
    let doubled = retries.min(DOUBLINGS);
    let base = ((2 << doubled) - 1) * recovery::RTO_MIN_NS;
    base + u64::from(retries - doubled) * recovery::RTO_MAX_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifteen_retries_take_924_seconds() {
        assert_eq!(retry_time_ns(15), 924_600 * MILLISECOND);
        assert_eq!(retry_time_ns(8), 102_200 * MILLISECOND);
    }
}
