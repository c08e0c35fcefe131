//! Memory of the kernel world: frames are physical frames, numbered from physical address 0.
use crate::{
    NoMemory, PAGE_BYTES,
    memory::{Frame, FrameId, Statistics},
};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering::Acquire};
use nucleus::{
    dma::DmaBuffer,
    memory::{self, charge, frame, frames},
};

/// Memory shared between components.
pub(crate) type RegionHandle = Arc<DmaBuffer>;

pub(crate) fn region_new(bytes: usize) -> Result<RegionHandle, NoMemory> {
    DmaBuffer::allocate(bytes).map(Arc::new).ok_or(NoMemory)
}

pub(crate) fn region_words(region: &RegionHandle) -> &[AtomicU64] {
    region.words()
}

pub(crate) fn charge(bytes: usize) -> Result<(), NoMemory> {
    if charge::charge(bytes) { Ok(()) } else { Err(NoMemory) }
}

pub(crate) fn uncharge(bytes: usize) {
    charge::uncharge(bytes);
}

pub(crate) fn use_reserve() -> bool {
    nucleus::thread::use_reserve()
}

pub(crate) fn leave_reserve() {
    nucleus::thread::leave_reserve();
}

#[inline]
pub(crate) fn is_short() -> bool {
    frames::is_short()
}

pub(crate) fn is_full() -> bool {
    frames::is_full()
}

pub(crate) fn shrink() {
    memory::heap::shrink();
}

pub(crate) fn frame_allocate(zeroed: bool) -> Result<FrameId, NoMemory> {
    frame::allocate(zeroed).map(FrameId)
}

pub(crate) fn frame_retain(id: FrameId) {
    frames::retain(id.0);
}

pub(crate) fn frame_release(id: FrameId) {
    frames::release(id.0);
}

/// Components of the kernel world hand each other frames, not numbers.
pub(crate) fn frame_lent(_id: FrameId) -> bool {
    false
}

pub(crate) fn frame_references(id: FrameId) -> u32 {
    frames::references(id.0).load(Acquire)
}

pub(crate) fn frame_exclusive(frame: &mut Frame) -> Option<&mut [u8; PAGE_BYTES]> {
    let memory = frame::exclusive(frame.id().0)?;
    // SAFETY: the direct map's address of a frame whose only reference is borrowed exclusively for as
    // long as the slice lives; no frame can be counted up but through a reference.
    Some(unsafe { &mut *memory })
}

pub(crate) fn frame_read(id: FrameId, offset: usize, out: &mut [u8]) {
    if !out.is_empty() {
        frame::read(id.0, offset, out);
    }
}

pub(crate) fn frame_write(id: FrameId, offset: usize, data: &[u8]) {
    if !data.is_empty() {
        frame::write(id.0, offset, data);
    }
}

pub(crate) fn frame_zero(id: FrameId, offset: usize, length: usize) {
    frame::zero(id.0, offset, length);
}

pub(crate) fn frame_copy(from: FrameId, to: FrameId) {
    frame::copy(from.0, to.0);
}

pub(crate) fn statistics() -> Statistics {
    memory::statistics()
}
