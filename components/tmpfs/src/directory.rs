//! The names of a directory, found by name and by a position that never changes while the name stands.
//!
//! A position is given once and never again, so a reader that continues after position `p` sees
//! every name that was there all the time exactly once, whatever is added or removed meanwhile.
//! Positions count down, so that the newest name comes first, as on Linux. Entries lie in chunks of
//! positions that follow each other: most names are made and taken away without a piece of memory
//! of their own.
use crate::node::Node;
use alloc::{
    boxed::Box,
    collections::{BTreeMap, btree_map::Entry as Slot},
    sync::Arc,
};
use hash::Seed;
use hashbrown::HashTable;
use interfaces::file_system::{DirectoryEntry, FileType, FsError, TakeEntry};
use rt::{memory::Charge, sync::Once};

/// Entries of a chunk.
const CHUNK: usize = 16;
/// The cost of a chunk: itself, its share of the map's node, its names' places in the table.
const CHUNK_BYTES: usize = size_of::<Chunk>() + 32 + CHUNK * 48;
/// A name of up to so many bytes lies in its entry.
const SHORT: usize = 30;
/// A table with room for more than this times its names is made smaller.
const SPARSE: usize = 8;
/// The size of an entry in `stat`, as on Linux.
const SHOWN_ENTRY_BYTES: u64 = 20;

enum Name {
    Short { bytes: [u8; SHORT], length: u8 },
    Long { bytes: Box<[u8]>, _charge: Charge },
}

impl Name {
    fn new(name: &[u8]) -> Result<Name, FsError> {
        let mut bytes = [0; SHORT];
        if let Some(room) = bytes.get_mut(..name.len()) {
            room.copy_from_slice(name);
            return Ok(Name::Short { bytes, length: name.len() as u8 });
        }
        let charge = Charge::take(name.len()).map_err(|_| FsError::NoMemory)?;
        Ok(Name::Long { bytes: name.into(), _charge: charge })
    }

    fn as_bytes(&self) -> &[u8] {
        match self {
            Name::Short { bytes, length } => bytes.get(..*length as usize).unwrap_or(bytes),
            Name::Long { bytes, .. } => bytes,
        }
    }
}

struct Entry {
    name: Name,
    node: Arc<Node>,
}

impl Entry {
    fn is(&self, name: &[u8]) -> bool {
        self.name.as_bytes() == name
    }
}

/// The entries of positions that are the same but for their last digit.
struct Chunk {
    entries: [Option<Entry>; CHUNK],
    used: usize,
    _charge: Charge,
}

impl Chunk {
    fn new() -> Result<Chunk, FsError> {
        let charge = Charge::take(CHUNK_BYTES).map_err(|_| FsError::NoMemory)?;
        Ok(Chunk { entries: [const { None }; CHUNK], used: 0, _charge: charge })
    }
}

/// A name that is not there, and the memory for it.
pub(crate) struct Promised {
    name: Name,
    hash: u64,
    /// Its chunk, where there is none yet.
    chunk: Option<Box<Chunk>>,
}

/// Above every position; what a program gets still fits a signed number.
const TOP: u64 = 1 << 62;

/// The number of a position's chunk, and its place in there.
fn split(position: u64) -> (u64, usize) {
    (position / CHUNK as u64, position as usize % CHUNK)
}

/// A name's hash and position.
type Place = (u64, u64);

type Chunks = BTreeMap<u64, Box<Chunk>>;

/// The entry at a position.
fn entry(chunks: &Chunks, position: u64) -> Option<&Entry> {
    let (number, index) = split(position);
    chunks.get(&number)?.entries.get(index)?.as_ref()
}

/// The names of one directory.
pub(crate) struct Directory {
    by_name: HashTable<Place>,
    /// Every chunk with an entry.
    chunks: Chunks,
    lowest: u64,
}

impl Default for Directory {
    fn default() -> Directory {
        Directory { by_name: HashTable::new(), chunks: BTreeMap::new(), lowest: TOP }
    }
}

fn hash(name: &[u8]) -> u64 {
    static SEED: Once<Seed> = Once::new();
    let seed = SEED.get_or_init(|| {
        let mut bytes = [0; 16];
        rt::entropy::fill(&mut bytes);
        Seed::new(bytes)
    });
    seed.hash(0, name)
}

impl Directory {
    fn position(&self, name: &[u8]) -> Option<u64> {
        self.position_of(hash(name), name)
    }

    fn position_of(&self, hash: u64, name: &[u8]) -> Option<u64> {
        let is_it =
            |place: &Place| entry(&self.chunks, place.1).is_some_and(|entry| entry.is(name));
        self.by_name.find(hash, is_it).map(|place| place.1)
    }

    /// The place of the next name.
    fn next(&self) -> (u64, usize) {
        split(self.lowest - 1)
    }

    /// The node of `name`.
    pub(crate) fn find(&self, name: &[u8]) -> Result<&Arc<Node>, FsError> {
        let entry = self.position(name).and_then(|position| entry(&self.chunks, position));
        entry.map(|entry| &entry.node).ok_or(FsError::NotFound)
    }

    /// Refuses a name that is there, or memory for a new one, which is inserted before anything else
    /// here is changed, or not at all.
    pub(crate) fn promise(&self, name: &[u8]) -> Result<Promised, FsError> {
        let hash = hash(name);
        if self.position_of(hash, name).is_some() {
            return Err(FsError::Exists);
        }
        let name = Name::new(name)?;
        let has_chunk = self.chunks.contains_key(&self.next().0);
        let chunk = if has_chunk { None } else { Some(Box::new(Chunk::new()?)) };
        Ok(Promised { name, hash, chunk })
    }

    /// Takes everything out.
    pub(crate) fn take_nodes(&mut self) -> impl Iterator<Item = Arc<Node>> + use<> {
        self.by_name.clear();
        let chunks = core::mem::take(&mut self.chunks).into_values();
        chunks.flat_map(|chunk| chunk.entries).flatten().map(|entry| entry.node)
    }

    /// Adds the name promised last.
    pub(crate) fn insert(&mut self, promised: Promised, node: &Arc<Node>) {
        let Promised { name, hash, chunk } = promised;
        let (number, index) = self.next();
        let chunk = match (self.chunks.entry(number), chunk) {
            (Slot::Occupied(chunk), _) => chunk.into_mut(),
            (Slot::Vacant(place), Some(chunk)) => place.insert(chunk),
            (Slot::Vacant(_), None) => return,
        };
        let Some(slot) = chunk.entries.get_mut(index) else { return };
        *slot = Some(Entry { name, node: Arc::clone(node) });
        chunk.used += 1;
        self.lowest -= 1;
        self.by_name.insert_unique(hash, (hash, self.lowest), |place| place.0);
    }

    /// Takes a name away, if `check` allows it for what it stands for, which is returned.
    pub(crate) fn remove(
        &mut self,
        name: &[u8],
        check: impl FnOnce(&Node) -> Result<(), FsError>,
    ) -> Result<Arc<Node>, FsError> {
        let Directory { by_name, chunks, .. } = self;
        let is_it = |place: &Place| entry(chunks, place.1).is_some_and(|entry| entry.is(name));
        let found = by_name.find_entry(hash(name), is_it).map_err(|_| FsError::NotFound)?;
        let (number, index) = split(found.get().1);
        let chunk = chunks.get_mut(&number).ok_or(FsError::NotFound)?;
        let slot = chunk.entries.get_mut(index).ok_or(FsError::NotFound)?;
        check(&slot.as_ref().ok_or(FsError::NotFound)?.node)?;
        let entry = slot.take().ok_or(FsError::NotFound)?;
        chunk.used -= 1;
        if chunk.used == 0 {
            chunks.remove(&number);
            if chunks.is_empty() {
                // An emptied map keeps a node.
                *chunks = Chunks::new();
            }
        }
        found.remove();
        if by_name.len() * SPARSE < by_name.capacity() {
            by_name.shrink_to(2 * by_name.len(), |place| place.0);
        }
        Ok(entry.node)
    }

    /// Lets a name that is there stand for another inode.
    pub(crate) fn replace(&mut self, name: &[u8], node: &Arc<Node>) {
        let Some((number, index)) = self.position(name).map(split) else { return };
        let chunk = self.chunks.get_mut(&number);
        if let Some(Some(entry)) = chunk.and_then(|chunk| chunk.entries.get_mut(index)) {
            entry.node = Arc::clone(node);
        }
    }

    /// No names.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Length that `stat` tells: Linux counts `.` and `..` too.
    pub(crate) fn shown_bytes(&self) -> u64 {
        (self.by_name.len() as u64 + 2) * SHOWN_ENTRY_BYTES
    }

    /// Hands the entries after `position` to `take`.
    pub(crate) fn read(&self, position: u64, take: &mut TakeEntry<'_>) {
        let (first, index) = split(position.saturating_add(1));
        for (number, chunk) in self.chunks.range(first..) {
            let skipped = if *number == first { index } else { 0 };
            for (at, entry) in chunk.entries.iter().enumerate().skip(skipped) {
                let Some(Entry { name, node }) = entry else { continue };
                let shown = DirectoryEntry {
                    inode: node.inode,
                    file_type: Some(node.file_type),
                    name: name.as_bytes(),
                    next: *number * CHUNK as u64 + at as u64,
                };
                if take(&shown).is_break() {
                    return;
                }
            }
        }
    }

    /// How many of the names are directories (for assertions on link counts).
    #[cfg(test)]
    pub(crate) fn subdirectories(&self) -> u32 {
        let is_directory = |entry: &&Entry| entry.node.file_type == FileType::Directory;
        self.chunks
            .values()
            .flat_map(|chunk| chunk.entries.iter().flatten())
            .filter(is_directory)
            .count() as u32
    }
}

/// Whether an inode of this type holds names.
pub(crate) fn is_directory(file_type: FileType) -> bool {
    file_type == FileType::Directory
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, ROOT};
    use core::ops::ControlFlow;

    fn node() -> Arc<Node> {
        Arc::clone(&crate::new(Options::default()).unwrap().root)
    }

    fn add(directory: &mut Directory, name: &[u8], node: &Arc<Node>) {
        let promised = directory.promise(name).unwrap();
        directory.insert(promised, node);
    }

    fn read(directory: &Directory, position: u64, most: usize) -> Vec<(Vec<u8>, u64)> {
        let mut all = Vec::new();
        directory.read(position, &mut |entry| {
            assert_eq!(entry.inode, ROOT);
            all.push((entry.name.to_vec(), entry.next));
            if all.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        all
    }

    #[test]
    fn names_of_every_length_are_found_by_name_and_position() {
        let (mut directory, node) = (Directory::default(), node());
        let name = |length: usize| vec![b'a'; length];
        (1..=255).for_each(|length| add(&mut directory, &name(length), &node));
        assert!(directory.promise(&name(SHORT)).is_err_and(|error| error == FsError::Exists));
        let all = read(&directory, 0, usize::MAX);
        assert!(all.iter().map(|(name, _)| name.len()).eq((1..=255).rev()));
        for length in 1..=255 {
            assert!(directory.find(&name(length)).is_ok());
            assert!(directory.remove(&name(length), |_| Ok(())).is_ok());
            assert!(directory.find(&name(length)).is_err());
        }
        assert!(directory.is_empty() && read(&directory, 0, usize::MAX).is_empty());
    }

    #[test]
    fn who_reads_in_steps_sees_what_stays_once() {
        let (mut directory, node) = (Directory::default(), node());
        let name = |number: usize| format!("name {number}").into_bytes();
        (0..1000).for_each(|number| add(&mut directory, &name(number), &node));
        let (mut position, mut seen, mut new) = (0, Vec::new(), 1000);
        for step in 0.. {
            let some = read(&directory, position, 7);
            let Some((_, last)) = some.last() else { break };
            position = *last;
            seen.extend(some.into_iter().map(|(name, _)| name));
            // Every name whose number is no multiple of three goes at some time, and others come.
            for number in (0..1000).filter(|number| number % 3 != 0 && number * 7 % 143 == step) {
                directory.remove(&name(number), |_| Ok(())).unwrap();
            }
            add(&mut directory, &name(new), &node);
            new += 1;
        }
        let stayed = (0..1000).rev().step_by(3).map(name).filter(|name| seen.contains(name));
        assert!(seen.iter().is_sorted_by(|a, b| (a.len(), a) > (b.len(), b)));
        assert_eq!(stayed.count(), 334);
    }

    #[test]
    fn room_is_given_back_with_the_names() {
        let (mut directory, node) = (Directory::default(), node());
        let name = |number: usize| number.to_le_bytes();
        (0..5000).for_each(|number| add(&mut directory, &name(number), &node));
        for number in (0..5000).rev() {
            directory.remove(&name(number), |_| Ok(())).unwrap();
            assert_eq!(directory.chunks.len(), number.div_ceil(CHUNK));
        }
        assert_eq!(directory.by_name.capacity(), 0);
        // A name that is promised and not given keeps nothing.
        drop(directory.promise(&name(0)).unwrap());
        assert!(directory.chunks.is_empty());
    }
}
