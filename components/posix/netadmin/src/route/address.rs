//! Addresses: `struct ifaddrmsg` and `IFA_*`.
//!
//! ```text
//!  0       1        2       3       4        8
//!  | family| prefix | flags | scope | number |
//! ```
use super::inquiry::{Filtering, Inquiry, kind};
use crate::{
    NetErrno,
    base::{ExplainedErrno, INET, INET6, family_of, link_numbered, octets},
    wire::{Attributes, Fields, Reply},
};
use alloc::{string::ToString, vec, vec::Vec};
use core::net::IpAddr;
use interfaces::sockets::{AddressRecord, AddressSelector, EntryMode, NetworkChange};

const HEAD: usize = 8;
/// `IFA_*`.
mod attribute {
    pub(super) const ADDRESS: u16 = 1;
    pub(super) const LOCAL: u16 = 2;
    pub(super) const LABEL: u16 = 3;
    pub(super) const BROADCAST: u16 = 4;
    pub(super) const CACHE: u16 = 6;
    pub(super) const FLAGS: u16 = 8;
    pub(super) const METRIC: u16 = 9;
}
/// Flags that a request may set on an address of IPv6.
const SETTABLE6: u32 = 0x716;
/// Flags that a request may set on an address of IPv4.
const SETTABLE4: u32 = 0x604;

/// Describes an address.
pub(super) fn describe(reply: Reply, kind: u16, entry: &AddressRecord) -> Vec<u8> {
    let family = family_of(entry.address);
    let head = [family, entry.prefix_length, entry.flags as u8, entry.scope];
    let mut draft = reply.begin(kind).put(&head).put(&entry.interface.to_le_bytes());
    let far = entry.peer.unwrap_or(entry.address);
    if family == INET || entry.peer.is_some() {
        draft.attribute(attribute::ADDRESS, &octets(far));
        draft.attribute(attribute::LOCAL, &octets(entry.address));
    } else {
        draft.attribute(attribute::ADDRESS, &octets(entry.address));
    }
    if family == INET {
        if let Some(broadcast) = entry.broadcast {
            draft.attribute(attribute::BROADCAST, &broadcast.octets());
        }
        if !entry.label.is_empty() {
            draft.text(attribute::LABEL, &entry.label);
        }
    }
    draft.u32(attribute::FLAGS, entry.flags);
    if entry.metric != 0 {
        draft.u32(attribute::METRIC, entry.metric);
    }
    let forever = |seconds: Option<u32>| seconds.unwrap_or(u32::MAX);
    let times =
        [forever(entry.preferred_s), forever(entry.valid_s), entry.created_cs, entry.updated_cs];
    draft.words(attribute::CACHE, &times);
    draft.finish()
}

/// Lists the addresses.
///
/// # Errors
/// `EINVAL` for a request that a strict check refuses, `ENODEV` for its interface.
pub(super) fn dump(inquiry: &Inquiry<'_>) -> Result<Vec<Vec<u8>>, ExplainedErrno> {
    let mut only = None;
    if inquiry.asker.is_strict {
        let head = inquiry.head(HEAD)?;
        let has_more = Attributes::after(inquiry.message.body, HEAD).next().is_some();
        if head.iter().skip(1).take(3).any(|byte| *byte != 0) || has_more {
            return Err(NetErrno::EINVAL.into());
        }
        only = Fields(head).u32(4).filter(|index| *index != 0);
        if let Some(index) = only {
            link_numbered(inquiry.network, index)?;
        }
    }
    let filter = if only.is_some() { Filtering::Done } else { Filtering::None };
    let reply = inquiry.dump(filter);
    let all = inquiry.network.addresses();
    let chosen = all.iter().filter(|one| only.is_none_or(|index| index == one.interface));
    let family = |one: &AddressRecord| family_of(one.address);
    Ok(inquiry.list(chosen, family, |one| describe(reply, kind::NEW_ADDRESS, one)))
}

/// Returns the address that a request is about, and its other end: both as `IFA_LOCAL` and `IFA_ADDRESS` say.
fn ends(
    family: u8,
    attributes: Attributes<'_>,
) -> Result<(Option<IpAddr>, Option<IpAddr>), ExplainedErrno> {
    let far = attributes.address(attribute::ADDRESS, family)?;
    Ok((attributes.address(attribute::LOCAL, family)?, far))
}

/// Describes one address of IPv6.
///
/// # Errors
/// `EINVAL`, `EADDRNOTAVAIL`.
pub(super) fn get(inquiry: &Inquiry<'_>) -> Result<Vec<Vec<u8>>, ExplainedErrno> {
    let index = Fields(inquiry.head(HEAD)?).u32(4).unwrap_or(0);
    let (local, far) = ends(inquiry.family, Attributes::after(inquiry.message.body, HEAD))?;
    let wanted = local.or(far).ok_or(NetErrno::EINVAL)?;
    let all = inquiry.network.addresses();
    let fits =
        |one: &&AddressRecord| one.address == wanted && (index == 0 || one.interface == index);
    let entry = all.iter().find(fits).ok_or(NetErrno::EADDRNOTAVAIL)?;
    Ok(vec![describe(inquiry.reply, kind::NEW_ADDRESS, entry)])
}

/// Adds an address, or changes one.
///
/// # Errors
/// `EINVAL`, `ENODEV`, `EEXIST`, and those of the change.
pub(super) fn new(inquiry: &Inquiry<'_>) -> Result<(), ExplainedErrno> {
    let head = Fields(inquiry.head(HEAD)?);
    let attributes = Attributes::after(inquiry.message.body, HEAD);
    let (local, far) = ends(inquiry.family, attributes)?;
    let bits = if inquiry.family == INET { 32 } else { 128 };
    let own = if inquiry.family == INET { local } else { local.or(far) };
    let prefix_length = head.u8(1).filter(|length| *length <= bits).ok_or(NetErrno::EINVAL)?;
    let address = own.ok_or(NetErrno::EINVAL)?;
    let index = head.u32(4).unwrap_or(0);
    let link = link_numbered(inquiry.network, index)?;
    let broadcast = match attributes.find(attribute::BROADCAST).map(Fields) {
        Some(bytes) if inquiry.family == INET => bytes.array::<4>(0),
        _ => None,
    };
    let times = attributes.find(attribute::CACHE).map(Fields);
    let (preferred_s, valid_s) = lifetimes(times)?;
    let flags = attributes.u32(attribute::FLAGS).unwrap_or(head.u8(2).unwrap_or(0).into());
    let settable = if inquiry.family == INET { SETTABLE4 } else { SETTABLE6 };
    let label = attributes.text(attribute::LABEL).unwrap_or(&link.name);
    let record = AddressRecord {
        peer: far.filter(|far| *far != address),
        scope: head.u8(3).unwrap_or(0),
        flags: flags & settable,
        broadcast: broadcast.map(Into::into),
        label: if inquiry.family == INET { label.to_string() } else { Default::default() },
        metric: attributes.u32(attribute::METRIC).unwrap_or(0),
        preferred_s,
        valid_s,
        ..AddressRecord::new(index, address, prefix_length)
    };
    let mode = match inquiry.mode() {
        EntryMode::Replace | EntryMode::Change
            if inquiry.message.flags & crate::wire::flag::REPLACE != 0 =>
        {
            EntryMode::Replace
        }
        _ => EntryMode::Create,
    };
    Ok(inquiry.network.change(&NetworkChange::Address(record, mode))?)
}

/// Returns the preferred and the valid lifetime of `struct ifa_cacheinfo`.
fn lifetimes(times: Option<Fields<'_>>) -> Result<(Option<u32>, Option<u32>), ExplainedErrno> {
    let Some(times) = times else { return Ok((None, None)) };
    let one = |at| times.u32(at).ok_or(NetErrno::EINVAL);
    let (preferred, valid) = (one(0)?, one(4)?);
    if valid == 0 || preferred > valid {
        return Err(NetErrno::EINVAL.into());
    }
    let end = |seconds: u32| (seconds != u32::MAX).then_some(seconds);
    Ok((end(preferred), end(valid)))
}

/// Removes an address.
///
/// # Errors
/// `EINVAL`, `ENODEV`, `EADDRNOTAVAIL`.
pub(super) fn delete(inquiry: &Inquiry<'_>) -> Result<(), ExplainedErrno> {
    let head = Fields(inquiry.head(HEAD)?);
    let attributes = Attributes::after(inquiry.message.body, HEAD);
    let (local, far) = ends(inquiry.family, attributes)?;
    let is_version6 = inquiry.family == INET6;
    if is_version6 && local.is_none() && far.is_none() {
        return Err(NetErrno::EINVAL.into());
    }
    let index = head.u32(4).unwrap_or(0);
    link_numbered(inquiry.network, index)?;
    let prefix_length = head.u8(1).filter(|_| is_version6 || far.is_some());
    let selector = AddressSelector {
        interface: index,
        address: local.or(far),
        label: attributes.text(attribute::LABEL).map(ToString::to_string),
        prefix_length,
    };
    Ok(inquiry.network.change(&NetworkChange::RemoveAddress(selector))?)
}
