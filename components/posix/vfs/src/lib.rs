//! The file half of the personality: name cache, page cache, mounts, path walk, open files.
//!
//! A [`Caller`] walks a text to a [`Path`] (a [`Dentry`] seen through a [`Mount`]), whose
//! [`Vnode`] is the inode; opening gives an [`OpenFile`] over a [`file::File`]. See `docs/files.md`
//! for the life of a walk and of a read.
//!
//! Lock order, outermost first, by the names of `/proc/skerry/locks` without `vfs.` (a lock is taken only below those held):
//!
//! ```text
//! open_file.offset
//!   mount_table
//!     rename
//!       directory (parent before child, else by inode)     file (a vnode's `contents`)     flush.round
//!         name (one at most)                                 pages.tail                      |
//!           names (a shard)                                    (a copy: may fault)           |
//!                                                                pages.shape <---------------+
//!                                                                  [a call to a file system]
//!                                                                    pages.index
//! leaves: vnode.acls above vnode.state (each held over a call that sets what it guards), vnode.names above dentry.link,
//!         vnode.target, vnode.slot, mount.at, instance.vnodes, instances, children, devices, observers, flush.list,
//!         pages.readahead, file.readahead, pages.watchers, open_file.owner, generated.content,
//!         wait_queue (a file's before that of an epoll that watches it)
//! ```
//!
//! The flusher's threads start below everything: they take `pages.shape` shared, by trying, and
//! `pages.tail` by trying, so a writer may wait for them with `file` and `pages.tail` held.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

mod child_cache;
pub mod credentials;
mod dentry;
pub mod devices;
pub mod digits;
pub mod errno;
mod errors;
pub mod file;
mod flush;
pub mod generated;
mod host;
mod instance;
pub mod io;
mod mount;
mod name_cache;
mod name_lock;
pub mod namespace;
pub mod notify;
mod open;
mod open_file;
pub mod operations;
mod pages;
pub mod permission;
pub mod poll;
pub mod protection;
mod regular;
mod seals;
mod shrink;
mod tally;
#[cfg(test)]
mod tests;
mod vnode;
mod walk;

pub use child_cache::ChildCache;
pub use credentials::{Capabilities, Credentials};
pub use dentry::Dentry;
pub use errno::Errno;
pub use host::{Host, StorageIo};
pub use instance::{Active, Instance, is_being_written, put_in_place, shut_down};
pub use mount::{Mount, MountFlags, Path, PathName};
pub use namespace::Namespace;
pub use open::OpenHow;
pub use open_file::{OpenFile, SETTABLE_FLAGS, Whence};
pub use pages::PageCache;
pub use seals::Seals;
pub use shrink::{
    drop_caches, make_room, name_count, reclaim, retried, shrink, sync_all, vnode_count,
};
pub use tally::{DirtyPages, Limits, cached_pages, dirty_pages, limits, stored_pages};
pub use vnode::{DenyWrite, FLAG_APPEND, FLAG_IMMUTABLE, FLAG_NO_DUMP, Slot, Vnode, now};
pub use walk::{Base, Caller, NAME_MAX, PATH_MAX, Walk};
