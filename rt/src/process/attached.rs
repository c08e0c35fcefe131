//! Pools of clients whose frames this component reads by their numbers ([`crate::memory::attach_pool`]).
//!
//! A pool is found by its frame's number without a lock: pools are physically aligned runs of at most [`POOL_PAGES`] pages, so the
//! number divided by that is the start of a short search in [`TABLE`]. Entries are only ever added, by compare-exchange. Counts of
//! references are in the component's own memory ([`Handings`]); the client never sees them.
use super::memory::RegionHandle;
use crate::{NoMemory, PAGE_BYTES, memory::POOL_PAGES};
use alloc::vec::Vec;
use core::sync::atomic::{
    AtomicPtr, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed},
};
use handings::Handings;

/// The greatest number of pools: 512 MiB.
const ATTACHED_MAX: usize = 256;
/// Entries of the table, so many that a search soon finds a free one.
const ENTRIES: usize = 2 * ATTACHED_MAX;
/// Words of a frame.
const WORDS: usize = PAGE_BYTES / 8;

/// The pools; null for none.
static TABLE: [AtomicPtr<Attached>; ENTRIES] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; ENTRIES];
/// Number of pools that are in the table or about to be.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// An attached pool, which is never freed.
#[derive(Debug)]
pub(super) struct Attached {
    first: u32,
    frames: &'static [[AtomicU64; WORDS]],
    handings: Handings<{ POOL_PAGES / 64 }>,
}

impl Attached {
    #[inline]
    fn page(&self, frame: u32) -> usize {
        frame.wrapping_sub(self.first) as usize
    }
    #[inline]
    fn has(&self, frame: u32) -> bool {
        self.page(frame) < self.frames.len()
    }
    /// Returns the words of one of its frames.
    #[inline]
    pub(super) fn words(&self, frame: u32) -> Option<&'static [AtomicU64; WORDS]> {
        self.frames.get(self.page(frame))
    }
    pub(super) fn hand(&self, frame: u32) {
        self.handings.hand(self.page(frame));
    }
    pub(super) fn retain(&self, frame: u32) {
        self.handings.retain(self.page(frame));
    }
    pub(super) fn release(&self, frame: u32) {
        let before = self.handings.release(self.page(frame));
        assert!(before > 0, "a frame of a client was counted down too often");
    }
    /// Returns the number of references, with one of the client.
    pub(super) fn references(&self, frame: u32) -> u32 {
        self.handings.references(self.page(frame)) + 1
    }
}

/// Returns the index of the entry at which a search for `frame` starts.
#[inline]
fn start(frame: u32) -> usize {
    frame as usize / POOL_PAGES % ENTRIES
}

#[inline]
fn get(entry: &AtomicPtr<Attached>) -> Option<&'static Attached> {
    // SAFETY: null or a pool, which was complete when it was entered and is never freed; all that changes of it are atomics.
    unsafe { entry.load(Acquire).as_ref() }
}

/// Returns the attached pool that has `frame`.
#[inline]
pub(super) fn find(frame: u32) -> Option<&'static Attached> {
    if COUNT.load(Relaxed) == 0 {
        return None;
    }
    let pool = get(TABLE.get(start(frame))?)?;
    if pool.has(frame) { Some(pool) } else { search(frame) }
}

/// Searches the entries until one is free. Pools smaller than [`POOL_PAGES`] may start at the same entry.
#[cold]
fn search(frame: u32) -> Option<&'static Attached> {
    entries(frame).map_while(get).find(|pool| pool.has(frame))
}

/// Returns all entries in the order of a search for `frame`.
fn entries(frame: u32) -> impl Iterator<Item = &'static AtomicPtr<Attached>> {
    TABLE.iter().cycle().skip(start(frame)).take(ENTRIES)
}

/// Returns a vector with room for one, whose memory was not refused.
fn room<T>() -> Result<Vec<T>, NoMemory> {
    let mut room = Vec::new();
    room.try_reserve_exact(1).map_err(|_| NoMemory)?;
    Ok(room)
}

/// Puts `value` into `room`, for ever.
fn keep<T>(mut room: Vec<T>, value: T) -> Result<&'static mut T, NoMemory> {
    room.push(value);
    room.leak().first_mut().ok_or(NoMemory)
}

/// Attaches the pool of `region`, whose first frame is `first`.
pub(crate) fn pool_attach(region: RegionHandle, first: u32) -> Result<(), NoMemory> {
    let pages = region.words().len() / WORDS;
    let last =
        first.checked_add(pages as u32).and_then(|end| end.checked_sub(1)).ok_or(NoMemory)?;
    let is_known = |frame| search(frame).is_some();
    if pages > POOL_PAGES || !super::pools::is_lent(last) || (first..=last).any(is_known) {
        return Err(NoMemory);
    }
    let (for_region, for_pool) = (room()?, room()?);
    let count_up = |count: usize| (count < ATTACHED_MAX).then_some(count + 1);
    COUNT.try_update(Relaxed, Relaxed, count_up).map_err(|_| NoMemory)?;
    let region: &'static RegionHandle = keep(for_region, region)?;
    let frames = region.words().as_chunks().0;
    let pool = keep(for_pool, Attached { first, frames, handings: Handings::new() })?;
    let null = core::ptr::null_mut();
    // There are fewer pools than entries.
    entries(first).any(|entry| entry.compare_exchange(null, pool, AcqRel, Relaxed).is_ok());
    Ok(())
}

/// Counts `frame` as handed over. Returns its number, or `None` if no attached pool has it.
#[inline]
pub(crate) fn frame_handed(frame: u32) -> Option<u32> {
    find(frame).map(|pool| {
        pool.hand(frame);
        frame
    })
}

/// Calls `report` with each frame that was handed over and dropped, and how often it was handed.
pub(crate) fn take_released(report: &mut impl FnMut(u32, u32)) {
    for pool in TABLE.iter().filter_map(get) {
        pool.handings.take_dropped(&mut |page, count| report(pool.first + page as u32, count));
    }
}
