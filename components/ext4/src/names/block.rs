//! The blocks of a directory: found, verified, searched; the checksums of leaves, roots and nodes.
use crate::{
    layout::{
        inode::Inode,
        leaf::entries_end,
        map,
        raw::{directory::*, inode::FLAG_INDEX},
        volume::Volume,
    },
    names::{
        entries::{Span, Spans, find_in},
        name_index,
    },
    store::{
        bytes::{put32, word16, word32},
        cache::BlockRef,
        checksum::crc32c,
    },
};
use interfaces::file_system::FsError;

/// A block of a directory that was loaded and so verified, because a wrong block must not get a right
/// checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    /// Block of the directory, and on the volume.
    pub(crate) logical: u64,
    pub(crate) block: u64,
}

/// Returns the number of blocks of a directory.
pub(crate) fn block_count(volume: &Volume, directory: &Inode) -> u64 {
    directory.attributes.size / volume.geometry.block_bytes as u64
}

/// Returns the number on the volume of block `logical` of a directory.
pub(crate) fn physical(volume: &Volume, directory: &Inode, logical: u64) -> Result<u64, FsError> {
    map::map(volume, directory, logical, 1)?.start.ok_or(FsError::Corrupt)
}

/// Returns block `logical` of a directory, its checksum verified. A hole is an error here.
pub(crate) fn load(volume: &Volume, directory: &Inode, logical: u64) -> Result<BlockRef, FsError> {
    load_placed(volume, directory, logical).map(|(_, block)| block)
}

/// Loads a block as [`load`] does. Also returns its number on the volume.
pub(crate) fn load_placed(
    volume: &Volume,
    directory: &Inode,
    logical: u64,
) -> Result<(u64, BlockRef), FsError> {
    let place = map::map(volume, directory, logical, 1)?.start.ok_or(FsError::Corrupt)?;
    let block = volume.store.block(place)?;
    if volume.geometry.has_checksums() {
        let is_root = logical == 0 && directory.has_flag(FLAG_INDEX);
        block.verify(|bytes| {
            if is_root {
                is_node_sum_right(directory.seed, bytes, ROOT_COUNT_OFFSET)
            } else if is_node(bytes) {
                is_node_sum_right(directory.seed, bytes, NODE_COUNT_OFFSET)
            } else {
                is_sum_right(directory.seed, bytes)
            }
        })?;
    }
    Ok((place, block))
}

/// Returns whether a block is a node of the hash tree: one free entry as long as the block (a leaf ends with its tail).
fn is_node(bytes: &[u8]) -> bool {
    word32(bytes, 0) == Some(0) && word16(bytes, 4).map(usize::from) == Some(bytes.len())
}

fn is_sum_right(seed: u32, bytes: &[u8]) -> bool {
    let Some((covered, tail)) = bytes.split_last_chunk::<TAIL_BYTES>() else { return false };
    let is_tail = word32(tail, 0) == Some(0)
        && word16(tail, 4) == Some(TAIL_BYTES as u16)
        && tail.get(7) == Some(&TAIL_TYPE);
    is_tail && word32(tail, 8) == Some(crc32c(seed, covered))
}

/// Returns whether the checksum of a root or node is right.
fn is_node_sum_right(seed: u32, bytes: &[u8], count_offset: usize) -> bool {
    let (Some(limit), Some(count)) = (word16(bytes, count_offset), word16(bytes, count_offset + 2))
    else {
        return false;
    };
    let covered = count_offset + PAIR_BYTES * usize::from(count);
    let tail = count_offset + PAIR_BYTES * usize::from(limit);
    match (bytes.get(..covered), bytes.get(tail..tail + 4), word32(bytes, tail + 4)) {
        (Some(covered), Some(reserved), Some(sum)) => {
            crc32c(crc32c(crc32c(seed, covered), reserved), &[0; 4]) == sum
        }
        _ => false,
    }
}

/// Updates the checksum of a root or node.
pub(crate) fn seal_node(volume: &Volume, seed: u32, bytes: &mut [u8], count_offset: usize) {
    if !volume.geometry.has_checksums() {
        return;
    }
    let word = |offset| usize::from(word16(bytes, offset).unwrap_or(0));
    let covered = count_offset + PAIR_BYTES * word(count_offset + 2);
    let tail = count_offset + PAIR_BYTES * word(count_offset);
    let sum = crc32c(seed, bytes.get(..covered).unwrap_or(&[]));
    let sum = crc32c(sum, bytes.get(tail..tail + 4).unwrap_or(&[]));
    put32(bytes, tail + 4, crc32c(sum, &[0; 4]));
}

/// The step that follows the search for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The inode is used; more searches of the same block may come.
    Lookup,
    /// The entry is changed, which ends the index of its block: none is made for this search.
    Change,
}

/// Finds the entry of a block for `name`, by the block's index if it has one, else one after the other.
///
/// # Errors
/// [`FsError::Corrupt`] where an entry before it makes no sense.
pub(crate) fn find_in_block<'a>(
    volume: &Volume,
    block: &'a BlockRef,
    name: &[u8],
    purpose: Purpose,
) -> Result<Option<Span<'a>>, FsError> {
    let (bytes, end) = (block.bytes(), entries_end(&volume.geometry));
    let index = match purpose {
        Purpose::Lookup => block.index(|| name_index::make(bytes.get(..end)?)),
        Purpose::Change => block.made_index(),
    };
    match index {
        Some(index) => Ok(name_index::find(index, bytes, name)),
        None => find_in(Spans::new(bytes, end), name),
    }
}
