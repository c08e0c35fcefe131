//! MLD (RFC 2710, RFC 3810): the messages that a host receives and sends.
use crate::{
    Full, HeaderWriter, PacketError,
    groups::{GroupRecords, decode_code, query_sources},
    icmp::IcmpHeader,
    split,
};
use core::net::Ipv6Addr;
use zerocopy::byteorder::network_endian::U16;

const QUERY: u8 = 130;
const REPORT_V1: u8 = 131;
const DONE: u8 = 132;
const REPORT_V2: u8 = 143;
const MANTISSA_BITS: u32 = 12;

/// The group that version 2 reports go to.
pub const REPORTS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

/// The version of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MldVersion {
    /// RFC 2710.
    V1,
    /// RFC 3810.
    V2,
}

/// A message.
#[derive(Clone, Debug)]
pub enum MldMessage<'p> {
    /// A router asks for reports.
    Query {
        /// The router's version.
        version: MldVersion,
        /// The group; unspecified: all.
        group: Ipv6Addr,
        /// The greatest delay of a report, in milliseconds.
        response_ms: u32,
        /// The sources that are asked for.
        sources: &'p [[u8; 16]],
    },
    /// A version 1 member of a group.
    Report {
        /// The group.
        group: Ipv6Addr,
    },
    /// The last member has left, says version 1.
    Done {
        /// The group.
        group: Ipv6Addr,
    },
    /// A version 2 member.
    Records(GroupRecords<'p, 16>),
}

impl<'p> MldMessage<'p> {
    /// Parses a message, with its ICMPv6 header. The whole message must be in `bytes`. The checksum is the caller's task. Returns
    /// `None` for other messages of ICMPv6.
    ///
    /// # Errors
    /// [`PacketError::Short`]; [`PacketError::Value`] for groups that are none; [`PacketError::Length`] for a query of no version's
    /// length.
    pub fn parse(bytes: &'p [u8]) -> Result<Option<MldMessage<'p>>, PacketError> {
        let (header, rest) = split::<IcmpHeader>(bytes)?;
        let [a, b, c, d] = header.rest;
        let message = match header.kind {
            QUERY => {
                let (group, tail) = group(rest)?;
                query(u16::from_be_bytes([a, b]), group, tail)?
            }
            REPORT_V1 => MldMessage::Report { group: member(rest)? },
            DONE => MldMessage::Done { group: member(rest)? },
            REPORT_V2 => MldMessage::Records(GroupRecords::new(u16::from_be_bytes([c, d]), rest)),
            _ => return Ok(None),
        };
        Ok(Some(message))
    }
    /// Returns whether ICMPv6 messages of type `kind` are of MLD.
    pub fn is_kind(kind: u8) -> bool {
        matches!(kind, QUERY | REPORT_V1 | DONE | REPORT_V2)
    }
}

fn group(bytes: &[u8]) -> Result<(Ipv6Addr, &[u8]), PacketError> {
    let (group, rest) = bytes.split_first_chunk::<16>().ok_or(PacketError::Short)?;
    Ok((Ipv6Addr::from(*group), rest))
}

fn member(bytes: &[u8]) -> Result<Ipv6Addr, PacketError> {
    let (group, _) = group(bytes)?;
    if group.is_multicast() { Ok(group) } else { Err(PacketError::Value) }
}

fn query(code: u16, group: Ipv6Addr, rest: &[u8]) -> Result<MldMessage<'_>, PacketError> {
    if !group.is_multicast() && !group.is_unspecified() {
        return Err(PacketError::Value);
    }
    match rest.len() {
        0 => {
            let (version, response_ms) = (MldVersion::V1, code.into());
            Ok(MldMessage::Query { version, group, response_ms, sources: &[] })
        }
        1..4 => Err(PacketError::Length),
        _ => {
            let sources = query_sources(rest)?;
            let response_ms = decode_code(code.into(), MANTISSA_BITS);
            Ok(MldMessage::Query { version: MldVersion::V2, group, response_ms, sources })
        }
    }
}

/// Writes the header of a version 2 report with `records` records, with an empty checksum.
///
/// # Errors
/// [`Full`] if it does not fit.
pub fn write_report(writer: &mut HeaderWriter<'_>, records: u16) -> Result<(), Full> {
    let [high, low] = records.to_be_bytes();
    let rest = [0, 0, high, low];
    writer.put_header(&IcmpHeader { kind: REPORT_V2, code: 0, checksum: U16::ZERO, rest })
}

/// Writes a version 1 report of `group`, with an empty checksum.
///
/// # Errors
/// [`Full`] if it does not fit.
pub fn write_report_v1(writer: &mut HeaderWriter<'_>, group: Ipv6Addr) -> Result<(), Full> {
    write_plain(writer, REPORT_V1, 0, group)
}

/// Writes the version 1 message that the last member of `group` has left, with an empty checksum.
///
/// # Errors
/// [`Full`] if it does not fit.
pub fn write_done(writer: &mut HeaderWriter<'_>, group: Ipv6Addr) -> Result<(), Full> {
    write_plain(writer, DONE, 0, group)
}

/// Writes a version 1 query, with an empty checksum.
///
/// # Errors
/// [`Full`] if it does not fit.
pub fn write_query_v1(
    writer: &mut HeaderWriter<'_>,
    group: Ipv6Addr,
    response_ms: u16,
) -> Result<(), Full> {
    write_plain(writer, QUERY, response_ms, group)
}

fn write_plain(
    writer: &mut HeaderWriter<'_>,
    kind: u8,
    response: u16,
    group: Ipv6Addr,
) -> Result<(), Full> {
    let [high, low] = response.to_be_bytes();
    let rest = [high, low, 0, 0];
    writer.put_header(&IcmpHeader { kind, code: 0, checksum: U16::ZERO, rest })?;
    writer.put(&group.octets())
}
