//! Frames of the process world: the component's own, which come from pools, and those of clients.
//!
//! A *pool* is one region of up to [`POOL_FRAMES`] pages, mapped linearly. Its first page is a [`Pool`]: the reference
//! counts of its other pages and the list of those that are free. So allocating, freeing, counting, copying and zeroing need
//! no kernel call. Pools are made when no frame is free. At most one empty pool is kept; the others go back to the nucleus.
//!
//! ```text
//! number   31 own frame: 1 | 30 to 9 pool | 8 to 0 page       frame of a client: a number below 2^31 ([`super::attached`])
//! ```
//! A page that was *shown* to a program, in a space, may be there when its last reference here is dropped. The nucleus knows: it
//! counts its references, of which [`REGION_REFERENCES`] are the region's. Such a page waits until [`Lists::collect`] finds that no
//! program has it any more (`libs/shown`).
//!
//! The pages of a *run* ([`super::runs`]) are for other components to read. So its [`Pool`] is elsewhere, and its pages are in no
//! list: they are claimed by their counts.
//!
//! The lock `rt.pools` guards the lists and the tables; it is taken after that of the heap. Counts and contents are atomics.
use super::{
    attached,
    call::{Handle, ask},
    memory::{self, Taken},
    user,
};
use crate::{
    NoMemory, PAGE_BYTES,
    memory::fill_each,
    sync::{LockClass, Mutex},
};
use calls::{Call, NO_HANDLE};
use core::sync::atomic::{
    AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use shown::{Dropped, Uses};

/// Flag of the number of an own frame.
const OWN: u32 = 1 << 31;
/// Bits of a frame's number within its pool.
const PAGE_BITS: u32 = 9;
/// The greatest number of pages of a pool, its first one included: 2 MiB.
const POOL_FRAMES: usize = 1 << PAGE_BITS;
/// Fewest pages of a pool.
pub(super) const POOL_FRAMES_MIN: usize = 16;
/// A pool takes at most one part in this many of the component's memory.
const POOL_PARTS: usize = 16;
/// The greatest number of pools: 1 GiB.
const POOLS: usize = 512;
/// Words of a frame.
const WORDS: usize = PAGE_BYTES / 8;
/// The nucleus's references to a page that no program has: the region's, and its mapping's here.
const REGION_REFERENCES: u32 = 2;
/// Number of waiting pages from which each further one makes all be looked at.
const WAITING_MAX: usize = 256;
/// End of a list of pages or pools.
const NONE: u16 = u16::MAX;

static POOLS_CLASS: LockClass = LockClass::new("rt.pools");

/// Addresses of the pools; 0 for none.
static TABLE: [AtomicUsize; POOLS] = [const { AtomicUsize::new(0) }; POOLS];
/// Addresses of the pools' pages: those of the pools, except for a run ([`super::runs`]); 0 for none.
static PAGES: [AtomicUsize; POOLS] = [const { AtomicUsize::new(0) }; POOLS];
static LISTS: Mutex<Lists> = Mutex::new(&POOLS_CLASS, Lists { first: NONE, empty: 0 });
/// No pool had this index yet, or one behind it.
static END: AtomicUsize = AtomicUsize::new(0);
/// Frames of all pools, and those of them that are free.
static FRAMES: AtomicUsize = AtomicUsize::new(0);
static FREE: AtomicUsize = AtomicUsize::new(0);
/// Number of pages that wait for programs to unmap them.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// The first page of a pool, or the page beside a run. All but the counts changes only under the lock.
#[repr(C)]
struct Pool {
    /// References to each page, and the pages that programs may have.
    uses: Uses<POOL_FRAMES, { POOL_FRAMES / 64 }>,
    /// The next free page behind each free page.
    links: [AtomicU16; POOL_FRAMES],
    /// The region's handle; [`NO_HANDLE`] for a run.
    handle: AtomicU64,
    /// Pages of the region.
    pages: AtomicU16,
    /// The first of the pages that were used and are free.
    free: AtomicU16,
    /// The first page that was never used; it and those behind it are zero.
    fresh: AtomicU16,
    /// Number of pages in use.
    used: AtomicU16,
    /// The next pool with free pages.
    next: AtomicU16,
    /// The number by which spaces of programs know the first page, once a page of the pool was shown to one.
    number: AtomicU32,
}
const _: () = assert!(size_of::<Pool>() <= PAGE_BYTES);

struct Lists {
    /// The first pool with free pages.
    first: u16,
    /// Number of pools without pages in use.
    empty: usize,
}

/// Returns the pool of that index.
fn pool(index: u16) -> Option<&'static Pool> {
    let address = TABLE.get(usize::from(index))?.load(Acquire);
    let at: *const Pool = core::ptr::with_exposed_provenance(address);
    // SAFETY: null or a mapped pool, which is unmapped only under the lock and when no page of it is in use. A caller either
    // holds the lock or a reference to one of its pages. All fields are atomics.
    unsafe { at.as_ref() }
}

/// Returns the indices of the pool and of the page for the number of an own frame.
fn place(frame: u32) -> (u16, usize) {
    (((frame & !OWN) >> PAGE_BITS) as u16, frame as usize % POOL_FRAMES)
}

fn number(index: u16, page: u16) -> u32 {
    OWN | u32::from(index) << PAGE_BITS | u32::from(page)
}

/// Returns whether `frame` is the number of a frame that a client lent.
#[inline]
pub(crate) fn is_lent(frame: u32) -> bool {
    frame & OWN == 0
}

/// Returns the uses of the pages of an own frame's pool, to which the caller has a reference, and the frame's page.
fn uses(frame: u32) -> (&'static Uses<POOL_FRAMES, { POOL_FRAMES / 64 }>, usize) {
    let (index, page) = place(frame);
    let pool = pool(index).unwrap_or_else(|| panic!("there is no frame {frame:#x}"));
    (&pool.uses, page)
}

/// Returns the words of an own frame, to which the caller has a reference.
fn own_words(frame: u32) -> &'static [AtomicU64; WORDS] {
    let (index, page) = place(frame);
    let first = PAGES.get(usize::from(index)).map_or(0, |first| first.load(Acquire));
    assert!(first != 0, "there is no frame {frame:#x}");
    let at = first + page * PAGE_BYTES;
    // SAFETY: a page of the pool, which stays mapped while the page is in use; words that several threads write are atomics.
    unsafe { &*core::ptr::with_exposed_provenance(at) }
}

/// Returns the words of a frame to which the caller has a reference, or `None` if its contents are not here.
pub(crate) fn words(frame: u32) -> Option<&'static [AtomicU64; WORDS]> {
    if is_lent(frame) { attached::find(frame)?.words(frame) } else { Some(own_words(frame)) }
}

impl Pool {
    /// Takes a free page. Returns it, and whether it is zero.
    fn take(&self) -> Option<(u16, bool)> {
        let page = self.free.load(Relaxed);
        let (page, is_zero) = if page != NONE {
            self.free.store(self.links.get(usize::from(page))?.load(Relaxed), Relaxed);
            (page, false)
        } else {
            let page = self.fresh.load(Relaxed);
            if page >= self.pages.load(Relaxed) {
                return None;
            }
            self.fresh.store(page + 1, Relaxed);
            (page, true)
        };
        self.used.store(self.used.load(Relaxed) + 1, Relaxed);
        Some((page, is_zero))
    }

    /// Returns whether its pages are a run, which other components may read.
    fn is_run(&self) -> bool {
        self.handle.load(Relaxed) == NO_HANDLE
    }

    fn is_full(&self) -> bool {
        self.free.load(Relaxed) == NONE && self.fresh.load(Relaxed) >= self.pages.load(Relaxed)
    }
}

impl Lists {
    /// Takes a free frame of a pool. Returns its number, and whether it is zero.
    fn take(&mut self) -> Option<(u32, bool)> {
        let index = self.first;
        let from = pool(index)?;
        let was_empty = from.used.load(Relaxed) == 0;
        let (page, is_zero) = from.take()?;
        self.empty -= usize::from(was_empty);
        if from.is_full() {
            self.first = from.next.load(Relaxed);
        }
        from.uses.begin(page.into());
        FREE.fetch_sub(1, Relaxed);
        Some((number(index, page), is_zero))
    }

    /// Makes a pool of at most `pages` pages, of fewer if the nucleus has no such run.
    fn make(&mut self, mut pages: usize) -> Result<(), NoMemory> {
        let index = free_index()?;
        let (address, handle, taken) = loop {
            let bytes = pages * PAGE_BYTES;
            let made = memory::may_take(bytes)
                .and_then(|()| ask(Call::RegionNew, &[bytes as u64]).map_err(|_| NoMemory));
            match made {
                Ok([address, handle, _]) => break (address as usize, handle, Taken::new(bytes)),
                Err(NoMemory) if pages > POOL_FRAMES_MIN => pages /= 2,
                Err(NoMemory) => return Err(NoMemory),
            }
        };
        // The pool keeps it until `give_back`.
        core::mem::forget(taken);
        let pool = enter(index, address, address)?;
        pool.handle.store(handle, Relaxed);
        pool.pages.store(pages as u16, Relaxed);
        pool.free.store(NONE, Relaxed);
        pool.fresh.store(1, Relaxed);
        pool.next.store(self.first, Relaxed);
        self.first = index;
        self.empty += 1;
        FRAMES.fetch_add(pages - 1, Relaxed);
        FREE.fetch_add(pages - 1, Relaxed);
        Ok(())
    }

    /// Frees a page that has no references.
    fn free(&mut self, index: u16, page: usize) {
        let Some(pool) = pool(index) else { return };
        if pool.is_run() {
            pool.used.fetch_sub(1, Relaxed);
            return;
        }
        let was_full = pool.is_full();
        if let Some(link) = pool.links.get(page) {
            link.store(pool.free.load(Relaxed), Relaxed);
        }
        pool.free.store(page as u16, Relaxed);
        if was_full {
            pool.next.store(self.first, Relaxed);
            self.first = index;
        }
        let used = pool.used.load(Relaxed) - 1;
        pool.used.store(used, Relaxed);
        FREE.fetch_add(1, Relaxed);
        self.empty += usize::from(used == 0);
        if used == 0 && self.empty > 1 {
            self.give_back_empty(1);
        }
    }

    /// Gives empty pools back to the nucleus until only `kept` of them are left.
    fn give_back_empty(&mut self, kept: usize) {
        let mut before: Option<&'static Pool> = None;
        let mut index = self.first;
        while let Some(this) = pool(index).filter(|_| self.empty > kept) {
            let next = this.next.load(Relaxed);
            if this.used.load(Relaxed) == 0 {
                match before {
                    Some(before) => before.next.store(next, Relaxed),
                    None => self.first = next,
                }
                self.give_back(index, this);
            } else {
                before = Some(this);
            }
            index = next;
        }
    }

    /// Gives a pool without pages in use, which is in no list, back to the nucleus.
    fn give_back(&mut self, index: u16, pool: &'static Pool) {
        let pages = usize::from(pool.pages.load(Relaxed));
        let handle = Handle(pool.handle.load(Relaxed));
        remove(index);
        self.empty -= 1;
        FRAMES.fetch_sub(pages - 1, Relaxed);
        FREE.fetch_sub(pages - 1, Relaxed);
        // This unmaps the pool.
        drop(handle);
        drop(Taken::already(pages * PAGE_BYTES));
    }
}

/// Returns the index of a pool to be made.
fn free_index() -> Result<u16, NoMemory> {
    let index = TABLE.iter().position(|place| place.load(Relaxed) == 0);
    index.map(|index| index as u16).ok_or(NoMemory)
}

/// Enters a pool at a free index: zeroes at `address`, for the pages from `first`.
fn enter(index: u16, address: usize, first: usize) -> Result<&'static Pool, NoMemory> {
    let place = usize::from(index);
    PAGES.get(place).ok_or(NoMemory)?.store(first, Release);
    TABLE.get(place).ok_or(NoMemory)?.store(address, Release);
    END.fetch_max(place + 1, Relaxed);
    pool(index).ok_or(NoMemory)
}

fn remove(index: u16) {
    let places = [&TABLE, &PAGES].map(|table| table.get(usize::from(index)));
    places.into_iter().flatten().for_each(|place| place.store(0, Release));
}

/// Enters the run of `pages` pages from address `first`, with a reference to each. `counts` is the address of a page of zeroes.
/// Both stay mapped until [`leave_run`]. Returns the number of the first frame.
pub(super) fn enter_run(counts: usize, first: usize, pages: usize) -> Result<u32, NoMemory> {
    let _lists = LISTS.lock();
    let index = free_index()?;
    let pool = enter(index, counts, first)?;
    pool.handle.store(NO_HANDLE, Relaxed);
    pool.pages.store(pages as u16, Relaxed);
    pool.used.store(pages as u16, Relaxed);
    (0..pages).for_each(|page| pool.uses.begin(page));
    Ok(number(index, 0))
}

/// Removes the run whose first frame is `first`, if no frame of it is in use. Returns whether it is removed.
pub(super) fn leave_run(first: u32) -> bool {
    let _lists = LISTS.lock();
    let (index, _) = place(first);
    let is_unused = pool(index).is_some_and(|pool| pool.used.load(Relaxed) == 0);
    if is_unused {
        remove(index);
    }
    is_unused
}

/// Returns the pages of a new pool.
fn pool_pages() -> usize {
    let part = memory::granted_bytes() / PAGE_BYTES / POOL_PARTS;
    part.clamp(POOL_FRAMES_MIN, POOL_FRAMES)
}

/// Allocates frames that are not zeroed, while there are some. Returns the number of `new` that were filled.
pub(crate) fn allocate_all(new: &mut [u32]) -> usize {
    fill_each(new, || frame_allocate(false))
}

pub(crate) fn frame_allocate(zeroed: bool) -> Result<u32, NoMemory> {
    let (frame, is_zero) = {
        let mut lists = LISTS.lock();
        match lists.take() {
            Some(taken) => taken,
            None if lists.collect() => lists.take().ok_or(NoMemory)?,
            None => {
                lists.make(pool_pages())?;
                lists.take().ok_or(NoMemory)?
            }
        }
    };
    if zeroed && !is_zero {
        own_words(frame).iter().for_each(|word| word.store(0, Relaxed));
    }
    Ok(frame)
}

/// Returns the number of a lent frame, if `frame` can be one, and counts it if its pool is attached. Whether any other was lent is
/// checked when a device reaches it.
#[inline]
pub(crate) fn frame_lent(frame: u32) -> Option<u32> {
    retain_lent(frame);
    is_lent(frame).then_some(frame)
}

/// Adds a reference. A lent frame that is in no attached pool is not counted: its client keeps it until it is told that the
/// device is done.
#[inline]
pub(crate) fn frame_retain(frame: u32) {
    if is_lent(frame) {
        retain_lent(frame);
    } else {
        retain_own(frame);
    }
}

#[inline]
fn retain_lent(frame: u32) {
    if let Some(pool) = attached::find(frame) {
        pool.retain(frame);
    }
}

#[inline(never)]
fn retain_own(frame: u32) {
    let (uses, page) = uses(frame);
    uses.retain(page);
}

/// Drops a reference; the last one frees an own frame. A lent frame is counted as in [`frame_retain`].
#[inline]
pub(crate) fn frame_release(frame: u32) {
    if !is_lent(frame) {
        release_own(frame);
    } else if let Some(pool) = attached::find(frame) {
        pool.release(frame);
    }
}

pub(crate) fn release_all(frames: impl IntoIterator<Item = u32>) {
    frames.into_iter().for_each(frame_release);
}

#[inline(never)]
fn release_own(frame: u32) {
    let (uses, page) = uses(frame);
    match uses.release(page, &WAITING, || programs(frame) > 0) {
        Dropped::Used => {}
        Dropped::Free => LISTS.lock().free(place(frame).0, page),
        Dropped::Waits if WAITING.load(Relaxed) <= WAITING_MAX => {}
        Dropped::Waits => _ = LISTS.lock().collect(),
    }
}

/// Adds a reference to a frame of a run that has exactly one, if no program and no device has it. Returns whether it did.
pub(crate) fn frame_claim(frame: u32) -> bool {
    let (uses, page) = uses(frame);
    uses.claim(page, || programs(frame) > 0)
}

/// Returns the number of references. A lent frame has two at least, the client's and this one.
pub(crate) fn frame_references(frame: u32) -> u32 {
    if is_lent(frame) {
        attached::find(frame).map_or(2, |pool| pool.references(frame))
    } else {
        let (uses, page) = uses(frame);
        uses.references(page) + if uses.is_shown(page) { programs(frame) } else { 0 }
    }
}

/// Returns the number of references to an own frame that was shown. The nucleus counted `counted` just now.
pub(super) fn references_beside(frame: u32, counted: u32) -> u32 {
    let (uses, page) = uses(frame);
    uses.references(page) + counted.saturating_sub(REGION_REFERENCES)
}

/// Returns the memory of an own frame to which the caller has the only reference.
pub(crate) fn frame_exclusive(frame: &mut crate::memory::Frame) -> Option<&mut [u8; PAGE_BYTES]> {
    let number = frame.id().0;
    if is_lent(number) || frame_references(number) != 1 {
        return None;
    }
    let at = own_words(number).as_ptr().cast_mut();
    // SAFETY: the memory of a page, whose only reference is borrowed exclusively for as long as the slice lives; no frame can
    // be counted up but through a reference.
    Some(unsafe { &mut *at.cast() })
}

/// Copies from a frame, if its contents are here. Returns whether they are.
pub(crate) fn frame_read(frame: u32, offset: usize, out: &mut [u8]) -> bool {
    let words = words(frame);
    if let Some(words) = words {
        crate::words::read(words, offset, out);
    }
    words.is_some()
}

/// Copies into an own frame.
pub(crate) fn frame_write(frame: u32, offset: usize, data: &[u8]) {
    if !is_lent(frame) {
        crate::words::write(own_words(frame), offset, data);
    }
}

/// Zeroes a part of an own frame.
pub(crate) fn frame_zero(frame: u32, offset: usize, length: usize) {
    if !is_lent(frame) {
        crate::words::zero(own_words(frame), offset, length);
    }
}

/// Copies a frame whose contents are here to an own one.
pub(crate) fn frame_copy(from: u32, to: u32) {
    if let Some(from) = words(from).filter(|_| !is_lent(to)) {
        crate::words::copy(from, own_words(to));
    }
}

/// Gives all empty pools back to the nucleus.
pub(super) fn shrink() {
    let mut lists = LISTS.lock();
    lists.collect();
    lists.give_back_empty(0);
}

/// Returns the address of an own frame, to which the caller has a reference, for it to be shown to a program. `None` for
/// another frame.
pub(super) fn show(frame: u32) -> Option<u64> {
    if is_lent(frame) {
        return None;
    }
    let (uses, page) = uses(frame);
    if !uses.is_shown(page) {
        nucleus_number(frame)?;
        uses.show(page);
    }
    Some(own_words(frame).as_ptr() as u64)
}

/// Returns the number by which other components know a frame, to which the caller has a reference. A frame of a client is known
/// to it by the same number.
#[inline]
pub(crate) fn partner_number(frame: u32) -> u32 {
    if is_lent(frame) { frame } else { nucleus_number(frame).unwrap_or(frame) }
}

/// Returns the nucleus's number of an own frame. Asks for that of its pool once; `None` if the component runs no programs.
pub(super) fn nucleus_number(frame: u32) -> Option<u32> {
    let (index, page) = place(frame);
    let pool = pool(index)?;
    if pool.number.load(Relaxed) == 0 {
        let (number, _) = user::own_page(own_words(frame).as_ptr() as usize)?;
        pool.number.store(number.wrapping_sub(page as u32), Relaxed);
    }
    Some(pool.number.load(Relaxed).wrapping_add(page as u32))
}

/// Returns the own frame that spaces know by `number`.
pub(super) fn shown_as(number: u32) -> Option<u32> {
    // No pool is unmapped meanwhile.
    let _lists = LISTS.lock();
    (0..END.load(Relaxed) as u16).find_map(|index| {
        let pool = pool(index)?;
        let page = number.wrapping_sub(pool.number.load(Relaxed));
        let is_here = pool.number.load(Relaxed) != 0 && page < u32::from(pool.pages.load(Relaxed));
        is_here.then(|| self::number(index, page as u16))
    })
}

/// Returns the number of spaces that have an own frame, which was shown.
fn programs(frame: u32) -> u32 {
    let page = user::own_page(own_words(frame).as_ptr() as usize);
    // A page of which the nucleus does not tell is in use.
    page.map_or(1, |(_, references)| references.saturating_sub(REGION_REFERENCES))
}

impl Lists {
    /// Frees the waiting pages that no program has any more. Returns whether there was one.
    fn collect(&mut self) -> bool {
        let before = WAITING.load(Relaxed);
        if before == 0 {
            return false;
        }
        for index in 0..END.load(Relaxed) as u16 {
            let Some(pool) = pool(index) else { continue };
            for page in 0..pool.pages.load(Relaxed) {
                let frame = number(index, page);
                let is_elsewhere = || programs(frame) > 0;
                if pool.uses.take_waiting(page.into(), &WAITING, is_elsewhere) {
                    self.free(index, page.into());
                    if TABLE.get(usize::from(index)).is_none_or(|at| at.load(Relaxed) == 0) {
                        break;
                    }
                }
            }
        }
        WAITING.load(Relaxed) < before
    }
}

/// Returns the number of frames of all pools, and of those that are free.
pub(super) fn frames() -> (usize, usize) {
    (FRAMES.load(Relaxed), FREE.load(Relaxed))
}
