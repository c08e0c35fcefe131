//! Rules: `struct fib_rule_hdr` and `FRA_*`.
use super::{
    inquiry::{Filtering, Inquiry, kind},
    routes::short_table,
};
use crate::{
    NetErrno,
    base::{INET, INET6},
};
use alloc::vec::Vec;
use interfaces::sockets::number;

const HEAD: usize = 12;
/// `FRA_*`.
mod attribute {
    pub(super) const PRIORITY: u16 = 6;
    pub(super) const SUPPRESS_PREFIX: u16 = 14;
    pub(super) const TABLE: u16 = 15;
    pub(super) const PROTOCOL: u16 = 21;
}
/// `FR_ACT_TO_TBL`.
const LOOK_UP: u8 = 1;

/// Lists the rules.
///
/// # Errors
/// `EINVAL` for a request that a strict check refuses.
pub(super) fn dump(inquiry: &Inquiry<'_>) -> Result<Vec<Vec<u8>>, NetErrno> {
    if inquiry.asker.is_strict {
        let head = inquiry.head(HEAD)?;
        let is_bad = head.iter().skip(1).any(|byte| *byte != 0);
        if is_bad || inquiry.message.body.len() > HEAD {
            return Err(NetErrno::EINVAL);
        }
    }
    let reply = inquiry.dump(Filtering::None);
    let rules = inquiry.network.rules();
    let mut messages = Vec::new();
    for family in [INET, INET6].into_iter().filter(|family| inquiry.wants(*family)) {
        for rule in rules.iter().filter(|rule| rule.is_version6 == (family == INET6)) {
            let head = [family, 0, 0, 0, short_table(rule.table), 0, 0, LOOK_UP];
            let mut draft = reply.begin(kind::NEW_RULE).put(&head).put(&[0; 4]);
            draft.u32(attribute::TABLE, rule.table);
            draft.u32(attribute::SUPPRESS_PREFIX, u32::MAX);
            draft.u8(attribute::PROTOCOL, number::PROTOCOL_KERNEL);
            if rule.priority != 0 {
                draft.u32(attribute::PRIORITY, rule.priority);
            }
            messages.push(draft.finish());
        }
    }
    Ok(messages)
}
