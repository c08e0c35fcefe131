//! Frames: the buddy allocator behind per-processor caches, and the table of reference counts.
//!
//! A frame's number is its physical address / 4096. [`allocate`] and [`release`] touch only this
//! processor's cache (guarded by preemption being off; interrupt handlers never allocate) and visit
//! the buddy allocator once a batch. Counted frames (those of `rt`) have their count in
//! [`references`]; page tables, stacks and the heap own theirs alone and do not count.
use crate::{
    arch::{boot::phys_to_virt, pages, percpu, smp},
    spin::{NoPreempt, SpinLock},
};
use buddy::Buddy;
use core::{
    cell::UnsafeCell,
    sync::atomic::{
        AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
        Ordering::{AcqRel, Acquire, Relaxed},
    },
};

const CACHE_FRAMES: usize = 128;
const BATCH_FRAMES: usize = 64;

static BUDDY: SpinLock<Option<Buddy<'static>>> = SpinLock::new(class!("nucleus.frames"), None);
static REFERENCES: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());
static TABLE_LENGTH: AtomicUsize = AtomicUsize::new(0);
static TOTAL: AtomicUsize = AtomicUsize::new(0);
/// Frames free in the buddy allocator, to be read without its lock.
static FREE: AtomicUsize = AtomicUsize::new(0);
static RESERVE: AtomicUsize = AtomicUsize::new(0);
/// Number of free frames below which memory is short: half of [`RESERVE`].
static SHORT: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug)]
struct Cache {
    /// Number of frames in the cache; other processors read it for statistics.
    count: AtomicUsize,
    /// Numbers of counted frames allocated on this processor, and freed.
    made: AtomicU64,
    freed: AtomicU64,
    frames: UnsafeCell<[u32; CACHE_FRAMES]>,
}

// SAFETY: `frames` is touched by its own processor only, with preemption off.
unsafe impl Sync for Cache {}

static CACHES: [Cache; percpu::MAX_CPUS] = [const {
    Cache {
        count: AtomicUsize::new(0),
        made: AtomicU64::new(0),
        freed: AtomicU64::new(0),
        frames: UnsafeCell::new([0; CACHE_FRAMES]),
    }
}; percpu::MAX_CPUS];

/// The requester of a frame. Only the kernel may use the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// Memory of programs and other uses that can be refused: may not use the reserve.
    Program,
    /// The kernel's own needs, which were charged before.
    Kernel,
}

/// Starts the allocator with the given table and no free frames; `total` frames will be managed.
///
/// # Safety
/// Call it once; `references` has `links.len()` zeroed counts and nothing else uses it.
pub unsafe fn init(links: &'static mut [buddy::Link], references: *mut AtomicU32, total: usize) {
    TABLE_LENGTH.store(links.len(), Relaxed);
    REFERENCES.store(references, Relaxed);
    TOTAL.store(total, Relaxed);
    let reserve = (total / 64).clamp(512, 4096);
    RESERVE.store(reserve, Relaxed);
    SHORT.store(reserve / 2, Relaxed);
    *BUDDY.lock() = Some(Buddy::new(links));
}

/// Returns the number after the last frame's.
pub fn end() -> u32 {
    TABLE_LENGTH.load(Relaxed) as u32
}

/// Gives `count` frames from `start` to the allocator.
pub fn add_range(start: u32, count: usize) {
    free_contiguous(start, count);
}

fn with_buddy<R>(act: impl FnOnce(&mut Buddy<'static>) -> R) -> Option<R> {
    let mut guard = BUDDY.lock();
    let buddy = guard.as_mut()?;
    let answer = act(buddy);
    FREE.store(buddy.free_frames(), Relaxed);
    Some(answer)
}

/// Returns the kernel's address of frame `frame`.
#[inline]
pub fn address(frame: u32) -> *mut u8 {
    phys_to_virt(u64::from(frame) << 12) as *mut u8
}

/// Runs `act` on this processor's cache: the frames and their number.
#[inline]
fn with_cache<R>(act: impl FnOnce(&Cache, &mut [u32; CACHE_FRAMES], &mut usize) -> R) -> R {
    let _hold = NoPreempt::new();
    let cache = &CACHES[percpu::cpu()];
    // SAFETY: our own processor's, preemption is off and interrupt handlers do not come here.
    let frames = unsafe { &mut *cache.frames.get() };
    let mut count = cache.count.load(Relaxed);
    let answer = act(cache, frames, &mut count);
    cache.count.store(count, Relaxed);
    answer
}

/// Takes one frame with any contents; its count stays 0.
#[inline]
pub fn allocate(who: For) -> Option<u32> {
    with_cache(|_, frames, count| take(frames, count, who))
}

/// Takes one zeroed frame; its count stays 0.
pub fn allocate_zeroed(who: For) -> Option<u32> {
    // SAFETY: a frame just allocated.
    allocate(who).inspect(|&frame| unsafe { pages::zero(address(frame)) })
}

#[inline]
fn take(frames: &mut [u32; CACHE_FRAMES], count: &mut usize, who: For) -> Option<u32> {
    if *count == 0 {
        *count = refill(frames, who);
    }
    *count = count.checked_sub(1)?;
    frames.get(*count).copied()
}

#[inline]
fn put(frames: &mut [u32; CACHE_FRAMES], count: &mut usize, frame: u32) {
    if *count >= CACHE_FRAMES {
        drain(&frames[BATCH_FRAMES..]);
        *count = BATCH_FRAMES;
    }
    frames[*count] = frame;
    *count += 1;
}

#[cold]
fn refill(frames: &mut [u32; CACHE_FRAMES], who: For) -> usize {
    let spare = match who {
        For::Program if !crate::thread::uses_reserve() => RESERVE.load(Relaxed),
        _ => 0,
    };
    with_buddy(|buddy| {
        // Frames out of the reserve go only to a requester that may use the reserve, not into the cache, from which
        // any requester is served.
        let batch = if buddy.free_frames() > reserve() + BATCH_FRAMES { BATCH_FRAMES } else { 1 };
        if buddy.free_frames() > spare { buddy.allocate_each(&mut frames[..batch]) } else { 0 }
    })
    .unwrap_or(0)
}

/// Frees one frame without references.
#[inline]
pub fn free(frame: u32) {
    with_cache(|_, frames, count| put(frames, count, frame));
}

#[cold]
fn drain(frames: &[u32]) {
    with_buddy(|buddy| buddy.free_each(frames));
}

/// Moves this processor's cached frames to the buddy allocator.
pub fn empty_cache() {
    with_cache(|_, frames, count| drain(&frames[..core::mem::take(count)]));
}

/// Takes `count` contiguous frames, bypassing the caches.
pub fn allocate_contiguous(count: usize, who: For) -> Option<u32> {
    let spare = match who {
        For::Program => RESERVE.load(Relaxed),
        For::Kernel => 0,
    };
    with_buddy(|buddy| {
        if buddy.free_frames() < count + spare { None } else { buddy.allocate_contiguous(count) }
    })?
}

/// Frees `count` contiguous frames.
pub fn free_contiguous(start: u32, count: usize) {
    with_buddy(|buddy| buddy.free_range(start, count));
}

/// Returns the reference count of `frame`.
///
/// # Panics
/// Panics if there is no such frame.
#[inline]
pub fn references(frame: u32) -> &'static AtomicU32 {
    assert!((frame as usize) < TABLE_LENGTH.load(Relaxed), "no frame {frame:#x}");
    // SAFETY: within the table (asserted).
    let count = unsafe { REFERENCES.load(Relaxed).add(frame as usize) };
    // SAFETY: the table lives for ever.
    unsafe { &*count }
}

/// Takes one frame with one reference and any contents.
#[inline]
pub fn allocate_counted() -> Option<u32> {
    let mut new = [0];
    (allocate_all(&mut new) == 1).then_some(new[0])
}

/// Takes `count` contiguous frames, each with one reference.
pub fn allocate_counted_run(count: usize) -> Option<u32> {
    let first = allocate_contiguous(count, For::Program)?;
    (first..).take(count).for_each(|frame| references(frame).store(1, Relaxed));
    with_cache(|cache, _, _| cache.made.store(cache.made.load(Relaxed) + count as u64, Relaxed));
    Some(first)
}

/// Adds a reference.
#[inline]
pub fn retain(frame: u32) {
    references(frame).fetch_add(1, Relaxed);
}

/// Drops a reference. Returns whether it was the last.
#[inline]
fn is_last(frame: u32) -> bool {
    let references = references(frame);
    // A sole holder can skip the atomic step, because nobody else can add a reference.
    if references.load(Acquire) == 1 {
        references.store(0, Relaxed);
        return true;
    }
    references.fetch_sub(1, AcqRel) == 1
}

/// Drops a reference; the last one frees the frame.
#[inline]
pub fn release(frame: u32) {
    if is_last(frame) {
        give_back([frame]);
    }
}

/// Frees frames that have no references. Returns their number.
#[inline]
fn give_back(all: impl IntoIterator<Item = u32>) -> usize {
    with_cache(|cache, frames, count| {
        let mut freed = 0;
        // `for_each` is used because nested loops over tables run faster inside the iterator than driven from
        // outside.
        all.into_iter().for_each(|frame| {
            put(frames, count, frame);
            freed += 1;
        });
        cache.freed.store(cache.freed.load(Relaxed) + freed, Relaxed);
        freed as usize
    })
}

/// Drops a reference of each frame. Returns the number of frames that it freed.
#[inline]
pub fn release_all(all: impl IntoIterator<Item = u32>) -> usize {
    give_back(all.into_iter().filter(|&frame| is_last(frame)))
}

/// Drops a reference of each of `count` contiguous frames. They are freed as one run if none has another reference. Returns the
/// number of frames that it freed.
pub fn release_run(first: u32, count: usize) -> usize {
    let run = (first..).take(count);
    if run.clone().any(|frame| references(frame).load(Acquire) != 1) {
        return release_all(run);
    }
    run.for_each(|frame| references(frame).store(0, Relaxed));
    with_cache(|cache, _, _| cache.freed.store(cache.freed.load(Relaxed) + count as u64, Relaxed));
    free_contiguous(first, count);
    count
}

/// Takes frames with one reference each and any contents, while there are some. Returns how many of `new` were
/// filled.
pub fn allocate_all(new: &mut [u32]) -> usize {
    with_cache(|cache, frames, count| {
        let mut made = 0;
        for place in new {
            let Some(frame) = take(frames, count, For::Program) else { break };
            references(frame).store(1, Relaxed);
            *place = frame;
            made += 1;
        }
        cache.made.store(cache.made.load(Relaxed) + made, Relaxed);
        made as usize
    })
}

/// Returns the number of frames with references now, and the number ever allocated.
pub fn counted() -> (u64, u64) {
    let made: u64 = CACHES.iter().map(|cache| cache.made.load(Relaxed)).sum();
    let freed: u64 = CACHES.iter().map(|cache| cache.freed.load(Relaxed)).sum();
    (made.saturating_sub(freed), made)
}

/// Returns the numbers of frames managed and of frames free (caches included).
pub fn totals() -> (usize, usize) {
    let caches = CACHES.iter().take(smp::online());
    let cached: usize = caches.map(|cache| cache.count.load(Relaxed)).sum();
    (TOTAL.load(Relaxed), FREE.load(Relaxed) + cached)
}

/// Returns whether the kernel has used much of its reserve.
#[inline]
pub fn is_short() -> bool {
    FREE.load(Relaxed) < SHORT.load(Relaxed)
}

/// Returns whether few frames beyond the reserve are free: programs are refused frames, or soon will be.
pub fn is_full() -> bool {
    FREE.load(Relaxed) <= RESERVE.load(Relaxed) + BATCH_FRAMES
}

/// Returns the number of frames reserved for the kernel.
pub fn reserve() -> usize {
    RESERVE.load(Relaxed)
}
