//! A socket of UDP: its options, its queue and its errors.
use super::{
    bindings::{Binding, Bindings, Families, SocketEnd},
    errors::{RemoteError, SocketError},
};
use crate::{
    base::buffer::{Buffer, BufferChain},
    tables::interface::InterfaceIndex,
};
use alloc::{collections::VecDeque, sync::Arc};
use rt::{
    lock_class,
    sync::{Mutex, RwLock},
};

lock_class! {
    static SOCKETS = "inet.udp.sockets";
    static SOCKET = "inet.udp.socket";
}

/// Memory of a queue by default (`net.core.rmem_default`).
const RECEIVE_MAX: usize = 212_992;
/// Memory of a queued datagram beside its payload.
const OVERHEAD: usize = 256;
/// Errors in a queue, at most.
const ERRORS_MAX: usize = 64;

/// The discovery of the path's MTU (`IP_MTU_DISCOVER`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discovery {
    /// No packet forbids to be cut.
    #[default]
    Never,
    /// Packets that fit forbid it. Longer ones are cut here.
    Wanted,
    /// All packets forbid it. Longer ones are refused.
    Required,
}

/// Options of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// `SO_REUSEADDR`.
    pub shares_address: bool,
    /// `SO_REUSEPORT`.
    pub shares_port: bool,
    /// `SO_BROADCAST`.
    pub may_broadcast: bool,
    /// `SO_BINDTODEVICE`.
    pub interface: Option<InterfaceIndex>,
    /// `IP_TTL`, `IPV6_UNICAST_HOPS`.
    pub hop_limit: Option<u8>,
    /// `IP_MULTICAST_TTL`, `IPV6_MULTICAST_HOPS`.
    pub group_hop_limit: u8,
    /// `IP_MULTICAST_IF`, `IPV6_MULTICAST_IF`.
    pub group_interface: Option<InterfaceIndex>,
    /// `IP_MULTICAST_LOOP`, `IPV6_MULTICAST_LOOP`.
    pub loops_groups: bool,
    /// `IP_TOS`, `IPV6_TCLASS`.
    pub traffic_class: u8,
    /// `IP_MTU_DISCOVER`.
    pub discovery: Discovery,
    /// `IP_RECVERR`, `IPV6_RECVERR`.
    pub queues_errors: bool,
    /// `SO_RCVBUF`: memory of the queue, in bytes.
    pub receive_max: usize,
}

impl Default for UdpOptions {
    fn default() -> UdpOptions {
        UdpOptions {
            shares_address: false,
            shares_port: false,
            may_broadcast: false,
            interface: None,
            hop_limit: None,
            group_hop_limit: 1,
            group_interface: None,
            loops_groups: true,
            traffic_class: 0,
            discovery: Discovery::Wanted,
            queues_errors: false,
            receive_max: RECEIVE_MAX,
        }
    }
}

/// A received datagram.
#[derive(Clone, Debug)]
pub struct Datagram<B> {
    /// The sender.
    pub source: SocketEnd,
    /// The receiver.
    pub destination: SocketEnd,
    /// The interface.
    pub interface: InterfaceIndex,
    /// Hops that were left.
    pub hop_limit: u8,
    /// Differentiated services and ECN.
    pub traffic_class: u8,
    /// The time of arrival, in nanoseconds.
    pub received_ns: u64,
    /// The bytes.
    pub payload: BufferChain<B>,
}

/// An entry of the error queue.
#[derive(Clone, Debug)]
pub struct QueuedError<B> {
    /// The error.
    pub error: RemoteError,
    /// The destination of the packet that it is about.
    pub destination: SocketEnd,
    /// Payload of that packet, as far as it was quoted.
    pub payload: BufferChain<B>,
}

/// A cached path: it holds as long as neither the configuration nor the cache of path MTUs changes.
#[derive(Clone, Copy, Debug)]
pub struct CachedPath<P> {
    /// Versions of both.
    pub versions: (u64, u64),
    /// The path.
    pub path: P,
}

/// The part of a socket that its lock guards.
pub struct UdpState<B, P> {
    /// Options.
    pub options: UdpOptions,
    /// The binding; its port is zero before the socket is bound.
    pub binding: Binding,
    /// The program bound the address itself, so that it stays when the peer goes.
    pub has_own_address: bool,
    /// The program bound the port itself.
    pub has_own_port: bool,
    /// The path to the peer.
    pub path: Option<CachedPath<P>>,
    /// The next call's error.
    pub error: Option<SocketError>,
    /// The error queue.
    pub errors: VecDeque<QueuedError<B>>,
    /// No more packets are received or sent.
    pub is_closed: bool,
    queue: VecDeque<Datagram<B>>,
    charged: usize,
    dropped: u64,
}

impl<B: Buffer, P> UdpState<B, P> {
    /// Queues a datagram. Returns whether there was room. A queue that holds nothing takes any one.
    pub fn queue(&mut self, datagram: Datagram<B>) -> bool {
        let charge = charge_of(&datagram);
        if self.is_closed || self.charged > 0 && self.charged + charge > self.options.receive_max {
            self.dropped += 1;
            return false;
        }
        self.charged += charge;
        self.queue.push_back(datagram);
        true
    }
    /// Takes the oldest datagram.
    pub fn take(&mut self) -> Option<Datagram<B>> {
        let datagram = self.queue.pop_front()?;
        self.charged = self.charged.saturating_sub(charge_of(&datagram));
        Some(datagram)
    }
    /// Returns the oldest datagram.
    pub fn peek(&self) -> Option<&Datagram<B>> {
        self.queue.front()
    }
    /// Returns the number of queued datagrams, and of dropped ones.
    pub fn counts(&self) -> (usize, u64) {
        (self.queue.len(), self.dropped)
    }
    /// Takes an error from the network. Returns whether the program is told.
    pub fn fail(&mut self, error: QueuedError<B>) -> bool {
        let is_connected = self.binding.peer.is_some();
        // A socket that looks for the path's MTU is told of it, though the error will not last.
        let is_hard = error.error.is_hard
            || error.error.error == SocketError::MessageSize
                && self.options.discovery != Discovery::Never;
        if !(self.options.queues_errors || is_hard && is_connected) {
            return false;
        }
        self.error = Some(error.error.error);
        if self.options.queues_errors && self.errors.len() < ERRORS_MAX {
            self.errors.push_back(error);
        }
        true
    }
}

fn charge_of<B: Buffer>(datagram: &Datagram<B>) -> usize {
    datagram.payload.memory().saturating_add(OVERHEAD)
}

/// A socket of UDP. `P` is the type of a path.
pub struct UdpSocket<B, P> {
    /// The number by which the stack tells of it.
    pub number: u64,
    /// Its state. The lock is taken with that of the table held, or alone.
    pub state: Mutex<UdpState<B, P>>,
}

impl<B: Buffer, P> UdpSocket<B, P> {
    /// Makes a socket that is not bound. `number` is the caller's, `user` its owner.
    pub fn new(number: u64, families: Families, user: u32) -> UdpSocket<B, P> {
        let binding = Binding {
            families,
            address: None,
            port: 0,
            peer: None,
            interface: None,
            shares_address: false,
            shares_port: false,
            user,
        };
        let state = UdpState {
            options: UdpOptions::default(),
            binding,
            has_own_address: false,
            has_own_port: false,
            path: None,
            error: None,
            errors: VecDeque::new(),
            is_closed: false,
            queue: VecDeque::new(),
            charged: 0,
            dropped: 0,
        };
        UdpSocket { number, state: Mutex::new(&SOCKET, state) }
    }
}

/// The table of bound sockets.
pub struct UdpSockets<B, P> {
    /// The bindings. The lock is taken before that of a socket.
    pub bindings: RwLock<Bindings<UdpSocket<B, P>>>,
}

impl<B, P> Default for UdpSockets<B, P> {
    fn default() -> UdpSockets<B, P> {
        UdpSockets { bindings: RwLock::new(&SOCKETS, Bindings::default()) }
    }
}

/// A handle of a socket.
pub type UdpHandle<B, P> = Arc<UdpSocket<B, P>>;
