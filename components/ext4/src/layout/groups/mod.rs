//! Block groups: their descriptors and counts in memory, their bitmaps through the cache.
//!
//! [`blocks`] finds and frees runs of blocks, [`inodes`] inodes. Each group has its lock
//! (`ext4.group`, a leaf but for the cache and the log's notes), so that writers in different groups
//! do not meet.
//!
//! A group in memory is what counts. Its descriptor is written, and its bitmaps are summed, once a
//! transaction, when that ends ([`seal::seal`]), not at each change.
//!
//! A group can be "uninitialised": its bitmap on the device is meaningless, and is made when it is first
//! needed.
pub(crate) mod bitmap;
pub(crate) mod blocks;
pub(crate) mod descriptor;
mod free;
mod group;
pub(crate) mod inodes;
mod layout;
mod numbers;
pub(crate) mod seal;
mod space;

use crate::{
    layout::{orphans::Orphans, superblock::Geometry},
    store::Store,
};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use group::Group;
use interfaces::file_system::{FsError, ReservedFor};
use numbers::Numbers;
use rt::{
    lock_class,
    memory::Charge,
    sync::{Mutex, MutexGuard},
};
pub(crate) use space::Account;
use space::FreeSpace;

lock_class! {
    static GROUP = "ext4.group";
}

/// Fewest blocks of a group on a volume that may be written.
const BLOCKS_PER_GROUP_MIN: u64 = 256;

/// The fields of a group that can be read without its lock.
#[derive(Debug)]
struct Fixed {
    /// Blocks of its bitmaps and its inode table, and the number of blocks of each.
    places: [(u64, u64); 3],
    /// Inodes of the group have been used.
    has_inodes: AtomicBool,
}

/// All groups, and the counts of the superblock.
pub(crate) struct Groups {
    groups: Vec<Mutex<Group>>,
    fixed: Vec<Fixed>,
    space: FreeSpace,
    free_inodes: AtomicU64,
    /// The inodes without names.
    pub(crate) orphans: Orphans,
    /// A file of 2 GiB or more was made.
    pub(crate) has_large_file: AtomicBool,
    /// The numbers that levels took.
    pub(crate) numbers: Numbers,
    _charge: Charge,
}

impl Groups {
    /// Reads every descriptor.
    ///
    /// # Errors
    /// [`FsError::Corrupt`] if one is malformed, [`FsError::Unsupported`] for groups that are too small
    /// or whose bitmaps are not whole bytes; `NoMemory`, `Io`.
    pub(crate) fn load(store: &Store, geometry: &Geometry) -> Result<Groups, FsError> {
        let bits = geometry.block_bytes as u64 * 8;
        let is_usual = (BLOCKS_PER_GROUP_MIN..=bits).contains(&geometry.blocks_per_group)
            && geometry.blocks_per_group.is_multiple_of(8)
            && geometry.inodes_per_group.is_multiple_of(8)
            && geometry.inodes == geometry.groups * geometry.inodes_per_group;
        if !is_usual {
            return Err(FsError::Unsupported);
        }
        let bytes = geometry.groups as usize * (size_of::<Mutex<Group>>() + size_of::<Fixed>());
        let charge = Charge::take(bytes).map_err(|_| FsError::NoMemory)?;
        let mut groups = Vec::with_capacity(geometry.groups as usize);
        let mut fixed = Vec::with_capacity(geometry.groups as usize);
        let (mut free_blocks, mut free_inodes) = (0, 0);
        for number in 0..geometry.groups {
            let group = descriptor::load_whole(store, geometry, number)?;
            free_blocks += u64::from(group.free_blocks);
            free_inodes += u64::from(group.free_inodes);
            let table = (group.inode_table, geometry.table_blocks());
            let places = [(group.block_bitmap, 1), (group.inode_bitmap, 1), table];
            let has_inodes = AtomicBool::new(!group.has_unused_inodes());
            fixed.push(Fixed { places, has_inodes });
            groups.push(Mutex::new(&GROUP, group));
        }
        let mut seed = [0; 4];
        rt::entropy::fill(&mut seed);
        Ok(Groups {
            groups,
            fixed,
            space: FreeSpace::new(free_blocks, geometry.kept_blocks, geometry.reserved_for),
            free_inodes: AtomicU64::new(free_inodes),
            orphans: Orphans::new(),
            has_large_file: AtomicBool::new(false),
            numbers: Numbers::new(u32::from_le_bytes(seed)),
            _charge: charge,
        })
    }

    /// Locks a group.
    ///
    /// # Errors
    /// [`FsError::Corrupt`] where the volume has no such group.
    pub(crate) fn lock(&self, number: u32) -> Result<MutexGuard<'_, Group>, FsError> {
        self.groups.get(number as usize).map(|group| group.lock()).ok_or(FsError::Corrupt)
    }

    /// Returns the number of groups.
    pub(crate) fn count(&self) -> u32 {
        self.groups.len() as u32
    }

    /// Iterates over the groups' bitmaps and tables.
    fn fixed(&self) -> impl Iterator<Item = (u64, u64)> {
        self.fixed.iter().flat_map(|fixed| fixed.places)
    }

    /// Returns the start of a group's inode table.
    ///
    /// # Errors
    /// [`FsError::Corrupt`] where the volume has no such group.
    pub(crate) fn inode_table(&self, number: u32) -> Result<u64, FsError> {
        let fixed = self.fixed.get(number as usize);
        fixed.map(|Fixed { places: [.., (table, _)], .. }| *table).ok_or(FsError::Corrupt)
    }

    /// Returns the start of a group's inode table, if inodes of the group were ever used.
    ///
    /// # Errors
    /// [`FsError::Corrupt`] if the volume has no such group, or none of its inodes was ever used.
    pub(crate) fn used_inode_table(&self, number: u32) -> Result<u64, FsError> {
        let fixed = self.fixed.get(number as usize).ok_or(FsError::Corrupt)?;
        let is_used = fixed.has_inodes.load(Acquire);
        if is_used { self.inode_table(number) } else { Err(FsError::Corrupt) }
    }

    /// Notes that inodes of a group are used from now on.
    fn note_inodes(&self, number: u32) {
        if let Some(fixed) = self.fixed.get(number as usize) {
            fixed.has_inodes.store(true, Release);
        }
    }

    /// Returns the number of blocks that are clear in the bitmaps.
    pub(crate) fn free_blocks(&self) -> u64 {
        self.space.free()
    }

    /// Returns the number of blocks that are free and not claimed.
    pub(crate) fn usable_blocks(&self) -> u64 {
        self.space.usable()
    }

    /// Returns the number of those that unprivileged callers may use.
    pub(crate) fn available_blocks(&self) -> u64 {
        self.space.available()
    }

    /// Sets the function that tells whether the calling thread may use root's blocks. Only the first call
    /// counts.
    pub(crate) fn set_judge(&self, is_privileged: fn(ReservedFor) -> bool) {
        self.space.set_judge(is_privileged);
    }

    /// Returns whether `blocks` more blocks cannot be claimed now, but more may be once the running
    /// transaction is durable.
    pub(crate) fn must_wait_for(&self, blocks: u64, account: Account) -> bool {
        self.space.must_wait_for(blocks, account)
    }

    /// Returns whether freed blocks wait for a commit before they can be used again.
    pub(crate) fn has_pending(&self) -> bool {
        self.space.pending() > 0
    }

    /// Returns the number of free inodes.
    pub(crate) fn free_inodes(&self) -> u64 {
        self.free_inodes.load(Relaxed)
    }

    /// Claims blocks for a delayed write of the calling thread.
    ///
    /// # Errors
    /// [`FsError::NoSpace`].
    pub(crate) fn reserve(&self, blocks: u64) -> Result<(), FsError> {
        self.space.claim(blocks, blocks, Account::Caller).map(|_| ())
    }

    /// Gives back blocks that delayed writes had claimed, less those that were taken.
    pub(crate) fn unreserve(&self, blocks: u64, taken: u64) {
        self.space.settle(blocks, taken);
    }

    /// Called when a transaction is durable: the blocks that it freed may be used again.
    pub(crate) fn release(&self, geometry: &Geometry, freed: &[(u64, u64)]) {
        for (start, count) in freed {
            for (group, first, count) in geometry.split(*start, *count) {
                let Ok(mut group) = self.lock(group) else { continue };
                let released = group.pending.remove(u64::from(first), u64::from(count));
                self.space.release(released);
            }
        }
    }
}
