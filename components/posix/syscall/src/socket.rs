//! The socket calls, for AF_UNIX, AF_INET, AF_INET6, AF_NETLINK and AF_PACKET; other families fail with EAFNOSUPPORT.
use super::{
    entry::Entry,
    socket_message::{Header, receive_one, send_one},
    socket_options,
};
use alloc::sync::Arc;
use interfaces::monitor::ObjectAccess;
use linux_raw_sys::{general as raw, net};
use memory::{AddressSpace, UserSink, UserSource, transfer::BYTES_MAX};
use objects::{
    poll::Timeout,
    socket::{
        self, Shut, Socket, SocketAddress, SocketKind,
        interface::{Outgoing, Patience},
        internet::{self, AddressFamily},
        local::{LocalSocket, party},
        netlink, packet,
    },
};
use process::{
    Task,
    call::Call,
    files::{
        OnExec, ReservedDescriptor, anonymous,
        install::{descriptor_limit, reserve},
    },
};
use vfs::{Errno, OpenFile, security};

const NO_URGENT: &str = "MSG_OOB of AF_UNIX";

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::partial(
        raw::__NR_socket,
        "socket",
        "families but AF_UNIX, AF_INET, AF_INET6, AF_NETLINK and AF_PACKET (EAFNOSUPPORT)",
        socket,
    ),
    Entry::whole(raw::__NR_socketpair, "socketpair", socketpair),
    Entry::whole(raw::__NR_bind, "bind", bind),
    Entry::whole(raw::__NR_listen, "listen", listen),
    Entry::whole(raw::__NR_connect, "connect", connect),
    Entry::whole(raw::__NR_accept, "accept", accept),
    Entry::whole(raw::__NR_accept4, "accept4", accept4),
    Entry::whole(raw::__NR_getsockname, "getsockname", getsockname),
    Entry::whole(raw::__NR_getpeername, "getpeername", getpeername),
    Entry::whole(raw::__NR_shutdown, "shutdown", shutdown),
    Entry::partial(raw::__NR_sendto, "sendto", NO_URGENT, sendto),
    Entry::partial(raw::__NR_recvfrom, "recvfrom", NO_URGENT, recvfrom),
    Entry::partial(raw::__NR_sendmsg, "sendmsg", NO_URGENT, sendmsg),
    Entry::partial(raw::__NR_recvmsg, "recvmsg", NO_URGENT, recvmsg),
    Entry::partial(raw::__NR_sendmmsg, "sendmmsg", NO_URGENT, sendmmsg),
    Entry::partial(raw::__NR_recvmmsg, "recvmmsg", NO_URGENT, recvmmsg),
    Entry::whole(raw::__NR_setsockopt, "setsockopt", socket_options::set),
    Entry::whole(raw::__NR_getsockopt, "getsockopt", socket_options::get),
];

const SOCK_CLOEXEC: u32 = raw::O_CLOEXEC;
const SOCK_NONBLOCK: u32 = raw::O_NONBLOCK;
/// Bits of a type that are flags.
const TYPE_FLAGS: u32 = SOCK_CLOEXEC | SOCK_NONBLOCK;
/// The kind of socket within a type.
const KIND_BITS: u32 = 0xf;
/// Number above all socket types.
const KINDS: u32 = 11;
const MSG_WAITFORONE: u32 = 0x10000;
/// The greatest number of messages of one sendmmsg or recvmmsg.
const MESSAGES_MAX: u32 = 1024;

/// A socket with its descriptor's description.
pub struct Opened {
    /// The description.
    pub file: Arc<OpenFile>,
}

impl Opened {
    /// Returns the socket.
    ///
    /// # Errors
    /// `ENOTSOCK`.
    pub fn socket(&self) -> Result<&dyn Socket, Errno> {
        socket::of(&self.file).ok_or(Errno::ENOTSOCK)
    }
    /// Returns whether a connect or an accept waits.
    fn patience(&self) -> Patience {
        if self.is_nonblocking(0) { Patience::None } else { Patience::Wait }
    }
    /// Returns whether calls must not wait, because of O_NONBLOCK or `flags` (of a message).
    pub fn is_nonblocking(&self, flags: u32) -> bool {
        flags & net::MSG_DONTWAIT != 0 || self.file.io_flags().is_nonblocking
    }
}

/// Returns the socket whose descriptor is argument 0.
///
/// # Errors
/// `EBADF`, `ENOTSOCK`.
pub fn opened(call: &Call<'_>) -> Result<Opened, Errno> {
    let opened = Opened { file: call.working_file(0)? };
    opened.socket()?;
    Ok(opened)
}

/// A socket that is to be made.
enum Asked {
    Local(SocketKind),
    Internet(AddressFamily),
    Netlink,
    Packet,
}

/// Decodes kind and flags of a type argument, for a family.
fn kind_of(task: &Task, family: i32, kind: u32, protocol: i32) -> Result<Asked, Errno> {
    check_type_flags(kind)?;
    if !(0..net::AF_MAX as i32).contains(&family) {
        return Err(Errno::EAFNOSUPPORT);
    }
    if kind & KIND_BITS >= KINDS {
        return Err(Errno::EINVAL);
    }
    if let Some(family) = internet::family_of(family) {
        internet::check(family, kind & KIND_BITS, protocol)?;
        return Ok(Asked::Internet(family));
    }
    if family == net::AF_NETLINK as i32 {
        return netlink::check(kind & KIND_BITS, protocol).map(|_| Asked::Netlink);
    }
    if family == net::AF_PACKET as i32 {
        return packet::check(task, kind & KIND_BITS).map(|_| Asked::Packet);
    }
    if family != net::AF_UNIX as i32 {
        return Err(Errno::EAFNOSUPPORT);
    }
    if protocol != 0 && protocol != net::AF_UNIX as i32 {
        return Err(Errno::EPROTONOSUPPORT);
    }
    match kind & KIND_BITS {
        net::SOCK_STREAM => Ok(Asked::Local(SocketKind::Stream)),
        // Linux treats raw sockets of this family as datagrams.
        net::SOCK_DGRAM | net::SOCK_RAW => Ok(Asked::Local(SocketKind::Datagram)),
        net::SOCK_SEQPACKET => Ok(Asked::Local(SocketKind::Packet)),
        _ => Err(Errno::ESOCKTNOSUPPORT),
    }
}

fn check_type_flags(kind: u32) -> Result<(), Errno> {
    if kind & !(KIND_BITS | TYPE_FLAGS) == 0 { Ok(()) } else { Err(Errno::EINVAL) }
}

/// Reserves a descriptor for a socket made with `flags`.
fn reserve_for<'a>(call: &Call<'a>, flags: u32) -> Result<ReservedDescriptor<'a>, Errno> {
    reserve(call.task, call.files, OnExec::from_flag(flags, SOCK_CLOEXEC))
}

/// Makes the description of a socket.
fn describe(task: &Task, socket: Arc<dyn Socket>, flags: u32) -> Result<Arc<OpenFile>, Errno> {
    let place = anonymous::socket_place(&task.credentials(), socket.common().number())?;
    Ok(OpenFile::new(socket, place, raw::O_RDWR | flags & SOCK_NONBLOCK))
}

fn socket(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (flags, protocol) = (call.uint(1), call.int(2));
    let asked = kind_of(call.task, call.int(0), flags, protocol)?;
    check_label(call.task)?;
    let made: Arc<dyn Socket> = match asked {
        Asked::Local(kind) => LocalSocket::new(kind, call.caller()),
        Asked::Internet(family) => internet::open(call.task, family, flags & KIND_BITS, protocol)?,
        Asked::Netlink => netlink::open(call.task, flags & KIND_BITS, protocol)?,
        Asked::Packet => packet::open(call.task, flags & KIND_BITS, protocol)?,
    };
    let descriptor = reserve_for(call, flags)?;
    Ok(descriptor.fill(describe(call.task, made, flags)?))
}

/// Checks that the caller may write to a socket with the label that it asked for (setsockcreatecon(3)), as to a file.
///
/// # Errors
/// `EACCES`.
fn check_label(task: &Task) -> Result<(), Errno> {
    if security::is_enforced() {
        let who = task.credentials();
        security::check(&who.subject, who.label_of_socket(), ObjectAccess::Write)?;
    }
    Ok(())
}

fn socketpair(call: &mut Call<'_>) -> Result<u64, Errno> {
    let flags = call.uint(1);
    check_type_flags(flags)?;
    let asked = kind_of(call.task, call.int(0), flags, call.int(2)).and_then(|asked| match asked {
        Asked::Local(kind) => Ok(kind),
        Asked::Internet(_) | Asked::Netlink | Asked::Packet => Err(Errno::EOPNOTSUPP),
    });
    let kind = match asked {
        Ok(kind) => kind,
        Err(error) => {
            // As on Linux, the descriptors are chosen and stored before the rest is checked.
            let told = call.files.free_pair(descriptor_limit(call.task))?;
            call.memory.write(call.word(3), &told)?;
            return Err(error);
        }
    };
    check_label(call.task)?;
    let descriptors = [reserve_for(call, flags)?, reserve_for(call, flags)?];
    call.memory.write(call.word(3), &descriptors.each_ref().map(ReservedDescriptor::number))?;
    let (first, second) = LocalSocket::pair(kind, &party(call.task), call.caller());
    let files = [describe(call.task, first, flags)?, describe(call.task, second, flags)?];
    for (descriptor, file) in descriptors.into_iter().zip(files) {
        descriptor.fill(file);
    }
    Ok(0)
}

/// Reads the address of `length` bytes at `at`.
///
/// # Errors
/// `EINVAL` for an invalid length, `EFAULT`.
pub fn read_address(memory: &AddressSpace, at: u64, length: i32) -> Result<SocketAddress, Errno> {
    let length = usize::try_from(length).map_err(|_| Errno::EINVAL)?;
    SocketAddress::fill(length, |bytes| memory.read_bytes(at, bytes))
}

/// Writes an address and its length to a program: as much of it as there is room for.
///
/// # Errors
/// `EINVAL` for a negative length, `EFAULT`.
pub fn write_address(
    memory: &AddressSpace,
    name: &SocketAddress,
    at: u64,
    length_at: u64,
) -> Result<(), Errno> {
    let room = memory.read::<i32>(length_at)?;
    let room = usize::try_from(room).map_err(|_| Errno::EINVAL)?;
    let length = write_within(memory, at, name.bytes(), room)?;
    memory.write(length_at, &(length as i32))
}

/// Writes as much of an address as there is room for. Returns its whole length.
///
/// # Errors
/// `EFAULT`.
pub fn write_within(
    memory: &AddressSpace,
    at: u64,
    bytes: &[u8],
    room: usize,
) -> Result<usize, Errno> {
    memory.write_bytes(at, bytes.get(..bytes.len().min(room)).unwrap_or_default())?;
    Ok(bytes.len())
}

fn bind(call: &mut Call<'_>) -> Result<u64, Errno> {
    let opened = opened(call)?;
    let address = read_address(call.memory, call.word(1), call.int(2))?;
    let mode = opened.file.vnode().permissions();
    opened.socket()?.bind(call.task, &address, mode)?;
    Ok(0)
}

fn listen(call: &mut Call<'_>) -> Result<u64, Errno> {
    // A negative backlog is the largest, as the comparison in Linux is unsigned.
    opened(call)?.socket()?.listen(call.task, call.uint(1) as usize)?;
    Ok(0)
}

fn connect(call: &mut Call<'_>) -> Result<u64, Errno> {
    let opened = Opened { file: call.working_file(0)? };
    let socket = opened.socket()?;
    let address = read_address(call.memory, call.word(1), call.int(2))?;
    socket.connect(call.task, &address, opened.patience())?;
    Ok(0)
}

fn accept(call: &mut Call<'_>) -> Result<u64, Errno> {
    accept_with(call, 0)
}

fn accept4(call: &mut Call<'_>) -> Result<u64, Errno> {
    let flags = call.uint(3);
    if flags & !TYPE_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    accept_with(call, flags)
}

fn accept_with(call: &Call<'_>, flags: u32) -> Result<u64, Errno> {
    let opened = Opened { file: call.working_file(0)? };
    let listener = opened.socket()?;
    // Without a descriptor for it, a connection stays where it is.
    let descriptor = reserve_for(call, flags)?;
    let made = listener.accept(opened.patience())?;
    // As on Linux, a connection whose name has no place is closed.
    let finish = || {
        let file = describe(call.task, made.clone(), flags)?;
        if call.word(1) != 0 {
            write_address(call.memory, &made.accepted_from(), call.word(1), call.word(2))?;
        }
        Ok(file)
    };
    let file = vfs::committed(finish)?;
    Ok(descriptor.fill(file))
}

fn getsockname(call: &mut Call<'_>) -> Result<u64, Errno> {
    let opened = Opened { file: call.working_file(0)? };
    let name = opened.socket()?.name();
    write_address(call.memory, &name, call.word(1), call.word(2))?;
    Ok(0)
}

fn getpeername(call: &mut Call<'_>) -> Result<u64, Errno> {
    let opened = Opened { file: call.working_file(0)? };
    let name = opened.socket()?.peer_name()?;
    write_address(call.memory, &name, call.word(1), call.word(2))?;
    Ok(0)
}

fn shutdown(call: &mut Call<'_>) -> Result<u64, Errno> {
    let opened = opened(call)?;
    let directions = match call.uint(1) {
        net::SHUT_RD => Shut::RECEIVE,
        net::SHUT_WR => Shut::SEND,
        net::SHUT_RDWR => Shut::all(),
        _ => return Err(Errno::EINVAL),
    };
    opened.socket()?.shut_down(directions)?;
    Ok(0)
}

fn sendto(call: &mut Call<'_>) -> Result<u64, Errno> {
    let mut source =
        UserSource::new(call.caller(), call.memory, call.word(1), call.word(2).min(BYTES_MAX))?;
    let opened = opened(call)?;
    let takes_none = opened.socket()?.family() == net::AF_UNIX as u16;
    let to = match (call.word(4), call.int(5)) {
        (0, _) => None,
        (_, 0) if takes_none => None,
        (at, length) => Some(read_address(call.memory, at, length)?),
    };
    let message = Outgoing { to: to.as_ref(), ..Outgoing::default() };
    super::socket_message::send(call, &opened, &mut source, (message, call.uint(3)))
}

fn recvfrom(call: &mut Call<'_>) -> Result<u64, Errno> {
    let flags = call.uint(3);
    let mut sink =
        UserSink::new(call.caller(), call.memory, call.word(1), call.word(2).min(BYTES_MAX))?;
    let opened = opened(call)?;
    let mut sender = SocketAddress::NONE;
    let wanted = (call.word(4) != 0).then_some(&mut sender);
    let found = super::socket_message::receive(&opened, &mut sink, flags, wanted)?;
    if call.word(4) != 0 {
        // The bytes were read: the copy is not refused memory.
        let tell = || tell_sender(call.memory, &sender, call.word(4), call.word(5));
        vfs::committed(tell)?;
    }
    let is_real = flags & net::MSG_TRUNC != 0;
    Ok(if is_real { found.length } else { found.count } as u64)
}

/// Does the same as [`write_address`]; a sender without a name has length 0.
fn tell_sender(
    memory: &AddressSpace,
    name: &SocketAddress,
    at: u64,
    length_at: u64,
) -> Result<(), Errno> {
    match name.bytes() {
        [] if memory.read::<i32>(length_at)? < 0 => Err(Errno::EINVAL),
        [] => memory.write(length_at, &0i32),
        _ => write_address(memory, name, at, length_at),
    }
}

fn sendmsg(call: &mut Call<'_>) -> Result<u64, Errno> {
    let opened = opened(call)?;
    let header: Header = call.memory.read(call.word(1))?;
    send_one(call, &opened, &header, call.uint(2))
}

fn recvmsg(call: &mut Call<'_>) -> Result<u64, Errno> {
    let opened = opened(call)?;
    receive_one(call, &opened, call.word(1), call.uint(2))
}

/// Bytes of a `struct mmsghdr`, and the offset of the length in it.
const MANY_BYTES: u64 = 64;
const LENGTH_AT: u64 = 56;

fn sendmmsg(call: &mut Call<'_>) -> Result<u64, Errno> {
    let opened = opened(call)?;
    let (flags, count) = (call.uint(3), call.uint(2).min(MESSAGES_MAX));
    let mut sent = 0;
    for index in 0..u64::from(count) {
        let at = call.word(1).wrapping_add(index * MANY_BYTES);
        let one = call.memory.read(at).and_then(|header| send_one(call, &opened, &header, flags));
        let told =
            one.and_then(|length| call.memory.commit(at.wrapping_add(LENGTH_AT), &(length as u32)));
        match told {
            Ok(()) => sent += 1,
            Err(error) if sent == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(sent)
}

fn recvmmsg(call: &mut Call<'_>) -> Result<u64, Errno> {
    let timeout = Timeout::read_timespec(call.memory, call.word(4))?;
    let opened = opened(call)?;
    let (mut flags, count) = (call.uint(3), call.uint(2).min(MESSAGES_MAX));
    let is_for_one = flags & MSG_WAITFORONE != 0;
    flags &= !MSG_WAITFORONE;
    let mut received = 0;
    for index in 0..u64::from(count) {
        let at = call.word(1).wrapping_add(index * MANY_BYTES);
        let one = receive_one(call, &opened, at, flags);
        let told =
            one.and_then(|length| call.memory.commit(at.wrapping_add(LENGTH_AT), &(length as u32)));
        match told {
            Ok(()) => received += 1,
            Err(error) if received == 0 => return Err(error),
            Err(_) => break,
        }
        if is_for_one {
            flags |= net::MSG_DONTWAIT;
        }
        // The time is checked after each message only, as on Linux.
        let is_late = match timeout {
            Timeout::Now => true,
            Timeout::At(until) => rt::time::now() >= until,
            Timeout::Never => false,
        };
        if is_late {
            break;
        }
    }
    timeout.write_rest(call.memory, call.word(4));
    Ok(received)
}
