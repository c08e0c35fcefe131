//! Inodes: allocated near their directory, directories spread over the volume, freed.
//!
//! As Orlov's allocator has it: a directory under the root goes to the group with the fewest
//! directories among those with more than the average free, so that trees spread; any other goes to
//! its parent's group, or a near one that is not much fuller than the average. Files go to their
//! directory's group.
//!
//! Source: Linux fs/ext4/ialloc.c; G. Orlov, "Directory allocation algorithm for FFS" (2001).
use super::{Group, bitmap, blocks, store};
use crate::{
    checksum::crc32c,
    layout::group::INODES_UNUSED,
    log::{Class, Operation},
    superblock::ROOT_INODE,
    volume::Volume,
};
use core::sync::atomic::Ordering::*;
use interfaces::file_system::FsError;

/// What an inode is, as far as its place goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A directory.
    Directory,
    /// Anything else.
    Other,
}

/// Allocates an inode near `parent`; its table entry is still what it was.
///
/// # Errors
/// [`FsError::NoSpace`]; [`FsError::Corrupt`] for a bitmap that makes no sense; what I/O met.
pub(crate) fn allocate(
    volume: &Volume,
    operation: &Operation<'_>,
    parent: u32,
    kind: Kind,
) -> Result<u32, FsError> {
    let groups = volume.groups()?;
    let (home, _) = volume.geometry.inode_group(parent).ok_or(FsError::Corrupt)?;
    let first = match kind {
        Kind::Other => home,
        Kind::Directory => place_directory(volume, home, parent == ROOT_INODE)?,
    };
    for step in 0..groups.count() {
        let number = ((u64::from(first) + u64::from(step)) % u64::from(groups.count())) as u32;
        if let Some(found) = take(volume, operation, number, kind)? {
            operation.note_inode(found);
            return Ok(found);
        }
    }
    Err(FsError::NoSpace)
}

/// The group to begin with for a directory.
fn place_directory(volume: &Volume, home: u32, is_top: bool) -> Result<u32, FsError> {
    let groups = volume.groups()?;
    let count = groups.count();
    let free_inodes = groups.free_inodes() / u64::from(count);
    let free_blocks = groups.free_blocks() / u64::from(count);
    // Further down a group may be somewhat fuller than the average.
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

/// The first free bit of a group's bitmap.
fn find(volume: &Volume, number: u32, group: &Group) -> Result<Option<usize>, FsError> {
    let geometry = &volume.geometry;
    let reserved = if number == 0 { geometry.first_inode as usize - 1 } else { 0 };
    if group.has_unused_inodes() {
        return Ok(Some(reserved));
    }
    let block = volume.block(group.inode_bitmap)?;
    if geometry.has_checksums() {
        block.verify(|bytes| {
            checksum(volume, bytes) & group.checksum_mask(volume) == group.inode_bitmap_checksum
        })?;
    }
    Ok(bitmap::find_clear(block.bytes(), reserved, geometry.inodes_per_group as usize))
}

fn take(
    volume: &Volume,
    operation: &Operation<'_>,
    number: u32,
    kind: Kind,
) -> Result<Option<u32>, FsError> {
    let groups = volume.groups()?;
    let mut group = groups.lock(number)?;
    if group.free_inodes == 0 {
        return Ok(None);
    }
    let Some(bit) = find(volume, number, &group)? else { return Ok(None) };
    change(volume, operation, &mut group, |bits| bitmap::set(bits, bit, 1))?;
    let per_group = volume.geometry.inodes_per_group;
    group.free_inodes -= 1;
    group.unused_inodes = group.unused_inodes.min(per_group.saturating_sub(bit as u32 + 1));
    if kind == Kind::Directory {
        group.directories = group.directories.saturating_add(1);
    }
    groups.free_inodes.fetch_sub(1, Relaxed);
    // A group with inodes in use has a bitmap of its blocks.
    blocks::initialise(volume, operation, number, &mut group)?;
    store(volume, operation, number, &group)?;
    Ok(Some(number * per_group + bit as u32 + 1))
}

/// Changes the bitmap of a group, which is made first where it was not.
fn change(
    volume: &Volume,
    operation: &Operation<'_>,
    group: &mut Group,
    of: impl FnOnce(&mut [u8]),
) -> Result<(), FsError> {
    let inodes = volume.geometry.inodes_per_group as usize;
    let was_unused = group.has_unused_inodes();
    let sum = volume.modify(operation, group.inode_bitmap, Class::Other, |bytes| {
        if was_unused {
            bytes.fill(0);
            let beyond = bytes.len() * 8 - inodes;
            bitmap::set(bytes, inodes, beyond);
        }
        of(bytes);
        checksum(volume, bytes)
    })?;
    group.flags &= !INODES_UNUSED;
    group.inode_bitmap_checksum = sum & group.checksum_mask(volume);
    Ok(())
}

/// Frees an inode.
///
/// # Errors
/// [`FsError::Corrupt`] where it is free; what I/O met.
pub(crate) fn free(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: u32,
    kind: Kind,
) -> Result<(), FsError> {
    let groups = volume.groups()?;
    let (number, bit) = volume.geometry.inode_group(inode).ok_or(FsError::Corrupt)?;
    let mut group = groups.lock(number)?;
    let is_used = !group.has_unused_inodes()
        && bitmap::is_set(volume.block(group.inode_bitmap)?.bytes(), bit as usize);
    if !is_used {
        return Err(FsError::Corrupt);
    }
    change(volume, operation, &mut group, |bits| bitmap::clear(bits, bit as usize, 1))?;
    group.free_inodes = group.free_inodes.saturating_add(1);
    if kind == Kind::Directory {
        group.directories = group.directories.saturating_sub(1);
    }
    groups.free_inodes.fetch_add(1, Relaxed);
    operation.drop_inode(inode);
    store(volume, operation, number, &group)
}
