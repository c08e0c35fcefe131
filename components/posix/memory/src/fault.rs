//! Page faults: finds the region and makes pages present (docs/memory.md describes the steps).
//!
//! A fault holds the map's lock to read. If an object must read from storage, the fault releases the lock, waits, and looks
//! everything up again with the frame it got. Several faults on one page are settled by `Space`: a page already present stays,
//! and making a page writable is one operation.
use super::{
    fault_counts::{self, FaultKind},
    map::{GUARD_GAP, Map, lowest},
    region::{Backing, Flags, PAGE, Region, is_same_object, page_of, range},
    space::AddressSpace,
};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::Ordering;
use rt::{
    NoMemory,
    memory::Frame,
    sync::Once,
    user::{Access, PageRange, Protection, USER_END, Unshared},
};
use vfs::{
    Errno, ErrorNumber, NOBODY, Principal,
    file::{Mappable, PageUse, Watcher},
};

/// Number of pages made present around a fault on an object whose pages are in memory (Linux's 64 KiB).
const AROUND_OBJECT: u64 = 16;
/// Number of pages made present around a store to anonymous memory; from the second store in sequence on twice as many each
/// time, ahead of it, up to [`AHEAD_MAX`].
const AROUND_ANONYMOUS: u64 = 4;
pub(super) const AHEAD_MAX: u64 = 32;
/// Anonymous regions up to this number of pages get memory of their own at the first load; larger ones, which may be sparse,
/// share one frame of zeroes until a store.
const SMALL_PAGES: u64 = 512;

/// The reason why a fault was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultError {
    /// Nothing is mapped at the address.
    Unmapped,
    /// The mapping does not allow the access.
    Denied,
    /// The object has no such page, or it could not be read.
    NoPage,
    /// Memory for the page was refused.
    NoMemory,
}

impl From<NoMemory> for FaultError {
    fn from(_: NoMemory) -> Self {
        FaultError::NoMemory
    }
}

/// Number of reclaim rounds of the page cache that a fault without memory makes before it gives up: a round may free nothing
/// and only clear marks of recent use.
const RECLAIMS: u32 = 4;
/// Number of faults of an address space between two checks of free memory: programs that grow use the memory of the page cache
/// before they reach the reserve.
const FAULTS_A_LOOK: u64 = 32;
/// Number of pages to reclaim at once.
const RECLAIM_PAGES: usize = 256;

/// A page of an object, fetched without the map's lock.
struct Fetched {
    object: Arc<dyn Mappable>,
    index: u64,
    wanted: PageUse,
    frame: Frame,
    /// [`AddressSpace::changes`] before it was fetched: if that has changed, the page may have been removed, or may be being
    /// written to storage.
    changes: u64,
}

/// The result of one lookup in the map.
enum FaultStep {
    /// The page is present; the program can continue.
    Done,
    /// The object must be asked for page `index` first, without the lock.
    Fetch { object: Arc<dyn Mappable>, index: u64, wanted: PageUse },
}

fn is_resident(object: &Arc<dyn Mappable>, index: u64) -> bool {
    let mut is_there = false;
    object.resident(index, 1, &mut |_, _| is_there = true);
    is_there
}

impl AddressSpace {
    /// Handles a fault of the personality's own access: `access` at `address` was not possible. Reads from storage are charged
    /// to the process of the address space.
    ///
    /// # Errors
    /// The reason; the access fails with `EFAULT`.
    ///
    /// # Locks
    /// Those of [`AddressSpace::fault_for`].
    pub fn fault(&self, address: u64, access: Access) -> Result<FaultKind, FaultError> {
        self.fault_for(address, access, None)
    }
    /// Handles a fault for `caller`, to which reads from storage are charged; `None` stands for the process of the address
    /// space.
    ///
    /// # Errors
    /// The reason; to a program it is a signal.
    ///
    /// # Locks
    /// `memory.map`, to read (to write if the stack grows).
    pub fn fault_for(
        &self,
        address: u64,
        access: Access,
        caller: Option<&dyn Principal>,
    ) -> Result<FaultKind, FaultError> {
        let mut kind = FaultKind::Minor;
        let page = page_of(address);
        if self.faults.get().minor.is_multiple_of(FAULTS_A_LOOK) {
            vfs::make_room(FAULTS_A_LOOK as usize);
        }
        let mut fetched: Option<Fetched> = None;
        let mut reclaims = 0;
        loop {
            let map = self.map.read();
            let changes = self.changes.load(Ordering::Relaxed);
            fetched = fetched.filter(|fetched| fetched.changes == changes);
            let Some(region) = map.find(address) else {
                drop(map);
                self.grow_stack(page)?;
                continue;
            };
            check_access(region, access)?;
            match self.enter(region, page, access, fetched.take()) {
                Ok(FaultStep::Done) => {
                    self.faults.add(kind);
                    fault_counts::add_to_system(kind);
                    return Ok(kind);
                }
                Err(FaultError::NoMemory)
                    if reclaims < RECLAIMS && !self.space.is_out_of_tables() =>
                {
                    drop(map);
                    reclaims += 1;
                    vfs::reclaim(RECLAIM_PAGES);
                }
                Err(bad) => return Err(bad),
                Ok(FaultStep::Fetch { object, index, wanted }) => {
                    let owner = if caller.is_none() { map.owner() } else { None };
                    drop(map);
                    if object.identity() != 0 && !is_resident(&object, index) {
                        kind = FaultKind::Major;
                    }
                    let caller = caller.or(owner.as_deref()).unwrap_or(NOBODY);
                    let frame = object.page(index, wanted, caller).map_err(bad_page)?;
                    fetched = Some(Fetched { object, index, wanted, frame, changes });
                }
            }
        }
    }

    fn enter(
        &self,
        region: &Region,
        page: u64,
        access: Access,
        fetched: Option<Fetched>,
    ) -> Result<FaultStep, FaultError> {
        match &region.backing {
            Backing::Anonymous => self.enter_anonymous(region, page, access),
            Backing::Object { object, first, .. } => {
                let index = first.wrapping_add((page - region.start) / PAGE);
                let fetched = fetched.filter(|fetched| {
                    fetched.index == index && is_same_object(&fetched.object, object)
                });
                match (access, region.is_private()) {
                    (Access::Write, true) => {
                        self.copy_in_place(region, object, page, index, fetched)
                    }
                    (Access::Write, false) => {
                        self.enter_shared(region, object, page, index, fetched)
                    }
                    _ => self.enter_object(region, object, page, index, fetched),
                }
            }
        }
    }

    /// Handles a fault on anonymous memory: maps zeroes, or a copy of a page that a fork shared.
    fn enter_anonymous(
        &self,
        region: &Region,
        page: u64,
        access: Access,
    ) -> Result<FaultStep, FaultError> {
        if access == Access::Write {
            if self.space.make_writable(page, region.page_protection())? != Unshared::Absent {
                return Ok(FaultStep::Done);
            }
        } else if !region.protection.contains(Protection::WRITE)
            || region.pages() > SMALL_PAGES && !region.flags.contains(Flags::LARGE)
        {
            let zero = zero_frame()?;
            self.space.map(one(page)?, &[zero], region.read_protection())?;
            return Ok(FaultStep::Done);
        }
        let last = self.ahead.load(Ordering::Relaxed);
        let last = (page_of(last), last % PAGE);
        if let Some(large) = self.large_at(region, page, last)
            && self.space.map_large(large.start(), region.page_protection())?
        {
            self.expect_fault(large.start(), large.end());
            return Ok(FaultStep::Done);
        }
        let (start, end) = self.ahead(region, page, last);
        self.expect_fault(start, end);
        let pages = range(start, end).ok_or(FaultError::Unmapped)?;
        if self.space.map_zeroed(pages, region.page_protection()).is_err() {
            self.space.map_zeroed(one(page)?, region.page_protection())?;
        }
        Ok(FaultStep::Done)
    }

    /// Returns the pages to make present for a fault on anonymous memory: the more, the longer faults have followed one
    /// another.
    fn ahead(&self, region: &Region, page: u64, (expected, last): (u64, u64)) -> (u64, u64) {
        if expected != page {
            return window(region, page, AROUND_ANONYMOUS);
        }
        let pages = (2 * last).clamp(AROUND_ANONYMOUS, AHEAD_MAX);
        (page, self.small_until(region, page).min(page + pages * PAGE))
    }

    /// Records the pages that a fault on anonymous memory made present, and so the address of the next fault in sequence.
    /// Threads may overwrite each other's records; that affects speed only.
    fn expect_fault(&self, start: u64, end: u64) {
        // The low bits of a page's address are unused.
        self.ahead.store(end | ((end - start) / PAGE), Ordering::Relaxed);
    }

    /// Handles a load from an object: maps its pages around that are in memory, else the fetched one.
    fn enter_object(
        &self,
        region: &Region,
        object: &Arc<dyn Mappable>,
        page: u64,
        index: u64,
        fetched: Option<Fetched>,
    ) -> Result<FaultStep, FaultError> {
        let protection = region.read_protection();
        if let Some(fetched) = fetched {
            self.space.map(one(page)?, &[fetched.frame], protection)?;
            return Ok(FaultStep::Done);
        }
        if self.map_resident(region, object, page, index)? {
            return Ok(FaultStep::Done);
        }
        Ok(FaultStep::Fetch { object: object.clone(), index, wanted: PageUse::Read })
    }

    /// Maps the object's pages in memory around `page`. Returns whether `page` is mapped now.
    fn map_resident(
        &self,
        region: &Region,
        object: &Arc<dyn Mappable>,
        page: u64,
        index: u64,
    ) -> Result<bool, NoMemory> {
        let (start, end) = window(region, page, AROUND_OBJECT);
        let first = index.wrapping_sub((page - start) / PAGE);
        let count = ((end - start) / PAGE) as usize;
        let mut run = Run { first, frames: Vec::with_capacity(count) };
        let mut result = Ok(());
        let mut has_page = false;
        object.resident(first, count, &mut |at, frame| {
            has_page |= at == index;
            if at != run.next() {
                result = result.and(self.map_run(&run, start, first, region));
                run.begin_at(at);
            }
            run.frames.push(frame.clone());
        });
        result.and(self.map_run(&run, start, first, region))?;
        Ok(has_page)
    }

    fn map_run(&self, run: &Run, start: u64, first: u64, region: &Region) -> Result<(), NoMemory> {
        if run.frames.is_empty() {
            return Ok(());
        }
        let at = start.wrapping_add(run.first.wrapping_sub(first).wrapping_mul(PAGE));
        if let Some(pages) = PageRange::new(at, run.frames.len()) {
            self.space.map(pages, &run.frames, region.read_protection())?;
        }
        Ok(())
    }

    /// Handles a store to a private mapping of an object: replaces the page by a copy.
    fn copy_in_place(
        &self,
        region: &Region,
        object: &Arc<dyn Mappable>,
        page: u64,
        index: u64,
        fetched: Option<Fetched>,
    ) -> Result<FaultStep, FaultError> {
        if self.space.make_writable(page, region.page_protection())? != Unshared::Absent {
            return Ok(FaultStep::Done);
        }
        let mut original = fetched.map(|fetched| fetched.frame);
        if original.is_none() {
            object.resident(index, 1, &mut |at, frame| {
                if at == index {
                    original = Some(frame.clone());
                }
            });
        }
        let Some(original) = original else {
            return Ok(FaultStep::Fetch { object: object.clone(), index, wanted: PageUse::Read });
        };
        let copy = Frame::unfilled()?;
        copy.copy_from(&original);
        self.space.map(one(page)?, &[copy], region.page_protection())?;
        Ok(FaultStep::Done)
    }

    /// Handles a store to a shared mapping: the object is told first, so that it knows the page is dirty.
    fn enter_shared(
        &self,
        region: &Region,
        object: &Arc<dyn Mappable>,
        page: u64,
        index: u64,
        fetched: Option<Fetched>,
    ) -> Result<FaultStep, FaultError> {
        let Some(fetched) = fetched.filter(|fetched| fetched.wanted == PageUse::Store) else {
            return Ok(FaultStep::Fetch { object: object.clone(), index, wanted: PageUse::Store });
        };
        let pages = one(page)?;
        let frames = [fetched.frame];
        if self.space.map(pages, &frames, region.page_protection())? > 0 {
            return Ok(FaultStep::Done);
        }
        let [frame] = &frames;
        if self.space.query(page).is_some_and(|present| present.id == frame.id()) {
            self.space.protect(pages, region.page_protection())?;
        } else {
            self.space.unmap(pages)?;
            self.space.map(pages, &frames, region.page_protection())?;
        }
        Ok(FaultStep::Done)
    }

    /// Extends the stack above `page` down to it, if there is one and its limit allows it.
    fn grow_stack(&self, page: u64) -> Result<(), FaultError> {
        let limits = self.limits.get();
        let is_below_stack = |map: &Map| {
            map.at_or_above(page).is_some_and(|above| above.flags.contains(Flags::GROWS_DOWN))
        };
        if !(lowest()..USER_END).contains(&page) || !is_below_stack(&self.map.read()) {
            return Err(FaultError::Unmapped);
        }
        let mut map = self.map.write();
        let Some(stack) = map.at_or_above(page) else { return Err(FaultError::Unmapped) };
        if stack.contains(page) {
            return Ok(());
        }
        let (start, grown) = (stack.start, stack.end - page);
        let more = (start - page) / PAGE;
        let is_refused = !stack.flags.contains(Flags::GROWS_DOWN)
            || grown > limits.stack
            || (map.total_pages + more).saturating_mul(PAGE) > limits.address_space
            || map.below(page).is_some_and(|below| is_too_near(below, page));
        if is_refused {
            return Err(FaultError::Unmapped);
        }
        let addition = Region { start: page, end: start, ..stack.clone() };
        let committed = map.committed_pages;
        let promised = self.promise(&mut map, &addition);
        if promised.is_ok() {
            map.extend_down(start, page);
        }
        self.note_sizes(&mut map, committed);
        promised.map_err(|_| FaultError::Unmapped)
    }
}

/// Returns whether a stack extended down to `page` would be too near to `below`.
fn is_too_near(below: &Region, page: u64) -> bool {
    let is_guarded = !below.flags.contains(Flags::GROWS_DOWN) && !below.protection.is_empty();
    is_guarded && page.saturating_sub(below.end) < GUARD_GAP
}

/// Page tables with pages of objects are never shared with other spaces ([`AddressSpace::fork`]), so these need no memory.
impl Watcher for AddressSpace {
    fn truncated(&self, identity: u64, first: u64) {
        let map = self.map.write();
        self.changes.fetch_add(1, Ordering::Relaxed);
        for (_, gone) in mapped_parts(&map, identity, first, u64::MAX) {
            let _ = self.space.unmap(gone);
        }
    }
    fn may_store(&self, identity: u64) -> bool {
        let map = self.map.read();
        mapped_parts(&map, identity, 0, u64::MAX).any(|(region, _)| region.may_be_stored_to())
    }
    fn cleaned(&self, identity: u64, first: u64, count: u64) {
        let map = self.map.write();
        self.changes.fetch_add(1, Ordering::Relaxed);
        for (region, pages) in mapped_parts(&map, identity, first, first.saturating_add(count)) {
            if !region.is_private() && region.protection.contains(Protection::WRITE) {
                let _ = self.space.protect(pages, region.read_protection());
            }
        }
    }
}

/// Returns the parts of regions that map pages `first .. end` of an object.
fn mapped_parts(
    map: &Map,
    identity: u64,
    first: u64,
    end: u64,
) -> impl Iterator<Item = (&Region, PageRange)> {
    map.iter().filter_map(move |region| {
        let Backing::Object { object, first: offset, .. } = &region.backing else { return None };
        if object.identity() != identity {
            return None;
        }
        let last = end.min(offset.saturating_add(region.pages()));
        let skipped = first.saturating_sub(*offset);
        let length = last.checked_sub(offset.saturating_add(skipped)).filter(|pages| *pages > 0)?;
        let start = region.start + skipped * PAGE;
        Some((region, range(start, start + length * PAGE)?))
    })
}

fn check_access(region: &Region, access: Access) -> Result<(), FaultError> {
    let is_allowed = match access {
        Access::Read => !region.protection.is_empty(),
        Access::Write => region.protection.contains(Protection::WRITE),
        Access::Execute => region.protection.contains(Protection::EXECUTE),
    };
    if is_allowed { Ok(()) } else { Err(FaultError::Denied) }
}

fn bad_page(error: Errno) -> FaultError {
    if error.number() == ErrorNumber::ENOMEM { FaultError::NoMemory } else { FaultError::NoPage }
}

fn one(page: u64) -> Result<PageRange, FaultError> {
    PageRange::new(page, 1).ok_or(FaultError::Unmapped)
}

/// Returns the aligned window of `pages` pages around `page`, cut to the region.
fn window(region: &Region, page: u64, pages: u64) -> (u64, u64) {
    let bytes = pages * PAGE;
    let start = page - page % bytes;
    (start.max(region.start), (start + bytes).min(region.end))
}

/// Returns the one frame of zeroes that is mapped wherever untouched memory is read. Its creator keeps a reference, so every
/// store finds it shared and makes a copy.
pub(super) fn zero_frame() -> Result<Frame, NoMemory> {
    static ZERO: Once<Option<Frame>> = Once::new();
    match ZERO.get_or_init(|| Frame::zeroed().ok()) {
        Some(zero) => Ok(zero.clone()),
        None => Frame::zeroed(),
    }
}

/// Consecutive frames that are being mapped.
struct Run {
    first: u64,
    frames: Vec<Frame>,
}

impl Run {
    /// Returns the index that continues it.
    fn next(&self) -> u64 {
        self.first.wrapping_add(self.frames.len() as u64)
    }
    /// Empties it; the next frame is that of `index`.
    fn begin_at(&mut self, index: u64) {
        self.first = index;
        self.frames.clear();
    }
}

impl AddressSpace {
    /// Records the number of resident pages, for the peak; called at points where it is inexpensive.
    pub(super) fn note_resident(&self) {
        self.peak_pages.fetch_max(self.space.resident_pages() as u64, Ordering::Relaxed);
    }
}
