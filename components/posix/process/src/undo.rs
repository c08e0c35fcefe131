//! [`UndoList`]: the sets of System V semaphores in which tasks have something to be undone at their end (SEM_UNDO).
//!
//! Tasks share a list by CLONE_SYSVSEM, and the last of them to end has each set do what the list says. `process.undo` guards
//! the list of sets and is a leaf. Source: semop(2), Linux `ipc/sem.c`.
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::{AtomicU64, Ordering};
use rt::{lock_class, sync::Mutex};

lock_class! {
    static LIST = "process.undo";
}

static NEXT_LIST: AtomicU64 = AtomicU64::new(1);

/// A set that keeps adjustments of its semaphores for lists.
pub trait UndoneSet: Send + Sync {
    /// Applies the adjustments that it keeps for the list with number `list`, as `process`.
    fn undo(&self, list: u64, process: u32);
}

/// The sets in which changes are to be undone at the end of the tasks that share this list.
pub struct UndoList {
    number: u64,
    sets: Mutex<Vec<Weak<dyn UndoneSet>>>,
}

impl UndoList {
    /// Makes a list without sets.
    pub fn new() -> UndoList {
        let number = NEXT_LIST.fetch_add(1, Ordering::Relaxed);
        UndoList { number, sets: Mutex::new(&LIST, Vec::new()) }
    }
    /// Its number, never used again: sets keep its adjustments by it.
    pub fn number(&self) -> u64 {
        self.number
    }
    /// Adds a set that has begun to keep adjustments for the list.
    pub fn add(&self, set: Arc<dyn UndoneSet>) {
        let mut sets = self.sets.lock();
        if sets.len() == sets.capacity() {
            sets.retain(|known| known.strong_count() > 0);
        }
        sets.push(Arc::downgrade(&set));
    }
    /// The last task with the list has ended, or has left it, as one of `process`: each set applies its adjustments.
    pub fn undo_all(self, process: u32) {
        let sets = core::mem::take(&mut *self.sets.lock());
        for set in sets.iter().filter_map(Weak::upgrade) {
            set.undo(self.number, process);
        }
    }
}

impl Default for UndoList {
    fn default() -> Self {
        UndoList::new()
    }
}
