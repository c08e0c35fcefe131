//! IGMP (RFC 1112, RFC 2236, RFC 3376): the messages that a host receives and sends.
use crate::{
    Full, HeaderWriter, PacketError, Sum,
    groups::{GroupRecords, decode_code, query_sources},
    split,
};
use core::net::Ipv4Addr;
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, byteorder::network_endian::U16,
};

const QUERY: u8 = 0x11;
const REPORT_V1: u8 = 0x12;
const REPORT_V2: u8 = 0x16;
const LEAVE: u8 = 0x17;
const REPORT_V3: u8 = 0x22;
/// Milliseconds to which a version 1 query gives its hosts (RFC 2236, section 4).
const V1_RESPONSE_MS: u32 = 10_000;
const MANTISSA_BITS: u32 = 4;

/// The group of all hosts, of which membership is never reported.
pub const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// The group of all routers, which are told of a leave.
pub const ALL_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);
/// The group that version 3 reports go to.
pub const REPORTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct IgmpHeader {
    kind: u8,
    response: u8,
    checksum: U16,
    group: [u8; 4],
}

/// The version of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IgmpVersion {
    /// RFC 1112.
    V1,
    /// RFC 2236.
    V2,
    /// RFC 3376.
    V3,
}

/// A message.
#[derive(Clone, Debug)]
pub enum IgmpMessage<'p> {
    /// A router asks for reports.
    Query {
        /// The router's version.
        version: IgmpVersion,
        /// The group; unspecified: all.
        group: Ipv4Addr,
        /// The greatest delay of a report, in milliseconds.
        response_ms: u32,
        /// The sources that are asked for.
        sources: &'p [[u8; 4]],
    },
    /// A member of a group, of version 1 or 2.
    Report {
        /// The version.
        version: IgmpVersion,
        /// The group.
        group: Ipv4Addr,
    },
    /// The last member has left.
    Leave {
        /// The group.
        group: Ipv4Addr,
    },
    /// A version 3 member.
    Records(GroupRecords<'p, 4>),
}

impl<'p> IgmpMessage<'p> {
    /// Parses the payload of IP, all of which must be in `bytes`.
    ///
    /// # Errors
    /// [`PacketError::Checksum`]; [`PacketError::Short`]; [`PacketError::Value`] for unknown types and groups that are none;
    /// [`PacketError::Length`] for a query of no version's length.
    pub fn parse(bytes: &'p [u8]) -> Result<IgmpMessage<'p>, PacketError> {
        let (header, rest) = split::<IgmpHeader>(bytes)?;
        if !Sum::of(bytes).is_valid() {
            return Err(PacketError::Checksum);
        }
        let group = Ipv4Addr::from(header.group);
        let message = match header.kind {
            QUERY => return query(header, group, rest),
            REPORT_V1 => IgmpMessage::Report { version: IgmpVersion::V1, group },
            REPORT_V2 => IgmpMessage::Report { version: IgmpVersion::V2, group },
            LEAVE => IgmpMessage::Leave { group },
            REPORT_V3 => {
                let [_, _, high, low] = header.group;
                let count = u16::from_be_bytes([high, low]);
                return Ok(IgmpMessage::Records(GroupRecords::new(count, rest)));
            }
            _ => return Err(PacketError::Value),
        };
        if group.is_multicast() { Ok(message) } else { Err(PacketError::Value) }
    }
}

fn query<'p>(
    header: &IgmpHeader,
    group: Ipv4Addr,
    rest: &'p [u8],
) -> Result<IgmpMessage<'p>, PacketError> {
    if !group.is_multicast() && !group.is_unspecified() {
        return Err(PacketError::Value);
    }
    let tenths = u32::from(header.response);
    match (rest.len(), header.response) {
        (0, 0) => {
            let (version, response_ms) = (IgmpVersion::V1, V1_RESPONSE_MS);
            Ok(IgmpMessage::Query { version, group, response_ms, sources: &[] })
        }
        (0, _) => {
            let (version, response_ms) = (IgmpVersion::V2, tenths * 100);
            Ok(IgmpMessage::Query { version, group, response_ms, sources: &[] })
        }
        (1..4, _) => Err(PacketError::Length),
        _ => {
            let sources = query_sources(rest)?;
            let response_ms = decode_code(tenths, MANTISSA_BITS) * 100;
            Ok(IgmpMessage::Query { version: IgmpVersion::V3, group, response_ms, sources })
        }
    }
}

/// Returns a report of version 1 or 2.
pub fn report(version: IgmpVersion, group: Ipv4Addr) -> [u8; 8] {
    plain(if version == IgmpVersion::V1 { REPORT_V1 } else { REPORT_V2 }, 0, group)
}

/// Returns a message of version 2 that says that the last member of `group` has left.
pub fn leave(group: Ipv4Addr) -> [u8; 8] {
    plain(LEAVE, 0, group)
}

/// Returns a query of version 2. `response` is the greatest delay in tenths of a second.
pub fn query_v2(group: Ipv4Addr, response: u8) -> [u8; 8] {
    plain(QUERY, response, group)
}

fn plain(kind: u8, response: u8, group: Ipv4Addr) -> [u8; 8] {
    let mut header = IgmpHeader { kind, response, checksum: U16::ZERO, group: group.octets() };
    header.checksum = U16::new(Sum::of(header.as_bytes()).checksum());
    zerocopy::transmute!(header)
}

/// Writes the header of a version 3 report with `records` records. `sum` is the sum of the records.
///
/// # Errors
/// [`Full`] if it does not fit.
pub fn write_report(writer: &mut HeaderWriter<'_>, records: u16, sum: Sum) -> Result<(), Full> {
    let [high, low] = records.to_be_bytes();
    let group = [0, 0, high, low];
    let mut header = IgmpHeader { kind: REPORT_V3, response: 0, checksum: U16::ZERO, group };
    let mut whole = Sum::of(header.as_bytes());
    whole.append(sum);
    header.checksum = U16::new(whole.checksum());
    writer.put_header(&header)
}
