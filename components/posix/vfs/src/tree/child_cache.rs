//! [`ChildCache`]: the dentries of generated files about one object, kept between walks.
//!
//! The names of such files go with the object (a process), so that the name cache cannot hold them: a dentry leads to its
//! object. The object holds a few of them instead, finds them where it is found itself, and closes the cache at its own end:
//! neither would go otherwise. Lock: `vfs.children`, a leaf; dentries are dropped without it.
use crate::tree::dentry::Dentry;
use alloc::{sync::Arc, vec::Vec};
use rt::{lock_class, sync::Mutex};

lock_class! {
    static CHILDREN = "vfs.children";
}

/// The greatest number of dentries of one object.
const ENTRIES_MAX: usize = 8;

struct CachedChild {
    parent: u64,
    place: u64,
    dentry: Arc<Dentry>,
}

#[derive(Default)]
struct ChildCacheState {
    entries: Vec<CachedChild>,
    /// The entry to be replaced next.
    oldest: usize,
    is_closed: bool,
}

/// The cache of one object.
pub struct ChildCache(Mutex<ChildCacheState>);

impl ChildCache {
    /// Makes an empty cache.
    pub fn new() -> ChildCache {
        ChildCache(Mutex::new(&CHILDREN, ChildCacheState::default()))
    }
    /// Returns the dentry at `place` of the directory whose dentry has the number `parent`.
    pub(crate) fn get(&self, parent: u64, place: u64) -> Option<Arc<Dentry>> {
        let state = self.0.lock();
        let is_it = |entry: &&CachedChild| entry.parent == parent && entry.place == place;
        state.entries.iter().find(is_it).map(|entry| entry.dentry.clone())
    }
    /// Adds `dentry`, in place of the oldest one if the cache is full. If memory is short or the object has ended, nothing
    /// is added.
    pub(crate) fn put(&self, parent: u64, place: u64, dentry: &Arc<Dentry>) {
        let entry = CachedChild { parent, place, dentry: dentry.clone() };
        let mut state = self.0.lock();
        let ChildCacheState { entries, oldest, is_closed } = &mut *state;
        if *is_closed {
            return;
        }
        let mut replaced = None;
        if entries.len() < ENTRIES_MAX {
            if entries.try_reserve(1).is_ok() {
                entries.push(entry);
            }
        } else if let Some(place) = entries.get_mut(*oldest) {
            replaced = Some(core::mem::replace(place, entry));
            *oldest = (*oldest + 1) % ENTRIES_MAX;
        }
        drop(state);
        drop(replaced);
    }
    /// Drops all dentries: the object has ended.
    pub fn close(&self) {
        let mut state = self.0.lock();
        state.is_closed = true;
        let entries = core::mem::take(&mut state.entries);
        drop(state);
        drop(entries);
    }
}

impl Default for ChildCache {
    fn default() -> ChildCache {
        ChildCache::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        tree::node::{Node, attributes},
        tree::{instance::Instance, vnode::Vnode},
    };
    use interfaces::file_system::{Attributes, FileType};

    struct Nothing;

    impl Node for Nothing {
        fn attributes(&self) -> Attributes {
            attributes(1, FileType::Regular, 0, (0, 0))
        }
    }

    fn dentry() -> Arc<Dentry> {
        let instance = Instance::generated("test");
        Dentry::root(b"name", Vnode::generated(&instance, Arc::new(Nothing))).unwrap()
    }

    #[test]
    fn the_oldest_goes_for_the_newest() {
        let cache = ChildCache::new();
        let kept: Vec<_> = (0..=ENTRIES_MAX as u64).map(|place| (place, dentry())).collect();
        kept.iter().for_each(|(place, dentry)| cache.put(7, *place, dentry));
        assert!(cache.get(7, 0).is_none());
        for (place, dentry) in &kept[1..] {
            assert!(Arc::ptr_eq(&cache.get(7, *place).unwrap(), dentry));
        }
        assert!(cache.get(8, 1).is_none(), "of another directory");
        assert_eq!(Arc::strong_count(&kept[0].1), 1, "what was replaced is let go");
    }

    #[test]
    fn a_closed_cache_holds_nothing() {
        let cache = ChildCache::new();
        let kept = dentry();
        cache.put(7, 1, &kept);
        assert_eq!(Arc::strong_count(&kept), 2);
        cache.close();
        cache.put(7, 1, &kept);
        assert!(cache.get(7, 1).is_none());
        assert_eq!(Arc::strong_count(&kept), 1);
    }
}
