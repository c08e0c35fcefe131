//! Memory of the process world: the component's grant, charges against it, and regions.
//!
//! The component keeps its own account of the memory that it has from the nucleus ([`Taken`]): heap, stacks, regions, buffers
//! and pools ([`super::pools`]). One part in [`FLOOR_PARTS`] of the grant must stay free, because the supervisor restarts a
//! component that uses more. One part in [`RESERVE_PARTS`] above that is the reserve: charges and new pools are refused it,
//! unless the thread may use it. The heap is refused only what the nucleus refuses.
pub(crate) use super::attached::{frame_handed, pool_attach, take_released};
pub(crate) use super::pools::{
    allocate_all, frame_allocate, frame_claim, frame_copy, frame_exclusive, frame_lent, frame_read,
    frame_references, frame_release, frame_retain, frame_write, frame_zero, is_lent,
    is_lent as is_kept_by_client, partner_number, release_all, words as frame_words,
};
pub(crate) use super::runs::pool_new;
pub(crate) use super::thread::{leave_reserve, use_reserve};

use super::{
    call::{Handle, ask},
    heap, pools, thread, time,
};
use crate::{NoMemory, PAGE_BYTES, memory::Statistics};
use alloc::sync::Arc;
use calls::{Call, Status};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// A part of the grant that must stay free: one in this many (`MEMORY_PARTS` of the supervisor).
const FLOOR_PARTS: usize = 8;
/// The reserve: one part of the grant in this many.
const RESERVE_PARTS: usize = 16;
/// Pages for which the component needs a page table.
const TABLE_PAGES: usize = 512;
/// Page tables that every component has.
const TABLES: usize = 6;

static GRANTED_BYTES: AtomicUsize = AtomicUsize::new(0);
static TAKEN_BYTES: AtomicUsize = AtomicUsize::new(0);
/// Bytes that the nucleus counted last, with the pages of programs.
static USED_BYTES: AtomicUsize = AtomicUsize::new(0);
static CHARGED_BYTES: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    /// The end of the image (`image/component.ld`).
    static skerry_image_end: u8;
}

/// Notes the memory that the component was granted.
pub(super) fn init(granted_bytes: usize) {
    GRANTED_BYTES.store(granted_bytes, Relaxed);
}

/// Returns the memory that the component was granted.
pub(super) fn granted_bytes() -> usize {
    GRANTED_BYTES.load(Relaxed)
}

/// Memory that the component has from the nucleus, in bytes, on its account until this is dropped.
#[derive(Debug)]
pub(super) struct Taken(usize);

impl Taken {
    /// Adds `bytes` to the account.
    pub(super) fn new(bytes: usize) -> Taken {
        TAKEN_BYTES.fetch_add(bytes, Relaxed);
        Taken(bytes)
    }
    /// Returns the entry of `bytes` that are on the account already.
    pub(super) fn already(bytes: usize) -> Taken {
        Taken(bytes)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        TAKEN_BYTES.fetch_sub(self.0, Relaxed);
    }
}

/// Returns the bytes of the shared page, the image, and the page tables that every component has.
fn fixed_bytes() -> usize {
    let end = (&raw const skerry_image_end).addr();
    end.saturating_sub(time::shared_page()) + TABLES * PAGE_BYTES
}

/// Returns the rest of the grant.
fn free_bytes() -> usize {
    let taken = TAKEN_BYTES.load(Relaxed);
    let used = fixed_bytes() + taken + taken / TABLE_PAGES;
    granted_bytes().saturating_sub(used.max(USED_BYTES.load(Relaxed)))
}

/// Notes the number of pages that the component has, as the nucleus counted them.
pub(super) fn note_used(pages: usize) {
    USED_BYTES.store(pages * PAGE_BYTES, Relaxed);
}

fn floor_bytes() -> usize {
    granted_bytes() / FLOOR_PARTS
}

fn reserve_bytes() -> usize {
    granted_bytes() / RESERVE_PARTS
}

/// Returns the part of the grant that the calling thread must leave free.
fn spare_bytes() -> usize {
    floor_bytes() + if thread::uses_reserve() { 0 } else { reserve_bytes() }
}

/// Checks that the calling thread may take `bytes` more of the grant.
///
/// # Errors
/// [`NoMemory`].
pub(super) fn may_take(bytes: usize) -> Result<(), NoMemory> {
    let rest = free_bytes().saturating_sub(spare_bytes());
    if bytes <= rest { Ok(()) } else { Err(NoMemory) }
}

/// Shared memory, mapped as long as the handle lives.
#[derive(Debug)]
pub(crate) struct Mapped {
    address: usize,
    words: usize,
    pub(super) handle: Handle,
    /// The region whose handle keeps this mapped, if it is another one.
    _of: Option<RegionHandle>,
    _taken: Taken,
}

/// Memory shared between components.
pub(crate) type RegionHandle = Arc<Mapped>;

pub(crate) fn region_new(bytes: usize) -> Result<RegionHandle, NoMemory> {
    let bytes = bytes.max(1).checked_next_multiple_of(PAGE_BYTES).ok_or(NoMemory)?;
    let [address, handle, _] = ask(Call::RegionNew, &[bytes as u64]).map_err(|_| NoMemory)?;
    let handle = Handle(handle);
    let (address, words) = (address as usize, bytes / 8);
    Ok(Arc::new(Mapped { address, words, handle, _of: None, _taken: Taken::new(bytes) }))
}

/// Maps the region that `handle` names. Returns the handle and the error if it names none.
pub(super) fn region_map(handle: Handle) -> Result<RegionHandle, (Handle, Status)> {
    let [address, bytes, _] = match ask(Call::MapRegion, &[handle.0]) {
        Ok(mapped) => mapped,
        Err(status) => return Err((handle, status)),
    };
    let (address, words, _taken) =
        (address as usize, bytes as usize / 8, Taken::new(bytes as usize));
    Ok(Arc::new(Mapped { address, words, handle, _of: None, _taken }))
}

/// Returns `region` under the handle of a copy that was given.
pub(super) fn region_given(region: &RegionHandle, handle: Handle) -> RegionHandle {
    let Mapped { address, words, .. } = **region;
    Arc::new(Mapped { address, words, handle, _of: Some(region.clone()), _taken: Taken::new(0) })
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

/// Charges `bytes`. Refuses if the sum of charges would exceed the grant less what must stay free, or if not that much of the
/// grant is free now.
pub(crate) fn charge(bytes: usize) -> Result<(), NoMemory> {
    may_take(bytes)?;
    let limit = granted_bytes().saturating_sub(fixed_bytes() + spare_bytes());
    let sum = |now: usize| now.checked_add(bytes).filter(|&after| after <= limit);
    CHARGED_BYTES.try_update(Relaxed, Relaxed, sum).map(|_| ()).map_err(|_| NoMemory)
}

pub(crate) fn uncharge(bytes: usize) {
    CHARGED_BYTES.fetch_sub(bytes, Relaxed);
}

/// Returns whether much of the reserve is used.
pub(crate) fn is_short() -> bool {
    free_bytes() < floor_bytes() + reserve_bytes() / 2
}

/// Returns whether little beyond the reserve is free, in pools and outside: charges and frames are refused, or soon will be.
/// New pages of programs come from outside only.
pub(crate) fn is_full() -> bool {
    let has_programs = USED_BYTES.load(Relaxed) > 0;
    let free = free_bytes() + if has_programs { 0 } else { pools::frames().1 * PAGE_BYTES };
    free <= floor_bytes() + reserve_bytes() + pools::POOL_FRAMES_MIN * PAGE_BYTES
}

/// Gives empty pools and the free memory of the heap back to the nucleus.
pub(crate) fn shrink() {
    pools::shrink();
    heap::shrink();
}

/// Returns the component's own amounts: its grant and the rest of it, free frames of its pools included; the mappings of its
/// heap and its threads, and its charges.
pub(crate) fn statistics() -> Statistics {
    let free_frames = free_bytes() / PAGE_BYTES + pools::frames().1;
    Statistics {
        total_frames: (granted_bytes() / PAGE_BYTES) as u64,
        free_frames: free_frames as u64,
        heap_frames: heap::mapped_frames(),
        stack_frames: thread::stack_frames(),
        charged_bytes: CHARGED_BYTES.load(Relaxed) as u64,
        large_pages: 0,
        ..Statistics::default()
    }
}
