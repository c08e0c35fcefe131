//! Memory of the host world: frames are words in chunks that are never given back to std.
//!
//! A frame's reference count is in its slot; the numbers of free frames are in a stack. Limits and
//! refusals come from [`super::control`].
use super::{control, thread::lock};
use crate::{
    NoMemory, PAGE_BYTES,
    memory::{Frame, Statistics, fill_each},
    words,
};
use std::sync::{
    Arc, Mutex, OnceLock,
    atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*},
};

const CHUNK_FRAMES: usize = 256;
const CHUNKS: usize = 4096;
const WORDS: usize = PAGE_BYTES / 8;

#[repr(C, align(4096))]
struct Slot {
    words: [AtomicU64; WORDS],
    references: AtomicU32,
}

static SLOTS: [OnceLock<Box<[Slot]>>; CHUNKS] = [const { OnceLock::new() }; CHUNKS];

/// Memory shared between components.
#[derive(Clone, Debug)]
pub(crate) struct RegionHandle(Arc<[AtomicU64]>);

pub(crate) fn region_new(bytes: usize) -> Result<RegionHandle, NoMemory> {
    may_allocate()?;
    let words = bytes.max(1).next_multiple_of(PAGE_BYTES) / 8;
    Ok(RegionHandle((0..words).map(|_| AtomicU64::new(0)).collect()))
}

impl RegionHandle {
    /// Returns all words of the region.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        &self.0
    }
}

struct Pool {
    free: Vec<u32>,
    next: u32,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { free: Vec::new(), next: 0 });
static CHARGED_BYTES: AtomicUsize = AtomicUsize::new(0);

fn new_chunk() -> Box<[Slot]> {
    (0..CHUNK_FRAMES)
        .map(|_| Slot {
            words: [const { AtomicU64::new(0) }; WORDS],
            references: AtomicU32::new(0),
        })
        .collect()
}

fn slot(frame: u32) -> &'static Slot {
    let number = frame as usize;
    &SLOTS[number / CHUNK_FRAMES].get_or_init(new_chunk)[number % CHUNK_FRAMES]
}

/// Returns the words of a frame.
pub(crate) fn frame_words(frame: u32) -> &'static [AtomicU64] {
    &slot(frame).words
}

/// Returns whether `frame` has references.
pub(crate) fn is_live(frame: u32) -> bool {
    frame < lock(&POOL).next && slot(frame).references.load(Relaxed) > 0
}

/// Refuses the allocation if a test asked for that.
pub(crate) fn may_allocate() -> Result<(), NoMemory> {
    if control::is_refused() { Err(NoMemory) } else { Ok(()) }
}

pub(crate) fn charge(bytes: usize) -> Result<(), NoMemory> {
    may_allocate()?;
    let limit = control::charge_limit_bytes();
    let charged = |now: usize| now.checked_add(bytes).filter(|sum| *sum <= limit);
    CHARGED_BYTES.try_update(Relaxed, Relaxed, charged).map(|_| ()).map_err(|_| NoMemory)
}

pub(crate) fn uncharge(bytes: usize) {
    CHARGED_BYTES.fetch_sub(bytes, Relaxed);
}

pub(crate) fn use_reserve() -> bool {
    control::use_reserve()
}

pub(crate) fn leave_reserve() {
    control::leave_reserve();
}

/// Never short: the host has enough memory.
pub(crate) fn is_short() -> bool {
    false
}

/// Returns whether a test has the calling thread's next allocation refused.
pub(crate) fn is_full() -> bool {
    control::refuses()
}

/// Does nothing: the host's allocator manages itself.
pub(crate) fn shrink() {}

/// Allocates frames that are not zeroed, while there are some. Returns the number of `new` that were filled.
pub(crate) fn allocate_all(new: &mut [u32]) -> usize {
    fill_each(new, || frame_allocate(false))
}

/// Allocates a frame. Unless `zeroed`, it is filled with garbage, so that tests find code that
/// relies on clean frames.
pub(crate) fn frame_allocate(zeroed: bool) -> Result<u32, NoMemory> {
    may_allocate()?;
    let id = {
        let mut pool = lock(&POOL);
        if pool.next as usize - pool.free.len() >= control::frame_limit() {
            return Err(NoMemory);
        }
        match pool.free.pop() {
            Some(id) => id,
            None if (pool.next as usize) < CHUNKS * CHUNK_FRAMES => {
                pool.next += 1;
                pool.next - 1
            }
            None => return Err(NoMemory),
        }
    };
    let slot = slot(id);
    let fill = if zeroed { 0 } else { 0xa5a5_a5a5_a5a5_a5a5 };
    slot.words.iter().for_each(|word| word.store(fill, Relaxed));
    slot.references.store(1, Release);
    Ok(id)
}

pub(crate) fn frame_retain(frame: u32) {
    let before = slot(frame).references.fetch_add(1, Relaxed);
    assert!(before > 0, "a free frame was counted up");
}

pub(crate) fn frame_release(frame: u32) {
    let before = slot(frame).references.fetch_sub(1, AcqRel);
    assert!(before > 0, "a free frame was counted down");
    if before == 1 {
        lock(&POOL).free.push(frame);
    }
}

pub(crate) fn release_all(frames: impl IntoIterator<Item = u32>) {
    frames.into_iter().for_each(frame_release);
}

/// Adds a reference to a frame that has one already. Returns `false` if it has none.
pub(crate) fn frame_lent(frame: u32) -> bool {
    let count_up = |now: u32| (now > 0).then_some(now + 1);
    frame < lock(&POOL).next && slot(frame).references.try_update(AcqRel, Relaxed, count_up).is_ok()
}

pub(crate) fn frame_references(frame: u32) -> u32 {
    slot(frame).references.load(Acquire)
}

pub(crate) fn frame_exclusive(frame: &mut Frame) -> Option<&mut [u8; PAGE_BYTES]> {
    if frame_references(frame.id().0) != 1 {
        return None;
    }
    let words = slot(frame.id().0).words.as_ptr();
    // SAFETY: the words are interior-mutable memory of `PAGE_BYTES` bytes that lives for ever; the
    // only reference to the frame is borrowed exclusively for as long as the slice lives, and no
    // frame can be counted up but through a reference.
    Some(unsafe { &mut *words.cast_mut().cast::<[u8; PAGE_BYTES]>() })
}

pub(crate) fn frame_read(frame: u32, offset: usize, out: &mut [u8]) {
    words::read(frame_words(frame), offset, out);
}

pub(crate) fn frame_write(frame: u32, offset: usize, data: &[u8]) {
    words::write(frame_words(frame), offset, data);
}

pub(crate) fn frame_zero(frame: u32, offset: usize, length: usize) {
    words::zero(frame_words(frame), offset, length);
}

pub(crate) fn frame_copy(from: u32, to: u32) {
    for (from, to) in frame_words(from).iter().zip(frame_words(to)) {
        to.store(from.load(Relaxed), Relaxed);
    }
}

pub(crate) fn statistics() -> Statistics {
    let used = {
        let pool = lock(&POOL);
        pool.next as usize - pool.free.len()
    };
    let total = control::frame_limit().min(CHUNKS * CHUNK_FRAMES);
    Statistics {
        total_frames: total as u64,
        free_frames: total.saturating_sub(used) as u64,
        charged_bytes: CHARGED_BYTES.load(Relaxed) as u64,
        large_pages: 0,
        ..Statistics::default()
    }
}
