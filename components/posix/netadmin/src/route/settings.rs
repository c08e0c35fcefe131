//! Settings of interfaces (`struct netconfmsg`, `NETCONFA_*`) and of the tables of neighbours (`struct ndtmsg`, `NDTA_*`).
use super::inquiry::{Filtering, Inquiry, kind};
use crate::{
    NetErrno,
    base::{ExplainedErrno, INET, INET6, link_numbered},
    wire::{Attributes, Draft, Reply},
};
use alloc::{vec, vec::Vec};
use interfaces::sockets::{
    InterfaceParameter as Conf, NetworkAdministration, NetworkParameter, ParameterScope,
};

/// `NETCONFA_*`.
mod attribute {
    pub(super) const INTERFACE: u16 = 1;
    pub(super) const FORWARDING: u16 = 2;
    pub(super) const REVERSE_PATH: u16 = 3;
    pub(super) const GROUP_FORWARDING: u16 = 4;
    pub(super) const PROXY: u16 = 5;
    pub(super) const IGNORES_DOWN: u16 = 6;
    pub(super) const BROADCAST_FORWARDING: u16 = 8;
}
/// `NDTA_*` and, within `PARAMETERS`, `NDTPA_*`.
mod table {
    pub(super) const NAME: u16 = 1;
    pub(super) const THRESHOLD3: u16 = 4;
    pub(super) const PARAMETERS: u16 = 6;
    pub(super) const INTERFACE: u16 = 1;
    pub(super) const REFERENCES: u16 = 2;
    pub(super) const REACHABLE: u16 = 3;
    pub(super) const BASE_REACHABLE: u16 = 4;
    pub(super) const RETRANSMIT: u16 = 5;
}
/// Bytes of `struct netconfmsg` with its padding.
const HEAD: usize = 4;
/// `NETCONFA_IFINDEX_ALL`, `NETCONFA_IFINDEX_DEFAULT`.
const ALL: i32 = -1;
const DEFAULT: i32 = -2;

/// Returns the value of a setting; zero for one that the stack does not have.
fn value(network: &dyn NetworkAdministration, parameter: NetworkParameter) -> u32 {
    let values = network.parameter(parameter);
    values.and_then(|values| values.first().copied()).map_or(0, |value| value as u32)
}

/// Describes the settings of an interface, or of all or those to come.
fn describe(
    inquiry: &Inquiry<'_>,
    reply: Reply,
    family: u8,
    (number, scope): (i32, ParameterScope),
) -> Vec<u8> {
    let of = |conf| value(inquiry.network, NetworkParameter::Conf(scope, conf));
    described(reply, family, number, of)
}

/// Tells the settings of a new interface: those that are told here are off in each one, and stay so.
pub(super) fn of_new(reply: Reply, family: u8, index: u32) -> Vec<u8> {
    described(reply, family, index as i32, |_| 0)
}

/// Tells that an interface has no settings any more.
pub(super) fn of_gone(reply: Reply, family: u8, index: u32) -> Vec<u8> {
    let mut draft = reply.begin(kind::DELETE_SETTINGS).put(&[family, 0, 0, 0]);
    draft.u32(attribute::INTERFACE, index);
    draft.finish()
}

fn described(reply: Reply, family: u8, number: i32, of: impl Fn(Conf) -> u32) -> Vec<u8> {
    let mut draft = reply.begin(kind::NEW_SETTINGS).put(&[family, 0, 0, 0]);
    draft.u32(attribute::INTERFACE, number as u32);
    if family == INET {
        draft.u32(attribute::FORWARDING, of(Conf::Forwarding4));
        draft.u32(attribute::REVERSE_PATH, of(Conf::ReversePathFilter));
    } else {
        draft.u32(attribute::FORWARDING, of(Conf::Forwarding6));
    }
    // Groups are not forwarded, nothing is answered for other hosts, and routes need an interface that is up.
    draft.u32(attribute::GROUP_FORWARDING, 0);
    if family == INET {
        draft.u32(attribute::BROADCAST_FORWARDING, 0);
    }
    draft.u32(attribute::PROXY, 0);
    draft.u32(attribute::IGNORES_DOWN, 0);
    draft.finish()
}

/// Lists the settings of all interfaces.
pub(super) fn dump(inquiry: &Inquiry<'_>) -> Vec<Vec<u8>> {
    let links = inquiry.network.links();
    let reply = inquiry.dump(Filtering::None);
    let mut messages = Vec::new();
    for family in [INET, INET6].into_iter().filter(|family| inquiry.wants(*family)) {
        let own =
            links.iter().map(|link| (link.index as i32, ParameterScope::Interface(link.index)));
        let whole = [(ALL, ParameterScope::All), (DEFAULT, ParameterScope::Default)];
        messages.extend(own.chain(whole).map(|one| describe(inquiry, reply, family, one)));
    }
    messages
}

/// Describes the settings of an interface.
///
/// # Errors
/// `EINVAL`, also for an interface that is not there.
pub(super) fn get(inquiry: &Inquiry<'_>) -> Result<Vec<Vec<u8>>, ExplainedErrno> {
    let attributes = Attributes::after(inquiry.message.body, HEAD);
    let number = attributes.u32(attribute::INTERFACE).ok_or(NetErrno::EINVAL)? as i32;
    let scope = match number {
        ALL => ParameterScope::All,
        DEFAULT => ParameterScope::Default,
        number => {
            let link = link_numbered(inquiry.network, number as u32);
            ParameterScope::Interface(link.map_err(|_| NetErrno::EINVAL)?.index)
        }
    };
    Ok(vec![describe(inquiry, inquiry.reply, inquiry.family, (number, scope))])
}

/// Puts a time in milliseconds.
fn time(draft: &mut Draft, number: u16, ms: u32) {
    draft.attribute(number, &u64::from(ms).to_le_bytes());
}

/// Describes the table of neighbours of a family: as a whole, or its settings for an interface.
fn describe_table(
    inquiry: &Inquiry<'_>,
    reply: Reply,
    family: u8,
    interface: Option<u32>,
) -> Vec<u8> {
    let scope = interface.map_or(ParameterScope::Default, ParameterScope::Interface);
    let of = |conf| value(inquiry.network, NetworkParameter::Conf(scope, conf));
    let (name, threshold, reachable, retransmit) = match family {
        INET => (
            "arp_cache",
            NetworkParameter::NeighboursMax4,
            of(Conf::ReachableMs4),
            of(Conf::RetransmitMs4),
        ),
        _ => (
            "ndisc_cache",
            NetworkParameter::NeighboursMax6,
            of(Conf::ReachableMs6),
            of(Conf::RetransmitMs6),
        ),
    };
    let mut draft = reply.begin(kind::NEW_NEIGHBOUR_TABLE).put(&[family, 0, 0, 0]);
    draft.text(table::NAME, name);
    if interface.is_none() {
        draft.u32(table::THRESHOLD3, value(inquiry.network, threshold));
    }
    let nest = draft.nest(table::PARAMETERS);
    if let Some(index) = interface {
        draft.u32(table::INTERFACE, index);
    }
    draft.u32(table::REFERENCES, 1);
    time(&mut draft, table::REACHABLE, reachable);
    time(&mut draft, table::BASE_REACHABLE, reachable);
    time(&mut draft, table::RETRANSMIT, retransmit);
    draft.end(nest);
    draft.finish()
}

/// Lists the tables of neighbours, each with its settings for all interfaces.
pub(super) fn dump_tables(inquiry: &Inquiry<'_>) -> Vec<Vec<u8>> {
    let links = inquiry.network.links();
    let reply = inquiry.dump(Filtering::None);
    let families = [INET, INET6].into_iter().filter(|family| inquiry.wants(*family));
    let places = || [None].into_iter().chain(links.iter().rev().map(|link| Some(link.index)));
    let all = families.flat_map(|family| places().map(move |place| (family, place)));
    all.map(|(family, place)| describe_table(inquiry, reply, family, place)).collect()
}
