//! The numbers of TCP_INFO.
use super::{Connection, types::ConnectionInfo};

impl Connection {
    /// Returns the segments that were sent again, of all its life.
    pub fn retransmissions(&self) -> u64 {
        self.sender.total_retransmits()
    }

    /// Returns the payload of full segments in bytes (`tcpi_snd_mss`).
    pub fn send_mss(&self) -> u32 {
        self.send.mss
    }

    /// Returns the congestion window in bytes.
    pub fn congestion_window(&self) -> u64 {
        self.sender.cwnd()
    }

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
            receive_rtt_ns: self.tuning.rtt_ns,
            receive_space: self.tuning.space,
            challenges: totals.challenges,
        }
    }
}
