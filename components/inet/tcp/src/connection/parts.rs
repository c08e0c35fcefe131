//! The parts of a connection's state.
use super::settings::{DEFAULT_MSS, Settings};
use crate::{
    clock::NEVER,
    receive::{
        assembler::Assembler,
        window::{ReceiveWindow, scale_for},
    },
    wire::{segment::FastOpenCookie, sequence::Origin},
};

/// The sending direction, in positions.
#[derive(Clone, Debug)]
pub(crate) struct Send {
    pub(crate) origin: Origin,
    /// The oldest position that is not acknowledged.
    pub(crate) una: u64,
    /// The next position to send.
    pub(crate) nxt: u64,
    /// The end of the data that the program has written.
    pub(crate) written: u64,
    /// The position up to which the peer admits data.
    pub(crate) edge: u64,
    /// The window field of the last segment that set `edge`.
    pub(crate) window_field: u16,
    /// Shift of the peer's window field.
    pub(crate) scale: u8,
    /// Whether the program closed this direction: a FIN stands behind the data.
    pub(crate) is_closed: bool,
    /// Whether both sides negotiated SACK.
    pub(crate) has_sack: bool,
    /// Whether both sides negotiated ECN.
    pub(crate) has_ecn: bool,
    /// Whether a partial segment goes out in spite of Nagle's algorithm or the window.
    pub(crate) is_forced: bool,
    /// The greatest payload of a segment with timestamps, if they are in use, and without other options.
    pub(crate) mss: u32,
    /// The peer's option MSS.
    pub(crate) peer_mss: u16,
    /// The greatest segment that the path admits.
    pub(crate) path_mss: u16,
    /// Position of the last segment that updated the window.
    pub(crate) window_seq: u64,
    /// The largest window that the peer offered.
    pub(crate) max_window: u64,
    /// End of the last partial segment (Minshall's variant of Nagle's algorithm).
    pub(crate) small_end: u64,
    /// End of the last segment with PSH.
    pub(crate) pushed: u64,
    /// Position behind the urgent byte.
    pub(crate) urgent_end: Option<u64>,
    /// The Fast Open cookie for the SYN.
    pub(crate) cookie: Option<FastOpenCookie>,
    /// The Fast Open cookie in the peer's SYN-ACK.
    pub(crate) given_cookie: Option<FastOpenCookie>,
    /// Bytes of data in the SYN.
    pub(crate) syn_data: u64,
    /// Whether the peer acknowledged data of the SYN.
    pub(crate) is_syn_data_acked: bool,
    /// Whether data may leave before the SYN-ACK is acknowledged (RFC 7413).
    pub(crate) is_early: bool,
    /// Time of the first SYN.
    pub(crate) syn_ns: u64,
}

impl Send {
    #[inline]
    pub(crate) fn new(origin: Origin, path_mss: u16) -> Send {
        Send {
            origin,
            una: 0,
            nxt: 0,
            written: 1,
            edge: 0,
            window_field: 0,
            scale: 0,
            is_closed: false,
            has_sack: false,
            has_ecn: false,
            is_forced: false,
            mss: u32::from(path_mss.min(DEFAULT_MSS)),
            peer_mss: DEFAULT_MSS,
            path_mss,
            window_seq: 0,
            max_window: 0,
            small_end: 0,
            pushed: 1,
            urgent_end: None,
            cookie: None,
            given_cookie: None,
            syn_data: 0,
            is_syn_data_acked: false,
            is_early: false,
            syn_ns: NEVER,
        }
    }

    /// The end of everything that is to be sent: the data, and the FIN.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.written + u64::from(self.is_closed)
    }

    /// The peer's window, in bytes from `una`.
    #[inline]
    pub(crate) fn window(&self) -> u64 {
        self.edge.saturating_sub(self.una)
    }

    /// Whether the peer has acknowledged the FIN.
    pub(crate) fn is_fin_acked(&self) -> bool {
        self.is_closed && self.una > self.written
    }

    /// Whether an urgent byte is not acknowledged yet.
    #[inline]
    pub(crate) fn is_urgent(&self) -> bool {
        self.urgent_end.is_some_and(|end| end > self.una)
    }
}

/// The receiving direction, in positions.
#[derive(Clone, Debug)]
pub(crate) struct Receive {
    pub(crate) origin: Origin,
    /// The next position that is expected, past the FIN if it was reached.
    pub(crate) received: u64,
    /// `received` of the last acknowledgement that was sent.
    pub(crate) acked: u64,
    /// The end of the data that the program has read.
    pub(crate) read: u64,
    pub(crate) window: ReceiveWindow,
    pub(crate) held: Assembler,
    /// Position of the peer's FIN, if known.
    pub(crate) fin: Option<u64>,
    /// Position of the urgent byte.
    pub(crate) urgent: Option<u64>,
    /// Whether congestion marks are echoed until the peer confirms (RFC 3168).
    pub(crate) is_echoing: bool,
    /// Whether both sides negotiated window scaling.
    pub(crate) is_scaled: bool,
    /// The segment size that this side advertised.
    pub(crate) mss: u32,
}

impl Receive {
    #[inline]
    pub(crate) fn new(settings: &Settings) -> Receive {
        let scale = if settings.window_scaling { scale_for(settings.buffer_limit) } else { 0 };
        Receive {
            origin: Origin(0),
            received: 0,
            acked: 0,
            read: 1,
            window: ReceiveWindow::new(0, scale),
            held: Assembler::default(),
            fin: None,
            urgent: None,
            is_echoing: false,
            is_scaled: false,
            mss: u32::from(settings.mss),
        }
    }

    /// Whether the FIN was reached.
    #[inline]
    pub(crate) fn is_finished(&self) -> bool {
        self.fin.is_some_and(|fin| self.received > fin)
    }

    /// The end of the data in order.
    #[inline]
    pub(crate) fn data_end(&self) -> u64 {
        self.received.saturating_sub(u64::from(self.is_finished())).max(1)
    }

    /// Bytes in order that the program has not read.
    #[inline]
    pub(crate) fn unread(&self) -> u64 {
        self.data_end().saturating_sub(self.read)
    }
}

/// Timestamps (RFC 7323).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimestampClock {
    pub(crate) is_enabled: bool,
    /// Offset of this side's clock.
    pub(crate) offset: u32,
    /// The peer's timestamp to echo (TS.Recent).
    pub(crate) recent: u32,
    /// Time at which `recent` was set.
    pub(crate) recent_ns: u64,
}

/// The persist timer: probes of a closed window, and the limit of TCP_CORK.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    pub(crate) deadline_ns: u64,
    /// Probes since the peer answered last.
    pub(crate) count: u32,
    /// The exponent of the interval.
    pub(crate) backoff: u32,
    /// Time of the first probe since the window opened last.
    pub(crate) since_ns: u64,
    pub(crate) is_due: bool,
}

impl Default for Probe {
    #[inline]
    fn default() -> Probe {
        Probe { deadline_ns: NEVER, count: 0, backoff: 0, since_ns: NEVER, is_due: false }
    }
}

/// The keepalive timer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keepalive {
    pub(crate) deadline_ns: u64,
    pub(crate) probes: u32,
    /// Time of the last segment of the peer.
    pub(crate) heard_ns: u64,
}

impl Default for Keepalive {
    #[inline]
    fn default() -> Keepalive {
        Keepalive { deadline_ns: NEVER, probes: 0, heard_ns: 0 }
    }
}

/// A reset that is to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reset {
    pub(crate) seq: u32,
    pub(crate) ack: Option<u32>,
}

/// Counters of `tcp_info`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) segments_in: u64,
    pub(crate) segments_out: u64,
    pub(crate) data_segments_in: u64,
    pub(crate) data_segments_out: u64,
    pub(crate) out_of_order: u32,
    pub(crate) challenges: u32,
    pub(crate) last_data_sent_ns: u64,
    pub(crate) last_data_received_ns: u64,
    pub(crate) last_ack_received_ns: u64,
}
