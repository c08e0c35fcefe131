//! Interfaces: `struct ifinfomsg` and `IFLA_*`.
//!
//! ```text
//!  0       1     2       4        8       12       16
//!  | family| pad | type  | number | flags | change |
//! ```
use super::inquiry::{Filtering, Inquiry, kind};
use crate::{
    NetErrno,
    base::{ExplainedErrno, NAME_BYTES, link_named, link_numbered},
    wire::{Attributes, Draft, Fields, Reply, flag},
};
use alloc::{string::ToString, vec, vec::Vec};
use interfaces::sockets::{LinkChange, LinkCounts, LinkKind, LinkRecord, NetworkChange};

const HEAD: usize = 16;
/// `RTEXT_FILTER_SKIP_STATS` of `IFLA_EXT_MASK`.
const SKIP_STATS: u32 = 8;
/// Greatest sizes of segments that Linux tells for devices without limits of their own.
const SEGMENT_BYTES_MAX: u32 = 65_536;
/// The same for loopback (`TSO_MAX_SIZE`): nothing cuts its packets.
const LOOPBACK_SEGMENT_BYTES_MAX: u32 = 524_280;
const SEGMENTS_MAX: u32 = 65_535;
/// `IFLA_*`.
pub(super) mod attribute {
    pub(crate) const ADDRESS: u16 = 1;
    pub(crate) const BROADCAST: u16 = 2;
    pub(crate) const NAME: u16 = 3;
    pub(crate) const MTU: u16 = 4;
    pub(crate) const LINK: u16 = 5;
    pub(crate) const QDISC: u16 = 6;
    pub(crate) const STATS: u16 = 7;
    pub(crate) const MASTER: u16 = 10;
    pub(crate) const TRANSMIT_QUEUE: u16 = 13;
    pub(crate) const MAP: u16 = 14;
    pub(crate) const OPERATIONAL: u16 = 16;
    pub(crate) const LINK_MODE: u16 = 17;
    pub(crate) const LINK_INFO: u16 = 18;
    pub(crate) const NAMESPACE_PID: u16 = 19;
    pub(crate) const ALIAS: u16 = 20;
    pub(crate) const STATS64: u16 = 23;
    pub(crate) const AF_SPEC: u16 = 26;
    pub(crate) const GROUP: u16 = 27;
    pub(crate) const NAMESPACE_FD: u16 = 28;
    pub(crate) const EXT_MASK: u16 = 29;
    pub(crate) const PROMISCUITY: u16 = 30;
    pub(crate) const TRANSMIT_QUEUES: u16 = 31;
    pub(crate) const RECEIVE_QUEUES: u16 = 32;
    pub(crate) const CARRIER: u16 = 33;
    pub(crate) const CARRIER_CHANGES: u16 = 35;
    pub(crate) const PROTOCOL_DOWN: u16 = 39;
    pub(crate) const GSO_MAX_SEGS: u16 = 40;
    pub(crate) const GSO_MAX_SIZE: u16 = 41;
    pub(crate) const XDP: u16 = 43;
    pub(crate) const XDP_ATTACHED: u16 = 2;
    pub(crate) const CARRIER_UP_COUNT: u16 = 47;
    pub(crate) const CARRIER_DOWN_COUNT: u16 = 48;
    pub(crate) const MTU_MIN: u16 = 50;
    pub(crate) const MTU_MAX: u16 = 51;
    pub(crate) const OTHER_NAME: u16 = 53;
    pub(crate) const PERMANENT_ADDRESS: u16 = 54;
    pub(crate) const GRO_MAX_SIZE: u16 = 58;
    pub(crate) const TSO_MAX_SIZE: u16 = 59;
    pub(crate) const TSO_MAX_SEGS: u16 = 60;
    pub(crate) const ALL_MULTICAST: u16 = 61;
    /// `IFLA_INET6_FLAGS` and `IFLA_INET6_ADDR_GEN_MODE`, within AF_INET6 of `AF_SPEC`.
    pub(crate) const INET6_FLAGS: u16 = 1;
    pub(crate) const INET6_GENERATION: u16 = 8;
}
/// `IFLA_INFO_*` and `IFLA_TUN_*`.
mod tunnel_attribute {
    pub(super) const KIND: u16 = 1;
    pub(super) const DATA: u16 = 2;
    pub(super) const NAME: &str = "tun";
    pub(super) const OWNER: u16 = 1;
    pub(super) const GROUP: u16 = 2;
    pub(super) const TYPE: u16 = 3;
    pub(super) const PACKET_INFO: u16 = 4;
    pub(super) const VNET_HEADER: u16 = 5;
    pub(super) const PERSISTS: u16 = 6;
    pub(super) const HAS_QUEUES: u16 = 7;
    pub(super) const QUEUES: u16 = 8;
    pub(super) const DISABLED_QUEUES: u16 = 9;
}
/// Bits of a tunnel's flags (`IFF_*` of `if_tun.h`).
mod tunnel_flag {
    /// `IFF_TUN` and `IFF_TAP`.
    pub(super) const LAYERS: u32 = 3;
    pub(super) const HAS_QUEUES: u32 = 0x100;
    pub(super) const PERSISTS: u32 = 0x800;
    pub(super) const NO_INFO: u32 = 0x1000;
    pub(super) const VNET_HEADER: u32 = 0x4000;
}
/// `IFF_PROMISC`, `IFF_ALLMULTI`.
const PROMISCUOUS: u32 = 0x100;
const ALL_MULTICAST: u32 = 0x200;
const UP: u32 = 1;
/// `IN6_ADDR_GEN_MODE_RANDOM`: an interface without an address on the link makes those of IPv6 by chance, once it is on.
const RANDOM_ADDRESSES: u8 = 3;
/// Linux's text for the attempt to make a tunnel by a message.
const TUNNELS_ARE_FILES: &str = "tun/tap creation via rtnetlink is not supported.";
/// `IF_READY` of `IFLA_INET6_FLAGS`.
const READY: u32 = 0x8000_0000;
/// Bytes of an alias with its final zero (`IFALIASZ`).
const ALIAS_BYTES: usize = 256;
/// Flags that a request may change (`__dev_change_flags`).
pub const CHANGEABLE: u32 = 0xd3a5;

/// Returns the queueing discipline that Debian's Linux would have.
fn discipline(link: &LinkRecord) -> &'static str {
    match link.kind {
        // It has not been up yet.
        _ if link.flags & UP == 0 && link.counts == LinkCounts::default() => "noop",
        LinkKind::Loopback => "noqueue",
        LinkKind::Ethernet if link.queues > 1 => "mq",
        LinkKind::Ethernet | LinkKind::Headerless => "fq_codel",
    }
}

/// Returns the greatest size that a device cuts into segments.
fn segment_bytes_max(kind: LinkKind) -> u32 {
    match kind {
        LinkKind::Loopback => LOOPBACK_SEGMENT_BYTES_MAX,
        LinkKind::Ethernet | LinkKind::Headerless => SEGMENT_BYTES_MAX,
    }
}

/// Returns `struct rtnl_link_stats64` as words.
fn stats_words(counts: &LinkCounts) -> [u64; 24] {
    let mut words = [0; 24];
    let known = [
        counts.rx_packets,
        counts.tx_packets,
        counts.rx_bytes,
        counts.tx_bytes,
        counts.rx_errors,
        counts.tx_errors,
        counts.rx_dropped,
        counts.tx_dropped,
        counts.multicast,
    ];
    for (to, from) in words.iter_mut().zip(known) {
        *to = from;
    }
    words[13] = counts.rx_frame_errors;
    words[23] = counts.rx_nohandler;
    words
}

/// Puts the counts in both forms.
fn put_counts(draft: &mut Draft, counts: &LinkCounts) {
    let words = stats_words(counts);
    let wide: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    draft.attribute(attribute::STATS64, &wide);
    draft.words(attribute::STATS, &words.map(|word| word as u32));
}

/// Tells whether the counts of an interface are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CountsShown {
    Told,
    Skipped,
}

/// Describes an interface. `change` are the flags that changed.
pub(super) fn describe(
    reply: Reply,
    (kind, change): (u16, u32),
    link: &LinkRecord,
    counts: CountsShown,
) -> Vec<u8> {
    let mut draft = reply
        .begin(kind)
        .put(&[0; 2])
        .put(&link.hardware.to_le_bytes())
        .put(&link.index.to_le_bytes())
        .put(&link.flags.to_le_bytes())
        .put(&change.to_le_bytes());
    draft.text(attribute::NAME, &link.name);
    draft.u32(attribute::TRANSMIT_QUEUE, link.transmit_queue);
    draft.u8(attribute::OPERATIONAL, link.operational);
    draft.u8(attribute::LINK_MODE, 0);
    draft.u32(attribute::MTU, link.mtu);
    draft.u32(attribute::MTU_MIN, link.mtu_min);
    draft.u32(attribute::MTU_MAX, link.mtu_max);
    draft.u32(attribute::GROUP, 0);
    draft.u32(attribute::PROMISCUITY, u32::from(link.flags & PROMISCUOUS != 0));
    draft.u32(attribute::ALL_MULTICAST, u32::from(link.flags & ALL_MULTICAST != 0));
    draft.u32(attribute::TRANSMIT_QUEUES, link.queues);
    draft.u32(attribute::GSO_MAX_SEGS, SEGMENTS_MAX);
    draft.u32(attribute::GSO_MAX_SIZE, SEGMENT_BYTES_MAX);
    draft.u32(attribute::GRO_MAX_SIZE, SEGMENT_BYTES_MAX);
    draft.u32(attribute::TSO_MAX_SIZE, segment_bytes_max(link.kind));
    draft.u32(attribute::TSO_MAX_SEGS, SEGMENTS_MAX);
    draft.u32(attribute::RECEIVE_QUEUES, link.queues);
    draft.u8(attribute::CARRIER, u8::from(link.has_carrier));
    draft.text(attribute::QDISC, discipline(link));
    if !link.alias.is_empty() {
        draft.text(attribute::ALIAS, &link.alias);
    }
    draft.u32(attribute::CARRIER_CHANGES, link.carrier_changes);
    draft.u32(attribute::CARRIER_UP_COUNT, link.carrier_changes.div_ceil(2));
    draft.u32(attribute::CARRIER_DOWN_COUNT, link.carrier_changes / 2);
    draft.u8(attribute::PROTOCOL_DOWN, 0);
    draft.attribute(attribute::MAP, &[0; 32]);
    if link.address_length() > 0 {
        draft.attribute(attribute::ADDRESS, &link.mac);
        draft.attribute(attribute::BROADCAST, &link.broadcast);
    }
    if counts == CountsShown::Told {
        put_counts(&mut draft, &link.counts);
    }
    let express = draft.nest(attribute::XDP);
    draft.u8(attribute::XDP_ATTACHED, 0);
    draft.end(express);
    put_tunnel(&mut draft, link);
    let families = draft.nest(attribute::AF_SPEC);
    let version6 = draft.nest(crate::base::INET6.into());
    draft.u32(attribute::INET6_FLAGS, if link.flags & UP != 0 { READY } else { 0 });
    let has_secret = link.kind == LinkKind::Headerless && link.flags & UP != 0;
    draft.u8(attribute::INET6_GENERATION, if has_secret { RANDOM_ADDRESSES } else { 0 });
    draft.end(version6);
    draft.end(families);
    if let Some(mac) = link.permanent_mac {
        draft.attribute(attribute::PERMANENT_ADDRESS, &mac);
    }
    draft.finish()
}

/// Puts `IFLA_LINKINFO` of a tunnel (`tun_fill_info`).
fn put_tunnel(draft: &mut Draft, link: &LinkRecord) {
    let Some(tunnel) = &link.tunnel else { return };
    let is_on = |flag: u32| u8::from(tunnel.flags & flag != 0);
    let info = draft.nest(attribute::LINK_INFO);
    draft.text(tunnel_attribute::KIND, tunnel_attribute::NAME);
    let data = draft.nest(tunnel_attribute::DATA);
    draft.u8(tunnel_attribute::TYPE, (tunnel.flags & tunnel_flag::LAYERS) as u8);
    if let Some(owner) = tunnel.owner {
        draft.u32(tunnel_attribute::OWNER, owner);
    }
    if let Some(group) = tunnel.group {
        draft.u32(tunnel_attribute::GROUP, group);
    }
    draft.u8(tunnel_attribute::PACKET_INFO, 1 - is_on(tunnel_flag::NO_INFO));
    draft.u8(tunnel_attribute::VNET_HEADER, is_on(tunnel_flag::VNET_HEADER));
    draft.u8(tunnel_attribute::PERSISTS, is_on(tunnel_flag::PERSISTS));
    draft.u8(tunnel_attribute::HAS_QUEUES, is_on(tunnel_flag::HAS_QUEUES));
    if is_on(tunnel_flag::HAS_QUEUES) != 0 {
        draft.u32(tunnel_attribute::QUEUES, tunnel.queues);
        draft.u32(tunnel_attribute::DISABLED_QUEUES, tunnel.disabled_queues);
    }
    draft.end(data);
    draft.end(info);
}

fn counts_wanted(attributes: Attributes<'_>) -> CountsShown {
    let mask = attributes.u32(attribute::EXT_MASK).unwrap_or(0);
    if mask & SKIP_STATS != 0 { CountsShown::Skipped } else { CountsShown::Told }
}

/// Lists the interfaces.
///
/// # Errors
/// `EINVAL` for a request that a strict check refuses.
pub(super) fn dump(inquiry: &Inquiry<'_>) -> Result<Vec<Vec<u8>>, ExplainedErrno> {
    if inquiry.asker.is_strict {
        let head = inquiry.head(HEAD)?;
        if head.iter().skip(1).any(|byte| *byte != 0) {
            return Err(NetErrno::EINVAL.into());
        }
    }
    // Older programs send `struct rtgenmsg` alone.
    let attributes = Attributes::after(inquiry.message.body, HEAD);
    let counts = counts_wanted(attributes);
    let master = attributes.u32(attribute::MASTER).is_some_and(|master| master != 0);
    let filter = if master { Filtering::Done } else { Filtering::None };
    let links = if master { Vec::new() } else { inquiry.network.links() };
    let reply = inquiry.dump(filter);
    Ok(links.iter().map(|link| describe(reply, (kind::NEW_LINK, 0), link, counts)).collect())
}

/// Finds the interface that a request names.
fn find(inquiry: &Inquiry<'_>) -> Result<LinkRecord, NetErrno> {
    let head = Fields(inquiry.head(HEAD).map_err(|refusal| refusal.number)?);
    let attributes = Attributes::after(inquiry.message.body, HEAD);
    let number = head.u32(4).unwrap_or(0);
    if number as i32 > 0 {
        return link_numbered(inquiry.network, number);
    }
    if number != 0 {
        return Err(NetErrno::EINVAL);
    }
    let name = attributes.text(attribute::NAME).or(attributes.text(attribute::OTHER_NAME));
    link_named(inquiry.network, name.ok_or(NetErrno::EINVAL)?)
}

/// Describes one interface.
///
/// # Errors
/// `EINVAL`, `ENODEV`.
pub(super) fn get(inquiry: &Inquiry<'_>) -> Result<Vec<Vec<u8>>, ExplainedErrno> {
    let link = find(inquiry)?;
    let counts = counts_wanted(Attributes::after(inquiry.message.body, HEAD));
    Ok(vec![describe(inquiry.reply, (kind::NEW_LINK, 0), &link, counts)])
}

/// Changes an interface. New ones cannot be made.
///
/// # Errors
/// `EEXIST`, `ENODEV`, also for a request that names none (iproute2 asks so whether there are such requests), `EOPNOTSUPP`, and
/// those of [`set`].
pub(super) fn new(inquiry: &Inquiry<'_>) -> Result<(), ExplainedErrno> {
    let has = |bit: u16| inquiry.message.flags & bit != 0;
    let number = Fields(inquiry.head(HEAD)?).u32(4).unwrap_or(0);
    if (number as i32) < 0 {
        return Err(NetErrno::EINVAL.into());
    }
    match find(inquiry) {
        Ok(_) if has(flag::CREATE) && has(flag::EXCLUSIVE) => Err(NetErrno::EEXIST.into()),
        Ok(_) if has(flag::REPLACE) => Err(NetErrno::EOPNOTSUPP.into()),
        Ok(link) => apply(inquiry, &link),
        Err(NetErrno::ENODEV | NetErrno::EINVAL) if has(flag::CREATE) => {
            let attributes = Attributes::after(inquiry.message.body, HEAD);
            let info = attributes.nested(attribute::LINK_INFO);
            let kind = info.and_then(|info| info.text(tunnel_attribute::KIND));
            Err(NetErrno::EOPNOTSUPP.saying(match kind {
                Some(tunnel_attribute::NAME) => TUNNELS_ARE_FILES,
                _ => "Unknown device type",
            }))
        }
        Err(NetErrno::EINVAL) => Err(NetErrno::ENODEV.into()),
        Err(error) => Err(error.into()),
    }
}

/// Changes an interface.
///
/// # Errors
/// `EINVAL`, `ENODEV`, `EOPNOTSUPP`, and those of the change.
pub(super) fn set(inquiry: &Inquiry<'_>) -> Result<(), ExplainedErrno> {
    apply(inquiry, &find(inquiry)?)
}

fn apply(inquiry: &Inquiry<'_>, link: &LinkRecord) -> Result<(), ExplainedErrno> {
    let head = Fields(inquiry.head(HEAD)?);
    let attributes = Attributes::after(inquiry.message.body, HEAD);
    let is_foreign = |number| attributes.find(number).is_some();
    // There are no namespaces, no bridges, and no devices on top of others.
    let has_master = attributes.u32(attribute::MASTER).is_some_and(|master| master != 0);
    let moves = is_foreign(attribute::NAMESPACE_PID) || is_foreign(attribute::NAMESPACE_FD);
    let nests = is_foreign(attribute::LINK) || !is_kind_of(attributes, link);
    if has_master || moves || nests {
        return Err(NetErrno::EOPNOTSUPP.into());
    }
    let (flags, mask) = (head.u32(8).unwrap_or(0), head.u32(12).unwrap_or(0));
    // Without a mask all flags count, if there are any.
    let mask = if mask == 0 && flags != 0 { u32::MAX } else { mask };
    let mac = match attributes.mac(attribute::ADDRESS) {
        _ if attributes.find(attribute::ADDRESS).is_some() && link.address_length() == 0 => {
            return Err(NetErrno::EOPNOTSUPP.into());
        }
        mac => mac?,
    };
    let name = attributes.text(attribute::NAME).filter(|name| *name != link.name);
    if name.is_some_and(|name| !is_valid_name(name)) {
        return Err(NetErrno::EINVAL.into());
    }
    let alias = attributes.text(attribute::ALIAS);
    if alias.is_some_and(|alias| alias.len() >= ALIAS_BYTES) {
        return Err(NetErrno::ERANGE.into());
    }
    let change = LinkChange {
        index: link.index,
        flags: (mask & CHANGEABLE != 0).then_some((flags, mask & CHANGEABLE)),
        mtu: attributes.u32(attribute::MTU),
        mac,
        name: name.map(ToString::to_string),
        transmit_queue: attributes.u32(attribute::TRANSMIT_QUEUE),
        alias: alias.map(ToString::to_string),
        has_carrier: attributes.u8(attribute::CARRIER).map(|value| value != 0),
    };
    Ok(inquiry.network.change(&NetworkChange::Link(change))?)
}

/// Returns whether a request names no kind of interface, or that of this one without anything to be changed.
fn is_kind_of(attributes: Attributes<'_>, link: &LinkRecord) -> bool {
    let Some(info) = attributes.nested(attribute::LINK_INFO) else { return true };
    let kind = info.text(tunnel_attribute::KIND);
    let is_tunnel = link.tunnel.is_some() && kind == Some(tunnel_attribute::NAME);
    (kind.is_none() || is_tunnel) && info.find(tunnel_attribute::DATA).is_none()
}

/// Returns whether an interface may have a name (`dev_valid_name`).
pub fn is_valid_name(name: &str) -> bool {
    let is_bad = |letter: char| letter == '/' || letter == ':' || letter.is_ascii_whitespace();
    !name.is_empty()
        && name.len() < NAME_BYTES
        && !matches!(name, "." | "..")
        && !name.contains(is_bad)
}

/// Removes an interface, which only those can be that programs made.
///
/// # Errors
/// `EINVAL`, `ENODEV`, `EOPNOTSUPP`.
pub(super) fn delete(inquiry: &Inquiry<'_>) -> Result<(), ExplainedErrno> {
    let link = find(inquiry)?;
    Ok(inquiry.network.change(&NetworkChange::RemoveLink(link.index))?)
}
