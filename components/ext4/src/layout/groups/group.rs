//! [`Group`]: one block group, as its descriptor has it.
use crate::layout::{
    ranges::Ranges,
    raw::group::{BLOCKS_UNUSED, INODES_UNUSED},
    superblock::Geometry,
};

/// A block group, as its descriptor describes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    pub(crate) block_bitmap: u64,
    pub(crate) inode_bitmap: u64,
    pub(crate) inode_table: u64,
    pub(crate) free_blocks: u32,
    pub(crate) free_inodes: u32,
    pub(crate) directories: u32,
    /// Number of inodes at the table's end that were never used.
    pub(crate) unused_inodes: u32,
    pub(crate) flags: u16,
    pub(crate) block_bitmap_checksum: u32,
    pub(crate) inode_bitmap_checksum: u32,
    /// Number of inodes at the start of the group that are all in use.
    pub(crate) inodes_in_use: u32,
    /// Blocks of the group that were freed by transactions which are not durable yet.
    pub(super) pending: Ranges,
    pub(super) unsummed: Unsummed,
}

/// The metadata of a group that the running transaction has changed, and [`super::seal::seal`] is to sum. A bitmap was
/// verified before it was changed, and stays in the cache until then.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unsummed {
    pub(super) descriptor: bool,
    pub(super) blocks: bool,
    pub(super) inodes: bool,
}

impl Group {
    /// Returns whether the block bitmap was never made.
    pub(super) fn has_unused_blocks(&self) -> bool {
        self.flags & BLOCKS_UNUSED != 0
    }

    /// Returns the mask of the bits of a bitmap's checksum in the descriptor.
    pub(super) fn checksum_mask(&self, geometry: &Geometry) -> u32 {
        if geometry.descriptor_bytes >= 64 { u32::MAX } else { 0xffff }
    }

    /// Returns whether the inode bitmap and table were never used.
    pub(super) fn has_unused_inodes(&self) -> bool {
        self.flags & INODES_UNUSED != 0
    }
}
