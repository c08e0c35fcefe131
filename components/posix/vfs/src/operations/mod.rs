//! The operations on names and attributes, one file a family.
//!
//! Each checks everything first and changes the file system last; then it mends the name cache
//! and the attributes cached. Places come from [`crate::Caller::walk`].
pub mod attributes;
pub mod create;
pub mod extended;
mod remove;
mod rename;

pub use rename::RenameMode;
