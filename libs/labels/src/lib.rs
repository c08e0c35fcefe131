//! Labels of multilevel security: pure data and arithmetic.
//!
//! | part | is |
//! | --- | --- |
//! | [`Secrecy`] | a level from 0 to 15 and a set of 1,024 [`Categories`]: a lattice under [`Secrecy::dominates`] |
//! | [`Grade`] | integrity: tcb, admin, user or untrusted |
//! | [`SecrecyRange`] | the least and the greatest secrecy of a subject or a device |
//! | [`Context`] | user, role, type and range, with the text that SELinux's tools know: `user:role:type:s0-s3:c0.c5` |
//! | [`ContextTable`], [`SecrecyTable`] | contexts and secrecies under numbers of 32 bits |
//! | [`wire`] | the options of packets that carry a secrecy: CIPSO and CALIPSO |
//!
//! Nothing here decides who may do something: that is the monitor's part.
//!
//! Source: D. Bell and L. LaPadula, "Secure Computer System: Unified Exposition and Multics Interpretation", 1976; K. Biba,
//! "Integrity Considerations for Secure Computer Systems", 1977; the text as in Linux `security/selinux/ss/mls.c`.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod categories;
mod context;
mod grade;
mod secrecy;
mod table;
#[cfg(test)]
mod tests;
pub mod wire;

pub use categories::{CATEGORIES, Categories};
pub use context::{CONTEXT_MAX, Context, ContextError};
pub use grade::Grade;
pub use secrecy::{LEVEL_MAX, Relation, Secrecy, SecrecyRange};
pub use table::{ContextId, ContextTable, SecrecyId, SecrecyTable, TableFull};
