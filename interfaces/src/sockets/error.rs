//! [`SocketError`]: the reason why an operation of a socket failed.

/// The reason why an operation of a socket failed, or why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketError {
    /// The peer refused the connection.
    Refused,
    /// The peer reset the connection.
    Reset,
    /// The connection was ended on this side.
    Aborted,
    /// The peer did not answer in time.
    TimedOut,
    /// No way to the peer's host is known, or it does not answer on its link.
    HostUnreachable,
    /// No route leads to the peer's network.
    NetworkUnreachable,
    /// The peer's host does not know the protocol.
    ProtocolUnreachable,
    /// The interface is down.
    NetworkDown,
    /// Another socket has the address.
    AddressInUse,
    /// No interface has the address.
    AddressUnavailable,
    /// A rule of the network forbids it.
    Denied,
    /// The datagram is longer than the path takes.
    MessageTooLong,
    /// The memory for it was refused.
    NoMemory,
}
