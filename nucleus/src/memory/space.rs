//! Address spaces for programs: Mach's pmap (B4).
//!
//! [`Space`] owns an [`Inner`]: the page tables. Every entry that holds a frame has a reference to
//! it. `Inner::lock` guards all tables below the root; the processor sets accessed and dirty bits
//! meanwhile, so entries change by atomic steps. Dropping the [`Space`] takes every page out;
//! the root goes with the last thread that ran in it.
use super::{
    NoMemory, PAGE,
    frames::{self, For},
    shootdown,
};
use crate::{
    arch::paging::{self, ENTRIES, Entry, KERNEL_ENTRY, Table},
    objects::{self, Kind},
    spin::PreemptLock,
};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
pub use program::Protection;

/// First address that is never a program's.
pub const USER_END: u64 = 0x7fff_ffff_f000;
/// Bytes a leaf table maps.
pub const LEAF_BYTES: u64 = (ENTRIES * PAGE) as u64;

/// The page tables of a space.
#[derive(Debug)]
pub struct Inner {
    root: u32,
    /// Processors that have the root loaded.
    pub active: AtomicU64,
    /// Guards the tables.
    pub lock: PreemptLock<()>,
    pub(super) resident: AtomicUsize,
}

/// An address space; destroyed when dropped.
#[derive(Debug)]
pub struct Space(Arc<Inner>);

impl Space {
    /// An empty space.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn new() -> Result<Space, NoMemory> {
        let root = new_table().ok_or(NoMemory)?;
        // SAFETY: a frame of ours, zeroed.
        let table = unsafe { paging::table(root) };
        // SAFETY: the kernel's root lives for ever.
        let kernel = unsafe { paging::table((paging::kernel_root() >> 12) as u32) };
        (KERNEL_ENTRY..ENTRIES).for_each(|index| table.set(index, kernel.get(index)));
        objects::count(Kind::Space, 1);
        Ok(Space(Arc::new(Inner {
            root,
            active: AtomicU64::new(0),
            lock: PreemptLock::new(class!("nucleus.space"), ()),
            resident: AtomicUsize::new(0),
        })))
    }

    /// The tables, to be kept by a thread that runs in them.
    pub fn inner(&self) -> &Arc<Inner> {
        &self.0
    }
}

impl core::ops::Deref for Space {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        self.0.destroy();
    }
}

/// A zeroed table for a space.
fn new_table() -> Option<u32> {
    let frame = frames::allocate_zeroed(For::Program)?;
    objects::count(Kind::TableFrame, 1);
    Some(frame)
}

/// Gives a table back.
pub(super) fn free_table(frame: u32) {
    objects::count(Kind::TableFrame, -1);
    frames::free(frame);
}

const TABLE: Entry = Entry::PRESENT.union(Entry::WRITE).union(Entry::USER).union(Entry::ACCESSED);

impl Inner {
    /// Physical address of the root.
    #[inline]
    pub fn root(&self) -> u64 {
        u64::from(self.root) << 12
    }

    /// Pages present.
    pub fn resident(&self) -> usize {
        self.resident.load(Relaxed)
    }

    /// Counts present pages; the lock is held.
    pub(super) fn count_resident(&self, by: isize) {
        let now = self.resident.load(Relaxed);
        self.resident.store(now.wrapping_add_signed(by), Relaxed);
    }

    /// The leaf table for `address`, or the first address after `address` that another table may have.
    /// The lock is held.
    #[inline]
    pub(super) fn leaf(&self, address: u64) -> Result<&Table, u64> {
        self.table(address, 0)
    }

    /// As [`Inner::leaf`], of the table at `wanted` levels above the leaves.
    #[inline(always)]
    fn table(&self, address: u64, wanted: u32) -> Result<&Table, u64> {
        let mut frame = self.root;
        for level in (wanted + 1..4).rev() {
            // SAFETY: the root, or a table under it that goes only under the lock.
            let table = unsafe { paging::table(frame) };
            let entry = table.get(paging::index(address, level));
            if !entry.contains(Entry::PRESENT) {
                let bytes = 1u64 << (12 + 9 * level);
                return Err((address | (bytes - 1)) + 1);
            }
            frame = entry.frame();
        }
        // SAFETY: as above.
        Ok(unsafe { paging::table(frame) })
    }

    /// The leaf table for `address`, made where there is none. The lock is held.
    #[inline]
    pub(super) fn leaf_or_new(&self, address: u64) -> Result<&Table, NoMemory> {
        let mut frame = self.root;
        for level in (1..4).rev() {
            // SAFETY: the root, or a table under it that goes only under the lock.
            let table = unsafe { paging::table(frame) };
            let index = paging::index(address, level);
            let entry = table.get(index);
            frame = if entry.contains(Entry::PRESENT) {
                entry.frame()
            } else {
                let new = new_table().ok_or(NoMemory)?;
                table.set(index, Entry::new(new, TABLE));
                new
            };
        }
        // SAFETY: as above.
        Ok(unsafe { paging::table(frame) })
    }

    /// As [`Inner::leaf_or_new`], for an address of the kernel's in a space that nobody uses yet: all under its entry of
    /// the root becomes the space's own.
    pub(super) fn own_leaf(&self, address: u64) -> Result<&Table, NoMemory> {
        let _guard = self.lock.lock();
        // SAFETY: our root.
        unsafe { paging::table(self.root) }.set(paging::index(address, 3), Entry::empty());
        self.leaf_or_new(address)
    }

    /// Takes the leaf table of `address` out of the tables above; its frame, to be freed after a
    /// shootdown. The lock is held.
    pub(super) fn detach_leaf(&self, address: u64) -> Option<u32> {
        let table = self.table(address, 1).ok()?;
        let entry = table.swap(paging::index(address, 1), Entry::empty());
        entry.contains(Entry::PRESENT).then(|| entry.frame())
    }

    /// Takes every page and table out. The owner is gone: no thread runs in the space any more,
    /// though some may have it loaded.
    fn destroy(&self) {
        let mut tops = [0u32; KERNEL_ENTRY];
        {
            let _guard = self.lock.lock();
            // SAFETY: our root.
            let root = unsafe { paging::table(self.root) };
            for (index, top) in tops.iter_mut().enumerate() {
                if root.get(index).contains(Entry::PRESENT) {
                    *top = root.swap(index, Entry::empty()).frame();
                }
            }
            self.resident.store(0, Relaxed);
        }
        shootdown::evict(self);
        for &top in tops.iter().filter(|&&top| top != 0) {
            // SAFETY: out of the root and of every processor: ours alone.
            unsafe { free_tree(top, 2) };
        }
        objects::count(Kind::Space, -1);
    }
}

/// Frees a table of `level` and all below.
///
/// # Safety
/// Nobody else reaches the table.
unsafe fn free_tree(frame: u32, level: u32) {
    // SAFETY: as the caller says.
    let table = unsafe { paging::table(frame) };
    let entries = table.used().map(|(_, entry)| entry);
    if level == 0 {
        frames::release_all(entries.filter(|entry| entry.holds_frame()).map(|entry| entry.frame()));
    } else {
        for entry in entries.filter(|entry| entry.contains(Entry::PRESENT)) {
            // SAFETY: as the caller says, also for what is below.
            unsafe { free_tree(entry.frame(), level - 1) };
        }
    }
    free_table(frame);
}

impl Drop for Inner {
    fn drop(&mut self) {
        shootdown::evict(self);
        // SAFETY: our root.
        let ports = unsafe { paging::table(self.root) }.get(paging::index(paging::PORT_AREA, 3));
        // The kernel's tables are not of this kind.
        if ports.contains(TABLE) {
            // SAFETY: the space's own, and loaded nowhere.
            unsafe { free_tree(ports.frame(), 2) };
        }
        free_table(self.root);
    }
}
