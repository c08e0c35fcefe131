//! [`Socket`]: what a family of sockets does for the socket calls, and the data that they exchange.
use super::common::SocketCommon;
use alloc::{sync::Arc, vec::Vec};
use bitflags::bitflags;
use linux_raw_sys::net;
use process::Task;
use vfs::{
    Errno, OpenFile,
    credentials::OVERFLOW_ID,
    file::File,
    io::{Sink, Source},
};

/// Transport type of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketKind {
    /// SOCK_STREAM: a stream of bytes.
    Stream = net::SOCK_STREAM as isize,
    /// SOCK_DGRAM: messages, from any sender.
    Datagram = net::SOCK_DGRAM as isize,
    /// SOCK_SEQPACKET: messages between two sockets.
    Packet = net::SOCK_SEQPACKET as isize,
}

bitflags! {
    /// The directions that were shut down.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Shut: u8 {
        /// No more data will be received.
        const RECEIVE = 1;
        /// No more data can be sent.
        const SEND = 2;
    }
}

/// Tells whether a call waits for its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// It fails with `EAGAIN` instead (O_NONBLOCK).
    None,
    /// It waits as long as the socket's time limit allows.
    Wait,
}

/// An address of any family in a program's format (`struct sockaddr_storage`): the family, then what the family puts there.
#[derive(Clone, Copy)]
pub struct SocketAddress {
    bytes: [u8; SocketAddress::BYTES_MAX],
    length: usize,
}

impl SocketAddress {
    /// Bytes of the longest address.
    pub const BYTES_MAX: usize = net::_K_SS_MAXSIZE as usize;
    /// No address, not even a family.
    pub const NONE: SocketAddress = SocketAddress { bytes: [0; Self::BYTES_MAX], length: 0 };

    /// Makes an address of `length` bytes, which `fill` writes.
    ///
    /// # Errors
    /// `EINVAL` if it is longer than any address, and those of `fill`.
    pub fn fill(
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), Errno>,
    ) -> Result<SocketAddress, Errno> {
        let mut address = SocketAddress { length, ..SocketAddress::NONE };
        fill(address.bytes.get_mut(..length).ok_or(Errno::EINVAL)?)?;
        Ok(address)
    }
    /// Makes an address of `parts`, one after the other, as far as there is room.
    pub fn of_parts(parts: &[&[u8]]) -> SocketAddress {
        let mut address = SocketAddress::NONE;
        for part in parts {
            let room = address.bytes.get_mut(address.length..).unwrap_or_default();
            let count = part.len().min(room.len());
            let (to, from) = (room.get_mut(..count), part.get(..count));
            to.unwrap_or_default().copy_from_slice(from.unwrap_or_default());
            address.length += count;
        }
        address
    }
    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
    /// Returns the family; `None` if the address is too short to have one.
    pub fn family(&self) -> Option<u16> {
        self.bytes().first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
    }
    /// Returns whether the address is of AF_UNSPEC: connect(2) to it ends a relation.
    pub fn is_unspecified(&self) -> bool {
        self.family() == Some(net::AF_UNSPEC as u16)
    }
}

/// The identity of a sender, or of the process that has a socket (`struct ucred`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Process id.
    pub process: u32,
    /// User id.
    pub user: u32,
    /// Group id.
    pub group: u32,
}

impl Identity {
    /// The identity of an unknown sender.
    pub const UNKNOWN: Identity = Identity { process: 0, user: OVERFLOW_ID, group: OVERFLOW_ID };
}

/// A process that makes a socket, connects it or listens: identity and supplementary groups.
pub type Party = (Identity, Vec<u32>);

/// The parts of a message besides its bytes.
#[derive(Default)]
pub struct Outgoing<'a> {
    /// The destination, if it is not the peer.
    pub to: Option<&'a SocketAddress>,
    /// The credentials that the sender states, which were checked.
    pub identity: Option<Identity>,
    /// The descriptions to pass.
    pub files: Vec<Arc<OpenFile>>,
}

/// Options of a send.
#[derive(Clone, Copy, Debug)]
pub struct Send {
    /// MSG_DONTWAIT or O_NONBLOCK
    pub is_nonblocking: bool,
    /// MSG_NOSIGNAL
    pub is_silent: bool,
    /// MSG_OOB
    pub is_urgent: bool,
}

/// Options of a receive.
#[derive(Clone, Copy, Debug, Default)]
pub struct Receive {
    /// MSG_DONTWAIT or O_NONBLOCK
    pub is_nonblocking: bool,
    /// MSG_PEEK
    pub is_peek: bool,
    /// MSG_WAITALL
    pub is_whole: bool,
    /// MSG_OOB
    pub is_urgent: bool,
}

/// A received message.
#[derive(Default)]
pub struct Received {
    /// Number of bytes received.
    pub count: usize,
    /// Length of the message: more than `count` for a datagram that did not fit.
    pub length: usize,
    /// Identity of the sender.
    pub identity: Identity,
    /// Descriptions that came with it.
    pub files: Vec<Arc<OpenFile>>,
}

/// A socket. An implementation is a file, too; [`File::as_any`] returns its own type, by which [`super::of`] finds it.
pub trait Socket: File + core::marker::Send + Sync {
    /// Returns the parts that a socket of any family has.
    fn common(&self) -> &SocketCommon;
    /// Returns the family (`AF_UNIX`).
    fn family(&self) -> u16;
    /// Returns the protocol's name, as the extended attribute `system.sockprotoname` tells it.
    fn protocol_name(&self) -> &'static str;
    /// Sets the name (bind(2)). A node of a file system is made with the permissions `mode`, before the mask.
    ///
    /// # Errors
    /// `EINVAL` if the socket has a name or the address is invalid, `EADDRINUSE`, and those of the family.
    fn bind(&self, task: &Task, address: &SocketAddress, mode: u16) -> Result<(), Errno>;
    /// Makes the socket accept connections (listen(2)), of which at most `limit` wait.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for datagrams, `EINVAL` if it has a peer, and those of the family.
    fn listen(&self, task: &Task, limit: usize) -> Result<(), Errno>;
    /// Connects to an address (connect(2)). A datagram socket only records the destination, and an unspecified one removes it.
    ///
    /// # Errors
    /// `ECONNREFUSED`, `EISCONN`, `EINVAL`, `EAGAIN`, `EINPROGRESS`, and those of the family.
    fn connect(
        &self,
        task: &Task,
        address: &SocketAddress,
        patience: Patience,
    ) -> Result<(), Errno>;
    /// Returns the other end of the first waiting connection (accept(2)).
    ///
    /// # Errors
    /// `EOPNOTSUPP` for datagrams, `EINVAL` if the socket does not listen, `EAGAIN`, and for a signal `EINTR` or a restart.
    fn accept(&self, patience: Patience) -> Result<Arc<dyn Socket>, Errno>;
    /// Returns the name (getsockname(2)).
    fn name(&self) -> SocketAddress;
    /// Returns the peer's name (getpeername(2)).
    ///
    /// # Errors
    /// `ENOTCONN`.
    fn peer_name(&self) -> Result<SocketAddress, Errno>;
    /// Returns the process at the other end; `None` if none is known (SO_PEERCRED).
    fn peer(&self) -> Option<Party>;
    /// Returns whether the socket takes connections.
    fn is_listening(&self) -> bool;
    /// Ends directions of the connection (shutdown(2)).
    ///
    /// # Errors
    /// `ENOTCONN` of families that need a peer.
    fn shut_down(&self, directions: Shut) -> Result<(), Errno>;
    /// Sends the bytes of `source`. Returns the number of bytes sent.
    ///
    /// # Errors
    /// `ENOTCONN`, `EISCONN`, `EPIPE` (with a signal, for a stream), `ECONNREFUSED`, `ECONNRESET`, `EMSGSIZE`, `EAGAIN`, `EFAULT`,
    /// `EOPNOTSUPP` for urgent data that the family lacks, `ETOOMANYREFS` for descriptions, and those of the address.
    fn send(
        &self,
        task: &Task,
        source: &mut dyn Source,
        message: Outgoing<'_>,
        how: Send,
    ) -> Result<usize, Errno>;
    /// Receives into `sink`. The sender's address is written to `sender`, if the caller wants it; it stays
    /// [`SocketAddress::NONE`] if the sender has none.
    ///
    /// # Errors
    /// `EINVAL` or `ENOTCONN` for a socket without a peer, `EAGAIN`, `ECONNRESET`, `EFAULT`, for urgent data that the family lacks
    /// `EINVAL` (a stream) or `EOPNOTSUPP`, and for a signal `EINTR` or a restart.
    fn receive(
        &self,
        sink: &mut dyn Sink,
        how: Receive,
        sender: Option<&mut SocketAddress>,
    ) -> Result<Received, Errno>;
    /// Returns and clears the pending error (SO_ERROR).
    fn take_error(&self) -> Option<Errno>;
    /// Returns the number of bytes to be read: all of a stream's, or those of the first datagram (FIONREAD).
    ///
    /// # Errors
    /// `EINVAL` for a listening socket.
    fn readable_bytes(&self) -> Result<usize, Errno>;
    /// Returns the number of bytes that were sent and not yet delivered (TIOCOUTQ).
    fn unsent_bytes(&self) -> usize;
    /// Returns the limit of bytes that were sent and not yet delivered (SO_SNDBUF).
    fn send_buffer(&self) -> usize;
    /// Sets this limit.
    fn set_send_buffer(&self, bytes: usize);
}
