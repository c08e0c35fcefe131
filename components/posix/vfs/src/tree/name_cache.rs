//! The name cache of a file system: (directory, name) to `D`, a dentry, with negative entries.
//!
//! [`NameCache`] is a hash table in shards; a lookup takes one shard's lock shared, copies
//! nothing and allocates nothing. Entries are dropped least recently used first, by a clock: a
//! hit marks its entry, a sweep drops what was not marked since the sweep before and is held by
//! nobody else. Where a file system lives in the caches only, the cache is what there is: nothing is dropped, nothing is
//! negative, and a name that is not here is not there. A thread that inserts or removes holds a
//! lock of the name ([`crate::tree::name_lock`]) or the whole directory, so that the cache never contradicts the file system.
//! Dentries leave a shard before they are dropped: their end may reach the file system.
//!
//! The cache has a part for the directories of each secrecy, with its own shards and numbers: how long a lookup takes depends on
//! the names around it, and must not tell of names at other levels.
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use hash::Seed;
use hashbrown::{HashTable, hash_table::Entry as Slot};
use interfaces::file_system::{Backing, LEVEL_SLOTS};
use labels::SecrecyId;
use rt::{
    lock_class,
    memory::Charge,
    sync::{Once, RwLock},
};

lock_class! {
    static SHARD = "vfs.names";
    static NAME = "vfs.name";
}

/// Number of parts. Directories of the lowest secrecy and those without one share the first, secrecies whose numbers are too great
/// the last.
const PARTS: usize = LEVEL_SLOTS;
/// Number of shards of a part.
const SHARDS: usize = 32;
/// Heap bytes of a negative entry besides its name.
const ENTRY_BYTES: usize = 96;
/// Number of entries below which a shard is never swept.
const SHARD_ENTRIES_MIN: usize = 64;
/// Number of frames of memory for each entry that the whole cache may hold before it is swept.
const FRAMES_AN_ENTRY: usize = 4;

/// The numbers of directories that each part has given.
static TAKEN: [AtomicU64; PARTS] = [const { AtomicU64::new(0) }; PARTS];

/// Returns a number for a directory of a secrecy, which tells its part.
pub(crate) fn next_parent(secrecy: SecrecyId) -> u64 {
    let part = (secrecy.0.saturating_sub(1) as usize).min(PARTS - 1);
    let taken = TAKEN.get(part).map_or(0, |taken| taken.fetch_add(1, Ordering::Relaxed));
    (taken + 1) * PARTS as u64 + part as u64
}

struct CachedName<D> {
    hash: u64,
    parent: u64,
    name: Arc<[u8]>,
    /// The dentry; `None` if the file system has said that there is no such name.
    dentry: Option<Arc<D>>,
    was_used: AtomicBool,
    _charge: Option<Charge>,
}

struct Shard<D> {
    entries: HashTable<CachedName<D>>,
    sweep_at: usize,
}

type Shards<D> = [RwLock<Shard<D>>; SHARDS];

/// Makes the shards of a part.
fn shards<D>() -> Shards<D> {
    let sweep_at = sweep_threshold(0);
    core::array::from_fn(|_| RwLock::new(&SHARD, Shard { entries: HashTable::new(), sweep_at }))
}

/// A name in a directory, hashed once for all operations on it.
#[derive(Clone, Copy)]
pub(crate) struct Key<'n> {
    parent: u64,
    name: &'n [u8],
    hash: u64,
}

impl Key<'_> {
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
    /// Returns the name.
    pub(crate) fn name(&self) -> &[u8] {
        self.name
    }
    #[inline]
    fn is_of<D>(&self, entry: &CachedName<D>) -> bool {
        entry.parent == self.parent && *entry.name == *self.name
    }
}

/// The state of a name in the cache.
pub(crate) enum Cached<D> {
    /// The name exists and has this dentry.
    Positive(Arc<D>),
    /// There is no such name.
    Negative,
    /// The cache does not know the name; the file system must be asked.
    Unknown,
}

const LOCKS: usize = 128;

/// The locks of a file system's names.
pub(crate) struct NameLocks([RwLock<()>; LOCKS]);

impl NameLocks {
    fn new() -> NameLocks {
        NameLocks(core::array::from_fn(|_| RwLock::new(&NAME, ())))
    }
    /// The lock that `key` shares with other names.
    pub(crate) fn of(&self, key: &Key<'_>) -> &RwLock<()> {
        let [first, ..] = &self.0;
        self.0.get(key.hash() as usize % LOCKS).unwrap_or(first)
    }
}

/// The treatment of a name that has a dentry already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Existing {
    Keep,
    Replace,
}

/// The cached names of one file system.
pub(crate) struct NameCache<D> {
    seed: Seed,
    locks: NameLocks,
    /// The cache is the only record of the names.
    is_kept: bool,
    /// The first part; a system without levels has no other.
    shards: Shards<D>,
    /// The others, made when they are used.
    others: [Once<Box<Shards<D>>>; PARTS - 1],
}

impl<D> NameCache<D> {
    /// Makes an empty cache for a file system with `backing`. Without storage the names are recorded nowhere else.
    pub(crate) fn new(backing: Backing) -> NameCache<D> {
        let is_kept = backing == Backing::Cache;
        let mut bytes = [0; 16];
        rt::entropy::fill(&mut bytes);
        let seed = Seed::new(bytes);
        NameCache {
            seed,
            locks: NameLocks::new(),
            is_kept,
            shards: shards(),
            others: core::array::from_fn(|_| Once::new()),
        }
    }
    /// Returns the key of `name` in the directory `parent`.
    #[inline]
    pub(crate) fn key<'n>(&self, parent: u64, name: &'n [u8]) -> Key<'n> {
        Key { parent, name, hash: self.seed.hash(parent, name) }
    }
    /// Returns the locks of its names.
    pub(crate) fn locks(&self) -> &NameLocks {
        &self.locks
    }
    #[inline]
    fn shard(&self, key: &Key<'_>) -> &RwLock<Shard<D>> {
        let shards = match key.parent as usize % PARTS {
            0 => &self.shards,
            part => self.other_part(part),
        };
        let [first, ..] = shards;
        shards.get((key.hash >> 48) as usize % SHARDS).unwrap_or(first)
    }
    fn other_part(&self, part: usize) -> &Shards<D> {
        let other = part.checked_sub(1).and_then(|index| self.others.get(index));
        other.map_or(&self.shards, |other| other.get_or_init(|| Box::new(shards())))
    }
    /// Returns all shards of the parts in use.
    fn all_shards(&self) -> impl Iterator<Item = &RwLock<Shard<D>>> {
        let others = self.others.iter().filter_map(Once::get);
        self.shards.iter().chain(others.flat_map(|shards| shards.iter()))
    }
    /// Returns the state of `name` in the directory `parent`.
    pub(crate) fn get(&self, parent: u64, name: &[u8]) -> Cached<D> {
        self.find(&self.key(parent, name))
    }
    /// Does the same as [`NameCache::get`] for a name that is hashed already.
    #[inline]
    pub(crate) fn find(&self, key: &Key<'_>) -> Cached<D> {
        let shard = self.shard(key).read();
        let found = shard.entries.find(key.hash, |entry| key.is_of(entry));
        let Some(entry) = found else {
            return if self.is_kept { Cached::Negative } else { Cached::Unknown };
        };
        if !entry.was_used.load(Ordering::Relaxed) {
            entry.was_used.store(true, Ordering::Relaxed);
        }
        match &entry.dentry {
            Some(dentry) => Cached::Positive(dentry.clone()),
            None => Cached::Negative,
        }
    }
    /// Inserts a name, replacing its entry if there is one.
    pub(crate) fn insert(&self, key: &Key<'_>, name: Arc<[u8]>, dentry: Option<Arc<D>>) {
        let charge = match &dentry {
            Some(_) => None,
            None => match Charge::take(ENTRY_BYTES + name.len()) {
                Ok(charge) => Some(charge),
                Err(_) => return self.remove(key),
            },
        };
        self.put(key, name, dentry, charge, Existing::Replace);
    }
    /// Inserts a dentry unless the name has one. Returns the dentry that is in the cache then.
    pub(crate) fn insert_if_absent(
        &self,
        key: &Key<'_>,
        name: Arc<[u8]>,
        dentry: Arc<D>,
    ) -> Arc<D> {
        self.put(key, name, Some(dentry.clone()), None, Existing::Keep).unwrap_or(dentry)
    }
    /// Puts an entry in place. Returns the previous dentry if that is kept.
    fn put(
        &self,
        key: &Key<'_>,
        name: Arc<[u8]>,
        dentry: Option<Arc<D>>,
        charge: Option<Charge>,
        existing: Existing,
    ) -> Option<Arc<D>> {
        let Key { hash, parent, .. } = *key;
        let was_used = AtomicBool::new(true);
        let fresh = CachedName { hash, parent, name, dentry, was_used, _charge: charge };
        let is_it = |entry: &CachedName<D>| key.is_of(entry);
        let mut shard = self.shard(key).write();
        let (kept, replaced) = match shard.entries.entry(hash, is_it, |entry| entry.hash) {
            Slot::Occupied(mut place) => match &place.get().dentry {
                Some(known) if existing == Existing::Keep => (Some(known.clone()), Some(fresh)),
                _ => (None, Some(core::mem::replace(place.get_mut(), fresh))),
            },
            Slot::Vacant(place) => {
                place.insert(fresh);
                (None, None)
            }
        };
        let is_full = shard.entries.len() > shard.sweep_at && !self.is_kept;
        let swept = if is_full { shard.sweep() } else { Vec::new() };
        drop(shard);
        drop((replaced, swept));
        kept
    }
    /// Removes the entry of a name.
    pub(crate) fn remove(&self, key: &Key<'_>) {
        let mut shard = self.shard(key).write();
        let found = shard.entries.find_entry(key.hash, |entry| key.is_of(entry)).ok();
        let removed = found.map(|entry| entry.remove().0);
        if self.is_kept {
            shard.fit(SHARD_ENTRIES_MIN);
        }
        drop(shard);
        drop(removed);
    }
    /// Drops entries that were not used since the last sweep, and the room that few entries are left in. Returns the number
    /// of entries dropped.
    pub(crate) fn shrink(&self) -> usize {
        let mut count = 0;
        for shard in self.all_shards() {
            let mut shard = shard.write();
            let swept = if self.is_kept { Vec::new() } else { shard.sweep() };
            shard.fit(0);
            drop(shard);
            count += swept.len();
        }
        count
    }
    /// Removes all entries.
    pub(crate) fn clear(&self) {
        for shard in self.all_shards() {
            let entries = core::mem::take(&mut shard.write().entries);
            drop(entries);
        }
    }
    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.all_shards().map(|shard| shard.read().entries.len()).sum()
    }
}

impl<D> Shard<D> {
    /// Removes entries that no other object holds and that were not used since the last sweep, at most as many as can be
    /// held at once with little memory: memory may be short.
    fn sweep(&mut self) -> Vec<CachedName<D>> {
        let is_idle = |entry: &mut CachedName<D>| {
            let was_used = core::mem::replace(entry.was_used.get_mut(), false);
            let is_held = entry.dentry.as_ref().is_some_and(|dentry| Arc::strong_count(dentry) > 1);
            !was_used && !is_held
        };
        let swept: Vec<CachedName<D>> = self.entries.extract_if(is_idle).take(SWEEP_MOST).collect();
        self.sweep_at = sweep_threshold(self.entries.len());
        self.fit(SHARD_ENTRIES_MIN);
        swept
    }
    /// Shrinks a table that has much more room than entries, and room for more than `least`.
    fn fit(&mut self, least: usize) {
        let left = self.entries.len();
        if (left * SPARSE).max(least) < self.entries.capacity() {
            self.entries.shrink_to(2 * left, |entry| entry.hash);
        }
    }
}

/// A table with room for more than this number times its entries is shrunk.
const SPARSE: usize = 8;

/// The greatest number of entries removed by one sweep.
const SWEEP_MOST: usize = 64;

/// Returns the number of entries that a shard may have before the next sweep, if `left` remained after the last one.
fn sweep_threshold(left: usize) -> usize {
    let frames = usize::try_from(rt::memory::statistics().total_frames).unwrap_or(usize::MAX);
    let share = (frames / FRAMES_AN_ENTRY / SHARDS).max(SHARD_ENTRIES_MIN);
    share.max(left + left / 4 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: usize = 1_000;
    const LEFT: usize = 10;

    #[test]
    fn a_shrunk_cache_keeps_no_room_for_names_that_went() {
        for backing in [Backing::Cache, Backing::Storage] {
            let cache = NameCache::<()>::new(backing);
            let names: Vec<Arc<[u8]>> = (0..NAMES).map(|at| at.to_le_bytes().into()).collect();
            for name in &names {
                cache.insert(&cache.key(1, name), name.clone(), Some(Arc::new(())));
            }
            for name in names.iter().skip(LEFT) {
                cache.remove(&cache.key(1, name));
            }
            let room = || -> usize {
                cache.all_shards().map(|shard| shard.read().entries.capacity()).sum()
            };
            assert!(room() > NAMES / 2, "a table is not made anew at each change");
            // The first round clears the marks of recent use.
            let dropped = cache.shrink() + cache.shrink();
            let left = if backing == Backing::Cache { LEFT } else { 0 };
            assert_eq!((dropped, cache.len()), (LEFT - left, left));
            assert!(room() <= SPARSE * left, "room for {}", room());
        }
    }

    #[test]
    fn a_part_shares_nothing_with_names_of_another_secrecy() {
        let cache = NameCache::<()>::new(Backing::Storage);
        let low = next_parent(SecrecyId(41));
        for _ in 0..NAMES {
            let name: Arc<[u8]> = [7].into();
            cache.insert(&cache.key(next_parent(SecrecyId(42)), &name), name.clone(), None);
        }
        let key = cache.key(low, b"name");
        assert_eq!(cache.shard(&key).read().entries.capacity(), 0);
        assert_eq!(next_parent(SecrecyId(41)), low + PARTS as u64);
        assert_eq!(cache.len(), NAMES);
        cache.clear();
        assert_eq!(cache.len(), 0);
        // Numbers of secrecies beyond the parts.
        assert_eq!(next_parent(SecrecyId(1_000)) as usize % PARTS, PARTS - 1);
    }
}
