//! Directories listed in the order of their names' hashes, as Linux does with `dir_index`: those
//! with a hash tree leaf by leaf, those of one block or in the inode at once.
//!
//! The position of a name is its hash: major and minor. If several names have the same hash, the
//! first gets it as its position and the others get the positions behind it. So each name has its
//! own position, and positions rise: a reader can stop and continue between any two names. A
//! position depends only on the names of the same major hash and, if the last minor hashes of the
//! major hash before are taken more than once, on the names of that one. So a listing that
//! continues starts one major hash early. Nothing is kept between calls.
//!
//! Source: Linux fs/ext4/dir.c (`is_dx_dir`, `hash2pos`), namei.c (`ext4_htree_fill_tree`).
use crate::{
    layout::{features::Compat, inode::Inode, raw::inode::FLAG_INLINE_DATA, volume::Volume},
    names::{
        block::load,
        entries::{Entries, inline_areas},
        hash::{END, Hash, NameHash},
        htree::{Leaves, has_tree},
        inline,
    },
    store::cache::BlockRef,
};
use alloc::vec::Vec;
use core::ops::{ControlFlow, Range};
use interfaces::file_system::{FsError, TakeEntry};
use rt::memory::Charge;

/// A position after every name.
const POSITION_END: u64 = ((END >> 1) as u64) << 32;
/// Bytes of the shortest entry with a name.
const NAME_BYTES_MIN: usize = 12;

/// Passes the names from `position` on to `take`; returns `false` if Linux would not use hashes.
///
/// # Errors
/// [`FsError::Corrupt`] if an entry makes no sense or is in a leaf it does not belong to;
/// [`FsError::NoMemory`]; as [`crate::store::Store::block`].
pub(crate) fn list(
    volume: &Volume,
    directory: &Inode,
    position: u64,
    take: &mut TakeEntry<'_>,
) -> Result<bool, FsError> {
    let geometry = &volume.geometry;
    if !geometry.compat.contains(Compat::DIR_INDEX) {
        return Ok(false);
    }
    let mut listing = Listing { volume, position, take, free: 0, before: None };
    if has_tree(volume, directory) {
        let Some(leaves) = Leaves::open(volume, directory, start(position))? else {
            return Ok(false);
        };
        listing.add_leaves(leaves)?;
        return Ok(true);
    }
    let version = geometry.hash_version;
    let hash = Hash::decode(version, geometry.hash_characters, geometry.hash_seed);
    let Some(hash) = hash else { return Ok(false) };
    let mut group = Group::default();
    if directory.has_flag(FLAG_INLINE_DATA) {
        let bytes = inline::load(volume, directory)?;
        let areas = inline_areas(directory, &bytes);
        group.add((volume, &hash), NameSource::Inline(bytes), &areas, 0..END)?;
    } else if directory.attributes.size / geometry.block_bytes as u64 == 1 {
        let block = load(volume, directory, 0)?;
        let whole = 0..block.bytes().len();
        group.add((volume, &hash), NameSource::Block(block), &[whole], 0..END)?;
    } else {
        return Ok(false);
    }
    listing.end_with(group);
    Ok(true)
}

/// Returns the major hash to start from: one before that of the position.
fn start(position: u64) -> u32 {
    let half = (position >> 32).saturating_sub(1).min(u64::from(END >> 1));
    (half as u32) << 1
}

/// The source of names.
enum NameSource {
    Block(BlockRef),
    Inline(Vec<u8>),
}

impl NameSource {
    fn bytes(&self) -> &[u8] {
        match self {
            NameSource::Block(block) => block.bytes(),
            NameSource::Inline(bytes) => bytes,
        }
    }
}

/// The key of one name, ordered by hashes and then by place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct NameKey {
    hash: NameHash,
    /// The source, and the position in it.
    source: u32,
    offset: u32,
}

/// Names to be put in order together: of the inode, of a block, or of leaves that share a hash.
#[derive(Default)]
struct Group {
    sources: Vec<NameSource>,
    keys: Vec<NameKey>,
    charges: Vec<Charge>,
}

impl Group {
    /// Adds the names in `areas` of `source`; their major hashes must lie in `bounds`.
    fn add(
        &mut self,
        (volume, hash): (&Volume, &Hash),
        source: NameSource,
        areas: &[Range<usize>],
        bounds: Range<u32>,
    ) -> Result<(), FsError> {
        let most = source.bytes().len() / NAME_BYTES_MIN;
        let charge = Charge::take(most * size_of::<NameKey>()).map_err(|_| FsError::NoMemory)?;
        self.charges.push(charge);
        // Few names have the least possible length.
        self.keys.reserve(most / 2);
        let place = self.sources.len() as u32;
        for area in areas {
            let entries = Entries::new(volume, source.bytes(), area.start, area.end);
            for entry in entries.names(volume) {
                let entry = entry?;
                let hash = hash.of(entry.name);
                if !bounds.contains(&hash.major) {
                    return Err(FsError::Corrupt);
                }
                self.keys.push(NameKey { hash, source: place, offset: entry.offset as u32 });
            }
        }
        self.sources.push(source);
        Ok(())
    }

    /// Sorts the names in Linux's order: by hash; of the names with one hash, each new one is put
    /// directly after the first.
    fn sort(&mut self) {
        self.keys.sort_unstable();
        for chain in self.keys.chunk_by_mut(|a, b| a.hash == b.hash) {
            if let Some((_, others)) = chain.split_first_mut() {
                others.reverse();
            }
        }
    }
}

/// A listing that is under way.
struct Listing<'a, 't> {
    volume: &'a Volume,
    position: u64,
    take: &'a mut TakeEntry<'t>,
    /// The first position that no name has got yet.
    free: u64,
    /// The last name of the group before, to be listed when the position of the next is known.
    before: Option<(Group, NameKey)>,
}

impl Listing<'_, '_> {
    fn add_leaves(&mut self, mut leaves: Leaves<'_>) -> Result<(), FsError> {
        let mut group = Group::default();
        while let Some(leaf) = leaves.next()? {
            let whole = 0..leaf.block.bytes().len();
            let (bounds, source) = (leaf.lower & !1..leaf.upper, NameSource::Block(leaf.block));
            group.add((self.volume, leaves.hash()), source, &[whole], bounds)?;
            let is_continued = leaf.upper & 1 != 0;
            if !is_continued && self.add(core::mem::take(&mut group)).is_break() {
                return Ok(());
            }
        }
        self.end_with(group);
        Ok(())
    }

    /// Passes on the names of the last group.
    fn end_with(&mut self, group: Group) {
        if self.add(group).is_continue()
            && let Some((group, key)) = self.before.take()
        {
            let _ = self.hand_out(&group, key, self.free.max(POSITION_END));
        }
    }

    /// Lists the names of a group but the last, and the last of the group before. Returns `Break`
    /// when no more names are wanted.
    fn add(&mut self, mut group: Group) -> ControlFlow<()> {
        group.sort();
        let mut last = None;
        for key in &group.keys {
            let position = key.hash.position().max(self.free);
            self.free = position + 1;
            if position < self.position {
                continue;
            }
            if let Some(key) = last.replace(*key) {
                self.hand_out(&group, key, position)?;
            } else if let Some((group, key)) = self.before.take() {
                self.hand_out(&group, key, position)?;
            }
        }
        if let Some(key) = last {
            self.before = Some((group, key));
        }
        ControlFlow::Continue(())
    }

    fn hand_out(&mut self, group: &Group, key: NameKey, next: u64) -> ControlFlow<()> {
        let source = group.sources.get(key.source as usize);
        let bytes = source.map_or(&[][..], NameSource::bytes);
        let mut entries = Entries::new(self.volume, bytes, key.offset as usize, bytes.len());
        // The names were checked when the keys were made.
        entries.are_checked = true;
        match entries.next() {
            Some(Ok(entry)) => (self.take)(&entry.shown(next)),
            _ => ControlFlow::Continue(()),
        }
    }
}
