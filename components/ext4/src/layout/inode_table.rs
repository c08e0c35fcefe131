//! The inodes that the personality holds, parsed once, with the personality's counts.
//!
//! Locks: `ext4.inodes` guards the table's shards, for map operations only; `ext4.inode` one inode,
//! held during the I/O that a reader or a change of it needs, several in order of their addresses;
//! `ext4.delayed` the pages of a file that are dirty in the page cache and have no blocks (a leaf).
#[cfg(doc)]
use crate::layout::groups::Account;
use crate::{
    layout::{groups::Groups, inode::Inode, ranges::Ranges, volume::Volume},
    store::log::Operation,
};
use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicU64, Ordering::*};
use interfaces::file_system::{FsError, InodeNumber};
use rt::{
    lock_class,
    sync::{Mutex, ReadGuard, RwLock, WriteGuard},
};

lock_class! {
    static INODES = "ext4.inodes";
    static INODE = "ext4.inode";
    static DELAYED = "ext4.delayed";
}

/// Number of shards, a power of two.
const SHARDS: usize = 16;

/// An inode in use.
pub(crate) struct LiveInode {
    /// Its number.
    pub(crate) number: u32,
    inode: RwLock<Inode>,
    /// The last transaction that changed it.
    changed: AtomicU64,
    /// The last transaction that kept data of it for a commit.
    kept: AtomicU64,
    delayed: Mutex<Ranges>,
}

impl LiveInode {
    /// Makes a node of an inode, which the running transaction may have changed before it was
    /// forgotten.
    pub(crate) fn new(volume: &Volume, inode: Inode) -> LiveInode {
        LiveInode {
            number: inode.number,
            inode: RwLock::new(&INODE, inode),
            changed: AtomicU64::new(volume.store.log.running_id()),
            kept: AtomicU64::new(0),
            delayed: Mutex::new(&DELAYED, Ranges::default()),
        }
    }

    /// Locks the inode to read it.
    pub(crate) fn read(&self) -> ReadGuard<'_, Inode> {
        self.inode.read()
    }

    /// Locks the inode to change it.
    pub(crate) fn write(&self) -> WriteGuard<'_, Inode> {
        let mut inode = self.inode.write();
        inode.turn += 1;
        inode
    }

    /// Notes that an operation changed the inode.
    pub(crate) fn note(&self, operation: &Operation<'_>) {
        self.changed.fetch_max(operation.id(), AcqRel);
    }

    /// The last transaction that changed it.
    pub(crate) fn last_change(&self) -> u64 {
        self.changed.load(Acquire)
    }

    /// Notes that data of it is kept for a commit.
    pub(crate) fn note_kept(&self, operation: &Operation<'_>) {
        self.kept.fetch_max(operation.id(), AcqRel);
    }

    /// The last transaction that kept data of it for a commit.
    pub(crate) fn last_kept(&self) -> u64 {
        self.kept.load(Acquire)
    }

    /// Adds pages for which blocks are reserved, each counted as `blocks` blocks.
    pub(crate) fn delay(
        &self,
        groups: &Groups,
        pages: &[(u64, u64)],
        blocks: u64,
    ) -> Result<(), FsError> {
        let mut delayed = self.delayed.lock();
        let missing: u64 = pages.iter().map(|(first, count)| delayed.missing(*first, *count)).sum();
        groups.reserve(missing.saturating_mul(blocks))?;
        for (first, count) in pages {
            delayed.insert(*first, *count);
        }
        Ok(())
    }

    /// Returns the number of pages for which blocks are reserved.
    pub(crate) fn delayed_pages(&self) -> u64 {
        self.delayed.lock().count()
    }

    /// Ends the reservation for pages that have their blocks, or need none any more.
    pub(crate) fn undelay(&self, groups: &Groups, first: u64, count: u64, blocks: u64) {
        self.settle(groups, (first, count), blocks, 0);
    }

    /// Ends the reservation as [`LiveInode::undelay`] does, for pages for which `taken` blocks were taken
    /// from [`Account::Delayed`].
    pub(crate) fn settle(
        &self,
        groups: &Groups,
        (first, count): (u64, u64),
        blocks: u64,
        taken: u64,
    ) {
        let removed = self.delayed.lock().remove(first, count);
        groups.unreserve(removed.saturating_mul(blocks), taken);
    }

    /// Returns whether blocks are reserved for a page, and the number of pages from it on for which
    /// the answer is the same.
    pub(crate) fn delayed_from(&self, page: u64) -> (bool, u64) {
        match self.delayed.lock().at_or_after(page) {
            Some((start, end)) if start <= page => (true, end - page),
            Some((start, _)) => (false, start - page),
            None => (false, u64::MAX - page),
        }
    }
}

/// Locks several nodes to be changed, each once, in order of their addresses.
pub(crate) fn lock_all<'n>(nodes: &[&'n LiveInode]) -> Vec<(u32, WriteGuard<'n, Inode>)> {
    let mut sorted: Vec<&LiveInode> = nodes.to_vec();
    sorted.sort_by_key(|node| core::ptr::from_ref(*node).addr());
    sorted.dedup_by_key(|node| node.number);
    sorted.into_iter().map(|node| (node.number, node.write())).collect()
}

struct HeldInode {
    node: Arc<LiveInode>,
    count: u64,
}

type Shard = Mutex<BTreeMap<u32, HeldInode>>;

/// The held inodes, in shards by number.
pub(crate) struct InodeTable {
    shards: [Shard; SHARDS],
}

impl InodeTable {
    /// Makes an empty table.
    pub(crate) fn new() -> InodeTable {
        InodeTable { shards: core::array::from_fn(|_| Mutex::new(&INODES, BTreeMap::new())) }
    }

    /// Returns the inode, with its count increased.
    pub(crate) fn hold(&self, volume: &Volume, number: u32) -> Result<Arc<LiveInode>, FsError> {
        let shard = self.shard(number)?;
        if let Some(held) = shard.lock().get_mut(&number) {
            held.count = held.count.saturating_add(1);
            return Ok(Arc::clone(&held.node));
        }
        let loaded = Inode::load(volume, number)?;
        self.insert(volume, loaded)
    }

    /// Adds an inode that was just made or loaded, with its count increased.
    pub(crate) fn insert(&self, volume: &Volume, inode: Inode) -> Result<Arc<LiveInode>, FsError> {
        let number = inode.number;
        let node = Arc::new(LiveInode::new(volume, inode));
        let mut shard = self.shard(number)?.lock();
        let held = shard.entry(number).or_insert_with(|| HeldInode { node, count: 0 });
        held.count = held.count.saturating_add(1);
        Ok(Arc::clone(&held.node))
    }

    /// Returns the inode from the table, or reads it.
    pub(crate) fn get(
        &self,
        volume: &Volume,
        inode: InodeNumber,
    ) -> Result<Arc<LiveInode>, FsError> {
        let number = u32::try_from(inode).map_err(|_| FsError::NotFound)?;
        if let Some(held) = self.shard(number)?.lock().get(&number) {
            return Ok(Arc::clone(&held.node));
        }
        Ok(Arc::new(LiveInode::new(volume, Inode::load(volume, number)?)))
    }

    /// Decreases the count by `count`. Returns the node if its count is zero then.
    pub(crate) fn forget(&self, inode: InodeNumber, count: u64) -> Option<Arc<LiveInode>> {
        let number = u32::try_from(inode).ok()?;
        let mut shard = self.shard(number).ok()?.lock();
        let held = shard.get_mut(&number)?;
        held.count = held.count.saturating_sub(count);
        if held.count > 0 {
            return None;
        }
        shard.remove(&number).map(|held| held.node)
    }

    fn shard(&self, number: u32) -> Result<&Shard, FsError> {
        self.shards.get(number as usize % SHARDS).ok_or(FsError::NotFound)
    }

    /// Returns the number of inodes held now.
    pub(crate) fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}
