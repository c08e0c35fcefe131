//! Rules: `struct fib_rule_hdr` and `FRA_*`.
//!
//! ```text
//!  0       1          2          3     4       5           7        8       12
//!  | family| dst bits | src bits | tos | table | reserved  | action | flags |
//! ```
use super::{
    inquiry::{Filtering, Inquiry, kind},
    routes::short_table,
};
use crate::{
    NetErrno,
    base::{ExplainedErrno, INET, INET6, NAME_BYTES, octets},
    wire::{Attributes, Draft, Fields, Reply, flag},
};
use alloc::{string::ToString, vec::Vec};
use core::net::IpAddr;
use interfaces::sockets::{AdministrationError, EntryMode, NetworkChange, RuleRecord, number};

const HEAD: usize = 12;
/// `FRA_*`.
mod attribute {
    pub(super) const DESTINATION: u16 = 1;
    pub(super) const SOURCE: u16 = 2;
    pub(super) const INPUT: u16 = 3;
    pub(super) const GO_TO: u16 = 4;
    pub(super) const PRIORITY: u16 = 6;
    pub(super) const MARK: u16 = 10;
    pub(super) const REALMS: u16 = 11;
    pub(super) const TUNNEL: u16 = 12;
    pub(super) const SUPPRESS_GROUP: u16 = 13;
    pub(super) const SUPPRESS_PREFIX: u16 = 14;
    pub(super) const TABLE: u16 = 15;
    pub(super) const MARK_MASK: u16 = 16;
    pub(super) const OUTPUT: u16 = 17;
    pub(super) const MASTER: u16 = 19;
    pub(super) const USERS: u16 = 20;
    pub(super) const PROTOCOL: u16 = 21;
    pub(super) const IP_PROTOCOL: u16 = 22;
    pub(super) const SOURCE_PORTS: u16 = 23;
    pub(super) const DESTINATION_PORTS: u16 = 24;
}
/// Bits of the field of a type of service that are for ECN, and those that IPv4 cannot match.
const ECN: u8 = 3;
const HIGH_SERVICE: u8 = 0xe0;

/// Puts a range of ports.
fn ports(draft: &mut Draft, number: u16, range: Option<(u16, u16)>) {
    if let Some((first, last)) = range {
        let [[a, b], [c, d]] = [first.to_le_bytes(), last.to_le_bytes()];
        draft.attribute(number, &[a, b, c, d]);
    }
}

/// Describes a rule.
pub(super) fn describe(reply: Reply, kind: u16, rule: &RuleRecord) -> Vec<u8> {
    let family = if rule.is_version6 { INET6 } else { INET };
    let bits = |network: Option<(IpAddr, u8)>| network.map_or(0, |(_, length)| length);
    let head = [
        family,
        bits(rule.destination),
        bits(rule.source),
        rule.type_of_service,
        short_table(rule.table),
        0,
        0,
        rule.action,
    ];
    let mut draft = reply.begin(kind).put(&head).put(&rule.flags.to_le_bytes());
    draft.u32(attribute::TABLE, rule.table);
    draft.u32(attribute::SUPPRESS_PREFIX, rule.suppress_prefix.unwrap_or(u32::MAX));
    draft.u8(attribute::PROTOCOL, rule.protocol);
    for (number, name) in [(attribute::INPUT, &rule.input), (attribute::OUTPUT, &rule.output)] {
        if !name.is_empty() {
            draft.text(number, name);
        }
    }
    for (number, value, is_told) in [
        (attribute::PRIORITY, rule.priority.unwrap_or(0), false),
        (attribute::MARK, rule.mark, false),
        (attribute::MARK_MASK, rule.mark_mask, rule.mark != 0),
        (attribute::GO_TO, rule.target, false),
    ] {
        if value != 0 || is_told {
            draft.u32(number, value);
        }
    }
    if let Some((first, last)) = rule.users {
        draft.words(attribute::USERS, &[first, last]);
    }
    ports(&mut draft, attribute::SOURCE_PORTS, rule.source_ports);
    ports(&mut draft, attribute::DESTINATION_PORTS, rule.destination_ports);
    if rule.ip_protocol != 0 {
        draft.u8(attribute::IP_PROTOCOL, rule.ip_protocol);
    }
    if let Some(group) = rule.suppress_group {
        draft.u32(attribute::SUPPRESS_GROUP, group);
    }
    let networks = [(attribute::DESTINATION, rule.destination), (attribute::SOURCE, rule.source)];
    for (number, (address, _)) in networks.into_iter().filter_map(|(at, one)| Some((at, one?))) {
        draft.attribute(number, &octets(address));
    }
    draft.finish()
}

/// Lists the rules.
///
/// # Errors
/// `EINVAL` for a request that a strict check refuses.
pub(super) fn dump(inquiry: &Inquiry<'_>) -> Result<Vec<Vec<u8>>, ExplainedErrno> {
    if inquiry.asker.is_strict {
        let head = inquiry.message.body.get(..HEAD);
        let head =
            head.ok_or(NetErrno::EINVAL.saying("Invalid header for fib rule dump request"))?;
        if head.iter().skip(1).any(|byte| *byte != 0) {
            let text = "Invalid values in header for fib rule dump request";
            return Err(NetErrno::EINVAL.saying(text));
        }
        if inquiry.message.body.len() > HEAD {
            return Err(
                NetErrno::EINVAL.saying("Invalid data after header in fib rule dump request")
            );
        }
    }
    let reply = inquiry.dump(Filtering::None);
    let rules = inquiry.network.rules();
    let family = |rule: &RuleRecord| if rule.is_version6 { INET6 } else { INET };
    Ok(inquiry.list(rules.iter(), family, |rule| describe(reply, kind::NEW_RULE, rule)))
}

/// Reads a network whose number of bits the head tells.
fn network(
    attributes: Attributes<'_>,
    number: u16,
    (family, bits): (u8, u8),
    text: &'static str,
) -> Result<Option<(IpAddr, u8)>, ExplainedErrno> {
    if bits == 0 {
        return Ok(None);
    }
    let bytes = attributes.find(number).filter(|bytes| {
        let length = if family == INET { 4 } else { 16 };
        bytes.len() == length && usize::from(bits) <= length * 8
    });
    let address = bytes.and_then(|bytes| crate::base::address(family, bytes));
    Ok(Some((address.ok_or(NetErrno::EINVAL.saying(text))?, bits)))
}

/// Reads a range of ports.
fn read_ports(
    attributes: Attributes<'_>,
    number: u16,
    text: &'static str,
) -> Result<Option<(u16, u16)>, ExplainedErrno> {
    let Some(bytes) = attributes.find(number).map(Fields) else { return Ok(None) };
    let range = bytes.u16(0).zip(bytes.u16(2));
    let range = range.filter(|(first, last)| *first != 0 && *last != 0 && first <= last);
    range.map(Some).ok_or(NetErrno::EINVAL.saying(text))
}

/// Checks the lengths of attributes (`fib_rule_policy`).
fn check_lengths(mut attributes: Attributes<'_>) -> Result<(), ExplainedErrno> {
    let is_short = |(number, value): (u16, &[u8])| {
        let least = match number {
            attribute::INPUT | attribute::OUTPUT => {
                let name = crate::base::text(value);
                return name.is_none_or(|name| name.len() >= NAME_BYTES);
            }
            attribute::USERS | attribute::TUNNEL => 8,
            attribute::PROTOCOL | attribute::IP_PROTOCOL | attribute::MASTER => 1,
            attribute::DESTINATION | attribute::SOURCE => 0,
            attribute::GO_TO..=attribute::DESTINATION_PORTS => 4,
            _ => 0,
        };
        value.len() < least
    };
    if attributes.any(is_short) {
        return Err(NetErrno::ERANGE.saying("Error parsing msg"));
    }
    Ok(())
}

/// Reads a rule of a request.
fn read(inquiry: &Inquiry<'_>) -> Result<RuleRecord, ExplainedErrno> {
    let family = inquiry.family;
    let head = inquiry.message.body.get(..HEAD);
    let head = Fields(head.ok_or(NetErrno::EINVAL.saying("Invalid msg length"))?);
    if !matches!(family, INET | INET6) {
        return Err(NetErrno::EAFNOSUPPORT.saying("Rule family not supported"));
    }
    let attributes = Attributes::after(inquiry.message.body, HEAD);
    check_lengths(attributes)?;
    let byte = |at| head.u8(at).unwrap_or(0);
    let name = |number| attributes.text(number).unwrap_or_default().to_string();
    let small = |number| attributes.find(number).and_then(|value| value.first().copied());
    let source =
        network(attributes, attribute::SOURCE, (family, byte(2)), "Invalid source address")?;
    let destination =
        network(attributes, attribute::DESTINATION, (family, byte(1)), "Invalid dst address")?;
    let mark = attributes.u32(attribute::MARK).unwrap_or(0);
    let mask = attributes.u32(attribute::MARK_MASK);
    let table = attributes.u32(attribute::TABLE).unwrap_or(byte(4).into());
    let is_all = |value: &u32| *value != u32::MAX;
    let rule = RuleRecord {
        priority: attributes.u32(attribute::PRIORITY),
        action: byte(7),
        target: attributes.u32(attribute::GO_TO).unwrap_or(0),
        flags: head.u32(8).unwrap_or(0),
        protocol: small(attribute::PROTOCOL).unwrap_or(0),
        source,
        destination,
        type_of_service: byte(3),
        mark,
        // Without a mask all bits of a mark count.
        mark_mask: mask.unwrap_or(if mark != 0 { u32::MAX } else { 0 }),
        input: name(attribute::INPUT),
        output: name(attribute::OUTPUT),
        ip_protocol: small(attribute::IP_PROTOCOL).unwrap_or(0),
        suppress_prefix: attributes.u32(attribute::SUPPRESS_PREFIX).filter(is_all),
        suppress_group: attributes.u32(attribute::SUPPRESS_GROUP).filter(is_all),
        is_version6: family == INET6,
        ..RuleRecord::of_table(0, table)
    };
    let users = attributes.find(attribute::USERS).map(Fields);
    check_target(&rule, attributes.find(attribute::GO_TO))?;
    let users = users.and_then(|pair| pair.u32(0).zip(pair.u32(4)));
    if users.is_some_and(|(first, last)| first == u32::MAX || last == u32::MAX || first > last) {
        return Err(NetErrno::EINVAL.saying("Invalid uid range"));
    }
    let source_ports = read_ports(attributes, attribute::SOURCE_PORTS, "Invalid sport range")?;
    let destination_ports =
        read_ports(attributes, attribute::DESTINATION_PORTS, "Invalid dport range")?;
    let has = |number: u16| {
        attributes.find(number).is_some_and(|value| value.iter().any(|byte| *byte != 0))
    };
    // There are no tunnels, no realms, and no devices on top of others.
    if has(attribute::TUNNEL) || has(attribute::REALMS) || has(attribute::MASTER) {
        return Err(NetErrno::EOPNOTSUPP.into());
    }
    Ok(RuleRecord { users, source_ports, destination_ports, ..rule })
}

/// Checks that a rule goes on with another if its action says so. The stack knows the priority of one that has none.
fn check_target(rule: &RuleRecord, target: Option<&[u8]>) -> Result<(), ExplainedErrno> {
    let text = match (rule.action == number::RULE_GO_TO, target.is_some()) {
        (false, true) => "Unexpected goto",
        (true, false) => "Missing goto target for action goto",
        (true, true) if rule.priority.is_some_and(|own| rule.target <= own) => {
            "Backward goto not supported"
        }
        _ => return Ok(()),
    };
    Err(NetErrno::EINVAL.saying(text))
}

/// Adds a rule.
///
/// # Errors
/// `EINVAL`, `EAFNOSUPPORT`, `EEXIST`, `ENOBUFS`, `EOPNOTSUPP`.
pub(super) fn new(inquiry: &Inquiry<'_>) -> Result<(), ExplainedErrno> {
    let rule = read(inquiry)?;
    if rule.type_of_service & ECN != 0 {
        return Err(NetErrno::EINVAL.saying("Invalid dsfield (tos): ECN bits must be 0"));
    }
    if !rule.is_version6 && rule.type_of_service & HIGH_SERVICE != 0 {
        return Err(NetErrno::EINVAL.saying("Invalid tos"));
    }
    let is_exclusive = inquiry.message.flags & flag::EXCLUSIVE != 0;
    let mode = if is_exclusive { EntryMode::Create } else { EntryMode::Append };
    let goes = rule.action == number::RULE_GO_TO;
    let text = if goes { "Backward goto not supported" } else { "Invalid table" };
    let done = inquiry.network.change(&NetworkChange::Rule(rule, mode));
    done.map_err(|error| match error {
        AdministrationError::Invalid => NetErrno::EINVAL.saying(text),
        error => error.into(),
    })
}

/// Removes a rule.
///
/// # Errors
/// `EINVAL`, `EAFNOSUPPORT`, `ENOENT`, `EPERM`.
pub(super) fn delete(inquiry: &Inquiry<'_>) -> Result<(), ExplainedErrno> {
    let wanted = read(inquiry)?;
    Ok(inquiry.network.change(&NetworkChange::RemoveRule(wanted))?)
}
