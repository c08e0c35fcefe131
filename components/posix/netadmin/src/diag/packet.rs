//! Sockets of AF_PACKET: `struct packet_diag_req`, `struct packet_diag_msg`.
//!
//! ```text
//! request:  0 family  1 protocol  4 inode  8 shown parts  12 cookie  20
//! answer:   0 family  1 type  2 protocol  4 inode  8 cookie  16
//! ```
use super::{BY_FAMILY, PACKET};
use crate::{
    NetErrno,
    request::{Asker, PacketRecord},
    wire::{Fields, Reply},
};
use alloc::vec::Vec;

const REQUEST: usize = 20;
/// Bytes of an address of a membership.
const ADDRESS: usize = 32;
/// Parts that are shown (`PACKET_SHOW_*`).
mod show {
    pub(super) const INFO: u32 = 1;
    pub(super) const MEMBERSHIPS: u32 = 2;
    pub(super) const RINGS: u32 = 4;
    pub(super) const FANOUT: u32 = 8;
    pub(super) const MEMORY: u32 = 0x10;
    pub(super) const FILTER: u32 = 0x20;
}
/// `PACKET_DIAG_*`.
mod attribute {
    pub(super) const INFO: u16 = 0;
    pub(super) const MEMBERSHIPS: u16 = 1;
    pub(super) const RINGS: [u16; 2] = [2, 3];
    pub(super) const FANOUT: u16 = 4;
    pub(super) const USER: u16 = 5;
    pub(super) const MEMORY: u16 = 6;
    pub(super) const FILTER: u16 = 7;
}

fn describe(reply: Reply, one: &PacketRecord, shown: u32, asker: &Asker) -> Vec<u8> {
    let has = |bit: u32| shown & bit != 0;
    let mut draft = reply
        .begin(BY_FAMILY)
        .put(&[PACKET, one.kind])
        .put(&one.protocol.to_le_bytes())
        .put(&one.inode.to_le_bytes())
        .put(&one.inode.to_le_bytes())
        .put(&[0; 4]);
    if has(show::INFO) {
        let flags = one.flags.bits();
        let PacketRecord { interface, version, reserved, copy_threshold, timestamp, .. } = *one;
        let words = [interface, version, reserved, copy_threshold, timestamp, flags];
        draft.words(attribute::INFO, &words);
        draft.u32(attribute::USER, one.user);
    }
    if has(show::MEMBERSHIPS) {
        draft.attribute(attribute::MEMBERSHIPS, &memberships(one));
    }
    if has(show::RINGS) {
        for (number, ring) in attribute::RINGS.into_iter().zip(one.rings) {
            if let Some(ring) = ring {
                draft.words(number, &ring);
            }
        }
    }
    if let (true, Some(fanout)) = (has(show::FANOUT), one.fanout) {
        draft.u32(attribute::FANOUT, fanout);
    }
    if has(show::MEMORY) {
        let (receive, send) = one.limits;
        let words = [one.charged, receive, 0, send, 0, 0, 0, 0, one.dropped];
        draft.words(attribute::MEMORY, &words);
    }
    if has(show::FILTER) && !asker.may_administer {
        draft.attribute(attribute::FILTER, &[]);
    } else if has(show::FILTER) && !one.filter.is_empty() {
        let bytes: Vec<u8> = one.filter.iter().flat_map(|word| word.to_le_bytes()).collect();
        draft.attribute(attribute::FILTER, &bytes);
    }
    draft.finish()
}

/// Returns the memberships of a socket (`struct packet_diag_mclist`).
fn memberships(one: &PacketRecord) -> Vec<u8> {
    let mut all = Vec::new();
    for one in &one.memberships {
        all.extend(one.interface.to_le_bytes());
        all.extend(one.count.to_le_bytes());
        all.extend(one.kind.to_le_bytes());
        all.extend(one.length.to_le_bytes());
        all.extend(one.address);
        all.resize(all.len() + ADDRESS - one.address.len(), 0);
    }
    all
}

/// Lists sockets.
///
/// # Errors
/// `EINVAL`.
pub(super) fn dump(
    body: &[u8],
    all: &[PacketRecord],
    asker: &Asker,
    reply: Reply,
) -> Result<Vec<Vec<u8>>, NetErrno> {
    let shown = check(body)?;
    Ok(all.iter().map(|one| describe(reply, one, shown, asker)).collect())
}

/// Returns the parts that a request wants to be shown.
///
/// # Errors
/// `EINVAL` for one that is too short or names a protocol.
pub(super) fn check(body: &[u8]) -> Result<u32, NetErrno> {
    let request = Fields(body.get(..REQUEST).ok_or(NetErrno::EINVAL)?);
    match request.u8(1) {
        Some(0) => Ok(request.u32(8).unwrap_or(0)),
        _ => Err(NetErrno::EINVAL),
    }
}
