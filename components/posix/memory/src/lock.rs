//! mlock and related calls. There is no swap, and pages of files are not removed while mapped, so locking means making the
//! pages present now, and counting them.
use super::{
    mapping::checked_end,
    region::{Flags, PAGE, Region, page_of},
    space::AddressSpace,
};
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use vfs::Errno;

/// Tells whether the pages are made present when they are locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entering {
    /// They are made present at once.
    Now,
    /// They are made present when they are first used (`MLOCK_ONFAULT`).
    OnFault,
}

/// Tells whether later mappings are locked, too (`MCL_FUTURE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaterMappings {
    /// They are not.
    Free,
    /// They are.
    Locked,
}

impl AddressSpace {
    /// Does mlock and mlock2.
    ///
    /// # Errors
    /// `ENOMEM` on overflow, for a hole, if the limit is exceeded, and if a page cannot be accessed; `EPERM` if the limit is
    /// 0; `EAGAIN` if there is no memory for the pages.
    pub fn lock_pages(&self, start: u64, bytes: u64, entering: Entering) -> Result<(), Errno> {
        let limit = self.limits.get().locked;
        if limit == 0 {
            return Err(Errno::EPERM);
        }
        let Some((start, end)) = outer_pages(start, bytes, Errno::ENOMEM)? else { return Ok(()) };
        let regions = self.update(|map| {
            let already: u64 = map
                .overlapping(start, end)
                .filter(|region| region.flags.contains(Flags::LOCKED))
                .map(|region| (region.end.min(end) - region.start.max(start)) / PAGE)
                .sum();
            let locked = map.locked_pages - already.min(map.locked_pages) + (end - start) / PAGE;
            if locked.saturating_mul(PAGE) > limit {
                return Err(Errno::ENOMEM);
            }
            // Nothing behind a hole is locked, as on Linux.
            let covered_end = map.covered_end(start, end);
            let (is_covered, end) = (covered_end == end, covered_end);
            let mut reserved = map.reserve(2)?;
            map.change(start, end, &mut reserved, |region| {
                if !region.flags.contains(Flags::SPECIAL) {
                    region.flags |= Flags::LOCKED;
                }
            });
            let parts = map
                .overlapping(start, end)
                .map(|region| region.part(region.start.max(start), region.end.min(end)));
            let parts: Vec<Region> = parts.collect();
            if is_covered { Ok(parts) } else { Err(Errno::ENOMEM) }
        })?;
        if entering == Entering::Now {
            let mut pages = regions.iter().filter(|region| !region.flags.contains(Flags::SPECIAL));
            pages.try_for_each(|region| self.populate_region(region))?;
        }
        Ok(())
    }
    /// Does munlock.
    ///
    /// # Errors
    /// `EINVAL` on overflow; `ENOMEM` for a hole.
    pub fn unlock_pages(&self, start: u64, bytes: u64) -> Result<(), Errno> {
        let Some((start, end)) = outer_pages(start, bytes, Errno::EINVAL)? else { return Ok(()) };
        self.update(|map| {
            let covered_end = map.covered_end(start, end);
            let (is_covered, end) = (covered_end == end, covered_end);
            let mut reserved = map.reserve(2)?;
            map.change(start, end, &mut reserved, |region| region.flags.remove(Flags::LOCKED));
            if is_covered { Ok(()) } else { Err(Errno::ENOMEM) }
        })
    }
    /// Does mlockall: locks current mappings, future ones, or both.
    ///
    /// # Errors
    /// `ENOMEM` if the limit is exceeded; `EPERM` if it is 0.
    pub fn lock_all(&self, now: Option<Entering>, later: LaterMappings) -> Result<(), Errno> {
        let limit = self.limits.get().locked;
        if limit == 0 {
            return Err(Errno::EPERM);
        }
        if now.is_some() && self.map.read().total_pages.saturating_mul(PAGE) > limit {
            return Err(Errno::ENOMEM);
        }
        self.locks_future.store(later == LaterMappings::Locked, Ordering::Relaxed);
        let Some(entering) = now else { return Ok(()) };
        let regions: Vec<Region> = self.map.read().iter().cloned().collect();
        for region in regions.iter().filter(|region| !region.flags.contains(Flags::SPECIAL)) {
            // A region that was removed meanwhile needs no locking.
            let _ = self.lock_pages(region.start, region.bytes(), entering);
        }
        Ok(())
    }
    /// Does munlockall.
    pub fn unlock_all(&self) {
        self.locks_future.store(false, Ordering::Relaxed);
        let _ = self.update(|map| {
            let mut reserved = map.reserve(2)?;
            map.change(0, u64::MAX, &mut reserved, |region| region.flags.remove(Flags::LOCKED));
            Ok(())
        });
    }
}

/// Returns the pages that `start .. start + bytes` touches; `None` for a length of zero, and also for a length that
/// overflows with its last page.
///
/// # Errors
/// `beyond` if they end after the last address, `ENOMEM` if they end after the last address of programs.
fn outer_pages(start: u64, bytes: u64, beyond: Errno) -> Result<Option<(u64, u64)>, Errno> {
    let first = page_of(start);
    let bytes = bytes.wrapping_add(start - first).wrapping_add(PAGE - 1) & !(PAGE - 1);
    if bytes == 0 {
        return Ok(None);
    }
    first.checked_add(bytes).ok_or(beyond)?;
    let end = checked_end(first, bytes).ok_or(Errno::ENOMEM)?;
    Ok(Some((first, end)))
}
