//! [`SocketError`]: the reason why an operation of a socket failed, with the number that Linux gives it.
use crate::marshal::Marshal;

/// The reason why an operation of a socket failed, or why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub enum SocketError {
    /// Nobody listens at the peer (`ECONNREFUSED`).
    Refused,
    /// No route (`ENETUNREACH`).
    NetworkUnreachable,
    /// The host does not answer (`EHOSTUNREACH`).
    HostUnreachable,
    /// The host is down (`EHOSTDOWN`).
    HostDown,
    /// The host is cut off from its network (`ENONET`).
    Isolated,
    /// The network does not do it (`EOPNOTSUPP`).
    Unsupported,
    /// The peer does not know the protocol (`ENOPROTOOPT`).
    NoProtocol,
    /// A protocol error (`EPROTO`).
    Protocol,
    /// The packet is too long (`EMSGSIZE`).
    MessageSize,
    /// It is forbidden (`EACCES`).
    Forbidden,
    /// The address or port is in use (`EADDRINUSE`).
    InUse,
    /// This host has no such address (`EADDRNOTAVAIL`).
    NoAddress,
    /// The address is of another family (`EAFNOSUPPORT`).
    Family,
    /// The socket has no peer, and none was given (`EDESTADDRREQ`).
    NoDestination,
    /// The request makes no sense (`EINVAL`).
    Invalid,
    /// Memory was refused (`ENOBUFS`).
    NoMemory,
    /// No interface of this number (`ENODEV`).
    NoInterface,
    /// The peer reset the connection (`ECONNRESET`).
    Reset,
    /// The peer reset the connection after it had closed it (`EPIPE`).
    BrokenPipe,
    /// The connection was ended on this side (`ECONNABORTED`).
    Aborted,
    /// The peer did not answer in time (`ETIMEDOUT`).
    TimedOut,
    /// The interface is down (`ENETDOWN`).
    NetworkDown,
}
