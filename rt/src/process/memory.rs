//! Memory of the process world.
//!
//! A frame here is a number that a client lent; it can only be handed to a device. It is neither mapped nor
//! counted: the client keeps it until it is told that the device is done. So it has no contents here, and
//! none can be allocated. Charges are counted, but only the nucleus refuses memory: it gives a component no
//! more than was granted.
use super::call::{Handle, ask};
use crate::{
    NoMemory, PAGE_BYTES,
    memory::{Frame, Statistics},
};
use alloc::sync::Arc;
use calls::{Call, Status};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

static CHARGED_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Shared memory, mapped as long as the handle lives.
#[derive(Debug)]
pub(crate) struct Mapped {
    address: usize,
    words: usize,
    pub(super) handle: Handle,
    /// The region whose handle keeps this mapped, if it is another one.
    _of: Option<RegionHandle>,
}

/// Memory shared between components.
pub(crate) type RegionHandle = Arc<Mapped>;

pub(crate) fn region_new(bytes: usize) -> Result<RegionHandle, NoMemory> {
    let bytes = bytes.max(1).checked_next_multiple_of(PAGE_BYTES).ok_or(NoMemory)?;
    let [address, handle, _] = ask(Call::RegionNew, &[bytes as u64]).map_err(|_| NoMemory)?;
    let handle = Handle(handle);
    Ok(Arc::new(Mapped { address: address as usize, words: bytes / 8, handle, _of: None }))
}

/// Maps the region that `handle` names. Returns the handle and the error if it names none.
pub(super) fn region_map(handle: Handle) -> Result<RegionHandle, (Handle, Status)> {
    let [address, bytes, _] = match ask(Call::MapRegion, &[handle.0]) {
        Ok(mapped) => mapped,
        Err(status) => return Err((handle, status)),
    };
    let (address, words) = (address as usize, bytes as usize / 8);
    Ok(Arc::new(Mapped { address, words, handle, _of: None }))
}

/// Returns `region` under the handle of a copy that was given.
pub(super) fn region_given(region: &RegionHandle, handle: Handle) -> RegionHandle {
    let Mapped { address, words, .. } = **region;
    Arc::new(Mapped { address, words, handle, _of: Some(region.clone()) })
}

impl Mapped {
    /// Returns whether the handle may leave, as [`Handle::can_leave`].
    pub(super) fn can_leave(&self) -> bool {
        self.handle.can_leave()
    }
    /// Takes the handle out, as [`Handle::leave`].
    pub(super) fn leave(&mut self) -> Handle {
        self.handle.leave()
    }
    /// Returns all words of the region.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: mapped by the nucleus, page-aligned and that long, until the handle is dropped; words
        // that others write at any time are atomics.
        unsafe { core::slice::from_raw_parts(self.address as *const AtomicU64, self.words) }
    }
}

pub(crate) fn charge(bytes: usize) -> Result<(), NoMemory> {
    let sum = |now: usize| now.checked_add(bytes);
    CHARGED_BYTES.try_update(Relaxed, Relaxed, sum).map(|_| ()).map_err(|_| NoMemory)
}

pub(crate) fn uncharge(bytes: usize) {
    CHARGED_BYTES.fetch_sub(bytes, Relaxed);
}

/// Returns `false`: there is no reserve beyond the grant.
pub(crate) fn use_reserve() -> bool {
    true
}

pub(crate) fn leave_reserve() {}

/// Returns `false`: only the nucleus knows the rest of the grant, and a component holds nothing that it
/// could give back.
pub(crate) fn is_short() -> bool {
    false
}

/// Returns `false`, as [`is_short`].
pub(crate) fn is_full() -> bool {
    false
}

pub(crate) fn shrink() {}

pub(crate) fn frame_allocate(_zeroed: bool) -> Result<u32, NoMemory> {
    Err(NoMemory)
}

/// Returns whether `frame` can stand for a lent frame. Whether it was lent is checked when a device reaches
/// it.
pub(crate) fn frame_lent(_frame: u32) -> bool {
    true
}

pub(crate) fn frame_retain(_frame: u32) {}

pub(crate) fn frame_release(_frame: u32) {}

/// Returns 2: the client's reference and this one.
pub(crate) fn frame_references(_frame: u32) -> u32 {
    2
}

pub(crate) fn frame_exclusive(_frame: &mut Frame) -> Option<&mut [u8; PAGE_BYTES]> {
    None
}

/// Reads zeroes: the contents of a frame are not known here.
pub(crate) fn frame_read(_frame: u32, _offset: usize, out: &mut [u8]) {
    out.fill(0);
}

/// Does nothing: the contents of a frame cannot be changed from here.
pub(crate) fn frame_write(_frame: u32, _offset: usize, _data: &[u8]) {}

/// Does nothing, as [`frame_write`].
pub(crate) fn frame_zero(_frame: u32, _offset: usize, _length: usize) {}

/// Does nothing, as [`frame_write`].
pub(crate) fn frame_copy(_from: u32, _to: u32) {}

/// Returns the component's own amounts: the mappings of its heap and its threads, and its charges.
pub(crate) fn statistics() -> Statistics {
    Statistics {
        heap_frames: super::heap::mapped_frames(),
        stack_frames: super::thread::stack_frames(),
        charged_bytes: CHARGED_BYTES.load(Relaxed) as u64,
        large_pages: 0,
        ..Statistics::default()
    }
}
