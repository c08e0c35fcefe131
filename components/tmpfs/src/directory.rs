//! The names of a directory, found by name and by a position that never changes while the name stands.
//!
//! A position is given once and never again, so a reader that continues after position `p` sees
//! every name that was there all the time exactly once, whatever is added or removed meanwhile.
//! Positions count down, so that the newest name comes first, as on Linux.
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

/// What a name costs beside its bytes: allocation headers, map nodes, its place in the table.
const ENTRY_BYTES: usize = 160;
/// What `stat` says an entry takes, as on Linux.
const SHOWN_ENTRY_BYTES: u64 = 20;

struct Entry {
    name: Box<[u8]>,
    node: Arc<Node>,
    _charge: Charge,
}

/// A name that is not there, and the memory for it.
pub(crate) struct Promised<'n> {
    name: &'n [u8],
    hash: u64,
    charge: Charge,
}

/// Above every position; what a program gets still fits a signed number.
const TOP: u64 = 1 << 62;

/// A name's hash and position.
type Place = (u64, u64);

/// The names of one directory.
pub(crate) struct Directory {
    by_name: HashTable<Place>,
    entries: BTreeMap<u64, Entry>,
    lowest: u64,
}

impl Default for Directory {
    fn default() -> Directory {
        Directory { by_name: HashTable::new(), entries: BTreeMap::new(), lowest: TOP }
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
        let is_it = |place: &Place| self.is_at(place.1, name);
        self.by_name.find(hash(name), is_it).map(|place| place.1)
    }

    fn is_at(&self, position: u64, name: &[u8]) -> bool {
        self.entries.get(&position).is_some_and(|entry| *entry.name == *name)
    }

    /// What `name` stands for.
    pub(crate) fn find(&self, name: &[u8]) -> Result<&Arc<Node>, FsError> {
        let position = self.position(name).ok_or(FsError::NotFound)?;
        self.entries.get(&position).map(|entry| &entry.node).ok_or(FsError::NotFound)
    }

    /// Refuses a name that is there, or memory for a new one.
    pub(crate) fn promise<'n>(&self, name: &'n [u8]) -> Result<Promised<'n>, FsError> {
        let hash = hash(name);
        if self.by_name.find(hash, |place| self.is_at(place.1, name)).is_some() {
            return Err(FsError::Exists);
        }
        let charge = Charge::take(ENTRY_BYTES + name.len()).map_err(|_| FsError::NoMemory)?;
        Ok(Promised { name, hash, charge })
    }

    /// Takes everything out.
    pub(crate) fn take_nodes(&mut self) -> impl Iterator<Item = Arc<Node>> + use<> {
        self.by_name.clear();
        core::mem::take(&mut self.entries).into_values().map(|entry| entry.node)
    }

    /// Adds a name that is not there.
    pub(crate) fn insert(&mut self, promised: Promised<'_>, node: &Arc<Node>) {
        let Promised { name, hash, charge } = promised;
        self.lowest -= 1;
        self.by_name.insert_unique(hash, (hash, self.lowest), |place| place.0);
        let entry = Entry { name: name.into(), node: Arc::clone(node), _charge: charge };
        self.entries.insert(self.lowest, entry);
    }

    /// Takes a name away, if `check` allows it for what it stands for, which is returned.
    pub(crate) fn remove(
        &mut self,
        name: &[u8],
        check: impl FnOnce(&Node) -> Result<(), FsError>,
    ) -> Result<Arc<Node>, FsError> {
        let Directory { by_name, entries, .. } = self;
        let is_it = |place: &Place| entries.get(&place.1).is_some_and(|entry| *entry.name == *name);
        let found = by_name.find_entry(hash(name), is_it).map_err(|_| FsError::NotFound)?;
        let Slot::Occupied(entry) = entries.entry(found.get().1) else {
            return Err(FsError::NotFound);
        };
        check(&entry.get().node)?;
        found.remove();
        Ok(entry.remove().node)
    }

    /// Lets a name that is there stand for another inode.
    pub(crate) fn replace(&mut self, name: &[u8], node: &Arc<Node>) {
        let position = self.position(name);
        if let Some(entry) = position.and_then(|position| self.entries.get_mut(&position)) {
            entry.node = Arc::clone(node);
        }
    }

    /// No names.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Length that `stat` tells: Linux counts `.` and `..` too.
    pub(crate) fn shown_bytes(&self) -> u64 {
        (self.entries.len() as u64 + 2) * SHOWN_ENTRY_BYTES
    }

    /// Hands the entries after `position` to `take`.
    pub(crate) fn read(&self, position: u64, take: &mut TakeEntry<'_>) {
        let after = position.saturating_add(1);
        let entry = |(next, entry): (&u64, &'_ Entry)| {
            take(&DirectoryEntry {
                inode: entry.node.inode,
                file_type: Some(entry.node.file_type),
                name: &entry.name,
                next: *next,
            })
        };
        // Broken off or not: there is nothing to be done after it.
        let _ = self.entries.range(after..).try_for_each(entry);
    }

    /// How many of the names are directories (for assertions on link counts).
    #[cfg(test)]
    pub(crate) fn subdirectories(&self) -> u32 {
        let is_directory = |entry: &&Entry| entry.node.file_type == FileType::Directory;
        self.entries.values().filter(is_directory).count() as u32
    }
}

/// Whether an inode of this type holds names.
pub(crate) fn is_directory(file_type: FileType) -> bool {
    file_type == FileType::Directory
}
