//! An inode: 128 bytes, then (in larger inodes) as many more as `extra_bytes` says, then attributes.
//!
//! ```text
//!   0 mode | user | size | access, change, modify, delete time | 24 group | links | 28 blocks
//!  32 flags | version | 40 body: block map, extent tree, target or inline data (60 bytes)
//! 100 generation | attribute block | high size | 116 high blocks, attribute block, user, group
//! 124 checksum | 128 extra bytes | checksum (high) | 132 times' epochs and nanoseconds
//! 144 creation time, its nanoseconds | version | project | 128 + extra bytes: attributes
//! ```
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Size of the base part of every inode, and so the offset of the extra part.
pub(crate) const BASE_BYTES: usize = 128;
/// Size of the body in bytes.
pub(crate) const BODY_BYTES: usize = 60;
/// The place of the checksum's low half.
pub(crate) const CHECKSUM_LOW_OFFSET: usize = 124;
/// The place of the checksum's high half, if the extra part reaches it.
pub(crate) const CHECKSUM_HIGH_OFFSET: usize = 130;

/// The places of fields that are written one by one.
pub(crate) mod at {
    /// Mode, and below it the low half of the owner.
    pub(crate) const MODE: usize = 0;
    pub(crate) const USER_LOW: usize = 2;
    pub(crate) const SIZE_LOW: usize = 4;
    pub(crate) const ACCESSED: usize = 8;
    pub(crate) const CHANGED: usize = 12;
    pub(crate) const MODIFIED: usize = 16;
    pub(crate) const DELETED: usize = 20;
    pub(crate) const GROUP_LOW: usize = 24;
    pub(crate) const LINKS: usize = 26;
    pub(crate) const BLOCKS_LOW: usize = 28;
    pub(crate) const FLAGS: usize = 32;
    pub(crate) const BODY: usize = 40;
    pub(crate) const GENERATION: usize = 100;
    pub(crate) const ATTRIBUTE_BLOCK_LOW: usize = 104;
    pub(crate) const SIZE_HIGH: usize = 108;
    pub(crate) const BLOCKS_HIGH: usize = 116;
    pub(crate) const ATTRIBUTE_BLOCK_HIGH: usize = 118;
    pub(crate) const USER_HIGH: usize = 120;
    pub(crate) const GROUP_HIGH: usize = 122;
    pub(crate) const EXTRA_BYTES: usize = 128;
    pub(crate) const CHANGED_EXTRA: usize = 132;
    pub(crate) const MODIFIED_EXTRA: usize = 136;
    pub(crate) const ACCESSED_EXTRA: usize = 140;
    pub(crate) const CREATED: usize = 144;
    pub(crate) const CREATED_EXTRA: usize = 148;
}

/// `i_flags`: directory has a hash tree.
pub(crate) const FLAG_INDEX: u32 = 0x1000;
/// `i_flags`: `blocks` counts file system blocks.
pub(crate) const FLAG_HUGE_FILE: u32 = 0x4_0000;
/// `i_flags`: the body is an extent tree.
pub(crate) const FLAG_EXTENTS: u32 = 0x8_0000;
/// `i_flags`: the body, and an attribute, are the data.
pub(crate) const FLAG_INLINE_DATA: u32 = 0x1000_0000;
/// `i_flags` that a new inode takes over from its directory; compression, sync, no dump, no atime, append-only and
/// immutable are not among them.
pub(crate) const FLAGS_INHERITED: u32 = 0x0001_00c8;
/// `i_flags` that programs may set: sync, immutable, append-only, no dump, no atime and those without an effect (secure
/// deletion, undelete, compression, no tail); for a directory also synchronous changes and top.
pub(crate) const FLAGS_SETTABLE: u32 = 0x80ff;
pub(crate) const FLAGS_SETTABLE_DIRECTORY: u32 = 0x3_80ff;
/// `i_flags` that programs are shown.
pub(crate) const FLAGS_VISIBLE: u32 = 0x705b_dfff;
/// Those of the visible flags that no program can change (directory index, whole file system blocks, inline data).
pub(crate) const FLAGS_KEPT: u32 = FLAGS_VISIBLE & !0x604b_c0ff;
/// `i_flags` of inodes that cannot be read: encrypted, value inode of an attribute.
pub(crate) const FLAGS_UNREADABLE: u32 = 0x800 | 0x20_0000;

/// The first 128 bytes.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawInode {
    pub(crate) mode: U16,
    pub(crate) user_low: U16,
    pub(crate) size_low: U32,
    pub(crate) accessed: U32,
    pub(crate) changed: U32,
    pub(crate) modified: U32,
    pub(crate) deleted: U32,
    pub(crate) group_low: U16,
    pub(crate) links: U16,
    pub(crate) blocks_low: U32,
    pub(crate) flags: U32,
    version: U32,
    pub(crate) body: [u8; BODY_BYTES],
    pub(crate) generation: U32,
    pub(crate) attribute_block_low: U32,
    pub(crate) size_high: U32,
    fragment: U32,
    pub(crate) blocks_high: U16,
    pub(crate) attribute_block_high: U16,
    pub(crate) user_high: U16,
    pub(crate) group_high: U16,
    pub(crate) checksum_low: U16,
    reserved: U16,
}

const _: () = assert!(size_of::<RawInode>() == BASE_BYTES);
const _: () = assert!(core::mem::offset_of!(RawInode, body) == 40);
const _: () = assert!(core::mem::offset_of!(RawInode, checksum_low) == CHECKSUM_LOW_OFFSET);

/// The extra part; bytes beyond the inode's own extra bytes count as zero.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawExtra {
    pub(crate) extra_bytes: U16,
    pub(crate) checksum_high: U16,
    pub(crate) changed: U32,
    pub(crate) modified: U32,
    pub(crate) accessed: U32,
    pub(crate) created: U32,
    pub(crate) created_extra: U32,
    version_high: U32,
    project: U32,
}

const _: () = assert!(size_of::<RawExtra>() == 32);
