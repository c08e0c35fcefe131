//! The layout of a volume: the structures on disk, groups, inodes, and the maps from a file's blocks to the volume's.
pub(crate) mod extent;
pub(crate) mod extent_edit;
pub(crate) mod features;
pub(crate) mod groups;
pub(crate) mod indirect;
pub(crate) mod inode;
pub(crate) mod inode_store;
pub(crate) mod inode_table;
pub(crate) mod map;
pub(crate) mod ranges;
pub(crate) mod raw;
pub(crate) mod superblock;
pub(crate) mod superblock_edit;
pub(crate) mod volume;
