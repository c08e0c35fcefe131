//! [`Anonymous`]: shared memory without a file, made of frames that live as long as somebody maps it.
//!
//! All of it is promised as long as that. Frames come at the first store or load. `frames` guards the table and is innermost.
use super::commit::Commitment;
use alloc::sync::Arc;
use hashbrown::HashMap;
use rt::{
    NoMemory, lock_class,
    memory::{Charge, Frame},
    sync::Mutex,
};
use vfs::{Errno, file::Mappable};

lock_class! {
    static FRAMES = "memory.anonymous";
}

/// Heap bytes a frame costs in the table.
const SLOT_BYTES: usize = 24;

/// Shared memory of a fixed number of pages.
pub struct Anonymous {
    pages: u64,
    frames: Mutex<Table>,
    _commitment: Commitment,
}

struct Table {
    frames: HashMap<u64, Frame>,
    charge: Charge,
}

impl Anonymous {
    /// Memory of `pages` pages, none of which takes room yet; `commitment` says how many are promised.
    pub fn new(pages: u64, commitment: Commitment) -> Arc<Anonymous> {
        Anonymous::with_frames(pages, HashMap::new(), Charge::none(), commitment)
    }
    /// Memory whose pages are `frames` (the vDSO).
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
        let frames = Mutex::new(&FRAMES, Table { frames, charge });
        Arc::new(Anonymous { pages, frames, _commitment: commitment })
    }
}

impl Mappable for Anonymous {
    fn page(&self, index: u64, _: bool) -> Result<Frame, Errno> {
        if index >= self.pages {
            return Err(Errno::ENXIO);
        }
        let mut table = self.frames.lock();
        if let Some(frame) = table.frames.get(&index) {
            return Ok(frame.clone());
        }
        let frame = Frame::allocate(true)?;
        table.charge.grow(SLOT_BYTES)?;
        table.frames.insert(index, frame.clone());
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
        let end = first.saturating_add(count);
        self.frames.lock().frames.retain(|index, _| !(first..end).contains(index));
        true
    }
}
