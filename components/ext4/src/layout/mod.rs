//! The structures on disk, drawn and const-asserted. All numbers are little-endian.
//!
//! A `Raw...` value proves nothing but its length.
pub(crate) mod directory;
pub(crate) mod extent;
pub(crate) mod group;
pub(crate) mod inode;
pub(crate) mod superblock;
pub(crate) mod xattr;

/// A 16-bit word at `offset`; `None` beyond the end.
pub(crate) fn word16(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk().map(|word| u16::from_le_bytes(*word))
}

/// A 32-bit word at `offset`; `None` beyond the end.
pub(crate) fn word32(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}
