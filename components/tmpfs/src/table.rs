//! From inode numbers to inodes: a hash table in shards, so that processors seldom meet on one lock.
use crate::node::Node;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use hashbrown::HashTable;
use interfaces::file_system::InodeNumber;
use rt::{lock_class, sync::RwLock};

lock_class! {
    static TABLE = "tmpfs.table";
}

/// A power of two.
const SHARDS: usize = 16;

/// A shard with room for more than this times its inodes is made smaller.
const SPARSE: usize = 8;

type Shard = RwLock<HashTable<Arc<Node>>>;

/// Spreads numbers, which are given one after the other, over all bits.
fn hash(inode: InodeNumber) -> u64 {
    inode.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Every inode that has a name or a holder.
pub(crate) struct Table {
    shards: [Shard; SHARDS],
    next: AtomicU64,
}

impl Table {
    /// No inodes; numbers are given from `first`.
    pub(crate) fn new(first: InodeNumber) -> Table {
        let shards = core::array::from_fn(|_| RwLock::new(&TABLE, HashTable::new()));
        Table { shards, next: AtomicU64::new(first) }
    }

    /// A number never given before.
    pub(crate) fn new_number(&self) -> InodeNumber {
        self.next.fetch_add(1, Relaxed)
    }

    /// Adds an inode.
    pub(crate) fn insert(&self, node: &Arc<Node>) {
        if let Some(shard) = self.shard(node.inode) {
            let again = |node: &Arc<Node>| hash(node.inode);
            shard.write().insert_unique(hash(node.inode), Arc::clone(node), again);
        }
    }

    /// The inode of that number.
    pub(crate) fn find(&self, inode: InodeNumber) -> Option<Arc<Node>> {
        self.shard(inode)?.read().find(hash(inode), |node| node.inode == inode).cloned()
    }

    /// Takes an inode out; `false` where somebody did already.
    pub(crate) fn remove(&self, inode: InodeNumber) -> bool {
        let Some(shard) = self.shard(inode) else { return false };
        let mut nodes = shard.write();
        let found = nodes.find_entry(hash(inode), |node| node.inode == inode);
        let removed = found.ok().map(|entry| entry.remove().0);
        if nodes.len() * SPARSE < nodes.capacity() {
            let room = 2 * nodes.len();
            nodes.shrink_to(room, |node| hash(node.inode));
        }
        drop(nodes);
        removed.is_some()
    }

    fn shard(&self, inode: InodeNumber) -> Option<&Shard> {
        self.shards.get(inode as usize % SHARDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interfaces::file_system::{FileTime, FileType, NewAcls, NewInode};

    fn node(inode: InodeNumber) -> Arc<Node> {
        let new = NewInode {
            file_type: FileType::Regular,
            permissions: 0o644,
            user: 0,
            group: 0,
            device: (0, 0),
            target: b"",
            now: FileTime::default(),
            acls: NewAcls::default(),
        };
        Node::new(inode, 1, &new).unwrap()
    }

    #[test]
    fn inodes_are_found_until_they_are_removed_and_their_room_is_given_back() {
        let table = Table::new(2);
        let room = || table.shards.iter().map(|shard| shard.read().capacity()).sum::<usize>();
        (2..2000).for_each(|inode| table.insert(&node(inode)));
        for inode in (2..2000).rev() {
            assert_eq!(table.find(inode).unwrap().inode, inode);
            assert!(table.remove(inode) && !table.remove(inode));
            assert!(table.find(inode).is_none());
        }
        assert_eq!(room(), 0);
    }
}
