//! Memory of the kernel world: frames are physical frames, numbered from physical address 0.
use crate::{NoMemory, PAGE_BYTES, memory::Frame};
use alloc::sync::Arc;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use nucleus::{
    dma::DmaBuffer,
    memory::{frame, frames::references},
};
pub(crate) use nucleus::{
    memory::{
        charge::{charge, uncharge},
        frame::{
            allocate as frame_allocate, copy as frame_copy, read as frame_read,
            words as frame_words, write as frame_write, zero as frame_zero,
        },
        frames::{is_full, is_short, release as frame_release, retain as frame_retain},
        heap::shrink,
        statistics,
    },
    thread::{leave_reserve, use_reserve},
};

pub(crate) use nucleus::memory::frames::{allocate_all, release_all};

/// Memory shared between components.
pub(crate) type RegionHandle = nucleus::capability::Region;

pub(crate) fn region_new(bytes: usize) -> Result<RegionHandle, NoMemory> {
    Ok(Arc::new(DmaBuffer::allocate(bytes)?).into())
}

/// Allocates a region whose pages are frames. Returns the number of the first as well.
pub(crate) fn pool_new(pages: usize) -> Result<(RegionHandle, u32), NoMemory> {
    let region = region_new(pages * PAGE_BYTES)?;
    let first = region.frames().next().ok_or(NoMemory)?;
    Ok((region, first))
}

/// Adds a reference to `frame` if it has exactly one. Returns whether it did.
pub(crate) fn frame_claim(frame: u32) -> bool {
    let references = references(frame);
    references.load(Acquire) == 1 && references.compare_exchange(1, 2, Acquire, Relaxed).is_ok()
}

/// Returns the number by which other components know the frame: the same.
pub(crate) const fn partner_number(frame: u32) -> u32 {
    frame
}

pub(crate) fn frame_references(frame: u32) -> u32 {
    references(frame).load(Acquire)
}

pub(crate) fn frame_exclusive(frame: &mut Frame) -> Option<&mut [u8; PAGE_BYTES]> {
    let memory = frame::exclusive(frame.id().0)?;
    // SAFETY: the direct map's address of a frame whose only reference is borrowed exclusively for as
    // long as the slice lives; no frame can be counted up but through a reference.
    Some(unsafe { &mut *memory })
}
