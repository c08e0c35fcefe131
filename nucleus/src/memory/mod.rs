//! Memory: frames, the kernel heap, kernel stacks, charges and address spaces.
//!
//! Locks, outermost first: a space's lock, `nucleus.slab`, `nucleus.runs`, `nucleus.map` (kernel
//! mappings), `nucleus.frames`. A space's lock keeps preemption off only, so that shootdowns are answered
//! meanwhile; no code waits for another processor with interrupts off unless it answers shootdowns
//! itself.
pub mod access;
pub mod charge;
pub mod frames;
pub mod heap;
pub mod port_map;
pub mod range;
pub mod runs;
pub mod shootdown;
pub mod space;
pub mod stacks;

use crate::{
    arch::{
        bootinfo::{BootInfo, PhysRange},
        pages,
        paging::{self, Entry, TableSource},
        usercopy,
    },
    objects::{self, Kind},
    spin::PreemptLock,
};
use core::sync::atomic::{
    AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed},
};
pub use program::{NoMemory, Statistics};
pub use shootdown::answer as shootdown_interrupt;

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// Guards the kernel's tables below the top level, and the next free device address.
static MAP: PreemptLock<u64> = PreemptLock::new(class!("nucleus.map"), paging::DEVICE_AREA);
static KERNEL_TABLES: AtomicUsize = AtomicUsize::new(0);

/// A source that hands out frames from the start of a range, before the frame allocator runs.
struct Early(PhysRange);

impl Early {
    fn take(&mut self, bytes: u64) -> u64 {
        let start = self.0.start;
        self.0.start += bytes.next_multiple_of(PAGE as u64);
        assert!(self.0.start <= self.0.end, "not enough memory to boot");
        start
    }
}

impl TableSource for Early {
    fn table(&mut self) -> Option<u32> {
        let frame = (self.take(PAGE as u64) >> 12) as u32;
        // SAFETY: a page of free memory that the first map covers.
        unsafe { frames::address(frame).write_bytes(0, PAGE) };
        KERNEL_TABLES.fetch_add(1, Relaxed);
        Some(frame)
    }
}

/// A source of tables for the kernel's map once the frame allocator runs.
struct FromFrames;

impl TableSource for FromFrames {
    fn table(&mut self) -> Option<u32> {
        let frame = frames::allocate_zeroed(frames::For::Kernel)?;
        KERNEL_TABLES.fetch_add(1, Relaxed);
        Some(frame)
    }
}

/// Builds the kernel's map and starts the frame allocator and the heap.
///
/// # Panics
/// If memory does not suffice.
///
/// # Safety
/// Once, on the boot processor, on the first tables; `info` is true.
pub unsafe fn init(info: &BootInfo) {
    let below = |range: &&PhysRange| range.end <= crate::arch::boot::FIRST_MAP_END;
    let largest = info.free.as_slice().iter().filter(below).max_by_key(|range| range.bytes());
    let chosen = *largest.expect("no free memory below 4 GiB");
    let mut early = Early(chosen);
    // SAFETY: as the caller says; the range lies in the first map.
    unsafe { paging::build(info, &mut early) };
    let length =
        info.ram.as_slice().iter().map(|range| range.end >> 12).max().unwrap_or(0) as usize;
    let links =
        frames::address((early.take((length * size_of::<buddy::Link>()) as u64) >> 12) as u32);
    let references =
        frames::address((early.take((length * size_of::<AtomicU32>()) as u64) >> 12) as u32);
    // SAFETY: free memory, mapped now, that long.
    unsafe { references.write_bytes(0, length * size_of::<AtomicU32>()) };
    let links = links.cast::<buddy::Link>();
    for index in 0..length {
        // SAFETY: within the memory taken for the links.
        let link = unsafe { links.add(index) };
        // SAFETY: as above.
        unsafe { link.write(buddy::Link::TAKEN) };
    }
    // SAFETY: filled above; nobody else has it.
    let links = unsafe { core::slice::from_raw_parts_mut(links, length) };
    let total: u64 = info.free.as_slice().iter().map(|range| range.bytes() >> 12).sum();
    // SAFETY: once; the counts were zeroed.
    unsafe { frames::init(links, references.cast(), total as usize) };
    for range in info.free.as_slice() {
        let range = if range.start == chosen.start { early.0 } else { *range };
        frames::add_range((range.start >> 12) as u32, (range.bytes() >> 12) as usize);
    }
}

/// Loads the kernel's own root on this processor (it started on boot's tables).
pub fn init_cpu() {
    // SAFETY: made by `init`, never freed.
    unsafe { paging::load_root(paging::kernel_root()) };
}

/// Maps `bytes` of device registers at `physical`, uncached, for ever; returns the address.
/// `physical` need not be aligned.
///
/// # Panics
/// If there is no memory for a table: devices are mapped once, at boot.
pub fn map_device(physical: u64, bytes: u64) -> u64 {
    let offset = physical & (PAGE as u64 - 1);
    let count = (offset + bytes).div_ceil(PAGE as u64);
    let flags = Entry::WRITE | Entry::NO_EXECUTE | Entry::NO_CACHE | Entry::WRITE_THROUGH;
    let mut next = MAP.lock();
    let start = *next;
    *next += (count + 1) * PAGE as u64;
    let root = (paging::kernel_root() >> 12) as u32;
    for page in 0..count {
        let frame = ((physical >> 12) + page) as u32;
        paging::map_kernel_page(&mut FromFrames, root, start + page * PAGE as u64, frame, flags)
            .expect("no memory to map a device");
    }
    start + offset
}

/// Maps a new frame at `address`, for the kernel to read and write. Returns `None` without memory.
fn map_new(address: u64, whose: frames::For) -> Option<()> {
    let flags = Entry::WRITE | Entry::NO_EXECUTE | Entry::PRESENT | Entry::GLOBAL;
    let frame = frames::allocate(whose)?;
    let mapped = swap_kernel(address, Entry::new(frame, flags));
    if mapped.is_none() {
        frames::free(frame);
    }
    mapped.map(|_| ())
}

/// Removes the page at `address`, which is mapped, from the kernel's map. Returns its frame. The caller
/// flushes the page on all processors before it reuses the address or the frame.
fn unmap_kernel(address: u64) -> u32 {
    swap_kernel(address, Entry::empty()).map_or(0, Entry::frame)
}

/// Sets the kernel's entry for `address` and returns the old entry.
fn swap_kernel(address: u64, entry: Entry) -> Option<Entry> {
    let _guard = MAP.lock();
    let root = (paging::kernel_root() >> 12) as u32;
    paging::swap_kernel_entry(&mut FromFrames, root, address, entry)
}

/// Returns the present amounts of memory.
pub fn statistics() -> Statistics {
    let (total, free) = frames::totals();
    let tables = objects::of(Kind::TableFrame) as u64 + KERNEL_TABLES.load(Relaxed) as u64;
    Statistics {
        total_frames: total as u64,
        free_frames: free as u64,
        heap_frames: heap::heap_frames() as u64,
        table_frames: tables,
        stack_frames: objects::of(Kind::Stack) as u64 * stacks::FRAMES as u64,
        charged_bytes: charge::charged() as u64,
        large_pages: objects::of(Kind::LargePage) as u64,
    }
}

/// The operations of `rt` on single frames.
pub mod frame {
    use super::{Acquire, AtomicU64, NoMemory, PAGE, frames, pages, usercopy};

    /// Returns the address of byte `offset` of the frame.
    fn address_in(frame: u32, offset: usize) -> *mut u8 {
        frames::address(frame).wrapping_add(offset)
    }

    /// Allocates a frame with one reference.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn allocate(zeroed: bool) -> Result<u32, NoMemory> {
        let frame = frames::allocate_counted().ok_or(NoMemory)?;
        if zeroed {
            // SAFETY: a frame just allocated.
            unsafe { pages::zero(frames::address(frame)) };
        }
        Ok(frame)
    }

    /// Returns the address of `frame`'s memory if its only reference is the caller's.
    pub fn exclusive(frame: u32) -> Option<*mut [u8; PAGE]> {
        (frames::references(frame).load(Acquire) == 1).then(|| frames::address(frame).cast())
    }

    /// Returns the words of the frame, to which others may write.
    pub fn words(frame: u32) -> &'static [AtomicU64; PAGE / 8] {
        // SAFETY: a frame of the direct map, which is aligned and mapped for ever; all access is atomic.
        unsafe { &*frames::address(frame).cast() }
    }

    /// Copies from the frame; `offset` and the length stay within it.
    pub fn read(frame: u32, offset: usize, out: &mut [u8]) {
        assert!(offset + out.len() <= PAGE, "beyond a frame");
        // SAFETY: within the frame (asserted), whose memory others may be writing: a copy of bytes in
        // assembly, which the language does not see.
        unsafe { usercopy::copy_raw(address_in(frame, offset), out.as_mut_ptr(), out.len()) };
    }

    /// Copies into the frame; `offset` and the length stay within it.
    pub fn write(frame: u32, offset: usize, data: &[u8]) {
        assert!(offset + data.len() <= PAGE, "beyond a frame");
        // SAFETY: as in `read`.
        unsafe { usercopy::copy_raw(data.as_ptr(), address_in(frame, offset), data.len()) };
    }

    /// Zeroes a part of the frame.
    pub fn zero(frame: u32, offset: usize, length: usize) {
        assert!(offset + length <= PAGE, "beyond a frame");
        if length == PAGE {
            // SAFETY: a whole frame.
            unsafe { pages::zero(frames::address(frame)) };
        } else {
            // SAFETY: within the frame (asserted).
            unsafe { usercopy::zero_raw(address_in(frame, offset), length) };
        }
    }

    /// Copies a whole frame.
    pub fn copy(from: u32, to: u32) {
        if from != to {
            // SAFETY: two frames.
            unsafe { pages::copy(frames::address(from), frames::address(to)) };
        }
    }
}
