//! The values that a connection gives to its caller.
use crate::wire::segment::{FastOpenCookie, TcpSegment};

use bitflags::bitflags;
use core::ops::Range;
use recovery::Statistics;

/// The state of a connection (RFC 9293 section 3.3.2). A listening socket is a [`Listener`](crate::Listener).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TcpState {
    /// No connection.
    Closed,
    /// A SYN was sent.
    SynSent,
    /// A SYN was received and one was sent.
    SynReceived,
    /// Both SYNs are acknowledged.
    Established,
    /// The program closed: a FIN is queued or sent.
    FinWait1,
    /// The FIN is acknowledged.
    FinWait2,
    /// The peer closed.
    CloseWait,
    /// Both closed at the same time.
    Closing,
    /// The program closed after the peer.
    LastAck,
    /// Both FINs are acknowledged; old segments may still arrive.
    TimeWait,
}

impl TcpState {
    /// Returns whether both SYNs were exchanged and the connection is not closed.
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, TcpState::Closed | TcpState::SynSent | TcpState::SynReceived)
    }

    /// Returns whether the peer may still send data.
    pub const fn can_receive(self) -> bool {
        matches!(
            self,
            TcpState::SynReceived | TcpState::Established | TcpState::FinWait1 | TcpState::FinWait2
        )
    }
}

/// The end of a connection by an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpError {
    /// The peer refused the SYN: ECONNREFUSED.
    Refused,
    /// The peer reset the connection: ECONNRESET.
    Reset,
    /// The peer reset a connection that it had closed: EPIPE.
    BrokenPipe,
    /// The peer did not answer: ETIMEDOUT.
    TimedOut,
    /// ICMP reported that the host is unreachable: EHOSTUNREACH.
    HostUnreachable,
    /// ICMP reported that the network is unreachable: ENETUNREACH.
    NetworkUnreachable,
    /// ICMP reported that the protocol is unknown: ENOPROTOOPT.
    ProtocolUnreachable,
}

bitflags! {
    /// The events that a call caused.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct TcpEvents: u16 {
        /// The connection is established.
        const CONNECTED = 1;
        /// The data in order grew.
        const READABLE = 2;
        /// The peer acknowledged bytes, which free space of the send queue.
        const WRITABLE = 4;
        /// The peer's FIN was reached.
        const PEER_CLOSED = 8;
        /// An urgent byte was announced: SIGURG.
        const URGENT = 16;
        /// The connection ended by an error: see [`Connection::error`](crate::Connection::error).
        const FAILED = 32;
        /// The state is CLOSED.
        const CLOSED = 64;
        /// The state is TIME-WAIT: a [`TimeWait`](crate::TimeWait) may take the place of the connection.
        const TIME_WAIT = 128;
    }
}

/// The effect of a segment on the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// The part of the payload that the caller keeps. `None`: it drops the payload.
    pub payload: Option<Placement>,
    /// The events.
    pub events: TcpEvents,
}

/// The place of received payload in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Bytes of the payload before the part to keep.
    pub skip: u32,
    /// Length of the part to keep, in bytes.
    pub length: u32,
    /// Stream offset of its first byte.
    pub offset: u64,
    /// Whether it continues the data in order. If not, it waits until [`Connection::received`](crate::Connection::received)
    /// passes it.
    pub is_in_order: bool,
}

/// A segment to send, or several of the same header for segmentation offload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outgoing {
    /// The header of the first segment; `length` counts the whole payload.
    pub segment: TcpSegment,
    /// The payload, in stream offsets.
    pub payload: Range<u64>,
    /// Greatest payload of one segment on the wire, in bytes.
    pub mss: u32,
    /// Mark the packet as able to carry congestion notification: ECT(0).
    pub is_ecn_capable: bool,
}

/// The use of Fast Open by a connecting socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastOpen {
    /// No Fast Open.
    Off,
    /// Ask the server for a cookie.
    Request,
    /// Send data with the SYN, under this cookie.
    Cookie(FastOpenCookie),
}

/// Effect of closing on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// The state machine goes on until both sides closed.
    Orderly,
    /// The connection is gone; a reset may be due.
    Aborted,
}

/// An error that a router or the peer's host reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpError {
    /// The port is unreachable.
    Port,
    /// The protocol is unreachable.
    Protocol,
    /// The host is unreachable, or unknown.
    Host,
    /// The network is unreachable.
    Network,
    /// The packet is too big; the greatest TCP segment that fits, in bytes of options and payload.
    TooBig(u16),
}

/// The fields of `tcp_info` that the connection knows. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionInfo {
    /// State.
    pub state: TcpState,
    /// The fields of loss recovery.
    pub recovery: Statistics,
    /// Timestamps are in use (TCPI_OPT_TIMESTAMPS).
    pub has_timestamps: bool,
    /// SACK is in use (TCPI_OPT_SACK).
    pub has_sack: bool,
    /// Window scaling is in use (TCPI_OPT_WSCALE).
    pub has_scaling: bool,
    /// ECN is in use (TCPI_OPT_ECN).
    pub has_ecn: bool,
    /// The server took data of the SYN (TCPI_OPT_SYN_DATA).
    pub has_syn_data: bool,
    /// `tcpi_snd_wscale`.
    pub send_scale: u8,
    /// `tcpi_rcv_wscale`.
    pub receive_scale: u8,
    /// `tcpi_probes`: unanswered probes of the window or of keepalive.
    pub probes: u32,
    /// `tcpi_ato`.
    pub acknowledgement_delay_ns: u64,
    /// `tcpi_snd_mss`.
    pub send_mss: u32,
    /// `tcpi_rcv_mss`.
    pub receive_mss: u32,
    /// `tcpi_advmss`.
    pub advertised_mss: u32,
    /// `tcpi_pmtu`, as the greatest segment.
    pub path_mss: u16,
    /// Time since the last data was sent (`tcpi_last_data_sent`).
    pub since_data_sent_ns: u64,
    /// Time since the last data arrived (`tcpi_last_data_recv`).
    pub since_data_received_ns: u64,
    /// Time since the last acknowledgement arrived (`tcpi_last_ack_recv`).
    pub since_ack_received_ns: u64,
    /// `tcpi_bytes_acked`.
    pub bytes_acked: u64,
    /// `tcpi_bytes_received`.
    pub bytes_received: u64,
    /// `tcpi_notsent_bytes`.
    pub unsent: u64,
    /// `tcpi_segs_in`.
    pub segments_in: u64,
    /// `tcpi_segs_out`.
    pub segments_out: u64,
    /// `tcpi_data_segs_in`.
    pub data_segments_in: u64,
    /// `tcpi_data_segs_out`.
    pub data_segments_out: u64,
    /// `tcpi_rcv_ooopack`.
    pub out_of_order: u32,
    /// `tcpi_snd_wnd`.
    pub send_window: u64,
    /// `tcpi_rcv_wnd`.
    pub receive_window: u64,
    /// `tcpi_rcv_rtt`.
    pub receive_rtt_ns: u64,
    /// `tcpi_rcv_space`: the most bytes that the program read in a round trip.
    pub receive_space: u64,
    /// Answers to invalid segments (TCPChallengeACK).
    pub challenges: u32,
}
