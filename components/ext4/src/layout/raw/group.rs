//! A group descriptor: 32 bytes, 64 with the `64bit` feature.
//!
//! ```text
//!  0 block bitmap | inode bitmap | inode table | 12 free blocks, free inodes, directories | 18 flags
//! 20 snapshot | 24 bitmap checksums | 28 unused inodes | 30 checksum
//! 32 high halves: bitmaps, inode table | 44 free blocks, free inodes, directories, unused inodes
//! 52 snapshot | 56 bitmap checksums
//! ```
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// `bg_flags`: no inode of the group was ever used.
pub(crate) const INODES_UNUSED: u16 = 1;
/// `bg_flags`: the block bitmap was never made.
pub(crate) const BLOCKS_UNUSED: u16 = 2;
/// `bg_flags`: the inodes that were never used are zeroes.
pub(crate) const TABLE_CLEARED: u16 = 4;
/// Offset of the checksum.
pub(crate) const CHECKSUM_OFFSET: usize = 30;

/// The first 32 bytes.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawGroup {
    pub(crate) block_bitmap_low: U32,
    pub(crate) inode_bitmap_low: U32,
    pub(crate) inode_table_low: U32,
    pub(crate) counts: [U16; 3],
    pub(crate) flags: U16,
    snapshot: U32,
    pub(crate) bitmap_checksums: [U16; 2],
    pub(crate) unused_inodes: U16,
    pub(crate) checksum: U16,
}

const _: () = assert!(size_of::<RawGroup>() == 32);
const _: () = assert!(core::mem::offset_of!(RawGroup, checksum) == CHECKSUM_OFFSET);

/// The start of the low halves of the counts: free blocks, free inodes, directories, flags.
pub(crate) const COUNTS_OFFSET: usize = 12;
/// The places of the low halves of the bitmaps' checksums.
pub(crate) const BITMAP_CHECKSUMS_OFFSET: usize = 24;
/// The place of the low half of the number of unused inodes.
pub(crate) const UNUSED_INODES_OFFSET: usize = 28;
/// The places of the high halves of the block numbers: bitmaps, inode table.
pub(crate) const BLOCKS_HIGH_OFFSET: usize = 32;
/// The places of the high halves of the counts: free blocks, free inodes, directories, unused inodes.
pub(crate) const COUNTS_HIGH_OFFSET: usize = 44;
/// The places of the high halves of the bitmaps' checksums.
pub(crate) const BITMAP_CHECKSUMS_HIGH_OFFSET: usize = 56;
/// Bytes of a descriptor with high halves.
pub(crate) const WIDE_BYTES: usize = 64;
