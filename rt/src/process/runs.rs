//! Runs of frames that other components read ([`crate::memory::FramePool`]).
//!
//! A run is a region of its own, and every page of it is a frame: a reader has the region without the right to write, and finds a
//! frame by the number that the nucleus gives to it, because the region is contiguous. The counts of references are in a second
//! region, which is shown to nobody. Numbers and counts of own frames are those of [`super::pools`].
//!
//! Only a component that runs programs has runs: the nucleus tells no other the numbers of its frames.
//!
//! Locks: `rt.runs` guards the list. It is taken before those of the heap and of the pools.
use super::{
    memory::{self, RegionHandle, region_new},
    pools,
};
use crate::{
    NoMemory, PAGE_BYTES,
    sync::{LockClass, Mutex},
};
use alloc::vec::Vec;

static RUNS_CLASS: LockClass = LockClass::new("rt.runs");
static RUNS: Mutex<Vec<FrameRun>> = Mutex::new(&RUNS_CLASS, Vec::new());

/// A run. Its memory stays mapped until the last of its frames is free.
struct FrameRun {
    first: u32,
    _frames: RegionHandle,
    _counts: RegionHandle,
}

fn address(region: &RegionHandle) -> usize {
    region.words().as_ptr().expose_provenance()
}

/// Allocates a region whose pages are frames, with a reference to each. Returns the number of the first as well.
pub(crate) fn pool_new(pages: usize) -> Result<(RegionHandle, u32), NoMemory> {
    collect();
    memory::may_take((pages + 1) * PAGE_BYTES)?;
    let frames = region_new(pages * PAGE_BYTES)?;
    let counts = region_new(PAGE_BYTES)?;
    let first = {
        let mut runs = RUNS.lock();
        runs.try_reserve(1).map_err(|_| NoMemory)?;
        let first = pools::enter_run(address(&counts), address(&frames), pages)?;
        runs.push(FrameRun { first, _frames: frames.clone(), _counts: counts });
        first
    };
    if pools::nucleus_number(first).is_none() {
        pool_end(first, pages);
        return Err(NoMemory);
    }
    Ok((frames, first))
}

/// Drops the pool's references to the frames of a run. Those that others use stay.
pub(crate) fn pool_end(first: u32, pages: usize) {
    pools::release_all((first..).take(pages));
    collect();
}

/// Gives the runs without frames in use back to the nucleus.
pub(super) fn collect() {
    let unused: Vec<FrameRun> =
        RUNS.lock().extract_if(.., |run| pools::leave_run(run.first)).collect();
    // This unmaps them, without the lock.
    drop(unused);
}
