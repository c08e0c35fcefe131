//! [`SharedFrames`]: frames that the stack can read, from pools that grow with the need.
use crate::sockets::FrameSource;
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, Ordering::*};
use rt::{
    NoMemory, PAGE_BYTES, lock_class,
    memory::{Frame, FrameId, FramePool, POOL_PAGES, Region},
    message::{Capability, Derivation, Rights},
    sync::{Mutex, RwLock},
};

lock_class! {
    static POOLS = "network.pools";
    static GROWTH = "network.pools.growth";
}

/// The pools take at most one part in this many of the memory.
const MEMORY_SHARE: u64 = 16;

/// The function that gives a new pool to the stack: its memory, and the number of its first frame.
type GivePool = Box<dyn Fn(Region, FrameId) + Send + Sync>;

/// A pool, and the right to read it, which the stack has as long as this lives.
struct SharedPool {
    pool: FramePool,
    shown: Derivation,
    /// The stack has it. Until then its frames mean nothing to the stack, so none is taken.
    is_given: AtomicBool,
}

impl SharedPool {
    fn new() -> Result<SharedPool, NoMemory> {
        let pool = FramePool::new(POOL_PAGES)?;
        let region = Capability::Region(pool.region().clone());
        let shown = Derivation::new(&region, Rights::default(), 0)?;
        Ok(SharedPool { pool, shown, is_given: AtomicBool::new(false) })
    }
    /// Returns what the stack is given: the memory, to be read, and the number of the first frame.
    fn given(&self) -> Option<(Region, FrameId)> {
        match self.shown.capability() {
            Capability::Region(region) => Some((region, self.pool.first())),
            _ => None,
        }
    }
}

/// Frames that the stack can read.
pub(super) struct SharedFrames {
    pools: RwLock<Vec<Arc<SharedPool>>>,
    most: usize,
    growth: Mutex<Option<GivePool>>,
}

impl SharedFrames {
    pub(super) fn new() -> SharedFrames {
        let share = rt::memory::statistics().total_frames / MEMORY_SHARE;
        let most = usize::try_from(share).unwrap_or(usize::MAX) / POOL_PAGES;
        SharedFrames {
            pools: RwLock::new(&POOLS, Vec::new()),
            most: most.max(1),
            growth: Mutex::new(&GROWTH, None),
        }
    }
    /// Gives new pools to the stack by `give`, from now on.
    pub(super) fn set_give(&self, give: GivePool) {
        *self.growth.lock() = Some(give);
    }
    /// Returns all pools: the memory, and the number of the first frame.
    pub(super) fn all(&self) -> Vec<(Region, FrameId)> {
        self.pools.read().iter().filter_map(|one| one.given()).collect()
    }
    fn take(&self) -> Option<Frame> {
        let pools = self.pools.read();
        pools.iter().filter(|one| one.is_given.load(Acquire)).find_map(|one| one.pool.take())
    }
    /// Makes another pool, if there was none with a free frame since.
    fn take_of_new(&self) -> Result<Frame, NoMemory> {
        let growth = self.growth.lock();
        if let Some(frame) = self.take() {
            return Ok(frame);
        }
        if self.pools.read().len() >= self.most {
            return Err(NoMemory);
        }
        let shared = Arc::new(SharedPool::new()?);
        log::info!("inet: pool number {}", self.pools.read().len());
        let frame = shared.pool.take().ok_or(NoMemory)?;
        // A stack that starts meanwhile gets it with the others.
        self.pools.write().push(Arc::clone(&shared));
        if let (Some(give), Some((region, first))) = (&*growth, shared.given()) {
            give(region, first);
        }
        shared.is_given.store(true, Release);
        Ok(frame)
    }
    /// Makes another pool if no frame is free. Blocks until the stack has it, so a thread of the stack must not call this.
    pub(super) fn grow(&self) {
        if self.take().is_none() {
            // Without memory there is no pool.
            let _ = self.take_of_new();
        }
    }
    /// Returns a frame of zeroes, if one is free.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub(super) fn zeroed(&self) -> Result<Frame, NoMemory> {
        let frame = self.take().ok_or(NoMemory)?;
        frame.zero(0, PAGE_BYTES);
        Ok(frame)
    }
}

impl FrameSource for SharedFrames {
    fn allocate(&self, count: usize, out: &mut Vec<Frame>) -> Result<(), NoMemory> {
        let before = out.len();
        out.try_reserve(count).map_err(|_| NoMemory)?;
        for _ in 0..count {
            match self.take().map_or_else(|| self.take_of_new(), Ok) {
                Ok(frame) => out.push(frame),
                Err(error) => {
                    out.truncate(before);
                    return Err(error);
                }
            }
        }
        Ok(())
    }
    fn find(&self, id: FrameId) -> Option<Frame> {
        self.pools.read().iter().find_map(|one| one.pool.get(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_frame_of_a_pool_is_taken_before_the_stack_has_the_pool() {
        let frames = Arc::new(SharedFrames::new());
        let (own, is_called) = (Arc::downgrade(&frames), Arc::new(AtomicBool::new(false)));
        let called = Arc::clone(&is_called);
        frames.set_give(Box::new(move |_, _| {
            called.store(true, SeqCst);
            assert!(own.upgrade().unwrap().take().is_none());
        }));
        assert!(frames.zeroed().is_err());
        let mut first = Vec::new();
        frames.allocate(1, &mut first).unwrap();
        assert!(is_called.load(SeqCst));
        assert!(frames.zeroed().is_ok_and(|frame| frame != first[0]));
    }
}
