//! The file half of the personality: name cache, page cache, mounts, path walk, open files.
//!
//! A [`Caller`] walks a text to a [`Path`] (a [`Dentry`] seen through a [`Mount`]), whose
//! [`Vnode`] is the inode; opening gives an [`OpenFile`] over a [`file::File`]. See `docs/files.md`
//! for the life of a walk and of a read.
//!
//! Lock order, outermost first: `open_file.offset` > `mount_table` > `rename` > `directory` (parent
//! before child, else by inode number) or `file` > `names` (a shard) > `pages.index` > leaves
//! (`vnode.state`, `dentry.link`, `mount.at`, `instance.*`, `pages.readahead`, `pages.watchers`).
//! A call to a file system is made with at most `rename`, `directory`, `file` or `vnode.state` held.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]
extern crate alloc;

pub mod credentials;
mod dentry;
pub mod devices;
pub mod errno;
pub mod file;
pub mod generated;
mod hash;
mod instance;
pub mod io;
mod mount;
mod name_cache;
pub mod namespace;
mod open;
mod open_file;
pub mod operations;
mod pages;
pub mod permission;
pub mod poll;
mod regular;
mod shrink;
#[cfg(test)]
mod tests;
mod vnode;
mod walk;

pub use credentials::{Capabilities, Credentials};
pub use dentry::Dentry;
pub use errno::Errno;
pub use instance::{Active, Instance};
pub use mount::{Mount, MountFlags, Path, PathName};
pub use namespace::Namespace;
pub use open::OpenHow;
pub use open_file::{OpenFile, SETTABLE_FLAGS, Whence};
pub use pages::PageCache;
pub use shrink::{cached_pages, make_room, shrink, sync_all};
pub use vnode::{DenyWrite, FLAG_APPEND, FLAG_IMMUTABLE, Slot, Vnode, now};
pub use walk::{Base, Caller, NAME_MAX, PATH_MAX, Walk};
