//! Formats of packets: headers as `zerocopy` structures, their options, and the Internet checksum (RFC 1071). Pure code.
//!
//! A parser takes the first bytes of a packet and, where the format has a length, the length of the whole packet: the payload may
//! lie elsewhere. It returns a view whose lengths lie within the packet, or a [`PacketError`]. A builder returns a header structure,
//! or writes to a [`HeaderWriter`]. No function allocates.
//!
//! | module | format |
//! | --- | --- |
//! | [`sum`] | the checksum |
//! | [`ethernet`], [`arp`] | Ethernet II, VLAN tags, ARP (RFC 826) |
//! | [`ipv4`], [`icmp`], [`igmp`] | IPv4 (RFC 791), ICMP (RFC 792), IGMP (RFC 2236, 3376) |
//! | [`ipv6`], [`icmpv6`], [`ndp`], [`mld`] | IPv6 (RFC 8200), ICMPv6 (RFC 4443), NDP (RFC 4861), MLD (RFC 2710, 3810) |
//! | [`udp`], [`tcp`], [`tcp_options`] | UDP (RFC 768) and UDP-Lite (RFC 3828), TCP (RFC 9293) |
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]

pub mod arp;
pub mod ethernet;
pub mod groups;
pub mod icmp;
pub mod icmpv6;
pub mod igmp;
pub mod ipv4;
pub mod ipv6;
pub mod mld;
pub mod ndp;
pub mod sum;
pub mod tcp;
pub mod tcp_options;
pub mod udp;
mod writer;

pub use ethernet::MacAddress;
pub use sum::Sum;
pub use writer::{Full, HeaderWriter};

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Numbers of protocols above IP (IANA).
pub mod protocol {
    /// Hop-by-hop options of IPv6.
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP.
    pub const ICMP: u8 = 1;
    /// IGMP.
    pub const IGMP: u8 = 2;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// UDP-Lite.
    pub const UDP_LITE: u8 = 136;
    /// The routing header of IPv6.
    pub const ROUTING: u8 = 43;
    /// The fragment header of IPv6.
    pub const FRAGMENT: u8 = 44;
    /// ICMPv6.
    pub const ICMPV6: u8 = 58;
    /// Nothing follows.
    pub const NONE: u8 = 59;
    /// Destination options of IPv6.
    pub const DESTINATION: u8 = 60;
}

/// The reason why a packet is no packet of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketError {
    /// The bytes end within a header.
    Short,
    /// The version is another one.
    Version,
    /// A length in a header contradicts another length.
    Length,
    /// The checksum is wrong.
    Checksum,
    /// A field has a value that the format forbids.
    Value,
}

/// Splits a header off the front of `bytes`.
fn split<T: FromBytes + KnownLayout + Immutable + Unaligned>(
    bytes: &[u8],
) -> Result<(&T, &[u8]), PacketError> {
    T::ref_from_prefix(bytes).map_err(|_| PacketError::Short)
}
