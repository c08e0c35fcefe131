//! The layout of a volume: the structures on disk, its groups and inodes, and the maps from a file's blocks to the volume's.
//!
//! Everything here is one structure read, checked or changed within the caller's operation. A structure of several blocks, as an
//! extent tree, is whole again when the operation ends.
pub(crate) mod attribute_area;
pub(crate) mod extent;
pub(crate) mod extent_edit;
pub(crate) mod features;
pub(crate) mod groups;
pub(crate) mod indirect;
pub(crate) mod inode;
pub(crate) mod inode_store;
pub(crate) mod inode_table;
pub(crate) mod journal;
pub(crate) mod leaf;
pub(crate) mod map;
pub(crate) mod mount_error;
pub(crate) mod orphans;
pub(crate) mod ranges;
pub(crate) mod raw;
pub(crate) mod run;
pub(crate) mod superblock;
pub(crate) mod superblock_edit;
pub(crate) mod volume;
