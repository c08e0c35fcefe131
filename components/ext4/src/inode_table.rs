//! The inodes the personality holds, parsed once, with its counts.
use crate::{inode::Inode, volume::Volume};
use alloc::{collections::BTreeMap, sync::Arc};
use interfaces::file_system::{FsError, InodeNumber};
use rt::{lock_class, sync::Mutex};

lock_class! {
    static INODES = "ext4.inodes";
}

/// A power of two.
const SHARDS: usize = 16;

struct Held {
    inode: Arc<Inode>,
    count: u64,
}

type Shard = Mutex<BTreeMap<u32, Held>>;

/// Held inodes, in shards by number.
pub(crate) struct InodeTable {
    shards: [Shard; SHARDS],
}

impl InodeTable {
    /// Nothing held.
    pub(crate) fn new() -> InodeTable {
        InodeTable { shards: core::array::from_fn(|_| Mutex::new(&INODES, BTreeMap::new())) }
    }

    /// The inode, counted up.
    pub(crate) fn hold(&self, volume: &Volume, number: u32) -> Result<Arc<Inode>, FsError> {
        let shard = self.shard(number)?;
        if let Some(held) = shard.lock().get_mut(&number) {
            held.count = held.count.saturating_add(1);
            return Ok(Arc::clone(&held.inode));
        }
        let loaded = Arc::new(Inode::load(volume, number)?);
        let mut shard = shard.lock();
        let held = shard.entry(number).or_insert_with(|| Held { inode: loaded, count: 0 });
        held.count = held.count.saturating_add(1);
        Ok(Arc::clone(&held.inode))
    }

    /// The inode as it is held, else read anew.
    pub(crate) fn get(&self, volume: &Volume, inode: InodeNumber) -> Result<Arc<Inode>, FsError> {
        let number = u32::try_from(inode).map_err(|_| FsError::NotFound)?;
        if let Some(held) = self.shard(number)?.lock().get(&number) {
            return Ok(Arc::clone(&held.inode));
        }
        Inode::load(volume, number).map(Arc::new)
    }

    /// Gives up `count` counts.
    pub(crate) fn forget(&self, inode: InodeNumber, count: u64) {
        let Ok(number) = u32::try_from(inode) else { return };
        let Ok(shard) = self.shard(number) else { return };
        let mut shard = shard.lock();
        let Some(held) = shard.get_mut(&number) else { return };
        held.count = held.count.saturating_sub(count);
        if held.count == 0 {
            shard.remove(&number);
        }
    }

    fn shard(&self, number: u32) -> Result<&Shard, FsError> {
        self.shards.get(number as usize % SHARDS).ok_or(FsError::NotFound)
    }

    /// Inodes held now.
    pub(crate) fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}
