//! Changes of hash trees: a tree is made when a directory's first block is full, leaves and nodes
//! are split, and the tree gets one level more under the root.
//!
//! An entry goes to the leaf of its hash. A full leaf is split in the order of hashes, half of its
//! bytes each. If the split falls between names of the same hash, the lowest bit of the new pair
//! says that the hash continues. A full node is split in the same way; a full root moves its pairs
//! to a new node. After each split the search begins again.
//!
//! ```text
//! root [h0 h1 h2 | full]  -->  root [n0]              -->  root [n0 n1]
//!                              n0 [h0 h1 h2]               n0 [h0] n1 [h1 h2 + new]
//! ```
use crate::{
    layout::{
        features::Compat,
        inode::Inode,
        inode_store::Before,
        leaf::{self, entries_end},
        raw::{directory::*, inode::FLAG_INDEX},
        volume::Volume,
    },
    names::{
        block::{load, physical, seal_node},
        entries::{Entries, NewEntry, encode_type, needed, write_entry},
        hash::Hash,
        htree::{self, Root, block_of, hash_of, pairs},
        leaf_edit::{append, insert_in},
    },
    store::{
        bytes::{put, put16, put32},
        class::Class,
        log::Operation,
    },
};
use alloc::vec::Vec;
use interfaces::file_system::FsError;

type Pair = [u8; PAIR_BYTES];

/// The greatest number of splits for one entry: leaf, nodes, root, each level once, and some for names of one hash.
const ROUNDS_MAX: usize = 16;

/// A root or node on the way to a leaf.
struct HtreeStep {
    logical: u64,
    count_offset: usize,
    pairs: Vec<Pair>,
    /// Index of the pair that was followed.
    at: usize,
}

/// Returns whether trees can be made: the volume has the feature and a known hash.
pub(crate) fn can_make(volume: &Volume) -> bool {
    let geometry = &volume.geometry;
    geometry.compat.contains(Compat::DIR_INDEX) && default_hash(volume).is_some()
}

fn default_hash(volume: &Volume) -> Option<Hash> {
    let geometry = &volume.geometry;
    Hash::decode(geometry.hash_version, geometry.hash_characters, geometry.hash_seed)
}

fn pair(hash: u32, block: u64) -> Pair {
    let mut pair = [0; PAIR_BYTES];
    put32(&mut pair, 0, hash);
    put32(&mut pair, 4, block as u32);
    pair
}

/// Returns the number of pairs for which a root or node has room.
fn limit(volume: &Volume, count_offset: usize) -> usize {
    let tail = if volume.geometry.has_checksums() { PAIR_BYTES } else { 0 };
    (volume.geometry.block_bytes - count_offset - tail) / PAIR_BYTES
}

/// Writes the pairs of a root or node; limit and count are stored in place of the first pair's hash.
fn write_pairs(volume: &Volume, seed: u32, bytes: &mut [u8], count_offset: usize, pairs: &[Pair]) {
    put(bytes, count_offset, pairs.as_flattened());
    put16(bytes, count_offset, limit(volume, count_offset) as u16);
    put16(bytes, count_offset + 2, pairs.len() as u16);
    seal_node(volume, seed, bytes, count_offset);
}

/// Writes a node: one free entry over the whole block, behind whose head the pairs are.
fn write_node(volume: &Volume, seed: u32, bytes: &mut [u8], pairs: &[Pair]) {
    bytes.fill(0);
    put16(bytes, 4, bytes.len() as u16);
    write_pairs(volume, seed, bytes, NODE_COUNT_OFFSET, pairs);
}

/// Gives a directory of one block a tree: its names go to a leaf of their own.
///
/// # Errors
/// As [`append`]; [`FsError::Corrupt`] where the block makes no sense.
pub(crate) fn make(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
) -> Result<(), FsError> {
    let block = load(volume, inode, 0)?;
    let entries = collect(volume, block.bytes(), None)?;
    let mut dots = Entries::new(volume, block.bytes(), 0, block.bytes().len());
    let (own, parent) =
        (dots.next().ok_or(FsError::Corrupt)??, dots.next().ok_or(FsError::Corrupt)??);
    if own.name != b"." || parent.name != b".." {
        return Err(FsError::Corrupt);
    }
    let parent = parent.inode;
    drop(block);
    let (number, seed) = (inode.number, inode.seed);
    let first = physical(volume, inode, 0)?;
    let logical = append(volume, operation, inode, |bytes| {
        write_leaf(volume, seed, bytes, &entries);
    })?;
    inode.set_flag(FLAG_INDEX);
    inode.store(volume, operation, Before::Itself)?;
    let file_type = encode_type(volume, interfaces::file_system::FileType::Directory);
    volume.store.modify(operation, first, Class::Index, |bytes| {
        bytes.fill(0);
        write_entry(bytes, 0, 12, (number, file_type, b"."));
        write_entry(bytes, 12, bytes.len() - 12, (parent, file_type, b".."));
        let version = volume.geometry.hash_version;
        put(bytes, ROOT_INFO_OFFSET + 4, &[version, ROOT_INFO_BYTES, 0, 0]);
        write_pairs(volume, seed, bytes, ROOT_COUNT_OFFSET, &[pair(0, logical)]);
    })
}

/// An entry of a leaf that is rewritten.
struct Kept {
    hash: u32,
    inode: u32,
    file_type: u8,
    name: Vec<u8>,
}

/// Returns the names of a leaf, with their hashes if a hash function is given.
fn collect(volume: &Volume, bytes: &[u8], hash: Option<&Hash>) -> Result<Vec<Kept>, FsError> {
    let mut kept = Vec::new();
    for entry in Entries::new(volume, bytes, 0, bytes.len()).names(volume) {
        let entry = entry?;
        let file_type = bytes.get(entry.offset + 7).copied().unwrap_or(0);
        kept.push(Kept {
            hash: hash.map_or(0, |hash| hash.of(entry.name).major),
            inode: entry.inode,
            file_type,
            name: entry.name.to_vec(),
        });
    }
    Ok(kept)
}

fn write_leaf(volume: &Volume, seed: u32, bytes: &mut [u8], entries: &[Kept]) {
    bytes.fill(0);
    let end = entries_end(&volume.geometry);
    let mut at = 0;
    for (index, entry) in entries.iter().enumerate() {
        let is_last = index + 1 == entries.len();
        let length = if is_last { end - at } else { needed(&entry.name) };
        write_entry(bytes, at, length, (entry.inode, entry.file_type, &entry.name));
        at += length;
    }
    if entries.is_empty() {
        put16(bytes, 4, end as u16);
    }
    leaf::seal(&volume.geometry, seed, bytes);
}

/// Puts an entry into the leaf of its hash.
///
/// # Errors
/// [`FsError::NoSpace`], also if the tree cannot grow any more; [`FsError::Corrupt`] for a malformed
/// tree; errors of I/O.
pub(crate) fn add(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
    entry: &NewEntry<'_>,
) -> Result<(), FsError> {
    for _ in 0..ROUNDS_MAX {
        let root = Root::load(volume, inode)?.ok_or(FsError::Corrupt)?;
        let (hash, levels) = (root.hash, root.levels);
        drop(root);
        let (path, leaf) = descend(volume, inode, hash.of(entry.name).major, levels)?;
        if insert_in(volume, operation, inode, leaf, entry)? {
            return Ok(());
        }
        let is_full = |step: &HtreeStep| step.pairs.len() >= limit(volume, step.count_offset);
        let Some((lowest, above)) = path.split_last() else { return Err(FsError::Corrupt) };
        if !is_full(lowest) {
            split_leaf(volume, operation, inode, (lowest, leaf), &hash)?;
        } else if let Some(parent) = above.last() {
            match (is_full(parent), above.len()) {
                (false, _) => split_node(volume, operation, inode, parent, lowest)?,
                (true, 1) => grow(volume, operation, inode, parent, levels)?,
                // The tree would get three levels: the node above must be split first.
                (true, _) => match above.split_last().and_then(|(_, rest)| rest.last()) {
                    Some(top) if !is_full(top) => {
                        split_node(volume, operation, inode, top, parent)?;
                    }
                    _ => return Err(FsError::NoSpace),
                },
            }
        } else {
            grow(volume, operation, inode, lowest, levels)?;
        }
    }
    Err(FsError::NoSpace)
}

/// Returns the path to the leaf of a hash: root first, and the leaf's block.
fn descend(
    volume: &Volume,
    inode: &Inode,
    hash: u32,
    levels: u8,
) -> Result<(Vec<HtreeStep>, u64), FsError> {
    let (mut path, mut logical, mut count_offset) = (Vec::new(), 0, ROOT_COUNT_OFFSET);
    for _ in 0..=levels {
        let block = load(volume, inode, logical)?;
        let found = pairs(block.bytes(), count_offset).ok_or(FsError::Corrupt)?;
        let at = found.get(1..).unwrap_or(&[]).partition_point(|pair| hash_of(pair) <= hash);
        let child = found.get(at).map(block_of).ok_or(FsError::Corrupt)?;
        path.push(HtreeStep { logical, count_offset, pairs: found.to_vec(), at });
        (logical, count_offset) = (child, NODE_COUNT_OFFSET);
    }
    Ok((path, logical))
}

/// Changes the pairs of a root or node.
fn store_pairs(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &Inode,
    step: &HtreeStep,
    pairs: &[Pair],
) -> Result<(), FsError> {
    let block = physical(volume, inode, step.logical)?;
    volume.store.modify(operation, block, Class::Index, |bytes| {
        write_pairs(volume, inode.seed, bytes, step.count_offset, pairs);
    })
}

/// Returns the pairs of a step with `new` behind the one that was followed.
fn with_pair(step: &HtreeStep, new: Pair) -> Vec<Pair> {
    let mut pairs = step.pairs.clone();
    pairs.insert((step.at + 1).min(pairs.len()), new);
    pairs
}

fn split_leaf(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
    (parent, leaf): (&HtreeStep, u64),
    hash: &Hash,
) -> Result<(), FsError> {
    let block = load(volume, inode, leaf)?;
    let mut entries = collect(volume, block.bytes(), Some(hash))?;
    drop(block);
    entries.sort_by_key(|entry| entry.hash);
    let whole: usize = entries.iter().map(|entry| needed(&entry.name)).sum();
    let (mut bytes, mut middle) = (0, 0);
    for entry in &entries {
        if bytes >= whole / 2 {
            break;
        }
        bytes += needed(&entry.name);
        middle += 1;
    }
    let middle = middle.min(entries.len().saturating_sub(1)).max(1);
    let Some((lower, upper)) = entries.split_at_checked(middle) else {
        return Err(FsError::Corrupt);
    };
    let (Some(last), Some(first)) = (lower.last(), upper.first()) else {
        // A leaf of one name without room for another is corrupt: blocks of 1 KiB hold at least
        // three names.
        return Err(FsError::Corrupt);
    };
    let goes_on = u32::from(last.hash == first.hash);
    let seed = inode.seed;
    let logical = append(volume, operation, inode, |bytes| {
        write_leaf(volume, seed, bytes, upper);
    })?;
    let old = physical(volume, inode, leaf)?;
    volume.store.modify(operation, old, Class::Directory, |bytes| {
        write_leaf(volume, seed, bytes, lower);
    })?;
    let pairs = with_pair(parent, pair(first.hash | goes_on, logical));
    store_pairs(volume, operation, inode, parent, &pairs)
}

/// Splits a full node under a parent that has room.
fn split_node(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
    parent: &HtreeStep,
    node: &HtreeStep,
) -> Result<(), FsError> {
    let middle = node.pairs.len() / 2;
    let Some((lower, upper)) = node.pairs.split_at_checked(middle) else {
        return Err(FsError::Corrupt);
    };
    let hash = upper.first().map(hash_of).ok_or(FsError::Corrupt)?;
    let seed = inode.seed;
    let logical = append(volume, operation, inode, |bytes| {
        write_node(volume, seed, bytes, upper);
    })?;
    store_pairs(volume, operation, inode, node, lower)?;
    store_pairs(volume, operation, inode, parent, &with_pair(parent, pair(hash, logical)))
}

/// Gives the pairs of a full root to a new node, its only child.
fn grow(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
    root: &HtreeStep,
    levels: u8,
) -> Result<(), FsError> {
    if levels >= htree::levels_max(volume) {
        return Err(FsError::NoSpace);
    }
    let seed = inode.seed;
    let logical = append(volume, operation, inode, |bytes| {
        write_node(volume, seed, bytes, &root.pairs);
    })?;
    let block = physical(volume, inode, 0)?;
    volume.store.modify(operation, block, Class::Index, |bytes| {
        put(bytes, ROOT_INFO_OFFSET + 6, &[levels + 1]);
        write_pairs(volume, seed, bytes, ROOT_COUNT_OFFSET, &[pair(0, logical)]);
    })
}
