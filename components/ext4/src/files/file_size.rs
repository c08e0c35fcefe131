//! Lengths of files: cut, grown, and freed whole.
//!
//! A cut goes from the end in steps, each one operation over a bounded number of extents; the file is
//! on the list of orphans until the last, so that a crash in between leaves nothing after the end.
use crate::{
    files::{direct, inline_edit, orphans},
    layout::{
        extent, extent_edit,
        groups::{Account, blocks, inodes},
        inode::Inode,
        inode_store::Before,
        inode_table::LiveInode,
        raw::inode::{FLAG_EXTENTS, FLAG_INLINE_DATA},
        volume::Volume,
    },
    names::xattr_edit,
    store::log::{Content, Operation},
    transactions::mount::Mount,
};
use core::{ops::Range, sync::atomic::Ordering::Relaxed};
use interfaces::file_system::{FileType, FsError};
use rt::PAGE_BYTES;

/// The greatest number of extents removed by one operation.
const STEP_EXTENTS: usize = 32;
/// The greatest number of blocks of a file.
const FILE_BLOCKS_MAX: u64 = u32::MAX as u64;
/// Length from which a volume is marked as having large files.
const LARGE_BYTES: u64 = 1 << 31;

/// Returns the type of the contents of a file's blocks.
pub(crate) fn content_of(inode: &Inode) -> Content {
    match inode.attributes.file_type {
        FileType::Regular => Content::Data,
        _ => Content::Metadata,
    }
}

/// Returns the greatest length of a file.
pub(crate) fn size_max(volume: &Volume) -> u64 {
    FILE_BLOCKS_MAX * volume.geometry.block_bytes as u64
}

/// Sets the length in memory; blocks behind it stay mapped.
///
/// # Errors
/// [`FsError::FileTooBig`].
pub(crate) fn set(volume: &Volume, inode: &mut Inode, size: u64) -> Result<(), FsError> {
    if size > size_max(volume) {
        return Err(FsError::FileTooBig);
    }
    if size >= LARGE_BYTES {
        volume.groups()?.has_large_file.store(true, Relaxed);
    }
    inode.attributes.size = size;
    Ok(())
}

/// Changes the length: cuts the file, or grows it with a hole.
///
/// # Errors
/// [`FsError::FileTooBig`], [`FsError::IsDirectory`], [`FsError::Invalid`] if it is not a regular file,
/// [`FsError::Unsupported`] for block maps; errors of I/O.
pub(crate) fn resize(
    mount: &Mount,
    node: &LiveInode,
    size: u64,
    change: impl FnOnce(&mut Inode),
) -> Result<(), FsError> {
    let volume = &mount.volume;
    let must_cut = mount.operate(|operation| {
        let mut inode = node.write();
        check_regular(&inode)?;
        let old = inode.attributes.size;
        if inode.has_flag(FLAG_INLINE_DATA) {
            inline_edit::move_out(volume, operation, &mut inode, Account::Caller)?;
        }
        if size < old {
            let block = volume.geometry.block_bytes as u64;
            let tail = size..size.next_multiple_of(block).min(old);
            direct::clear(volume, &inode, tail)?;
        }
        set(volume, &mut inode, size)?;
        if size < old {
            orphans::add(volume, &mut inode)?;
            // A file with a name has no deletion time, even if it is on no list of orphans.
            inode.deleted = 0;
        }
        change(&mut inode);
        node.note(operation);
        inode.store(volume, operation, Before::Itself)?;
        Ok(size < old)
    })?;
    if must_cut {
        let pages = size.div_ceil(PAGE_BYTES as u64);
        let blocks = (PAGE_BYTES / volume.geometry.block_bytes) as u64;
        node.undelay(volume.groups()?, pages, u64::MAX - pages, blocks);
        // If this were refused, the file would stay uncut: a repeated request finds the new length.
        rt::memory::with_reserve(|| cut(mount, node)).map_err(half_done)?;
    }
    Ok(())
}

/// Converts the error of a change that lacked memory after a part of it was made, so that the caller
/// does not repeat the change.
pub(crate) fn half_done(error: FsError) -> FsError {
    if error == FsError::NoMemory { FsError::Io } else { error }
}

/// Checks that an inode is a regular file whose blocks can be changed.
///
/// # Errors
/// [`FsError::IsDirectory`], [`FsError::Invalid`], [`FsError::Unsupported`].
pub(crate) fn check_regular(inode: &Inode) -> Result<(), FsError> {
    match inode.attributes.file_type {
        FileType::Directory => Err(FsError::IsDirectory),
        FileType::Regular if inode.has_flag(FLAG_EXTENTS) || inode.has_flag(FLAG_INLINE_DATA) => {
            Ok(())
        }
        FileType::Regular => Err(FsError::Unsupported),
        _ => Err(FsError::Invalid),
    }
}

/// Frees the blocks after the end of a file on the list of orphans, and removes it from the list.
///
/// # Errors
/// As [`extent_edit::remove`]; what freeing met.
pub(crate) fn cut(mount: &Mount, node: &LiveInode) -> Result<(), FsError> {
    let volume = &mount.volume;
    loop {
        let is_done = mount.operate(|operation| {
            let mut inode = node.write();
            let from = inode.attributes.size.div_ceil(volume.geometry.block_bytes as u64);
            let is_done = step(volume, operation, &mut inode, from..u64::MAX)?;
            if is_done {
                orphans::remove(volume, operation, &mut inode)?;
            }
            node.note(operation);
            inode.store(volume, operation, Before::Itself)?;
            Ok(is_done)
        })?;
        if is_done {
            return Ok(());
        }
    }
}

/// Removes the last extents of a range and frees their blocks. Returns `true` when none is left.
///
/// # Errors
/// As [`extent_edit::remove`]; what freeing met.
pub(crate) fn step(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
    range: Range<u64>,
) -> Result<bool, FsError> {
    if !inode.has_flag(FLAG_EXTENTS) || range.start >= range.end {
        return Ok(true);
    }
    let last = u32::try_from(range.end - 1).unwrap_or(u32::MAX);
    let mut start = None;
    let mut before = Some(last);
    for _ in 0..STEP_EXTENTS {
        let Some(logical) = before else { break };
        let Some(found) = extent::find(volume, inode, logical)?.0 else { break };
        if found.end() <= range.start {
            break;
        }
        start = Some(u64::from(found.first).max(range.start));
        before = found.first.checked_sub(1).filter(|at| u64::from(*at) >= range.start);
    }
    let Some(start) = start else { return Ok(true) };
    let removed = extent_edit::remove(volume, operation, inode, start..range.end)?;
    for run in &removed {
        let blocks = (run.start, u64::from(run.count));
        blocks::free(volume, operation, blocks, content_of(inode))?;
        inode.add_blocks(&volume.geometry, -i64::from(run.count));
    }
    // Extents were found, so some must have been removed.
    if removed.is_empty() { Err(FsError::Corrupt) } else { Ok(start == range.start) }
}

/// Frees an inode without names, and all its blocks.
///
/// # Errors
/// Those of [`extent_edit::remove`]; errors of freeing. It stays on the list of orphans then.
pub(crate) fn delete(mount: &Mount, node: &LiveInode) -> Result<(), FsError> {
    let volume = &mount.volume;
    loop {
        let is_done = mount.operate(|operation| {
            let mut inode = node.write();
            if !step(volume, operation, &mut inode, 0..u64::MAX)? {
                inode.store(volume, operation, Before::Itself)?;
                return Ok(false);
            }
            free(volume, operation, &mut inode)?;
            Ok(true)
        })?;
        if is_done {
            return Ok(());
        }
    }
}

/// Frees an inode whose only blocks are those of its attributes.
///
/// # Errors
/// Errors of freeing.
pub(crate) fn free(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
) -> Result<(), FsError> {
    xattr_edit::drop_block(volume, operation, inode)?;
    orphans::remove(volume, operation, inode)?;
    let kind = match inode.attributes.file_type {
        FileType::Directory => inodes::InodeKind::Directory,
        _ => inodes::InodeKind::Other,
    };
    inode.attributes.links = 0;
    inode.attributes.size = 0;
    inode.deleted = ((rt::time::wall_ns() / 1_000_000_000) as u32).max(1);
    inode.store(volume, operation, Before::Itself)?;
    inodes::free(volume, operation, inode.number, kind)
}
