//! Neighbour discovery (RFC 4861): its messages and options, with the options of RFC 7527 (nonce) and RFC 8106 (name servers).
use crate::{Full, HeaderWriter, MacAddress, PacketError, icmp::IcmpHeader, split};
use core::net::Ipv6Addr;
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    byteorder::network_endian::{U16, U32},
};

const ROUTER_SOLICITATION: u8 = 133;
const ROUTER_ADVERTISEMENT: u8 = 134;
const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
const REDIRECT: u8 = 137;

const SOURCE_LINK: u8 = 1;
const TARGET_LINK: u8 = 2;
const PREFIX: u8 = 3;
const REDIRECTED: u8 = 4;
const MTU: u8 = 5;
const NONCE: u8 = 14;
const NAME_SERVERS: u8 = 25;

/// The hop limit of all messages: a packet with another one came from a distance.
pub const HOP_LIMIT: u8 = 255;

bitflags::bitflags! {
    /// Flags of a router advertisement.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct RouterFlags: u8 {
        /// Addresses come by DHCPv6.
        const MANAGED = 0x80;
        /// Other settings come by DHCPv6.
        const OTHER = 0x40;
    }
    /// Flags of a neighbour advertisement.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct NeighbourFlags: u8 {
        /// The sender is a router.
        const ROUTER = 0x80;
        /// The message answers a solicitation.
        const SOLICITED = 0x40;
        /// The message replaces a known address of the link.
        const OVERRIDE = 0x20;
    }
    /// Flags of a prefix.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct PrefixFlags: u8 {
        /// Its addresses are on the link.
        const ON_LINK = 0x80;
        /// Hosts may make addresses of it.
        const AUTONOMOUS = 0x40;
    }
}

/// A message, without its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdpMessage {
    /// Asks routers to advertise themselves.
    RouterSolicitation,
    /// A router tells of itself.
    RouterAdvertisement {
        /// Hop limit for packets of hosts; zero says nothing.
        hop_limit: u8,
        /// Flags.
        flags: RouterFlags,
        /// Seconds for which it is a default router.
        lifetime_s: u16,
        /// Milliseconds for which a neighbour is reachable; zero says nothing.
        reachable_ms: u32,
        /// Milliseconds between solicitations; zero says nothing.
        retransmit_ms: u32,
    },
    /// Asks for the link's address of `target`.
    NeighbourSolicitation {
        /// The address.
        target: Ipv6Addr,
    },
    /// Tells the link's address of `target`.
    NeighbourAdvertisement {
        /// Flags.
        flags: NeighbourFlags,
        /// The address.
        target: Ipv6Addr,
    },
    /// A router tells of a better next hop.
    Redirect {
        /// The next hop.
        target: Ipv6Addr,
        /// The destination of packets that should go there.
        destination: Ipv6Addr,
    },
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RouterTimes {
    reachable: U32,
    retransmit: U32,
}

impl NdpMessage {
    /// Parses a message, with its ICMPv6 header. The whole message must be in `bytes`. The checksum is the caller's task, as is the
    /// hop limit. Returns `None` for other messages of ICMPv6.
    ///
    /// # Errors
    /// [`PacketError::Short`]; [`PacketError::Value`] for a code that is not zero or a target that is a group;
    /// [`PacketError::Length`] for a malformed option.
    pub fn parse(bytes: &[u8]) -> Result<Option<(NdpMessage, NdpOptions<'_>)>, PacketError> {
        let (header, rest) = split::<IcmpHeader>(bytes)?;
        if !NdpMessage::is_kind(header.kind) {
            return Ok(None);
        }
        let [first, second, c, d] = header.rest;
        let (message, options) = match header.kind {
            ROUTER_SOLICITATION => (NdpMessage::RouterSolicitation, rest),
            ROUTER_ADVERTISEMENT => {
                let (times, rest) = split::<RouterTimes>(rest)?;
                let message = NdpMessage::RouterAdvertisement {
                    hop_limit: first,
                    flags: RouterFlags::from_bits_truncate(second),
                    lifetime_s: u16::from_be_bytes([c, d]),
                    reachable_ms: times.reachable.get(),
                    retransmit_ms: times.retransmit.get(),
                };
                (message, rest)
            }
            NEIGHBOUR_SOLICITATION => {
                let (target, rest) = unicast(rest)?;
                (NdpMessage::NeighbourSolicitation { target }, rest)
            }
            NEIGHBOUR_ADVERTISEMENT => {
                let (target, rest) = unicast(rest)?;
                let flags = NeighbourFlags::from_bits_truncate(first);
                (NdpMessage::NeighbourAdvertisement { flags, target }, rest)
            }
            _ => {
                let (target, rest) = unicast(rest)?;
                let (destination, rest) = unicast(rest)?;
                (NdpMessage::Redirect { target, destination }, rest)
            }
        };
        if header.code != 0 {
            return Err(PacketError::Value);
        }
        let options = NdpOptions { bytes: options };
        // A message with a malformed option is no message at all, so users of the options need not check.
        match options.clone().find_map(Result::err) {
            Some(error) => Err(error),
            None => Ok(Some((message, options))),
        }
    }
    /// Returns whether ICMPv6 messages of type `kind` are of neighbour discovery.
    pub fn is_kind(kind: u8) -> bool {
        (ROUTER_SOLICITATION..=REDIRECT).contains(&kind)
    }
    /// Writes the message up to its options, with an empty checksum.
    ///
    /// # Errors
    /// [`Full`] if it does not fit.
    pub fn write(&self, writer: &mut HeaderWriter<'_>) -> Result<(), Full> {
        let header = |kind, rest| IcmpHeader { kind, code: 0, checksum: U16::ZERO, rest };
        match *self {
            NdpMessage::RouterSolicitation => {
                writer.put_header(&header(ROUTER_SOLICITATION, [0; 4]))
            }
            NdpMessage::RouterAdvertisement {
                hop_limit,
                flags,
                lifetime_s,
                reachable_ms,
                retransmit_ms,
            } => {
                let [c, d] = lifetime_s.to_be_bytes();
                let rest = [hop_limit, flags.bits(), c, d];
                writer.put_header(&header(ROUTER_ADVERTISEMENT, rest))?;
                let (reachable, retransmit) = (U32::new(reachable_ms), U32::new(retransmit_ms));
                writer.put_header(&RouterTimes { reachable, retransmit })
            }
            NdpMessage::NeighbourSolicitation { target } => {
                writer.put_header(&header(NEIGHBOUR_SOLICITATION, [0; 4]))?;
                writer.put(&target.octets())
            }
            NdpMessage::NeighbourAdvertisement { flags, target } => {
                writer.put_header(&header(NEIGHBOUR_ADVERTISEMENT, [flags.bits(), 0, 0, 0]))?;
                writer.put(&target.octets())
            }
            NdpMessage::Redirect { target, destination } => {
                writer.put_header(&header(REDIRECT, [0; 4]))?;
                writer.put(&target.octets())?;
                writer.put(&destination.octets())
            }
        }
    }
}

fn unicast(bytes: &[u8]) -> Result<(Ipv6Addr, &[u8]), PacketError> {
    let (address, rest) = bytes.split_first_chunk::<16>().ok_or(PacketError::Short)?;
    let address = Ipv6Addr::from(*address);
    if address.is_multicast() { Err(PacketError::Value) } else { Ok((address, rest)) }
}

/// The body of a prefix option.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct PrefixInformation {
    length: u8,
    flags: u8,
    valid: U32,
    preferred: U32,
    reserved: U32,
    prefix: [u8; 16],
}

impl PrefixInformation {
    /// Returns the body for `prefix` of `length` bits, with lifetimes in seconds.
    pub fn new(
        prefix: Ipv6Addr,
        length: u8,
        flags: PrefixFlags,
        (valid_s, preferred_s): (u32, u32),
    ) -> PrefixInformation {
        PrefixInformation {
            length,
            flags: flags.bits(),
            valid: U32::new(valid_s),
            preferred: U32::new(preferred_s),
            reserved: U32::ZERO,
            prefix: prefix.octets(),
        }
    }
    /// Returns the number of bits of the prefix, which may be too great.
    pub fn length(&self) -> u8 {
        self.length
    }
    /// Returns the flags.
    pub fn flags(&self) -> PrefixFlags {
        PrefixFlags::from_bits_truncate(self.flags)
    }
    /// Returns the seconds for which addresses are valid; all ones: for ever.
    pub fn valid_s(&self) -> u32 {
        self.valid.get()
    }
    /// Returns the seconds for which addresses are preferred; all ones: for ever.
    pub fn preferred_s(&self) -> u32 {
        self.preferred.get()
    }
    /// Returns the prefix.
    pub fn prefix(&self) -> Ipv6Addr {
        self.prefix.into()
    }
}

/// An option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdpOption<'p> {
    /// The link's address of the sender.
    SourceLink(MacAddress),
    /// The link's address of the target.
    TargetLink(MacAddress),
    /// A prefix of the link.
    Prefix(&'p PrefixInformation),
    /// First bytes of the packet that led to a redirect.
    Redirected(&'p [u8]),
    /// The MTU of the link.
    Mtu(u32),
    /// A number by which a sender knows its own message.
    Nonce(&'p [u8]),
    /// Servers of names.
    NameServers {
        /// Seconds for which they may be used.
        lifetime_s: u32,
        /// Their addresses.
        addresses: &'p [[u8; 16]],
    },
    /// Another option.
    Other(u8),
}

impl NdpOption<'_> {
    /// Writes the option. An [`NdpOption::Other`] has an empty body.
    ///
    /// # Errors
    /// [`Full`] if it does not fit, or a body is no whole number of words.
    pub fn write(&self, writer: &mut HeaderWriter<'_>) -> Result<(), Full> {
        let mut put = |kind: u8, head: &[u8], body: &[u8]| {
            let bytes = 2 + head.len() + body.len();
            let words = if bytes.is_multiple_of(8) { u8::try_from(bytes / 8).ok() } else { None };
            writer.put(&[kind, words.ok_or(Full)?])?;
            writer.put(head)?;
            writer.put(body)
        };
        match self {
            NdpOption::SourceLink(address) => put(SOURCE_LINK, &[], address),
            NdpOption::TargetLink(address) => put(TARGET_LINK, &[], address),
            NdpOption::Prefix(prefix) => put(PREFIX, &[], prefix.as_bytes()),
            NdpOption::Redirected(bytes) => put(REDIRECTED, &[0; 6], bytes),
            NdpOption::Mtu(mtu) => put(MTU, &[0; 2], &mtu.to_be_bytes()),
            NdpOption::Nonce(bytes) => put(NONCE, &[], bytes),
            NdpOption::NameServers { lifetime_s, addresses } => {
                let [a, b, c, d] = lifetime_s.to_be_bytes();
                put(NAME_SERVERS, &[0, 0, a, b, c, d], addresses.as_flattened())
            }
            NdpOption::Other(kind) => put(*kind, &[0; 6], &[]),
        }
    }
}

/// An iterator over options. It ends behind a malformed one.
#[derive(Clone, Debug)]
pub struct NdpOptions<'p> {
    bytes: &'p [u8],
}

impl<'p> NdpOptions<'p> {
    /// Returns the option at the front, and its length.
    fn parse(bytes: &'p [u8]) -> Result<(NdpOption<'p>, usize), PacketError> {
        let [kind, words, rest @ ..] = bytes else { return Err(PacketError::Short) };
        let length = usize::from(*words) * 8;
        let body = length.checked_sub(2).ok_or(PacketError::Length)?;
        let body = rest.get(..body).ok_or(PacketError::Short)?;
        // A longer option of a known kind is read as far as its kind is defined.
        let option = match (*kind, body) {
            (SOURCE_LINK, [a, b, c, d, e, f, ..]) => {
                NdpOption::SourceLink([*a, *b, *c, *d, *e, *f])
            }
            (TARGET_LINK, [a, b, c, d, e, f, ..]) => {
                NdpOption::TargetLink([*a, *b, *c, *d, *e, *f])
            }
            (MTU, [_, _, a, b, c, d, ..]) => NdpOption::Mtu(u32::from_be_bytes([*a, *b, *c, *d])),
            (PREFIX, body) if length == 32 => {
                NdpOption::Prefix(split::<PrefixInformation>(body)?.0)
            }
            (REDIRECTED, [_, _, _, _, _, _, quoted @ ..]) => NdpOption::Redirected(quoted),
            (NONCE, body) => NdpOption::Nonce(body),
            (NAME_SERVERS, [_, _, a, b, c, d, addresses @ ..]) => match addresses.as_chunks() {
                (addresses @ [_, ..], []) => {
                    let lifetime_s = u32::from_be_bytes([*a, *b, *c, *d]);
                    NdpOption::NameServers { lifetime_s, addresses }
                }
                _ => NdpOption::Other(NAME_SERVERS),
            },
            (kind, _) => NdpOption::Other(kind),
        };
        Ok((option, length))
    }
}

impl<'p> Iterator for NdpOptions<'p> {
    type Item = Result<NdpOption<'p>, PacketError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        match NdpOptions::parse(self.bytes) {
            Ok((option, length)) => {
                self.bytes = self.bytes.get(length..).unwrap_or_default();
                Some(Ok(option))
            }
            Err(error) => {
                self.bytes = &[];
                Some(Err(error))
            }
        }
    }
}
