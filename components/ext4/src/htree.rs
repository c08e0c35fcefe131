//! Lookup by the hash tree of a directory (`dir_index`).
//!
//! Root and nodes hold (hash, block) pairs in order; the first pair's hash is not stored (its room
//! holds limit and count) and counts as zero. A name lies in the leaf of the last pair not above
//! its hash; where equal hashes fill more than a leaf, the pairs of the following leaves have the
//! lowest bit set.
use crate::{
    checksum::crc32c,
    directory::{Entries, load},
    features::Incompat,
    hash::Hash,
    inode::{Inode, is_nameable},
    layout::{directory::*, word16, word32},
    volume::Volume,
};
use interfaces::file_system::FsError;
use zerocopy::FromBytes;

/// Levels of nodes below the root, without and with `large_dir`.
const LEVELS_MAX: u8 = 1;
const LEVELS_MAX_LARGE: u8 = 2;
/// Block numbers in pairs have 28 bits.
const BLOCK_MASK: u32 = 0x0fff_ffff;

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Search {
    /// The inode of the name.
    Found(u32),
    /// No such name.
    Absent,
    /// No tree this component can use: all is to be read.
    NoTree,
}

/// A search on its way.
struct Descent<'a> {
    volume: &'a Volume,
    directory: &'a Inode,
    name: &'a [u8],
    hash: u32,
    /// Blocks that may still be read: a sound tree has no more than the directory.
    budget: u64,
}

/// Looks for `name`.
///
/// # Errors
/// [`FsError::Corrupt`] for a wrong checksum or a tree in a loop; as [`Volume::block`].
pub(crate) fn find(volume: &Volume, directory: &Inode, name: &[u8]) -> Result<Search, FsError> {
    let geometry = &volume.geometry;
    let root = load(volume, directory, 0)?;
    let info = root.bytes().get(ROOT_INFO_OFFSET..).unwrap_or(&[]);
    let Ok((info, _)) = RawRootInfo::read_from_prefix(info) else { return Ok(Search::NoTree) };
    let is_large = geometry.incompat.contains(Incompat::LARGEDIR);
    let levels_max = if is_large { LEVELS_MAX_LARGE } else { LEVELS_MAX };
    let hash = Hash::decode(info.hash_version, geometry.has_unsigned_hash, geometry.hash_seed);
    let is_sound = info.reserved.get() == 0
        && usize::from(info.length) == size_of::<RawRootInfo>()
        && info.levels <= levels_max;
    let (Some(hash), true) = (hash, is_sound) else { return Ok(Search::NoTree) };
    let budget = directory.attributes.size / geometry.block_bytes as u64;
    let hash = hash.of(name);
    let mut descent = Descent { volume, directory, name, hash, budget };
    let Some(pairs) = pairs(root.bytes(), ROOT_COUNT_OFFSET) else { return Ok(Search::NoTree) };
    descent.search(pairs, info.levels)
}

/// The pairs of a root or node: as many as its count says, within its limit, within the block.
fn pairs(bytes: &[u8], count_offset: usize) -> Option<&[[u8; PAIR_BYTES]]> {
    let (slots, _) = bytes.get(count_offset..)?.as_chunks::<PAIR_BYTES>();
    let limit = usize::from(word16(bytes, count_offset)?);
    let count = usize::from(word16(bytes, count_offset + 2)?);
    if count == 0 || count > limit { None } else { slots.get(..count) }
}

fn hash_of(pair: &[u8; PAIR_BYTES]) -> u32 {
    word32(pair, 0).unwrap_or(0)
}

impl Descent<'_> {
    /// Searches the children that may hold the name; `levels` of nodes are below.
    fn search(&mut self, pairs: &[[u8; PAIR_BYTES]], levels: u8) -> Result<Search, FsError> {
        let Some((first, others)) = pairs.split_first() else { return Ok(Search::NoTree) };
        let before = others.partition_point(|pair| hash_of(pair) <= self.hash);
        let start = before.checked_sub(1).and_then(|place| others.get(place)).unwrap_or(first);
        let continued = self.hash | 1;
        let continues = |pair: &&[u8; PAIR_BYTES]| hash_of(pair) == continued;
        let more = others.iter().skip(before).take_while(continues);
        for pair in core::iter::once(start).chain(more) {
            let block = u64::from(word32(pair, 4).unwrap_or(0) & BLOCK_MASK);
            match self.search_child(block, levels)? {
                Search::Absent => {}
                ended => return Ok(ended),
            }
        }
        Ok(Search::Absent)
    }

    fn search_child(&mut self, logical: u64, levels: u8) -> Result<Search, FsError> {
        self.budget = self.budget.checked_sub(1).ok_or(FsError::Corrupt)?;
        let block = load(self.volume, self.directory, logical)?;
        if levels > 0 {
            return match pairs(block.bytes(), NODE_COUNT_OFFSET) {
                Some(pairs) => self.search(pairs, levels - 1),
                None => Ok(Search::NoTree),
            };
        }
        for entry in Entries::new(self.volume, block.bytes(), 0, block.bytes().len()) {
            let entry = entry?;
            if entry.inode != 0 && entry.name == self.name {
                return match is_nameable(&self.volume.geometry, entry.inode) {
                    true => Ok(Search::Found(entry.inode)),
                    false => Err(FsError::Corrupt),
                };
            }
        }
        Ok(Search::Absent)
    }
}

/// Whether the checksum of a root or node is right.
pub(crate) fn is_sum_right(seed: u32, bytes: &[u8], count_offset: usize) -> bool {
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
