//! The calls of sockets, as the client puts them into requests.
use crate::{
    marshal::Marshal,
    nic::{Filter, MacAddress, NicError, NicStatistics},
    sockets::{
        CloseKind, DatagramProtocol, IpOptions, KEPT_WORDS, KeptDatagram, KeptStream, Membership,
        ReadReport, SocketError, SocketFamilies, SocketOwner, StreamOptions,
    },
};
use core::net::{IpAddr, SocketAddr};

/// A call of a stream or its socket. The answer is what the method of [`crate::sockets::StreamSocket`] of that name returns; of one
/// that gives the socket names, these.
#[derive(Clone, Debug, PartialEq, Marshal)]
pub(crate) enum StreamCall {
    /// Makes the stack's end of a stream.
    Make(StreamStart),
    /// Opens a socket for it.
    Open(SocketFamilies, SocketOwner),
    /// Opens the socket of a predecessor for it.
    Restore(KeptStream),
    Bind(SocketAddr),
    Names,
    Connect(SocketAddr),
    ConnectWithData(SocketAddr),
    HasCookie(IpAddr),
    /// With the number of the fresh stream.
    Disconnect(u32),
    Listen(u32),
    Accepted,
    MarkUrgent,
    UrgentMark,
    ShutDownSend,
    Configure(StreamOptions),
    QuickAcknowledge(bool),
    SavedSyn(usize),
    Info,
    HeaderOptions,
    SendWindow,
    IsClosing,
    Close(CloseKind),
    Owner(SocketOwner),
}

/// The beginning of a stream at a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Marshal)]
pub(crate) struct StreamStart {
    /// Bytes before this one are acknowledged.
    pub(crate) acked: u64,
    /// Its [`crate::sockets::StreamState`].
    pub(crate) state: u8,
    /// The words of a predecessor.
    pub(crate) kept: [u64; KEPT_WORDS],
    /// The client's reads.
    pub(crate) report: ReadReport,
    /// The owner.
    pub(crate) owner: SocketOwner,
}

/// A call of a datagram socket.
#[derive(Clone, Debug, PartialEq, Marshal)]
pub(crate) enum DatagramCall {
    Open(DatagramProtocol, SocketFamilies, SocketOwner),
    Restore(KeptDatagram),
    Bind(SocketAddr),
    Names,
    Connect(Option<SocketAddr>),
    /// With the error that waits; the head and the payload of a datagram follow.
    Send(Option<SocketError>),
    Configure(IpOptions),
    Join(Membership),
    Leave(Membership),
    PathMtu,
    Close,
}

/// A request about a socket: the number of its stream or queue, and the call.
#[derive(Clone, Debug, PartialEq, Marshal)]
pub(crate) enum SocketRequest {
    /// Of a stream.
    Stream(u32, StreamCall),
    /// Of a queue.
    Datagram(u32, DatagramCall),
    /// The stack uses the cards from now on.
    Start,
    /// The successor has all sockets of its predecessor.
    GoOn,
}

/// The answer to a command: the counts, as far as they were asked for.
pub(crate) type CardAnswer = Result<Option<NicStatistics>, NicError>;

/// A command for a card.
#[derive(Clone, Debug, PartialEq, Eq, Marshal)]
pub(crate) enum CardCommand {
    /// [`crate::nic::Nic::statistics`].
    Statistics,
    /// [`crate::nic::Nic::set_mac`].
    Mac(MacAddress),
    /// [`crate::nic::Nic::set_filter`].
    Filter(Filter),
    /// [`crate::nic::Nic::set_offloads`].
    Offloads(u32),
    /// [`crate::nic::Nic::set_pairs`].
    Pairs(u16),
}
