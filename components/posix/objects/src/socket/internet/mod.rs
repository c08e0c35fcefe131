//! AF_INET and AF_INET6 (ip(7), ipv6(7), tcp(7), udp(7), raw(7), icmp(7)), over the network stack that the system has.
//!
//! ```text
//! InternetStream (TCP)   InternetDatagram (UDP, ping, raw)
//!    | bytes: Stream         | messages: DatagramQueue        <- made here, filled and emptied by both sides
//!    | control: StreamSocket | control: DatagramSocket        <- the stack's
//! interfaces::sockets::Network
//! ```
//! Parts: [`address`], `network` (the stack, and the numbers of its errors), `settings` (the values of options), `options`
//! (the table of options), `wakes` (the queues of waiting threads, which the stack wakes), `stream`, `datagram`.
//!
//! Locks: `internet.control` (a call that changes the socket, over calls of the stack) > the stack's > `internet.backlog`,
//! `internet.settings`, `internet.stream`, wait queues. The stack calls [`wakes::SocketWakes`] and the acceptor of a listener, which
//! take none but the last group.
pub mod address;
mod datagram;
mod network;
mod options;
mod seen;
mod settings;
mod stream;
#[cfg(test)]
mod test_support;
mod wakes;
mod zero_copy;

pub use address::AddressFamily;
pub use datagram::InternetDatagram;
pub(in crate::socket) use datagram::time_of;
pub use network::{administration, label_network, link_named, link_numbered, set_network, tunnels};
pub(in crate::socket) use network::{errno, is_safe, taps};
pub use seen::administration_for;
pub use settings::{
    BIND_VERSION6_ONLY, PING_GROUP_FIRST, PING_GROUP_LAST, UNPRIVILEGED_PORT_START,
};
pub use stream::{InternetStream, MODERATES_RECEIVE, RECEIVE_SPACE, SEND_SPACE};

pub use super::option_input::OptionInput;

use super::interface::{Socket, SocketKind};
use alloc::sync::Arc;
use interfaces::sockets::DatagramProtocol;
use linux_raw_sys::net;
use network::{NETWORK, SocketMaker};
use process::Task;
use vfs::{Capabilities, Errno};

/// Number above all protocols: that of IPPROTO_MPTCP is 262.
const PROTOCOLS: i32 = 263;
const TCP: i32 = net::IPPROTO_TCP as i32;
const UDP: i32 = net::IPPROTO_UDP as i32;
const UDP_LITE: i32 = net::IPPROTO_UDPLITE as i32;
const ICMP: i32 = net::IPPROTO_ICMP as i32;
const ICMP6: i32 = net::IPPROTO_ICMPV6 as i32;

/// The protocol of a socket that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Tcp,
    Datagram(SocketKind, DatagramProtocol),
}

/// Returns the family with this number, if the system has it.
pub fn family_of(number: i32) -> Option<AddressFamily> {
    NETWORK.get()?;
    [AddressFamily::V4, AddressFamily::V6]
        .into_iter()
        .find(|family| i32::from(family.number()) == number)
}

/// Looks for the protocol of a type (socket(2)).
fn protocol_of(family: AddressFamily, kind: u32, protocol: i32) -> Result<Protocol, Errno> {
    if !(0..PROTOCOLS).contains(&protocol) {
        return Err(Errno::EINVAL);
    }
    let ping = if family == AddressFamily::V4 { ICMP } else { ICMP6 };
    let datagram = |protocol| Ok(Protocol::Datagram(SocketKind::Datagram, protocol));
    match (kind, protocol) {
        (net::SOCK_STREAM, 0 | TCP) => Ok(Protocol::Tcp),
        (net::SOCK_DGRAM, 0 | UDP) => datagram(DatagramProtocol::Udp),
        (net::SOCK_DGRAM, UDP_LITE) => datagram(DatagramProtocol::UdpLite),
        (net::SOCK_DGRAM, number) if number == ping => datagram(DatagramProtocol::Ping),
        (net::SOCK_RAW, 1..) => match u8::try_from(protocol) {
            Ok(number) => Ok(Protocol::Datagram(SocketKind::Raw, DatagramProtocol::Raw(number))),
            Err(_) => Err(Errno::EPROTONOSUPPORT),
        },
        (net::SOCK_STREAM | net::SOCK_DGRAM | net::SOCK_RAW, _) => Err(Errno::EPROTONOSUPPORT),
        _ => Err(Errno::ESOCKTNOSUPPORT),
    }
}

/// Checks the arguments of socket(2) without making a socket, as socketpair(2) does before it fails.
///
/// # Errors
/// As [`open`].
pub fn check(family: AddressFamily, kind: u32, protocol: i32) -> Result<(), Errno> {
    protocol_of(family, kind, protocol).map(|_| ())
}

/// Makes a socket for `task` (socket(2)).
///
/// # Errors
/// `EINVAL` for a number that no protocol has, `ESOCKTNOSUPPORT`, `EPROTONOSUPPORT`, `EPERM` for a raw socket without
/// CAP_NET_RAW, `EACCES` for a ping socket of a group that may not have one and in a system whose packets should have labels, `EAFNOSUPPORT` without a stack, `ENOBUFS`.
pub fn open(
    task: &Task,
    family: AddressFamily,
    kind: u32,
    protocol: i32,
) -> Result<Arc<dyn Socket>, Errno> {
    let network = NETWORK.get().ok_or(Errno::EAFNOSUPPORT)?;
    if !is_safe() {
        return Err(Errno::EACCES);
    }
    let who = task.credentials();
    match protocol_of(family, kind, protocol)? {
        Protocol::Tcp => Ok(InternetStream::open(&**network, family, SocketMaker::of(&who))?),
        Protocol::Datagram(kind, protocol) => {
            match protocol {
                DatagramProtocol::Raw(_) if !who.has(Capabilities::NET_RAW) => {
                    return Err(Errno::EPERM);
                }
                DatagramProtocol::Ping => {
                    let is_allowed = |group: u32| {
                        let group = i64::from(group);
                        (PING_GROUP_FIRST.get()..=PING_GROUP_LAST.get()).contains(&group)
                    };
                    let mut groups = who.groups.iter().copied();
                    if !is_allowed(who.group.effective) && !groups.any(is_allowed) {
                        return Err(Errno::EACCES);
                    }
                }
                _ => {}
            }
            let maker = SocketMaker::of(&who);
            Ok(InternetDatagram::open(&**network, (family, kind), protocol, maker)?)
        }
    }
}
