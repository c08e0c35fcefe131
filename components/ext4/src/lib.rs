//! ext4: reading volumes as the stock `mke2fs -t ext4` makes them.
//!
//! Key types: [`Ext4`] (the mount), [`volume::Volume`] (geometry and metadata blocks),
//! [`inode::Inode`] (one parsed inode), [`read::Transfer`] (pages on their way).
//!
//! Outside bytes come in as `Raw...` structures ([`layout`]), are checked once and become types
//! that can only be valid ([`superblock::Geometry`], [`inode::Inode`]). Nothing parsed later is
//! trusted either: numbers are compared with the geometry where they are used, loops are bounded
//! by the tree depth, the size of an area or the size of the device.
//!
//! Locks: `ext4.inodes` and `ext4.cache` (map operations only) and `ext4.transfer` (a transfer's
//! counts) are leaves; none is held during I/O or while another is taken.
//!
//! Source: Linux Documentation/filesystems/ext4/; e2fsprogs lib/ext2fs.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]
extern crate alloc;

mod acl;
mod cache;
mod checksum;
mod device;
mod directory;
mod extent;
mod features;
mod file_system;
mod group;
mod hash;
mod hash_order;
mod htree;
mod indirect;
mod inline;
mod inode;
mod inode_table;
mod layout;
mod map;
mod mount;
mod read;
mod superblock;
mod symlink;
mod transfer;
mod volume;
mod xattr;

pub use mount::{Ext4, MountError, Options, mount};
