//! NETLINK_SELINUX: what the kernel tells programs that keep decisions of the policy. Source: Linux 6.1 `security/selinux/netlink.c`.
use crate::wire::Reply;
use alloc::vec::Vec;

/// SELNLGRP_AVC, the group of those programs.
pub const KEEPERS: u32 = 1;
/// SELNL_MSG_POLICYLOAD.
const LOADED: u16 = 0x11;

/// Returns the notice that a policy was loaded, which is the `number`th.
pub fn loaded(number: u32) -> Vec<u8> {
    Reply::default().begin(LOADED).put(&number.to_le_bytes()).finish()
}
