//! Freeing memory: clean pages of storage and unused names (architecture.md, "Memory of programs").
use crate::{
    base::{errno::Errno, host::Host},
    pages::{
        stores::{self, Goal},
        throttle,
    },
};
use rt::{NoMemory, memory::Frame};

/// Number of pages to free when an allocation was refused.
const RECLAIM_PAGES: usize = 64;
/// Number of rounds of a reclaim: the first only clears the marks of recent use.
const ROUNDS: usize = 2;

/// The cache grows without limit while one frame in this many is free.
const FREE_SHARE: u64 = 8;
/// One frame in this many is dropped in addition, so that the next growth need not drop again.
const SLACK_SHARE: u64 = 64;

/// Called before `pages` more are used: drops pages of the cache if memory is short, so that programs and the
/// kernel's own objects find free memory. To be called with no lock of a file held.
pub fn make_room(pages: usize) {
    let memory = rt::memory::statistics();
    let wanted = memory.total_frames / FREE_SHARE + pages as u64;
    if memory.free_frames < wanted {
        let missing = wanted - memory.free_frames + memory.total_frames / SLACK_SHARE;
        let missing = usize::try_from(missing).unwrap_or(usize::MAX);
        if shrink(missing) < missing {
            throttle::hurry_all();
        }
    }
}

/// Drops up to `pages` clean pages, and names and other objects that were not used lately. Returns the number of
/// pages that may have become free; for objects of the heap it is an estimate.
///
/// Allocates nothing that grows with the number of files. Locks: takes vnode tables and page indexes one at a
/// time; to be called with none held.
pub fn shrink(pages: usize) -> usize {
    let mut goal = Goal::new(pages);
    for store in stores::all() {
        store.shrink(&mut goal);
        if goal.left() == 0 {
            break;
        }
    }
    goal.freed()
}

/// Does the same as [`shrink`], and drops recently used objects as well; if that frees nothing, dirty pages are
/// written first. Returns the number of pages dropped.
pub fn reclaim(pages: usize) -> usize {
    loop {
        let freed = (0..ROUNDS).map(|_| shrink(pages)).find(|freed| *freed > 0).unwrap_or(0);
        if freed > 0 {
            return freed;
        }
        rt::memory::shrink();
        if !throttle::write_for_room() {
            return 0;
        }
    }
}

/// Number of tries after the last resort was called; the program that is to end may need a lock that the caller
/// holds.
const LAST_TRIES: usize = 100;

/// A frame that the caller cannot do without.
pub(crate) fn allocate_frame(
    allocate: impl Fn() -> Result<Frame, NoMemory>,
    host: &dyn Host,
) -> Result<Frame, Errno> {
    retried(host, || with_reclaim(&allocate))
}

/// Runs an operation that has no effect where it fails, and again after memory was made where that
/// was what it lacked, at last by `host`. To be called with no lock of a file held.
///
/// # Errors
/// Errors of the operation.
#[inline]
pub fn retried<T>(
    host: &dyn Host,
    mut operate: impl FnMut() -> Result<T, Errno>,
) -> Result<T, Errno> {
    match operate() {
        Err(Errno::Refused) if make_memory(host) => retried_after_refusal(host, operate),
        result => result,
    }
}

#[cold]
fn retried_after_refusal<T>(
    host: &dyn Host,
    mut operate: impl FnMut() -> Result<T, Errno>,
) -> Result<T, Errno> {
    for _ in 0..LAST_TRIES {
        match operate() {
            Err(Errno::Refused) if make_memory(host) => {}
            result => return result,
        }
    }
    operate()
}

/// Does the rest of a call that has taken effect. It may use the kernel's reserve, and if memory is refused all the same that is
/// final: the call must not be repeated.
///
/// # Errors
/// Those of `work`, but not [`Errno::Refused`].
pub fn committed<T>(work: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    rt::memory::with_reserve(work).map_err(Errno::final_refusal)
}

/// Frees memory for one more try of a failed operation; `refusals` counts the tries.
///
/// # Errors
/// `Refused` if there is nothing left to try.
pub(crate) fn after_refusal(refusals: &mut usize, host: &dyn Host) -> Result<(), Errno> {
    *refusals += 1;
    if *refusals <= LAST_TRIES && make_memory(host) { Ok(()) } else { Err(Errno::Refused) }
}

/// Frees memory. Returns whether there is memory again, or soon will be.
fn make_memory(host: &dyn Host) -> bool {
    reclaim(RECLAIM_PAGES) > 0 || host.relieve()
}

/// Frees all memory that can be freed without writing.
pub fn drop_caches() {
    // The first round clears the marks of recent use, and the next may free objects that were kept by those it
    // dropped.
    let mut idle_rounds = 0;
    while idle_rounds < ROUNDS {
        idle_rounds = if shrink(usize::MAX) > 0 { 0 } else { idle_rounds + 1 };
    }
    rt::memory::shrink();
}

/// Runs an allocation, and again after freeing memory if it was refused.
pub(crate) fn with_reclaim<T>(
    mut allocate: impl FnMut() -> Result<T, NoMemory>,
) -> Result<T, Errno> {
    for _ in 0..ROUNDS {
        if let Ok(value) = allocate() {
            return Ok(value);
        }
        reclaim(RECLAIM_PAGES);
    }
    Ok(allocate()?)
}
