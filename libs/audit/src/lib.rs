//! Linux's audit, as far as it is a matter of bytes: rules ([`AuditRule`], [`RuleSet`]) and the texts of records ([`RecordText`]).
//!
//! A rule has the form of `struct audit_rule_data`, in which auditctl(8) sends it. [`AuditRule::parse`] checks all of it; bytes that
//! are no rule are an error and never a panic. Rules are matched with facts that the caller collects ([`TaskFacts`], [`CallFacts`]).
//! Sources: Linux `include/uapi/linux/audit.h`, `kernel/auditfilter.c`, `kernel/auditsc.c`.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

mod candidates;
mod classes;
mod facts;
pub mod kind;
mod matching;
mod message;
mod parse;
mod record;
mod rule;
mod rules;
#[cfg(test)]
mod tests;

pub use candidates::{Candidates, Interest, MayName};
pub use facts::{CallEnd, CallFacts, InodeFacts, NameFacts, NameRole, TaskFacts};
pub use message::{DenialFacts, arguments};
pub use parse::RuleError;
pub use record::{RecordText, StampedTime, is_plain};
pub use rule::{
    AuditRule, FieldValue, Operator, RuleAction, RuleField, RuleList, SyscallMask, field,
};
pub use rules::{RuleChange, RuleSet};

/// The architecture of all calls (`AUDIT_ARCH_X86_64`).
pub const ARCHITECTURE: u32 = 0xc000_003e;
/// A user or a session that is not set (`AUDIT_UID_UNSET`).
pub const UNSET: u32 = u32::MAX;
