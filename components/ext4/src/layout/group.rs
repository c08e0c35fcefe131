//! A group descriptor: 32 bytes, 64 with the `64bit` feature.
//!
//! ```text
//!  0 block bitmap | inode bitmap | inode table | 12 free blocks, free inodes, directories | 18 flags
//! 20 snapshot | 24 bitmap checksums | 28 unused inodes | 30 checksum | 32 high halves ...
//! ```
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// `bg_flags`: no inode of the group was ever used.
pub(crate) const INODES_UNUSED: u16 = 1;
/// Where the checksum is.
pub(crate) const CHECKSUM_OFFSET: usize = 30;

/// The first 32 bytes.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawGroup {
    bitmaps: [U32; 2],
    pub(crate) inode_table_low: U32,
    counts: [U16; 3],
    pub(crate) flags: U16,
    snapshot: U32,
    bitmap_checksums: [U16; 2],
    unused_inodes: U16,
    pub(crate) checksum: U16,
}

const _: () = assert!(size_of::<RawGroup>() == 32);
const _: () = assert!(core::mem::offset_of!(RawGroup, checksum) == CHECKSUM_OFFSET);

/// Where the high half of the inode table's block number is.
pub(crate) const INODE_TABLE_HIGH_OFFSET: usize = 40;
