//! The file systems in use, as allocations and page caches see them: [`Store`].
//!
//! A refused allocation takes memory from all file systems, and the flushers of all write where too many pages are dirty. These
//! are calls upwards; they go through the trait, on paths that are slow anyway. Lock: `vfs.stores`, a leaf.
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use rt::{lock_class, sync::Mutex};

lock_class! {
    static STORES = "vfs.stores";
}

/// A mounted file system with its caches.
pub(crate) trait Store: Send + Sync {
    /// Gives back clean pages, and names and other objects not used lately, until `goal` is met or nothing is left.
    fn shrink(&self, goal: &mut Goal);
    /// Has its flusher look at what is due.
    fn wake_flusher(&self);
    /// Has its flusher write everything dirty now.
    fn hurry_flusher(&self);
}

static ALL: Mutex<Vec<Weak<dyn Store>>> = Mutex::new(&STORES, Vec::new());

/// From now on `store` is asked, until it is dropped.
pub(crate) fn register(store: Weak<dyn Store>) {
    let mut all = ALL.lock();
    all.retain(|known| known.strong_count() > 0);
    all.push(store);
}

/// Every file system in use.
pub(crate) fn all() -> Vec<Arc<dyn Store>> {
    ALL.lock().iter().filter_map(Weak::upgrade).collect()
}

/// Number of names, with the objects they keep, that fill about a page of the heap.
const NAMES_A_PAGE: usize = 4;

/// Pages to be given back, and those that were.
#[derive(Debug)]
pub(crate) struct Goal {
    pages: usize,
    freed: usize,
}

impl Goal {
    /// `pages` are wanted.
    pub(crate) fn new(pages: usize) -> Goal {
        Goal { pages, freed: 0 }
    }
    /// Pages freed, for objects of the heap an estimate.
    pub(crate) fn freed(&self) -> usize {
        self.freed
    }
    /// Pages still wanted.
    pub(crate) fn left(&self) -> usize {
        self.pages.saturating_sub(self.freed)
    }
    /// So many pages were freed.
    pub(crate) fn note_pages(&mut self, pages: usize) {
        self.freed += pages;
    }
    /// So many names were dropped. They give objects of the heap back, which need not be whole pages: half of what is asked for
    /// is pages.
    pub(crate) fn note_names(&mut self, names: usize) {
        self.freed += names.div_ceil(NAMES_A_PAGE).min(self.pages / 2);
    }
}
