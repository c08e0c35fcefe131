//! ioctl(2) calls on sockets: queues, and the interfaces of the machine (netdevice(7), tcp(7)).
use super::{LOCAL, to_raw, udp};
use crate::{check, zeroed};

/// Asks for the number of bytes that can be read.
pub const FIONREAD: u64 = 0x541b;
/// Sets or clears O_NONBLOCK.
pub const FIONBIO: u64 = 0x5421;
/// Asks for the number of bytes that were not acknowledged.
pub const SIOCOUTQ: u64 = 0x5411;
/// Asks for the number of bytes that were not sent.
pub const SIOCOUTQNSD: u64 = 0x894b;
/// Asks whether the next byte is the urgent one.
pub const SIOCATMARK: u64 = 0x8905;
/// Asks for the flags of an interface.
pub const SIOCGIFFLAGS: u64 = 0x8913;
/// Sets the flags of an interface.
pub const SIOCSIFFLAGS: u64 = 0x8914;
/// Sets the IPv4 address of an interface.
pub const SIOCSIFADDR: u64 = 0x8916;

/// Gives `lo` its address and switches it on, if it is off.
///
/// # Panics
/// Panics if the system refuses that.
pub fn bring_up_loopback() {
    let fd = udp();
    let mut request = interface("lo");
    must_ask(fd, SIOCGIFFLAGS, &mut request);
    // SAFETY: SIOCGIFFLAGS filled in this member.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    if i32::from(flags) & libc::IFF_UP == 0 {
        let (name, _) = to_raw(&LOCAL);
        // SAFETY: a storage begins with a whole sockaddr.
        request.ifr_ifru.ifru_addr = unsafe { (&raw const name).cast::<libc::sockaddr>().read() };
        must_ask(fd, SIOCSIFADDR, &mut request);
        request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as i16;
        must_ask(fd, SIOCSIFFLAGS, &mut request);
    }
    crate::close(fd);
}

/// Returns a request about the interface of this name.
pub fn interface(name: &str) -> libc::ifreq {
    // SAFETY: plain bytes.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    request
}

/// Makes an ioctl call with a structure.
///
/// # Errors
/// The error number.
pub fn ask<T>(fd: i32, request: u64, argument: &mut T) -> Result<i64, i32> {
    // SAFETY: the caller passes the structure of the request.
    check(unsafe { libc::ioctl(fd, request as _, argument as *mut T) })
}

#[track_caller]
fn must_ask(fd: i32, request: u64, argument: &mut libc::ifreq) {
    let answer = ask(fd, request, argument);
    assert!(answer.is_ok(), "a request about an interface: {answer:?}");
}

/// Makes an ioctl call that answers a number.
///
/// # Errors
/// The error number.
pub fn ask_number(fd: i32, request: u64) -> Result<i32, i32> {
    let mut number = 0i32;
    ask(fd, request, &mut number).map(|_| number)
}
