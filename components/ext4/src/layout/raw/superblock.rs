//! The superblock: 1024 bytes at byte 1024 of the device.
//!
//! ```text
//!   0 inodes | blocks | reserved | free blocks | free inodes | first data block | log block size
//!  28 log cluster size | blocks, clusters, inodes a group | mount and write time
//!  52 mount counts | 56 magic ef53 | state | errors | minor | check times | creator | revision
//!  80 default owner | 84 first inode | 88 inode size | 92 compat | 96 incompat | 100 ro_compat
//! 104 uuid | label | last mounted | ... | 236 hash seed | 252 hash version | 254 descriptor size
//! 260 first meta_bg | ... | 336 high halves of the block counts | 352 flags | ... | 372 flex size
//! 373 checksum type | ... | 584 overhead | 588 backup groups | 624 checksum seed | 1020 checksum
//! ```
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Offset of the superblock on the device.
pub(crate) const SUPERBLOCK_OFFSET: usize = 1024;
/// Magic number of the superblock (`s_magic`).
pub(crate) const MAGIC: u16 = 0xef53;
/// `s_flags`: directory hashes take characters as unsigned.
pub(crate) const FLAG_UNSIGNED_HASH: u32 = 2;
/// `s_checksum_type`: CRC-32C.
pub(crate) const CHECKSUM_CRC32C: u8 = 1;

/// `s_errors`: by default writing continues after an error.
pub(crate) const ERRORS_CONTINUE: u16 = 1;
/// Size of the superblock in bytes.
pub(crate) const SUPERBLOCK_BYTES: usize = 1024;
/// Free blocks, and their high half.
pub(crate) const FREE_BLOCKS_OFFSET: usize = 12;
/// Offset of the number of free inodes.
pub(crate) const FREE_INODES_OFFSET: usize = 16;
/// Offset of the time of the last mount.
pub(crate) const MOUNT_TIME_OFFSET: usize = 44;
/// Offset of the time of the last write.
pub(crate) const WRITE_TIME_OFFSET: usize = 48;
/// Offset of the number of mounts since the last check.
pub(crate) const MOUNT_COUNT_OFFSET: usize = 52;
/// `s_state`.
pub(crate) const STATE_OFFSET: usize = 58;
/// Offset of the incompatible features.
pub(crate) const INCOMPAT_OFFSET: usize = 96;
/// Features that forbid writing if they are unknown.
pub(crate) const READ_ONLY_COMPAT_OFFSET: usize = 100;
/// First inode of the list of orphans.
pub(crate) const LAST_ORPHAN_OFFSET: usize = 232;
/// High half of the free blocks.
pub(crate) const FREE_BLOCKS_HIGH_OFFSET: usize = 344;
/// Bits 32 to 39 of the time of writing.
pub(crate) const WRITE_TIME_HIGH_OFFSET: usize = 628;

/// The superblock as it is on disk.
#[derive(Clone, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawSuperblock {
    pub(crate) inodes: U32,
    pub(crate) blocks_low: U32,
    pub(crate) reserved_blocks_low: U32,
    pub(crate) free_blocks_low: U32,
    pub(crate) free_inodes: U32,
    pub(crate) first_data_block: U32,
    pub(crate) log_block_size: U32,
    pub(crate) log_cluster_size: U32,
    pub(crate) blocks_per_group: U32,
    pub(crate) clusters_per_group: U32,
    pub(crate) inodes_per_group: U32,
    pub(crate) mount_time: U32,
    write_time: U32,
    mount_counts: [U16; 2],
    pub(crate) magic: U16,
    pub(crate) state: U16,
    pub(crate) errors: U16,
    minor_revision: U16,
    checks: [U32; 2],
    creator: U32,
    pub(crate) revision: U32,
    pub(crate) reserved_user: U16,
    pub(crate) reserved_group: U16,
    pub(crate) first_inode: U32,
    pub(crate) inode_size: U16,
    group_of_copy: U16,
    pub(crate) compat: U32,
    pub(crate) incompat: U32,
    pub(crate) read_only_compat: U32,
    pub(crate) uuid: [u8; 16],
    label: [u8; 16],
    last_mounted: [u8; 64],
    algorithms: U32,
    preallocation: [u8; 2],
    pub(crate) reserved_descriptors: U16,
    journal_uuid: [u8; 16],
    pub(crate) journal_inode: U32,
    journal_device: U32,
    pub(crate) last_orphan: U32,
    pub(crate) hash_seed: [U32; 4],
    pub(crate) hash_version: u8,
    journal_backup: u8,
    pub(crate) descriptor_size: U16,
    pub(crate) default_options: U32,
    pub(crate) first_meta_group: U32,
    made: U32,
    journal_blocks: [U32; 17],
    pub(crate) blocks_high: U32,
    pub(crate) reserved_blocks_high: U32,
    pub(crate) free_blocks_high: U32,
    pub(crate) extra_sizes: [U16; 2],
    pub(crate) flags: U32,
    unused_raid: [u8; 16],
    pub(crate) log_flex_groups: u8,
    pub(crate) checksum_type: u8,
    unused_middle: [u8; 210],
    pub(crate) overhead: U32,
    pub(crate) backup_groups: [U32; 2],
    unused_encryption: [u8; 28],
    pub(crate) checksum_seed: U32,
    unused_end: [u8; 392],
    pub(crate) checksum: U32,
}

const _: () = assert!(size_of::<RawSuperblock>() == 1024);
const _: () = assert!(core::mem::offset_of!(RawSuperblock, magic) == 56);
const _: () = assert!(core::mem::offset_of!(RawSuperblock, hash_seed) == 236);
const _: () = assert!(core::mem::offset_of!(RawSuperblock, free_blocks_low) == FREE_BLOCKS_OFFSET);
const _: () = assert!(core::mem::offset_of!(RawSuperblock, free_inodes) == FREE_INODES_OFFSET);
const _: () = assert!(core::mem::offset_of!(RawSuperblock, mount_time) == MOUNT_TIME_OFFSET);
const _: () = assert!(core::mem::offset_of!(RawSuperblock, mount_counts) == MOUNT_COUNT_OFFSET);
const _: () = assert!(core::mem::offset_of!(RawSuperblock, state) == STATE_OFFSET);
const _: () = assert!(core::mem::offset_of!(RawSuperblock, incompat) == INCOMPAT_OFFSET);
const _: () = assert!(core::mem::offset_of!(RawSuperblock, last_orphan) == LAST_ORPHAN_OFFSET);
const _: () =
    assert!(core::mem::offset_of!(RawSuperblock, free_blocks_high) == FREE_BLOCKS_HIGH_OFFSET);
const _: () = assert!(core::mem::offset_of!(RawSuperblock, flags) == 352);
const _: () = assert!(core::mem::offset_of!(RawSuperblock, overhead) == 584);
const _: () = assert!(core::mem::offset_of!(RawSuperblock, checksum_seed) == 624);
const _: () = assert!(core::mem::offset_of!(RawSuperblock, checksum) == CHECKSUM_OFFSET);

/// Offset of the checksum, and so also the number of bytes that it covers.
pub(crate) const CHECKSUM_OFFSET: usize = 1020;
