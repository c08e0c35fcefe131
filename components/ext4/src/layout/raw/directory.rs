//! Directory blocks: entries that fill the block; the root and nodes of a hash tree.
//!
//! ```text
//! entry    0 inode | 4 length | 6 name length | 7 type | 8 name ... (a multiple of 4)
//! tail     0 zero | 4 12 | 6 zero | 7 de | 8 checksum            last 12 bytes of a leaf
//! root     0 entry "." (12) | 12 entry ".." (12 bytes, its length reaching the block's end)
//!         24 zero | 28 hash version | 29 8 | 30 levels | 31 flags | 32 limit | 34 count
//!         36 block | 40 (hash, block) ...
//! node     0 entry of inode 0, as long as the block | 8 limit | 10 count | 12 block | 16 (hash, block) ...
//! dx tail  after `limit` entries: 0 reserved | 4 checksum
//! ```
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Bytes of an entry before its name.
pub(crate) const ENTRY_BYTES: usize = 8;
/// Bytes of the tail of a leaf.
pub(crate) const TAIL_BYTES: usize = 12;
/// The type number in a tail.
pub(crate) const TAIL_TYPE: u8 = 0xde;
/// The place of the root's tree information.
pub(crate) const ROOT_INFO_OFFSET: usize = 24;
/// Length of the root's information in bytes.
pub(crate) const ROOT_INFO_BYTES: u8 = 8;
/// The places of the root's limit and count.
pub(crate) const ROOT_COUNT_OFFSET: usize = 32;
/// The places of a node's limit and count.
pub(crate) const NODE_COUNT_OFFSET: usize = 8;
/// Bytes of a (hash, block) pair.
pub(crate) const PAIR_BYTES: usize = 8;

/// An entry without its name.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawEntry {
    pub(crate) inode: U32,
    pub(crate) length: U16,
    pub(crate) name_length: u8,
    pub(crate) file_type: u8,
}

/// The description of a hash tree in its root.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawRootInfo {
    pub(crate) reserved: U32,
    pub(crate) hash_version: u8,
    pub(crate) length: u8,
    pub(crate) levels: u8,
    flags: u8,
}

const _: () = assert!(size_of::<RawEntry>() == ENTRY_BYTES);
const _: () = assert!(size_of::<RawRootInfo>() == ROOT_COUNT_OFFSET - ROOT_INFO_OFFSET);
