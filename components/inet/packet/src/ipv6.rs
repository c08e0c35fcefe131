//! IPv6 (RFC 8200): the header, extension headers and their options.
//!
//! [`Walk`] goes through the extension headers up to the upper protocol, or up to the header of a fragment. RFC 8504 section 5.3 lets
//! a host limit their number and that of their options.
use crate::{PacketError, protocol, split};
use core::{net::Ipv6Addr, ops::Range};
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    byteorder::network_endian::{U16, U32},
};

/// Bytes of a header.
pub const HEADER_LENGTH: usize = size_of::<Ipv6Header>();
/// Bytes of a fragment header.
pub const FRAGMENT_LENGTH: usize = size_of::<FragmentHeader>();
/// The MTU that every link has at least.
pub const MTU_MIN: u16 = 1280;
/// The greatest number of extension headers of a packet.
pub const EXTENSIONS_MAX: usize = 8;
/// The greatest number of options of a header, beside padding.
pub const OPTIONS_MAX: usize = 8;

/// The longest padding between two options, in bytes.
const PADDING_MAX: usize = 7;

const VERSION: u32 = 6;
const OPTION_PAD_ONE: u8 = 0;
const OPTION_PAD: u8 = 1;
const OPTION_ROUTER_ALERT: u8 = 5;
/// Types of routing headers (RFC 6554, RFC 8754).
const ROUTE_RPL: u8 = 3;
const ROUTE_SEGMENTS: u8 = 4;

/// The hop-by-hop header of a packet of MLD: Router Alert (RFC 2711) and padding. Its first byte is the next header.
pub const ROUTER_ALERT_MLD: [u8; 8] =
    [protocol::ICMPV6, 0, OPTION_ROUTER_ALERT, 2, 0, 0, OPTION_PAD, 0];

/// The header.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Ipv6Header {
    version_class_flow: U32,
    payload_length: U16,
    /// The kind of the header behind this.
    pub next_header: u8,
    /// Hops that are left.
    pub hop_limit: u8,
    source: [u8; 16],
    destination: [u8; 16],
}

/// The fields of a header that is to be built.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6Fields {
    /// The sender.
    pub source: Ipv6Addr,
    /// The receiver.
    pub destination: Ipv6Addr,
    /// The kind of the header behind this.
    pub next_header: u8,
    /// Differentiated services and ECN.
    pub traffic_class: u8,
    /// Label of the flow, 20 bits.
    pub flow_label: u32,
    /// Hops.
    pub hop_limit: u8,
}

impl Ipv6Fields {
    /// Returns the header of a packet with `payload` bytes behind it.
    ///
    /// # Errors
    /// [`PacketError::Length`] if the packet is too long.
    pub fn header(&self, payload: usize) -> Result<Ipv6Header, PacketError> {
        let payload_length = u16::try_from(payload).map_err(|_| PacketError::Length)?;
        let class = u32::from(self.traffic_class) << 20;
        Ok(Ipv6Header {
            version_class_flow: U32::new(VERSION << 28 | class | self.flow_label & 0xf_ffff),
            payload_length: U16::new(payload_length),
            next_header: self.next_header,
            hop_limit: self.hop_limit,
            source: self.source.octets(),
            destination: self.destination.octets(),
        })
    }
}

impl Ipv6Header {
    /// Parses the first bytes of a packet. `length` is that of the bytes from the header to the end of the frame.
    ///
    /// # Errors
    /// [`PacketError::Short`], [`PacketError::Version`], [`PacketError::Length`].
    pub fn parse(head: &[u8], length: usize) -> Result<&Ipv6Header, PacketError> {
        let header = Ipv6Header::parse_quoted(head)?;
        let is_whole = header.total_length() <= length;
        if is_whole { Ok(header) } else { Err(PacketError::Length) }
    }
    /// Parses the packet that an ICMP error quotes, which may be cut.
    ///
    /// # Errors
    /// [`PacketError::Short`], [`PacketError::Version`].
    pub fn parse_quoted(head: &[u8]) -> Result<&Ipv6Header, PacketError> {
        let (header, _) = split::<Ipv6Header>(head)?;
        let is_version = header.version_class_flow.get() >> 28 == VERSION;
        if is_version { Ok(header) } else { Err(PacketError::Version) }
    }
    /// Returns the sender.
    pub fn source(&self) -> Ipv6Addr {
        self.source.into()
    }
    /// Returns the receiver.
    pub fn destination(&self) -> Ipv6Addr {
        self.destination.into()
    }
    /// Returns differentiated services and ECN.
    pub fn traffic_class(&self) -> u8 {
        (self.version_class_flow.get() >> 20) as u8
    }
    /// Returns the label of the flow.
    pub fn flow_label(&self) -> u32 {
        self.version_class_flow.get() & 0xf_ffff
    }
    /// Returns the length of the packet by the header, in bytes.
    pub fn total_length(&self) -> usize {
        HEADER_LENGTH + usize::from(self.payload_length.get())
    }
}

/// The header of a fragment.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct FragmentHeader {
    /// The kind of the header behind this, in the whole packet.
    pub next_header: u8,
    reserved: u8,
    offset_and_more: U16,
    /// The number by which fragments of a packet are known.
    pub identification: U32,
}

impl FragmentHeader {
    /// Returns the header of a fragment.
    pub fn new(
        next_header: u8,
        place: crate::ipv4::FragmentPlace,
        identification: u32,
    ) -> FragmentHeader {
        FragmentHeader {
            next_header,
            reserved: 0,
            offset_and_more: U16::new(place.offset & !7 | u16::from(place.has_more)),
            identification: U32::new(identification),
        }
    }
    /// Returns the place in the packet.
    pub fn place(&self) -> crate::ipv4::FragmentPlace {
        let bits = self.offset_and_more.get();
        crate::ipv4::FragmentPlace { offset: bits & !7, has_more: bits & 1 != 0 }
    }
}

/// A fragment header on a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundFragment {
    /// The header.
    pub header: FragmentHeader,
    /// Its place, counted from the IPv6 header.
    pub at: usize,
    /// Place of the byte that names it, in the header before.
    pub named_at: usize,
}

/// The fault that ends a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkFault {
    /// The packet is dropped in silence.
    Drop,
    /// The sender is told of a parameter problem.
    Problem {
        /// The code of ICMPv6.
        code: u8,
        /// The place of the fault, counted from the IPv6 header.
        pointer: u32,
        /// The receivers whose sender is told.
        audience: Audience,
    },
}

/// The receivers of a faulty packet that tell its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Every receiver.
    All,
    /// A receiver that the packet was sent to alone, not to a group.
    Unicast,
}

impl From<PacketError> for WalkFault {
    fn from(_: PacketError) -> WalkFault {
        WalkFault::Drop
    }
}

/// Codes of a parameter problem (RFC 4443, section 3.4; RFC 7112).
pub mod problem {
    /// A field is wrong.
    pub const FIELD: u8 = 0;
    /// The next header is unknown.
    pub const NEXT_HEADER: u8 = 1;
    /// An option is unknown.
    pub const OPTION: u8 = 2;
    /// The first fragment does not hold all headers.
    pub const CHAIN: u8 = 3;
}

/// The end of the extension headers of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The protocol of the payload. Behind a fragment header, the next header of the whole packet.
    pub protocol: u8,
    /// First byte of the payload, counted from the IPv6 header.
    pub payload: usize,
    /// Place of the byte that holds `protocol`, which a parameter problem points to.
    pub protocol_at: usize,
    /// The header of the fragment that the packet is.
    pub fragment: Option<FoundFragment>,
    /// The option Router Alert was there.
    pub has_router_alert: bool,
}

impl Walk {
    /// Walks from the IPv6 header which is at the front of `head`. `head` need not hold the payload.
    ///
    /// # Errors
    /// The fault for which the packet is dropped.
    pub fn of(head: &[u8]) -> Result<Walk, WalkFault> {
        let first = Ipv6Header::parse_quoted(head)?;
        // The packet may be followed by padding, which is no part of its headers.
        let head = head.get(..first.total_length()).unwrap_or(head);
        Walk::from(head, first.next_header, HEADER_LENGTH, 6)
    }
    /// Walks on behind a fragment header of a packet that has been put together: `head` begins with the header of kind `protocol`,
    /// and is at byte `base` of the packet.
    ///
    /// # Errors
    /// As [`Walk::of`]. The pointers are only right if the packet had no other headers before its fragment header.
    pub fn of_reassembled(head: &[u8], protocol: u8) -> Result<Walk, WalkFault> {
        if protocol == protocol::HOP_BY_HOP {
            return Err(WalkFault::Drop);
        }
        let walk = Walk::from(head, protocol, 0, 0)?;
        // A fragment of fragments would escape the limits.
        if walk.fragment.is_some() { Err(WalkFault::Drop) } else { Ok(walk) }
    }

    fn from(head: &[u8], kind: u8, start: usize, kind_at: usize) -> Result<Walk, WalkFault> {
        let mut walk = Walk {
            protocol: kind,
            payload: start,
            protocol_at: kind_at,
            fragment: None,
            has_router_alert: false,
        };
        for count in 0.. {
            let rest = head.get(walk.payload..).ok_or(WalkFault::Drop)?;
            let length = match walk.protocol {
                protocol::HOP_BY_HOP if count > 0 => {
                    let pointer = walk.protocol_at as u32;
                    let (code, audience) = (problem::NEXT_HEADER, Audience::Unicast);
                    return Err(WalkFault::Problem { code, pointer, audience });
                }
                protocol::HOP_BY_HOP | protocol::DESTINATION => walk.options(rest)?,
                protocol::ROUTING => walk.routing(rest)?,
                protocol::FRAGMENT => {
                    let (header, _) = split::<FragmentHeader>(rest)?;
                    if header.place().is_fragment() {
                        let (at, named_at) = (walk.payload, walk.protocol_at);
                        walk.fragment = Some(FoundFragment { header: *header, at, named_at });
                        walk.step(header.next_header, FRAGMENT_LENGTH);
                        return Ok(walk);
                    }
                    // An atomic fragment is a whole packet (RFC 6946).
                    FRAGMENT_LENGTH
                }
                _ => return Ok(walk),
            };
            if count == EXTENSIONS_MAX {
                return Err(WalkFault::Drop);
            }
            walk.step(rest.first().copied().unwrap_or(protocol::NONE), length);
        }
        Err(WalkFault::Drop)
    }
    fn step(&mut self, next: u8, length: usize) {
        (self.protocol_at, self.protocol) = (self.payload, next);
        self.payload = self.payload.saturating_add(length);
    }
    /// Looks at the options of a header. Returns its length.
    fn options(&mut self, rest: &[u8]) -> Result<usize, WalkFault> {
        let length = extension_length(rest)?;
        let bytes = rest.get(..length).ok_or(WalkFault::Drop)?;
        let (mut at, mut count, mut padding) = (2, 0, 0);
        while let Some([kind, behind @ ..]) = bytes.get(at..) {
            if *kind == OPTION_PAD_ONE {
                (at, padding) = (at + 1, padding + 1);
                if padding > PADDING_MAX {
                    return Err(WalkFault::Drop);
                }
                continue;
            }
            let data = usize::from(*behind.first().ok_or(WalkFault::Drop)?);
            let end = at + 2 + data;
            if end > length {
                return Err(WalkFault::Drop);
            }
            count += usize::from(*kind != OPTION_PAD);
            if count > OPTIONS_MAX {
                return Err(WalkFault::Drop);
            }
            padding = if *kind == OPTION_PAD { padding + 2 + data } else { 0 };
            let is_blank =
                bytes.get(at + 2..end).is_some_and(|all| all.iter().all(|one| *one == 0));
            match *kind {
                // It carries nothing (`ip6_parse_tlv`).
                OPTION_PAD if padding > PADDING_MAX || !is_blank => return Err(WalkFault::Drop),
                OPTION_PAD => {}
                OPTION_ROUTER_ALERT if data == 2 && self.protocol == protocol::HOP_BY_HOP => {
                    self.has_router_alert = true;
                }
                unknown => unknown_option(unknown, self.payload + at)?,
            }
            at = end;
        }
        Ok(length)
    }
    /// Looks at a routing header. Returns its length. Only one without segments left is passed over, and none of segment routing or
    /// RPL, which Linux drops as long as it is not told to obey them.
    fn routing(&self, rest: &[u8]) -> Result<usize, WalkFault> {
        let length = extension_length(rest)?;
        match rest.get(..4) {
            Some([_, _, ROUTE_RPL | ROUTE_SEGMENTS, _]) => Err(WalkFault::Drop),
            Some([_, _, _, 0]) => {
                if rest.len() >= length {
                    Ok(length)
                } else {
                    Err(WalkFault::Drop)
                }
            }
            Some([_, _, _, _]) => {
                let (code, pointer) = (problem::FIELD, (self.payload + 2) as u32);
                Err(WalkFault::Problem { code, pointer, audience: Audience::Unicast })
            }
            _ => Err(WalkFault::Drop),
        }
    }
}

fn extension_length(rest: &[u8]) -> Result<usize, WalkFault> {
    rest.get(1).map(|words| usize::from(*words) * 8 + 8).ok_or(WalkFault::Drop)
}

/// Does with an unknown option what its two highest bits say (RFC 8200, section 4.2).
fn unknown_option(kind: u8, at: usize) -> Result<(), WalkFault> {
    let problem =
        |audience| Err(WalkFault::Problem { code: problem::OPTION, pointer: at as u32, audience });
    match kind >> 6 {
        0 => Ok(()),
        1 => Err(WalkFault::Drop),
        2 => problem(Audience::All),
        _ => problem(Audience::Unicast),
    }
}

/// Returns the place of the payload behind the headers of a packet, counted from its header.
pub fn payload(header: &Ipv6Header, walk: &Walk) -> Range<usize> {
    walk.payload.min(header.total_length())..header.total_length()
}

/// Returns the group for neighbour solicitations of `address` (RFC 4291, section 2.7.1).
pub fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c])
}

/// All nodes on the link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// The group of all nodes of an interface itself.
pub const ALL_NODES_OF_INTERFACE: Ipv6Addr = Ipv6Addr::new(0xff01, 0, 0, 0, 0, 0, 0, 1);
/// All routers on the link.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
