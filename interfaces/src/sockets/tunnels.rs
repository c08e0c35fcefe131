//! Tunnels: interfaces whose other end is a program (`/dev/net/tun`), which come and go at run time.
//!
//! The client gives the stack a [`TunnelEnd`], which takes what the stack sends by the interface, and gets a [`Tunnel`], by which it
//! brings what the program wrote. A packet goes either way in the call that brings it; neither side keeps it for the other.
use super::{AdministrationError, LinkCounts, SocketError, TunnelRecord};
use crate::nic::{ChecksumState, MacAddress, Offloads, Packet, PacketSegment};
use alloc::{sync::Arc, vec::Vec};
use interfaces_macro::interface;
use labels::SecrecyId;

/// The layer whose packets a tunnel carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelLayer {
    /// Packets of IP, without a header of a link (TUN).
    Network,
    /// Frames of Ethernet (TAP).
    Link,
}

/// A tunnel to be made.
#[derive(Clone, Copy, Debug)]
pub struct TunnelRequest<'r> {
    /// Name. One `%d` in it stands for the first number that makes a name which is free.
    pub name: &'r str,
    /// Number of the interface; `None` leaves the choice to the stack.
    pub number: Option<u32>,
    /// The layer.
    pub layer: TunnelLayer,
    /// Address on the link, of [`TunnelLayer::Link`] alone.
    pub mac: MacAddress,
    /// The link has a carrier.
    pub has_carrier: bool,
    /// The secrecy of its packets.
    pub label: SecrecyId,
}

/// The properties of a tunnel's interface that matter at its other end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TunnelState {
    /// It is switched on.
    pub is_up: bool,
    /// The link has a carrier.
    pub has_carrier: bool,
    /// Packets that wait to be taken, at most, of each queue.
    pub transmit_queue: u32,
}

/// The client's side of a tunnel. It is called on threads of the stack and of programs, without a lock of a connection. A call must
/// not block and, but for [`TunnelEnd::transmit`], not change the stack.
#[interface(direct)]
pub trait TunnelEnd: Send + Sync {
    /// Takes all packets of `batch`, in order, from the header of the link on if there is one. Those for which there is no room are
    /// dropped, and counted.
    fn transmit(&self, batch: &mut Vec<Packet>);
    /// Hears of the interface's state, at first and after each change.
    fn changed(&self, state: TunnelState);
    /// Hears that the interface is gone, whoever removed it.
    fn removed(&self);
    /// Returns whether the link may have a carrier: whether a program is at the end.
    fn can_have_carrier(&self) -> bool;
    /// Describes the tunnel.
    fn record(&self) -> TunnelRecord;
    /// Returns the counts of packets.
    fn counts(&self) -> LinkCounts;
}

/// A packet that a program wrote.
#[derive(Debug)]
pub struct TunnelArrival {
    /// EtherType, as the program said. It does not count for frames.
    pub protocol: u16,
    /// The bytes.
    pub segments: Vec<PacketSegment>,
    /// The state of the transport's checksum.
    pub checksum: ChecksumState,
}

/// The stack's side of a tunnel. Its interface stays until [`Tunnel::close`], or until a user removes it; then calls do nothing.
#[interface(direct)]
pub trait Tunnel: Send + Sync {
    /// Returns the number of the interface.
    fn index(&self) -> u32;
    /// Brings a packet to the stack. All that it causes on this host has happened when the call ends.
    ///
    /// # Errors
    /// `NetworkDown` if the interface is switched off, `NoInterface` if it is gone.
    fn receive(&self, arrival: TunnelArrival) -> Result<(), SocketError>;
    /// Sets the work that the program takes off the stack, of the offloads for sending.
    fn set_offloads(&self, offloads: Offloads);
    /// Sets whether the link has a carrier.
    fn set_carrier(&self, has_carrier: bool);
    /// Sets the type of hardware (`ARPHRD_*`).
    ///
    /// # Errors
    /// `InUse` while the interface is switched on, `NoInterface`.
    fn set_hardware(&self, hardware: u16) -> Result<(), SocketError>;
    /// Tells observers of links that the answers of [`TunnelEnd::record`] are others.
    fn announce(&self);
    /// Removes the interface with its addresses and routes.
    fn close(&self);
}

/// The maker of tunnels of a stack.
#[interface(direct)]
pub trait Tunnels: Send + Sync {
    /// Makes a tunnel with an interface that is switched off.
    ///
    /// # Errors
    /// `Exists` for a name in use, `Busy` for a number in use, `Invalid` for one with another `%` than one `%d`, `NoMemory` if there are too many.
    fn open(
        &self,
        request: &TunnelRequest<'_>,
        end: Arc<dyn TunnelEnd>,
    ) -> Result<Arc<dyn Tunnel>, AdministrationError>;
}
