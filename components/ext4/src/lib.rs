//! ext4: reading and writing volumes as the stock `mke2fs -t ext4` makes them.
//!
//! Key types: [`Ext4`] (the mount), [`volume::Volume`] (geometry, metadata blocks, state),
//! [`inode_table::Node`] (an inode in use), [`log::Operation`] (one atomic change),
//! [`transfer::Transfer`] (pages on their way).
//!
//! Outside bytes come in as `Raw...` structures ([`layout`]), are checked once and become types
//! that can only be valid ([`superblock::Geometry`], [`inode::Inode`]). Nothing parsed later is
//! trusted either: numbers are compared with the geometry where they are used, loops are bounded
//! by the tree depth, the size of an area or the size of the device.
//!
//! Locks, outermost first; those on one line are never held together:
//!
//! ```text
//! ext4.commit            one commit at a time, during its I/O
//!   ext4.operations      shared by each operation, exclusive while a transaction ends
//!     ext4.inode         one inode or several in order of addresses, during I/O
//!       ext4.inodes  ext4.delayed  ext4.orphans_found
//!       ext4.group       one block group, during I/O of its bitmaps
//!         ext4.cache     one shard of the metadata cache
//!           ext4.orphans  ext4.running
//!         ext4.frames    frames of metadata on its way, during I/O
//! ext4.transfer          counts of a transfer, on the driver's thread: a leaf
//! ```
//!
//! Source: Linux Documentation/filesystems/ext4/; e2fsprogs lib/ext2fs.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]
extern crate alloc;

mod along;
mod background;
mod batch;
mod cache;
mod checksum;
mod commit;
mod control;
mod device;
mod directory;
mod directory_edit;
mod extent;
mod extent_edit;
mod features;
mod file_range;
mod file_size;
mod file_system;
mod groups;
mod hash;
mod hash_order;
mod health;
mod htree;
mod htree_edit;
mod indirect;
mod inline;
mod inline_edit;
mod inode;
mod inode_store;
mod inode_table;
mod journal;
mod layout;
mod log;
mod map;
mod mount;
mod name_index;
mod names;
mod offer;
mod orphans;
mod ranges;
mod read;
mod superblock;
mod superblock_edit;
mod symlink;
mod transfer;
mod volume;
mod write;
mod xattr;
mod xattr_edit;

pub use health::ErrorPolicy;
pub use mount::{Ext4, MountError, Options, Recovery, mount};
pub use offer::start;
