//! The kernel heap: slabs by size behind per-processor magazines, whole pages above 2 KiB.
//!
//! A slab is a naturally aligned run of 1, 2 or 4 pages ([`runs`]): a [`Slab`] header and objects of one
//! size, the free ones chained. A magazine is a processor's stock of free objects of one size, guarded
//! by preemption being off; interrupt handlers neither allocate nor free. Objects that have left the
//! slabs and are in no magazine are in use, so [`live_objects`] can count them at no cost for an
//! allocation. Source: Bonwick and Adams, "Magazines and vmem" (USENIX 2001).
use super::{frames, runs};
use crate::{
    arch::percpu,
    objects::{self, Kind},
    spin::{NoPreempt, SpinLock},
};
use buddy::sizes::{
    CLASSES, HEADER_BYTES, SIZES, class_of, frames_of, has_room, objects_of, slab_frames,
};
use core::{
    alloc::{GlobalAlloc, Layout},
    cell::UnsafeCell,
    mem,
    ptr::{self, NonNull, null_mut},
    sync::atomic::{
        AtomicPtr, AtomicUsize,
        Ordering::{Acquire, Relaxed, Release},
    },
};
use runqueue::{Fifo, Node, Store};

const ROUNDS: usize = 28;
const BATCH: usize = ROUNDS / 2;

#[repr(C, align(64))]
struct Slab {
    /// The slab's links in the list of partial slabs.
    node: Node<NonNull<Slab>>,
    free: *mut *mut u8,
    used: u32,
}

const _: () = assert!(size_of::<Slab>() <= HEADER_BYTES);

/// The links of slabs, which the lock of their class guards.
struct Slabs;

impl Store<NonNull<Slab>> for Slabs {
    fn node(&mut self, of: NonNull<Slab>) -> &mut Node<NonNull<Slab>> {
        // SAFETY: a slab of ours, and nobody holds another node's reference meanwhile.
        unsafe { &mut (*of.as_ptr()).node }
    }
}

/// The slabs of one class that have both used and free objects.
struct Partial {
    list: Fifo<NonNull<Slab>>,
    /// A slab that is all free and in no list; null for none.
    spare: *mut Slab,
    /// Number of objects outside their slabs, in magazines or in use, over all slabs of the class.
    out: usize,
}

// SAFETY: the slabs are reached under the lock around this only.
unsafe impl Send for Partial {}

static PARTIAL: [SpinLock<Partial>; CLASSES] = [const {
    SpinLock::new(class!("nucleus.slab"), Partial { list: Fifo::new(), spare: null_mut(), out: 0 })
}; CLASSES];

type Rounds = [*mut u8; ROUNDS];

struct Magazine {
    /// Number of objects in the magazine; other processors read it for statistics.
    count: AtomicUsize,
    rounds: UnsafeCell<Rounds>,
}

struct Magazines([Magazine; CLASSES]);

// SAFETY: `rounds` is touched by its own processor only, with preemption off.
unsafe impl Sync for Magazines {}

static FIRST: Magazines = Magazines(
    [const { Magazine { count: AtomicUsize::new(0), rounds: UnsafeCell::new([null_mut(); ROUNDS]) } };
        CLASSES],
);
static MAGAZINES: [AtomicPtr<Magazines>; percpu::MAX_CPUS] = {
    let mut all = [const { AtomicPtr::new(null_mut()) }; percpu::MAX_CPUS];
    all[0] = AtomicPtr::new((&raw const FIRST).cast_mut());
    all
};
static SLAB_FRAMES: AtomicUsize = AtomicUsize::new(0);

/// Gives processor `cpu` (not 0, not yet running) its magazines.
///
/// # Panics
/// If there is no memory for the magazines: the processor could not run then.
pub fn prepare_cpu(cpu: usize) {
    const FRAMES: usize = size_of::<Magazines>().div_ceil(4096);
    let at = runs::allocate(FRAMES);
    assert!(!at.is_null(), "no memory for a processor's magazines");
    // SAFETY: a run of our own, that long.
    unsafe { ptr::write_bytes(at, 0, FRAMES * 4096) };
    MAGAZINES[cpu].store(at.cast(), Release);
}

/// Returns the number of frames that the heap has.
pub fn heap_frames() -> usize {
    objects::of(Kind::LargeFrame) as usize + SLAB_FRAMES.load(Relaxed) + runs::kept()
}

/// Returns the number of objects in use now. The processors' magazines are read one after the other, so
/// it is exact only when nothing changes.
pub fn live_objects() -> usize {
    let out: usize = PARTIAL.iter().map(|partial| partial.lock().out).sum();
    let stocked: usize = MAGAZINES
        .iter()
        .map(|magazines| magazines.load(Acquire))
        .filter(|magazines| !magazines.is_null())
        // SAFETY: set once, lives for ever; only the counts are read, which are atomic.
        .flat_map(|magazines| unsafe { &(*magazines).0 })
        .map(|magazine| magazine.count.load(Relaxed))
        .sum();
    out.saturating_sub(stocked)
}

/// Runs `act` on this processor's magazine of `class`: its objects and their number.
#[inline]
fn with_magazine<R>(class: usize, act: impl FnOnce(&mut Rounds, &mut usize) -> R) -> R {
    let _hold = NoPreempt::new();
    let all = MAGAZINES[percpu::cpu()].load(Acquire);
    // SAFETY: set before the processor ran, lives for ever.
    let magazine = unsafe { &(*all).0[class] };
    // SAFETY: our own processor's, preemption is off and interrupt handlers do not come here.
    let rounds = unsafe { &mut *magazine.rounds.get() };
    let mut count = magazine.count.load(Relaxed);
    let answer = act(rounds, &mut count);
    magazine.count.store(count, Relaxed);
    answer
}

fn allocate_object(class: usize) -> *mut u8 {
    with_magazine(class, |rounds, count| {
        if *count == 0 {
            refill(class, rounds, count);
        }
        match count.checked_sub(1) {
            None => null_mut(),
            Some(rest) => {
                *count = rest;
                rounds[rest]
            }
        }
    })
}

/// It is not inlined, so that callers that know the layout inline the choice of the class.
#[inline(never)]
fn free_object(class: usize, object: *mut u8) {
    with_magazine(class, |rounds, count| {
        if *count == ROUNDS {
            drain(class, rounds, count, BATCH);
        }
        rounds[*count] = object;
        *count += 1;
    });
}

#[cold]
fn refill(class: usize, rounds: &mut Rounds, count: &mut usize) {
    let mut partial = PARTIAL[class].lock();
    while *count < BATCH {
        if partial.list.first().is_none() {
            let spare = mem::replace(&mut partial.spare, null_mut());
            let slab = if spare.is_null() { new_slab(class) } else { spare };
            let Some(slab) = NonNull::new(slab) else { return };
            partial.list.push_front(&mut Slabs, slab);
        }
        let Some(slab) = partial.list.first() else { return };
        // SAFETY: a slab in the list has a free object, and we hold its lock.
        rounds[*count] = unsafe { partial.take(slab) };
        *count += 1;
        partial.out += 1;
    }
}

/// Puts objects of a magazine back into their slabs until `keep` are left.
#[cold]
fn drain(class: usize, rounds: &Rounds, count: &mut usize, keep: usize) {
    let mut partial = PARTIAL[class].lock();
    let bytes = slab_frames(class) * 4096;
    while *count > keep {
        *count -= 1;
        partial.out -= 1;
        let object = rounds[*count];
        let slab = object.map_addr(|at| at & !(bytes - 1)).cast::<Slab>();
        let Some(slab) = NonNull::new(slab) else { return };
        // SAFETY: the object came from this slab, which is aligned to its size; its lock is held.
        free_slab(class, unsafe { partial.put(slab, object) });
    }
}

/// Frees a slab that is in no list; `slab` may be null.
fn free_slab(class: usize, slab: *mut Slab) {
    if !slab.is_null() {
        SLAB_FRAMES.fetch_sub(slab_frames(class), Relaxed);
        objects::count(Kind::Slab, -1);
        runs::free(slab.cast(), slab_frames(class));
    }
}

/// Number of requests to all processors to give back cached memory, and how many of these each processor
/// has answered.
static ASKED: AtomicUsize = AtomicUsize::new(0);
static ANSWERED: [AtomicUsize; percpu::MAX_CPUS] =
    [const { AtomicUsize::new(0) }; percpu::MAX_CPUS];

/// Gives back memory that the heap caches: spare slabs, this processor's objects and frames, and those
/// of the other processors when they are idle. Must be called in a thread.
pub fn shrink() {
    ASKED.fetch_add(1, Relaxed);
    shrink_here();
    for (class, partial) in PARTIAL.iter().enumerate() {
        let spare = mem::replace(&mut partial.lock().spare, null_mut());
        free_slab(class, spare);
    }
    runs::reap();
}

/// Gives back this processor's cached objects and frames if that was requested since the last time.
pub fn shrink_here() {
    let _hold = NoPreempt::new();
    let asked = ASKED.load(Relaxed);
    if ANSWERED[percpu::cpu()].swap(asked, Relaxed) != asked {
        for class in 0..CLASSES {
            with_magazine(class, |rounds, count| drain(class, rounds, count, 0));
        }
        frames::empty_cache();
    }
}

fn new_slab(class: usize) -> *mut Slab {
    let count = slab_frames(class);
    let base = runs::allocate(count);
    if base.is_null() {
        return base.cast();
    }
    SLAB_FRAMES.fetch_add(count, Relaxed);
    objects::count(Kind::Slab, 1);
    let size = usize::from(SIZES[class]);
    let mut free: *mut *mut u8 = null_mut();
    for index in (0..objects_of(class)).rev() {
        // SAFETY: within the slab's frames.
        let object = unsafe { base.add(HEADER_BYTES + index * size) }.cast::<*mut u8>();
        // SAFETY: an object of ours of at least 16 bytes, aligned to 16.
        unsafe { object.write(free.cast()) };
        free = object;
    }
    let slab = base.cast::<Slab>();
    // SAFETY: the first bytes of our frames.
    unsafe { slab.write(Slab { node: Node::new(), free, used: 0 }) };
    slab
}

impl Partial {
    /// Takes an object of `slab`. With its last object the slab leaves the list.
    ///
    /// # Safety
    /// `slab` is in the list.
    unsafe fn take(&mut self, mut slab: NonNull<Slab>) -> *mut u8 {
        // SAFETY: a slab in the list, ours under the lock.
        let header = unsafe { slab.as_mut() };
        let object = header.free;
        // SAFETY: a free object holds the address of the next.
        header.free = unsafe { object.read() }.cast();
        header.used += 1;
        if header.free.is_null() {
            self.list.remove(&mut Slabs, slab);
        }
        object.cast()
    }

    /// Puts `object` back. Returns a slab that is all free and in no list, for the caller to free, or
    /// null.
    ///
    /// # Safety
    /// `object` is a used one of `slab`.
    unsafe fn put(&mut self, mut slab: NonNull<Slab>, object: *mut u8) -> *mut Slab {
        // SAFETY: a slab of ours under the lock.
        let header = unsafe { slab.as_mut() };
        let was_full = header.free.is_null();
        // SAFETY: the object is nobody's now.
        unsafe { object.cast::<*mut u8>().write(header.free.cast()) };
        header.free = object.cast();
        header.used -= 1;
        let is_all_free = header.used == 0;
        match (was_full, is_all_free) {
            // Full slabs are in no list, nor are slabs that are all free.
            (true, false) => self.list.push_front(&mut Slabs, slab),
            (false, true) => self.list.remove(&mut Slabs, slab),
            _ => {}
        }
        if is_all_free { mem::replace(&mut self.spare, slab.as_ptr()) } else { null_mut() }
    }
}

fn allocate_large(layout: Layout) -> *mut u8 {
    let count = frames_of(layout);
    let run = runs::allocate(count);
    if !run.is_null() {
        objects::count(Kind::LargeFrame, count as i64);
    }
    run
}

fn free_large(at: *mut u8, layout: Layout) {
    let count = frames_of(layout);
    objects::count(Kind::LargeFrame, -(count as i64));
    runs::free(at, count);
}

fn is_in_interrupt() -> bool {
    percpu::this().interrupt_nesting.load(Relaxed) != 0
}

/// The kernel's global allocator.
#[derive(Debug)]
pub struct Heap;

// SAFETY: objects of a class are at least as large and as aligned as the layout (`class_of`), large
// ones are whole pages aligned to their power of two; none is handed out twice.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        debug_assert!(!is_in_interrupt(), "allocation in an interrupt");
        match class_of(layout) {
            Some(class) => allocate_object(class),
            None => allocate_large(layout),
        }
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        debug_assert!(!is_in_interrupt(), "deallocation in an interrupt");
        match class_of(layout) {
            Some(class) => free_object(class, at),
            None => free_large(at, layout),
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller says that `size` rounded up to the alignment does not overflow.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if has_room(layout, wanted) {
            return at;
        }
        // SAFETY: as the caller says.
        let new = unsafe { self.alloc(wanted) };
        if !new.is_null() {
            // SAFETY: both are at least that long and differ.
            unsafe { ptr::copy_nonoverlapping(at, new, layout.size().min(size)) };
            // SAFETY: as the caller says.
            unsafe { self.dealloc(at, layout) };
        }
        new
    }
}

#[cfg(target_os = "none")]
#[global_allocator]
static HEAP: Heap = Heap;
