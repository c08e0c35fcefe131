//! Segments of System V shared memory in an address space: their memory, and shmdt.
use super::{
    anonymous::Anonymous,
    commit::{self, Claimant, Commitment, Policy},
    map::Map,
    region::{Backing, PAGE, Region},
    space::AddressSpace,
};
use alloc::{sync::Arc, vec::Vec};
use vfs::{Errno, Principal};

/// A segment of System V shared memory, as the regions that map it know it.
pub trait Segment: Send + Sync {
    /// Returns its identifier, which `/proc/PID/maps` shows as its inode.
    fn id(&self) -> i32;
    /// Returns the key it was made with.
    fn name(&self) -> i32;
    /// Its length in bytes.
    fn bytes(&self) -> u64;
    /// Called when a region that maps it was added to an address space of `by`.
    ///
    /// # Locks
    /// `memory.map` is held.
    fn attached(&self, by: &dyn Principal);
    /// Such a region went; held as at [`Segment::attached`].
    fn detached(&self, by: &dyn Principal);
}

/// The two are one segment (compared by address; the table of methods may be another copy).
fn is_same(one: &Arc<dyn Segment>, other: &Arc<dyn Segment>) -> bool {
    core::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
}

impl AddressSpace {
    /// Returns the number of pages of all its regions.
    ///
    /// # Locks
    /// `memory.map`, to read.
    pub fn total_pages(&self) -> u64 {
        self.map.read().total_pages
    }
    /// Does shmdt: unmaps the segment that is attached at `address`. As on Linux it may be in pieces: the first of them
    /// from there on tells the segment, and the others are found by their places.
    ///
    /// # Errors
    /// `EINVAL` if none is attached; `ENOMEM` as for [`AddressSpace::unmap`].
    pub fn detach(&self, address: u64) -> Result<(), Errno> {
        if !address.is_multiple_of(PAGE) {
            return Err(Errno::EINVAL);
        }
        let removed = self.update(|map| {
            let pieces = pieces(map, address).ok_or(Errno::EINVAL)?;
            let mut removed = Vec::new();
            for (start, end) in pieces {
                removed.extend(self.take_out(map, start, end, 0, |_, _| {})?);
            }
            Ok(removed)
        })?;
        drop(removed);
        Ok(())
    }
}

/// Makes the memory of a segment for `claimant`, all of it promised.
///
/// # Errors
/// `ENOMEM`.
pub fn segment_memory(pages: u64, claimant: Claimant) -> Result<Arc<Anonymous>, Errno> {
    Ok(Anonymous::of_segment(pages, Commitment::take(pages, claimant)?))
}

/// Does the same as [`segment_memory`] without a promise (SHM_NORESERVE), except under [`Policy::Strict`].
///
/// # Errors
/// `ENOMEM`.
pub fn unreserved_segment_memory(pages: u64, claimant: Claimant) -> Result<Arc<Anonymous>, Errno> {
    match commit::policy() {
        Policy::Strict => segment_memory(pages, claimant),
        _ => Ok(Anonymous::of_segment(pages, Commitment::none())),
    }
}

/// Returns the segment of `region`, if the region is at its place of an attach at `address`.
fn segment_at(region: &Region, address: u64) -> Option<&Arc<dyn Segment>> {
    let Backing::Object { first, .. } = &region.backing else { return None };
    let distance = region.start.checked_sub(address)?;
    region.segment().filter(|_| distance / PAGE == *first)
}

/// Returns the pieces of the segment that was attached at `address`.
fn pieces(map: &Map, address: u64) -> Option<Vec<(u64, u64)>> {
    let mut regions = map.from(address);
    let (first, segment) =
        regions.find_map(|region| Some((region, segment_at(region, address)?)))?;
    let end = address.saturating_add(segment.bytes().next_multiple_of(PAGE));
    let is_of_it =
        |region: &&Region| segment_at(region, address).is_some_and(|other| is_same(segment, other));
    let others = regions.take_while(|region| region.end <= end).filter(is_of_it);
    let place = |region: &Region| (region.start, region.end);
    Some(core::iter::once(first).chain(others).map(place).collect())
}
