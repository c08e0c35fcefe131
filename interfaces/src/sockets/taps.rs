//! Taps: frames of the links as they come and go, for sockets of AF_PACKET (packet(7)), and frames that programs make themselves.
//!
//! The client gives the stack a [`FrameTap`] and gets a [`LinkTap`]. The stack calls the tap on the thread that brings or sends a
//! frame, without a lock of a connection. A stack without taps spends one load of an atomic for a frame.
use super::SocketError;
use crate::{marshal::Marshal, nic::MacAddress};
use alloc::{sync::Arc, vec::Vec};
use bpf::PacketBytes;
use interfaces_macro::interface;
use labels::SecrecyId;

/// Kinds of frames by their receiver (`PACKET_HOST` and so on).
pub mod packet_kind {
    /// To this host.
    pub const HOST: u8 = 0;
    /// To all hosts.
    pub const BROADCAST: u8 = 1;
    /// To a group.
    pub const MULTICAST: u8 = 2;
    /// To another host.
    pub const OTHER_HOST: u8 = 3;
    /// Sent by this host.
    pub const OUTGOING: u8 = 4;
}

/// Types of hardware of the links (`ARPHRD_*`).
pub mod hardware {
    /// Ethernet.
    pub const ETHERNET: u16 = 1;
    /// The loopback interface.
    pub const LOOPBACK: u16 = 772;
    /// No header, and no addresses.
    pub const NONE: u16 = 0xfffe;
}

/// The state of the transport's checksum of a frame that a tap sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub enum FrameChecksum {
    /// Nobody has looked.
    Unknown,
    /// The card found it right.
    Verified,
    /// It is not written yet: the card was to do that, or the frame never leaves the host.
    Partial,
}

/// A frame that a tap sees.
pub struct SeenFrame<'f> {
    /// Number of the interface.
    pub interface: u32,
    /// Type of its hardware.
    pub hardware: u16,
    /// Kind of the frame ([`packet_kind`]).
    pub kind: u8,
    /// EtherType.
    pub protocol: u16,
    /// The sender's address on the link.
    pub source: MacAddress,
    /// Bytes of the link's header, with which the frame begins.
    pub link_length: usize,
    /// State of the transport's checksum.
    pub checksum: FrameChecksum,
    /// Wall-clock time, in nanoseconds.
    pub at_ns: u64,
    /// The bytes, from the link's header on.
    pub bytes: &'f dyn PacketBytes,
}

/// The client's side of a tap. A call must not block, and must not call the stack.
#[interface(direct)]
pub trait FrameTap: Send + Sync {
    /// Sees a frame of the interface and the protocol that the tap is bound to.
    fn see(&self, frame: &SeenFrame<'_>);
    /// Hears that the interface that it is bound to was switched off, or is gone.
    fn failed(&self, error: SocketError);
}

/// The frames that a tap sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Marshal)]
pub struct TapBinding {
    /// Number of the interface; `None` for all.
    pub interface: Option<u32>,
    /// EtherType; `None` for none. [`TapBinding::ALL`] stands for all, with those that are sent.
    pub protocol: Option<u16>,
}

impl TapBinding {
    /// `ETH_P_ALL`.
    pub const ALL: u16 = 3;
}

/// A property of an interface that lasts as long as taps want it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub enum LinkMembership {
    /// All frames are received (`PACKET_MR_PROMISC`).
    Promiscuous,
    /// Frames to all groups are received (`PACKET_MR_ALLMULTI`).
    AllGroups,
    /// Frames to this address are received, too (`PACKET_MR_MULTICAST`, `PACKET_MR_UNICAST`).
    Address(MacAddress),
}

/// A frame that a program sends.
#[derive(Debug)]
pub struct SentFrame {
    /// Number of the interface.
    pub interface: u32,
    /// EtherType.
    pub protocol: u16,
    /// The receiver on the link, of which the stack makes the header; `None` if the bytes have one.
    pub destination: Option<MacAddress>,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// The stack's side of a tap. Its drop ends it.
#[interface(direct)]
pub trait LinkTap: Send + Sync {
    /// Sets the frames that the tap sees.
    ///
    /// # Errors
    /// `NoInterface`. The binding is as before then.
    fn bind(&self, binding: TapBinding) -> Result<(), SocketError>;
    /// Sends a frame. The tap itself does not see it.
    ///
    /// # Errors
    /// `NoInterface`, `NetworkDown` if the interface is switched off, `MessageSize`, `Invalid` for less than the link's header.
    fn send(&self, frame: SentFrame) -> Result<(), SocketError>;
    /// Adds a membership of an interface.
    ///
    /// # Errors
    /// `NoInterface`, `NoMemory` if there are too many.
    fn join(&self, interface: u32, membership: LinkMembership) -> Result<(), SocketError>;
    /// Removes a membership that was added. One that was not is ignored.
    fn leave(&self, interface: u32, membership: LinkMembership);
    /// Ends the tap and its memberships.
    fn close(&self);
}

/// The maker of taps of a stack.
#[interface(direct)]
pub trait LinkTaps: Send + Sync {
    /// Makes a tap that sees nothing before it is bound, and then only frames that `label` dominates.
    fn open(&self, tap: Arc<dyn FrameTap>, label: SecrecyId) -> Arc<dyn LinkTap>;
}
