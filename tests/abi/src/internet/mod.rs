//! Sockets of the Internet families for the ABI tests, each call answering its error number (ip(7), ipv6(7), tcp(7), udp(7)).
//!
//! Everything goes over loopback. Each test has its own port, because it binds to port 0, and on Linux as root also its own
//! network namespace, because [`networked`] makes one.
pub mod administration;
pub mod messages;
pub mod requests;
pub mod sleepers;

use crate::{check, jobs::limited, must, zeroed};
use std::{
    mem::size_of,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6},
};

pub use requests::*;

pub use libc::{
    AF_INET, AF_INET6, IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, IPPROTO_UDP, MSG_DONTWAIT, MSG_PEEK,
    MSG_TRUNC, POLLERR, POLLHUP, POLLIN, POLLOUT, POLLPRI, POLLRDHUP, SHUT_RD, SHUT_RDWR, SHUT_WR,
    SOCK_DGRAM, SOCK_NONBLOCK, SOCK_RAW, SOCK_STREAM, SOL_SOCKET,
};

/// 127.0.0.1 and no port: bind chooses one.
pub const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// ::1 and no port.
pub const LOCAL6: SocketAddr = SocketAddr::new(std::net::IpAddr::V6(Ipv6Addr::LOCALHOST), 0);
/// 0.0.0.0 and no port.
pub const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
/// :: and no port.
pub const ANY6: SocketAddr = SocketAddr::new(std::net::IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);
/// An address of no interface (RFC 5737).
pub const FOREIGN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 9);
/// Number of CAP_NET_BIND_SERVICE.
pub const CAP_NET_BIND_SERVICE: u32 = 10;
/// Number of CAP_NET_ADMIN.
pub const CAP_NET_ADMIN: u32 = 12;
/// Number of CAP_NET_RAW.
pub const CAP_NET_RAW: u32 = 13;
/// Most time that a test may take, in seconds.
const ALARM_SECONDS: u32 = 90;
/// Every event that poll(2) can be asked for.
pub const ALL_EVENTS: i16 =
    POLLIN | POLLPRI | POLLOUT | POLLRDHUP | libc::POLLRDNORM | libc::POLLWRNORM | libc::POLLRDBAND;

/// Runs a test's body in a process of its own, in which loopback is up. On Linux as root it has a network namespace of its own.
///
/// # Panics
/// Panics if the body panicked or died.
#[track_caller]
pub fn networked(body: impl FnOnce()) {
    limited(|| {
        // SAFETY: a plain number.
        unsafe { libc::unshare(libc::CLONE_NEWNET) };
        // SAFETY: plain numbers.
        unsafe { libc::alarm(ALARM_SECONDS) };
        bring_up_loopback();
        body();
    });
}

/// Takes a capability from the effective set of the calling thread.
///
/// # Panics
/// Panics if the system refuses that.
pub fn drop_capability(number: u32) {
    let mut header = [0x2008_0522u32, 0];
    let mut sets = [[0u32; 3]; 2];
    // SAFETY: version 3 of the structures, which live here.
    must(unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr()) });
    sets[0][0] &= !(1 << number);
    // SAFETY: version 3 of the structures, which live here.
    must(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) });
}

/// Forks a child that runs `body` and ends by SIGALRM if it hangs. Returns its id.
pub fn start_child(body: impl FnOnce()) -> libc::pid_t {
    crate::fork(|| {
        // SAFETY: plain numbers.
        unsafe { libc::alarm(ALARM_SECONDS) };
        body();
    })
}

/// Runs `body` in a child without a capability.
///
/// # Panics
/// Panics if the child did not exit with status 0.
#[track_caller]
pub fn without(capability: u32, body: impl FnOnce()) {
    let child = start_child(|| {
        drop_capability(capability);
        body();
    });
    assert_eq!(crate::wait(child), crate::Ended::Exited(0));
}

/// Makes a socket.
///
/// # Errors
/// The error number.
pub fn try_socket(family: i32, kind: i32, protocol: i32) -> Result<i32, i32> {
    // SAFETY: plain numbers.
    check(unsafe { libc::socket(family, kind, protocol) }).map(|fd| fd as i32)
}

/// Makes a socket that must be there.
///
/// # Panics
/// Panics if it is refused.
#[track_caller]
pub fn socket(family: i32, kind: i32) -> i32 {
    try_socket(family, kind, 0).expect("a socket")
}

/// Makes a TCP socket over IPv4.
pub fn tcp() -> i32 {
    socket(AF_INET, SOCK_STREAM)
}

/// Makes a UDP socket over IPv4.
pub fn udp() -> i32 {
    socket(AF_INET, SOCK_DGRAM)
}

/// Returns an address in the kernel's form, with zeroes up to 200 bytes.
pub fn padded(address: SocketAddr) -> Vec<u8> {
    let (raw, length) = to_raw(&address);
    let mut bytes = bytes_of(&raw, length).to_vec();
    bytes.resize(200, 0);
    bytes
}

/// Returns the kernel's form of an address, and its length.
pub fn to_raw(address: &SocketAddr) -> (libc::sockaddr_storage, u32) {
    // SAFETY: plain bytes.
    let mut storage: libc::sockaddr_storage = unsafe { zeroed() };
    let place = (&raw mut storage).cast::<u8>();
    let bytes = match address {
        SocketAddr::V4(address) => {
            let mut bytes = (AF_INET as u16).to_ne_bytes().to_vec();
            bytes.extend(address.port().to_be_bytes());
            bytes.extend(address.ip().octets());
            bytes.resize(size_of::<libc::sockaddr_in>(), 0);
            bytes
        }
        SocketAddr::V6(address) => {
            let mut bytes = (AF_INET6 as u16).to_ne_bytes().to_vec();
            bytes.extend(address.port().to_be_bytes());
            bytes.extend(address.flowinfo().to_ne_bytes());
            bytes.extend(address.ip().octets());
            bytes.extend(address.scope_id().to_ne_bytes());
            bytes
        }
    };
    // SAFETY: a storage is longer than either address.
    unsafe { place.copy_from(bytes.as_ptr(), bytes.len()) };
    (storage, bytes.len() as u32)
}

/// Converts an address from the kernel's form; `None` if it is of another family or cut.
pub fn from_raw(bytes: &[u8]) -> Option<SocketAddr> {
    let number = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let family = i32::from(number(0)?.swap_bytes());
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    match family {
        AF_INET => {
            let octets: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            Some(SocketAddr::new(Ipv4Addr::from(octets).into(), number(2)?))
        }
        AF_INET6 => {
            let octets: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            let ip = Ipv6Addr::from(octets);
            Some(SocketAddrV6::new(ip, number(2)?, word(4)?, word(24)?).into())
        }
        _ => None,
    }
}

/// Returns the bytes of a storage, as many as `length` tells.
pub fn bytes_of(storage: &libc::sockaddr_storage, length: u32) -> &[u8] {
    let most = (length as usize).min(size_of::<libc::sockaddr_storage>());
    // SAFETY: at most the storage itself, and all of it is initialised.
    unsafe { std::slice::from_raw_parts((storage as *const libc::sockaddr_storage).cast(), most) }
}

/// Returns 127.0.0.1 or another address of IPv4 with a port.
pub fn v4(octets: [u8; 4], port: u16) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::from(octets).into(), port)
}

/// Returns the same address with this port.
pub fn at_port(address: SocketAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address.ip(), port)
}

/// Gives a socket a name.
///
/// # Errors
/// The error number.
pub fn bind(fd: i32, address: SocketAddr) -> Result<i64, i32> {
    let (raw, length) = to_raw(&address);
    // SAFETY: the address lives here.
    check(unsafe { libc::bind(fd, (&raw const raw).cast(), length) })
}

/// Connects a socket.
///
/// # Errors
/// The error number.
pub fn connect(fd: i32, address: SocketAddr) -> Result<i64, i32> {
    let (raw, length) = to_raw(&address);
    // SAFETY: the address lives here.
    check(unsafe { libc::connect(fd, (&raw const raw).cast(), length) })
}

/// Connects a socket to no family, which dissolves its connection (connect(2), AF_UNSPEC).
///
/// # Errors
/// The error number.
pub fn disconnect(fd: i32) -> Result<i64, i32> {
    let raw = [0u8; 16];
    // SAFETY: the address lives here.
    check(unsafe { libc::connect(fd, raw.as_ptr().cast(), 16) })
}

/// Makes a listener of a socket.
///
/// # Errors
/// The error number.
pub fn listen(fd: i32, backlog: i32) -> Result<i64, i32> {
    // SAFETY: plain numbers.
    check(unsafe { libc::listen(fd, backlog) })
}

/// Accepts a connection. Returns its socket and its peer's name.
///
/// # Errors
/// The error number.
pub fn accept_from(fd: i32, flags: i32) -> Result<(i32, SocketAddr), i32> {
    // SAFETY: plain bytes.
    let mut raw: libc::sockaddr_storage = unsafe { zeroed() };
    let mut length = size_of::<libc::sockaddr_storage>() as u32;
    // SAFETY: room for the address and its length.
    let child = check(unsafe { libc::accept4(fd, (&raw mut raw).cast(), &raw mut length, flags) })?;
    Ok((child as i32, from_raw(bytes_of(&raw, length)).expect("a peer's name")))
}

/// Accepts a connection.
///
/// # Errors
/// The error number.
pub fn accept(fd: i32) -> Result<i32, i32> {
    accept_from(fd, 0).map(|(child, _)| child)
}

type NameCall =
    unsafe extern "C" fn(libc::c_int, *mut libc::sockaddr, *mut libc::socklen_t) -> libc::c_int;

fn name_by(fd: i32, call: NameCall) -> Result<SocketAddr, i32> {
    // SAFETY: plain bytes.
    let mut raw: libc::sockaddr_storage = unsafe { zeroed() };
    let mut length = size_of::<libc::sockaddr_storage>() as u32;
    // SAFETY: room for the address and its length.
    check(unsafe { call(fd, (&raw mut raw).cast(), &raw mut length) })?;
    Ok(from_raw(bytes_of(&raw, length)).expect("an Internet name"))
}

/// Returns a socket's own name (getsockname(2)).
///
/// # Errors
/// The error number.
pub fn name(fd: i32) -> Result<SocketAddr, i32> {
    name_by(fd, libc::getsockname)
}

/// Returns the name of a socket's peer (getpeername(2)).
///
/// # Errors
/// The error number.
pub fn peer(fd: i32) -> Result<SocketAddr, i32> {
    name_by(fd, libc::getpeername)
}

/// Sends bytes.
///
/// # Errors
/// The error number.
pub fn send(fd: i32, data: &[u8], flags: i32) -> Result<usize, i32> {
    // SAFETY: the slice is readable for its length.
    check(unsafe { libc::send(fd, data.as_ptr().cast(), data.len(), flags) } as i64)
        .map(|count| count as usize)
}

/// Sends bytes to an address.
///
/// # Errors
/// The error number.
pub fn send_to(fd: i32, data: &[u8], to: SocketAddr) -> Result<usize, i32> {
    let (raw, length) = to_raw(&to);
    let (from, to) = (data.as_ptr().cast(), (&raw const raw).cast());
    // SAFETY: the slice is readable for its length, and the address lives here.
    check(unsafe { libc::sendto(fd, from, data.len(), 0, to, length) } as i64)
        .map(|count| count as usize)
}

/// Receives up to `most` bytes with one call.
///
/// # Errors
/// The error number.
pub fn receive(fd: i32, most: usize, flags: i32) -> Result<Vec<u8>, i32> {
    let mut bytes = vec![0; most];
    // SAFETY: the buffer is `most` long.
    let count = check(unsafe { libc::recv(fd, bytes.as_mut_ptr().cast(), most, flags) } as i64)?;
    bytes.truncate(count as usize);
    Ok(bytes)
}

/// Receives a datagram of up to `most` bytes, and the name of its sender.
///
/// # Errors
/// The error number.
pub fn receive_from(fd: i32, most: usize, flags: i32) -> Result<(Vec<u8>, SocketAddr), i32> {
    let mut bytes = vec![0; most];
    // SAFETY: plain bytes.
    let mut raw: libc::sockaddr_storage = unsafe { zeroed() };
    let mut length = size_of::<libc::sockaddr_storage>() as u32;
    let (into, from) = (bytes.as_mut_ptr().cast(), (&raw mut raw).cast());
    // SAFETY: the buffer is `most` long, and there is room for the address and its length.
    let count =
        check(unsafe { libc::recvfrom(fd, into, most, flags, from, &raw mut length) } as i64)?;
    bytes.truncate(count as usize);
    Ok((bytes, from_raw(bytes_of(&raw, length)).expect("a sender's name")))
}

/// Receives until `count` bytes have come or the stream has ended.
///
/// # Panics
/// Panics if a call fails.
#[track_caller]
pub fn receive_all(fd: i32, count: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < count {
        match receive(fd, count - all.len(), 0) {
            Ok(bytes) if bytes.is_empty() => break,
            Ok(bytes) => all.extend(bytes),
            Err(error) => panic!("error {error} after {} of {count} bytes", all.len()),
        }
    }
    all
}

/// Ends one or both directions of a connection.
///
/// # Errors
/// The error number.
pub fn shut_down(fd: i32, how: i32) -> Result<i64, i32> {
    // SAFETY: plain numbers.
    check(unsafe { libc::shutdown(fd, how) })
}

/// Returns the bytes of an option for which there is room for `room`.
///
/// # Errors
/// The error number.
pub fn option_bytes(fd: i32, level: i32, option: i32, room: usize) -> Result<Vec<u8>, i32> {
    let mut bytes = vec![0u8; room];
    let mut length = room as u32;
    let at = bytes.as_mut_ptr().cast();
    // SAFETY: the buffer is `room` long.
    check(unsafe { libc::getsockopt(fd, level, option, at, &raw mut length) })?;
    bytes.truncate(length as usize);
    Ok(bytes)
}

/// Returns an option that is a structure; the part that the kernel did not write is zero.
///
/// # Errors
/// The error number.
///
/// # Safety
/// All zeroes, and whatever the kernel writes, must be a valid `T`.
pub unsafe fn option_of<T>(fd: i32, level: i32, option: i32) -> Result<T, i32> {
    // SAFETY: the caller says so.
    let mut value: T = unsafe { zeroed() };
    let mut length = size_of::<T>() as u32;
    let at = (&raw mut value).cast();
    // SAFETY: room for a `T`.
    check(unsafe { libc::getsockopt(fd, level, option, at, &raw mut length) })?;
    Ok(value)
}

/// Returns an option that is a number.
///
/// # Errors
/// The error number.
pub fn number(fd: i32, level: i32, option: i32) -> Result<i32, i32> {
    // SAFETY: a number.
    unsafe { option_of(fd, level, option) }
}

/// Sets an option to a plain structure.
///
/// # Errors
/// The error number.
pub fn set<T>(fd: i32, level: i32, option: i32, value: T) -> Result<i64, i32> {
    let (at, length) = ((&raw const value).cast(), size_of::<T>() as u32);
    // SAFETY: the value lives here.
    check(unsafe { libc::setsockopt(fd, level, option, at, length) })
}

/// Sets an option to some bytes.
///
/// # Errors
/// The error number.
pub fn set_bytes(fd: i32, level: i32, option: i32, bytes: &[u8]) -> Result<i64, i32> {
    let (at, length) = (bytes.as_ptr().cast(), bytes.len() as u32);
    // SAFETY: the slice is readable for its length.
    check(unsafe { libc::setsockopt(fd, level, option, at, length) })
}

/// Sets an option to 1.
///
/// # Panics
/// Panics if that is refused.
#[track_caller]
pub fn switch_on(fd: i32, level: i32, option: i32) {
    assert_eq!(set(fd, level, option, 1i32), Ok(0), "option {option} of level {level}");
}

/// Returns and clears the error of a socket (SO_ERROR).
///
/// # Panics
/// Panics if the call fails.
#[track_caller]
pub fn pending_error(fd: i32) -> i32 {
    number(fd, SOL_SOCKET, libc::SO_ERROR).expect("SO_ERROR")
}

/// Returns the events of a descriptor without waiting.
pub fn polled(fd: i32, events: i16) -> i16 {
    let mut entry = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: one entry.
    must(unsafe { libc::poll(&raw mut entry, 1, 0) });
    entry.revents
}

/// Waits until all of `events` are there. Returns all events of the descriptor.
pub fn await_events(fd: i32, events: i16) -> i16 {
    for missing in (0..16).map(|bit| events & 1 << bit).filter(|bit| *bit != 0) {
        let mut entry = libc::pollfd { fd, events: missing, revents: 0 };
        while entry.revents & missing == 0 {
            // SAFETY: one entry.
            must(unsafe { libc::poll(&raw mut entry, 1, -1) });
        }
    }
    polled(fd, ALL_EVENTS)
}

/// Sets or clears O_NONBLOCK by FIONBIO.
pub fn set_nonblocking(fd: i32) {
    let mut on = 1i32;
    assert_eq!(ask(fd, FIONBIO, &mut on), Ok(0));
}

/// Makes a socket that is bound to `address`. Returns it and its name.
///
/// # Panics
/// Panics if a call fails.
#[track_caller]
pub fn bound(kind: i32, address: SocketAddr) -> (i32, SocketAddr) {
    let family = if address.is_ipv4() { AF_INET } else { AF_INET6 };
    let fd = socket(family, kind);
    assert_eq!(bind(fd, address), Ok(0), "{address}");
    (fd, name(fd).expect("a name"))
}

/// Makes a listener at `address`. Returns it and its name.
///
/// # Panics
/// Panics if a call fails.
#[track_caller]
pub fn listener(address: SocketAddr) -> (i32, SocketAddr) {
    let (fd, name) = bound(SOCK_STREAM, address);
    assert_eq!(listen(fd, 16), Ok(0));
    (fd, name)
}

/// Makes a connection to `listener`. Returns its two ends, first the one that connected.
///
/// # Panics
/// Panics if a call fails.
#[track_caller]
pub fn connection_to(listener: i32) -> (i32, i32) {
    let to = name(listener).expect("a listener's name");
    let client = socket(if to.is_ipv4() { AF_INET } else { AF_INET6 }, SOCK_STREAM);
    assert_eq!(connect(client, to), Ok(0));
    (client, accept(listener).expect("a connection"))
}

/// Makes a TCP connection over `address`. Returns its two ends, first the one that connected.
pub fn tcp_pair_over(address: SocketAddr) -> (i32, i32) {
    let (listener, _) = listener(address);
    let pair = connection_to(listener);
    crate::close(listener);
    pair
}

/// Makes a TCP connection over 127.0.0.1. Returns its two ends, first the one that connected.
pub fn tcp_pair() -> (i32, i32) {
    tcp_pair_over(LOCAL)
}

/// Makes two UDP sockets on `address` that are connected to each other.
///
/// # Panics
/// Panics if a call fails.
#[track_caller]
pub fn udp_pair_over(address: SocketAddr) -> (i32, i32) {
    let ((one, name), (other, other_name)) =
        (bound(SOCK_DGRAM, address), bound(SOCK_DGRAM, address));
    assert_eq!((connect(one, other_name), connect(other, name)), (Ok(0), Ok(0)));
    (one, other)
}

/// Makes two UDP sockets on 127.0.0.1 that are connected to each other.
pub fn udp_pair() -> (i32, i32) {
    udp_pair_over(LOCAL)
}

/// Returns an address at which nothing listens: a socket that is closed again had the port.
pub fn closed_port(kind: i32) -> SocketAddr {
    let (fd, name) = bound(kind, LOCAL);
    crate::close(fd);
    name
}

/// Makes a socket that asked for its port by number: unlike one that bind chose, it outlives a connection. Returns it and its
/// name.
///
/// # Panics
/// Panics if a call fails.
#[track_caller]
pub fn bound_by_number(kind: i32) -> (i32, SocketAddr) {
    bound(kind, closed_port(kind))
}
