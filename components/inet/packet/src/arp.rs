//! ARP for IPv4 over Ethernet (RFC 826), probes and announcements (RFC 5227).
use crate::{MacAddress, PacketError, ethernet::ethertype, split};
use core::net::Ipv4Addr;
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, byteorder::network_endian::U16,
};

const HARDWARE_ETHERNET: u16 = 1;
const REQUEST: u16 = 1;
const REPLY: u16 = 2;

/// The packet.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct ArpPacket {
    hardware: U16,
    protocol: U16,
    hardware_length: u8,
    protocol_length: u8,
    operation: U16,
    sender_mac: MacAddress,
    sender: [u8; 4],
    target_mac: MacAddress,
    target: [u8; 4],
}

/// The kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArpOperation {
    /// Asks for the target's address of Ethernet.
    Request,
    /// Tells the sender's address of Ethernet.
    Reply,
}

impl ArpPacket {
    /// Returns a request of `sender` for `target`.
    pub fn request(sender_mac: MacAddress, sender: Ipv4Addr, target: Ipv4Addr) -> ArpPacket {
        ArpPacket::new(ArpOperation::Request, (sender_mac, sender), ([0; 6], target))
    }
    /// Returns the reply to this packet, for the station that owns its target.
    pub fn reply(&self, owner: MacAddress) -> ArpPacket {
        let asker = (self.sender_mac, self.sender());
        ArpPacket::new(ArpOperation::Reply, (owner, self.target()), asker)
    }
    /// Returns a packet from `sender` about or to `target`.
    pub fn new(
        operation: ArpOperation,
        sender: (MacAddress, Ipv4Addr),
        target: (MacAddress, Ipv4Addr),
    ) -> ArpPacket {
        let operation = match operation {
            ArpOperation::Request => REQUEST,
            ArpOperation::Reply => REPLY,
        };
        ArpPacket {
            hardware: U16::new(HARDWARE_ETHERNET),
            protocol: U16::new(ethertype::IPV4),
            hardware_length: 6,
            protocol_length: 4,
            operation: U16::new(operation),
            sender_mac: sender.0,
            sender: sender.1.octets(),
            target_mac: target.0,
            target: target.1.octets(),
        }
    }
    /// Parses the payload of a frame; bytes behind the packet are padding.
    ///
    /// # Errors
    /// [`PacketError::Short`]; [`PacketError::Value`] for other address formats, other operations and senders that are groups.
    pub fn parse(bytes: &[u8]) -> Result<&ArpPacket, PacketError> {
        let (packet, _) = split::<ArpPacket>(bytes)?;
        let is_known = packet.hardware.get() == HARDWARE_ETHERNET
            && packet.protocol.get() == ethertype::IPV4
            && (packet.hardware_length, packet.protocol_length) == (6, 4)
            && matches!(packet.operation.get(), REQUEST | REPLY);
        // An entry for a group would send packets for one station to many.
        let is_sound = is_known
            && !crate::ethernet::is_group(packet.sender_mac)
            && !packet.sender().is_multicast()
            && !packet.target().is_multicast();
        if is_sound { Ok(packet) } else { Err(PacketError::Value) }
    }
    /// Returns the kind.
    pub fn operation(&self) -> ArpOperation {
        if self.operation.get() == REQUEST { ArpOperation::Request } else { ArpOperation::Reply }
    }
    /// Returns the sender's address of Ethernet.
    pub fn sender_mac(&self) -> MacAddress {
        self.sender_mac
    }
    /// Returns the sender's address; unspecified in a probe.
    pub fn sender(&self) -> Ipv4Addr {
        self.sender.into()
    }
    /// Returns the address that is asked for, or the receiver's of a reply.
    pub fn target(&self) -> Ipv4Addr {
        self.target.into()
    }
}
