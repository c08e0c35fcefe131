//! AF_NETLINK (netlink(7)): the way by which programs administrate the network and hear of its changes. What messages say is the
//! crate `netadmin`'s; here are sockets, ports, groups and queues.
//!
//! A request is answered during the send: prompt answers go to the queue at once, and datagrams of a dump follow as the program
//! reads. A queue that is full loses messages, and the next receive fails with `ENOBUFS`.
//!
//! Locks: `netlink.ports` > `netlink.socket` > wait queues. The network calls [`hub`] without a lock of its own.
mod audit;
mod family;
mod hub;
mod options;
mod queue;
mod world;

use super::{
    common::SocketCommon,
    interface::{Identity, Socket, SocketAddress, SocketKind},
    local::identity_of,
};
use alloc::sync::{Arc, Weak};
use bpf::PacketFacts;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use labels::SecrecyId;
use linux_raw_sys::net;
use netadmin::session::NetlinkProtocol;
use process::{Task, audit::backlog};
use queue::{Loss, Parcel, ParcelQueue};
use rt::{lock_class, sync::Mutex};
use vfs::{
    Capabilities, Errno,
    poll::WaitQueue,
    security::{self, Level, SecuritySubject},
};

use audit::AuditCaller;
pub use hub::policy_loaded;
pub use world::{ioctl_number, table};

lock_class! {
    static STATE = "netlink.socket";
}

/// AF_NETLINK.
pub(super) const FAMILY: u16 = net::AF_NETLINK as u16;
/// Number above all protocols (`MAX_LINKS`).
const PROTOCOLS: i32 = 32;
/// Bytes of `struct sockaddr_nl`: family, padding, port, groups.
const ADDRESS_BYTES: usize = 12;

/// The part of a socket that its lock guards.
#[derive(Default)]
struct SocketPart {
    /// Zero before it is bound.
    port: u32,
    /// Port and group that messages go to; zero for the kernel, and for none.
    peer: (u32, u32),
    /// Groups that it listens to, a bit each.
    groups: u64,
    /// It has listened to a group, or tried to: only then groups are listed (`netlink_realloc_groups`).
    has_groups: bool,
    queue: ParcelQueue,
}

/// A socket of AF_NETLINK.
pub struct NetlinkSocket {
    this: Weak<NetlinkSocket>,
    common: SocketCommon,
    protocol: NetlinkProtocol,
    /// The secrecy of its messages.
    label: SecrecyId,
    state: Mutex<SocketPart>,
    /// Options of SOL_NETLINK that are on, a bit each.
    switches: AtomicU32,
    arrived: WaitQueue,
    /// SO_SNDBUF; zero for the default.
    send_limit: AtomicUsize,
}

/// A program that sends.
struct NetlinkSender<'t> {
    task: &'t Task,
    identity: Identity,
    /// It may change the network (CAP_NET_ADMIN, and its label).
    may_administer: bool,
    subject: Arc<SecuritySubject>,
}

impl NetlinkSender<'_> {
    fn of(task: &Task) -> NetlinkSender<'_> {
        let who = task.credentials();
        let (may_administer, subject) =
            (security::may_configure_network(&who), who.subject.clone());
        NetlinkSender { task, identity: identity_of(task), may_administer, subject }
    }
}

/// Returns the protocol and type of a socket that is to be made (socket(2)).
///
/// # Errors
/// `ESOCKTNOSUPPORT`, `EPROTONOSUPPORT`.
pub fn check(kind: u32, protocol: i32) -> Result<(SocketKind, NetlinkProtocol), Errno> {
    let kind = match kind {
        net::SOCK_RAW => SocketKind::Raw,
        net::SOCK_DGRAM => SocketKind::Datagram,
        _ => return Err(Errno::ESOCKTNOSUPPORT),
    };
    let found = (0..PROTOCOLS).contains(&protocol).then(|| NetlinkProtocol::of_number(protocol));
    let is_there =
        |found: &NetlinkProtocol| *found != NetlinkProtocol::Policy || security::is_enforced();
    Ok((kind, found.flatten().filter(is_there).ok_or(Errno::EPROTONOSUPPORT)?))
}

/// Makes a socket (socket(2)).
///
/// # Errors
/// As [`check`].
pub fn open(task: &Task, kind: u32, protocol: i32) -> Result<Arc<dyn Socket>, Errno> {
    let (kind, protocol) = check(kind, protocol)?;
    let label = task.credentials().label_of_socket().secrecy();
    Ok(NetlinkSocket::new((kind, protocol), label, task.process.level()))
}

/// An address: a port, and groups as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct NetlinkAddress {
    port: u32,
    groups: u32,
}

impl NetlinkAddress {
    /// Returns the first group; zero for none.
    fn group(self) -> u32 {
        if self.groups == 0 { 0 } else { self.groups.trailing_zeros() + 1 }
    }
    /// Reads an address of a program.
    fn decode(address: &SocketAddress) -> Result<NetlinkAddress, Errno> {
        let bytes = address.bytes();
        let word = |at: usize| {
            let bytes = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
            bytes.map(|bytes| u32::from_le_bytes(*bytes)).ok_or(Errno::EINVAL)
        };
        if bytes.len() < ADDRESS_BYTES || address.family() != Some(FAMILY) {
            return Err(Errno::EINVAL);
        }
        Ok(NetlinkAddress { port: word(4)?, groups: word(8)? })
    }
    fn encode(self) -> SocketAddress {
        let family = FAMILY.to_le_bytes();
        let (port, groups) = (self.port.to_le_bytes(), self.groups.to_le_bytes());
        SocketAddress::of_parts(&[&family, &[0; 2], &port, &groups])
    }
}

/// Returns the bit of a group in an address, if it has one.
fn group_bit(group: u32) -> u32 {
    group.checked_sub(1).and_then(|place| 1u32.checked_shl(place)).unwrap_or(0)
}

impl NetlinkSocket {
    fn new(
        (kind, protocol): (SocketKind, NetlinkProtocol),
        label: SecrecyId,
        level: &'static Level,
    ) -> Arc<NetlinkSocket> {
        match protocol {
            NetlinkProtocol::Audit => audit::listen(),
            _ => hub::listen(),
        }
        Arc::new_cyclic(|this| NetlinkSocket {
            this: this.clone(),
            common: SocketCommon::new(kind, level),
            protocol,
            label,
            state: Mutex::new(&STATE, SocketPart::default()),
            switches: AtomicU32::new(0),
            arrived: WaitQueue::new(),
            send_limit: AtomicUsize::new(0),
        })
    }
    /// Returns whether an option of SOL_NETLINK is on.
    fn is_on(&self, option: u32) -> bool {
        self.switches.load(Ordering::Relaxed) >> option & 1 != 0
    }
    /// Takes a port: `wanted`, or one of the stack's choice for zero (`netlink_autobind`).
    ///
    /// # Errors
    /// `EADDRINUSE`.
    fn take_port(&self, sender: &NetlinkSender<'_>, wanted: u32) -> Result<u32, Errno> {
        let port = hub::take(self.protocol, wanted, sender.identity.process, &self.this);
        let port = port.ok_or(Errno::EADDRINUSE)?;
        let mut state = self.state.lock();
        if state.port == 0 {
            state.port = port;
            return Ok(port);
        }
        // Another thread was faster.
        let bound = state.port;
        drop(state);
        hub::release(self.protocol, port);
        Ok(bound)
    }
    /// Returns its port, which it gets now if it has none.
    fn port(&self, sender: &NetlinkSender<'_>) -> Result<u32, Errno> {
        let bound = self.state.lock().port;
        if bound != 0 { Ok(bound) } else { self.take_port(sender, 0) }
    }
    /// Checks the right to listen to groups, which any program has for those of the kernel.
    fn check_listen(&self, task: &Task) -> Result<(), Errno> {
        let may_listen = match self.protocol {
            NetlinkProtocol::Users => is_administrator(task),
            NetlinkProtocol::Audit => audit::may_listen(task),
            _ => true,
        };
        if may_listen { Ok(()) } else { Err(Errno::EPERM) }
    }
    /// Checks the right to send to programs and groups.
    fn check_send(&self, sender: &NetlinkSender<'_>, port: u32, groups: u32) -> Result<(), Errno> {
        let is_free = self.protocol == NetlinkProtocol::Users || port == 0 && groups == 0;
        if is_free || sender.may_administer { Ok(()) } else { Err(Errno::EPERM) }
    }
    fn name_to(&self, task: &Task, address: NetlinkAddress) -> Result<(), Errno> {
        if address.groups != 0 {
            self.check_listen(task)?;
        }
        let bound = self.state.lock().port;
        if bound != 0 && bound != address.port {
            return Err(Errno::EINVAL);
        }
        if bound == 0 {
            self.take_port(&NetlinkSender::of(task), address.port)?;
        }
        let known = match self.protocol.groups() {
            32.. => u32::MAX,
            groups => (1 << groups) - 1,
        };
        let mut state = self.state.lock();
        state.has_groups |= address.groups != 0;
        state.groups = state.groups & !u64::from(u32::MAX) | u64::from(address.groups & known);
        Ok(())
    }
    /// Returns the number of bytes of a message that the filter leaves.
    fn admitted(&self, bytes: &[u8]) -> usize {
        let facts = || PacketFacts { protocol: self.protocol as u16, ..PacketFacts::default() };
        // A message has a byte at least, so none is left only if the filter says so.
        self.common.filter.admit(&bytes, facts)
    }
    /// Puts a message into the queue, unless it is full.
    fn deliver(&self, mut parcel: Parcel) {
        match self.admitted(&parcel.bytes) {
            0 => return,
            kept if kept < parcel.bytes.len() => {
                parcel.bytes = parcel.bytes.get(..kept).unwrap_or_default().into();
            }
            _ => {}
        }
        let limit = Socket::receive_buffer(self);
        self.state.lock().queue.push(parcel, limit, self.loss());
        self.arrived.wake();
    }
    /// Hears that messages to its groups were lost before they came here.
    fn lose(&self) {
        self.state.lock().queue.lose(self.loss());
        self.arrived.wake();
    }
    fn loss(&self) -> Loss {
        if self.is_on(options::NO_ENOBUFS) { Loss::Silent } else { Loss::Told }
    }
    /// Returns whether it listens to any group.
    fn hears_any(&self) -> bool {
        self.state.lock().groups != 0
    }
    /// Returns whether it listens to a group.
    fn hears(&self, group: u32) -> bool {
        let bit = group.checked_sub(1).and_then(|place| 1u64.checked_shl(place)).unwrap_or(0);
        self.state.lock().groups & bit != 0
    }
    /// Ends its use.
    fn end(&self) {
        let port = {
            let mut state = self.state.lock();
            state.queue = ParcelQueue::default();
            state.groups = 0;
            core::mem::take(&mut state.port)
        };
        if port != 0 {
            hub::release(self.protocol, port);
            if self.protocol == NetlinkProtocol::Audit {
                backlog::socket_ended(port);
            }
        }
    }
}

impl Drop for NetlinkSocket {
    fn drop(&mut self) {
        self.end();
    }
}

fn is_administrator(task: &Task) -> bool {
    task.credentials().has(Capabilities::NET_ADMIN)
}

/// The identity of the kernel, as receivers see it.
const KERNEL: Identity = Identity { process: 0, user: 0, group: 0 };
