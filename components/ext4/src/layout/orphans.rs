//! Orphans: inodes without names that are still held, and files being cut; the list of them on the volume.
//!
//! ```text
//! superblock: last orphan -> inode: delete time -> inode: delete time -> 0
//! ```
//! A mount after a crash frees them, or cuts them to their size. The list in memory is the valid one: an inode on it gets its
//! link to the next one whenever it is stored.
//!
//! Without a journal there is no list on the volume: `e2fsck` frees inodes without links, and the order of writes could not
//! keep a list whole.
use alloc::collections::BTreeMap;
use rt::{lock_class, sync::Mutex};

lock_class! {
    static ORPHANS = "ext4.orphans";
}

/// The neighbours in the list; zero for none.
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
    /// Makes an empty list.
    pub(crate) fn new() -> Orphans {
        Orphans { list: Mutex::new(&ORPHANS, List::default()) }
    }

    /// Returns the first inode, which the superblock names.
    pub(crate) fn head(&self) -> u32 {
        self.list.lock().head
    }

    /// Returns the successor of an inode on the list; `None` for an inode that is not on it.
    pub(crate) fn next_of(&self, inode: u32) -> Option<u32> {
        self.list.lock().links.get(&inode).map(|link| link.next)
    }

    /// Adds an inode in front.
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

    /// Adds an inode after `last`, the end of the list (0 if it is empty).
    pub(crate) fn append(&self, last: u32, inode: u32) {
        let mut list = self.list.lock();
        match list.links.get_mut(&last) {
            Some(link) => link.next = inode,
            None => list.head = inode,
        }
        list.links.insert(inode, Neighbours { previous: last, next: 0 });
    }

    /// Removes an inode. Returns the one before it, whose link changed.
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
