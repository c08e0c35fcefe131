//! The table of streams, as users see it.
use super::{
    ends,
    flows::FlowOwner,
    handle::info,
    socket::{SocketRole, SocketState, TcpSocket},
};
use crate::service::inet::Inet;
use alloc::vec::Vec;
use core::net::SocketAddr;
use interfaces::sockets::{
    CongestionControl, ConnectionState, SocketFamilies, SocketRecord, SocketTimer, StreamInfo,
};
use tcp::Flow;

const NS_PER_MS: u64 = 1_000_000;

/// Returns listeners, connections, and connections in TIME-WAIT. Half-open requests are not among them.
pub(crate) fn all(inet: &Inet) -> Vec<SocketRecord> {
    let now_ns = inet.now_ns();
    let listeners = inet.streams().ports.listeners();
    let mut all: Vec<SocketRecord> =
        listeners.iter().filter_map(|socket| of_socket(socket, now_ns)).collect();
    for (flow, owner) in inet.streams().flows.all() {
        match owner {
            FlowOwner::Live(socket) => all.extend(of_socket(&socket, now_ns)),
            FlowOwner::Waiting(waiting) => {
                let deadline_ns = waiting.deadline_ns();
                all.extend(deadline_ns.map(|end| of_waiting(&flow, end.saturating_sub(now_ns))));
            }
        }
    }
    all
}

fn number(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Returns the record of a socket whose queues and timer are empty.
pub(crate) fn bare(
    local: SocketAddr,
    peer: Option<SocketAddr>,
    state: ConnectionState,
) -> SocketRecord {
    SocketRecord {
        is_version6: local.is_ipv6(),
        is_version6_only: false,
        local,
        peer,
        state,
        receive_queue: 0,
        send_queue: 0,
        timer: SocketTimer::Off,
        timer_ms: 0,
        retransmits: 0,
        probes: 0,
        user: 0,
        inode: 0,
        interface: 0,
        cookie: 0,
        drops: 0,
        congestion: CongestionControl::default(),
        info: None,
    }
}

fn of_waiting(flow: &Flow, left_ns: u64) -> SocketRecord {
    let local = SocketAddr::new(ends::address(flow.local), flow.local_port);
    let remote = SocketAddr::new(ends::address(flow.remote), flow.remote_port);
    SocketRecord {
        timer: SocketTimer::TimeWait,
        timer_ms: number(left_ns / NS_PER_MS),
        ..bare(local, Some(remote), ConnectionState::TimeWait)
    }
}

fn of_socket(socket: &TcpSocket, now_ns: u64) -> Option<SocketRecord> {
    socket.look(|state| {
        let mut record = match &state.role {
            SocketRole::Idle => return None,
            SocketRole::Listening(listening) => SocketRecord {
                receive_queue: number(listening.listener.ready() as u64),
                send_queue: listening.backlog,
                ..bare(state.local, None, ConnectionState::Listen)
            },
            SocketRole::Live(_) => of_connection(state, &info(state, now_ns), now_ns),
        };
        record.is_version6 = state.families != SocketFamilies::V4;
        record.is_version6_only = state.families == SocketFamilies::V6;
        record.user = state.owner.user;
        record.inode = if state.is_orphan { 0 } else { state.owner.inode };
        record.interface = state.options.ip.interface.unwrap_or(0);
        record.cookie = socket.number;
        record.congestion = state.options.congestion;
        Some(record)
    })
}

fn of_connection(state: &SocketState, info: &StreamInfo, now_ns: u64) -> SocketRecord {
    let counters = state.stream.counters();
    let (timer, left_ns) = match state.armed_ns {
        u64::MAX => (SocketTimer::Off, 0),
        at => {
            let kind = match info {
                StreamInfo { unacked: 1.., .. } => SocketTimer::Retransmit,
                StreamInfo { probes: 1.., .. } => SocketTimer::Probe,
                StreamInfo { state: ConnectionState::SynSent, .. } => SocketTimer::Retransmit,
                _ if state.options.keepalive => SocketTimer::Keepalive,
                _ => SocketTimer::Off,
            };
            (kind, at.saturating_sub(now_ns))
        }
    };
    SocketRecord {
        receive_queue: number(counters.received.saturating_sub(counters.read)),
        send_queue: number(counters.written.saturating_sub(counters.acked)),
        timer,
        timer_ms: if timer == SocketTimer::Off { 0 } else { number(left_ns / NS_PER_MS) },
        retransmits: info.retransmits,
        probes: info.probes,
        info: Some(*info),
        ..bare(state.local, state.peer, info.state)
    }
}
