//! ext4: reading and writing volumes as the stock `mke2fs -t ext4` makes them.
//!
//! Key types, from the bottom up: [`store::Store`] (blocks, cached and logged), [`store::log::Operation`] (one atomic change),
//! [`layout::volume::Volume`] (these blocks with the geometry and the groups), [`layout::inode_table::LiveInode`] (an inode in
//! use), [`transactions::mount::Mount`] (a volume in use, with its inodes), [`Ext4`] (the mount as the personality has it).
//! README.md lists the floors.
//!
//! Outside bytes come in as `Raw...` structures ([`layout::raw`]), are checked once and become types
//! that can only be valid ([`layout::superblock::Geometry`], [`layout::inode::Inode`]). Nothing parsed later is
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

mod files;
mod layout;
mod names;
mod store;
mod transactions;
mod volume;

pub use layout::mount_error::MountError;
pub use store::health::ErrorPolicy;
pub use volume::{
    ext4::Ext4,
    mount::{MountOptions, Recovery, mount},
    offer::start,
};
