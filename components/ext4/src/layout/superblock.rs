//! Checks a superblock and converts it to a geometry that can only be valid.
use crate::{
    layout::{
        features::{Compat, Incompat, ReadOnlyCompat, Refused, forbids_writing},
        mount_error::MountError,
        raw::superblock::*,
    },
    store::{
        area::VolumeArea,
        checksum::crc32c,
        health::{STATE_ERRORS, STATE_VALID},
    },
};
use interfaces::file_system::{FileSystemUsage, ReservedFor};
use zerocopy::{FromBytes, little_endian};

/// Number of the root directory.
pub(crate) const ROOT_INODE: u32 = 2;
/// `log_block_size` of 4 KiB, the size of a page: larger blocks would need reads across frames.
const LOG_BLOCK_MAX: u32 = 2;
/// The greatest number of blocks reserved for metadata.
const METADATA_BLOCKS_MAX: u64 = 4096;
/// First inode that is not reserved, in revision 0.
const OLD_FIRST_INODE: u32 = 11;

/// The sign of characters beyond 127 in the hash of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Characters {
    Signed,
    Unsigned,
}

impl Characters {
    fn of(raw: &RawSuperblock) -> Characters {
        let is_unsigned = raw.flags.get() & FLAG_UNSIGNED_HASH != 0;
        if is_unsigned { Characters::Unsigned } else { Characters::Signed }
    }
}

/// The geometry of a volume: its superblock, checked.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    /// Size of a block: 1024, 2048 or 4096.
    pub(crate) block_bytes: usize,
    /// Blocks of the volume, all on the device.
    pub(crate) blocks: u64,
    /// Block of the first group's beginning.
    pub(crate) first_data_block: u64,
    /// Number of groups.
    pub(crate) groups: u32,
    /// Number of inodes.
    pub(crate) inodes: u32,
    /// Number of inodes of a group, at least one.
    pub(crate) inodes_per_group: u32,
    /// Blocks of a group.
    pub(crate) blocks_per_group: u64,
    /// Bytes of an inode, a power of two, at most a block.
    pub(crate) inode_bytes: usize,
    /// First inode that a directory may name, besides the root.
    pub(crate) first_inode: u32,
    /// Size of a group descriptor in bytes.
    pub(crate) descriptor_bytes: usize,
    /// Blocks after the descriptors kept for growing.
    pub(crate) reserved_descriptors: u16,
    /// Bytes of the extra part of new inodes.
    pub(crate) extra_bytes: u16,
    /// First group of descriptor blocks laid out by `meta_bg`.
    pub(crate) first_meta_group: u32,
    /// Groups with copies of the superblock (`sparse_super2`).
    pub(crate) backup_groups: [u32; 2],
    /// Features.
    pub(crate) incompat: Incompat,
    /// Features.
    pub(crate) read_only_compat: ReadOnlyCompat,
    /// Features.
    pub(crate) compat: Compat,
    /// Unique identifier of the volume.
    pub(crate) uuid: [u8; 16],
    /// The seed of every metadata checksum.
    pub(crate) checksum_seed: u32,
    /// Seed of directory hashes.
    pub(crate) hash_seed: [u32; 4],
    /// Version of the hash of directories without a tree.
    pub(crate) hash_version: u8,
    /// Hashes treat characters as unsigned.
    pub(crate) hash_characters: Characters,
    /// The journal holds changes that are not in place.
    pub(crate) needs_recovery: bool,
    /// Marked as having errors, or not unmounted.
    pub(crate) is_unclean: bool,
    /// The features of the volume forbid writing.
    pub(crate) forbids_writing: bool,
    /// Blocks kept for privileged users, and for changes that must not fail.
    pub(crate) kept_blocks: (u64, u64),
    /// The user and the group that the first of them serve too.
    pub(crate) reserved_for: ReservedFor,
    /// First of the inodes without names.
    pub(crate) last_orphan: u32,
    /// Time of the last mount for writing: the low half of the seconds since 1970.
    pub(crate) mount_seconds: u32,
    /// `s_state`.
    pub(crate) state: u16,
    /// `s_errors`.
    pub(crate) errors: u16,
    usage: FileSystemUsage,
}

impl Geometry {
    /// Checks a superblock. `device_bytes` is the device's length.
    pub(crate) fn decode(bytes: &[u8], device_bytes: u64) -> Result<Geometry, MountError> {
        let (raw, _) = RawSuperblock::read_from_prefix(bytes).map_err(|_| MountError::TooShort)?;
        if raw.magic.get() != MAGIC {
            return Err(MountError::NotExt4);
        }
        let incompat = match Incompat::decode(raw.incompat.get()) {
            Ok(incompat) => incompat,
            Err(Refused::Named(name)) => return Err(MountError::Unsupported(name)),
            Err(Refused::Unknown(bits)) => return Err(MountError::UnknownFeature(bits)),
        };
        let read_only_compat = ReadOnlyCompat::from_bits_truncate(raw.read_only_compat.get());
        check_checksum(&raw, bytes, read_only_compat)?;
        let log_block_size = raw.log_block_size.get();
        if log_block_size > LOG_BLOCK_MAX {
            return Err(MountError::BlockSize(log_block_size));
        }
        let block_bytes = 1024_usize << log_block_size;
        let blocks = wide(&raw, raw.blocks_low, raw.blocks_high);
        let geometry = Geometry {
            block_bytes,
            blocks,
            first_data_block: u64::from(raw.first_data_block.get()),
            groups: count_groups(&raw, blocks)?,
            inodes: raw.inodes.get(),
            inodes_per_group: raw.inodes_per_group.get(),
            blocks_per_group: u64::from(raw.blocks_per_group.get()),
            inode_bytes: if is_old(&raw) { 128 } else { usize::from(raw.inode_size.get()) },
            first_inode: if is_old(&raw) { OLD_FIRST_INODE } else { raw.first_inode.get() },
            descriptor_bytes: descriptor_bytes(&raw),
            reserved_descriptors: raw.reserved_descriptors.get(),
            extra_bytes: raw.extra_sizes.map(|bytes| bytes.get()).into_iter().max().unwrap_or(0),
            first_meta_group: raw.first_meta_group.get(),
            backup_groups: raw.backup_groups.map(|group| group.get()),
            incompat,
            read_only_compat,
            compat: Compat::from_bits_truncate(raw.compat.get()),
            uuid: raw.uuid,
            checksum_seed: match incompat.contains(Incompat::CSUM_SEED) {
                true => raw.checksum_seed.get(),
                false => crc32c(!0, &raw.uuid),
            },
            hash_seed: raw.hash_seed.map(|word| word.get()),
            hash_version: raw.hash_version,
            hash_characters: Characters::of(&raw),
            needs_recovery: incompat.contains(Incompat::RECOVER),
            is_unclean: raw.state.get() & (STATE_VALID | STATE_ERRORS) != STATE_VALID,
            forbids_writing: forbids_writing(incompat, raw.read_only_compat.get()),
            kept_blocks: kept(&raw, blocks),
            reserved_for: ReservedFor {
                user: u32::from(raw.reserved_user.get()),
                group: u32::from(raw.reserved_group.get()),
            },
            last_orphan: raw.last_orphan.get(),
            mount_seconds: raw.mount_time.get(),
            state: raw.state.get(),
            errors: raw.errors.get(),
            usage: usage_of(&raw, block_bytes, blocks),
        };
        geometry.check(device_bytes)?;
        Ok(geometry)
    }

    fn check(&self, device_bytes: u64) -> Result<(), MountError> {
        let corrupt = |what| Err(MountError::Corrupt(what));
        let group_bits = self.block_bytes as u64 * 8;
        if self.blocks.checked_mul(self.block_bytes as u64).is_none_or(|end| end > device_bytes) {
            return corrupt("more blocks than the device has");
        }
        if self.first_data_block > u64::from(self.block_bytes == 1024) {
            return corrupt("first data block");
        }
        if !self.inode_bytes.is_power_of_two()
            || !(128..=self.block_bytes).contains(&self.inode_bytes)
        {
            return corrupt("inode size");
        }
        if self.inodes_per_group == 0 || u64::from(self.inodes_per_group) > group_bits {
            return corrupt("inodes a group");
        }
        if u64::from(self.inodes) > u64::from(self.groups) * u64::from(self.inodes_per_group)
            || self.inodes < self.first_inode
            || self.first_inode < OLD_FIRST_INODE
        {
            return corrupt("inode count");
        }
        let is_wide = self.incompat.contains(Incompat::WIDE);
        if !self.descriptor_bytes.is_power_of_two()
            || (is_wide && !(64..=1024).contains(&self.descriptor_bytes))
        {
            return corrupt("descriptor size");
        }
        Ok(())
    }

    /// Returns the volume's part of the answer to `statfs`.
    pub(crate) fn usage(&self) -> FileSystemUsage {
        self.usage
    }

    /// Returns the first block of a group.
    pub(crate) fn group_start(&self, group: u32) -> u64 {
        self.first_data_block + u64::from(group) * self.blocks_per_group
    }

    /// Returns the number of blocks of a group; the last one may have fewer than the others.
    pub(crate) fn blocks_in(&self, group: u32) -> u64 {
        self.blocks.saturating_sub(self.group_start(group)).min(self.blocks_per_group)
    }

    /// Returns the number of blocks of an inode table.
    pub(crate) fn table_blocks(&self) -> u64 {
        let bytes = self.inodes_per_group as usize * self.inode_bytes;
        bytes.div_ceil(self.block_bytes) as u64
    }

    /// Returns the group of a block, and its bit there.
    pub(crate) fn group_of(&self, block: u64) -> Option<(u32, usize)> {
        let at = block.checked_sub(self.first_data_block).filter(|_| block < self.blocks)?;
        Some(((at / self.blocks_per_group) as u32, (at % self.blocks_per_group) as usize))
    }

    /// Splits a run of blocks by group: group, first bit, number.
    pub(crate) fn split(&self, start: u64, count: u64) -> impl Iterator<Item = (u32, u32, u32)> {
        let (mut at, end) = (start, start.saturating_add(count));
        core::iter::from_fn(move || {
            let (group, bit) = self.group_of(at).filter(|_| at < end)?;
            let length = (end - at).min(self.blocks_per_group - bit as u64);
            at += length;
            Some((group, bit as u32, length as u32))
        })
    }

    /// Returns the group of an inode, and its index there.
    pub(crate) fn inode_group(&self, number: u32) -> Option<(u32, u32)> {
        let index = number.checked_sub(1).filter(|_| number <= self.inodes)?;
        Some((index / self.inodes_per_group, index % self.inodes_per_group))
    }

    /// Directories may have more links than they count.
    pub(crate) fn has_uncounted_links(&self) -> bool {
        self.read_only_compat.contains(ReadOnlyCompat::DIR_NLINK)
    }

    /// Returns whether there is a journal.
    pub(crate) fn has_journal(&self) -> bool {
        self.compat.contains(Compat::HAS_JOURNAL)
    }

    /// Returns whether group descriptors have checksums, so that groups can be uninitialised.
    pub(crate) fn has_group_checksums(&self) -> bool {
        self.has_checksums() || self.read_only_compat.contains(ReadOnlyCompat::GDT_CSUM)
    }

    /// Returns whether metadata has CRC-32C checksums.
    pub(crate) fn has_checksums(&self) -> bool {
        self.read_only_compat.contains(ReadOnlyCompat::METADATA_CSUM)
    }

    /// Returns the sum with which the checksums of an inode's structures begin.
    pub(crate) fn inode_seed(&self, inode: u32, generation: u32) -> u32 {
        let seed = crc32c(self.checksum_seed, &inode.to_le_bytes());
        crc32c(seed, &generation.to_le_bytes())
    }

    /// The blocks of the volume.
    pub(crate) fn area(&self) -> VolumeArea {
        let first = self.first_data_block + 1;
        VolumeArea { block_bytes: self.block_bytes, first, end: self.blocks }
    }

    /// Returns whether `count` blocks from `start` on lie on the volume, after the superblock.
    pub(crate) fn holds(&self, start: u64, count: u64) -> bool {
        self.area().holds(start, count)
    }
}

fn is_old(raw: &RawSuperblock) -> bool {
    raw.revision.get() == 0
}

fn is_wide(raw: &RawSuperblock) -> bool {
    raw.incompat.get() & Incompat::WIDE.bits() != 0
}

/// Returns the number of two halves; without [`Incompat::WIDE`] there is no high half.
fn wide(raw: &RawSuperblock, low: little_endian::U32, high: little_endian::U32) -> u64 {
    u64::from(low.get()) | if is_wide(raw) { u64::from(high.get()) << 32 } else { 0 }
}

fn descriptor_bytes(raw: &RawSuperblock) -> usize {
    if is_wide(raw) { usize::from(raw.descriptor_size.get()) } else { 32 }
}

fn check_checksum(
    raw: &RawSuperblock,
    bytes: &[u8],
    features: ReadOnlyCompat,
) -> Result<(), MountError> {
    if !features.contains(ReadOnlyCompat::METADATA_CSUM) {
        return Ok(());
    }
    if features.contains(ReadOnlyCompat::GDT_CSUM) || raw.checksum_type != CHECKSUM_CRC32C {
        return Err(MountError::Corrupt("checksum type"));
    }
    let covered = bytes.get(..CHECKSUM_OFFSET).ok_or(MountError::TooShort)?;
    if crc32c(!0, covered) == raw.checksum.get() { Ok(()) } else { Err(MountError::Checksum) }
}

fn count_groups(raw: &RawSuperblock, blocks: u64) -> Result<u32, MountError> {
    let in_groups = blocks.checked_sub(u64::from(raw.first_data_block.get()));
    let per_group = u64::from(raw.blocks_per_group.get());
    match in_groups {
        Some(count) if count > 0 && per_group > 0 => {
            u32::try_from(count.div_ceil(per_group)).map_err(|_| MountError::Corrupt("group count"))
        }
        _ => Err(MountError::Corrupt("blocks a group")),
    }
}

/// Returns the numbers of blocks reserved for privileged users, and for changes that must not fail.
/// As on Linux the latter is, with extents, a fiftieth of the volume but at most 4,096 blocks.
fn kept(raw: &RawSuperblock, blocks: u64) -> (u64, u64) {
    let for_users = wide(raw, raw.reserved_blocks_low, raw.reserved_blocks_high);
    let has_extents = raw.incompat.get() & Incompat::EXTENTS.bits() != 0;
    let for_metadata = if has_extents { (blocks / 50).min(METADATA_BLOCKS_MAX) } else { 0 };
    (for_users.min(blocks), for_metadata)
}

fn usage_of(raw: &RawSuperblock, block_bytes: usize, blocks: u64) -> FileSystemUsage {
    let free = wide(raw, raw.free_blocks_low, raw.free_blocks_high).min(blocks);
    let (for_users, for_metadata) = kept(raw, blocks);
    let (low, high) = raw.uuid.split_at(8);
    let half = |bytes: &[u8]| bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    FileSystemUsage {
        magic: u32::from(MAGIC),
        block_bytes: block_bytes as u32,
        blocks: blocks.saturating_sub(u64::from(raw.overhead.get())),
        free,
        available: free.saturating_sub(for_users.saturating_add(for_metadata)),
        files: u64::from(raw.inodes.get()),
        files_free: u64::from(raw.free_inodes.get()),
        id: half(low) ^ half(high),
        name_max: 255,
    }
}
