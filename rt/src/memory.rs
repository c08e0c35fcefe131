//! Memory: charges that can be refused, and frames.
//!
//! A [`Frame`] is one counted reference to one frame of physical memory. Each page-table entry of a
//! [`crate::user::Space`] that maps it and each lending to a device holds a reference too, so a
//! frame whose only reference is the caller's `&mut Frame` can be had as a slice
//! ([`Frame::exclusive`]); every other frame offers copy, zero and atomic access only.
//!
//! In the process world a component has frames of its own, which only it reaches, and frames of clients, which it names by their
//! number: it reads those of an attached pool ([`attach_pool`]), and only its devices reach any other ([`Frame::lent`]).
pub use crate::frame_pool::{FramePool, POOL_PAGES, PoolUsage, pool_usage};
#[cfg(any(not(target_os = "none"), skerry_process))]
pub use crate::frame_pool::{attach_pool, take_released};
use crate::{NoMemory, PAGE_BYTES, thread::Woken, time::Instant, world};
use alloc::vec::Vec;
use core::{
    hash::{Hash, Hasher},
    mem::ManuallyDrop,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};
pub use program::Statistics;

static COPIED: AtomicU64 = AtomicU64::new(0);

/// A charge against the system's memory, which ends when this is dropped.
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
    /// [`NoMemory`] if the charge would pass the limit.
    pub fn take(bytes: usize) -> Result<Charge, NoMemory> {
        world::memory::charge(bytes)?;
        Ok(Charge { bytes })
    }
    /// Returns a charge of nothing, to be grown.
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
    /// Returns the bytes charged.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        world::memory::uncharge(self.bytes);
    }
}

/// Frames that are allocated at once.
const BATCH_FRAMES: usize = 16;

/// One counted reference to a frame. A clone is another reference; the frame is free when the last reference is dropped.
#[derive(Debug)]
#[repr(transparent)]
pub struct Frame(FrameId);

impl PartialEq for Frame {
    fn eq(&self, other: &Frame) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Frame {}

impl Hash for Frame {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

/// The number of a frame in the pool: plain data that gives no right to the frame's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct FrameId(pub u32);

/// Returns the numbers of `frames`.
#[inline]
pub(crate) fn numbers(frames: &[Frame]) -> &[u32] {
    // SAFETY: `Frame` is a transparent `FrameId`, which is a transparent `u32`.
    unsafe { core::slice::from_raw_parts(frames.as_ptr().cast(), frames.len()) }
}

impl Frame {
    /// Allocates a frame of zeroes.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn zeroed() -> Result<Frame, NoMemory> {
        world::memory::frame_allocate(true).map(|number| Frame(FrameId(number)))
    }
    /// Allocates a frame whose contents are unspecified, though never another program's. It must be overwritten as a whole
    /// before it is passed on.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn unfilled() -> Result<Frame, NoMemory> {
        world::memory::frame_allocate(false).map(|number| Frame(FrameId(number)))
    }
    /// Appends `count` frames of zeroes to `out`. If memory is refused `out` is as before.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn allocate_zeroed(count: usize, out: &mut Vec<Frame>) -> Result<(), NoMemory> {
        append(count, out, |new| fill_each(new, || world::memory::frame_allocate(true)))
    }
    /// Appends `count` frames as of [`Frame::unfilled`] to `out`. If memory is refused `out` is as before.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn allocate_unfilled(count: usize, out: &mut Vec<Frame>) -> Result<(), NoMemory> {
        append(count, out, world::memory::allocate_all)
    }
    /// Drops all of `frames`, which costs less than one drop after another.
    pub fn release_all(frames: impl IntoIterator<Item = Frame>) {
        world::memory::release_all(frames.into_iter().map(|frame| ManuallyDrop::new(frame).0.0));
    }
    /// Returns the number of the frame.
    #[inline]
    pub fn id(&self) -> FrameId {
        #[cfg(not(target_os = "none"))]
        return FrameId(world::memory::plain(self.0.0));
        #[cfg(target_os = "none")]
        self.0
    }
    /// Returns the number by which other components know the frame: the one that goes into messages and rings. It is
    /// [`Frame::id`] in the kernel world, and in the process world for the frame of a client. Cost as a system call: one for the
    /// first frame of a pool, in the process world.
    #[inline]
    pub fn partner_id(&self) -> FrameId {
        FrameId(world::memory::partner_number(self.0.0))
    }
    /// Returns the number by which the back end knows this reference.
    #[cfg(not(target_os = "none"))]
    pub(crate) fn number(&self) -> u32 {
        self.0.0
    }
    /// Makes a `Frame` of a reference that a back end has counted already.
    pub(crate) fn from_counted(id: FrameId) -> Frame {
        Frame(id)
    }
    /// Returns the frame that other components know by that number. The component that names it lends it to this one's
    /// devices and keeps it as long as it is used. A frame of an attached pool ([`attach_pool`]) can be read. The memory of
    /// any other is not here: it has no slice and no bytes. Neither can be written: a write has no effect. (In the host
    /// world it is the client's own frame.) Returns `None` if no frame that is lent can have that number. Components of the
    /// kernel world pass each other frames, not numbers.
    #[cfg(any(not(target_os = "none"), skerry_process))]
    #[inline]
    pub fn lent(id: FrameId) -> Option<Frame> {
        world::memory::frame_lent(id.0).map(|number| Frame(FrameId(number)))
    }
    /// Returns the frame that other components know by that number. A client that hands it over keeps it until
    /// [`take_released`] told the client that this component has dropped all references. The frame is as one of
    /// [`Frame::lent`]. Returns `None` if no attached pool has such a frame.
    #[cfg(any(not(target_os = "none"), skerry_process))]
    #[inline]
    pub fn handed(id: FrameId) -> Option<Frame> {
        world::memory::frame_handed(id.0).map(|number| Frame(FrameId(number)))
    }
    /// Returns whether a client keeps the frame, which was lent or handed: its number means the same to the client.
    #[cfg(any(not(target_os = "none"), skerry_process))]
    #[inline]
    pub fn is_of_client(&self) -> bool {
        world::memory::is_kept_by_client(self.0.0)
    }
    /// Returns the number of references that exist now. The number is only a hint, unless it is 1 and the caller has that
    /// reference.
    pub fn references(&self) -> u32 {
        world::memory::frame_references(self.0.0)
    }
    /// Returns the frame's memory, if the caller has the only reference.
    pub fn exclusive(&mut self) -> Option<&mut [u8; PAGE_BYTES]> {
        world::memory::frame_exclusive(self)
    }
    /// Copies from the frame at `offset` to `out`. Bytes beyond the frame's end are not copied. Returns the number of bytes
    /// copied: 0 for a lent frame that is in no attached pool.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> usize {
        let length = out.len().min(PAGE_BYTES.saturating_sub(offset));
        if let Some(out) = out.get_mut(..length)
            && length > 0
            && self.copy_out(offset, out)
        {
            COPIED.fetch_add(length as u64, Ordering::Relaxed);
            return length;
        }
        0
    }
    /// Returns the sum, modulo 2^64 - 1, of the words of 64 bits, in the machine's order, in which the `length` bytes at `offset`
    /// stand; other bytes of these count as zero. `None` for bytes beyond the frame's end, and for a lent frame that is in no attached pool.
    pub fn sum_words(&self, offset: usize, length: usize) -> Option<u128> {
        let is_inside = offset.checked_add(length).is_some_and(|end| end <= PAGE_BYTES);
        let words = self.words().filter(|_| is_inside)?;
        Some(crate::words::sum(words, offset, length))
    }
    /// Returns the words of the frame, if its contents are here.
    #[inline]
    fn words(&self) -> Option<&[AtomicU64]> {
        #[cfg(all(target_os = "none", skerry_process))]
        return world::memory::frame_words(self.0.0).map(|words| words.as_slice());
        #[cfg(not(all(target_os = "none", skerry_process)))]
        Some(world::memory::frame_words(self.0.0))
    }
    /// Fills `out`, if the contents are here. Returns whether they are.
    #[inline]
    fn copy_out(&self, offset: usize, out: &mut [u8]) -> bool {
        #[cfg(all(target_os = "none", skerry_process))]
        return world::memory::frame_read(self.0.0, offset, out);
        #[cfg(not(all(target_os = "none", skerry_process)))]
        {
            world::memory::frame_read(self.0.0, offset, out);
            true
        }
    }
    /// Copies `data` into the frame at `offset`. Returns the number of bytes that fitted: 0 for a frame that was lent or handed.
    pub fn write(&self, offset: usize, data: &[u8]) -> usize {
        let length = data.len().min(PAGE_BYTES.saturating_sub(offset));
        #[cfg(any(not(target_os = "none"), skerry_process))]
        let length = if world::memory::is_kept_by_client(self.0.0) { 0 } else { length };
        COPIED.fetch_add(length as u64, Ordering::Relaxed);
        if let Some(data) = data.get(..length)
            && length > 0
        {
            world::memory::frame_write(self.0.0, offset, data);
        }
        length
    }
    /// Zeroes `length` bytes from `offset`, cut at the frame's end. Has no effect on a frame that was lent or handed.
    pub fn zero(&self, offset: usize, length: usize) {
        let length = length.min(PAGE_BYTES.saturating_sub(offset));
        if length > 0 {
            world::memory::frame_zero(self.0.0, offset, length);
        }
    }
    /// Copies all of `source` into this frame. Has no effect if this was lent or handed, or if `source` was lent and is in no
    /// attached pool.
    pub fn copy_from(&self, source: &Frame) {
        world::memory::frame_copy(source.0.0, self.0.0);
    }
}

/// Appends `count` frames to `out`, whose numbers `allocate` fills in a batch at a time. It returns how many it filled, fewer if
/// memory is refused; `out` is as before then.
fn append(
    count: usize,
    out: &mut Vec<Frame>,
    allocate: impl Fn(&mut [u32]) -> usize,
) -> Result<(), NoMemory> {
    let before = out.len();
    out.try_reserve(count).map_err(|_| NoMemory)?;
    let mut numbers = [0; BATCH_FRAMES];
    while out.len() < before + count {
        let wanted = (before + count - out.len()).min(BATCH_FRAMES);
        let numbers = numbers.get_mut(..wanted).unwrap_or_default();
        let made = allocate(numbers);
        out.extend(numbers.iter().take(made).map(|number| Frame(FrameId(*number))));
        if made < wanted {
            out.truncate(before);
            return Err(NoMemory);
        }
    }
    Ok(())
}

/// Fills `new` with the numbers of frames that `allocate` returns, until one is refused. Returns how many were filled.
pub(crate) fn fill_each(new: &mut [u32], allocate: impl Fn() -> Result<u32, NoMemory>) -> usize {
    new.iter_mut().map_while(|place| allocate().ok().map(|number| *place = number)).count()
}

impl Clone for Frame {
    #[cfg_attr(skerry_process, inline)]
    fn clone(&self) -> Frame {
        world::memory::frame_retain(self.0.0);
        Frame(self.0)
    }
}

impl Drop for Frame {
    #[cfg_attr(skerry_process, inline)]
    fn drop(&mut self) {
        world::memory::frame_release(self.0.0);
    }
}

/// Memory shared between components: contiguous, zeroed when new, in words that both may write at any time. A component of
/// the process world that writes a region that it got read-only ([`crate::message::Rights`]) is ended. Clones are the same
/// memory.
#[derive(Clone, Debug)]
pub struct Region(pub(crate) world::memory::RegionHandle);

impl Region {
    /// Allocates at least `bytes` bytes, in whole pages.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn new(bytes: usize) -> Result<Region, NoMemory> {
        world::memory::region_new(bytes).map(Region)
    }
    /// Returns all words of the region.
    pub fn words(&self) -> &[AtomicU64] {
        self.0.words()
    }
    /// Blocks while the low half of word `index` is `expected`, until a sharer of the region calls [`Region::wake`] for that
    /// word, or until the deadline. Cost as a system call: one.
    pub fn wait(&self, index: usize, expected: u32, deadline: Option<Instant>) -> Woken {
        match self.low_half(index) {
            Some(word) => world::thread::wait_on(
                word,
                expected,
                deadline.map(|at| at.0),
                sync::Sleep::Uninterruptible,
            ),
            None => Woken::Signalled,
        }
    }
    /// Wakes all threads that wait at word `index`. Cost as a system call: one.
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

impl AsRef<[AtomicU64]> for Region {
    fn as_ref(&self) -> &[AtomicU64] {
        self.words()
    }
}

/// Returns the number of bytes that components have copied so far between frames and memory of their own. It would grow if
/// contents of files were copied on their way. Copies to and from programs do not count.
pub fn copied_bytes() -> u64 {
    COPIED.load(Ordering::Relaxed)
}

/// Lets the calling thread use the frames and charges kept in reserve from now on. This is for a thread whose work frees
/// memory, so that it must not wait for memory. Cost as a system call: one, once.
pub fn use_reserve() {
    let _ = world::memory::use_reserve();
}

/// Runs `work`, during which the calling thread may use the frames and charges kept in reserve. This is for work that must
/// not stop half done for lack of memory. The caller first ensures that the reserve holds some. Cost as a system call: two.
pub fn with_reserve<T>(work: impl FnOnce() -> T) -> T {
    let could_already = world::memory::use_reserve();
    let result = work();
    if !could_already {
        world::memory::leave_reserve();
    }
    result
}

/// Returns whether memory is so short that new work might not get the memory that it cannot do without. Cost as a system
/// call: none (a shared word).
#[inline]
pub fn is_short() -> bool {
    world::memory::is_short()
}

/// Returns whether programs are refused memory now, or would be after a few more frames. Cost as a system call: none (a
/// shared word).
pub fn is_full() -> bool {
    world::memory::is_full()
}

/// Makes the world give back memory of caches: free objects and frames in stock. Cost as a system call: one.
pub fn shrink() {
    world::memory::shrink();
}

/// Returns the present amounts of memory.
pub fn statistics() -> Statistics {
    world::memory::statistics()
}
