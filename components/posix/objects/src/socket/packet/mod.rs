//! AF_PACKET (packet(7)): frames of the links as they come and go, and frames that programs make themselves.
//!
//! ```text
//! PacketSocket: calls and options     (family, options, send)
//!    | FrameReceiver: queue or ring   (receive, ring, blocks)   <- filled by the stack, through FrameTap
//!    | LinkTap                                                  -> the stack's side
//! ```
//! Locks: `packet.sending` (a call that sends the frames of a ring) > `packet.control` (calls that change the socket, over the stack's) > the stack's > `packet.received` > wait queues.
mod address;
mod blocks;
mod family;
mod options;
mod receive;
mod ring;
mod send;
mod transmit;

use super::{
    common::{SEND_DEFAULT, SocketCommon},
    interface::{Socket, SocketKind},
    internet::{self, errno},
};
use address::LinkAddress;
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicUsize, Ordering};
use interfaces::sockets::{LinkMembership, LinkTap, TapBinding};
use linux_raw_sys::net;
use memory::Anonymous;
use process::Task;
use receive::FrameReceiver;
use ring::RingVersion;
use rt::{lock_class, sync::Mutex};
use transmit::TransmitRing;
use vfs::{Capabilities, Errno};

lock_class! {
    static CONTROL = "packet.control";
    static SENDING = "packet.sending";
}

/// AF_PACKET.
pub(super) const FAMILY: u16 = net::AF_PACKET as u16;

/// The part of a socket that calls change.
#[derive(Default)]
struct ControlPart {
    /// Number of the interface; 0 for all.
    interface: u32,
    /// EtherType; 0 for none.
    protocol: u16,
    /// Memberships, with their number.
    memberships: Vec<(u32, LinkMembership, u32)>,
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
}

/// Checks the arguments of socket(2).
///
/// # Errors
/// `EAFNOSUPPORT` without a stack, `EPERM` without CAP_NET_RAW, `ESOCKTNOSUPPORT`.
pub fn check(task: &Task, kind: u32) -> Result<SocketKind, Errno> {
    internet::taps().ok_or(Errno::EAFNOSUPPORT)?;
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
    let tap = taps.open(receiver.clone());
    let socket = Arc::new(PacketSocket {
        common: SocketCommon::new(kind),
        receiver,
        tap,
        control: Mutex::new(&CONTROL, ControlPart::default()),
        sending: Mutex::new(&SENDING, ()),
        send_limit: AtomicUsize::new(SEND_DEFAULT.size()),
    });
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
    fn bind_to(&self, interface: u32, protocol: u16) -> Result<(), Errno> {
        let mut control = self.control.lock();
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
            (address.hardware, address.length) = (link.kind.hardware(), link.mac.len() as u8);
            address.set_bytes(&link.mac);
        }
        address
    }
    /// Adds a membership, or counts one that is there.
    fn join(&self, interface: u32, membership: LinkMembership) -> Result<(), Errno> {
        let mut control = self.control.lock();
        let is_it =
            |one: &&mut (u32, LinkMembership, u32)| (one.0, one.1) == (interface, membership);
        match control.memberships.iter_mut().find(is_it) {
            Some(one) => one.2 = one.2.saturating_add(1),
            None => {
                self.tap.join(interface, membership).map_err(errno)?;
                control.memberships.push((interface, membership, 1));
            }
        }
        Ok(())
    }
    /// Removes a membership once as many were removed as added. One that is not there is ignored, as on Linux.
    fn leave(&self, interface: u32, membership: LinkMembership) {
        let mut control = self.control.lock();
        let is_it = |one: &(u32, LinkMembership, u32)| (one.0, one.1) == (interface, membership);
        let Some(place) = control.memberships.iter().position(is_it) else { return };
        let Some(one) = control.memberships.get_mut(place) else { return };
        one.2 -= 1;
        if one.2 == 0 {
            control.memberships.swap_remove(place);
            self.tap.leave(interface, membership);
        }
    }
    /// Ends the socket; later calls do nothing.
    fn end(&self) {
        self.tap.close();
        self.receiver.clear();
        self.control.lock().transmit = None;
        self.send_limit.store(0, Ordering::Relaxed);
    }
}

impl Drop for PacketSocket {
    fn drop(&mut self) {
        self.tap.close();
    }
}
