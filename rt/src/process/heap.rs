//! The heap: Doug Lea's allocator (crate `dlmalloc`) over memory of the nucleus, under one lock.
//!
//! Small free pieces are kept in lists by size, for the next allocation of that size, because a driver allocates and
//! frees the same few with each request. A refused allocation returns null, and code that cannot handle that ends the
//! component. Larger free memory goes back to the nucleus a mapping at a time.
use super::{
    call::{ask, ask_with_memory},
    memory::Taken,
    pools,
};
use crate::{
    PAGE_BYTES,
    sync::{LockClass, Mutex},
};
use calls::Call;
use core::{
    alloc::{GlobalAlloc, Layout},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
use dlmalloc::{Allocator, Dlmalloc};

static HEAP_CLASS: LockClass = LockClass::new("rt.heap");
static MAPPED_BYTES: AtomicU64 = AtomicU64::new(0);

/// The source of the heap's memory.
struct HeapSource;

// SAFETY: what `alloc` gives is zeroed, new and of nobody else until `free` has given it back.
unsafe impl Allocator for HeapSource {
    fn alloc(&self, bytes: usize) -> (*mut u8, usize, u32) {
        let map = || ask(Call::Map, &[bytes as u64]);
        let mapped = map().or_else(|_| {
            // Empty pools are the only other memory that can be given up.
            pools::shrink();
            map()
        });
        match mapped {
            Ok([address, ..]) => {
                core::mem::forget(Taken::new(bytes));
                MAPPED_BYTES.fetch_add(bytes as u64, Relaxed);
                (core::ptr::with_exposed_provenance_mut(address as usize), bytes, 0)
            }
            Err(_) => (core::ptr::null_mut(), 0, 0),
        }
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        core::ptr::null_mut()
    }

    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        false
    }

    fn free(&self, memory: *mut u8, bytes: usize) -> bool {
        let address = memory.expose_provenance() as u64;
        // SAFETY: `dlmalloc` gives back only what nothing of it is in use; the nucleus refuses what
        // is not one whole mapping.
        let is_back = unsafe { ask_with_memory(Call::Unmap, &[address, bytes as u64]) }.is_ok();
        if is_back {
            drop(Taken::already(bytes));
            MAPPED_BYTES.fetch_sub(bytes as u64, Relaxed);
        }
        is_back
    }

    // Only whole mappings go back; `dlmalloc` asks this before it looks for them.
    fn can_release_part(&self, _: u32) -> bool {
        true
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        PAGE_BYTES
    }
}

/// Sizes of small pieces are multiples of this, and so is their alignment.
const STEP: usize = 16;
/// Number of lists, which hold pieces up to 1 KiB.
const LISTS: usize = 64;

/// Returns the list for memory of `layout`; `None` for larger layouts.
#[inline]
fn list_of(layout: Layout) -> Option<usize> {
    let list = layout.size().wrapping_sub(1) / STEP;
    (list < LISTS && layout.align() <= STEP).then_some(list)
}

struct Pieces {
    lea: Dlmalloc<HeapSource>,
    /// The first piece of each list, null at its end. A piece begins with the pointer to the next.
    free: [*mut Piece; LISTS],
}

struct Piece {
    next: *mut Piece,
}

// SAFETY: the pieces are nobody else's.
unsafe impl Send for Pieces {}

impl Pieces {
    /// Takes a piece of that layout, from its list if it has one.
    ///
    /// # Safety
    /// The size is not 0.
    #[inline]
    unsafe fn take(&mut self, layout: Layout) -> *mut u8 {
        let Some(list) = list_of(layout) else {
            // SAFETY: the caller's promise.
            return unsafe { self.take_new(layout.size(), layout.align()) };
        };
        let first = self.free[list];
        if first.is_null() {
            // SAFETY: not 0 bytes.
            return unsafe { self.take_new((list + 1) * STEP, STEP) };
        }
        // SAFETY: a free piece, which `give` made.
        self.free[list] = unsafe { (*first).next };
        first.cast()
    }

    /// Takes new memory from the allocator.
    ///
    /// # Safety
    /// The size is not 0.
    #[cold]
    #[inline(never)]
    unsafe fn take_new(&mut self, bytes: usize, align: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { self.lea.malloc(bytes, align) }
    }

    /// Frees `memory`, into its list if it has one.
    ///
    /// # Safety
    /// `memory` was returned by `take` for this layout and is not used any more.
    #[inline]
    unsafe fn give(&mut self, memory: *mut u8, layout: Layout) {
        let Some(list) = list_of(layout) else {
            // SAFETY: the caller's promise.
            return unsafe { self.give_large(memory, layout) };
        };
        let piece: *mut Piece = memory.cast();
        // SAFETY: at least 16 bytes, aligned to them, of nobody.
        unsafe { piece.write(Piece { next: self.free[list] }) };
        self.free[list] = piece;
    }

    /// Frees memory that has no list.
    ///
    /// # Safety
    /// The same as for [`Pieces::give`].
    #[cold]
    #[inline(never)]
    unsafe fn give_large(&mut self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { self.lea.free(memory, layout.size(), layout.align()) };
    }
}

impl Pieces {
    /// Empties the lists, and gives mappings that are then free back to the nucleus. `dlmalloc` keeps one if the pieces in it
    /// left less than a smallest piece at its end.
    fn shrink(&mut self) {
        for (list, first) in self.free.iter_mut().enumerate() {
            while !first.is_null() {
                let piece = *first;
                // SAFETY: a free piece, which `give` made.
                *first = unsafe { (*piece).next };
                // SAFETY: `take` had it from there with that size and alignment.
                unsafe { self.lea.free(piece.cast(), (list + 1) * STEP, STEP) };
            }
        }
        // SAFETY: the heap has no other user while it is locked.
        unsafe { self.lea.trim(0) };
    }
}

struct Heap(Mutex<Pieces>);

#[global_allocator]
static HEAP: Heap = Heap(Mutex::new(
    &HEAP_CLASS,
    Pieces { lea: Dlmalloc::new_with_allocator(HeapSource), free: [core::ptr::null_mut(); LISTS] },
));

// SAFETY: `dlmalloc` and the lists keep the trait's promises; the lock gives them to one thread at a time.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the layout is the caller's, whose size is not 0.
        unsafe { self.0.lock().take(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let mut heap = self.0.lock();
        if list_of(layout).is_none() {
            // New memory is zeroed. SAFETY: as `alloc`.
            return unsafe { heap.lea.calloc(layout.size(), layout.align()) };
        }
        // SAFETY: as `alloc`.
        let memory = unsafe { heap.take(layout) };
        if !memory.is_null() {
            // SAFETY: a piece at least that long.
            unsafe { memory.write_bytes(0, layout.size()) };
        }
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller had it from here, by this layout.
        unsafe { self.0.lock().give(memory, layout) };
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's promise: not too large.
        let grown = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
        let mut heap = self.0.lock();
        match (list_of(layout), list_of(grown)) {
            (Some(old), Some(new)) if old == new => memory,
            // SAFETY: as `dealloc`.
            (None, None) => unsafe {
                heap.lea.realloc(memory, layout.size(), layout.align(), bytes)
            },
            _ => {
                // SAFETY: as `alloc`.
                let moved = unsafe { heap.take(grown) };
                if !moved.is_null() {
                    // SAFETY: both are as long as the shorter of the two.
                    unsafe { moved.copy_from_nonoverlapping(memory, layout.size().min(bytes)) };
                    // SAFETY: as `dealloc`; it is used no more.
                    unsafe { heap.give(memory, layout) };
                }
                moved
            }
        }
    }
}

/// Gives free memory back to the nucleus.
pub(super) fn shrink() {
    HEAP.0.lock().shrink();
}

/// Returns the number of frames that the heap has from the nucleus.
pub(super) fn mapped_frames() -> u64 {
    MAPPED_BYTES.load(Relaxed) / PAGE_BYTES as u64
}
