//! The reference monitor of multilevel security: it decides, by a [`SecurityPolicy`], what subjects may do with objects (K1).
//!
//! The monitor knows nothing of files, processes or sockets: it is asked about a subject's and an object's [`labels::Context`] and
//! one of three kinds of [`ObjectAccess`]. The personality asks, enforces the answer and keeps it as long as the policy holds.
//!
//! | part | is |
//! | --- | --- |
//! | [`SecurityPolicy`] | levels, users, roles, domains, types and devices, read from a text ([`SecurityPolicy::parse`]) |
//! | [`SecurityPolicy::decide`] | whether a subject may read, write or execute an object |
//! | [`SecurityPolicy::relabel`] | whether a subject may give an object another context |
//! | [`SecurityPolicy::entered`], [`SecurityPolicy::made`] | the contexts of a new program and of a new object |
//! | [`ReferenceMonitor`] | the component: it numbers contexts, and keeps the policy that was loaded last |
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

mod decide;
mod parse;
mod policy;
mod reference;
mod rights;
#[cfg(test)]
mod tests;

pub use parse::{Fault, PolicyError};
pub use policy::SecurityPolicy;
pub use reference::{ReferenceMonitor, start};
