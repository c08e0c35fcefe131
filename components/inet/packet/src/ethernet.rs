//! Ethernet II, VLAN tags (IEEE 802.1Q), and Ethernet addresses of groups (RFC 1112, RFC 2464).
use crate::{PacketError, split};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, byteorder::network_endian::U16,
};

/// An address of Ethernet.
pub type MacAddress = [u8; 6];
/// The address of all stations.
pub const BROADCAST: MacAddress = [0xff; 6];
/// Bytes of a header.
pub const HEADER_LENGTH: usize = size_of::<EthernetHeader>();

/// Types of payloads.
pub mod ethertype {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// A VLAN tag.
    pub const VLAN: u16 = 0x8100;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// An outer VLAN tag.
    pub const SERVICE_VLAN: u16 = 0x88a8;
    /// Types begin here. A smaller number is the length of an IEEE 802.3 frame.
    pub const MIN: u16 = 0x0600;
}

/// The header of a frame.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct EthernetHeader {
    /// The receiver.
    pub destination: MacAddress,
    /// The sender.
    pub source: MacAddress,
    /// The type of the payload ([`ethertype`]).
    pub ethertype: U16,
}

impl EthernetHeader {
    /// Returns a header.
    pub fn new(destination: MacAddress, source: MacAddress, ethertype: u16) -> EthernetHeader {
        EthernetHeader { destination, source, ethertype: U16::new(ethertype) }
    }
}

/// A VLAN tag and the type behind it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct VlanTag {
    /// Priority, drop eligibility and number.
    pub control: U16,
    /// The type of the payload.
    pub ethertype: U16,
}

impl VlanTag {
    /// Returns the number of the VLAN; zero is a priority alone.
    pub fn number(&self) -> u16 {
        self.control.get() & 0xfff
    }
}

/// A parsed frame header.
#[derive(Clone, Copy, Debug)]
pub struct Ethernet<'p> {
    /// The header.
    pub header: &'p EthernetHeader,
    /// The tag behind the header, if there is one. The payload begins behind the header in any case.
    pub vlan: Option<&'p VlanTag>,
}

impl<'p> Ethernet<'p> {
    /// Parses the first bytes of a frame.
    ///
    /// # Errors
    /// [`PacketError::Short`]; [`PacketError::Value`] for a frame of IEEE 802.3.
    pub fn parse(head: &'p [u8]) -> Result<Ethernet<'p>, PacketError> {
        let (header, rest) = split::<EthernetHeader>(head)?;
        match header.ethertype.get() {
            ethertype::VLAN | ethertype::SERVICE_VLAN => {
                Ok(Ethernet { header, vlan: Some(split::<VlanTag>(rest)?.0) })
            }
            0..ethertype::MIN => Err(PacketError::Value),
            _ => Ok(Ethernet { header, vlan: None }),
        }
    }
}

/// Returns whether `address` is one of a group, or of all stations.
pub fn is_group(address: MacAddress) -> bool {
    address.first().is_some_and(|byte| byte & 1 != 0)
}

/// Returns the address of Ethernet for packets to an IPv4 group (RFC 1112, section 6.4).
pub fn of_group4(group: Ipv4Addr) -> MacAddress {
    let [_, b, c, d] = group.octets();
    [0x01, 0x00, 0x5e, b & 0x7f, c, d]
}

/// Returns the address of Ethernet for packets to an IPv6 group (RFC 2464, section 7).
pub fn of_group6(group: Ipv6Addr) -> MacAddress {
    let [.., a, b, c, d] = group.octets();
    [0x33, 0x33, a, b, c, d]
}

/// Returns the address of Ethernet for packets to a group of either family.
pub fn of_group(group: IpAddr) -> MacAddress {
    match group {
        IpAddr::V4(group) => of_group4(group),
        IpAddr::V6(group) => of_group6(group),
    }
}
