//! Neighbours: `struct ndmsg` and `NDA_*`.
//!
//! ```text
//!  0       1     4        8       10      11     12
//!  | family| pad | number | state | flags | type |
//! ```
use super::inquiry::{Filtering, Inquiry, kind};
use crate::{
    NetErrno,
    base::{ExplainedErrno, INET, INET6, address, family_of, link_numbered, octets},
    wire::{Attributes, Fields, Reply},
};
use alloc::{vec, vec::Vec};
use core::net::IpAddr;
use interfaces::sockets::{EntryMode, NeighbourRecord, NetworkChange, number};

const HEAD: usize = 12;
/// `NDA_*`.
mod attribute {
    pub(super) const DESTINATION: u16 = 1;
    pub(super) const LINK_ADDRESS: u16 = 2;
    pub(super) const CACHE: u16 = 3;
    pub(super) const PROBES: u16 = 4;
    pub(super) const INTERFACE: u16 = 8;
    pub(super) const MASTER: u16 = 9;
}
/// `NTF_PROXY`, `NTF_ROUTER`.
const PROXY: u8 = 8;
const ROUTER: u8 = 0x80;
const MS_PER_TICK: u64 = 10;

/// Describes a neighbour.
pub(super) fn describe(reply: Reply, kind: u16, entry: &NeighbourRecord) -> Vec<u8> {
    let flags = if entry.is_router { ROUTER } else { 0 };
    let sort = match entry.address {
        address if address.is_multicast() => number::KIND_MULTICAST,
        IpAddr::V4(address) if address.is_broadcast() => number::KIND_BROADCAST,
        _ => number::KIND_UNICAST,
    };
    let mut draft = reply
        .begin(kind)
        .put(&[family_of(entry.address), 0, 0, 0])
        .put(&entry.interface.to_le_bytes())
        .put(&entry.state.to_le_bytes())
        .put(&[flags, sort]);
    draft.attribute(attribute::DESTINATION, &octets(entry.address));
    if let Some(mac) = entry.mac.filter(|_| entry.state & number::NEIGHBOUR_VALID != 0) {
        draft.attribute(attribute::LINK_ADDRESS, &mac);
    }
    draft.u32(attribute::PROBES, entry.probes);
    let ticks = |ms: u64| (ms / MS_PER_TICK).min(u32::MAX.into()) as u32;
    let times = [ticks(entry.confirmed_ms), ticks(entry.used_ms), ticks(entry.updated_ms), 0];
    draft.words(attribute::CACHE, &times);
    draft.finish()
}

/// Lists the neighbours.
///
/// # Errors
/// `EINVAL` for a request that a strict check refuses.
pub(super) fn dump(inquiry: &Inquiry<'_>) -> Result<Vec<Vec<u8>>, ExplainedErrno> {
    let attributes = Attributes::after(inquiry.message.body, HEAD);
    let head = inquiry.head(HEAD);
    if inquiry.asker.is_strict {
        let head = head?;
        // All but family and flags must be zero.
        let is_bad = |(at, byte): (usize, &u8)| at > 0 && at != 10 && *byte != 0;
        let is_odd =
            |(number, _): (u16, &[u8])| !matches!(number, attribute::INTERFACE | attribute::MASTER);
        let mut rest = attributes;
        if head.iter().enumerate().any(is_bad) || rest.any(is_odd) {
            return Err(NetErrno::EINVAL.into());
        }
    }
    let wants_proxies = head.is_ok_and(|head| Fields(head).u8(10) == Some(PROXY));
    let only = attributes.u32(attribute::INTERFACE).filter(|index| *index != 0);
    let has_master = attributes.u32(attribute::MASTER).is_some_and(|master| master != 0);
    let filter = if only.is_some() || has_master { Filtering::Done } else { Filtering::None };
    if wants_proxies || has_master {
        return Ok(Vec::new());
    }
    let reply = inquiry.dump(filter);
    let all = inquiry.network.neighbours();
    let chosen = all.iter().filter(|one| only.is_none_or(|index| index == one.interface));
    let family = |one: &NeighbourRecord| family_of(one.address);
    Ok(inquiry.list(chosen, family, |one| describe(reply, kind::NEW_NEIGHBOUR, one)))
}

/// Returns the number of the interface and the address that a request names.
fn subject(inquiry: &Inquiry<'_>) -> Result<(u32, IpAddr), ExplainedErrno> {
    let head = Fields(inquiry.head(HEAD)?);
    let attributes = Attributes::after(inquiry.message.body, HEAD);
    let bytes = attributes.find(attribute::DESTINATION).ok_or(NetErrno::EINVAL)?;
    let index = head.u32(4).unwrap_or(0);
    if index != 0 {
        link_numbered(inquiry.network, index)?;
    }
    if !matches!(inquiry.family, INET | INET6) {
        return Err(NetErrno::EOPNOTSUPP.into());
    }
    let address = address(inquiry.family, bytes).ok_or(NetErrno::EINVAL)?;
    if head.u8(10).unwrap_or(0) & PROXY != 0 {
        // Nothing is answered for other hosts.
        return Err(NetErrno::EOPNOTSUPP.into());
    }
    Ok((index, address))
}

/// Describes one neighbour.
///
/// # Errors
/// `EINVAL`, `ENODEV`, `ENOENT`.
pub(super) fn get(inquiry: &Inquiry<'_>) -> Result<Vec<Vec<u8>>, ExplainedErrno> {
    let (index, address) = subject(inquiry)?;
    if index == 0 {
        return Err(NetErrno::EINVAL.into());
    }
    let all = inquiry.network.neighbours();
    let entry = all.iter().find(|one| one.interface == index && one.address == address);
    let entry = entry.ok_or(NetErrno::ENOENT.saying("Neighbour entry not found"))?;
    Ok(vec![describe(inquiry.reply, kind::NEW_NEIGHBOUR, entry)])
}

/// Sets a neighbour.
///
/// # Errors
/// `EINVAL`, `ENODEV`, `EEXIST`, `ENOENT`, and those of the change.
pub(super) fn new(inquiry: &Inquiry<'_>) -> Result<(), ExplainedErrno> {
    let (interface, address) = subject(inquiry)?;
    if interface == 0 {
        return Err(NetErrno::EINVAL.into());
    }
    let head = Fields(inquiry.head(HEAD)?);
    let attributes = Attributes::after(inquiry.message.body, HEAD);
    let record = NeighbourRecord {
        mac: attributes.mac(attribute::LINK_ADDRESS)?,
        is_router: head.u8(10).unwrap_or(0) & ROUTER != 0,
        ..NeighbourRecord::new(interface, address, head.u16(8).unwrap_or(0))
    };
    let mode = match inquiry.mode() {
        EntryMode::Create => EntryMode::Create,
        EntryMode::Change => EntryMode::Change,
        _ => EntryMode::Replace,
    };
    Ok(inquiry.network.change(&NetworkChange::Neighbour(record, mode))?)
}

/// Removes a neighbour.
///
/// # Errors
/// `EINVAL`, `ENODEV`, `ENOENT`.
pub(super) fn delete(inquiry: &Inquiry<'_>) -> Result<(), ExplainedErrno> {
    let (interface, address) = subject(inquiry)?;
    if interface == 0 {
        return Err(NetErrno::EINVAL.into());
    }
    Ok(inquiry.network.change(&NetworkChange::RemoveNeighbour { interface, address })?)
}
