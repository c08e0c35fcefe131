//! The heap: Doug Lea's allocator (crate `dlmalloc`) over memory of the nucleus, under one lock.
//!
//! What is refused is null, and the allocations that cannot stand that end the component. Memory that
//! is free again goes back to the nucleus a mapping at a time.
use super::call::{ask, ask_with_memory};
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

/// Where the heap's memory comes from.
struct Source;

// SAFETY: what `alloc` gives is zeroed, new and of nobody else until `free` has given it back.
unsafe impl Allocator for Source {
    fn alloc(&self, bytes: usize) -> (*mut u8, usize, u32) {
        match ask(Call::Map, &[bytes as u64]) {
            Ok([address, ..]) => {
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
            MAPPED_BYTES.fetch_sub(bytes as u64, Relaxed);
        }
        is_back
    }

    fn can_release_part(&self, _: u32) -> bool {
        false
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        PAGE_BYTES
    }
}

struct Heap(Mutex<Dlmalloc<Source>>);

#[global_allocator]
static HEAP: Heap = Heap(Mutex::new(&HEAP_CLASS, Dlmalloc::new_with_allocator(Source)));

// SAFETY: `dlmalloc` keeps the trait's promises; the lock gives it to one thread at a time.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the layout is the caller's, whose size is not 0.
        unsafe { self.0.lock().malloc(layout.size(), layout.align()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as `alloc`.
        unsafe { self.0.lock().calloc(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller had it from here, by this layout.
        unsafe { self.0.lock().free(memory, layout.size(), layout.align()) };
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as `dealloc`.
        unsafe { self.0.lock().realloc(memory, layout.size(), layout.align(), bytes) }
    }
}

/// Frames that the heap has from the nucleus.
pub(super) fn mapped_frames() -> u64 {
    MAPPED_BYTES.load(Relaxed) / PAGE_BYTES as u64
}
