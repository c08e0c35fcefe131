//! Group descriptors: the places of a group's bitmaps and inode table, and the group's counts.
use super::group::Group;
use crate::{
    layout::{
        features::{Compat, Incompat, ReadOnlyCompat},
        raw::group::*,
        superblock::Geometry,
    },
    store::{
        Store,
        bytes::{put16, word16, word32},
        cache::BlockRef,
        checksum::{crc16, crc32c},
        class::Class,
        log::Operation,
    },
};
use interfaces::file_system::FsError;
use zerocopy::FromBytes;

/// Returns the start of the inode table of a group, for a volume that is only read.
///
/// # Errors
/// [`FsError::Corrupt`] for a wrong checksum, a table beyond the volume, or a group whose
/// inodes were never used; and as [`Store::block`].
pub(crate) fn inode_table(store: &Store, geometry: &Geometry, number: u32) -> Result<u64, FsError> {
    let part = load(store, geometry, number)?;
    let group = decode(geometry, part.bytes())?;
    if geometry.has_group_checksums() && group.flags & INODES_UNUSED != 0 {
        return Err(FsError::Corrupt);
    }
    Ok(group.inode_table)
}

/// Returns the block of a group's descriptor, and its range in the block.
fn place(geometry: &Geometry, number: u32) -> (u64, usize) {
    let per_block = (geometry.block_bytes / geometry.descriptor_bytes) as u32;
    let block = descriptor_block(geometry, number / per_block);
    (block, (number % per_block) as usize * geometry.descriptor_bytes)
}

/// Returns the block of a descriptor, its checksum verified.
fn load(store: &Store, geometry: &Geometry, number: u32) -> Result<BlockRef, FsError> {
    let (block, offset) = place(geometry, number);
    let part = store.part(block, offset, geometry.descriptor_bytes, 1)?;
    let stored = word16(part.bytes(), CHECKSUM_OFFSET);
    if checksum(geometry, number, part.bytes()).is_some_and(|sum| Some(sum) != stored) {
        return Err(FsError::Corrupt);
    }
    Ok(part)
}

fn decode(geometry: &Geometry, bytes: &[u8]) -> Result<Group, FsError> {
    let (raw, _) = RawGroup::read_from_prefix(bytes).map_err(|_| FsError::Corrupt)?;
    let high32 = |at: usize| u64::from(word32(bytes, BLOCKS_HIGH_OFFSET + 4 * at).unwrap_or(0));
    let is_wide = geometry.descriptor_bytes >= WIDE_BYTES;
    let block = |low: u32, at| u64::from(low) | if is_wide { high32(at) << 32 } else { 0 };
    let high16 = |offset: usize| {
        let word = word16(bytes, offset).filter(|_| is_wide).unwrap_or(0);
        u32::from(word) << 16
    };
    let count = |low: u16, at: usize| u32::from(low) | high16(COUNTS_HIGH_OFFSET + 2 * at);
    let [free_blocks, free_inodes, directories] = raw.counts.map(|word| word.get());
    let [blocks_sum, inodes_sum] = raw.bitmap_checksums.map(|word| u32::from(word.get()));
    let group = Group {
        block_bitmap: block(raw.block_bitmap_low.get(), 0),
        inode_bitmap: block(raw.inode_bitmap_low.get(), 1),
        inode_table: block(raw.inode_table_low.get(), 2),
        free_blocks: count(free_blocks, 0),
        free_inodes: count(free_inodes, 1),
        directories: count(directories, 2),
        unused_inodes: count(raw.unused_inodes.get(), 3),
        flags: raw.flags.get(),
        block_bitmap_checksum: blocks_sum | high16(BITMAP_CHECKSUMS_HIGH_OFFSET),
        inode_bitmap_checksum: inodes_sum | high16(BITMAP_CHECKSUMS_HIGH_OFFSET + 2),
        ..Group::default()
    };
    if geometry.holds(group.inode_table, geometry.table_blocks()) {
        Ok(group)
    } else {
        Err(FsError::Corrupt)
    }
}

/// Reads a descriptor and checks all of it, for a volume that is written.
///
/// # Errors
/// [`FsError::Corrupt`]; as [`Store::block`].
pub(super) fn load_whole(
    store: &Store,
    geometry: &Geometry,
    number: u32,
) -> Result<Group, FsError> {
    let mut group = decode(geometry, load(store, geometry, number)?.bytes())?;
    let is_sound = geometry.holds(group.block_bitmap, 1)
        && geometry.holds(group.inode_bitmap, 1)
        && u64::from(group.free_blocks) <= geometry.blocks_in(number)
        && group.free_inodes <= geometry.inodes_per_group
        && group.unused_inodes <= geometry.inodes_per_group;
    if !is_sound {
        return Err(FsError::Corrupt);
    }
    if !geometry.has_group_checksums() {
        group.flags = 0;
        group.unused_inodes = 0;
    }
    Ok(group)
}

/// Brings a group that is about to be changed into the running transaction, at whose end [`store_counts`] writes its descriptor.
///
/// # Errors
/// As [`Store::modify`].
pub(super) fn bring(
    store: &Store,
    geometry: &Geometry,
    operation: &Operation<'_>,
    (number, group): (u32, &mut Group),
) -> Result<(), FsError> {
    if !group.unsummed.descriptor {
        let (block, _) = place(geometry, number);
        store.modify(operation, block, Class::Other, |_| ())?;
        operation.note_group(number);
        group.unsummed.descriptor = true;
    }
    Ok(())
}

/// Puts a group's counts into its descriptor, which [`bring`] noted; no operation is on its way.
pub(super) fn store_counts(
    store: &Store,
    geometry: &Geometry,
    number: u32,
    group: &Group,
) -> Result<(), FsError> {
    let (block, offset) = place(geometry, number);
    let is_wide = geometry.descriptor_bytes >= WIDE_BYTES;
    store.modify_unlogged(block, |bytes| {
        let end = offset + geometry.descriptor_bytes;
        let bytes = bytes.get_mut(offset..end).unwrap_or(&mut []);
        let mut count = |offset: usize, high_offset: usize, value: u32| {
            put16(bytes, offset, value as u16);
            if is_wide {
                put16(bytes, high_offset, (value >> 16) as u16);
            }
        };
        let counts = [group.free_blocks, group.free_inodes, group.directories];
        for (at, value) in counts.into_iter().enumerate() {
            count(COUNTS_OFFSET + 2 * at, COUNTS_HIGH_OFFSET + 2 * at, value);
        }
        if geometry.has_group_checksums() {
            count(UNUSED_INODES_OFFSET, COUNTS_HIGH_OFFSET + 6, group.unused_inodes);
            count(COUNTS_OFFSET + 6, usize::MAX, u32::from(group.flags));
        }
        if geometry.has_checksums() {
            let sums = [group.block_bitmap_checksum, group.inode_bitmap_checksum];
            for (at, sum) in sums.into_iter().enumerate() {
                let high = BITMAP_CHECKSUMS_HIGH_OFFSET + 2 * at;
                count(BITMAP_CHECKSUMS_OFFSET + 2 * at, high, sum);
            }
        }
        if let Some(sum) = checksum(geometry, number, bytes) {
            put16(bytes, CHECKSUM_OFFSET, sum);
        }
    })
}

/// Returns the block that holds descriptor block `index`: after the superblock, or (`meta_bg`) in the first group it
/// describes.
fn descriptor_block(geometry: &Geometry, index: u32) -> u64 {
    let is_meta = geometry.incompat.contains(Incompat::META_BG);
    if !is_meta || index < geometry.first_meta_group {
        // With blocks of 1 KiB one block lies before the superblock, even if groups begin with block 0.
        let superblock = u64::from(geometry.block_bytes == 1024);
        return superblock + 1 + u64::from(index);
    }
    let per_block = (geometry.block_bytes / geometry.descriptor_bytes) as u64;
    let group = u64::from(index) * per_block;
    let first = geometry.first_data_block.saturating_add(group * geometry.blocks_per_group);
    first.saturating_add(u64::from(has_superblock(geometry, group)))
}

/// Returns whether a copy of the superblock is at the group's beginning.
pub(super) fn has_superblock(geometry: &Geometry, group: u64) -> bool {
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

/// Computes the checksum of a descriptor, if the volume has them.
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
