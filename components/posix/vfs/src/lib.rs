//! The file half of the personality: name cache, page cache, mounts, path walk, open files.
//!
//! A [`Caller`] walks a text to a [`Path`] (a [`Dentry`] seen through a [`Mount`]), whose
//! [`Vnode`] is the inode; opening gives an [`OpenFile`] over a [`file::File`]. See `docs/files.md`
//! for the life of a walk and of a read.
//!
//!
//! # Locks
#![doc = include_str!("../LOCKS.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

mod base;
mod files;
pub mod operations;
mod pages;
#[cfg(test)]
mod tests;
mod tree;
mod walk;

/// Open files and their mappable objects.
pub mod file {
    pub use crate::{
        base::{
            file::{
                Allocation, File, IoFlags, Mappable, POSITION_MAX, PageUse, Places, RangeSteps,
                SendRoom, SignalSource, Survey, SyncKind, Watcher, Whence,
            },
            poll::Ready,
        },
        walk::devices::Opener,
    };
}

/// Files whose content is generated: procfs, pipes and other things without a name on storage.
pub mod generated {
    pub use crate::{
        files::generated::{file_of, put_from, watched_file_of},
        tree::node::{Child, GENERATED_END, Node, Viewer, attributes},
    };
}

pub use base::{
    credentials::{self, Capabilities, Credentials},
    digits,
    errno::{self, Errno, ErrorNumber},
    file::Whence,
    host::Host,
    io,
    mount_flags::MountFlags,
    poll,
    principal::{NOBODY, Principal, StorageIo},
    seals::Seals,
    security,
    time::now,
};
pub use files::open_file::{OpenFile, SETTABLE_FLAGS};
pub use operations::open::OpenHow;
pub use pages::{
    cache::PageCache,
    memory::{committed, drop_caches, make_room, reclaim, retried, shrink},
    tally::{DirtyLimits, DirtyPages, cached_pages, dirty_pages, limits, stored_pages},
};
pub use tree::{
    child_cache::ChildCache,
    dentry::Dentry,
    instance::{
        Active, Instance, name_count, put_in_place,
        sync::sync_all,
        unmount::{is_being_written, shut_down},
        vnode_count,
    },
    mount::{Mount, Path, PathName},
    notify,
    vnode::{FLAG_APPEND, FLAG_IMMUTABLE, FLAG_NO_DUMP, Vnode, VnodeSlot, writers::DenyWrite},
};
pub use walk::{
    caller::{Base, Caller, NAME_MAX},
    devices,
    namespace::{self, Namespace},
    permission, protection, uses,
    walker::{PATH_MAX, Walk},
};
