//! The table of streams, as users see it.
use super::{
    ends,
    flows::FlowOwner,
    handle::info,
    socket::{SocketRole, SocketState, TcpSocket},
    waiting::Waiting,
};
use crate::service::inet::Inet;
use alloc::{sync::Arc, vec::Vec};
use core::{net::SocketAddr, sync::atomic::Ordering};
use interfaces::sockets::{
    CongestionControl, ConnectionState, SocketFamilies, SocketOwner, SocketRecord, SocketTimer,
    StreamInfo,
};
use labels::SecrecyId;
use tcp::{Flow, HalfOpenView};

const NS_PER_MS: u64 = 1_000_000;

/// Returns listeners with their half-open requests, connections, and connections in TIME-WAIT.
pub(crate) fn all(inet: &Inet) -> Vec<SocketRecord> {
    let now_ns = inet.now_ns();
    let listeners = inet.streams().ports.listeners();
    let mut all = Vec::new();
    for socket in &listeners {
        let Some(record) = of_socket(inet, socket, now_ns) else { continue };
        all.push(record);
        let requests = socket.look(inet, |state| match &state.role {
            SocketRole::Listening(listening) => listening.listener.requests().collect(),
            _ => Vec::new(),
        });
        all.extend(requests.iter().map(|request| half_open(&record, request, now_ns)));
    }
    for (_, owner) in inet.streams().flows.all() {
        match owner {
            FlowOwner::Live(socket) => all.extend(of_socket(inet, &socket, now_ns)),
            FlowOwner::Waiting(waiting) => {
                let deadline_ns = waiting.deadline_ns();
                all.extend(deadline_ns.map(|end| of_waiting(&waiting, end.saturating_sub(now_ns))));
            }
        }
    }
    all
}

/// Returns the segments that the connections which are open have sent again.
pub(crate) fn retransmissions(inet: &Inet) -> u64 {
    let of = |owner: &FlowOwner| match owner {
        FlowOwner::Live(socket) => socket.look(inet, |state| match &state.role {
            SocketRole::Live(live) => live.connection.retransmissions(),
            _ => 0,
        }),
        FlowOwner::Waiting(_) => 0,
    };
    inet.streams().flows.all().iter().map(|(_, owner)| of(owner)).sum()
}

/// Returns the packets that bytes between connections of this host would have been and that are not yet counted as events, and their
/// bytes, of IPv4 and of IPv6.
pub(crate) fn uncounted(inet: &Inet) -> [(u64, u64); 2] {
    let mut all = [(0, 0); 2];
    for (flow, owner) in inet.streams().flows.all() {
        let FlowOwner::Live(socket) = owner else { continue };
        let (segments, octets) = socket.look(inet, |state| match &state.role {
            SocketRole::Live(live) => live.direct_packets(),
            _ => (0, 0),
        });
        let [of_v4, of_v6] = &mut all;
        let of_family = if ends::address(flow.local).is_ipv4() { of_v4 } else { of_v6 };
        *of_family = (of_family.0 + segments, of_family.1 + octets);
    }
    all
}

fn number(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Returns whether a socket takes IPv6 alone, as one that is bound to an address of it does (`__inet6_bind` of Linux).
pub(crate) fn is_version6_only(families: SocketFamilies, local: SocketAddr) -> bool {
    families == SocketFamilies::V6 || local.is_ipv6() && !local.ip().is_unspecified()
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
        not_taken: 0,
        congestion: CongestionControl::default(),
        info: None,
        label: SecrecyId::NONE,
    }
}

fn ends_of(flow: &Flow) -> (SocketAddr, SocketAddr) {
    let local = SocketAddr::new(ends::address(flow.local), flow.local_port);
    (local, SocketAddr::new(ends::address(flow.remote), flow.remote_port))
}

/// Returns the record of a half-open request of a listener.
fn half_open(listener: &SocketRecord, request: &HalfOpenView, now_ns: u64) -> SocketRecord {
    let (local, remote) = ends_of(&request.flow);
    SocketRecord {
        is_version6: listener.is_version6,
        user: listener.user,
        label: listener.label,
        interface: listener.interface,
        timer: SocketTimer::Retransmit,
        timer_ms: number(request.deadline_ns.saturating_sub(now_ns) / NS_PER_MS),
        retransmits: u8::try_from(request.timeouts).unwrap_or(u8::MAX),
        ..bare(local, Some(remote), ConnectionState::SynReceived)
    }
}

fn of_waiting(waiting: &Waiting, left_ns: u64) -> SocketRecord {
    let (local, remote) = ends_of(&waiting.flow);
    SocketRecord {
        is_version6: waiting.families() != SocketFamilies::V4,
        timer: SocketTimer::TimeWait,
        label: waiting.flow.label,
        timer_ms: number(left_ns / NS_PER_MS),
        ..bare(local, Some(remote), ConnectionState::TimeWait)
    }
}

fn of_socket(inet: &Inet, socket: &Arc<TcpSocket>, now_ns: u64) -> Option<SocketRecord> {
    socket.look(inet, |state| {
        let mut record = match &state.role {
            SocketRole::Idle => return None,
            SocketRole::Listening(listening) => SocketRecord {
                receive_queue: number(listening.listener.ready() as u64),
                send_queue: listening.backlog,
                info: Some(info(state, now_ns)),
                ..bare(state.local, None, ConnectionState::Listen)
            },
            SocketRole::Live(_) => of_connection(state, &info(state, now_ns), now_ns),
        };
        record.is_version6 = state.families() != SocketFamilies::V4;
        record.is_version6_only = is_version6_only(state.families(), record.local);
        let owner = match state.owner.inode {
            0 => state.stream.owner(),
            _ => state.owner,
        };
        let owner = if state.is_orphan { SocketOwner::default() } else { owner };
        (record.user, record.inode) = (owner.user, owner.inode);
        record.label = state.owner.label;
        record.drops = socket.dropped.load(Ordering::Relaxed);
        record.interface = state.options.ip.interface.unwrap_or(0);
        record.cookie = socket.number;
        let of_system = inet.streams().parameters.congestion();
        record.congestion = state.options.congestion.unwrap_or(of_system);
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
        not_taken: match &state.role {
            SocketRole::Live(live) => live.not_taken,
            _ => 0,
        },
        info: Some(*info),
        ..bare(state.local, state.peer, info.state)
    }
}
