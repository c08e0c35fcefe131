//! The numbers of TCP_INFO.
use super::{Connection, types::TcpState};
use recovery::Statistics;

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
    /// Answers to invalid segments (TCPChallengeACK).
    pub challenges: u32,
}

impl Connection {
    /// Returns the numbers of the connection at this time.
    pub fn info(&self, now_ns: u64) -> ConnectionInfo {
        let totals = &self.totals;
        ConnectionInfo {
            state: self.state,
            recovery: self.sender.statistics(),
            has_timestamps: self.clock.is_enabled,
            has_sack: self.send.has_sack,
            has_scaling: self.receive.is_scaled,
            has_ecn: self.send.has_ecn,
            has_syn_data: self.send.is_syn_data_acked,
            send_scale: self.send.scale,
            receive_scale: self.receive.window.scale(),
            probes: self.probe.count.max(self.keepalive.probes),
            acknowledgement_delay_ns: self.acks.delay(),
            send_mss: self.send.mss,
            receive_mss: self.acks.peer_mss(),
            advertised_mss: u32::from(self.settings.mss),
            path_mss: self.send.path_mss,
            since_data_sent_ns: now_ns.saturating_sub(totals.last_data_sent_ns),
            since_data_received_ns: now_ns.saturating_sub(totals.last_data_received_ns),
            since_ack_received_ns: now_ns.saturating_sub(totals.last_ack_received_ns),
            bytes_acked: self.acked(),
            bytes_received: self.received(),
            unsent: self.unsent(),
            segments_in: totals.segments_in,
            segments_out: totals.segments_out,
            data_segments_in: totals.data_segments_in,
            data_segments_out: totals.data_segments_out,
            out_of_order: totals.out_of_order,
            send_window: self.send.window(),
            receive_window: self.receive.window.size(self.receive.received),
            challenges: totals.challenges,
        }
    }
}
