//! Pools of frames that a component may read by their numbers.
//!
//! A client keeps contents in frames of a [`FramePool`], which it shows to a component once. Afterwards the number of a frame, as
//! other components know it ([`Frame::partner_id`]), is enough for the component to read it in place.
//!
//! ```text
//! client (kernel or process world)             component (process world)
//! FramePool::new                               .
//! sends region() read-only, and first()  --->  attach_pool
//! take, write, keep
//! sends the number                       --->  Frame::handed: read, clone, drop
//! drops what it kept so often            <---  take_released: the number, how often it was handed
//! ```
use crate::{
    NoMemory,
    memory::{Frame, FrameId, Region},
    sync::{LockClass, Mutex},
    world,
};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The greatest number of pages of a [`FramePool`].
pub const POOL_PAGES: usize = 512;

static REGISTRY_CLASS: LockClass = LockClass::new("rt.frame_pools");
/// The pools that there are: the number of the first frame, and the number of frames.
static REGISTRY: Mutex<Vec<(u32, usize)>> = Mutex::new(&REGISTRY_CLASS, Vec::new());

/// The frames of all pools of this world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUsage {
    /// All of them.
    pub frames: u64,
    /// Those to which somebody beside the pool has a reference.
    pub used: u64,
}

/// Counts the frames of all pools; looks at each frame.
pub fn pool_usage() -> PoolUsage {
    let mut usage = PoolUsage::default();
    for (first, pages) in REGISTRY.lock().iter() {
        let frames = *first..first.saturating_add(*pages as u32);
        usage.frames += *pages as u64;
        usage.used +=
            frames.filter(|frame| world::memory::frame_references(*frame) > 1).count() as u64;
    }
    usage
}

/// Frames of one region, which the pool and users of single frames share. A frame of a pool is never exclusive
/// ([`Frame::exclusive`]), because the pool has a reference too, and it may outlive the pool.
#[derive(Debug)]
pub struct FramePool {
    region: Region,
    first: u32,
    /// The number by which other components know the first frame.
    known_as: u32,
    pages: usize,
    /// The page from which the next search starts.
    cursor: AtomicUsize,
}

impl FramePool {
    /// Makes a pool of `pages` frames of zeroes, contiguous in memory.
    ///
    /// # Errors
    /// [`NoMemory`], also if no contiguous run is free, for no pages, for more than [`POOL_PAGES`], and in the process world if the
    /// component may not run programs.
    pub fn new(pages: usize) -> Result<FramePool, NoMemory> {
        if !(1..=POOL_PAGES).contains(&pages) {
            return Err(NoMemory);
        }
        let mut registry = REGISTRY.lock();
        registry.try_reserve(1).map_err(|_| NoMemory)?;
        let (region, first) = world::memory::pool_new(pages)?;
        registry.push((first, pages));
        let (region, known_as) = (Region(region), world::memory::partner_number(first));
        Ok(FramePool { region, first, known_as, pages, cursor: AtomicUsize::new(0) })
    }
    /// Returns the pool's memory, to be sent to the component without the right to write
    /// ([`Derivation::new`](crate::message::Derivation::new) with no rights; the pool is readable until that is dropped).
    pub fn region(&self) -> &Region {
        &self.region
    }
    /// Returns the number by which other components know the first frame. Those of the others follow one by one.
    pub fn first(&self) -> FrameId {
        FrameId(self.known_as)
    }
    /// Returns the number of frames.
    pub fn pages(&self) -> usize {
        self.pages
    }
    /// Returns another reference to the frame that other components know by that number, or `None` if it is not the pool's. The
    /// caller knows that the frame is in use, because [`FramePool::take`] may give any other frame to another thread at the same
    /// time.
    pub fn get(&self, id: FrameId) -> Option<Frame> {
        let page = id.0.wrapping_sub(self.known_as);
        let is_here = (page as usize) < self.pages;
        is_here.then(|| {
            let frame = self.first + page;
            world::memory::frame_retain(frame);
            Frame::from_counted(FrameId(frame))
        })
    }
    /// Takes a frame to which only the pool has a reference. Returns `None` if there is none now. No two threads get the same
    /// frame. It holds what its last user left there, which the caller overwrites or zeroes before a program or a device may
    /// see it. The search starts behind the frame that was taken last, and looks at each frame once; no lock is taken.
    pub fn take(&self) -> Option<Frame> {
        let start = self.cursor.load(Relaxed);
        let page = (start..self.pages)
            .chain(0..start.min(self.pages))
            .find(|&page| world::memory::frame_claim(self.first + page as u32))?;
        // Another thread may set it back; then frames in use are looked at again.
        self.cursor.store(page + 1, Relaxed);
        Some(Frame::from_counted(FrameId(self.first + page as u32)))
    }
}

impl Drop for FramePool {
    fn drop(&mut self) {
        REGISTRY.lock().retain(|(first, _)| *first != self.first);
        // In other worlds the references are the region's.
        #[cfg(all(target_os = "none", skerry_process))]
        world::pool_end(self.first, self.pages);
    }
}

/// Makes the frames of a client's [`FramePool`] readable by their numbers, as long as this component lives. `region` is the
/// pool's, and its first frame has the number `first`. The pool counts as memory of the component. It is attached before a number
/// of its frames is used here. In the host world the pool is attached for the threads of one test: a thread, and those that it
/// spawns by rt.
///
/// # Errors
/// [`NoMemory`], also if 256 pools are attached, if the region is larger than [`POOL_PAGES`], or if a frame has a number that it
/// cannot have or that a frame of an attached pool has. The component then keeps no part of the pool.
#[cfg(any(not(target_os = "none"), skerry_process))]
pub fn attach_pool(region: Region, first: FrameId) -> Result<(), NoMemory> {
    world::memory::pool_attach(region.0, first.0)
}

/// Calls `report` with each frame whose last reference here was dropped since the last call and that was handed over
/// ([`Frame::handed`]), and how often it was handed over since it was reported last. A frame that was handed over again meanwhile
/// is not reported until it is dropped again. Costs one load a pool if there is none. Several threads may call this; each frame is
/// reported to one of them.
#[cfg(any(not(target_os = "none"), skerry_process))]
pub fn take_released(report: &mut impl FnMut(FrameId, u32)) {
    world::memory::take_released(&mut |frame, handings| report(FrameId(frame), handings));
}
