//! IPv4 (RFC 791): the header, its options, fragments.
use crate::{PacketError, Sum, split};
use core::{net::Ipv4Addr, ops::Range};
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, byteorder::network_endian::U16,
};

/// Bytes of a header without options.
pub const HEADER_LENGTH: usize = size_of::<Ipv4Header>();
/// Bytes of options, at most.
pub const OPTIONS_MAX: usize = 40;
/// Bytes of a packet, at most.
pub const PACKET_MAX: usize = 65_535;
/// The MTU that every link has at least (RFC 791).
pub const MTU_MIN: u16 = 68;

const VERSION: u8 = 4;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

/// The header without options.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Ipv4Header {
    version_and_words: u8,
    /// Differentiated services and ECN.
    pub traffic_class: u8,
    total_length: U16,
    /// The number by which fragments of a packet are known.
    pub identification: U16,
    flags_and_offset: U16,
    /// Hops that are left.
    pub ttl: u8,
    /// The protocol above.
    pub protocol: u8,
    checksum: U16,
    source: [u8; 4],
    destination: [u8; 4],
}

/// The permission to cut a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cutting {
    /// Routers may fragment the packet.
    #[default]
    Allowed,
    /// The flag "don't fragment" is set.
    Forbidden,
}

/// The place of a fragment in its packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FragmentPlace {
    /// First byte of the payload, a multiple of eight.
    pub offset: u16,
    /// Another fragment follows.
    pub has_more: bool,
}

impl FragmentPlace {
    /// Returns whether the packet is a part of another.
    pub fn is_fragment(self) -> bool {
        self.has_more || self.offset > 0
    }
}

/// The fields of a header that is to be built.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4Fields {
    /// The sender.
    pub source: Ipv4Addr,
    /// The receiver.
    pub destination: Ipv4Addr,
    /// The protocol above.
    pub protocol: u8,
    /// Differentiated services and ECN.
    pub traffic_class: u8,
    /// Hops.
    pub ttl: u8,
    /// The number by which fragments of the packet are known.
    pub identification: u16,
    /// The permission to cut.
    pub cutting: Cutting,
    /// The place in a cut packet.
    pub place: FragmentPlace,
}

impl Ipv4Fields {
    /// Returns the header of a packet with `options`, padded to words, and `payload` bytes behind them. Its checksum is right.
    ///
    /// # Errors
    /// [`PacketError::Length`] if the packet is too long or the options are no whole words.
    pub fn header(&self, options: &[u8], payload: usize) -> Result<Ipv4Header, PacketError> {
        if options.len() > OPTIONS_MAX || !options.len().is_multiple_of(4) {
            return Err(PacketError::Length);
        }
        let length = HEADER_LENGTH + options.len();
        let total = length.checked_add(payload).and_then(|total| u16::try_from(total).ok());
        let mut bits = self.place.offset / 8;
        bits |= if self.place.has_more { MORE_FRAGMENTS } else { 0 };
        bits |= if self.cutting == Cutting::Forbidden { DONT_FRAGMENT } else { 0 };
        let mut header = Ipv4Header {
            version_and_words: VERSION << 4 | (length / 4) as u8,
            traffic_class: self.traffic_class,
            total_length: U16::new(total.ok_or(PacketError::Length)?),
            identification: U16::new(self.identification),
            flags_and_offset: U16::new(bits),
            ttl: self.ttl,
            protocol: self.protocol,
            checksum: U16::ZERO,
            source: self.source.octets(),
            destination: self.destination.octets(),
        };
        let mut sum = Sum::of_array::<HEADER_LENGTH>(zerocopy::transmute_ref!(&header));
        if !options.is_empty() {
            sum.add(options);
        }
        header.checksum = U16::new(sum.checksum());
        Ok(header)
    }
}

/// Writes the length of the whole packet into the bytes of a header with its options, and the checksum of the header. Other bytes
/// are left as they are.
pub fn set_total_length(header: &mut [u8], length: u16) {
    let Ok((fields, _)) = Ipv4Header::mut_from_prefix(header) else { return };
    fields.total_length = U16::new(length);
    fields.checksum = U16::ZERO;
    let checksum = Sum::of(header).checksum();
    if let Ok((fields, _)) = Ipv4Header::mut_from_prefix(header) {
        fields.checksum = U16::new(checksum);
    }
}

impl Ipv4Header {
    /// Returns the sender.
    pub fn source(&self) -> Ipv4Addr {
        self.source.into()
    }
    /// Returns the receiver.
    pub fn destination(&self) -> Ipv4Addr {
        self.destination.into()
    }
    /// Returns the permission to cut.
    pub fn cutting(&self) -> Cutting {
        if self.flags_and_offset.get() & DONT_FRAGMENT != 0 {
            Cutting::Forbidden
        } else {
            Cutting::Allowed
        }
    }
    /// Returns the place in a cut packet.
    pub fn place(&self) -> FragmentPlace {
        let bits = self.flags_and_offset.get();
        FragmentPlace { offset: (bits & OFFSET) * 8, has_more: bits & MORE_FRAGMENTS != 0 }
    }
    /// Returns the length with options, in bytes.
    pub fn length(&self) -> usize {
        usize::from(self.version_and_words & 0xf) * 4
    }
    /// Returns the length of the packet by the header, in bytes.
    pub fn total_length(&self) -> usize {
        self.total_length.get().into()
    }
}

/// A parsed packet.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4<'p> {
    /// The header.
    pub header: &'p Ipv4Header,
    /// The bytes of the options.
    pub options: &'p [u8],
}

impl<'p> Ipv4<'p> {
    /// Parses the first bytes of a packet. `length` is that of the bytes from the header to the end of the frame.
    ///
    /// # Errors
    /// Each of [`PacketError`], but [`PacketError::Value`].
    pub fn parse(head: &'p [u8], length: usize) -> Result<Ipv4<'p>, PacketError> {
        let packet = Ipv4::parse_quoted(head)?;
        let total = packet.header.total_length();
        if total < packet.header.length() || total > length {
            return Err(PacketError::Length);
        }
        let mut sum = Sum::of_array::<HEADER_LENGTH>(zerocopy::transmute_ref!(packet.header));
        if !packet.options.is_empty() {
            sum.add(packet.options);
        }
        if sum.is_valid() { Ok(packet) } else { Err(PacketError::Checksum) }
    }
    /// Parses the packet that an ICMP error quotes. Its checksum and its length may have been changed on the way.
    ///
    /// # Errors
    /// As [`Ipv4::parse`].
    pub fn parse_quoted(head: &'p [u8]) -> Result<Ipv4<'p>, PacketError> {
        let (header, rest) = split::<Ipv4Header>(head)?;
        if header.version_and_words >> 4 != VERSION {
            return Err(PacketError::Version);
        }
        let options = header.length().checked_sub(HEADER_LENGTH).ok_or(PacketError::Length)?;
        let options = rest.get(..options).ok_or(PacketError::Short)?;
        Ok(Ipv4 { header, options })
    }
    /// Returns the place of the payload, counted from the header.
    pub fn payload(&self) -> Range<usize> {
        self.header.length()..self.header.total_length()
    }
    /// Returns the options.
    pub fn options(&self) -> Ipv4Options<'p> {
        Ipv4Options { bytes: self.options, at: 0 }
    }
}

/// Kinds of options.
pub mod option {
    /// The end of the list.
    pub const END: u8 = 0;
    /// Nothing.
    pub const NOTHING: u8 = 1;
    /// The routers record their addresses.
    pub const RECORD_ROUTE: u8 = 7;
    /// The routers record the time.
    pub const TIMESTAMP: u8 = 68;
    /// A loose source route.
    pub const LOOSE_ROUTE: u8 = 131;
    /// A strict source route.
    pub const STRICT_ROUTE: u8 = 137;
    /// Routers look at the packet (RFC 2113).
    pub const ROUTER_ALERT: u8 = 148;
    /// The flag of options that each fragment repeats.
    pub const COPIED: u8 = 0x80;
}

/// The bytes of the option Router Alert (RFC 2113).
pub const ROUTER_ALERT: [u8; 4] = [option::ROUTER_ALERT, 4, 0, 0];

/// An option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Option<'p> {
    /// The kind ([`option`]).
    pub kind: u8,
    /// The bytes behind the length.
    pub data: &'p [u8],
}

/// A malformed option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadOption {
    /// The place of the fault, counted from the header: the pointer of an ICMP parameter problem.
    pub pointer: u8,
}

/// An iterator over options. It ends behind a malformed one.
#[derive(Clone, Debug)]
pub struct Ipv4Options<'p> {
    bytes: &'p [u8],
    at: usize,
}

impl<'p> Iterator for Ipv4Options<'p> {
    type Item = Result<Ipv4Option<'p>, BadOption>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let rest = self.bytes.get(at..)?;
        match rest {
            [] | [option::END, ..] => None,
            [option::NOTHING, ..] => {
                self.at += 1;
                Some(Ok(Ipv4Option { kind: option::NOTHING, data: &[] }))
            }
            [kind, length, ..] if (2..=rest.len()).contains(&(*length).into()) => {
                let length = usize::from(*length);
                self.at += length;
                Some(Ok(Ipv4Option { kind: *kind, data: rest.get(2..length).unwrap_or_default() }))
            }
            _ => {
                self.at = self.bytes.len();
                Some(Err(BadOption { pointer: (HEADER_LENGTH + at + 1) as u8 }))
            }
        }
    }
}
