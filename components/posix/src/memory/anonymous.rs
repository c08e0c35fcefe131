//! [`Anonymous`]: shared memory without a file, made of frames that live as long as somebody maps it.
//!
//! Frames come at the first store or load. `frames` guards the table and is innermost.
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
}

struct Table {
    frames: HashMap<u64, Frame>,
    charge: Charge,
}

impl Anonymous {
    /// Memory of `pages` pages, none of which takes room yet.
    pub fn new(pages: u64) -> Arc<Anonymous> {
        let table = Table { frames: HashMap::new(), charge: Charge::none() };
        Arc::new(Anonymous { pages, frames: Mutex::new(&FRAMES, table) })
    }
    /// Memory whose pages are `frames` (the vDSO).
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn of_frames(frames: &[Frame]) -> Result<Arc<Anonymous>, NoMemory> {
        let charge = Charge::take(frames.len() * SLOT_BYTES)?;
        let frames: HashMap<u64, Frame> = (0..).zip(frames.iter().cloned()).collect();
        let pages = frames.len() as u64;
        Ok(Arc::new(Anonymous { pages, frames: Mutex::new(&FRAMES, Table { frames, charge }) }))
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
