//! The structures on disk, drawn and const-asserted. All numbers are little-endian.
//!
//! A `Raw...` value is only known to have the right length; its fields are not checked.
pub(crate) mod directory;
pub(crate) mod extent;
pub(crate) mod group;
pub(crate) mod inode;
pub(crate) mod superblock;
pub(crate) mod xattr;
