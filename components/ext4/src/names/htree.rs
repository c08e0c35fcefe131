//! The hash tree of a directory (`dir_index`): lookup, and its leaves in order.
//!
//! Root and nodes hold (hash, block) pairs in order; the first pair's hash is not stored (its room
//! holds limit and count) and counts as zero. A name is in the leaf of the last pair that is not
//! above its hash. If equal hashes fill more than a leaf, the pairs of the following leaves have
//! the lowest bit set.
use crate::{
    layout::{
        features::{Compat, Incompat},
        inode::{Inode, is_nameable},
        leaf::entries_end,
        raw::{
            directory::*,
            inode::{FLAG_INDEX, FLAG_INLINE_DATA},
        },
        volume::Volume,
    },
    names::{
        block::{self, Purpose, find_in_block, load, load_placed},
        entries::{EntryPlace, Span, Spans},
        hash::{END, Hash},
    },
    store::{
        bytes::{word16, word32},
        cache::BlockRef,
    },
};
use alloc::vec::Vec;
use interfaces::file_system::FsError;
use zerocopy::FromBytes;

/// Levels of nodes below the root.
const LEVELS_MAX: u8 = 1;
/// The greatest number of levels with `large_dir`.
const LEVELS_MAX_LARGE: u8 = 2;
/// Block numbers in pairs have 28 bits.
const BLOCK_MASK: u32 = 0x0fff_ffff;

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Search {
    /// The place of the name.
    Found(EntryPlace),
    /// The name does not exist.
    Absent,
    /// There is no tree that this component can use, so all entries must be read.
    NoTree,
}

/// A search under way.
struct Descent<'a, P> {
    volume: &'a Volume,
    directory: &'a Inode,
    name: &'a [u8],
    hash: u32,
    /// Blocks that may still be read.
    budget: u64,
    /// Called with each entry that is passed, if there is one.
    pass: Option<P>,
}

/// Finds `name`.
///
/// # Errors
/// [`FsError::Corrupt`] for a wrong checksum or a tree in a loop; as [`crate::store::Store::block`].
pub(crate) fn find(volume: &Volume, directory: &Inode, name: &[u8]) -> Result<Search, FsError> {
    descend(volume, directory, name, None::<fn(block::Leaf, &Span<'_>)>)
}

/// Finds `name` as [`find`] does. Calls `pass` with the entries that are passed, first with those
/// of the leaf to which `name` belongs.
///
/// # Errors
/// Those of [`find`].
pub(crate) fn find_passing(
    volume: &Volume,
    directory: &Inode,
    name: &[u8],
    pass: impl FnMut(block::Leaf, &Span<'_>),
) -> Result<Search, FsError> {
    descend(volume, directory, name, Some(pass))
}

fn descend(
    volume: &Volume,
    directory: &Inode,
    name: &[u8],
    pass: Option<impl FnMut(block::Leaf, &Span<'_>)>,
) -> Result<Search, FsError> {
    let Some(root) = Root::load(volume, directory)? else { return Ok(Search::NoTree) };
    let hash = root.hash.of(name).major;
    let budget = budget(volume, directory);
    let mut descent = Descent { volume, directory, name, hash, budget, pass };
    let Some(pairs) = pairs(root.block.bytes(), ROOT_COUNT_OFFSET) else {
        return Ok(Search::NoTree);
    };
    descent.search(pairs, root.levels)
}

/// Returns the most blocks that a walk may read: a valid tree has no more than the directory.
fn budget(volume: &Volume, directory: &Inode) -> u64 {
    directory.attributes.size / volume.geometry.block_bytes as u64
}

/// The root of a tree that this component can use.
pub(crate) struct Root {
    block: BlockRef,
    /// The hash of the tree.
    pub(crate) hash: Hash,
    /// Number of levels of nodes below.
    pub(crate) levels: u8,
}

impl Root {
    /// Returns the root of a directory's tree; `None` for one that this component cannot use.
    pub(crate) fn load(volume: &Volume, directory: &Inode) -> Result<Option<Root>, FsError> {
        let geometry = &volume.geometry;
        let block = load(volume, directory, 0)?;
        let info = block.bytes().get(ROOT_INFO_OFFSET..).unwrap_or(&[]);
        let Ok((info, _)) = RawRootInfo::read_from_prefix(info) else { return Ok(None) };
        let levels_max = levels_max(volume);
        let hash = Hash::decode(info.hash_version, geometry.hash_characters, geometry.hash_seed);
        let is_sound = info.reserved.get() == 0
            && usize::from(info.length) == size_of::<RawRootInfo>()
            && info.levels <= levels_max
            && pairs(block.bytes(), ROOT_COUNT_OFFSET).is_some();
        let levels = info.levels;
        Ok(hash.filter(|_| is_sound).map(|hash| Root { block, hash, levels }))
    }
}

/// Returns the most levels of nodes below the root.
pub(crate) fn levels_max(volume: &Volume) -> u8 {
    let is_large = volume.geometry.incompat.contains(Incompat::LARGEDIR);
    if is_large { LEVELS_MAX_LARGE } else { LEVELS_MAX }
}

/// A leaf, and the range of hashes of its names.
pub(crate) struct Leaf {
    pub(crate) block: BlockRef,
    /// Least major hash.
    pub(crate) lower: u32,
    /// Upper bound of the major hashes; odd if the next leaf continues the last hash of this one.
    pub(crate) upper: u32,
}

/// A root or node on the way to a leaf.
struct Level {
    block: BlockRef,
    count_offset: usize,
    /// Index of the next pair.
    at: usize,
    /// Lower bound of all its hashes.
    lower: u32,
    upper: u32,
}

impl Level {
    /// Makes the level of `block`, at the last pair not above `start`.
    fn new(
        (block, count_offset): (BlockRef, usize),
        (lower, upper): (u32, u32),
        start: u32,
    ) -> Result<Level, FsError> {
        let pairs = pairs(block.bytes(), count_offset).ok_or(FsError::Corrupt)?;
        let others = pairs.get(1..).unwrap_or(&[]);
        let at = others.partition_point(|pair| hash_of(pair) <= start);
        Ok(Level { block, count_offset, at, lower, upper })
    }

    /// Returns the block that the present pair names, and the bounds of its hashes; `None` behind
    /// the last pair.
    fn child(&self) -> Result<Option<(u64, u32, u32)>, FsError> {
        let pairs = pairs(self.block.bytes(), self.count_offset).ok_or(FsError::Corrupt)?;
        let Some(pair) = pairs.get(self.at) else { return Ok(None) };
        let lower = if self.at == 0 { self.lower } else { hash_of(pair) };
        let upper = pairs.get(self.at + 1).map_or(self.upper, hash_of);
        if self.lower <= lower && lower <= upper && upper <= self.upper {
            Ok(Some((block_of(pair), lower, upper)))
        } else {
            Err(FsError::Corrupt)
        }
    }
}

/// The leaves in the order of their hashes, each read when it is requested.
pub(crate) struct Leaves<'a> {
    volume: &'a Volume,
    directory: &'a Inode,
    /// The levels, root first.
    path: Vec<Level>,
    nodes: usize,
    start: u32,
    budget: u64,
    hash: Hash,
}

impl<'a> Leaves<'a> {
    /// Opens the leaves from the first that may have names of major hash `start`, which is even.
    /// Returns `None` if there is no tree that this component can use.
    pub(crate) fn open(
        volume: &'a Volume,
        directory: &'a Inode,
        start: u32,
    ) -> Result<Option<Leaves<'a>>, FsError> {
        let Some(root) = Root::load(volume, directory)? else { return Ok(None) };
        let level = Level::new((root.block, ROOT_COUNT_OFFSET), (0, END), start)?;
        Ok(Some(Leaves {
            volume,
            directory,
            path: alloc::vec![level],
            nodes: usize::from(root.levels),
            start,
            budget: budget(volume, directory),
            hash: root.hash,
        }))
    }

    /// The hash of the tree.
    pub(crate) fn hash(&self) -> &Hash {
        &self.hash
    }

    /// Returns the next leaf: goes up past the ends of nodes, then down by the first pair of each.
    ///
    /// # Errors
    /// [`FsError::Corrupt`] for a wrong checksum, hashes out of order or a tree in a loop; as
    /// [`crate::store::Store::block`].
    pub(crate) fn next(&mut self) -> Result<Option<Leaf>, FsError> {
        while let Some(level) = self.path.last_mut() {
            let Some((logical, lower, upper)) = level.child()? else {
                self.path.pop();
                continue;
            };
            level.at += 1;
            self.budget = self.budget.checked_sub(1).ok_or(FsError::Corrupt)?;
            let block = load(self.volume, self.directory, logical)?;
            if self.path.len() > self.nodes {
                return Ok(Some(Leaf { block, lower, upper }));
            }
            let node = (block, NODE_COUNT_OFFSET);
            self.path.push(Level::new(node, (lower, upper), self.start)?);
        }
        Ok(None)
    }
}

/// Returns the pairs of a root or node: as many as its count says, within its limit, within the
/// block.
pub(crate) fn pairs(bytes: &[u8], count_offset: usize) -> Option<&[[u8; PAIR_BYTES]]> {
    let (slots, _) = bytes.get(count_offset..)?.as_chunks::<PAIR_BYTES>();
    let limit = usize::from(word16(bytes, count_offset)?);
    let count = usize::from(word16(bytes, count_offset + 2)?);
    if count == 0 || count > limit { None } else { slots.get(..count) }
}

pub(crate) fn hash_of(pair: &[u8; PAIR_BYTES]) -> u32 {
    word32(pair, 0).unwrap_or(0)
}

pub(crate) fn block_of(pair: &[u8; PAIR_BYTES]) -> u64 {
    u64::from(word32(pair, 4).unwrap_or(0) & BLOCK_MASK)
}

impl<P: FnMut(block::Leaf, &Span<'_>)> Descent<'_, P> {
    /// Searches the children that may hold the name; there are `levels` levels of nodes below.
    fn search(&mut self, pairs: &[[u8; PAIR_BYTES]], levels: u8) -> Result<Search, FsError> {
        let Some((first, others)) = pairs.split_first() else { return Ok(Search::NoTree) };
        let before = others.partition_point(|pair| hash_of(pair) <= self.hash);
        let start = before.checked_sub(1).and_then(|place| others.get(place)).unwrap_or(first);
        let continued = self.hash | 1;
        let continues = |pair: &&[u8; PAIR_BYTES]| hash_of(pair) == continued;
        let more = others.iter().skip(before).take_while(continues);
        for pair in core::iter::once(start).chain(more) {
            match self.search_child(block_of(pair), levels)? {
                Search::Absent => {}
                ended => return Ok(ended),
            }
        }
        Ok(Search::Absent)
    }

    fn search_child(&mut self, logical: u64, levels: u8) -> Result<Search, FsError> {
        self.budget = self.budget.checked_sub(1).ok_or(FsError::Corrupt)?;
        let (place, block) = load_placed(self.volume, self.directory, logical)?;
        if levels > 0 {
            return match pairs(block.bytes(), NODE_COUNT_OFFSET) {
                Some(pairs) => self.search(pairs, levels - 1),
                None => Ok(Search::NoTree),
            };
        }
        let leaf = block::Leaf { logical, block: place };
        let found = match &mut self.pass {
            None => find_in_block(self.volume, &block, self.name, Purpose::Lookup)?,
            Some(pass) => {
                let mut entries = Spans::new(block.bytes(), entries_end(&self.volume.geometry));
                let is_it = |entry: &Result<Span<'_>, FsError>| {
                    entry.as_ref().map_or(true, |entry| {
                        pass(leaf, entry);
                        entry.is(self.name)
                    })
                };
                entries.find(is_it).transpose()?
            }
        };
        match found {
            None => Ok(Search::Absent),
            Some(Span { offset, inode, .. }) => match is_nameable(&self.volume.geometry, inode) {
                true => Ok(Search::Found(EntryPlace { logical, offset, inode })),
                false => Err(FsError::Corrupt),
            },
        }
    }
}

/// Returns whether the directory has a hash tree that is kept in step with its names.
pub(crate) fn has_tree(volume: &Volume, directory: &Inode) -> bool {
    volume.geometry.compat.contains(Compat::DIR_INDEX)
        && directory.has_flag(FLAG_INDEX)
        && !directory.has_flag(FLAG_INLINE_DATA)
}
