//! Sockets of AF_UNIX: `struct unix_diag_req`, `struct unix_diag_msg`.
//!
//! ```text
//! request:  0 family  1 protocol  4 states  8 inode  12 shown parts  16 cookie  24
//! answer:   0 family  1 type  2 state  3 pad  4 inode  8 cookie  16
//! ```
use super::{BY_FAMILY, UNIX};
use crate::{
    NetErrno,
    request::LocalRecord,
    wire::{Fields, Reply},
};
use alloc::{vec, vec::Vec};

const REQUEST: usize = 24;
/// Parts that are shown (`UDIAG_SHOW_*`).
mod show {
    pub(super) const NAME: u32 = 1;
    pub(super) const NODE: u32 = 2;
    pub(super) const PEER: u32 = 4;
    pub(super) const WAITING: u32 = 8;
    pub(super) const QUEUES: u32 = 0x10;
    pub(super) const MEMORY: u32 = 0x20;
    pub(super) const USER: u32 = 0x40;
}
/// `UNIX_DIAG_*`.
mod attribute {
    pub(super) const NAME: u16 = 0;
    pub(super) const NODE: u16 = 1;
    pub(super) const PEER: u16 = 2;
    pub(super) const WAITING: u16 = 3;
    pub(super) const QUEUES: u16 = 4;
    pub(super) const MEMORY: u16 = 5;
    pub(super) const SHUT: u16 = 6;
    pub(super) const USER: u16 = 7;
}

fn describe(reply: Reply, one: &LocalRecord, shown: u32) -> Vec<u8> {
    let has = |bit: u32| shown & bit != 0;
    let mut draft = reply
        .begin(BY_FAMILY)
        .put(&[UNIX, one.kind, one.state, 0])
        .put(&one.inode.to_le_bytes())
        .put(&one.inode.to_le_bytes())
        .put(&[0; 4]);
    if has(show::NAME) && !one.name.is_empty() {
        draft.attribute(attribute::NAME, &one.name);
    }
    if let (true, Some((inode, device))) = (has(show::NODE), one.node) {
        draft.words(attribute::NODE, &[inode, device]);
    }
    if let (true, Some(peer)) = (has(show::PEER), one.peer) {
        draft.u32(attribute::PEER, peer);
    }
    if has(show::WAITING) && one.state == 10 {
        draft.words(attribute::WAITING, &one.waiting);
    }
    if has(show::QUEUES) {
        draft.words(attribute::QUEUES, &[one.receive_queue, one.send_queue]);
    }
    if has(show::MEMORY) {
        let (receive, send) = one.limits;
        draft.words(attribute::MEMORY, &[0, receive, one.send_queue, send, 0, 0, 0, 0, 0]);
    }
    draft.u8(attribute::SHUT, one.shut);
    if has(show::USER) {
        draft.u32(attribute::USER, one.user);
    }
    draft.finish()
}

/// Lists sockets.
///
/// # Errors
/// `EINVAL`.
pub(super) fn dump(
    body: &[u8],
    all: &[LocalRecord],
    reply: Reply,
) -> Result<Vec<Vec<u8>>, NetErrno> {
    let request = Fields(body.get(..REQUEST).ok_or(NetErrno::EINVAL)?);
    let (states, shown) = (request.u32(4).unwrap_or(0), request.u32(12).unwrap_or(0));
    let chosen = all.iter().filter(|one| states >> (one.state & 31) & 1 != 0);
    Ok(chosen.map(|one| describe(reply, one, shown)).collect())
}

/// Describes the socket of an inode.
///
/// # Errors
/// `EINVAL`, `ENOENT`.
pub(super) fn get(
    body: &[u8],
    all: &[LocalRecord],
    reply: Reply,
) -> Result<Vec<Vec<u8>>, NetErrno> {
    let request = Fields(body.get(..REQUEST).ok_or(NetErrno::EINVAL)?);
    let inode = request.u32(8).filter(|inode| *inode != 0).ok_or(NetErrno::EINVAL)?;
    let found = all.iter().find(|one| one.inode == inode).ok_or(NetErrno::ENOENT)?;
    Ok(vec![describe(reply, found, request.u32(12).unwrap_or(0))])
}
