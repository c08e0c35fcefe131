//! Options of sockets as settings of connections, and the numbers of TCP_INFO.
use super::parameters::StreamParameters;
use core::net::IpAddr;
use interfaces::sockets::{
    CongestionControl, ConnectionState, SocketError, StreamInfo, StreamOptions,
};
use packet::{ipv4, ipv6, tcp::HEADER_LENGTH};
use recovery::{Algorithm, Statistics};
use tcp::{Connection, ConnectionInfo, Settings, TcpError, TcpState};

const NS_PER_S: u64 = 1_000_000_000;
const NS_PER_MS: u64 = 1_000_000;
const NS_PER_US: u64 = 1000;
/// Bytes that TCP_MAXSEG and a path leave at least (Linux: TCP_MIN_MSS).
const SEGMENT_MIN: u16 = 88;
/// The greatest MTU of IP that counts, so that lengths fit 16 bits (Linux: IPV4_MAX_PMTU).
const MTU_MAX: u32 = 65_535;
/// The slow-start threshold before the first loss (Linux: TCP_INFINITE_SSTHRESH).
const NO_THRESHOLD: u32 = 0x7fff_ffff;

/// Returns the greatest segment of a path with the MTU `mtu`, in bytes of options and payload.
pub(crate) fn segment_max(mtu: u32, destination: IpAddr) -> u16 {
    let headers = HEADER_LENGTH
        + match destination {
            IpAddr::V4(_) => ipv4::HEADER_LENGTH,
            IpAddr::V6(_) => ipv6::HEADER_LENGTH,
        };
    mtu.min(MTU_MAX).saturating_sub(headers as u32).max(SEGMENT_MIN.into()) as u16
}

/// Returns a greatest segment that is bounded by TCP_MAXSEG.
pub(crate) fn bounded(segment: u16, options: &StreamOptions) -> u16 {
    options.segment_max.map_or(segment, |most| segment.min(most.max(SEGMENT_MIN)))
}

/// Returns the settings of a connection. `segment_max` is the greatest segment of its path, if that is known. Options that are zero
/// leave the choice to `parameters`.
pub(crate) fn settings(
    options: &StreamOptions,
    segment_max: Option<u16>,
    parameters: &StreamParameters,
) -> Settings {
    let base = parameters.base();
    let segment = bounded(segment_max.unwrap_or(base.mss), options);
    let fin_timeout_s = match options.fin_timeout_s {
        0 => parameters.fin_timeout_s().into(),
        seconds => u64::try_from(seconds).unwrap_or(0),
    };
    let or = |option: u32, system: u32| if option == 0 { system } else { option };
    let keep_idle_s = or(options.keep_idle_s, parameters.keep_idle_s());
    let keep_interval_s = or(options.keep_interval_s, parameters.keep_interval_s());
    Settings {
        mss: segment,
        path_mss: segment,
        no_delay: options.no_delay,
        cork: options.cork,
        keepalive: options.keepalive,
        keep_idle_ns: u64::from(keep_idle_s) * NS_PER_S,
        keep_interval_ns: u64::from(keep_interval_s) * NS_PER_S,
        keep_count: or(options.keep_count, parameters.keep_count()),
        user_timeout_ns: u64::from(options.user_timeout_ms) * NS_PER_MS,
        syn_retries: or(options.syn_retries, parameters.syn_retries()),
        fin_timeout_ns: fin_timeout_s * NS_PER_S,
        pacing_rate: options.pacing_rate,
        algorithm: match options.congestion.unwrap_or(parameters.congestion()) {
            CongestionControl::Cubic => Algorithm::Cubic,
            CongestionControl::Reno => Algorithm::Reno,
        },
        ..base
    }
}

/// Returns the error of a socket for one of a connection.
pub(crate) fn error(error: TcpError) -> SocketError {
    match error {
        TcpError::Refused => SocketError::Refused,
        TcpError::Reset => SocketError::Reset,
        TcpError::BrokenPipe => SocketError::BrokenPipe,
        TcpError::TimedOut => SocketError::TimedOut,
        TcpError::HostUnreachable => SocketError::HostUnreachable,
        TcpError::NetworkUnreachable => SocketError::NetworkUnreachable,
        TcpError::ProtocolUnreachable => SocketError::NoProtocol,
    }
}

fn state(state: TcpState) -> ConnectionState {
    match state {
        TcpState::Closed => ConnectionState::Closed,
        TcpState::SynSent => ConnectionState::SynSent,
        TcpState::SynReceived => ConnectionState::SynReceived,
        TcpState::Established => ConnectionState::Established,
        TcpState::FinWait1 => ConnectionState::FinWait1,
        TcpState::FinWait2 => ConnectionState::FinWait2,
        TcpState::CloseWait => ConnectionState::CloseWait,
        TcpState::Closing => ConnectionState::Closing,
        TcpState::LastAck => ConnectionState::LastAck,
        TcpState::TimeWait => ConnectionState::TimeWait,
    }
}

/// Returns the options in use, as the bits TCPI_OPT_*.
fn option_bits(known: &ConnectionInfo) -> u8 {
    let flag = |is_set: bool, bit: u8| u8::from(is_set) * bit;
    flag(known.has_timestamps, 1)
        | flag(known.has_sack, 2)
        | flag(known.has_scaling, 4)
        | flag(known.has_ecn, 8)
        | flag(known.has_syn_data, 32)
}

/// Returns the rate at which a window leaves in a round trip, in bytes a second, with what Linux adds to it: as much again in slow
/// start, else a fifth (`tcp_update_pacing_rate`).
fn pacing_rate(sender: &Statistics) -> u64 {
    if sender.srtt_ns == 0 {
        return u64::MAX;
    }
    let percent = if sender.cwnd < sender.ssthresh / 2 { 200 } else { 120 };
    let bytes = u128::from(sender.cwnd.max(sender.in_flight)) * percent / 100;
    let rate = bytes * u128::from(NS_PER_S) / u128::from(sender.srtt_ns);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// Returns the number of segments of `mss` bytes that hold `bytes`.
fn segments(bytes: u64, mss: u32) -> u32 {
    u32::try_from(bytes.div_ceil(mss.max(1).into())).unwrap_or(u32::MAX)
}

/// Returns the payload of a segment in bytes, and the congestion window in segments.
pub(crate) fn send_window(connection: &Connection) -> (u32, u32) {
    let mss = connection.send_mss();
    (mss, segments(connection.congestion_window(), mss))
}

/// Returns the numbers of TCP_INFO. `mtu` is that of the path, `rate_max` the bound of pacing.
pub(crate) fn info(known: &ConnectionInfo, mtu: u32, rate_max: u64) -> StreamInfo {
    let sender = &known.recovery;
    let segments = |bytes: u64| segments(bytes, known.send_mss);
    let micros = |ns: u64| u32::try_from(ns / NS_PER_US).unwrap_or(u32::MAX);
    let millis = |ns: u64| u32::try_from(ns / NS_PER_MS).unwrap_or(u32::MAX);
    let number = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    StreamInfo {
        state: state(known.state),
        ca_state: sender.state as u8,
        retransmits: sender.timeouts.min(255) as u8,
        probes: known.probes.min(255) as u8,
        backoff: sender.backoff.min(255) as u8,
        options: option_bits(known),
        snd_wscale: known.send_scale,
        rcv_wscale: known.receive_scale,
        rto: micros(sender.rto_ns),
        ato: micros(known.acknowledgement_delay_ns),
        snd_mss: known.send_mss,
        rcv_mss: known.receive_mss,
        unacked: segments(sender.in_flight),
        sacked: segments(sender.sacked),
        lost: segments(sender.lost),
        retrans: segments(sender.resent),
        last_data_sent_ms: millis(known.since_data_sent_ns),
        last_data_recv_ms: millis(known.since_data_received_ns),
        last_ack_recv_ms: millis(known.since_ack_received_ns),
        pmtu: mtu,
        rcv_ssthresh: number(known.receive_window),
        rtt: micros(sender.srtt_ns),
        rttvar: micros(sender.rttvar_ns),
        snd_ssthresh: if sender.ssthresh == u64::MAX {
            NO_THRESHOLD
        } else {
            segments(sender.ssthresh)
        },
        snd_cwnd: segments(sender.cwnd),
        advmss: known.advertised_mss,
        reordering: sender.reordering,
        rcv_rtt: micros(known.receive_rtt_ns),
        rcv_space: number(known.receive_space),
        total_retrans: number(sender.total_retransmits),
        pacing_rate: pacing_rate(sender).min(rate_max),
        max_pacing_rate: rate_max,
        bytes_acked: known.bytes_acked,
        bytes_received: known.bytes_received,
        segs_out: number(known.segments_out),
        segs_in: number(known.segments_in),
        notsent_bytes: number(known.unsent),
        min_rtt: micros(sender.min_rtt_ns),
        data_segs_in: number(known.data_segments_in),
        data_segs_out: number(known.data_segments_out),
        delivery_rate: sender.delivery_rate,
        bytes_sent: known.bytes_acked + sender.in_flight + sender.total_resent,
        bytes_retrans: sender.total_resent,
        dsack_dups: number(sender.duplicates),
        reord_seen: sender.reorderings,
        rcv_ooopack: known.out_of_order,
        snd_wnd: number(known.send_window),
        rcv_wnd: number(known.receive_window),
    }
}
