//! AF_PACKET (packet(7)): frames of the links as they come and go, and frames that programs make themselves.
//!
//! ```text
//! PacketSocket: calls and options     (family, options, send)
//!    | FrameReceiver: queue or ring   (receive, ring, blocks)   <- filled by the stack, through FrameTap
//!    |    FanoutGroup: the sockets of one binding (fanout, steering)   <- filled by the stack, too, and fills one of them
//!    | LinkTap                                                  -> the stack's side
//! ```
//! Locks: `packet.sending` (a call that sends the frames of a ring) > `packet.control` (calls that change the socket, over the stack's) >
//! those of `fanout` > the stack's > `packet.received` > wait queues.
mod address;
mod blocks;
mod family;
mod fanout;
mod options;
mod receive;
mod records;
mod ring;
mod send;
mod steering;
mod transmit;

use super::{
    common::{SEND_DEFAULT, SocketCommon},
    interface::{Socket, SocketKind},
    internet::{self, errno},
};
pub(super) use address::FAMILY;
use address::LinkAddress;
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicUsize, Ordering};
use fanout::FanoutPlace;
use interfaces::sockets::{LinkMembership, LinkTap, TapBinding};
use labels::SecrecyId;
use linux_raw_sys::net;
use memory::Anonymous;
use process::Task;
use receive::FrameReceiver;
pub use records::{records, table};
use ring::RingVersion;
use rt::{lock_class, sync::Mutex};
use transmit::TransmitRing;
use vfs::{Capabilities, Errno};

lock_class! {
    static CONTROL = "packet.control";
    static SENDING = "packet.sending";
}

/// A membership that the program added, with the numbers that it gave (`struct packet_mreq`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeptMembership {
    interface: u32,
    membership: LinkMembership,
    /// PACKET_MR_*.
    kind: u16,
    /// Bytes of the address.
    length: u16,
    /// The number of times that it was added, less those that it was dropped.
    count: u32,
}

impl KeptMembership {
    fn is(&self, other: &KeptMembership) -> bool {
        KeptMembership { count: other.count, ..*self } == *other
    }
}

/// The part of a socket that calls change.
#[derive(Default)]
struct ControlPart {
    /// Number of the interface; 0 for all.
    interface: u32,
    /// EtherType; 0 for none.
    protocol: u16,
    memberships: Vec<KeptMembership>,
    /// Format of rings that are made (PACKET_VERSION).
    version: RingVersion,
    /// Bytes that the program keeps of each frame (PACKET_RESERVE).
    reserved: u32,
    /// PACKET_TIMESTAMP, without an effect: the times are always the system's.
    timestamp: u32,
    /// The memory that the program has mapped.
    mapped: Option<Arc<Anonymous>>,
    /// The frames that the program gives to be sent (PACKET_TX_RING).
    transmit: Option<TransmitRing>,
    /// The group of sockets that it shares frames with (PACKET_FANOUT).
    fanout: Option<FanoutPlace>,
}

/// A socket of AF_PACKET.
pub struct PacketSocket {
    common: SocketCommon,
    receiver: Arc<FrameReceiver>,
    tap: Arc<dyn LinkTap>,
    control: Mutex<ControlPart>,
    /// Held by a call that sends the frames of a ring, over the others.
    sending: Mutex<()>,
    send_limit: AtomicUsize,
    /// User id of the owner.
    user: u32,
    /// The secrecy that it may see.
    label: SecrecyId,
}

/// Checks the arguments of socket(2).
///
/// # Errors
/// `EAFNOSUPPORT` without a stack, `EPERM` without CAP_NET_RAW, `ESOCKTNOSUPPORT`.
pub fn check(task: &Task, kind: u32) -> Result<SocketKind, Errno> {
    internet::taps().ok_or(Errno::EAFNOSUPPORT)?;
    if !internet::is_safe() {
        return Err(Errno::EACCES);
    }
    if !task.credentials().has(Capabilities::NET_RAW) {
        return Err(Errno::EPERM);
    }
    match kind {
        net::SOCK_RAW => Ok(SocketKind::Raw),
        net::SOCK_DGRAM => Ok(SocketKind::Datagram),
        _ => Err(Errno::ESOCKTNOSUPPORT),
    }
}

/// Makes a socket (socket(2)). Its protocol is an EtherType in the order of the network.
///
/// # Errors
/// As [`check`].
pub fn open(task: &Task, kind: u32, protocol: i32) -> Result<Arc<dyn Socket>, Errno> {
    let kind = check(task, kind)?;
    let taps = internet::taps().ok_or(Errno::EAFNOSUPPORT)?;
    let receiver = FrameReceiver::new(kind);
    let who = task.credentials();
    let label = who.label_of_socket().secrecy();
    let tap = taps.open(receiver.clone(), label);
    let socket = Arc::new(PacketSocket {
        common: SocketCommon::new(kind, task.process.level()),
        receiver,
        tap,
        control: Mutex::new(&CONTROL, ControlPart::default()),
        sending: Mutex::new(&SENDING, ()),
        send_limit: AtomicUsize::new(SEND_DEFAULT.size()),
        user: who.user.effective,
        label,
    });
    records::add(&socket);
    let protocol = u16::from_be(protocol as u16);
    if protocol != 0 {
        socket.bind_to(0, protocol)?;
    }
    Ok(socket)
}

/// Returns zeroes in memory of their own.
///
/// # Errors
/// `ENOBUFS`.
fn zeroes(length: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| Errno::ENOBUFS)?;
    bytes.resize(length, 0);
    Ok(bytes)
}

impl PacketSocket {
    /// Binds the socket to an interface, or to all for 0, and to a protocol.
    ///
    /// # Errors
    /// `EINVAL` in a fan-out, `ENODEV`.
    fn bind_to(&self, interface: u32, protocol: u16) -> Result<(), Errno> {
        let mut control = self.control.lock();
        if control.fanout.is_some() {
            return Err(Errno::EINVAL);
        }
        let binding = TapBinding {
            interface: Some(interface).filter(|interface| *interface != 0),
            protocol: Some(protocol).filter(|protocol| *protocol != 0),
        };
        self.tap.bind(binding).map_err(errno)?;
        (control.interface, control.protocol) = (interface, protocol);
        Ok(())
    }
    /// Returns the address that getsockname(2) tells.
    fn own_address(&self) -> LinkAddress {
        let (interface, protocol) = {
            let control = self.control.lock();
            (control.interface, control.protocol)
        };
        let mut address = LinkAddress { interface, protocol, ..LinkAddress::default() };
        if let Some(link) = internet::link_numbered(interface) {
            (address.hardware, address.length) = (link.hardware, link.address_length() as u8);
            address.set_bytes(&link.mac);
        }
        address
    }
    /// Adds a membership, or counts one that is there.
    fn join(&self, wanted: KeptMembership) -> Result<(), Errno> {
        let mut control = self.control.lock();
        match control.memberships.iter_mut().find(|one| one.is(&wanted)) {
            Some(one) => one.count = one.count.saturating_add(1),
            None => {
                self.tap.join(wanted.interface, wanted.membership).map_err(errno)?;
                control.memberships.push(wanted);
            }
        }
        Ok(())
    }
    /// Removes a membership once as many were removed as added. One that is not there is ignored, as on Linux.
    fn leave(&self, unwanted: &KeptMembership) {
        let mut control = self.control.lock();
        let Some(place) = control.memberships.iter().position(|one| one.is(unwanted)) else {
            return;
        };
        let Some(one) = control.memberships.get_mut(place) else { return };
        one.count -= 1;
        if one.count == 0 {
            control.memberships.swap_remove(place);
            self.tap.leave(unwanted.interface, unwanted.membership);
        }
    }
    /// Ends the socket; later calls do nothing.
    fn end(&self) {
        self.tap.close();
        records::remove(self);
        let (fanout, transmit) = {
            let mut control = self.control.lock();
            (control.fanout.take(), control.transmit.take())
        };
        if let Some(place) = fanout {
            place.leave(&self.receiver);
        }
        self.receiver.clear();
        drop(transmit);
        self.send_limit.store(0, Ordering::Relaxed);
    }
}

impl Drop for PacketSocket {
    fn drop(&mut self) {
        self.end();
    }
}
