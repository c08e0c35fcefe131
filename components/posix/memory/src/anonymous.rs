//! [`Anonymous`]: shared memory without a file, made of frames that live as long as somebody maps it.
//!
//! All of it is promised as long as that. Frames come at the first store or load. `frames` guards the table and is innermost.
use super::commit::Commitment;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use hashbrown::HashMap;
use rt::{
    NoMemory, lock_class,
    memory::{Charge, Frame},
    sync::Mutex,
};
use vfs::{
    Errno, Principal,
    file::{Mappable, PageUse},
};

lock_class! {
    static FRAMES = "memory.anonymous";
}

/// Number of frames of all shared memory without a file.
static RESIDENT: AtomicU64 = AtomicU64::new(0);

/// Returns the number of frames of all shared memory without a file (part of `Shmem`, besides files in memory).
pub fn resident_pages() -> u64 {
    RESIDENT.load(Ordering::Relaxed)
}

/// Heap bytes of a frame's entry in the table.
const SLOT_BYTES: usize = 24;

/// Shared memory of a fixed number of pages.
pub struct Anonymous {
    pages: u64,
    frames: Mutex<FrameTable>,
    gives_back: bool,
    _commitment: Commitment,
}

struct FrameTable {
    frames: HashMap<u64, Frame>,
    charge: Charge,
}

impl Anonymous {
    /// Makes memory of `pages` pages, none of which has a frame yet; `commitment` counts the reserved ones.
    pub fn new(pages: u64, commitment: Commitment) -> Arc<Anonymous> {
        Anonymous::with_frames(pages, HashMap::new(), Charge::none(), commitment)
    }
    /// Does the same as [`Anonymous::new`] for memory that unrelated address spaces share: no page can be removed from some
    /// of them only (`MADV_REMOVE`).
    pub fn of_segment(pages: u64, commitment: Commitment) -> Arc<Anonymous> {
        let frames =
            Mutex::new(&FRAMES, FrameTable { frames: HashMap::new(), charge: Charge::none() });
        Arc::new(Anonymous { pages, frames, gives_back: false, _commitment: commitment })
    }
    /// Returns the number of pages that have a frame.
    pub fn resident_pages(&self) -> u64 {
        self.frames.lock().frames.len() as u64
    }
    /// Makes memory whose pages are `frames` (the vDSO).
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn of_frames(frames: &[Frame]) -> Result<Arc<Anonymous>, NoMemory> {
        let charge = Charge::take(frames.len() * SLOT_BYTES)?;
        let frames: HashMap<u64, Frame> = (0..).zip(frames.iter().cloned()).collect();
        let pages = frames.len() as u64;
        Ok(Anonymous::with_frames(pages, frames, charge, Commitment::none()))
    }
    fn with_frames(
        pages: u64,
        frames: HashMap<u64, Frame>,
        charge: Charge,
        commitment: Commitment,
    ) -> Arc<Anonymous> {
        let count = frames.len() as u64;
        let frames = Mutex::new(&FRAMES, FrameTable { frames, charge });
        RESIDENT.fetch_add(count, Ordering::Relaxed);
        Arc::new(Anonymous { pages, frames, gives_back: true, _commitment: commitment })
    }
}

impl Mappable for Anonymous {
    fn page(&self, index: u64, _: PageUse, _: &dyn Principal) -> Result<Frame, Errno> {
        if index >= self.pages {
            return Err(Errno::ENXIO);
        }
        let mut table = self.frames.lock();
        if let Some(frame) = table.frames.get(&index) {
            return Ok(frame.clone());
        }
        let frame = Frame::zeroed()?;
        table.charge.grow(SLOT_BYTES)?;
        table.frames.insert(index, frame.clone());
        RESIDENT.fetch_add(1, Ordering::Relaxed);
        Ok(frame)
    }
    fn resident(&self, first: u64, count: usize, visit: &mut dyn FnMut(u64, &Frame)) {
        let table = self.frames.lock();
        for index in first..first.saturating_add(count as u64) {
            if let Some(frame) = table.frames.get(&index) {
                visit(index, frame);
            }
        }
    }
    fn discard(&self, first: u64, count: u64) -> bool {
        if !self.gives_back {
            return false;
        }
        let end = first.saturating_add(count);
        let mut table = self.frames.lock();
        let before = table.frames.len();
        table.frames.retain(|index, _| !(first..end).contains(index));
        RESIDENT.fetch_sub((before - table.frames.len()) as u64, Ordering::Relaxed);
        true
    }
}

impl Drop for Anonymous {
    fn drop(&mut self) {
        RESIDENT.fetch_sub(self.resident_pages(), Ordering::Relaxed);
    }
}
