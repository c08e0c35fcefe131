//! Group descriptors: where a group's inode table is.
use crate::{
    cache::BlockRef,
    checksum::{crc16, crc32c},
    features::{Compat, Incompat, ReadOnlyCompat},
    layout::{group::*, word32},
    superblock::Geometry,
    volume::Volume,
};
use interfaces::file_system::FsError;
use zerocopy::FromBytes;

/// A descriptor, checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    /// First block of the inode table, which lies on the volume.
    pub(crate) inode_table: u64,
}

impl Group {
    /// Reads the descriptor of a group.
    ///
    /// # Errors
    /// [`FsError::Corrupt`] for a wrong checksum, a table beyond the volume, or a group whose
    /// inodes were never used; and as [`Volume::block`].
    pub(crate) fn load(volume: &Volume, group: u32) -> Result<Group, FsError> {
        let geometry = &volume.geometry;
        let per_block = (geometry.block_bytes / geometry.descriptor_bytes) as u32;
        let block = descriptor_block(geometry, group / per_block);
        let offset = (group % per_block) as usize * geometry.descriptor_bytes;
        let part: BlockRef = volume.part(block, offset, geometry.descriptor_bytes, 1)?;
        let bytes = part.bytes();
        let (raw, _) = RawGroup::read_from_prefix(bytes).map_err(|_| FsError::Corrupt)?;
        if checksum(geometry, group, bytes).is_some_and(|sum| sum != raw.checksum.get()) {
            return Err(FsError::Corrupt);
        }
        let high = word32(bytes, INODE_TABLE_HIGH_OFFSET).unwrap_or(0);
        let inode_table = u64::from(raw.inode_table_low.get()) | u64::from(high) << 32;
        let table_bytes = geometry.inodes_per_group as usize * geometry.inode_bytes;
        let table_blocks = table_bytes.div_ceil(geometry.block_bytes) as u64;
        let has_unused = geometry.has_checksums()
            || geometry.read_only_compat.contains(ReadOnlyCompat::GDT_CSUM);
        if (has_unused && raw.flags.get() & INODES_UNUSED != 0)
            || !geometry.holds(inode_table, table_blocks)
        {
            return Err(FsError::Corrupt);
        }
        Ok(Group { inode_table })
    }
}

/// Where descriptor block `index` is: behind the superblock, or (`meta_bg`) in the first group it
/// describes.
fn descriptor_block(geometry: &Geometry, index: u32) -> u64 {
    let is_meta = geometry.incompat.contains(Incompat::META_BG);
    if !is_meta || index < geometry.first_meta_group {
        // In front of a 1 KiB superblock lies one block even where groups begin with block 0.
        let superblock = u64::from(geometry.block_bytes == 1024);
        return superblock + 1 + u64::from(index);
    }
    let per_block = (geometry.block_bytes / geometry.descriptor_bytes) as u64;
    let group = u64::from(index) * per_block;
    let first = geometry.first_data_block.saturating_add(group * geometry.blocks_per_group);
    first.saturating_add(u64::from(has_superblock(geometry, group)))
}

fn has_superblock(geometry: &Geometry, group: u64) -> bool {
    if group == 0 {
        return true;
    }
    if geometry.compat.contains(Compat::SPARSE_SUPER2) {
        return geometry.backup_groups.iter().any(|backup| u64::from(*backup) == group);
    }
    let is_sparse = geometry.read_only_compat.contains(ReadOnlyCompat::SPARSE_SUPER);
    group == 1 || !is_sparse || [3, 5, 7].iter().any(|base| is_power_of(group, *base))
}

fn is_power_of(mut number: u64, base: u64) -> bool {
    while number > 1 && number.is_multiple_of(base) {
        number /= base;
    }
    number == 1
}

/// The checksum a descriptor should have, if the volume has them.
fn checksum(geometry: &Geometry, group: u32, bytes: &[u8]) -> Option<u16> {
    let before = bytes.get(..CHECKSUM_OFFSET)?;
    let after = bytes.get(CHECKSUM_OFFSET + 2..)?;
    let number = group.to_le_bytes();
    if geometry.has_checksums() {
        let sum = crc32c(crc32c(geometry.checksum_seed, &number), before);
        return Some(crc32c(crc32c(sum, &[0; 2]), after) as u16);
    }
    if geometry.read_only_compat.contains(ReadOnlyCompat::GDT_CSUM) {
        let sum = crc16(crc16(crc16(!0, &geometry.uuid), &number), before);
        return Some(crc16(sum, after));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::is_power_of;

    #[test]
    fn powers_are_told_from_other_numbers() {
        assert!(is_power_of(9, 3) && is_power_of(49, 7) && is_power_of(5, 5));
        assert!(!is_power_of(6, 3) && !is_power_of(15, 5));
    }
}
