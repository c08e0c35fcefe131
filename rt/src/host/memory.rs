//! Memory of the host world: frames are words in chunks that are never given back to std.
//!
//! A chunk holds single frames, which are in a list when they are free, or the run of one [`crate::memory::FramePool`], which is
//! also the words of its region. Limits and refusals come from [`super::control`].
//!
//! A handed frame is one *view* ([`VIEW`]) of the frame of the client, which is in the same process: it has contents as long as
//! the client keeps the frame, and is counted apart from the client's references, as in the process world.
use super::{control, thread::lock};
use crate::{
    NoMemory, PAGE_BYTES,
    memory::{Frame, Statistics, fill_each},
    words,
};
use handings::Handings;
use std::{
    collections::HashMap,
    sync::{
        Arc, LazyLock, Mutex, OnceLock,
        atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*},
    },
};

const CHUNK_FRAMES: usize = 512;
const CHUNKS: usize = 2048;
const WORDS: usize = PAGE_BYTES / 8;
/// Flag of the number of a frame that was handed.
const VIEW: u32 = 1 << 30;
/// Flag of the number by which other components know a frame. So a test finds code that confuses the numbers.
const PARTNER: u32 = 1 << 29;

struct FrameChunk {
    words: Box<[AtomicU64]>,
    references: [AtomicU32; CHUNK_FRAMES],
    handings: Handings<{ CHUNK_FRAMES / 64 }>,
}

static TABLE: [OnceLock<Box<FrameChunk>>; CHUNKS] = [const { OnceLock::new() }; CHUNKS];

/// Memory shared between components.
#[derive(Clone, Debug)]
pub(crate) enum RegionHandle {
    /// Memory of its own.
    Words(Arc<[AtomicU64]>),
    /// The frames of a pool.
    PoolRun(Arc<PoolRun>),
}

/// Consecutive frames of one chunk, with a reference to each.
#[derive(Debug)]
pub(crate) struct PoolRun {
    first: u32,
    pages: usize,
}

impl PoolRun {
    /// Returns whether `frame` is one of its frames.
    pub(super) fn has(&self, frame: u32) -> bool {
        (frame.wrapping_sub(self.first) as usize) < self.pages
    }
}

impl Drop for PoolRun {
    fn drop(&mut self) {
        release_all((self.first..).take(self.pages));
    }
}

pub(crate) fn region_new(bytes: usize) -> Result<RegionHandle, NoMemory> {
    may_allocate()?;
    let words = bytes.max(1).next_multiple_of(PAGE_BYTES) / 8;
    Ok(RegionHandle::Words((0..words).map(|_| AtomicU64::new(0)).collect()))
}

impl RegionHandle {
    /// Returns all words of the region.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        match self {
            RegionHandle::Words(words) => words,
            RegionHandle::PoolRun(run) => {
                let (chunk, page) = place(run.first);
                &chunk.words[page * WORDS..][..run.pages * WORDS]
            }
        }
    }
}

#[derive(Default)]
struct Frames {
    /// Free single frames.
    free: Vec<u32>,
    /// Chunks of runs whose frames are all free.
    free_runs: Vec<u32>,
    /// Number of frames with references of each chunk that has a run.
    runs: HashMap<u32, usize>,
    /// Number of chunks.
    chunks: u32,
    used: usize,
}

static FRAMES: LazyLock<Mutex<Frames>> = LazyLock::new(Mutex::default);
static CHARGED_BYTES: AtomicUsize = AtomicUsize::new(0);

impl Frames {
    /// Takes the number of a chunk that was never used.
    fn new_chunk(&mut self) -> Result<u32, NoMemory> {
        if self.chunks as usize == CHUNKS {
            return Err(NoMemory);
        }
        self.chunks += 1;
        Ok(self.chunks - 1)
    }
    /// Counts `frames` as used.
    fn take(&mut self, frames: usize) -> Result<(), NoMemory> {
        let after = self.used + frames;
        if after > control::frame_limit() {
            return Err(NoMemory);
        }
        self.used = after;
        Ok(())
    }
    fn single(&mut self) -> Result<u32, NoMemory> {
        if self.free.is_empty() {
            let first = self.new_chunk()? * CHUNK_FRAMES as u32;
            self.free.extend((first..first + CHUNK_FRAMES as u32).rev());
        }
        self.take(1)?;
        self.free.pop().ok_or(NoMemory)
    }
    fn run(&mut self, pages: usize) -> Result<u32, NoMemory> {
        if pages > CHUNK_FRAMES {
            return Err(NoMemory);
        }
        // A run is not used again as long as there are views of it.
        let chunk = match self.free_runs.iter().position(|&chunk| !has_views(chunk)) {
            Some(at) => self.free_runs.swap_remove(at),
            None => self.new_chunk()?,
        };
        if self.take(pages).is_err() {
            self.free_runs.push(chunk);
            return Err(NoMemory);
        }
        self.runs.insert(chunk, pages);
        Ok(chunk * CHUNK_FRAMES as u32)
    }
    fn free(&mut self, frame: u32) {
        self.used -= 1;
        let chunk = frame / CHUNK_FRAMES as u32;
        match self.runs.get_mut(&chunk) {
            None => self.free.push(frame),
            Some(live) if *live > 1 => *live -= 1,
            Some(_) => {
                self.runs.remove(&chunk);
                self.free_runs.push(chunk);
            }
        }
    }
}

fn new_chunk() -> Box<FrameChunk> {
    Box::new(FrameChunk {
        words: (0..CHUNK_FRAMES * WORDS).map(|_| AtomicU64::new(0)).collect(),
        references: [const { AtomicU32::new(0) }; CHUNK_FRAMES],
        handings: Handings::new(),
    })
}

/// Returns the chunk of a frame, or of a view of it, and the frame's index there.
fn place(frame: u32) -> (&'static FrameChunk, usize) {
    let number = plain(frame) as usize;
    (TABLE[number / CHUNK_FRAMES].get_or_init(new_chunk), number % CHUNK_FRAMES)
}

fn has_views(chunk: u32) -> bool {
    let handings = &place(chunk * CHUNK_FRAMES as u32).0.handings;
    (0..CHUNK_FRAMES).any(|page| handings.references(page) > 0)
}

fn references(frame: u32) -> &'static AtomicU32 {
    let (chunk, page) = place(frame);
    &chunk.references[page]
}

/// Returns the number by which other components know a frame, or the frame of which it is a view.
pub(crate) fn partner_number(frame: u32) -> u32 {
    plain(frame) | PARTNER
}

/// Returns the number of the frame that other components know by `number`; `None` if that is no such number.
fn own_number(number: u32) -> Option<u32> {
    (number & (VIEW | PARTNER) == PARTNER).then_some(number & !PARTNER)
}

/// Returns the number of the frame of which `frame` may be a view.
pub(crate) fn plain(frame: u32) -> u32 {
    frame & !VIEW
}

/// Returns whether `frame` is a view, which only its client writes.
pub(crate) fn is_kept_by_client(frame: u32) -> bool {
    frame & VIEW != 0
}

/// Returns the words of a frame.
///
/// # Panics
/// Panics for a view of a frame that its client has dropped.
pub(crate) fn frame_words(frame: u32) -> &'static [AtomicU64] {
    let (chunk, page) = place(frame);
    let is_kept = chunk.references[page].load(Relaxed) > 0;
    assert!(is_kept, "frame {} is handed, and its client has dropped it", plain(frame));
    &chunk.words[page * WORDS..][..WORDS]
}

/// Returns whether `frame` has references.
pub(crate) fn is_live(frame: u32) -> bool {
    frame / (CHUNK_FRAMES as u32) < lock(&FRAMES).chunks && references(frame).load(Relaxed) > 0
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
    let frame = lock(&FRAMES).single()?;
    references(frame).store(1, Release);
    let fill = if zeroed { 0 } else { 0xa5a5_a5a5_a5a5_a5a5 };
    frame_words(frame).iter().for_each(|word| word.store(fill, Relaxed));
    Ok(frame)
}

/// Allocates a region whose pages are frames. Returns the number of the first as well.
pub(crate) fn pool_new(pages: usize) -> Result<(RegionHandle, u32), NoMemory> {
    may_allocate()?;
    let first = lock(&FRAMES).run(pages)?;
    place(first).0.handings.take_dropped(&mut |_, _| {});
    for frame in (first..).take(pages) {
        references(frame).store(1, Release);
        frame_words(frame).iter().for_each(|word| word.store(0, Relaxed));
    }
    Ok((RegionHandle::PoolRun(Arc::new(PoolRun { first, pages })), first))
}

/// Adds a reference to `frame` if it has exactly one. Returns whether it did.
pub(crate) fn frame_claim(frame: u32) -> bool {
    let references = references(frame);
    references.load(Relaxed) == 1 && references.compare_exchange(1, 2, AcqRel, Relaxed).is_ok()
}

/// Makes the frames of `region` readable as handed ones, for the threads of the calling one's component.
pub(crate) fn pool_attach(region: RegionHandle, first: u32) -> Result<(), NoMemory> {
    may_allocate()?;
    match region {
        RegionHandle::PoolRun(run) if Some(run.first) == own_number(first) => {
            control::attach(run);
            Ok(())
        }
        _ => Err(NoMemory),
    }
}

/// Hands over the frame that is known as `number`. Returns the view, or `None` if no attached pool has the frame or its client
/// has dropped it.
pub(crate) fn frame_handed(number: u32) -> Option<u32> {
    let frame = own_number(number)?;
    if !control::is_attached(frame) || !is_live(frame) {
        return None;
    }
    let (chunk, page) = place(frame);
    chunk.handings.hand(page);
    Some(frame | VIEW)
}

/// Calls `report` with each handed frame that the component has dropped since, and how often it was handed.
pub(crate) fn take_released(report: &mut impl FnMut(u32, u32)) {
    for run in control::attached() {
        place(run.first).0.handings.take_dropped(&mut |page, count| {
            report(partner_number(run.first + page as u32), count)
        });
    }
}

pub(crate) fn frame_retain(frame: u32) {
    let (chunk, page) = place(frame);
    let before = match is_kept_by_client(frame) {
        true => chunk.handings.retain(page),
        false => chunk.references[page].fetch_add(1, Relaxed),
    };
    assert!(before > 0, "a free frame was counted up");
}

pub(crate) fn frame_release(frame: u32) {
    let (chunk, page) = place(frame);
    let before = match is_kept_by_client(frame) {
        true => chunk.handings.release(page),
        false => chunk.references[page].fetch_sub(1, AcqRel),
    };
    assert!(before > 0, "a free frame was counted down");
    if before == 1 && !is_kept_by_client(frame) {
        lock(&FRAMES).free(frame);
    }
}

pub(crate) fn release_all(frames: impl IntoIterator<Item = u32>) {
    frames.into_iter().for_each(frame_release);
}

/// Adds a reference to the frame that is known as `number`, which has one already. Returns its own number; `None` if there is no
/// such frame.
pub(crate) fn frame_lent(number: u32) -> Option<u32> {
    let frame = own_number(number)?;
    let count_up = |now: u32| (now > 0).then_some(now + 1);
    let is_counted =
        is_live(frame) && references(frame).try_update(AcqRel, Relaxed, count_up).is_ok();
    is_counted.then_some(frame)
}

/// Returns the number of references; of a view, the component's and one of its client.
pub(crate) fn frame_references(frame: u32) -> u32 {
    let (chunk, page) = place(frame);
    match is_kept_by_client(frame) {
        true => chunk.handings.references(page) + 1,
        false => chunk.references[page].load(Acquire),
    }
}

pub(crate) fn frame_exclusive(frame: &mut Frame) -> Option<&mut [u8; PAGE_BYTES]> {
    let number = frame.number();
    if frame_references(number) != 1 {
        return None;
    }
    let words = frame_words(number).as_ptr();
    // SAFETY: the words are interior-mutable memory of `PAGE_BYTES` bytes that lives for ever; the
    // only reference to the frame is borrowed exclusively for as long as the slice lives, and no
    // frame can be counted up but through a reference. A view counts its client.
    Some(unsafe { &mut *words.cast_mut().cast::<[u8; PAGE_BYTES]>() })
}

pub(crate) fn frame_read(frame: u32, offset: usize, out: &mut [u8]) {
    words::read(frame_words(frame), offset, out);
}

pub(crate) fn frame_write(frame: u32, offset: usize, data: &[u8]) {
    words::write(frame_words(frame), offset, data);
}

pub(crate) fn frame_zero(frame: u32, offset: usize, length: usize) {
    if !is_kept_by_client(frame) {
        words::zero(frame_words(frame), offset, length);
    }
}

pub(crate) fn frame_copy(from: u32, to: u32) {
    if is_kept_by_client(to) {
        return;
    }
    for (from, to) in frame_words(from).iter().zip(frame_words(to)) {
        to.store(from.load(Relaxed), Relaxed);
    }
}

pub(crate) fn statistics() -> Statistics {
    let used = lock(&FRAMES).used;
    let total = control::frame_limit().min(CHUNKS * CHUNK_FRAMES);
    Statistics {
        total_frames: total as u64,
        free_frames: total.saturating_sub(used) as u64,
        charged_bytes: CHARGED_BYTES.load(Relaxed) as u64,
        large_pages: 0,
        ..Statistics::default()
    }
}
