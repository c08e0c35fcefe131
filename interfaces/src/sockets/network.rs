//! [`Network`]: the sockets of a network stack, as its client (the personality) sees them.
//!
//! Control goes through these traits. Data goes through the [`Stream`] or the [`DatagramQueue`] of a socket, which the client made
//! and keeps. No call waits: a call that starts something ends at once, and the socket's observer hears of the end.
use super::{
    DatagramQueue, ExtensionHeaders, IpOptions, Ipv4OptionList, LinkTaps, Membership,
    NetworkAdministration, PacketLabels, Payload, SocketError, Stream, StreamOptions, Tunnels,
};
use crate::marshal::Marshal;
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::net::{IpAddr, SocketAddr};
use interfaces_macro::interface;
use labels::SecrecyId;

/// The families of packets that a socket takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub enum SocketFamilies {
    /// IPv4 alone: AF_INET.
    V4,
    /// IPv6 alone: AF_INET6 with `IPV6_V6ONLY`.
    V6,
    /// Both: AF_INET6 without `IPV6_V6ONLY`. Addresses of IPv4 pass unmapped here.
    Both,
}

/// The protocol of a datagram socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub enum DatagramProtocol {
    /// UDP (RFC 768).
    Udp,
    /// UDP-Lite (RFC 3828), whose checksum may cover a part of the datagram.
    UdpLite,
    /// Echo requests of ICMP or ICMPv6, where the port is the identifier (icmp(7)).
    Ping,
    /// Packets of an IP protocol of this number, from the header of IP on for IPv4 (raw(7)).
    Raw(u8),
}

impl DatagramProtocol {
    /// Returns whether its packets have the ports of UDP.
    pub fn has_ports(self) -> bool {
        matches!(self, DatagramProtocol::Udp | DatagramProtocol::UdpLite)
    }
}

/// The owner of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Marshal)]
pub struct SocketOwner {
    /// User id, who alone may share a port with `SO_REUSEPORT`.
    pub user: u32,
    /// Inode of the socket, by which /proc/net and sock_diag name it. Zero for a connection of a listener: its stream tells the
    /// owner, once it has one.
    pub inode: u64,
    /// The secrecy of its packets.
    pub label: SecrecyId,
}

/// The end of a socket's use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub enum CloseKind {
    /// The peer gets what was written, then a FIN; a reset if received bytes were not read.
    Orderly,
    /// The peer gets a reset at once (`SO_LINGER` of zero).
    Abort,
}

/// The state of a connection (RFC 9293 section 3.3.2), with the numbers of Linux.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Marshal)]
#[repr(u8)]
pub enum ConnectionState {
    /// Both SYNs are acknowledged.
    Established = 1,
    /// A SYN was sent.
    SynSent = 2,
    /// A SYN was received and one was sent.
    SynReceived = 3,
    /// This side closed.
    FinWait1 = 4,
    /// The FIN of this side is acknowledged.
    FinWait2 = 5,
    /// Both FINs are acknowledged; old segments may still arrive.
    TimeWait = 6,
    /// No connection.
    #[default]
    Closed = 7,
    /// The peer closed.
    CloseWait = 8,
    /// This side closed after the peer.
    LastAck = 9,
    /// The socket takes connections.
    Listen = 10,
    /// Both closed at the same time.
    Closing = 11,
}

/// The fields of `struct tcp_info` that a stack knows, with the names of Linux and without the prefix. Times are in microseconds
/// unless they say otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Marshal)]
#[expect(missing_docs, reason = "each field is that of tcp(7) of the same name")]
pub struct StreamInfo {
    pub state: ConnectionState,
    pub ca_state: u8,
    pub retransmits: u8,
    pub probes: u8,
    pub backoff: u8,
    pub options: u8,
    pub snd_wscale: u8,
    pub rcv_wscale: u8,
    pub rto: u32,
    pub ato: u32,
    pub snd_mss: u32,
    pub rcv_mss: u32,
    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    pub last_data_sent_ms: u32,
    pub last_data_recv_ms: u32,
    pub last_ack_recv_ms: u32,
    pub pmtu: u32,
    pub rcv_ssthresh: u32,
    pub rtt: u32,
    pub rttvar: u32,
    pub snd_ssthresh: u32,
    pub snd_cwnd: u32,
    pub advmss: u32,
    pub reordering: u32,
    pub rcv_rtt: u32,
    pub rcv_space: u32,
    pub total_retrans: u32,
    pub pacing_rate: u64,
    pub max_pacing_rate: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segs_out: u32,
    pub segs_in: u32,
    pub notsent_bytes: u32,
    pub min_rtt: u32,
    pub data_segs_in: u32,
    pub data_segs_out: u32,
    pub delivery_rate: u64,
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    pub dsack_dups: u32,
    pub reord_seen: u32,
    pub rcv_ooopack: u32,
    pub snd_wnd: u32,
    pub rcv_wnd: u32,
}

/// The client's side of a listener. It is called on threads of the stack and must not block.
#[interface(direct)]
pub trait Acceptor: Send + Sync {
    /// Makes the stream of a connection that comes to be. `None` refuses it: the memory is not there.
    fn stream(&self) -> Option<Arc<Stream>>;
    /// Takes an established connection, to be accepted by a program. Its stream is one that [`Acceptor::stream`] made.
    fn arrived(&self, stream: Arc<Stream>, socket: Arc<dyn StreamSocket>);
}

/// A stream socket of a stack: a connection, a listener, or none yet. [`StreamSocket::close`] ends it; a handle that is dropped
/// without it aborts the connection.
#[interface(direct)]
pub trait StreamSocket: Send + Sync {
    /// Binds the socket to an address and a port. An unspecified address stands for all, a port of zero for the stack's choice.
    ///
    /// # Errors
    /// `Invalid` if it is bound, `Family`, `NoAddress`, `InUse`.
    fn bind(&self, address: SocketAddr) -> Result<(), SocketError>;
    /// Returns the local address and port; unspecified and zero before they are chosen.
    fn local(&self) -> SocketAddr;
    /// Returns the peer. `None` if there is none.
    fn peer(&self) -> Option<SocketAddr>;
    /// Starts to connect to `peer`. The stream's state tells the end.
    ///
    /// # Errors
    /// Those of the route and of a port's choice: `NetworkUnreachable`, `NoAddress`, `InUse`.
    fn connect(&self, peer: SocketAddr) -> Result<(), SocketError>;
    /// Does the same with TCP Fast Open (RFC 7413): what was written goes with the SYN if the peer gave a cookie, else a cookie is
    /// asked for.
    ///
    /// # Errors
    /// As [`StreamSocket::connect`], and `Unsupported` if the stack does not do it.
    fn connect_with_data(&self, peer: SocketAddr) -> Result<(), SocketError>;
    /// Returns whether data can go with a SYN to `peer`, because it gave a cookie of Fast Open.
    fn has_fast_open_cookie(&self, peer: IpAddr) -> bool;
    /// Ends the connection or the listening, so that the socket can be used again with a fresh stream (connect to AF_UNSPEC).
    fn disconnect(&self, stream: Arc<Stream>);
    /// Takes connections, of which at most `backlog` wait to be accepted. A second call changes `backlog` alone.
    ///
    /// # Errors
    /// `InUse` if the port cannot be had.
    fn listen(&self, backlog: u32, acceptor: Arc<dyn Acceptor>) -> Result<(), SocketError>;
    /// Takes notice that the program accepted a connection of this listener, which frees a place of its backlog.
    fn accepted(&self);
    /// Takes notice that the stream's `written` grew: bytes are to be sent. `MSG_MORE` holds a partial segment back.
    fn written(&self, more: MoreData);
    /// Takes notice that the last written byte is urgent (`MSG_OOB`).
    fn mark_urgent(&self);
    /// Returns the stream offset of the urgent byte that the peer announced, until the program has read past it.
    fn urgent_mark(&self) -> Option<u64>;
    /// Takes notice that the stream's `read` grew, if [`Stream::is_read_awaited`]: the window may open.
    fn read(&self);
    /// Sends a FIN behind the bytes that were written (`SHUT_WR`).
    fn shut_down_send(&self);
    /// Sets the options.
    fn configure(&self, options: &StreamOptions);
    /// Sets `TCP_QUICKACK`.
    fn set_quick_ack(&self, quick: QuickAcknowledge);
    /// Returns the options of each segment's header of IPv4: those of `configure`, or those that answer the SYN of a listener's
    /// connection.
    fn header_options(&self) -> Ipv4OptionList;
    /// Returns, once, the headers of IP and TCP of the segment that opened the connection (`TCP_SAVED_SYN`); none if they were not
    /// kept.
    ///
    /// # Errors
    /// `Invalid` if they are longer than `room`.
    fn take_saved_syn(&self, room: usize) -> Result<Vec<u8>, SocketError>;
    /// Returns what is known of the connection.
    fn info(&self) -> StreamInfo;
    /// Returns `snd_mss` and `snd_cwnd` of [`StreamSocket::info`], for less work.
    fn send_window(&self) -> (u32, u32);
    /// Ends the program's use. The connection goes on by itself until its bytes are sent and both sides are closed.
    fn close(&self, kind: CloseKind);
    /// Returns whether bytes or a FIN of this side still wait for an acknowledgement (`SO_LINGER` waits for it after a close). The
    /// stream's observer hears `STATE` when that changes.
    fn is_closing(&self) -> bool;
}

/// More bytes follow those that were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub enum MoreData {
    /// None are expected.
    No,
    /// More follow soon (`MSG_MORE`).
    Soon,
}

/// The value of `TCP_QUICKACK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub enum QuickAcknowledge {
    /// Acknowledgements may be delayed.
    Off,
    /// Acknowledge at once, for now.
    On,
}

/// A datagram to be sent.
#[derive(Clone, Debug)]
pub struct SentDatagram {
    /// The destination. `None`: the peer.
    pub destination: Option<SocketAddr>,
    /// The source (`IP_PKTINFO`), if it is not that of the socket.
    pub source: Option<IpAddr>,
    /// Number of the interface (`IP_PKTINFO`).
    pub interface: Option<u32>,
    /// Hops (`IP_TTL`, `IPV6_HOPLIMIT`).
    pub hop_limit: Option<u8>,
    /// Differentiated services (`IP_TOS`, `IPV6_TCLASS`).
    pub traffic_class: Option<u8>,
    /// Bytes of each datagram but the last if the payload is several (`UDP_SEGMENT`).
    pub segment: Option<u16>,
    /// Options of the header of IPv4 (`IP_RETOPTS`), if they are not those of the socket.
    pub header_options: Option<Box<Ipv4OptionList>>,
    /// Extension headers of IPv6. A datagram of IPv4 has none of them.
    pub extensions: Option<Box<ExtensionHeaders>>,
    /// The bytes.
    pub payload: Payload,
}

/// A datagram socket of a stack. [`DatagramSocket::close`] ends it, and so does the drop of the handle.
#[interface(direct)]
pub trait DatagramSocket: Send + Sync {
    /// Binds the socket; see [`StreamSocket::bind`].
    ///
    /// # Errors
    /// As [`StreamSocket::bind`].
    fn bind(&self, address: SocketAddr) -> Result<(), SocketError>;
    /// Returns the local address and port.
    fn local(&self) -> SocketAddr;
    /// Returns the peer, if it is connected.
    fn peer(&self) -> Option<SocketAddr>;
    /// Sets the peer: the socket receives from it alone and sends to it by default. `None` removes it.
    ///
    /// # Errors
    /// Those of the route, `Forbidden` for a broadcast address that was not allowed.
    fn connect(&self, peer: Option<SocketAddr>) -> Result<(), SocketError>;
    /// Sends a datagram.
    ///
    /// # Errors
    /// `NoDestination`, `MessageSize`, `Forbidden`, those of the route, and the error that waited.
    fn send(&self, datagram: SentDatagram) -> Result<(), SocketError>;
    /// Sets the options.
    fn configure(&self, options: &IpOptions);
    /// Takes part in a group. An interface of number zero stands for that of the route.
    ///
    /// # Errors
    /// `InUse` if the socket takes part, `NoInterface`, `Invalid`, `NoMemory`.
    fn join(&self, membership: Membership) -> Result<(), SocketError>;
    /// Leaves a group.
    ///
    /// # Errors
    /// `NoAddress` if the socket does not take part.
    fn leave(&self, membership: Membership) -> Result<(), SocketError>;
    /// Returns the MTU of the path to the peer (`IP_MTU`); `None` without a peer.
    fn path_mtu(&self) -> Option<u32>;
    /// Ends the socket.
    fn close(&self);
}

/// A network stack.
#[interface(direct)]
pub trait Network: Send + Sync {
    /// Makes a stream socket whose bytes are in `stream`.
    ///
    /// # Errors
    /// `NoMemory`.
    fn open_stream(
        &self,
        stream: Arc<Stream>,
        families: SocketFamilies,
        owner: SocketOwner,
    ) -> Result<Arc<dyn StreamSocket>, SocketError>;
    /// Makes a datagram socket that receives into `queue`.
    ///
    /// # Errors
    /// `NoMemory`, `Unsupported` for a protocol that the stack lacks.
    fn open_datagram(
        &self,
        queue: Arc<DatagramQueue>,
        protocol: DatagramProtocol,
        families: SocketFamilies,
        owner: SocketOwner,
    ) -> Result<Arc<dyn DatagramSocket>, SocketError>;
    /// Returns the maker of taps of the links.
    fn taps(&self) -> Arc<dyn LinkTaps>;
    /// Returns the maker of tunnels; `None` if the stack has none.
    fn tunnels(&self) -> Option<Arc<dyn Tunnels>> {
        None
    }
    /// Gives the stack the labels of interfaces and packets, also when they have changed. Without them all packets are alike.
    ///
    /// # Errors
    /// `Unsupported` if the stack has none.
    fn set_labels(&self, _labels: Arc<dyn PacketLabels>) -> Result<(), SocketError> {
        Err(SocketError::Unsupported)
    }
    /// Returns the stack's administration.
    fn administration(&self) -> Arc<dyn NetworkAdministration>;
}
