//! Memory: charges that can be refused, and frames of the pool.
//!
//! A [`Frame`] is one counted reference to one frame of physical memory. Each page-table entry of a
//! [`crate::user::Space`] that maps it and each lending to a device holds a reference too, so a
//! frame whose only reference is the caller's `&mut Frame` can be had as a slice
//! ([`Frame::exclusive`]); every other frame offers copy, zero and atomic access only.
use crate::{NoMemory, PAGE_BYTES, thread::Woken, time::Instant, world};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
pub use program::Statistics;

static COPIED: AtomicU64 = AtomicU64::new(0);

/// A charge against the system's memory, given back when dropped.
///
/// Stable Rust's collections cannot fail gracefully, so an operation whose size a program chooses
/// takes its charge first (`?` gives `ENOMEM`); after that its allocations do not fail.
#[derive(Debug)]
pub struct Charge {
    bytes: usize,
}

impl Charge {
    /// Charges `bytes`.
    ///
    /// # Errors
    /// [`NoMemory`] where they would not fit.
    pub fn take(bytes: usize) -> Result<Charge, NoMemory> {
        world::memory::charge(bytes)?;
        Ok(Charge { bytes })
    }
    /// A charge of nothing, to be grown.
    pub const fn none() -> Charge {
        Charge { bytes: 0 }
    }
    /// Charges `bytes` more.
    ///
    /// # Errors
    /// [`NoMemory`]; the charge is then as before.
    pub fn grow(&mut self, bytes: usize) -> Result<(), NoMemory> {
        world::memory::charge(bytes)?;
        self.bytes += bytes;
        Ok(())
    }
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        world::memory::uncharge(self.bytes);
    }
}

/// One counted reference to a frame. Cloning counts up, dropping counts down, at zero it is free.
#[derive(Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Frame(FrameId);

/// The number of a frame in the pool: plain data, carries no right to its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct FrameId(pub u32);

impl Frame {
    /// Allocates a frame with unspecified (but never another program's) contents: cleared if
    /// `zeroed`, else only to be handed on after it was overwritten whole.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn allocate(zeroed: bool) -> Result<Frame, NoMemory> {
        world::memory::frame_allocate(zeroed).map(|number| Frame(FrameId(number)))
    }
    /// Fills `out` with `count` new frames, one allocator visit per batch; on refusal `out` is as before.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn allocate_many(
        count: usize,
        zeroed: bool,
        out: &mut alloc::vec::Vec<Frame>,
    ) -> Result<(), NoMemory> {
        let before = out.len();
        out.try_reserve(count).map_err(|_| NoMemory)?;
        for _ in 0..count {
            match Frame::allocate(zeroed) {
                Ok(frame) => out.push(frame),
                Err(refused) => {
                    out.truncate(before);
                    return Err(refused);
                }
            }
        }
        Ok(())
    }
    /// Number of the frame.
    pub fn id(&self) -> FrameId {
        self.0
    }
    /// Takes over a reference that a back end counted up already.
    #[cfg(not(skerry_process))]
    pub(crate) fn from_counted(id: FrameId) -> Frame {
        Frame(id)
    }
    /// The frame of that number, lent to this component by the one that names it: where a component cannot
    /// name memory (process world) it stands for a device's address only; `None` where it may not be had.
    pub fn lent(id: FrameId) -> Option<Frame> {
        world::memory::frame_lent(id.0).then(|| Frame(id))
    }
    /// References now held by anyone (a hint unless it is 1 and we hold it).
    pub fn references(&self) -> u32 {
        world::memory::frame_references(self.0.0)
    }
    /// The frame's memory, if ours is the only reference.
    pub fn exclusive(&mut self) -> Option<&mut [u8; PAGE_BYTES]> {
        world::memory::frame_exclusive(self)
    }
    /// Copies from the frame at `offset` to `out`. Bytes beyond the frame's end are not copied;
    /// returns the number copied.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> usize {
        let length = out.len().min(PAGE_BYTES.saturating_sub(offset));
        COPIED.fetch_add(length as u64, Ordering::Relaxed);
        if let Some(out) = out.get_mut(..length)
            && length > 0
        {
            world::memory::frame_read(self.0.0, offset, out);
        }
        length
    }
    /// Copies `data` into the frame at `offset`; returns the number of bytes that fitted.
    pub fn write(&self, offset: usize, data: &[u8]) -> usize {
        let length = data.len().min(PAGE_BYTES.saturating_sub(offset));
        COPIED.fetch_add(length as u64, Ordering::Relaxed);
        if let Some(data) = data.get(..length)
            && length > 0
        {
            world::memory::frame_write(self.0.0, offset, data);
        }
        length
    }
    /// Zeroes `length` bytes from `offset`, cut at the frame's end.
    pub fn zero(&self, offset: usize, length: usize) {
        let length = length.min(PAGE_BYTES.saturating_sub(offset));
        if length > 0 {
            world::memory::frame_zero(self.0.0, offset, length);
        }
    }
    /// Copies the whole of `source` here.
    pub fn copy_from(&self, source: &Frame) {
        world::memory::frame_copy(source.0.0, self.0.0);
    }
}

impl Clone for Frame {
    fn clone(&self) -> Frame {
        world::memory::frame_retain(self.0.0);
        Frame(self.0)
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        world::memory::frame_release(self.0.0);
    }
}

/// Memory shared between components: contiguous, zeroed when new, words that both may write at any time. Who got it to
/// read only ([`crate::message::Rights`]), and writes it in the process world, ends. Clones are the same memory.
#[derive(Clone, Debug)]
pub struct Region(pub(crate) world::memory::RegionHandle);

impl Region {
    /// At least `bytes`, in whole pages.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn new(bytes: usize) -> Result<Region, NoMemory> {
        world::memory::region_new(bytes).map(Region)
    }
    /// All of it.
    pub fn words(&self) -> &[AtomicU64] {
        self.0.words()
    }
    /// Blocks while the low half of word `index` is `expected`, until [`Region::wake`] there by whomever shares
    /// it, or the deadline. Cost as a system call: one.
    pub fn wait(&self, index: usize, expected: u32, deadline: Option<Instant>) -> Woken {
        match self.low_half(index) {
            Some(word) => world::thread::wait_on(word, expected, deadline.map(|at| at.0), false),
            None => Woken::Signalled,
        }
    }
    /// Wakes whoever waits at word `index`. Cost as a system call: one.
    pub fn wake(&self, index: usize) {
        if let Some(word) = self.low_half(index) {
            world::thread::wake(word, u32::MAX);
        }
    }
    pub(crate) fn low_half(&self, index: usize) -> Option<&AtomicU32> {
        let word = self.words().get(index)?;
        // SAFETY: four aligned bytes that live as long as the region. Of different size from other accesses is
        // only the back ends' load before they block, which x86 orders as it does the whole word's.
        Some(unsafe { AtomicU32::from_ptr(word.as_ptr().cast()) })
    }
}

/// Bytes that components copied between frames and memory of their own, ever: what would grow if
/// contents of files were copied on their way. Copies to and from programs do not count.
pub fn copied_bytes() -> u64 {
    COPIED.load(Ordering::Relaxed)
}

/// From now on the calling thread may use the frames and charges kept in reserve: for a thread
/// whose work is to free memory, and which must not wait for it. Cost as a system call: one, once.
pub fn use_reserve() {
    let _ = world::memory::use_reserve();
}

/// Runs `work`, during which the calling thread may use the frames and charges kept in reserve: for
/// work that must not be given up half done for want of memory. Who starts it sees to it first
/// that there is some. Cost as a system call: two.
pub fn with_reserve<T>(work: impl FnOnce() -> T) -> T {
    let could_already = world::memory::use_reserve();
    let result = work();
    if !could_already {
        world::memory::leave_reserve();
    }
    result
}

/// Whether so little memory is left that work begun now might not get what it cannot do without.
/// Cost as a system call: none (a word that is shared).
#[inline]
pub fn is_short() -> bool {
    world::memory::is_short()
}

/// Whether programs are refused memory now, or would be a few frames on. Cost as a system call: none (a word that is shared).
pub fn is_full() -> bool {
    world::memory::is_full()
}

/// Has the world give back what it keeps only for speed: free objects, frames in stock.
/// Cost as a system call: one.
pub fn shrink() {
    world::memory::shrink();
}

/// The amounts of memory now.
pub fn statistics() -> Statistics {
    world::memory::statistics()
}
