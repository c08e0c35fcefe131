//! The route of a packet (`ip route get`).
use super::{
    inquiry::{Inquiry, kind},
    routes::{CLONED, HEAD, attribute, metrics, short_table},
};
use crate::{
    NetErrno,
    base::{ExplainedErrno, INET, octets, unspecified},
    wire::{Attributes, Fields},
};
use alloc::{vec, vec::Vec};
use interfaces::sockets::{RouteQuery, RouteRecord, number};

/// Offset of the flags in `struct rtmsg`.
const FLAGS_AT: usize = 8;
/// `RTM_F_LOOKUP_TABLE`: the table of the route is told.
const LOOKUP_TABLE: u32 = 0x1000;
/// `RTM_F_FIB_MATCH`: the route is told as it stands in its table.
const MATCH: u32 = 0x2000;
/// Number of the interface `lo`.
const LOOPBACK: u32 = 1;
/// `RTCF_LOCAL`, `RTCF_BROADCAST`, `RTCF_MULTICAST`, in the flags of the answer.
const LOCAL: u32 = 0x8000_0000;
const BROADCAST: u32 = 0x1000_0000;
const MULTICAST: u32 = 0x2000_0000;

/// Answers a request for the route of a packet.
///
/// # Errors
/// `EINVAL`, `ENODEV`, `ENETUNREACH`, `EHOSTUNREACH`, `EACCES`.
pub(super) fn get(inquiry: &Inquiry<'_>) -> Result<Vec<Vec<u8>>, ExplainedErrno> {
    let family = inquiry.family;
    let head = Fields(inquiry.head(HEAD)?);
    let attributes = Attributes::after(inquiry.message.body, HEAD);
    let one = |number| attributes.address(number, family);
    if attributes.u32(attribute::INPUT).is_some_and(|index| index != 0) {
        // The way of packets that come from elsewhere: this host forwards none.
        return Err(NetErrno::EOPNOTSUPP.into());
    }
    let source = one(attribute::SOURCE)?.filter(|source| !source.is_unspecified());
    let port =
        |number| attributes.find(number).and_then(|value| Fields(value).be16(0)).unwrap_or(0);
    let query = RouteQuery {
        destination: one(attribute::DESTINATION)?.unwrap_or(unspecified(family)),
        source,
        interface: attributes.u32(attribute::OUTPUT).filter(|index| *index != 0),
        protocol: attributes
            .find(attribute::IP_PROTOCOL)
            .and_then(|value| Fields(value).u8(0))
            .unwrap_or(0),
        ports: (port(attribute::SOURCE_PORT), port(attribute::DESTINATION_PORT)),
        type_of_service: head.u8(3).unwrap_or(0),
        mark: attributes.u32(attribute::MARK).unwrap_or(0),
        user: attributes.u32(attribute::USER).unwrap_or(inquiry.asker.user),
    };
    let route = inquiry.network.route_to(&query)?;
    if head.u32(FLAGS_AT).unwrap_or(0) & MATCH != 0 {
        return Ok(vec![super::routes::describe(inquiry.reply, kind::NEW_ROUTE, &route)]);
    }
    Ok(vec![describe(inquiry, &query, &route, attributes)])
}

/// Returns the table that the answer tells for a route in `table`: for IPv4 only if the request asks for it.
fn table_told(family: u8, table: u32, flags: u32) -> u32 {
    let is_hidden = flags & LOOKUP_TABLE == 0;
    if family == INET && is_hidden { number::TABLE_MAIN } else { table }
}

/// Describes the route of a packet.
fn describe(
    inquiry: &Inquiry<'_>,
    query: &RouteQuery,
    route: &RouteRecord,
    attributes: Attributes<'_>,
) -> Vec<u8> {
    let family = inquiry.family;
    // An answer of IPv6 has a source in any case.
    let source = query.source.or((family != INET).then_some(unspecified(family)));
    let flags = Fields(inquiry.message.body).u32(FLAGS_AT).unwrap_or(0);
    let table = table_told(family, route.table, flags);
    let bits = if family == INET { 32 } else { 128 };
    let kinds = match route.kind {
        number::KIND_LOCAL => LOCAL,
        number::KIND_UNICAST if route.interface == Some(LOOPBACK) => LOCAL,
        number::KIND_BROADCAST => BROADCAST,
        number::KIND_MULTICAST => MULTICAST,
        _ => 0,
    };
    let (protocol, told) = match family {
        INET => (0, kinds | CLONED),
        _ => (route.protocol, 0),
    };
    let source_bits = if source.is_some() { bits } else { 0 };
    let top = [family, bits, source_bits, 0, short_table(table), protocol, 0, route.kind];
    let mut draft = inquiry.reply.begin(kind::NEW_ROUTE).put(&top).put(&told.to_le_bytes());
    draft.attribute(attribute::DESTINATION, &octets(query.destination));
    if let Some(source) = source {
        draft.attribute(attribute::SOURCE, &octets(source));
    }
    draft.u32(attribute::TABLE, table);
    if let Some(interface) = route.interface {
        draft.u32(attribute::OUTPUT, interface);
    }
    if let Some(chosen) =
        route.preferred_source.filter(|_| query.source.is_none() || family != INET)
    {
        draft.attribute(attribute::PREFERRED_SOURCE, &octets(chosen));
    }
    if let Some(gateway) = route.gateway {
        draft.attribute(attribute::GATEWAY, &octets(gateway));
    }
    metrics(&mut draft, route);
    if family == INET {
        draft.u32(attribute::USER, query.user);
    } else {
        draft.u32(attribute::METRIC, route.metric);
    }
    draft.words(attribute::CACHE, &[0; 8]);
    if family != INET {
        draft.u8(attribute::PREFERENCE, 0);
    }
    if let Some(mark) = attributes.u32(attribute::MARK).filter(|mark| *mark != 0) {
        draft.u32(attribute::MARK, mark);
    }
    draft.finish()
}
