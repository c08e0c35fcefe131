//! Inodes without names that somebody still holds, and files being cut: the list on the volume.
//!
//! ```text
//! superblock: last orphan -> inode: delete time -> inode: delete time -> 0
//! ```
//! A mount after a crash frees them, or cuts them to their size. The list in memory is
//! the one that counts: an inode on it gets its link to the next whenever it is stored.
//!
//! Without a journal there is no list on the volume: an inode without links is one that `e2fsck`
//! frees, and the order of writes could not keep a list whole.
use alloc::collections::BTreeMap;
use rt::{lock_class, sync::Mutex};

lock_class! {
    static ORPHANS = "ext4.orphans";
}

/// Neighbours in the list; zero where there is none.
#[derive(Clone, Copy, Default)]
struct Neighbours {
    previous: u32,
    next: u32,
}

#[derive(Default)]
struct List {
    head: u32,
    links: BTreeMap<u32, Neighbours>,
}

/// The list. Its lock (`ext4.orphans`) is a leaf.
pub(crate) struct Orphans {
    list: Mutex<List>,
}

impl Orphans {
    /// Nothing on it.
    pub(crate) fn new() -> Orphans {
        Orphans { list: Mutex::new(&ORPHANS, List::default()) }
    }

    /// The first inode, which the superblock names.
    pub(crate) fn head(&self) -> u32 {
        self.list.lock().head
    }

    /// The successor of an inode on the list; `None` for one that is not.
    pub(crate) fn next_of(&self, inode: u32) -> Option<u32> {
        self.list.lock().links.get(&inode).map(|link| link.next)
    }

    /// Adds one in front.
    pub(crate) fn push(&self, inode: u32) {
        let mut list = self.list.lock();
        let next = list.head;
        if list.links.contains_key(&inode) {
            return;
        }
        if let Some(link) = list.links.get_mut(&next) {
            link.previous = inode;
        }
        list.links.insert(inode, Neighbours { previous: 0, next });
        list.head = inode;
    }

    /// Adds one behind `last`, the end of the list (0: it is empty).
    pub(crate) fn append(&self, last: u32, inode: u32) {
        let mut list = self.list.lock();
        match list.links.get_mut(&last) {
            Some(link) => link.next = inode,
            None => list.head = inode,
        }
        list.links.insert(inode, Neighbours { previous: last, next: 0 });
    }

    /// Takes one out; returns the one before it, whose link changed.
    pub(crate) fn take(&self, inode: u32) -> Option<u32> {
        let mut list = self.list.lock();
        let Neighbours { previous, next } = list.links.remove(&inode)?;
        if let Some(link) = list.links.get_mut(&next) {
            link.previous = previous;
        }
        match list.links.get_mut(&previous) {
            Some(link) => link.next = next,
            None => list.head = next,
        }
        (previous != 0).then_some(previous)
    }

    /// Empties the list.
    pub(crate) fn clear(&self) {
        *self.list.lock() = List::default();
    }
}
