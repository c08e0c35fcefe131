//! The journal (jbd2), in the file of inode 8. All numbers are big-endian.
//!
//! ```text
//! every block  0 magic c03b3998 | 4 type | 8 sequence
//! superblock   type 3 or 4: 12 block size | length | first | 24 sequence | start | errno
//!              36 features (compat, incompat, ro) | 48 uuid | ... | 80 checksum type
//!              84 fast commit blocks | ... | 252 checksum                    1024 bytes
//! descriptor   type 1: 12 tags ... | last 4 bytes checksum (v2, v3)
//! tag, v3      0 block | 4 flags | 8 block (high) | 12 checksum | [uuid]     16 bytes
//! tag, others  0 block | 4 checksum (v2) | 6 flags | [8 block (high)] | [2 unused, v2] | [uuid]
//! revoke       type 5: 12 bytes used | 16 blocks (4 bytes each, 8 with 64bit) | checksum
//! commit       type 2: 12 checksum type, size | 16 checksum | 48 seconds | 56 nanoseconds
//! ```
//! Source: Linux include/linux/jbd2.h, Documentation/filesystems/ext4/journal.rst.

/// First word of every block of the journal's own.
pub(crate) const MAGIC: u32 = 0xc03b_3998;
/// Type number of a descriptor.
pub(crate) const DESCRIPTOR: u32 = 1;
/// Type number of a commit block.
pub(crate) const COMMIT: u32 = 2;
/// Type numbers of the superblock.
pub(crate) const SUPERBLOCKS: [u32; 2] = [3, 4];
/// Type number of a revoke block.
pub(crate) const REVOKE: u32 = 5;
/// Bytes of a header, after which tags begin.
pub(crate) const HEADER_BYTES: usize = 12;
/// The place of the first revoked block.
pub(crate) const REVOKED_OFFSET: usize = 16;
/// Bytes of the checksum that ends descriptors and revoke blocks.
pub(crate) const TAIL_BYTES: usize = 4;
/// Length of the uuid behind a tag without the flag `TAG_SAME_UUID`.
pub(crate) const UUID_BYTES: usize = 16;

/// Superblock: offset of the size of a block.
pub(crate) const BLOCK_BYTES_OFFSET: usize = 12;
/// Superblock: offset of the number of blocks.
pub(crate) const LENGTH_OFFSET: usize = 16;
/// Superblock: first block of the log.
pub(crate) const FIRST_OFFSET: usize = 20;
/// Superblock: sequence of the first transaction to be replayed.
pub(crate) const SEQUENCE_OFFSET: usize = 24;
/// Superblock: offset of the start of the log, which is zero if the journal is empty.
pub(crate) const START_OFFSET: usize = 28;
/// Superblock: offset of the compatible features.
pub(crate) const COMPAT_OFFSET: usize = 36;
/// Superblock: offset of the incompatible features.
pub(crate) const INCOMPAT_OFFSET: usize = 40;
/// Superblock: identity, with which checksums begin.
pub(crate) const UUID_OFFSET: usize = 48;
/// Superblock: offset of the type of checksum.
pub(crate) const CHECKSUM_TYPE_OFFSET: usize = 80;
/// Superblock: offset of its checksum.
pub(crate) const CHECKSUM_OFFSET: usize = 252;
/// Bytes of the superblock.
pub(crate) const SUPERBLOCK_BYTES: usize = 1024;

/// Compatible feature: commit blocks have a checksum of their transaction (`journal_checksum`, v1).
pub(crate) const FEATURE_CHECKSUM_V1: u32 = 1;
/// Feature: there may be revoke blocks.
pub(crate) const FEATURE_REVOKE: u32 = 1;
/// Feature: block numbers of 64 bits.
pub(crate) const FEATURE_WIDE: u32 = 2;
/// Feature: commit blocks may be written before the blocks that they commit.
pub(crate) const FEATURE_ASYNC_COMMIT: u32 = 4;
/// Feature: checksums, 16 bits in each tag.
pub(crate) const FEATURE_CHECKSUM_V2: u32 = 8;
/// Feature: checksums, 32 bits in each tag.
pub(crate) const FEATURE_CHECKSUM_V3: u32 = 16;

/// Tag: the block began with the magic, which was cleared.
pub(crate) const TAG_ESCAPED: u32 = 1;
/// Flag of a tag: no uuid follows.
pub(crate) const TAG_SAME_UUID: u32 = 2;
/// Tag: the last of its descriptor.
pub(crate) const TAG_LAST: u32 = 8;
/// Bytes of a tag with `FEATURE_CHECKSUM_V3`.
pub(crate) const TAG_V3_BYTES: usize = 16;

/// Commit block: offset of the type and size of the transaction's checksum (v1), both zero if it has
/// none.
pub(crate) const COMMIT_CHECKSUM_TYPE_OFFSET: usize = 12;
/// The kind and size of a CRC-32.
pub(crate) const COMMIT_CRC32: [u8; 2] = [1, 4];
/// Commit block: offset of its checksum.
pub(crate) const COMMIT_CHECKSUM_OFFSET: usize = 16;
/// Commit block: offset of its time.
pub(crate) const COMMIT_SECONDS_OFFSET: usize = 48;
