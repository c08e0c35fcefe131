//! From inode numbers to inodes: a map in shards, so that processors seldom meet on one lock.
use crate::node::Node;
use alloc::{collections::BTreeMap, sync::Arc};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use interfaces::file_system::InodeNumber;
use rt::{lock_class, sync::RwLock};

lock_class! {
    static TABLE = "tmpfs.table";
}

/// A power of two.
const SHARDS: usize = 16;

type Shard = RwLock<BTreeMap<InodeNumber, Arc<Node>>>;

/// Every inode that has a name or a holder.
pub(crate) struct Table {
    shards: [Shard; SHARDS],
    next: AtomicU64,
}

impl Table {
    /// No inodes; numbers are given from `first`.
    pub(crate) fn new(first: InodeNumber) -> Table {
        let shards = core::array::from_fn(|_| RwLock::new(&TABLE, BTreeMap::new()));
        Table { shards, next: AtomicU64::new(first) }
    }

    /// A number never given before.
    pub(crate) fn new_number(&self) -> InodeNumber {
        self.next.fetch_add(1, Relaxed)
    }

    /// Adds an inode.
    pub(crate) fn insert(&self, node: &Arc<Node>) {
        if let Some(shard) = self.shard(node.inode) {
            shard.write().insert(node.inode, Arc::clone(node));
        }
    }

    /// The inode of that number.
    pub(crate) fn find(&self, inode: InodeNumber) -> Option<Arc<Node>> {
        self.shard(inode)?.read().get(&inode).cloned()
    }

    /// Takes an inode out; `false` where somebody did already.
    pub(crate) fn remove(&self, inode: InodeNumber) -> bool {
        let removed = self.shard(inode).and_then(|shard| shard.write().remove(&inode));
        removed.is_some()
    }

    fn shard(&self, inode: InodeNumber) -> Option<&Shard> {
        self.shards.get(inode as usize % SHARDS)
    }
}
