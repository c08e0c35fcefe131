//! The values that a connection passes to its [`Sender`](crate::Sender) and gets from it.
use core::ops::Range;

use crate::congestion::Algorithm;

/// The resolution of [`Ack::echo_ns`], in nanoseconds: the tick of a connection's timestamps (RFC 7323).
pub const TIMESTAMP_TICK_NS: u64 = 1_000_000;

/// The smallest variance term of a retransmission timeout, in nanoseconds. Linux's, below RFC 6298's minimum of 1 s.
pub const RTO_MIN_NS: u64 = 200_000_000;

/// The largest retransmission timeout, in nanoseconds.
pub const RTO_MAX_NS: u64 = 120_000_000_000;

/// The retransmission timeout before the first measurement, in nanoseconds (RFC 6298, section 2.1).
pub const RTO_INITIAL_NS: u64 = 1_000_000_000;

/// The parameters of a new [`Sender`](crate::Sender).
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The first offset that will be sent: 0, the SYN.
    pub start: u64,
    /// The largest payload of a segment, in bytes, as far as known before the peer's SYN.
    pub mss: u32,
    /// The congestion control of `TCP_CONGESTION`.
    pub algorithm: Algorithm,
    /// The treatment of a window that was not used for a timeout.
    pub idle: IdleRestart,
}

/// The treatment of the congestion window after an idle time (`tcp_slow_start_after_idle`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleRestart {
    /// The window halves for each timeout without sending, down to the initial window (RFC 2861).
    Decay,
    /// The window stays.
    Keep,
}

/// The options that both SYNs agreed on.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The largest payload of a segment, in bytes, without TCP options.
    pub mss: u32,
    /// Both sides sent SACK-permitted (RFC 2018).
    pub has_sack: bool,
}

/// An acknowledgement from the peer. The caller has checked that the segment is acceptable (RFC 9293, RFC 5961).
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// The acknowledgement number, as an offset.
    pub number: u64,
    /// The SACK blocks in the order of the segment. Any block, even an absurd one, is allowed.
    pub sacks: &'a [Range<u64>],
    /// The time that the echoed timestamp stands for: the tick of TSecr times [`TIMESTAMP_TICK_NS`](crate::TIMESTAMP_TICK_NS).
    /// The tick of time `t` is `t / TIMESTAMP_TICK_NS`.
    pub echo_ns: Option<u64>,
    /// The segment has no data, no SYN and no FIN, and leaves the advertised window as it was. Only such a segment counts as a
    /// duplicate (RFC 5681, section 2).
    pub is_plain: bool,
    /// The segment has the flag ECE, and the connection negotiated ECN (RFC 3168).
    pub has_ece: bool,
}

/// The effect of an acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The place of the acknowledgement number.
    pub verdict: Verdict,
    /// The bytes of sequence space that it newly acknowledges.
    pub acked: u64,
    /// The bytes that its SACK blocks newly report.
    pub sacked: u64,
    /// The bytes that this acknowledgement let the sender give up as lost.
    pub lost: u64,
    /// The measured round-trip time, in nanoseconds.
    pub rtt_ns: Option<u64>,
    /// A retransmission proved needless. The congestion window is restored.
    pub is_undone: bool,
}

/// The place of an acknowledgement number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// Below the oldest unacknowledged byte.
    #[default]
    Old,
    /// The oldest unacknowledged byte, again.
    Duplicate,
    /// In the flight: it acknowledges bytes.
    Advance,
    /// Above all that was sent. The sender changed nothing.
    Unsent,
}

/// The answer of [`Sender::transmit`](crate::Sender::transmit).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transmit {
    /// Send this range again, in as many segments as it takes, from its start.
    Again(Range<u64>),
    /// Send up to this number of bytes that were never sent.
    New(u64),
    /// Send nothing before the next acknowledgement or deadline.
    Wait,
}

/// The answer of [`Sender::expired`](crate::Sender::expired).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The deadline is not there, or it only delayed the detection of losses. Ask [`Sender::transmit`](crate::Sender::transmit).
    Ask,
    /// A retransmission timeout. [`Sender::timeouts`](crate::Sender::timeouts) counts it. If the connection does not give up, ask
    /// [`Sender::transmit`](crate::Sender::transmit).
    Timeout,
    /// A tail-loss probe (RFC 8985, section 7): send one segment of new data. Send this range again if no new data is there, or no
    /// room in the peer's window. The congestion window does not matter.
    Probe(Range<u64>),
}

/// The state of congestion control (`tcpi_ca_state`, with Linux's numbers).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CongestionState {
    /// Nothing unusual.
    #[default]
    Open = 0,
    /// Duplicate acknowledgements or SACK blocks arrived, and no loss is known.
    Disorder = 1,
    /// The window shrinks because of ECN or of a probe that repaired a loss.
    Reduced = 2,
    /// Fast recovery.
    Recovery = 3,
    /// Recovery after a timeout.
    Loss = 4,
}

/// The numbers of `tcp_info` that the sender knows. Times are in nanoseconds, the rest in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The state of congestion control.
    pub state: CongestionState,
    /// The smoothed round-trip time, 0 before the first measurement.
    pub srtt_ns: u64,
    /// The mean deviation of the round-trip time.
    pub rttvar_ns: u64,
    /// The smallest round-trip time of the last five minutes, 0 before the first measurement.
    pub min_rtt_ns: u64,
    /// The retransmission timeout with its backoff.
    pub rto_ns: u64,
    /// The congestion window.
    pub cwnd: u64,
    /// The slow-start threshold, `u64::MAX` before the first loss.
    pub ssthresh: u64,
    /// The largest payload of a segment.
    pub mss: u64,
    /// Sent and not acknowledged (`tcpi_unacked`).
    pub in_flight: u64,
    /// Of these, reported by SACK blocks (`tcpi_sacked`).
    pub sacked: u64,
    /// Of these, given up as lost, sent again or not (`tcpi_lost`).
    pub lost: u64,
    /// Of these, sent again and in flight (`tcpi_retrans`).
    pub resent: u64,
    /// Sent again since the connection began (`tcpi_bytes_retrans`).
    pub total_resent: u64,
    /// Segments sent again since the connection began (`tcpi_total_retrans`).
    pub total_retransmits: u64,
    /// Delivered to the peer, in order or not (`tcpi_delivered`).
    pub delivered: u64,
    /// Reported as received twice (`tcpi_dsack_dups`).
    pub duplicates: u64,
    /// The tolerated reordering, in segments (`tcpi_reordering`).
    pub reordering: u32,
    /// Reordering events since the connection began (`tcpi_reord_seen`).
    pub reorderings: u32,
    /// The last delivery rate, in bytes a second, 0 before the first sample (`tcpi_delivery_rate`).
    pub delivery_rate: u64,
    /// The application, not the window, limited that rate (`tcpi_delivery_rate_app_limited`).
    pub is_rate_app_limited: bool,
    /// Consecutive timeouts (`tcpi_retransmits`).
    pub timeouts: u32,
    /// The exponent of the timeout's backoff (`tcpi_backoff`).
    pub backoff: u32,
}

/// Returns the offset nearest to `near` whose low half is `relative`: a sequence number minus the initial one, wrapping. Returns 0
/// if that offset is negative.
pub fn offset(near: u64, relative: u32) -> u64 {
    let distance = relative.wrapping_sub(near as u32) as i32;
    near.saturating_add_signed(i64::from(distance))
}
