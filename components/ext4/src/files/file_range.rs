//! Ranges of files: allocated, cleared, cut out, moved (`fallocate`); data and holes (`SEEK_DATA`).
//!
//! Each is a row of operations over bounded parts, so a crash may leave it half done, but each part
//! is done as a whole. Memory is refused only before the first part: a caller that is refused may
//! repeat the request, and moved blocks would move twice. Later parts use the reserve.
use crate::{
    files::{
        direct,
        file_size::{self, half_done},
        inline_edit,
        write::{self, Mapping},
    },
    layout::{
        extent::{self, Extent},
        extent_edit::{self, Contents},
        groups::Account,
        inode::Inode,
        inode_store::Before,
        inode_table::LiveInode,
        raw::inode::{FLAG_EXTENTS, FLAG_INLINE_DATA},
        volume::Volume,
    },
    store::log::Operation,
    transactions::mount::Mount,
};
use core::ops::Range;
use interfaces::file_system::{Allocation, Attributes, FileTime, FsError, Seek, Stored};
use rt::PAGE_BYTES;

/// The greatest number of blocks allocated by one operation.
const STEP_BLOCKS: u64 = 1 << 15;
/// The greatest number of extents moved by one operation.
const STEP_MOVES: usize = 16;

/// Changes the blocks of a range of bytes.
///
/// # Errors
/// Those of [`interfaces::file_system::FileSystem::allocate`].
pub(crate) fn allocate(
    mount: &Mount,
    node: &LiveInode,
    how: Allocation,
    (offset, length): (u64, u64),
    now: FileTime,
) -> Result<Attributes, FsError> {
    let volume = &mount.volume;
    let end = offset.checked_add(length).filter(|_| length > 0).ok_or(FsError::Invalid)?;
    if end > file_size::size_max(volume) {
        return Err(FsError::FileTooBig);
    }
    let bytes = offset..end;
    change(mount, node, |operation, inode| {
        file_size::check_regular(inode)?;
        if inode.has_flag(FLAG_INLINE_DATA) {
            inline_edit::move_out(volume, operation, inode, Account::Caller)?;
        }
        (inode.attributes.modified, inode.attributes.changed) = (now, now);
        Ok(())
    })?;
    rt::memory::with_reserve(|| apply(mount, node, how, &bytes)).map_err(half_done)
}

/// Does the rest of a request that has begun.
fn apply(
    mount: &Mount,
    node: &LiveInode,
    how: Allocation,
    bytes: &Range<u64>,
) -> Result<Attributes, FsError> {
    let volume = &mount.volume;
    match how {
        Allocation::Extend | Allocation::KeepSize => fill(mount, node, bytes)?,
        Allocation::PunchHole => punch(mount, node, bytes)?,
        Allocation::Zero | Allocation::ZeroKeepSize => {
            clear_ends(volume, node, bytes)?;
            punch(mount, node, bytes)?;
            fill(mount, node, bytes)?;
        }
        Allocation::Collapse => collapse(mount, node, bytes)?,
        Allocation::Insert => insert(mount, node, bytes)?,
    }
    let must_grow = matches!(how, Allocation::Extend | Allocation::Zero);
    change(mount, node, |_, inode| {
        if must_grow && bytes.end > inode.attributes.size {
            file_size::set(volume, inode, bytes.end)?;
        }
        Ok(inode.attributes)
    })
}

/// Changes the inode in one operation, and stores it.
fn change<T>(
    mount: &Mount,
    node: &LiveInode,
    of: impl FnOnce(&Operation<'_>, &mut Inode) -> Result<T, FsError>,
) -> Result<T, FsError> {
    change_with(mount, node, (0, Account::Pool), of)
}

/// Changes the inode in one operation that claims up to `blocks` blocks from `account`, and stores
/// it.
fn change_with<T>(
    mount: &Mount,
    node: &LiveInode,
    (blocks, account): (u64, Account),
    of: impl FnOnce(&Operation<'_>, &mut Inode) -> Result<T, FsError>,
) -> Result<T, FsError> {
    let volume = &mount.volume;
    mount.operate_with((blocks, account), |operation| {
        let mut inode = node.write();
        let result = of(operation, &mut inode)?;
        node.note(operation);
        inode.store(volume, operation, Before::Itself)?;
        Ok(result)
    })
}

fn block_bytes(volume: &Volume) -> u64 {
    volume.geometry.block_bytes as u64
}

/// Allocates blocks that read as zeroes for every hole that `bytes` touches.
fn fill(mount: &Mount, node: &LiveInode, bytes: &Range<u64>) -> Result<(), FsError> {
    let volume = &mount.volume;
    let end = bytes.end.div_ceil(block_bytes(volume));
    let mut logical = bytes.start / block_bytes(volume);
    while logical < end {
        let max = (end - logical).min(STEP_BLOCKS);
        logical += change_with(mount, node, (max, Account::Caller), |operation, inode| {
            let (found, blocks) = write::mapping(volume, inode, logical, max)?;
            if found != Mapping::Hole {
                return Ok(blocks);
            }
            let hole = ((logical, blocks), Contents::Unwritten);
            let (_, count) = write::fill_hole(volume, operation, inode, hole, Account::Caller)?;
            Ok(count)
        })?;
    }
    Ok(())
}

/// Clears the parts of blocks at both ends of a range.
fn clear_ends(volume: &Volume, node: &LiveInode, bytes: &Range<u64>) -> Result<(), FsError> {
    let inode = node.read();
    let block = block_bytes(volume);
    let head = bytes.start..bytes.start.next_multiple_of(block).min(bytes.end);
    let tail = (bytes.end / block * block).max(head.end)..bytes.end;
    direct::clear(volume, &inode, head)?;
    direct::clear(volume, &inode, tail)
}

/// Frees the whole blocks of a range and clears the rest of it.
fn punch(mount: &Mount, node: &LiveInode, bytes: &Range<u64>) -> Result<(), FsError> {
    let volume = &mount.volume;
    clear_ends(volume, node, bytes)?;
    let block = block_bytes(volume);
    let whole = bytes.start.div_ceil(block)..bytes.end / block;
    let page = PAGE_BYTES as u64;
    let pages = bytes.start.div_ceil(page)..bytes.end / page;
    if let Some(count) = pages.end.checked_sub(pages.start) {
        node.undelay(volume.groups()?, pages.start, count, page / block);
    }
    while !change(mount, node, |operation, inode| {
        file_size::step(volume, operation, inode, whole.clone())
    })? {}
    Ok(())
}

/// Checks that a range is whole blocks inside the file.
fn check_blocks(volume: &Volume, node: &LiveInode, bytes: &Range<u64>) -> Result<u64, FsError> {
    let (block, size) = (block_bytes(volume), node.read().attributes.size);
    let is_whole = bytes.start.is_multiple_of(block) && bytes.end.is_multiple_of(block);
    if is_whole && bytes.start < size { Ok(size) } else { Err(FsError::Invalid) }
}

/// Removes a range and moves the blocks behind it down.
fn collapse(mount: &Mount, node: &LiveInode, bytes: &Range<u64>) -> Result<(), FsError> {
    let volume = &mount.volume;
    let size = check_blocks(volume, node, bytes)?;
    if bytes.end >= size {
        return Err(FsError::Invalid);
    }
    punch(mount, node, bytes)?;
    let block = block_bytes(volume);
    let (shift, mut from) = ((bytes.end - bytes.start) / block, bytes.end / block);
    loop {
        let next = change(mount, node, |operation, inode| {
            let mut at = from;
            for _ in 0..STEP_MOVES {
                let Some(next) = next_extent(volume, inode, at)? else { return Ok(None) };
                relocate(volume, operation, inode, &next, u64::from(next.first) - shift)?;
                at = next.end();
            }
            Ok(Some(at))
        })?;
        match next {
            Some(next) => from = next,
            None => break,
        }
    }
    change(mount, node, |_, inode| file_size::set(volume, inode, size - (bytes.end - bytes.start)))
}

/// Makes a hole and moves the blocks behind it up, the last first.
fn insert(mount: &Mount, node: &LiveInode, bytes: &Range<u64>) -> Result<(), FsError> {
    let volume = &mount.volume;
    let size = check_blocks(volume, node, bytes)?;
    let length = bytes.end - bytes.start;
    let grown = size.checked_add(length).filter(|size| *size <= file_size::size_max(volume));
    let grown = grown.ok_or(FsError::FileTooBig)?;
    let (first, shift) = (bytes.start / block_bytes(volume), length / block_bytes(volume));
    let has_room = {
        let last = extent::find(volume, &node.read(), u32::MAX)?.0;
        last.is_none_or(|last| last.end() + shift <= u64::from(u32::MAX))
    };
    if !has_room {
        return Err(FsError::FileTooBig);
    }
    change(mount, node, |_, inode| file_size::set(volume, inode, grown))?;
    let mut before = Some(u32::MAX);
    while let Some(from) = before {
        before = change(mount, node, |operation, inode| {
            let mut at = from;
            for _ in 0..STEP_MOVES {
                let Some(found) = extent::find(volume, inode, at)?.0 else { return Ok(None) };
                if found.end() <= first {
                    return Ok(None);
                }
                let start = u64::from(found.first).max(first);
                let part = Extent {
                    first: start as u32,
                    count: (found.end() - start) as u32,
                    start: found.start + (start - u64::from(found.first)),
                    ..found
                };
                relocate(volume, operation, inode, &part, start + shift)?;
                match part.first.checked_sub(1) {
                    Some(next) => at = next,
                    None => return Ok(None),
                }
            }
            Ok(Some(at))
        })?;
    }
    Ok(())
}

/// Returns the first extent at or behind block `at`.
fn next_extent(volume: &Volume, inode: &Inode, at: u64) -> Result<Option<Extent>, FsError> {
    let Ok(logical) = u32::try_from(at) else { return Ok(None) };
    let (found, next) = extent::find(volume, inode, logical)?;
    if let Some(found) = found.filter(|found| u64::from(found.first) >= at) {
        return Ok(Some(found));
    }
    let Ok(next) = u32::try_from(next) else { return Ok(None) };
    Ok(extent::find(volume, inode, next)?.0.filter(|found| u64::from(found.first) >= at))
}

/// Maps an extent's blocks at another place of the file.
fn relocate(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
    extent: &Extent,
    to: u64,
) -> Result<(), FsError> {
    let range = u64::from(extent.first)..extent.end();
    extent_edit::remove(volume, operation, inode, range)?;
    let first = u32::try_from(to).map_err(|_| FsError::FileTooBig)?;
    extent_edit::insert(volume, operation, inode, Extent { first, ..*extent }, Account::Pool)
}

/// Returns the first byte at or after `position` that is data, or in a hole.
///
/// # Errors
/// [`FsError::NotFound`] if there is none; those of [`extent::find`].
pub(crate) fn seek(
    volume: &Volume,
    inode: &Inode,
    position: u64,
    what: Seek,
) -> Result<u64, FsError> {
    let size = inode.attributes.size;
    if position >= size {
        return Err(FsError::NotFound);
    }
    let has_extents = file_size::check_regular(inode).is_ok();
    if inode.has_flag(FLAG_INLINE_DATA) || !has_extents {
        return Ok(if what == Seek::Data { position } else { size });
    }
    let block = block_bytes(volume);
    let end = size.div_ceil(block);
    let mut logical = position / block;
    while logical < end {
        let (found, blocks) = write::mapping(volume, inode, logical, end - logical)?;
        let is_data = matches!(found, Mapping::Written(_));
        if is_data == (what == Seek::Data) {
            return Ok((logical * block).max(position));
        }
        logical += blocks;
    }
    if what == Seek::Hole { Ok(size) } else { Err(FsError::NotFound) }
}

/// Returns the storage state at byte `position`, rounded down to a block, and the number of bytes
/// with that state.
///
/// # Errors
/// [`FsError::Unsupported`] for a file without extents; those of [`extent::find`].
pub(crate) fn stored(
    volume: &Volume,
    inode: &Inode,
    position: u64,
    max: u64,
) -> Result<(Stored, u64), FsError> {
    if inode.has_flag(FLAG_INLINE_DATA) {
        let left = inode.attributes.size.saturating_sub(position);
        return Ok(if left == 0 { (Stored::Hole, max) } else { (Stored::Inline, left) });
    }
    if !inode.has_flag(FLAG_EXTENTS) {
        return Err(FsError::Unsupported);
    }
    let block = block_bytes(volume);
    let logical = position / block;
    if logical > u64::from(u32::MAX) {
        return Ok((Stored::Hole, max));
    }
    let wanted = position.saturating_add(max).div_ceil(block).saturating_sub(logical).max(1);
    let (found, blocks) = write::mapping(volume, inode, logical, wanted)?;
    let stored = match found {
        Mapping::Hole => Stored::Hole,
        Mapping::Unwritten(start) => Stored::Unwritten(start * block),
        Mapping::Written(start) => Stored::Data(start * block),
    };
    Ok((stored, blocks.saturating_mul(block)))
}
