//! Runs of blocks: found near a goal, in the goal's group first, and freed.
//!
//! The caller claims a run before it looks for one ([`super::space`]).
//!
//! As in the Fast File System, a file's blocks go after its last ones, else to its inode's group. A whole run is
//! taken if one is long enough, so that a dirty run needs one allocation.
use super::{
    Account, Groups, bitmap, descriptor::bring, free::Free, group::Group, layout::first_bitmap,
};
use crate::{
    layout::{raw::group::BLOCKS_UNUSED, volume::Volume},
    store::{
        checksum::crc32c,
        class::Class,
        log::{Content, Operation},
    },
};
use core::ops::Range;
use interfaces::file_system::FsError;
use rt::PAGE_BYTES;

/// Number of groups that are searched for a run of the whole length before a shorter one is taken.
const SEARCH_GROUPS: u32 = 16;

/// The length that a run must have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RunLength {
    Whole,
    Any,
}

/// Allocates up to `want` consecutive blocks near `goal`. Returns the first and their number.
///
/// # Errors
/// [`FsError::NoSpace`] if `account` has none; [`FsError::Corrupt`] for a malformed bitmap; errors of I/O.
pub(crate) fn allocate(
    volume: &Volume,
    operation: &Operation<'_>,
    (goal, want): (u64, u64),
    account: Account,
) -> Result<(u64, u64), FsError> {
    let groups = volume.groups()?;
    let want = want.clamp(1, volume.geometry.blocks_per_group);
    let claimed = groups.space.claim(1, want, account)?;
    let found = search(volume, operation, goal, claimed);
    let taken = found.as_ref().map_or(0, |(_, count)| *count);
    if account != Account::Delayed {
        groups.space.settle(claimed, taken);
    }
    found
}

/// Searches for a run of up to `want` blocks, which are claimed.
fn search(
    volume: &Volume,
    operation: &Operation<'_>,
    goal: u64,
    want: u64,
) -> Result<(u64, u64), FsError> {
    let groups = volume.groups()?;
    let want = want as usize;
    let (first, offset) = volume.geometry.group_of(goal).unwrap_or((0, 0));
    let count = groups.count();
    let at = |step: u32| ((u64::from(first) + u64::from(step)) % u64::from(count)) as u32;
    let mut searched = 0;
    for step in 0..count {
        if searched >= SEARCH_GROUPS {
            break;
        }
        if (groups.lock(at(step))?.free_blocks as usize) < want {
            continue;
        }
        searched += 1;
        let from = if step == 0 { offset } else { 0 };
        if let Some(run) = take(volume, operation, at(step), from, (want, RunLength::Whole))? {
            return Ok(run);
        }
    }
    for step in 0..count {
        let from = if step == 0 { offset } else { 0 };
        if let Some(run) = take(volume, operation, at(step), from, (want, RunLength::Any))? {
            return Ok(run);
        }
    }
    Err(FsError::NoSpace)
}

/// Takes a run of one group, from bit `from` on if there is one, else from its beginning.
fn take(
    volume: &Volume,
    operation: &Operation<'_>,
    number: u32,
    from: usize,
    (want, wanted): (usize, RunLength),
) -> Result<Option<(u64, u64)>, FsError> {
    let groups = volume.groups()?;
    let mut group = groups.lock(number)?;
    if group.free_blocks == 0 {
        return Ok(None);
    }
    let end = volume.geometry.blocks_in(number) as usize;
    let run = with_free(volume, groups, number, &group, |free| free.find(from, end, want))?;
    let Some((start, length)) = run else { return Ok(None) };
    if wanted == RunLength::Whole && length < want && start != from {
        return Ok(None);
    }
    let length = length.min(group.free_blocks as usize);
    change(volume, operation, number, &mut group, |bits| bitmap::set(bits, start, length))?;
    group.free_blocks -= length as u32;
    groups.space.note_taken(length as u64);
    Ok(Some((volume.geometry.group_start(number) + start as u64, length as u64)))
}

/// Calls `look` with the block bitmap of a group.
fn with_bits<T>(
    volume: &Volume,
    groups: &Groups,
    number: u32,
    group: &Group,
    look: impl FnOnce(&[u8]) -> T,
) -> Result<T, FsError> {
    if group.has_unused_blocks() {
        return Ok(look(&first_bitmap(&volume.geometry, groups, number)));
    }
    let block = volume.store.block(group.block_bitmap)?;
    if volume.geometry.has_checksums() && !group.unsummed.blocks {
        block.verify(|bytes| {
            checksum(volume, bytes) & group.checksum_mask(&volume.geometry)
                == group.block_bitmap_checksum
        })?;
    }
    Ok(look(block.bytes()))
}

/// Fills a block just allocated; it begins as zeroes.
///
/// # Errors
/// As [`crate::store::Store::block`], and as reading the bitmap of its group.
pub(crate) fn fill<T>(
    volume: &Volume,
    operation: &Operation<'_>,
    block: u64,
    change: impl FnOnce(&mut [u8]) -> T,
) -> Result<T, FsError> {
    if volume.geometry.block_bytes < PAGE_BYTES && !volume.store.is_cached(block) {
        put_zeroes_around(volume, block)?;
    }
    volume.store.fill(operation, block, change)
}

/// Puts zeroes into the cache for the chunk with `block`, which was just allocated, if the other blocks in it are
/// free, so the chunk need not be read to be changed. No other thread allocates one of them meanwhile.
///
/// # Errors
/// The error of the bitmap's read if the device refuses it; [`FsError::Corrupt`] if the bitmap's checksum is wrong.
fn put_zeroes_around(volume: &Volume, block: u64) -> Result<(), FsError> {
    let geometry = &volume.geometry;
    let in_chunk = (PAGE_BYTES / geometry.block_bytes) as u64;
    let chunk = block / in_chunk;
    let Some((number, bit)) = geometry.group_of(block) else { return Ok(()) };
    let before = (block - chunk * in_chunk) as usize;
    let Some(first) = bit.checked_sub(before) else { return Ok(()) };
    let others = (first..first + in_chunk as usize).filter(|other| *other != bit);
    let groups = volume.groups()?;
    let group = groups.lock(number)?;
    let are_free = with_bits(volume, groups, number, &group, |bits| {
        others.into_iter().all(|other| !bitmap::is_set(bits, other))
    })?;
    if are_free { volume.store.put_zeroes(chunk) } else { Ok(()) }
}

/// Calls `look` with the blocks of a group that may be taken.
fn with_free<T>(
    volume: &Volume,
    groups: &Groups,
    number: u32,
    group: &Group,
    look: impl FnOnce(Free<'_>) -> T,
) -> Result<T, FsError> {
    with_bits(volume, groups, number, group, |bits| look(Free { bits, pending: &group.pending }))
}

fn checksum(volume: &Volume, bits: &[u8]) -> u32 {
    let covered = (volume.geometry.blocks_per_group / 8) as usize;
    crc32c(volume.geometry.checksum_seed, bits.get(..covered).unwrap_or(bits))
}

/// Updates the checksum of the bitmap of a group.
pub(super) fn sum(volume: &Volume, group: &mut Group) -> Result<(), FsError> {
    let block = volume.store.block(group.block_bitmap)?;
    group.block_bitmap_checksum =
        checksum(volume, block.bytes()) & group.checksum_mask(&volume.geometry);
    Ok(())
}

/// Changes the bitmap of a group. The bitmap was loaded before ([`with_bits`]); one that was never made is made
/// first.
fn change(
    volume: &Volume,
    operation: &Operation<'_>,
    number: u32,
    group: &mut Group,
    of: impl FnOnce(&mut [u8]),
) -> Result<(), FsError> {
    let made = match group.has_unused_blocks() {
        true => Some(first_bitmap(&volume.geometry, volume.groups()?, number)),
        false => None,
    };
    bring(&volume.store, &volume.geometry, operation, (number, group))?;
    volume.store.modify(operation, group.block_bitmap, Class::Other, |bytes| {
        if let Some(made) = &made {
            bytes.copy_from_slice(made);
        }
        of(bytes);
    })?;
    group.flags &= !BLOCKS_UNUSED;
    group.unsummed.blocks = true;
    Ok(())
}

/// Initialises the block bitmap of a group if that was not done yet.
pub(super) fn initialise(
    volume: &Volume,
    operation: &Operation<'_>,
    number: u32,
    group: &mut Group,
) -> Result<(), FsError> {
    if group.has_unused_blocks() {
        change(volume, operation, number, group, |_| ())?;
    }
    Ok(())
}

/// Frees `count` blocks from `start` on. They are not used again before this is durable.
///
/// # Errors
/// [`FsError::Corrupt`] if one of them is free or cannot belong to a file; errors of I/O.
pub(crate) fn free(
    volume: &Volume,
    operation: &Operation<'_>,
    (start, count): (u64, u64),
    content: Content,
) -> Result<(), FsError> {
    let groups = volume.groups()?;
    if !volume.geometry.holds(start, count) {
        return Err(FsError::Corrupt);
    }
    for (number, first, count) in volume.geometry.split(start, count) {
        let mut group = groups.lock(number)?;
        let (first_bit, bits_count) = (first as usize, count as usize);
        let is_used = with_bits(volume, groups, number, &group, |bits| {
            (first_bit..first_bit + bits_count).all(|bit| bitmap::is_set(bits, bit))
        })?;
        let is_pending =
            group.pending.missing(u64::from(first), u64::from(count)) < u64::from(count);
        if !is_used || is_pending {
            return Err(FsError::Corrupt);
        }
        change(volume, operation, number, &mut group, |bits| {
            bitmap::clear(bits, first_bit, bits_count);
        })?;
        group.free_blocks = group.free_blocks.saturating_add(count);
        group.pending.insert(u64::from(first), u64::from(count));
        groups.space.note_freed(u64::from(count));
        let block = volume.geometry.group_start(number) + u64::from(first);
        operation.note_freed(block, u64::from(count), content);
        if content == Content::Metadata {
            (block..block + u64::from(count))
                .for_each(|block| volume.store.forget(operation, block));
        }
    }
    Ok(())
}

/// Calls `visit` with each run of at least `minimum` free blocks of a group within `range`. None of them is
/// allocated meanwhile.
///
/// # Errors
/// Errors of reading the bitmap, and those of `visit`.
pub(crate) fn with_free_runs(
    volume: &Volume,
    number: u32,
    range: Range<u64>,
    minimum: u64,
    mut visit: impl FnMut(u64, u64) -> Result<(), FsError>,
) -> Result<(), FsError> {
    let groups = volume.groups()?;
    let group = groups.lock(number)?;
    let base = volume.geometry.group_start(number);
    let blocks = volume.geometry.blocks_in(number);
    let from = range.start.clamp(base, base + blocks) - base;
    let end = range.end.clamp(base, base + blocks) - base;
    let (mut at, end) = (from as usize, end as usize);
    with_free(volume, groups, number, &group, |free| {
        while let Some((start, length)) = free.next(at, end, usize::MAX) {
            if length as u64 >= minimum {
                visit(base + start as u64, length as u64)?;
            }
            at = start + length;
        }
        Ok(())
    })?
}
