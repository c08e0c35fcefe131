//! [`TcpSocket`]: a socket, its lock, and the backlog of segments that came while the lock was held.
use super::{
    arrival::TcpArrival,
    claims::{PortClaim, PortOrigin, PortStage},
    held::HeldPayload,
    listening::Listening,
    path::StreamPath,
};
use crate::sockets::bindings;
use alloc::{
    boxed::Box,
    collections::VecDeque,
    sync::{Arc, Weak},
};
use core::{
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicU32, AtomicUsize},
};
use interfaces::sockets::{SocketFamilies, SocketOwner, Stream, StreamOptions};
use rt::{lock_class, memory::Frame, sync::Mutex};
use tcp::{Connection, Flow, KeptShape};

lock_class! {
    static SOCKET = "inet.tcp.socket";
    static BACKLOG = "inet.tcp.backlog";
}

/// A socket of TCP.
///
/// # Locks
/// `inet.tcp.socket` guards the state. It is held for one operation, and never while packets go to IP or to other sockets of this
/// host. A second one is only tried under it, for bytes, handshakes and FINs that need no segment ([`super::direct`]). The tables
/// (`inet.tcp.flows`, `inet.tcp.ports`, `inet.tcp.timers`, `inet.tcp.waiting`, `inet.tcp.orphans`) and the stream's locks are taken
/// inside. Input does not wait for it: a segment that finds it held goes to the backlog (`inet.tcp.backlog`), which the holder empties
/// before or after the release, even one that only looked at the state.
pub(crate) struct TcpSocket {
    /// A number that no other socket has.
    pub(crate) number: u64,
    pub(super) state: Mutex<SocketState>,
    pub(super) backlog: Mutex<VecDeque<Box<TcpArrival>>>,
    /// Segments in the backlog.
    pub(super) waiting: AtomicUsize,
    /// Segments that found the backlog full.
    pub(super) dropped: AtomicU32,
}

impl TcpSocket {
    pub(crate) fn new(number: u64, state: SocketState) -> TcpSocket {
        TcpSocket {
            number,
            state: Mutex::new(&SOCKET, state),
            backlog: Mutex::new(&BACKLOG, VecDeque::new()),
            waiting: AtomicUsize::new(0),
            dropped: AtomicU32::new(0),
        }
    }
}

/// The part of a socket that its lock guards.
pub(crate) struct SocketState {
    pub(crate) stream: Arc<Stream>,
    /// The families that the socket was made for; see [`SocketState::families`].
    pub(crate) made_for: SocketFamilies,
    pub(crate) owner: SocketOwner,
    pub(crate) options: StreamOptions,
    /// The options are those that a socket begins with.
    pub(crate) has_first_options: bool,
    /// The claim on the local port.
    pub(crate) claim: Option<PortClaim>,
    /// The part in that claim, if the socket shares it with its listener and other children of that.
    pub(crate) shared_claim: Option<Arc<PortClaim>>,
    /// The program bound the address itself.
    pub(crate) has_own_address: bool,
    /// The program bound the port itself, so that it stays when the connection ends.
    pub(crate) has_own_port: bool,
    pub(crate) local: SocketAddr,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) role: SocketRole,
    /// The time at which the timers look at the socket, `u64::MAX` for none.
    pub(crate) armed_ns: u64,
    /// No program holds the socket.
    pub(crate) is_orphan: bool,
}

/// The use of a socket.
pub(crate) enum SocketRole {
    /// None, yet or any more.
    Idle,
    /// A connection.
    Live(Box<LiveConnection>),
    /// A listener.
    Listening(Box<Listening>),
}

/// Segments that a connection did not need to make, and the bytes of their packets, which are not yet counted as events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DirectCounts {
    pub(crate) segments: u64,
    pub(crate) octets: u64,
}

/// A connection with what it needs of the stack.
pub(crate) struct LiveConnection {
    pub(crate) connection: Box<Connection>,
    pub(crate) flow: Flow,
    /// The hash of `flow`.
    pub(crate) hash: u64,
    /// The hash of the flow as the peer sees it, should it be on this host.
    pub(crate) peer_hash: u64,
    /// The socket of the peer, if it is on this host and was looked up.
    pub(super) peer_socket: Weak<TcpSocket>,
    /// The path of its segments, as long as the versions of the tables stay.
    pub(crate) path: Option<StreamPath>,
    /// Received bytes out of order.
    pub(crate) held: HeldPayload,
    /// The frame that short payloads are copied to, and the bytes in use.
    pub(crate) packing: Option<(Frame, usize)>,
    /// `MSG_MORE` holds a partial segment back.
    pub(crate) is_held_by_more: bool,
    /// Segments with payload that the connection did not take.
    pub(crate) not_taken: u32,
    /// More bytes than `TCP_NOTSENT_LOWAT` allows waited to be sent.
    pub(crate) is_unsent_high: bool,
    /// The stream's observer was told last that this side's bytes or FIN still wait for an acknowledgement.
    pub(crate) is_closing: bool,
    /// The part of the connection's state that was kept last beside its counters.
    pub(super) kept_shape: Option<KeptShape>,
    /// Segments that were not made because their bytes went straight to the peer.
    pub(super) direct: DirectCounts,
}

impl LiveConnection {
    /// The hashes are those of the flow as this host and as the peer see it. It is written into its box field by field.
    #[inline]
    pub(crate) fn new(
        (connection, flow): (Box<Connection>, Flow),
        (hash, peer_hash): (u64, u64),
        path: Option<StreamPath>,
    ) -> Box<LiveConnection> {
        let place = Box::new_uninit();
        let live = LiveConnection {
            peer_hash,
            peer_socket: Weak::new(),
            connection,
            flow,
            hash,
            path,
            held: HeldPayload::default(),
            packing: None,
            is_held_by_more: false,
            not_taken: 0,
            is_unsent_high: false,
            is_closing: false,
            kept_shape: None,
            direct: DirectCounts::default(),
        };
        Box::write(place, live)
    }
}

impl SocketState {
    /// Returns a socket that is not bound.
    pub(crate) fn new(
        stream: Arc<Stream>,
        families: SocketFamilies,
        owner: SocketOwner,
    ) -> SocketState {
        SocketState {
            stream,
            made_for: families,
            owner,
            options: StreamOptions::default(),
            has_first_options: true,
            claim: None,
            shared_claim: None,
            has_own_address: false,
            has_own_port: false,
            local: unspecified(families),
            peer: None,
            role: SocketRole::Idle,
            armed_ns: u64::MAX,
            is_orphan: false,
        }
    }
    /// Returns the families of its packets.
    pub(crate) fn families(&self) -> SocketFamilies {
        bindings::with_options(self.made_for, &self.options.ip)
    }
    /// Returns the local address, if the program bound it.
    pub(crate) fn own_address(&self) -> Option<IpAddr> {
        self.has_own_address.then(|| self.local.ip())
    }
    /// Returns the bytes that the stream can take beyond those in order. Half of the memory is kept for what data hold beside
    /// themselves, as on Linux (`tcp_adv_win_scale` of 1).
    pub(crate) fn room(&self) -> u64 {
        SocketState::room_of(&self.stream, &self.options)
    }
    /// Returns the same for a stream and the options of its socket.
    #[inline]
    pub(super) fn room_of(stream: &Stream, options: &StreamOptions) -> u64 {
        let room = stream.receive_room() as u64 / 2;
        options.window_max.map_or(room, |most| room.min(most.into()))
    }
    /// Returns the memory that must be free for data before [`SocketState::room`] is twice as large as `window`.
    pub(crate) fn memory_for_twice(window: u64) -> usize {
        usize::try_from(window.saturating_mul(4)).unwrap_or(usize::MAX)
    }
    /// Returns the claim on a port that the socket's options ask for.
    pub(crate) fn wanted_claim(&self, address: Option<IpAddr>, origin: PortOrigin) -> PortClaim {
        let ip = &self.options.ip;
        PortClaim {
            families: self.families(),
            address,
            interface: ip.interface,
            reuses_address: ip.reuses_address,
            reuses_port: ip.reuses_port,
            user: self.owner.user,
            label: self.owner.label,
            stage: PortStage::Open,
            origin,
        }
    }
}

/// Returns the local address of a socket that has none.
pub(crate) fn unspecified(families: SocketFamilies) -> SocketAddr {
    SocketAddr::new(bindings::unspecified(families), 0)
}
