//! Extended attributes: entries grow up, values grow down from the area's end.
//!
//! ```text
//! in the inode  0 magic ea020000 | 4 entries ...        value offsets count from byte 4
//! in a block    0 magic | references | 8 blocks | hash | 16 checksum | 32 entries ...
//!                                                       value offsets count from byte 0
//! entry         0 name length | 1 class | 2 value offset | 4 value inode | 8 value length
//!              12 hash | 16 name ... (a multiple of 4); four zero bytes end the entries
//! ```
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Magic number of a block or an area (`h_magic`).
pub(crate) const MAGIC: u32 = 0xea02_0000;
/// Length of a block's header in bytes.
pub(crate) const HEADER_BYTES: usize = 32;
/// The place of a block's number of references.
pub(crate) const REFERENCES_OFFSET: usize = 4;
/// The place of a block's number of blocks, which is always one.
pub(crate) const BLOCKS_OFFSET: usize = 8;
/// The place of a block's hash.
pub(crate) const HASH_OFFSET: usize = 12;
/// The place of a block's checksum.
pub(crate) const CHECKSUM_OFFSET: usize = 16;
/// Bytes of an entry before its name.
pub(crate) const ENTRY_BYTES: usize = 16;

/// Class number of the list that says who may use the inode.
pub(crate) const ACL_ACCESS: u8 = 2;
/// Class of the lists that a directory passes on to new files.
pub(crate) const ACL_DEFAULT: u8 = 3;
/// Class number of `security.`.
pub(crate) const SECURITY: u8 = 6;
/// Class number of inline data.
pub(crate) const SYSTEM: u8 = 7;

/// An entry without its name.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawEntry {
    pub(crate) name_length: u8,
    pub(crate) class: u8,
    pub(crate) value_offset: U16,
    pub(crate) value_inode: U32,
    pub(crate) value_length: U32,
    hash: U32,
}

const _: () = assert!(size_of::<RawEntry>() == ENTRY_BYTES);
