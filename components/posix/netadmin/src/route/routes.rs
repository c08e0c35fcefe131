//! Routes: `struct rtmsg` and `RTA_*`.
//!
//! ```text
//!  0       1           2        3     4       5         6       7      8       12
//!  | family| dst bits  | src    | tos | table | protocol| scope | type | flags |
//! ```
use super::inquiry::{Filtering, Inquiry, kind};
use crate::{
    NetErrno,
    base::{ExplainedErrno, INET, INET6, METRIC6, family_of, octets, unspecified},
    wire::{ATTRIBUTE_BYTES, Attributes, Draft, Fields, Reply},
};
use alloc::vec::Vec;
use core::net::IpAddr;
use interfaces::sockets::{
    AdministrationError, CongestionControl, NetworkChange, RouteMetrics, RouteRecord,
    RouteWayRecord, TableRecord, number,
};

pub(super) const HEAD: usize = 12;
/// `RTA_*`.
pub(super) mod attribute {
    pub(crate) const DESTINATION: u16 = 1;
    pub(crate) const SOURCE: u16 = 2;
    pub(crate) const INPUT: u16 = 3;
    pub(crate) const OUTPUT: u16 = 4;
    pub(crate) const GATEWAY: u16 = 5;
    pub(crate) const METRIC: u16 = 6;
    pub(crate) const PREFERRED_SOURCE: u16 = 7;
    pub(crate) const METRICS: u16 = 8;
    pub(crate) const MULTIPATH: u16 = 9;
    pub(crate) const CACHE: u16 = 12;
    pub(crate) const TABLE: u16 = 15;
    pub(crate) const MARK: u16 = 16;
    pub(crate) const VIA: u16 = 18;
    pub(crate) const PREFERENCE: u16 = 20;
    pub(crate) const ENCAPSULATION: u16 = 22;
    pub(crate) const USER: u16 = 25;
    pub(crate) const IP_PROTOCOL: u16 = 27;
    pub(crate) const SOURCE_PORT: u16 = 28;
    pub(crate) const DESTINATION_PORT: u16 = 29;
    pub(crate) const NEXT_HOP: u16 = 30;
}
/// `RTM_F_CLONED`, `RTM_F_PREFIX`.
pub(super) const CLONED: u32 = 0x200;
const PREFIX: u32 = 0x800;
/// `RTNH_F_ONLINK`, `RTNH_F_LINKDOWN`, `RTNH_F_DEAD`.
const ON_LINK: u32 = 4;
const LINK_DOWN: u8 = 16;
const DEAD: u8 = 1;
/// Bytes of `struct rtnexthop`.
const WAY_HEAD: usize = 8;
/// `RT_TABLE_COMPAT`, for tables whose number is no byte.
const COMPATIBLE: u8 = 252;
/// The greatest MTU and segment that metrics keep, and the features that Linux 6.1 knows.
const METRIC_MTU_MAX: u32 = 65_535 - 15;
const METRIC_SEGMENT_MAX: u32 = 65_535 - 40;
const FEATURES: u32 = 0xf;
/// Types that routes can have.
const KIND_LAST: u8 = 11;

/// Returns the number of a table as a byte.
pub(super) fn short_table(table: u32) -> u8 {
    u8::try_from(table).unwrap_or(COMPATIBLE)
}

/// Adds `RTA_METRICS`.
pub(super) fn metrics(draft: &mut Draft, route: &RouteRecord) {
    if route.metrics == RouteMetrics::default() {
        return;
    }
    let nest = draft.nest(attribute::METRICS);
    for (number, value) in route.metrics.given() {
        let at = number as u16;
        match CongestionControl::numbered(i64::from(value) - 1) {
            Some(control) if number == RouteMetrics::CONGESTION => draft.text(at, control.name()),
            _ => draft.u32(at, value),
        }
    }
    draft.end(nest);
}

/// Reads `RTA_METRICS` (`ip_metrics_convert`).
fn read_metrics(inner: Attributes<'_>) -> Result<RouteMetrics, ExplainedErrno> {
    let mut metrics = RouteMetrics::default();
    for (number, value) in inner {
        let number = usize::from(number);
        let given = match number {
            0 => continue,
            RouteMetrics::CONGESTION => {
                let name = crate::base::text(value).unwrap_or_default();
                let control = CongestionControl::named(name.as_bytes());
                let unknown = NetErrno::EINVAL.saying("Unknown tcp congestion algorithm");
                control.ok_or(unknown)?.number() as u32 + 1
            }
            1..=RouteMetrics::LAST => {
                let wrong = NetErrno::EINVAL.saying("Invalid attribute in metrics");
                Fields(value).u32(0).filter(|_| value.len() == 4).ok_or(wrong)?
            }
            _ => return Err(NetErrno::EINVAL.saying("Invalid metric type")),
        };
        let most = match number {
            RouteMetrics::MTU => METRIC_MTU_MAX,
            RouteMetrics::ADVERTISED_SEGMENT => METRIC_SEGMENT_MAX,
            RouteMetrics::HOP_LIMIT => u8::MAX.into(),
            RouteMetrics::FEATURES if given & !FEATURES != 0 => {
                let text = "Unknown flag set in feature mask in metrics attribute";
                return Err(NetErrno::EINVAL.saying(text));
            }
            _ => u32::MAX,
        };
        metrics.set(number, given.min(most));
    }
    Ok(metrics)
}

/// Describes a route.
pub(super) fn describe(reply: Reply, kind: u16, route: &RouteRecord) -> Vec<u8> {
    let family = family_of(route.destination);
    let head = [
        family,
        route.prefix_length,
        0,
        0,
        short_table(route.table),
        route.protocol,
        route.scope,
        route.kind,
    ];
    let is_on_link = route.is_on_link && route.ways.is_empty();
    let flags = if is_on_link { ON_LINK } else { 0 };
    let mut draft = reply.begin(kind).put(&head).put(&flags.to_le_bytes());
    draft.u32(attribute::TABLE, route.table);
    if route.prefix_length > 0 {
        draft.attribute(attribute::DESTINATION, &octets(route.destination));
    }
    if family == INET {
        if route.metric != 0 {
            draft.u32(attribute::METRIC, route.metric);
        }
        metrics(&mut draft, route);
    }
    if let Some(source) = route.preferred_source {
        draft.attribute(attribute::PREFERRED_SOURCE, &octets(source));
    }
    if family == INET6 {
        metrics(&mut draft, route);
    }
    if route.ways.is_empty() {
        if let Some(gateway) = route.gateway {
            draft.attribute(attribute::GATEWAY, &octets(gateway));
        }
        if let Some(interface) = route.interface {
            draft.u32(attribute::OUTPUT, interface);
        }
    } else {
        ways(&mut draft, &route.ways);
    }
    if family == INET6 {
        draft.u32(attribute::METRIC, route.metric);
        // Hundredths of a second.
        let expires = route.expires_s.map_or(0, |seconds| seconds.saturating_mul(100));
        draft.words(attribute::CACHE, &[0, 0, expires, 0, 0, 0, 0, 0]);
        draft.u8(attribute::PREFERENCE, 0);
    }
    draft.finish()
}

/// Adds `RTA_MULTIPATH`: a `struct rtnexthop` with its attributes for each way.
fn ways(draft: &mut Draft, ways: &[RouteWayRecord]) {
    let nest = draft.nest(attribute::MULTIPATH);
    for way in ways {
        let gateway = way.gateway.map(octets);
        let of_gateway = gateway.as_ref().map_or(0, |octets| ATTRIBUTE_BYTES + octets.len());
        let mut flags = if way.is_on_link { ON_LINK as u8 } else { 0 };
        if way.is_dead {
            flags |= DEAD | LINK_DOWN;
        }
        let length = (WAY_HEAD + of_gateway) as u16;
        draft.bytes(&length.to_le_bytes());
        draft.bytes(&[flags, way.weight.saturating_sub(1) as u8]);
        draft.bytes(&way.interface.to_le_bytes());
        if let Some(gateway) = gateway {
            draft.attribute(attribute::GATEWAY, &gateway);
        }
    }
    draft.end(nest);
}

/// Reads `RTA_MULTIPATH` (`fib_get_nhs`, `ip6_route_multipath_add`).
fn read_ways(family: u8, value: &[u8]) -> Result<Vec<RouteWayRecord>, ExplainedErrno> {
    let extra = "Invalid nexthop configuration - extra data after nexthop";
    let (mut rest, mut all) = (value, Vec::new());
    while !rest.is_empty() {
        let fields = Fields(rest);
        let length = usize::from(fields.u16(0).unwrap_or(0));
        let body = rest.get(WAY_HEAD..length).ok_or(NetErrno::EINVAL.saying(extra))?;
        let flags = fields.u8(2).unwrap_or(0);
        if flags & (DEAD | LINK_DOWN) != 0 && family == INET {
            let text = "Invalid flags for nexthop - can not contain DEAD or LINKDOWN";
            return Err(NetErrno::EINVAL.saying(text));
        }
        let attributes = Attributes::after(body, 0);
        let has = |number| attributes.find(number).is_some();
        if has(attribute::VIA) || has(attribute::ENCAPSULATION) {
            return Err(NetErrno::EOPNOTSUPP.into());
        }
        let gateway = attributes.address(attribute::GATEWAY, family)?;
        all.push(RouteWayRecord {
            interface: fields.u32(4).unwrap_or(0),
            gateway: gateway.filter(|gateway| !gateway.is_unspecified()),
            is_on_link: u32::from(flags) & ON_LINK != 0,
            is_dead: false,
            weight: u16::from(fields.u8(3).unwrap_or(0)) + 1,
        });
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    if all.is_empty() {
        let text = "Invalid nexthop configuration - no valid nexthops";
        return Err(NetErrno::EINVAL.saying(if family == INET { extra } else { text }));
    }
    Ok(all)
}

/// The entries that a dump wants.
#[derive(Clone, Copy, Default)]
struct Wanted {
    table: Option<u32>,
    interface: Option<u32>,
    protocol: Option<u8>,
    kind: Option<u8>,
    flags: u32,
}

impl Wanted {
    fn of(inquiry: &Inquiry<'_>) -> Result<Wanted, ExplainedErrno> {
        let Ok(head) = inquiry.head(HEAD) else {
            return if inquiry.asker.is_strict {
                Err(NetErrno::EINVAL.into())
            } else {
                Ok(Wanted::default())
            };
        };
        let fields = Fields(head);
        let flags = fields.u32(8).unwrap_or(0);
        if !inquiry.asker.is_strict {
            return Ok(Wanted { flags: flags & (PREFIX | CLONED), ..Wanted::default() });
        }
        let mut attributes = Attributes::after(inquiry.message.body, HEAD);
        let is_bad =
            |(number, _): (u16, &[u8])| !matches!(number, attribute::TABLE | attribute::OUTPUT);
        let has_bad_head = [1, 2, 3, 6].into_iter().any(|at| fields.u8(at).unwrap_or(0) != 0);
        if has_bad_head || flags & !(CLONED | PREFIX) != 0 || attributes.any(is_bad) {
            return Err(NetErrno::EINVAL.into());
        }
        let attributes = Attributes::after(inquiry.message.body, HEAD);
        let byte = |at| fields.u8(at).filter(|value| *value != 0);
        Ok(Wanted {
            table: attributes
                .u32(attribute::TABLE)
                .or(byte(4).map(u32::from))
                .filter(|it| *it != 0),
            interface: attributes.u32(attribute::OUTPUT),
            protocol: byte(5),
            kind: byte(7),
            flags,
        })
    }
    fn takes(&self, route: &RouteRecord) -> bool {
        self.table.is_none_or(|table| table == route.table)
            && self.interface.is_none_or(|index| Some(index) == route.interface)
            && self.protocol.is_none_or(|protocol| protocol == route.protocol)
            && self.kind.is_none_or(|kind| kind == route.kind)
    }
    fn filtering(&self) -> Filtering {
        let is_any = self.table.is_none()
            && self.interface.is_none()
            && self.protocol.is_none()
            && self.kind.is_none();
        if is_any { Filtering::None } else { Filtering::Done }
    }
}

/// Lists the routes.
///
/// # Errors
/// `EINVAL` for a request that a strict check refuses, `ENODEV` for its interface, `ENOENT` for its table.
pub(super) fn dump(inquiry: &Inquiry<'_>) -> Result<Vec<Vec<u8>>, ExplainedErrno> {
    let wanted = Wanted::of(inquiry)?;
    if let Some(index) = wanted.interface {
        crate::base::link_numbered(inquiry.network, index)?;
    }
    // The cache is not kept by route.
    if wanted.flags & CLONED != 0 {
        return Ok(Vec::new());
    }
    let all = inquiry.network.routes();
    if let Some(table) = wanted.table
        && matches!(inquiry.family, INET | INET6)
        && !matches!(table, number::TABLE_MAIN | number::TABLE_LOCAL)
    {
        let is_version6 = inquiry.family == INET6;
        let text = match is_version6 {
            true => "ipv6: FIB table does not exist",
            false => "ipv4: FIB table does not exist",
        };
        let record = TableRecord { is_version6, number: table };
        if !inquiry.network.tables().contains(&record) {
            return Err(NetErrno::ENOENT.saying(text));
        }
    }
    let reply = inquiry.dump(wanted.filtering());
    let chosen = all.iter().filter(|one| wanted.takes(one));
    let family = |one: &RouteRecord| family_of(one.destination);
    Ok(inquiry.list(chosen, family, |one| describe(reply, kind::NEW_ROUTE, one)))
}

/// Reads a route of a request.
fn read(inquiry: &Inquiry<'_>) -> Result<RouteRecord, ExplainedErrno> {
    let family = inquiry.family;
    let head = Fields(inquiry.head(HEAD)?);
    let attributes = Attributes::after(inquiry.message.body, HEAD);
    let one = |number| attributes.address(number, family);
    let bits = if family == INET { 32 } else { 128 };
    let byte = |at| head.u8(at).unwrap_or(0);
    let prefix_length = byte(1);
    if prefix_length > bits || byte(2) > bits {
        return Err(NetErrno::EINVAL.saying("Invalid prefix length"));
    }
    if byte(7) > KIND_LAST {
        return Err(NetErrno::EINVAL.into());
    }
    // Routes by source or service, and through tunnels, do not exist.
    let has = |number| attributes.find(number).is_some();
    let is_foreign =
        has(attribute::VIA) || has(attribute::ENCAPSULATION) || has(attribute::NEXT_HOP);
    if is_foreign || byte(2) != 0 || byte(3) != 0 {
        return Err(NetErrno::EOPNOTSUPP.into());
    }
    let inner = attributes.find(attribute::METRICS).map(Attributes::within);
    let table = attributes.u32(attribute::TABLE).unwrap_or(byte(4).into());
    let ways = attributes.find(attribute::MULTIPATH).filter(|value| !value.is_empty());
    let ways = ways.map_or(Ok(Vec::new()), |value| read_ways(family, value))?;
    let first = ways.first().copied();
    let interface = attributes.u32(attribute::OUTPUT).filter(|index| *index != 0);
    let gateway = one(attribute::GATEWAY)?.filter(|gateway| !gateway.is_unspecified());
    Ok(RouteRecord {
        table: if table == 0 { number::TABLE_MAIN } else { table },
        destination: one(attribute::DESTINATION)?.unwrap_or(unspecified(family)),
        prefix_length,
        kind: byte(7),
        scope: byte(6),
        protocol: byte(5),
        interface: first.map_or(interface, |way| Some(way.interface).filter(|index| *index != 0)),
        gateway: first.map_or(gateway, |way| way.gateway),
        preferred_source: one(attribute::PREFERRED_SOURCE)?,
        metric: attributes.u32(attribute::METRIC).unwrap_or(0),
        metrics: inner.map_or(Ok(RouteMetrics::default()), read_metrics)?,
        is_on_link: first.map_or(head.u32(8).unwrap_or(0) & ON_LINK != 0, |way| way.is_on_link),
        // One way is a route as all others.
        ways: if ways.len() > 1 { ways } else { Vec::new() },
        expires_s: None,
    })
}

/// Adds or changes a route.
///
/// # Errors
/// `EINVAL`, `EOPNOTSUPP`, and those of the change.
pub(super) fn new(inquiry: &Inquiry<'_>) -> Result<(), ExplainedErrno> {
    let mut route = read(inquiry)?;
    if route.kind == 0 {
        route.kind = number::KIND_UNICAST;
    }
    if inquiry.family == INET6 {
        // Routes of IPv6 have no scope.
        route.scope = number::SCOPE_UNIVERSE;
        route.metric = if route.metric == 0 { METRIC6 } else { route.metric };
    }
    let gateway = route.gateway;
    let done = inquiry.network.change(&NetworkChange::Route(route, inquiry.mode()));
    done.map_err(|error| refusal(error, inquiry.family, gateway))
}

/// Returns the error of a change of routes, with the text that its family has for it.
fn refusal(error: AdministrationError, family: u8, gateway: Option<IpAddr>) -> ExplainedErrno {
    let (of4, of6) = match error {
        AdministrationError::SourceInvalid => {
            (Some("Invalid prefsrc address"), Some("Invalid source address"))
        }
        AdministrationError::GatewayInvalid | AdministrationError::GatewayUnreachable => {
            (Some("Nexthop has invalid gateway"), Some("Invalid gateway address"))
        }
        AdministrationError::NetworkDown if gateway.is_some() => {
            (Some("Nexthop device is not up"), Some("Nexthop device is not up"))
        }
        AdministrationError::NetworkDown => {
            (Some("Device for nexthop is not up"), Some("Nexthop device is not up"))
        }
        AdministrationError::NoEntry => (None, Some("Can not replace route - no match found")),
        error => return error.into(),
    };
    ExplainedErrno { number: error.into(), text: if family == INET { of4 } else { of6 } }
}

/// Removes a route.
///
/// # Errors
/// `EINVAL`, `EOPNOTSUPP`, `ESRCH`.
pub(super) fn delete(inquiry: &Inquiry<'_>) -> Result<(), ExplainedErrno> {
    let mut route = read(inquiry)?;
    if inquiry.family == INET6 {
        route.scope = number::SCOPE_NOWHERE;
    }
    Ok(inquiry.network.change(&NetworkChange::RemoveRoute(route))?)
}
