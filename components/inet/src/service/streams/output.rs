//! Output of TCP: segments of a connection to packets, or straight to a connection of this host.
use super::{
    arrival::{SynSaving, TcpArrival},
    captured,
    ends::{address, reversed},
    flows::{FlowOwner, Flows},
    header::{self, HEADER_MAX},
    path::StreamPath,
    socket::{LiveConnection, SocketState, TcpSocket},
};
use crate::{
    base::{
        address::{AddressScope, Family},
        buffer::BufferChain,
        packets::{Departure, TransportOffload},
    },
    ip::{
        events::{EventRow, PacketEvent},
        options::{check_strict, route_by, written},
        path::{SendError, SendRequest},
        stack::Cast,
    },
    service::{
        inet::Inet,
        passage::{Passage, PendingPacket},
    },
    tables::{
        interface::{InterfaceIndex, LinkOffloads},
        rules::SenderTraits,
    },
};
use alloc::{boxed::Box, sync::Arc};
use core::net::{IpAddr, SocketAddr};
use interfaces::{
    nic::PacketSegment,
    sockets::{IpOptions, PathDiscovery, Stream, StreamOptions},
};
use packet::{
    Sum, ipv4, ipv6, protocol,
    tcp::{CHECKSUM_OFFSET, HEADER_LENGTH},
};
use tcp::{Flow, Outgoing, TcpFlags, TcpSegment};

/// Payload that a connection gives at a time, where the link cuts it.
const CUT_LATER: u32 = 65_000;
/// Payload that a connection gives at a time, where it is cut here.
const CUT_HERE: u32 = 16_384;
/// Payload that a connection gives at a time to one of this host.
const LOCAL: u32 = 65_536;
/// Parts of frames of a packet for a link of which only the device cuts, at most.
const PIECES_MAX: usize = 20;
/// ECT(0) in the header of IP (RFC 3168).
const ECN_CAPABLE: u8 = 2;

/// Returns the request for segments of a user's socket from `source`, if it is chosen, and `port` to `peer`.
pub(crate) fn request_for(
    (options, user): (&StreamOptions, u32),
    (source, port): (Option<IpAddr>, u16),
    peer: SocketAddr,
) -> SendRequest {
    let ip = &options.ip;
    let (hop_limit, traffic_class, discovery) = match peer {
        SocketAddr::V4(_) => (ip.ttl, ip.type_of_service, ip.discovery),
        SocketAddr::V6(_) => (ip.hops, ip.traffic_class, ip.discovery6),
    };
    let scope = match peer {
        SocketAddr::V6(peer) if AddressScope::of((*peer.ip()).into()) == AddressScope::Link => {
            Some(peer.scope_id()).filter(|scope| *scope != 0)
        }
        _ => None,
    };
    SendRequest {
        source: source.filter(|one| Family::of(*one) == Family::of(peer.ip())),
        interface: ip.interface.or(scope).map(InterfaceIndex),
        hop_limit,
        traffic_class: traffic_class & !3,
        // A stream learns the path's MTU by itself.
        discovery: match discovery {
            PathDiscovery::Probe => PathDiscovery::Required,
            PathDiscovery::Interface => PathDiscovery::Never,
            other => other,
        },
        sender: SenderTraits { mark: ip.mark, user, ports: (port, peer.port()) },
        ..SendRequest::new(peer.ip(), protocol::TCP)
    }
}

/// Returns the path for `request` of a socket with those options.
///
/// # Errors
/// Those of the route; `NoRoute` for groups and broadcasts.
pub(crate) fn find_path(
    inet: &Inet,
    passage: &mut Passage,
    mut request: SendRequest,
    ip: &IpOptions,
) -> Result<StreamPath, SendError> {
    let names_source = request.source.is_some();
    let header_options = ip.header_options.filter(|_| request.destination.is_ipv4());
    let header_options = header_options.unwrap_or_default();
    if !header_options.is_empty() {
        route_by(&header_options, &mut request);
    } else if let Some(path) = known_path(inet, passage, &request) {
        return Ok(path);
    }
    let mut path = inet.run_in(passage, |stack, run| stack.path_from(run, &request))?;
    if !header_options.is_empty() {
        let strict = check_strict(&header_options, &request, &path);
        strict.map_err(|_| SendError::Unreachable)?;
        // Segments with options are packets, also on this host.
        path.is_local = false;
    }
    if path.cast != Cast::Unicast {
        return Err(SendError::NoRoute);
    }
    let versions = inet.stack().refresh(&mut passage.worker);
    let request = SendRequest { source: Some(path.source), ..request };
    let interface = passage.worker.view().configuration.interface(path.interface);
    // Where packets tell their secrecy the stack makes each as it leaves.
    let interface = interface.filter(|_| path.label_length == 0);
    let offloads = interface.map_or(LinkOffloads::empty(), |one| one.offloads);
    let is_to_keep = path.is_local && header_options.is_empty() && !names_source;
    let found = StreamPath { versions, path, request, offloads, header_options };
    // Rules may look at ports.
    let rules = passage.worker.view().configuration.rules();
    if is_to_keep && rules.changed(Family::of(request.destination)).is_none() {
        passage.known_path = Some(found);
    }
    Ok(found)
}

/// Returns the path within this host that was found last, if `request` would find it again.
fn known_path(inet: &Inet, passage: &Passage, request: &SendRequest) -> Option<StreamPath> {
    let known = passage.known_path.as_ref()?;
    let of_known = &known.request;
    // The known one is that of a request without a source.
    let has_source = request.source.is_none_or(|source| source == known.path.source);
    let is_same = known.versions == inet.stack().newest_versions()
        && has_source
        && request.destination == of_known.destination
        && request.interface == of_known.interface
        && request.hop_limit == of_known.hop_limit
        && (request.traffic_class, request.discovery)
            == (of_known.traffic_class, of_known.discovery)
        && (request.sender.mark, request.sender.user)
            == (of_known.sender.mark, of_known.sender.user);
    let request = SendRequest { source: Some(known.path.source), ..*request };
    is_same.then_some(StreamPath { request, ..*known })
}

impl SocketState {
    /// Sends what the connection has to send.
    pub(crate) fn output(
        live: &mut LiveConnection,
        stream: &Stream,
        (peer, options): (Option<SocketAddr>, &StreamOptions),
        inet: &Inet,
        passage: &mut Passage,
    ) {
        let versions = inet.stack().refresh(&mut passage.worker);
        if live.path.is_none_or(|path| path.versions != versions) {
            live.renew_path(inet, passage, (peer, options), stream.owner().user);
        }
        let limit = match &live.path {
            Some(path) if path.path.is_local => LOCAL,
            Some(path) if path.can_cut(passage.outside.taps.are_watching()) => CUT_LATER,
            _ => CUT_HERE,
        };
        let mut out = Outgoing::default();
        while live.connection.output_into(passage.now_ns, limit, &mut out) {
            let mut arrival = passage.blank();
            arrival.hash = Some(live.peer_hash);
            let length = (out.payload.end - out.payload.start) as usize;
            if live.path.is_some_and(|path| path.path.is_local) {
                arrival.likely_owner = local_peer(live, &inet.streams().flows, length);
            }
            let found = match length {
                0 => 0,
                _ => stream.segments(out.payload.start, length, &mut arrival.payload),
            };
            // A segment without a path is lost, as it would be on the way. So is one whose bytes the client does not have.
            match &live.path {
                Some(path) if found == length => send(passage, path, &live.flow, &out, arrival),
                _ => passage.recycle(arrival),
            }
        }
    }
}

impl LiveConnection {
    /// Finds the path again. If there is none, segments are lost until there is.
    #[cold]
    #[inline(never)]
    fn renew_path(
        &mut self,
        inet: &Inet,
        passage: &mut Passage,
        (peer, options): (Option<SocketAddr>, &StreamOptions),
        user: u32,
    ) {
        let Some(peer) = peer else { return };
        let source = (Some(address(self.flow.local)), self.flow.local_port);
        let request = request_for((options, user), source, peer);
        let request = SendRequest { label: self.flow.label, ..request };
        self.path = find_path(inet, passage, request, &options.ip).ok();
        if let Some(path) = &self.path {
            let most = path.sent_max(options);
            self.connection.set_path_mss(most);
        }
    }
}

/// Makes `arrival`, which has the payload, the segment's arrival at a connection of this host. No header is made, and no checksum.
#[inline]
fn arrive_here(
    arrival: &mut TcpArrival,
    path: &StreamPath,
    flow: &Flow,
    out: &Outgoing,
    saving: SynSaving,
) {
    let is_kept = saving == SynSaving::On && out.segment.flags.contains(TcpFlags::SYN);
    arrival.flow = reversed(flow);
    arrival.segment = out.segment;
    arrival.interface = InterfaceIndex::LOOPBACK;
    arrival.is_local = true;
    arrival.hop_limit = path.path.hop_limit;
    arrival.traffic_class =
        path.request.traffic_class | if out.is_ecn_capable { ECN_CAPABLE } else { 0 };
    arrival.more = match out.segment.length {
        length if length > out.mss => (length - 1) / out.mss.max(1),
        _ => 0,
    };
    arrival.headers = if is_kept { captured::saved(path, flow, &out.segment) } else { None };
}

/// Sends a segment, or several of the same header, with the payload of `arrival`.
pub(crate) fn send(
    passage: &mut Passage,
    path: &StreamPath,
    flow: &Flow,
    out: &Outgoing,
    mut arrival: Box<TcpArrival>,
) {
    let events = passage.worker.events();
    if out.segment.flags.contains(TcpFlags::RST) {
        events.add(PacketEvent::TcpOutReset, 1);
    }
    if path.path.is_local {
        count_local(events, path, out);
        let saving = passage.outside.streams.syn_saving();
        arrive_here(&mut arrival, path, flow, out, saving);
        passage.outside.segments.push_back(arrival);
        return;
    }
    let mut request = path.request;
    if out.is_ecn_capable {
        request.traffic_class |= ECN_CAPABLE;
    }
    let size = out.mss.max(1) as usize;
    let chain = BufferChain::from_pieces(core::mem::take(&mut arrival.payload));
    passage.recycle(arrival);
    let total = chain.length();
    let is_short = chain.pieces().len() <= PIECES_MAX || path.does_software_cut();
    if total <= size || is_short && path.can_cut(passage.outside.taps.are_watching()) {
        let segment = (total > size).then_some(size as u16);
        return push(passage, path, (flow, request), &out.segment, (chain, segment));
    }
    let mut at = 0;
    while at < total {
        let end = total.min(at + size);
        let mut part = TcpSegment {
            seq: out.segment.seq.wrapping_add(at as u32),
            length: (end - at) as u32,
            ..out.segment
        };
        if end < total {
            part.flags -= TcpFlags::FIN | TcpFlags::PSH;
        }
        if at > 0 {
            part.flags -= TcpFlags::CWR;
        }
        push(passage, path, (flow, request), &part, (chain.slice(at..end), None));
        at = end;
    }
}

/// Counts a segment that goes to a connection of this host, and the bytes of the packet that it stands for.
fn count_local(events: &EventRow, path: &StreamPath, out: &Outgoing) {
    let (segments, octets, header) = match path.path.source {
        IpAddr::V4(_) => {
            (PacketEvent::LocalSegments4, PacketEvent::LocalOctets4, ipv4::HEADER_LENGTH)
        }
        IpAddr::V6(_) => {
            (PacketEvent::LocalSegments6, PacketEvent::LocalOctets6, ipv6::HEADER_LENGTH)
        }
    };
    let length = header + HEADER_LENGTH + out.segment.options.encoded_len() as usize;
    events.add(segments, 1);
    events.add(octets, length as u64 + u64::from(out.segment.length));
}

/// Makes a packet, to be cut into `segment` bytes of payload if given, and queues it for IP.
fn push(
    passage: &mut Passage,
    path: &StreamPath,
    (flow, request): (&Flow, SendRequest),
    segment: &TcpSegment,
    (payload, cut): (BufferChain<PacketSegment>, Option<u16>),
) {
    let mut bytes = [0; HEADER_MAX];
    let Some(length) = header::write(flow, segment, &mut bytes) else { return };
    let head = bytes.get(..length).unwrap_or_default();
    let Some(mut packet) = Departure::new(head, payload) else { return };
    let all = packet.length() as u32;
    let peer = address(flow.remote);
    let mut sum = Sum::pseudo_header(path.path.source, peer, protocol::TCP, all);
    // The sums of parts are the business of the link that cuts.
    if path.offloads.contains(LinkOffloads::CHECKSUM) || cut.is_some() {
        packet.patch(CHECKSUM_OFFSET, sum.folded());
        packet.offload = Some(TransportOffload {
            header_length: length as u8,
            checksum_offset: CHECKSUM_OFFSET as u8,
            segment: cut,
        });
    } else {
        sum.append(packet.sum());
        packet.patch(CHECKSUM_OFFSET, sum.checksum());
    }
    if !path.header_options.is_empty() {
        let configuration = &passage.worker.view().configuration;
        let list = written(configuration, &path.header_options, &path.path, peer);
        if packet.headers.prepend(list.as_slice()).is_err() {
            return;
        }
    }
    passage.worker.events().add(PacketEvent::TcpOut, packet.parts().into());
    passage.sends.push(PendingPacket { path: path.path, request, packet });
}

/// Sends a segment without payload of no connection: of a listener, of TIME-WAIT, or a reset.
pub(crate) fn send_bare(
    inet: &Inet,
    passage: &mut Passage,
    (flow, interface): (&Flow, InterfaceIndex),
    options: &StreamOptions,
    segment: TcpSegment,
) {
    let request = bare_request((flow, interface), (options, 0));
    if let Ok(path) = find_path(inet, passage, request, &options.ip) {
        let out = Outgoing { segment, payload: 0..0, mss: 1, is_ecn_capable: false };
        let arrival = passage.unhashed();
        send(passage, &path, flow, &out, arrival);
    }
}

/// Returns the socket of a peer on this host for a segment of `length` bytes of payload, as it was when it was last looked up. The
/// first payload looks for it: a connection without payload is not worth it.
#[inline]
pub(super) fn local_peer(
    live: &mut LiveConnection,
    flows: &Flows,
    length: usize,
) -> Option<Arc<TcpSocket>> {
    let known = live.peer_socket.upgrade();
    if known.is_some() || length == 0 {
        return known;
    }
    let found = look_up_peer(live, flows)?;
    live.peer_socket = Arc::downgrade(&found);
    Some(found)
}

/// Returns the same for a last segment, after which it need not be known.
pub(super) fn find_peer(live: &LiveConnection, flows: &Flows) -> Option<Arc<TcpSocket>> {
    live.peer_socket.upgrade().or_else(|| look_up_peer(live, flows))
}

fn look_up_peer(live: &LiveConnection, flows: &Flows) -> Option<Arc<TcpSocket>> {
    match flows.find(&reversed(&live.flow), live.peer_hash)? {
        FlowOwner::Live(socket) => Some(socket),
        FlowOwner::Waiting(_) => None,
    }
}

/// Returns the request for segments that answer one of `flow` that came by `interface`, of a user's socket.
pub(crate) fn bare_request(
    (flow, interface): (&Flow, InterfaceIndex),
    socket: (&StreamOptions, u32),
) -> SendRequest {
    let remote = address(flow.remote);
    let source = (Some(address(flow.local)), flow.local_port);
    let mut request = request_for(socket, source, SocketAddr::new(remote, flow.remote_port));
    request.label = flow.label;
    let is_confined = remote.is_ipv6() && AddressScope::of(remote) == AddressScope::Link;
    if is_confined && interface != InterfaceIndex::LOOPBACK {
        request.interface = Some(interface);
    }
    request
}
