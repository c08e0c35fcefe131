//! Address spaces for programs: Mach's pmap (B4).
//!
//! [`Space`] owns an [`Inner`]: the page tables, whose logic is `libs/pmap`. `Inner::lock` guards all tables below the root
//! except those shared after a fork. A program of a component has two roots: its own, and one that also has the component's
//! memory, which is loaded while the component works for the program. The processor sets accessed and dirty bits meanwhile, so entries change by atomic steps.
//! Dropping the [`Space`] removes every page; the root is freed with the last thread that ran in it.
use super::{
    NoMemory,
    frames::{self, For},
    shootdown,
};
use crate::{
    arch::paging::{self, ENTRIES, Entry, KERNEL_ENTRY, Table},
    objects::{self, Kind},
    spin::PreemptLock,
};
use ::calls::Quota;
use ::calls::{SERVER_BASE, SERVER_END};
use alloc::sync::Arc;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use pmap::{Counts, LeafTable, Pmap};
pub use program::{Protection, USER_END};

/// The page tables of one space take at most one part in this many of memory.
const TABLES_SHARE: usize = 4;

/// The page tables of a space.
#[derive(Debug)]
pub struct Inner {
    root: u32,
    /// The component whose program this is, and the root with its memory.
    server: Option<(Arc<Inner>, u32)>,
    /// First address of the space, and number of bytes.
    start: u64,
    bytes: u64,
    /// Set of processors that have a root loaded.
    pub active: AtomicU64,
    /// Guards the tables.
    pub lock: PreemptLock<()>,
    counts: Counts,
    /// The quota to which the tables are charged, if the space is a domain's.
    quota: Option<Arc<Quota>>,
}

/// An address space; destroyed when dropped.
#[derive(Debug)]
pub struct Space(Arc<Inner>);

impl Space {
    /// Makes an empty space.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn new() -> Result<Space, NoMemory> {
        Space::make(None, 0..USER_END, None)
    }

    /// Makes an empty space whose tables are charged to `quota`.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn charged_to(quota: Arc<Quota>) -> Result<Space, NoMemory> {
        Space::make(Some(quota), 0..USER_END, None)
    }

    /// Makes an empty space in the upper half, for a component that runs programs. Its tables are charged to `quota`.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn of_server(quota: Arc<Quota>) -> Result<Space, NoMemory> {
        let space = Space::make(Some(quota), SERVER_BASE..SERVER_END, None)?;
        // The table below the root's entry stays as long as the space, because the entry is copied.
        pmap::hold_top(&*space, SERVER_BASE)?;
        Ok(space)
    }

    /// Makes an empty space for a program of the component that has this space, to which its tables and its pages are charged.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn for_program(&self) -> Result<Space, NoMemory> {
        Space::make(self.quota.clone(), 0..USER_END, Some(&self.0))
    }

    fn make(
        quota: Option<Arc<Quota>>,
        range: Range<u64>,
        server: Option<&Arc<Inner>>,
    ) -> Result<Space, NoMemory> {
        // SAFETY: the kernel's root lives for ever.
        let kernel = unsafe { paging::table((paging::kernel_root() >> 12) as u32) };
        let mut inner = Inner {
            root: new_root(quota.as_deref(), kernel)?,
            server: None,
            start: range.start,
            bytes: range.end - range.start,
            active: AtomicU64::new(0),
            lock: PreemptLock::new(class!("nucleus.space"), ()),
            counts: Counts::new(frames::totals().0 / TABLES_SHARE),
            quota,
        };
        if let Some(server) = server {
            // SAFETY: a root, which lives as long as the space.
            let like = unsafe { paging::table(server.root) };
            inner.server = Some((server.clone(), new_root(inner.quota.as_deref(), like)?));
        }
        objects::count(Kind::Space, 1);
        Ok(Space(Arc::new(inner)))
    }

    /// Returns the tables, to be kept by a thread that runs in the space.
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

/// Allocates a zeroed table for a space, charged to `quota`.
fn new_table(quota: Option<&Quota>) -> Option<u32> {
    if quota.is_some_and(|quota| !quota.take(1)) {
        return None;
    }
    let give_back = || quota.inspect(|quota| quota.give_back(1)).and(None);
    let frame = frames::allocate_zeroed(For::Program).or_else(give_back)?;
    objects::count(Kind::TableFrame, 1);
    Some(frame)
}

/// Makes a root with the upper half of `like`.
fn new_root(quota: Option<&Quota>, like: &Table) -> Result<u32, NoMemory> {
    let root = new_table(quota).ok_or(NoMemory)?;
    // SAFETY: a frame of ours, zeroed.
    let table = unsafe { paging::table(root) };
    (KERNEL_ENTRY..ENTRIES).for_each(|index| table.set(index, like.get(index)));
    Ok(root)
}

impl Pmap for Inner {
    #[inline]
    fn root(&self) -> u32 {
        self.root
    }
    #[inline]
    fn table(&self, frame: u32) -> &Table {
        // SAFETY: `libs/pmap` asks for the root and for what entries of tables above the leaves say, under the lock.
        unsafe { paging::table(frame) }
    }
    fn allocate_table(&self) -> Option<u32> {
        new_table(self.quota.as_deref())
    }
    fn free_table(&self, frame: u32) {
        frames::references(frame).store(0, Relaxed);
        objects::count(Kind::TableFrame, -1);
        self.quota.iter().for_each(|quota| quota.give_back(1));
        frames::free(frame);
    }
    #[inline]
    fn word(&self, frame: u32) -> &AtomicU32 {
        frames::references(frame)
    }
    fn release_all(&self, pages: impl Iterator<Item = u32>) {
        self.uncharge(frames::release_all(pages));
    }
    fn release_large(&self, first: u32) {
        self.uncharge(frames::release_run(first, ENTRIES));
    }
    #[inline]
    fn set_table(&self, above: u32, slot: usize, entry: Entry) {
        self.table(above).set(slot, entry);
        if let Some((_, second)) = &self.server
            && above == self.root
        {
            self.table(*second).set(slot, entry);
        }
    }
    fn tops(&self) -> Range<usize> {
        let first = paging::index(self.start, 3);
        first..first + self.bytes.div_ceil(1 << 39) as usize
    }
    fn forget(&self, start: u64, pages: usize) {
        shootdown::user(self, start, pages);
    }
    #[inline]
    fn counts(&self) -> &Counts {
        &self.counts
    }
    fn count_large(&self, by: isize) {
        objects::count(Kind::LargePage, by as i64);
    }
}

impl Inner {
    /// Returns the counts of the space's pages and tables.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the physical address of the root to be loaded: that with the component's memory, if the space is a component's
    /// program's.
    #[inline]
    pub fn root(&self) -> u64 {
        u64::from(self.server.as_ref().map_or(self.root, |(_, second)| *second)) << 12
    }

    /// Returns the physical address of the root with which the program runs.
    pub fn program_root(&self) -> u64 {
        u64::from(self.root) << 12
    }

    /// Returns the space of the component whose program has this space.
    #[inline]
    pub fn server(&self) -> Option<&Arc<Inner>> {
        self.server.as_ref().map(|(server, _)| server)
    }

    /// Returns whether the memory of `space` is there while this space is loaded.
    #[inline]
    pub fn shows(&self, space: *const Inner) -> bool {
        core::ptr::eq(self, space)
            || self.server().is_some_and(|server| Arc::as_ptr(server) == space)
    }

    /// Returns the number of bytes from `address` to the space's end; 0 if it is no address of the space.
    #[inline(always)]
    pub fn bytes_from(&self, address: u64) -> u64 {
        self.bytes.saturating_sub(address.wrapping_sub(self.start))
    }

    /// Charges `pages` new pages of a component's program to the component.
    pub(super) fn charge(&self, pages: usize) -> Result<(), NoMemory> {
        let quota = self.quota.as_ref().filter(|_| self.server.is_some());
        if quota.is_none_or(|quota| quota.take(pages)) { Ok(()) } else { Err(NoMemory) }
    }

    /// Undoes [`Inner::charge`]: `pages` pages were freed.
    pub fn uncharge(&self, pages: usize) {
        if let (Some(quota), Some(_)) = (&self.quota, &self.server) {
            quota.give_back(pages);
        }
    }

    /// Returns the leaf table for a kernel address in a space that is not in use yet. All tables under its entry of the root
    /// become the space's own.
    pub(super) fn own_leaf(&self, address: u64) -> Result<LeafTable<'_>, NoMemory> {
        let _guard = self.lock.lock();
        self.table(self.root).set(paging::index(address, 3), Entry::empty());
        pmap::own(self, address)
    }

    /// Removes every page and table. The owner is gone: no thread runs in the space any more, though some may have it loaded.
    fn destroy(&self) {
        loop {
            let mut tops = [0; pmap::TOPS];
            let count = {
                let _guard = self.lock.lock();
                pmap::detach_tops(self, &mut tops)
            };
            // A table that is out of the root and out of every processor has no other user.
            shootdown::evict(self);
            tops.iter().take(count).for_each(|&top| pmap::free_tree(self, top, 2));
            if count < tops.len() {
                break;
            }
        }
        self.counts.clear();
        objects::count(Kind::Space, -1);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        shootdown::evict(self);
        let ports = self.table(self.root).get(paging::index(paging::PORT_AREA, 3));
        // The kernel's tables are not of this type.
        if ports.contains(pmap::TABLE) {
            pmap::free_tree(self, ports.frame(), 2);
        }
        self.free_table(self.root);
        if let Some((_, second)) = self.server {
            self.free_table(second);
        }
    }
}
