//! The highest floor: opening, and the operations on names and attributes, one file a family.
//!
//! Each checks everything first and changes the file system last; then it mends the name cache
//! and the attributes cached. Places come from [`Caller::walk`].
//!
//! [`Caller::walk`]: crate::Caller::walk
pub mod attributes;
pub mod create;
pub mod extended;
pub(crate) mod open;
mod remove;
mod rename;

pub use rename::RenameMode;
