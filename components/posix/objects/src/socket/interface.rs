//! [`Socket`]: what a family of sockets does for the socket calls, and the data that they exchange.
use super::common::{RECEIVE_DEFAULT, SocketCommon};
use super::option_input::OptionInput;
use alloc::{sync::Arc, vec::Vec};
use bitflags::bitflags;
use bpf::PacketProgram;
use core::sync::atomic::{AtomicI32, Ordering};
use linux_raw_sys::net;
use process::Task;
use vfs::{
    Errno, OpenFile,
    credentials::OVERFLOW_ID,
    file::{File, IoFlags},
    io::{Sink, Source},
    security::Label,
};

/// Transport type of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketKind {
    /// SOCK_STREAM: a stream of bytes.
    Stream = net::SOCK_STREAM as isize,
    /// SOCK_DGRAM: messages, from any sender.
    Datagram = net::SOCK_DGRAM as isize,
    /// SOCK_RAW: packets of a protocol.
    Raw = net::SOCK_RAW as isize,
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
    /// The control messages in a program's format, which [`control_items`] reads.
    pub control: &'a [u8],
    /// The sender may give any options of a header of IPv4 (CAP_NET_RAW). Set if there are control messages.
    pub may_send_raw: bool,
}

/// A control message (cmsg(3)) of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlItem<'a> {
    /// The protocol that defines it.
    pub level: i32,
    /// Its number among those of the level.
    pub kind: i32,
    /// The value.
    pub data: &'a [u8],
}

/// Bytes of `struct cmsghdr`, which is before the data of a control message: length, level and kind.
pub const CONTROL_HEAD: usize = 16;

/// Returns the control messages in `bytes`, in the format of programs; after one whose length is invalid there are no more.
///
/// # Errors
/// `EINVAL` for an invalid length, as an item.
pub fn control_items(bytes: &[u8]) -> impl Iterator<Item = Result<ControlItem<'_>, Errno>> {
    let mut rest = bytes;
    core::iter::from_fn(move || {
        let (length, body) = rest.split_first_chunk::<8>()?;
        let (level, body) = body.split_first_chunk::<4>()?;
        let (kind, body) = body.split_first_chunk::<4>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let data = length.checked_sub(CONTROL_HEAD).and_then(|length| body.get(..length));
        let next = length.checked_next_multiple_of(size_of::<u64>()).unwrap_or(usize::MAX);
        rest = rest.get(next..).filter(|_| data.is_some()).unwrap_or_default();
        let (level, kind) = (i32::from_le_bytes(*level), i32::from_le_bytes(*kind));
        Some(data.map(|data| ControlItem { level, kind, data }).ok_or(Errno::EINVAL))
    })
}

/// A control message for a program, whose value is kept in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedControl {
    /// The protocol that defines it.
    pub level: i32,
    /// Its number among those of the level.
    pub kind: i32,
    bytes: [u8; ReceivedControl::BYTES_MAX],
    length: usize,
}

impl ReceivedControl {
    /// Bytes of the longest value: `struct sock_extended_err` with a `struct sockaddr_in6`.
    const BYTES_MAX: usize = 44;

    /// Makes a message with the value `data`, of which as much is kept as the longest value has.
    pub fn new(level: u32, kind: u32, data: &[u8]) -> ReceivedControl {
        let mut bytes = [0; Self::BYTES_MAX];
        let length = data.len().min(Self::BYTES_MAX);
        let (to, from) = (bytes.get_mut(..length), data.get(..length));
        to.unwrap_or_default().copy_from_slice(from.unwrap_or_default());
        ReceivedControl { level: level as i32, kind: kind as i32, bytes, length }
    }
    /// Returns the value.
    pub fn data(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// Options of a send.
#[derive(Clone, Copy, Debug, Default)]
pub struct Send {
    /// MSG_DONTWAIT or O_NONBLOCK
    pub is_nonblocking: bool,
    /// MSG_NOSIGNAL
    pub is_silent: bool,
    /// MSG_OOB
    pub is_urgent: bool,
    /// MSG_MORE
    pub is_more: bool,
    /// MSG_ZEROCOPY
    pub is_zero_copy: bool,
    /// MSG_FASTOPEN
    pub is_fast_open: bool,
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
    /// MSG_TRUNC: a stream drops bytes instead of copying them.
    pub is_discarding: bool,
    /// MSG_ERRQUEUE
    pub is_error_queue: bool,
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
    /// The label of the socket from which it came, if the receiver wants it (SO_PASSSEC).
    pub label: Option<&'static Label>,
    /// Descriptions that came with it.
    pub files: Vec<Arc<OpenFile>>,
    /// Control messages of the family.
    pub control: Vec<ReceivedControl>,
    /// Flags of the message besides MSG_TRUNC, as recvmsg(2) tells them.
    pub flags: u32,
}

/// Reads from a socket as from a file (read(2)). A read of nothing returns at once, while recv(2) may wait or take a message.
///
/// # Errors
/// Those of [`Socket::receive`].
pub fn read_as_file(
    socket: &impl Socket,
    sink: &mut dyn Sink,
    flags: IoFlags,
) -> Result<usize, Errno> {
    if sink.remaining() == 0 {
        return Ok(0);
    }
    let how = Receive { is_nonblocking: flags.is_nonblocking, ..Receive::default() };
    Ok(socket.receive(sink, how, None)?.count)
}

/// A socket. An implementation is a file, too; [`File::as_any`] returns its own type, by which [`super::of`] finds it.
pub trait Socket: File + core::marker::Send + Sync {
    /// Returns the parts that a socket of any family has.
    fn common(&self) -> &SocketCommon;
    /// Returns the family (`AF_UNIX`).
    fn family(&self) -> u16;
    /// Returns the number of the protocol (SO_PROTOCOL).
    fn protocol(&self) -> i32 {
        0
    }
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
    fn listen(&self, task: &Task, limit: usize) -> Result<(), Errno> {
        let _ = (task, limit);
        Err(Errno::EOPNOTSUPP)
    }
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
    fn accept(&self, patience: Patience) -> Result<Arc<dyn Socket>, Errno> {
        let _ = patience;
        Err(Errno::EOPNOTSUPP)
    }
    /// Returns the name (getsockname(2)).
    fn name(&self) -> SocketAddress;
    /// Returns the peer's name (getpeername(2)).
    ///
    /// # Errors
    /// `ENOTCONN`.
    fn peer_name(&self) -> Result<SocketAddress, Errno>;
    /// Returns the name that accept(2) tells of the peer; [`SocketAddress::NONE`] if it has none.
    fn accepted_from(&self) -> SocketAddress {
        self.peer_name().unwrap_or(SocketAddress::NONE)
    }
    /// Returns the process at the other end; `None` if none is known (SO_PEERCRED).
    fn peer(&self) -> Option<Party> {
        None
    }
    /// Returns the label of the socket at the other end; `None` if none is known (SO_PEERSEC).
    fn peer_label(&self) -> Option<&'static Label> {
        None
    }
    /// Returns whether the socket takes connections.
    fn is_listening(&self) -> bool {
        false
    }
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
    ///
    /// # Errors
    /// `EINVAL` for a listening socket of some families.
    fn unsent_bytes(&self) -> Result<usize, Errno>;
    /// Answers another request of ioctl(2) that returns a number.
    ///
    /// # Errors
    /// `ENOTTY` for a request that the family does not know, and those of the request.
    fn request(&self, command: u32) -> Result<u32, Errno> {
        let _ = command;
        Err(Errno::ENOTTY)
    }
    /// Returns the limit of bytes that were sent and not yet delivered (SO_SNDBUF).
    fn send_buffer(&self) -> usize;
    /// Sets this limit.
    fn set_send_buffer(&self, bytes: usize);
    /// Returns the limit of received bytes that wait (SO_RCVBUF).
    fn receive_buffer(&self) -> usize {
        match self.common().options.receive_buffer.load(Ordering::Relaxed) {
            0 => RECEIVE_DEFAULT.size(),
            bytes => usize::try_from(bytes).unwrap_or(0),
        }
    }
    /// Sets this limit.
    fn set_receive_buffer(&self, bytes: usize) {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        self.common().options.receive_buffer.store(bytes, Ordering::Relaxed);
    }
    /// Returns whether SO_PEEK_OFF can be set.
    fn has_peek_offset(&self) -> bool {
        true
    }
    /// Sets or removes the filter of what the socket receives (SO_ATTACH_FILTER). Returns the one before it.
    fn set_filter(&self, program: Option<Arc<PacketProgram>>) -> Option<Arc<PacketProgram>> {
        self.common().filter.set(program)
    }
    /// Returns whether SO_ZEROCOPY can be set.
    fn has_zero_copy(&self) -> bool {
        false
    }
    /// Returns the number of the processor that handled the last packet (SO_INCOMING_CPU); -1 before the first.
    fn incoming_processor(&self) -> &AtomicI32 {
        &self.common().options.incoming_processor
    }
    /// Called after an option of SOL_SOCKET was set in [`SocketCommon::options`].
    fn options_changed(&self) {}
    /// Sets an option of another level than SOL_SOCKET.
    ///
    /// # Errors
    /// `EOPNOTSUPP` of families that have none, `ENOPROTOOPT`, `EINVAL`, `EPERM`, `EFAULT`, and those of the option.
    fn set_option(
        &self,
        task: &Task,
        (level, number): (u32, u32),
        input: &OptionInput,
    ) -> Result<(), Errno> {
        let _ = (task, level, number, input);
        Err(Errno::EOPNOTSUPP)
    }
    /// Returns whether the value of such an option names a classic program (`struct sock_fprog`), which is read before it is set.
    fn takes_program(&self, (level, number): (u32, u32)) -> bool {
        let _ = (level, number);
        false
    }
    /// Returns whether such an option has a value for each number that a program gives with the call of getsockopt(2).
    fn takes_argument(&self, (level, number): (u32, u32)) -> bool {
        let _ = (level, number);
        false
    }
    /// Returns the value of such an option for a number.
    ///
    /// # Errors
    /// `ENOPROTOOPT`, and those of the option.
    fn option_of(&self, (level, number): (u32, u32), argument: i32) -> Result<Vec<u8>, Errno> {
        let _ = (level, number, argument);
        Err(Errno::ENOPROTOOPT)
    }
    /// Returns the value of such an option, for a program that has room for `room` bytes and gets no more.
    ///
    /// # Errors
    /// `EOPNOTSUPP` of families that have none, `ENOPROTOOPT`, and those of the option.
    fn option(&self, (level, number): (u32, u32), room: usize) -> Result<Vec<u8>, Errno> {
        let _ = (level, number, room);
        Err(Errno::EOPNOTSUPP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_messages_are_read_one_by_one() {
        let item = |length: u64, kind: i32| {
            [&length.to_le_bytes()[..], &1i32.to_le_bytes(), &kind.to_le_bytes()].concat()
        };
        let bytes = [item(17, 7), vec![9, 0, 0, 0, 0, 0, 0, 0], item(16, 8), item(99, 9)].concat();
        let found: Vec<_> = control_items(&bytes).collect();
        assert_eq!(found[0], Ok(ControlItem { level: 1, kind: 7, data: &[9] }));
        assert_eq!(found[1], Ok(ControlItem { level: 1, kind: 8, data: &[] }));
        assert_eq!(found[2..], [Err(Errno::EINVAL)], "one that is too long ends them");
        assert_eq!(control_items(&bytes[..15]).count(), 0);
    }
}
