//! Inodes: allocated near their directory, directories spread over the volume, freed.
//!
//! This is Orlov's allocator: a directory under the root goes to the group with the fewest directories
//! among those with more than the average free, so that trees spread; any other goes to its parent's
//! group, or a near one that is not much fuller than the average. Files go to their directory's group.
//! In a system with levels each has its own part of a group's inodes ([`super::numbers`]).
//!
//! Source: Linux fs/ext4/ialloc.c; G. Orlov, "Directory allocation algorithm for FFS" (2001).
use super::{bitmap, blocks, descriptor::bring, group::Group, numbers::InodePart};
use crate::{
    layout::{
        raw::group::{INODES_UNUSED, TABLE_CLEARED},
        superblock::ROOT_INODE,
        volume::Volume,
    },
    store::{cache::BlockRef, checksum::crc32c, class::Class, device::Piece, log::Operation},
};
use alloc::vec::Vec;
use core::{ops::Range, sync::atomic::Ordering::*};
use interfaces::{block::SECTOR_BYTES, file_system::FsError};
use rt::PAGE_BYTES;

/// The kind of an inode, which decides its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InodeKind {
    /// The inode is a directory.
    Directory,
    /// The inode is of another type.
    Other,
}

/// Allocates an inode near `parent`, for a maker of a level if there are levels. Its entry in the table is not changed.
///
/// # Errors
/// [`FsError::NoSpace`]; [`FsError::Corrupt`] for a malformed bitmap; errors of I/O.
pub(crate) fn allocate(
    volume: &Volume,
    operation: &Operation<'_>,
    parent: u32,
    (kind, level): (InodeKind, Option<usize>),
) -> Result<u32, FsError> {
    let (home, _) = volume.geometry.inode_group(parent).ok_or(FsError::Corrupt)?;
    let found = match level {
        Some(level) => allocate_for(volume, operation, (level, kind), (home, parent))?,
        None => {
            let first = match kind {
                InodeKind::Other => home,
                InodeKind::Directory => place_directory(volume, home, parent)?,
            };
            near(volume, first, |number| take(volume, operation, (number, kind), None))?
        }
    };
    let found = found.ok_or(FsError::NoSpace)?;
    operation.note_inode(found);
    Ok(found)
}

/// Calls `take` with the groups from `first` on until it finds an inode.
fn near(
    volume: &Volume,
    first: u32,
    mut take: impl FnMut(u32) -> Result<Option<u32>, FsError>,
) -> Result<Option<u32>, FsError> {
    let count = volume.groups()?.count();
    for step in 0..count {
        let number = ((u64::from(first) + u64::from(step)) % u64::from(count)) as u32;
        if let Some(found) = take(number)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Allocates an inode near the directory `parent`, whose group is `home`, among those of a level as long as there are any. Nothing
/// that other levels do decides its place.
fn allocate_for(
    volume: &Volume,
    operation: &Operation<'_>,
    (level, kind): (usize, InodeKind),
    (home, parent): (u32, u32),
) -> Result<Option<u32>, FsError> {
    let groups = volume.groups()?;
    let first = match kind {
        InodeKind::Directory if parent == ROOT_INODE => groups.numbers.place(level, groups.count()),
        _ => home,
    };
    for part in [InodePart::Own, InodePart::Shared, InodePart::Whole] {
        if part == InodePart::Own && groups.numbers.is_full(level) {
            continue;
        }
        let range = part.range(level, volume.geometry.inodes_per_group as usize);
        let take = |number| take(volume, operation, (number, kind), Some(&range));
        let found = near(volume, first, take)?;
        if found.is_some() {
            return Ok(found);
        }
        if part == InodePart::Own {
            groups.numbers.note_full(level);
        }
    }
    Ok(None)
}

/// Returns the group at which the search for the inode of a directory in `parent`, whose group is `home`, begins.
fn place_directory(volume: &Volume, home: u32, parent: u32) -> Result<u32, FsError> {
    let is_top = parent == ROOT_INODE;
    let groups = volume.groups()?;
    let count = groups.count();
    let free_inodes = groups.free_inodes() / u64::from(count);
    let free_blocks = groups.free_blocks() / u64::from(count);
    // Below the top a group may be somewhat fuller than the average.
    let (inodes_min, blocks_min) = match is_top {
        true => (free_inodes, free_blocks),
        false => (free_inodes * 3 / 4, free_blocks * 3 / 4),
    };
    let mut best: Option<(u32, u32)> = None;
    for step in 0..count {
        let number = ((u64::from(home) + u64::from(step)) % u64::from(count)) as u32;
        let group = groups.lock(number)?;
        let is_good = group.free_inodes > 0
            && u64::from(group.free_inodes) >= inodes_min
            && u64::from(group.free_blocks) >= blocks_min;
        if !is_good {
            continue;
        }
        if !is_top {
            return Ok(number);
        }
        if best.is_none_or(|(fewest, _)| group.directories < fewest) {
            best = Some((group.directories, number));
        }
    }
    Ok(best.map_or(home, |(_, number)| number))
}

fn checksum(volume: &Volume, bits: &[u8]) -> u32 {
    let covered = (volume.geometry.inodes_per_group / 8) as usize;
    crc32c(volume.geometry.checksum_seed, bits.get(..covered).unwrap_or(bits))
}

/// Takes an inode of a group, among those of `part` if there are levels.
fn take(
    volume: &Volume,
    operation: &Operation<'_>,
    (number, kind): (u32, InodeKind),
    part: Option<&Range<usize>>,
) -> Result<Option<u32>, FsError> {
    let groups = volume.groups()?;
    let per_group = volume.geometry.inodes_per_group;
    let reserved = if number == 0 { volume.geometry.first_inode as usize - 1 } else { 0 };
    let mut group = groups.lock(number)?;
    if group.free_inodes == 0 {
        return Ok(None);
    }
    let first = reserved.max(group.inodes_in_use as usize);
    let range = part.map_or(first..per_group as usize, |part| first.max(part.start)..part.end);
    if part.is_some() {
        // A bitmap that the running transaction has changed may be brought into it again: that costs nothing.
        if range.is_empty() || !group.unsummed.inodes && !has_free(volume, &group, &range)? {
            return Ok(None);
        }
        clear_table(volume, operation, (number, &mut group))?;
    }
    let table = group.inode_table;
    let found = change(volume, operation, number, &mut group, |bits| {
        let bit = bitmap::find_clear(bits, range.start, range.end)?;
        let unused = chunk_of(volume, table, bit)
            .filter(|(_, inodes)| bitmap::run_at(bits, inodes.start, inodes.len()) == inodes.len());
        bitmap::set(bits, bit, 1);
        Some((bit, unused.map(|(chunk, _)| chunk)))
    })?;
    if range.start == first {
        group.inodes_in_use = found.map_or(range.end as u32, |(bit, _)| bit as u32 + 1);
    }
    let Some((bit, unused)) = found else { return Ok(None) };
    if let Some(chunk) = unused {
        // As on Linux, the chunk need not be read, because no inode in it is in use.
        volume.store.put_zeroes(chunk)?;
        if part.is_some() {
            clear_chunk(volume, operation, chunk)?;
        }
    }
    group.free_inodes -= 1;
    group.unused_inodes = group.unused_inodes.min(per_group.saturating_sub(bit as u32 + 1));
    if kind == InodeKind::Directory {
        group.directories = group.directories.saturating_add(1);
    }
    groups.free_inodes.fetch_sub(1, Relaxed);
    // A group with inodes in use has a bitmap of its blocks.
    blocks::initialise(volume, operation, number, &mut group)?;
    Ok(Some(number * per_group + bit as u32 + 1))
}

/// Returns whether an inode of `range` in a group is free.
fn has_free(volume: &Volume, group: &Group, range: &Range<usize>) -> Result<bool, FsError> {
    if group.has_unused_inodes() {
        return Ok(true);
    }
    let block = volume.store.block(group.inode_bitmap)?;
    verify(volume, group, &block)?;
    Ok(bitmap::find_clear(block.bytes(), range.start, range.end).is_some())
}

/// Clears the inodes of a group that were never used, unless somebody has: they are meaningless, and a program that checks the volume
/// looks at all inodes before the last one in use.
fn clear_table(
    volume: &Volume,
    operation: &Operation<'_>,
    (number, group): (u32, &mut Group),
) -> Result<(), FsError> {
    let geometry = &volume.geometry;
    if group.unused_inodes == 0 || group.flags & TABLE_CLEARED != 0 {
        return Ok(());
    }
    let (block_bytes, page) = (geometry.block_bytes as u64, PAGE_BYTES as u64);
    let start = group.inode_table.checked_mul(block_bytes).ok_or(FsError::Corrupt)?;
    let used = u64::from(geometry.inodes_per_group.saturating_sub(group.unused_inodes));
    let from = start + used * geometry.inode_bytes as u64;
    let end = start + geometry.table_blocks() * block_bytes;
    // A chunk with other contents is changed as these are.
    let whole = from.next_multiple_of(page)..end / page * page;
    for block in from / block_bytes..end / block_bytes {
        let at = block * block_bytes;
        if !whole.contains(&at) {
            let first = from.saturating_sub(at) as usize;
            volume.store.modify(operation, block, Class::Other, |bytes| {
                bytes.get_mut(first..).unwrap_or_default().fill(0);
            })?;
        }
    }
    // The others are in nobody's use: `clear_chunk` clears a copy of them in the cache when it is used. These writes are durable
    // before the transaction that makes the inodes known.
    let pieces: Vec<Piece<'_>> =
        whole.step_by(PAGE_BYTES).map(|at| (at / SECTOR_BYTES as u64, &ZEROES[..])).collect();
    volume.store.device.write(&pieces)?;
    bring(&volume.store, geometry, operation, (number, group))?;
    group.flags |= TABLE_CLEARED;
    Ok(())
}

/// The contents of a chunk without inodes.
static ZEROES: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// Clears a chunk of an inode table in which no inode is in use, and which may be in the cache as it was before [`clear_table`].
fn clear_chunk(volume: &Volume, operation: &Operation<'_>, chunk: u64) -> Result<(), FsError> {
    let in_chunk = (PAGE_BYTES / volume.geometry.block_bytes) as u64;
    for block in chunk * in_chunk..(chunk + 1) * in_chunk {
        volume.store.modify(operation, block, Class::Other, |bytes| bytes.fill(0))?;
    }
    Ok(())
}

/// Returns the chunk of the device with inode `bit` of the inode table at block `table`, and the inodes
/// in it; `None` if it contains anything else.
fn chunk_of(volume: &Volume, table: u64, bit: usize) -> Option<(u64, Range<usize>)> {
    let geometry = &volume.geometry;
    let start = table.checked_mul(geometry.block_bytes as u64)?;
    let end = start.checked_add(geometry.table_blocks() * geometry.block_bytes as u64)?;
    let page = PAGE_BYTES as u64;
    let chunk = (start + (bit * geometry.inode_bytes) as u64) / page;
    let is_whole = chunk * page >= start && (chunk + 1) * page <= end;
    let first = ((chunk * page).checked_sub(start)? / geometry.inode_bytes as u64) as usize;
    let inodes = first..first + PAGE_BYTES / geometry.inode_bytes;
    (is_whole && inodes.end <= geometry.inodes_per_group as usize).then_some((chunk, inodes))
}

/// Changes the bitmap of a group, which is made first if it never was. An existing bitmap was verified.
fn change<T>(
    volume: &Volume,
    operation: &Operation<'_>,
    number: u32,
    group: &mut Group,
    of: impl FnOnce(&mut [u8]) -> T,
) -> Result<T, FsError> {
    let inodes = volume.geometry.inodes_per_group as usize;
    let was_unused = group.has_unused_inodes();
    if !was_unused && !group.unsummed.inodes && volume.geometry.has_checksums() {
        verify(volume, group, &volume.store.block(group.inode_bitmap)?)?;
    }
    bring(&volume.store, &volume.geometry, operation, (number, group))?;
    let result = volume.store.modify(operation, group.inode_bitmap, Class::Other, |bytes| {
        if was_unused {
            bytes.fill(0);
            let beyond = bytes.len() * 8 - inodes;
            bitmap::set(bytes, inodes, beyond);
        }
        of(bytes)
    })?;
    if was_unused {
        group.flags &= !INODES_UNUSED;
        volume.groups()?.note_inodes(number);
    }
    group.unsummed.inodes = true;
    Ok(result)
}

/// Compares the bitmap of a group with its checksum, if that is up to date.
fn verify(volume: &Volume, group: &Group, bitmap: &BlockRef) -> Result<(), FsError> {
    if group.unsummed.inodes || !volume.geometry.has_checksums() {
        return Ok(());
    }
    let (mask, sum) = (group.checksum_mask(&volume.geometry), group.inode_bitmap_checksum);
    bitmap.verify(|bytes| checksum(volume, bytes) & mask == sum)
}

/// Updates the checksum of the bitmap of a group.
pub(super) fn sum(volume: &Volume, group: &mut Group) -> Result<(), FsError> {
    let block = volume.store.block(group.inode_bitmap)?;
    group.inode_bitmap_checksum =
        checksum(volume, block.bytes()) & group.checksum_mask(&volume.geometry);
    Ok(())
}

/// Returns whether an inode is marked as in use.
///
/// # Errors
/// [`FsError::Corrupt`] if the volume has no such inode, or its bitmap is malformed; errors of I/O.
pub(crate) fn is_used(volume: &Volume, inode: u32) -> Result<bool, FsError> {
    let (number, bit) = volume.geometry.inode_group(inode).ok_or(FsError::Corrupt)?;
    let group = volume.groups()?.lock(number)?;
    if group.has_unused_inodes() {
        return Ok(false);
    }
    let block = volume.store.block(group.inode_bitmap)?;
    verify(volume, &group, &block)?;
    Ok(bitmap::is_set(block.bytes(), bit as usize))
}

/// Frees an inode.
///
/// # Errors
/// [`FsError::Corrupt`] if it is free; errors of I/O.
pub(crate) fn free(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: u32,
    kind: InodeKind,
) -> Result<(), FsError> {
    let groups = volume.groups()?;
    let (number, bit) = volume.geometry.inode_group(inode).ok_or(FsError::Corrupt)?;
    let mut group = groups.lock(number)?;
    if group.has_unused_inodes() {
        return Err(FsError::Corrupt);
    }
    let was_used = change(volume, operation, number, &mut group, |bits| {
        let was_used = bitmap::is_set(bits, bit as usize);
        bitmap::clear(bits, bit as usize, 1);
        was_used
    })?;
    if !was_used {
        return Err(FsError::Corrupt);
    }
    group.free_inodes = group.free_inodes.saturating_add(1);
    group.inodes_in_use = group.inodes_in_use.min(bit);
    if kind == InodeKind::Directory {
        group.directories = group.directories.saturating_sub(1);
    }
    groups.free_inodes.fetch_add(1, Relaxed);
    groups.numbers.note_freed(bit as usize, volume.geometry.inodes_per_group as usize);
    operation.drop_inode(inode);
    Ok(())
}
