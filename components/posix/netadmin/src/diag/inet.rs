//! Sockets of AF_INET and AF_INET6: `struct inet_diag_req_v2`, `struct inet_diag_msg`.
//!
//! ```text
//! request:  0 family  1 protocol  2 extensions  3 raw protocol  4 states  8 ends  56
//! answer:   0 family  1 state  2 timer  3 retransmissions  4 ends  52 expiry  56 queues  64 user  68 inode  72
//! ends:     0 source port  2 peer port  4 source  20 peer  36 interface  40 cookie  48
//! ```
use super::{BY_FAMILY, filter, tcp_info};
use crate::{
    NetErrno,
    base::{INET, INET6, UNSPEC, address, octets},
    request::Asker,
    wire::{Attributes, Draft, Fields, Reply},
};
use alloc::{vec, vec::Vec};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use interfaces::sockets::{ConnectionState, NetworkAdministration, SocketProtocol, SocketRecord};

const REQUEST: usize = 56;
const ENDS_AT: usize = 8;
/// A cookie that matches all.
const NO_COOKIE: u64 = u64::MAX;
/// Attributes of a request: a filter, and a protocol whose number is no byte.
const FILTER: u16 = 1;
const PROTOCOL: u16 = 3;
/// `INET_DIAG_*` attributes. An extension is asked for by the bit before that of its number.
mod attribute {
    pub(super) const MEMORY: u16 = 1;
    pub(super) const INFO: u16 = 2;
    pub(super) const CONGESTION: u16 = 4;
    pub(super) const SERVICE: u16 = 5;
    pub(super) const CLASS: u16 = 6;
    pub(super) const SOCKET_MEMORY: u16 = 7;
    pub(super) const SHUT: u16 = 8;
    pub(super) const VERSION6_ONLY: u16 = 11;
    pub(super) const MARK: u16 = 15;
}

/// The ends of a socket: addresses in its family, and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) source: (IpAddr, u16),
    pub(super) peer: (IpAddr, u16),
    pub(super) interface: u32,
}

impl Ends {
    fn of(socket: &SocketRecord) -> Ends {
        let own = |address: IpAddr| match (socket.is_version6, address) {
            (true, IpAddr::V4(short)) if !short.is_unspecified() => short.to_ipv6_mapped().into(),
            (true, IpAddr::V4(_)) => Ipv6Addr::UNSPECIFIED.into(),
            _ => address,
        };
        let nowhere: IpAddr = if socket.is_version6 {
            Ipv6Addr::UNSPECIFIED.into()
        } else {
            Ipv4Addr::UNSPECIFIED.into()
        };
        let end = |end: SocketAddr| (own(end.ip()), end.port());
        Ends {
            source: end(socket.local),
            peer: socket.peer.map_or((nowhere, 0), end),
            interface: socket.interface,
        }
    }
}

/// A request.
struct DiagRequest<'b> {
    family: u8,
    protocol: SocketProtocol,
    extensions: u8,
    states: u32,
    fields: Fields<'b>,
    filter: Option<&'b [u8]>,
}

impl<'b> DiagRequest<'b> {
    fn of(body: &'b [u8]) -> Result<DiagRequest<'b>, NetErrno> {
        const TCP: u32 = 6;
        const UDP: u32 = 17;
        const UDP_LITE: u32 = 136;
        const RAW: u32 = 255;
        let fields = Fields(body.get(..REQUEST).ok_or(NetErrno::EINVAL)?);
        let attributes = Attributes::after(body, REQUEST);
        let short = fields.u8(1).unwrap_or(0).into();
        let protocol = match attributes.u32(PROTOCOL).unwrap_or(short) {
            TCP => SocketProtocol::Tcp,
            UDP => SocketProtocol::Udp,
            UDP_LITE => SocketProtocol::UdpLite,
            RAW => SocketProtocol::Raw,
            _ => return Err(NetErrno::ENOENT),
        };
        Ok(DiagRequest {
            family: fields.u8(0).unwrap_or(0),
            protocol,
            extensions: fields.u8(2).unwrap_or(0),
            states: fields.u32(4).unwrap_or(0),
            fields,
            filter: attributes.find(FILTER),
        })
    }
    fn ports(&self) -> (u16, u16) {
        let port = |at| self.fields.be16(ENDS_AT + at).unwrap_or(0);
        (port(0), port(2))
    }
    /// Returns whether a dump shows a socket.
    fn takes(&self, socket: &SocketRecord) -> bool {
        let family = if socket.is_version6 { INET6 } else { INET };
        let ends = Ends::of(socket);
        let (source, peer) = self.ports();
        self.states >> (socket.state as u32 & 31) & 1 != 0
            && (self.family == UNSPEC || self.family == family)
            && (source == 0 || source == ends.source.1)
            && (peer == 0 || peer == ends.peer.1)
            && self.filter.is_none_or(|program| filter::passes(program, &ends))
    }
    fn wants(&self, number: u16) -> bool {
        self.extensions >> (number - 1) & 1 != 0
    }
}

/// Lists sockets.
///
/// # Errors
/// `EINVAL`, `ENOENT` for a protocol without a table.
pub(super) fn dump(
    body: &[u8],
    network: &dyn NetworkAdministration,
    asker: &Asker,
    reply: Reply,
) -> Result<Vec<Vec<u8>>, NetErrno> {
    let request = DiagRequest::of(body)?;
    let all = network.sockets(request.protocol);
    let chosen = all.iter().filter(|socket| request.takes(socket));
    Ok(chosen.map(|socket| describe(reply, socket, &request, asker)).collect())
}

/// Describes the socket with the ends of a request.
///
/// # Errors
/// `EINVAL`, `ENOENT`, `ESTALE` if the cookie is that of another socket.
pub(super) fn get(
    body: &[u8],
    network: &dyn NetworkAdministration,
    asker: &Asker,
    reply: Reply,
) -> Result<Vec<Vec<u8>>, NetErrno> {
    let request = DiagRequest::of(body)?;
    let fields = request.fields;
    let one = |at| {
        let bytes = fields.bytes(ENDS_AT + at, 16)?;
        address(request.family, bytes)
    };
    let (source, peer) = (one(4), one(20));
    let (source, peer) = (source.ok_or(NetErrno::EINVAL)?, peer.ok_or(NetErrno::EINVAL)?);
    let ports = request.ports();
    let all = network.sockets(request.protocol);
    let is_it = |socket: &&SocketRecord, is_listener: bool| {
        let ends = Ends::of(socket);
        let is_exact = ends.source == (source, ports.0) && ends.peer == (peer, ports.1);
        let is_open = ends.peer.1 == 0
            && ends.source.1 == ports.0
            && (ends.source.0 == source || ends.source.0.is_unspecified());
        if is_listener { is_open } else { is_exact }
    };
    let found = all
        .iter()
        .find(|socket| is_it(socket, false))
        .or_else(|| all.iter().find(|socket| is_it(socket, true)))
        .ok_or(NetErrno::ENOENT)?;
    let half = |at| u64::from(fields.u32(ENDS_AT + at).unwrap_or(0));
    let cookie = half(40) | half(44) << 32;
    if cookie != NO_COOKIE && cookie != found.cookie {
        return Err(NetErrno::ESTALE);
    }
    Ok(vec![describe(reply, found, &request, asker)])
}

fn put_ends(draft: Draft, ends: &Ends, cookie: u64) -> Draft {
    let wide = |address: IpAddr| {
        let mut bytes = octets(address);
        bytes.resize(16, 0);
        bytes
    };
    draft
        .put(&ends.source.1.to_be_bytes())
        .put(&ends.peer.1.to_be_bytes())
        .put(&wide(ends.source.0))
        .put(&wide(ends.peer.0))
        .put(&ends.interface.to_le_bytes())
        .put(&cookie.to_le_bytes())
}

fn describe(
    reply: Reply,
    socket: &SocketRecord,
    request: &DiagRequest<'_>,
    asker: &Asker,
) -> Vec<u8> {
    let family = if socket.is_version6 { INET6 } else { INET };
    let head = [family, socket.state as u8, socket.timer as u8, socket.retransmits];
    let draft = reply.begin(BY_FAMILY).put(&head);
    let mut draft = put_ends(draft, &Ends::of(socket), socket.cookie)
        .put(&socket.timer_ms.to_le_bytes())
        .put(&socket.receive_queue.to_le_bytes())
        .put(&socket.send_queue.to_le_bytes())
        .put(&socket.user.to_le_bytes())
        .put(&(socket.inode as u32).to_le_bytes());
    draft.u8(attribute::SHUT, shut(socket.state));
    if request.wants(attribute::SERVICE) {
        draft.u8(attribute::SERVICE, 0);
    }
    if socket.is_version6 {
        if request.wants(attribute::CLASS) {
            draft.u8(attribute::CLASS, 0);
        }
        if matches!(socket.state, ConnectionState::Listen | ConnectionState::Closed) {
            draft.u8(attribute::VERSION6_ONLY, socket.is_version6_only.into());
        }
    }
    if asker.may_administer {
        draft.u32(attribute::MARK, 0);
    }
    let (received, sent) = (socket.receive_queue, socket.send_queue);
    let is_listener = socket.state == ConnectionState::Listen;
    let held = if is_listener { (0, 0) } else { (received, sent) };
    if request.wants(attribute::MEMORY) {
        draft.words(attribute::MEMORY, &[held.0, held.1, 0, held.1]);
    }
    if request.wants(attribute::SOCKET_MEMORY) {
        let words = [held.0, 0, held.1, 0, 0, held.1, 0, 0, socket.drops];
        draft.words(attribute::SOCKET_MEMORY, &words);
    }
    if let Some(info) = &socket.info {
        if request.wants(attribute::CONGESTION) {
            draft.text(attribute::CONGESTION, socket.congestion.name());
        }
        if request.wants(attribute::INFO) {
            draft.attribute(attribute::INFO, &tcp_info(info));
        }
    }
    draft.finish()
}

/// Returns the directions that a connection in a state has shut: 1 for reception, 2 for sending.
fn shut(state: ConnectionState) -> u8 {
    match state {
        ConnectionState::CloseWait => 1,
        ConnectionState::FinWait1 | ConnectionState::FinWait2 => 2,
        ConnectionState::Closing | ConnectionState::LastAck | ConnectionState::TimeWait => 3,
        _ => 0,
    }
}
