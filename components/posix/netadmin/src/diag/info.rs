//! `struct tcp_info` (tcp(7)).
use alloc::vec::Vec;
use interfaces::sockets::StreamInfo;

fn words(bytes: &mut Vec<u8>, values: &[u32]) {
    values.iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
}

fn doubles(bytes: &mut Vec<u8>, values: &[u64]) {
    values.iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
}

/// Returns `struct tcp_info` of Linux 6.1.
pub fn tcp_info(info: &StreamInfo) -> Vec<u8> {
    let scales = info.snd_wscale & 0xf | info.rcv_wscale << 4;
    let mut bytes = Vec::with_capacity(232);
    bytes.extend_from_slice(&[
        info.state as u8,
        info.ca_state,
        info.retransmits,
        info.probes,
        info.backoff,
        info.options,
        scales,
        0,
    ]);
    let first = [
        info.rto,
        info.ato,
        info.snd_mss,
        info.rcv_mss,
        info.unacked,
        info.sacked,
        info.lost,
        info.retrans,
        0,
        info.last_data_sent_ms,
        0,
        info.last_data_recv_ms,
        info.last_ack_recv_ms,
        info.pmtu,
        info.rcv_ssthresh,
        info.rtt,
        info.rttvar,
        info.snd_ssthresh,
        info.snd_cwnd,
        info.advmss,
        info.reordering,
        info.rcv_rtt,
        info.rcv_space,
        info.total_retrans,
    ];
    words(&mut bytes, &first);
    let rates = [info.pacing_rate, info.max_pacing_rate, info.bytes_acked, info.bytes_received];
    doubles(&mut bytes, &rates);
    let segments = [
        info.segs_out,
        info.segs_in,
        info.notsent_bytes,
        info.min_rtt,
        info.data_segs_in,
        info.data_segs_out,
    ];
    words(&mut bytes, &segments);
    // Times of being busy or held back, and the counts of delivered segments, are not measured.
    doubles(&mut bytes, &[info.delivery_rate, 0, 0, 0]);
    words(&mut bytes, &[0, 0]);
    doubles(&mut bytes, &[info.bytes_sent, info.bytes_retrans]);
    words(&mut bytes, &[info.dsack_dups, info.reord_seen, info.rcv_ooopack, info.snd_wnd]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use interfaces::sockets::ConnectionState;

    #[test]
    fn the_fields_of_tcp_info_have_their_places() {
        let info = StreamInfo {
            state: ConnectionState::Established,
            rto: 1,
            pmtu: 2,
            total_retrans: 3,
            pacing_rate: 4,
            segs_out: 5,
            delivery_rate: 6,
            bytes_sent: 7,
            snd_wnd: 8,
            ..StreamInfo::default()
        };
        let bytes = tcp_info(&info);
        assert_eq!(bytes.len(), 232);
        // Offsets of `struct tcp_info` in `linux/tcp.h`.
        for (at, value) in
            [(0, 1), (8, 1), (60, 2), (100, 3), (104, 4), (136, 5), (160, 6), (200, 7), (228, 8)]
        {
            assert_eq!(bytes[at], value, "{at}");
        }
    }
}
