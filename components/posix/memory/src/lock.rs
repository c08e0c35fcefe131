//! mlock and its family. There is no swap, and pages of files are not taken while mapped, so
//! locking is: entering the pages now, and keeping account.
use super::{
    mapping::checked_end,
    region::{Flags, PAGE, Region, page_of},
    space::AddressSpace,
};
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use vfs::Errno;

/// Whether the pages are entered when they are locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entering {
    /// Now.
    Now,
    /// When they are first used (`MLOCK_ONFAULT`).
    OnFault,
}

impl AddressSpace {
    /// mlock, mlock2.
    ///
    /// # Errors
    /// `ENOMEM` on overflow, for a hole or the limit, and where what is locked cannot be touched; `EPERM` where
    /// the limit is 0; `EAGAIN` where there is no memory for the pages.
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
            // Behind a hole nothing is locked, as on Linux.
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
    /// munlock.
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
    /// mlockall: everything mapped now, and what is mapped later, as asked.
    ///
    /// # Errors
    /// `ENOMEM` where the limit is passed; `EPERM` where it is 0.
    pub fn lock_all(&self, now: Option<Entering>, is_future: bool) -> Result<(), Errno> {
        let limit = self.limits.get().locked;
        if limit == 0 {
            return Err(Errno::EPERM);
        }
        if now.is_some() && self.map.read().total_pages.saturating_mul(PAGE) > limit {
            return Err(Errno::ENOMEM);
        }
        self.locks_future.store(is_future, Ordering::Relaxed);
        let Some(entering) = now else { return Ok(()) };
        let regions: Vec<Region> = self.map.read().iter().cloned().collect();
        for region in regions.iter().filter(|region| !region.flags.contains(Flags::SPECIAL)) {
            // A region that went meanwhile needs no locking.
            let _ = self.lock_pages(region.start, region.bytes(), entering);
        }
        Ok(())
    }
    /// munlockall.
    pub fn unlock_all(&self) {
        self.locks_future.store(false, Ordering::Relaxed);
        let _ = self.update(|map| {
            let mut reserved = map.reserve(2)?;
            map.change(0, u64::MAX, &mut reserved, |region| region.flags.remove(Flags::LOCKED));
            Ok(())
        });
    }
}

/// The pages that `start .. start + bytes` touches; `None` of no bytes, which a length that overflows with its last page is,
/// too.
///
/// # Errors
/// `beyond` where they end behind the last address there is, `ENOMEM` where they end behind a program's.
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
