//! The format of netlink: headers, attributes, and the messages of a datagram (RFC 3549, netlink(7)).
//!
//! ```text
//!  0        4      6       8          12         16
//!  | length | type | flags | sequence | port     | body ...   (padded to 4)
//!
//!  0        2      4
//!  | length | type | value ...                                (padded to 4)
//! ```
mod reader;
mod writer;

pub(crate) use reader::{Attributes, Fields, NetlinkMessage, NetlinkMessages};
pub use writer::Quote;
pub(crate) use writer::{ATTRIBUTE_BYTES, Draft, HEADER_BYTES, Reply};

/// Flags of a message (`NLM_F_*`), and types that all protocols share (`NLMSG_*`).
pub(crate) mod flag {
    pub(crate) const REQUEST: u16 = 1;
    pub(crate) const MULTI: u16 = 2;
    pub(crate) const ACK: u16 = 4;
    pub(crate) const DUMP_FILTERED: u16 = 0x20;
    /// `NLM_F_ROOT | NLM_F_MATCH`; either of them asks for a dump.
    pub(crate) const DUMP: u16 = 0x300;
    pub(crate) const REPLACE: u16 = 0x100;
    pub(crate) const EXCLUSIVE: u16 = 0x200;
    pub(crate) const CREATE: u16 = 0x400;
    pub(crate) const APPEND: u16 = 0x800;
    /// `NLM_F_CAPPED` of an acknowledgement.
    pub(crate) const CAPPED: u16 = 0x100;
    /// `NLM_F_ACK_TLVS` of an acknowledgement.
    pub(crate) const ACK_TEXTS: u16 = 0x200;
    pub(crate) const ERROR: u16 = 2;
    pub(crate) const DONE: u16 = 3;
    /// Types below are the same for all protocols.
    pub(crate) const TYPE_MIN: u16 = 16;
}
