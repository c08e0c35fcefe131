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
//!         vnode.target, vnode.slot, mount.at, instance.vnodes, instances, stores, children, devices, observers, flush.list,
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

mod acls;
mod caller;
mod child_cache;
pub mod credentials;
mod dentry;
pub mod devices;
pub mod digits;
mod directory;
pub mod errno;
mod errors;
pub mod file;
mod flush;
pub mod generated;
mod host;
mod instance;
pub mod io;
mod memory;
mod mount;
mod mount_flags;
mod name_cache;
mod name_lock;
mod names;
pub mod namespace;
mod node;
pub mod notify;
mod observers;
mod open;
mod open_file;
pub mod operations;
mod pages;
mod path_text;
pub mod permission;
pub mod poll;
pub mod protection;
mod regular;
mod rights;
mod seals;
mod stores;
mod tally;
#[cfg(test)]
mod tests;
mod throttle;
mod time;
mod vnode;
mod walk;

pub use caller::{Base, Caller, NAME_MAX};
pub use child_cache::ChildCache;
pub use credentials::{Capabilities, Credentials};
pub use dentry::Dentry;
pub use errno::Errno;
pub use file::Whence;
pub use host::{Host, StorageIo};
pub use instance::{
    Active, Instance, name_count, put_in_place,
    sync::sync_all,
    unmount::{is_being_written, shut_down},
    vnode_count,
};
pub use memory::{drop_caches, make_room, reclaim, retried, shrink};
pub use mount::{Mount, Path, PathName};
pub use mount_flags::MountFlags;
pub use namespace::Namespace;
pub use node::Viewer;
pub use open::OpenHow;
pub use open_file::{OpenFile, SETTABLE_FLAGS};
pub use pages::PageCache;
pub use seals::Seals;
pub use tally::{DirtyPages, Limits, cached_pages, dirty_pages, limits, stored_pages};
pub use time::now;
pub use vnode::{FLAG_APPEND, FLAG_IMMUTABLE, FLAG_NO_DUMP, Slot, Vnode, writers::DenyWrite};
pub use walk::{PATH_MAX, Walk};
