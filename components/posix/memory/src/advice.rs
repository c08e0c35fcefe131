//! The calls madvise, mincore and msync.
use super::{
    mapping::checked_end,
    region::{Backing, Flags, Origin, PAGE, Region, range, round_up},
    space::AddressSpace,
};
use alloc::{sync::Arc, vec, vec::Vec};
use interfaces::monitor::Privileges;
use rt::user::{Access, LARGE_BYTES, Protection};
use vfs::{
    Credentials, Errno, NOBODY, OpenFile, Principal,
    file::{Mappable, PageUse},
    permission::{self, Want},
    security,
};

/// The advice of madvise, by effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// The advice has no effect: order of access, large pages, merging, cold memory.
    Nothing,
    /// The pages are dropped; anonymous memory reads as zeroes afterwards.
    DontNeed {
        /// Locked memory is included.
        with_locked: bool,
    },
    /// The contents of private anonymous pages may be dropped.
    Free,
    /// The object's pages are read.
    WillNeed,
    /// The pages are removed from the object too.
    Remove,
    /// Flags of the regions are set and cleared.
    Mark {
        /// Flags to set.
        set: Flags,
        /// Flags to clear.
        clear: Flags,
    },
    /// The pages are made present for this access.
    Populate(Access),
    /// The pages are to be made large ones, which the memory does by itself if possible.
    Collapse,
}

/// The greatest number of pages read at once for `MADV_WILLNEED`: the number that Linux reads from a disk in one request,
/// however long the range is.
const READ_AHEAD_PAGES: u64 = 320;

/// Reads the first of `pages` pages of an object into memory for `caller` (readahead(2), `MADV_WILLNEED`).
///
/// # Errors
/// The reason why a page was not read.
pub fn read_ahead(
    object: &dyn Mappable,
    first: u64,
    pages: u64,
    caller: &dyn Principal,
) -> Result<(), Errno> {
    let pages = pages.min(READ_AHEAD_PAGES);
    let read = |page| object.page(page, PageUse::Read, caller).map(drop);
    (first..first.saturating_add(pages)).try_for_each(read)
}

impl AddressSpace {
    /// Does madvise. As on Linux, holes do not stop it, but make the result `ENOMEM`.
    ///
    /// # Errors
    /// `EINVAL` for a misaligned start or advice that the memory does not support; `ENOMEM`; `EFAULT`.
    pub fn advise(&self, start: u64, bytes: u64, advice: Advice) -> Result<(), Errno> {
        let end =
            round_up(bytes).and_then(|bytes| start.checked_add(bytes)).ok_or(Errno::EINVAL)?;
        if !start.is_multiple_of(PAGE) {
            return Err(Errno::EINVAL);
        }
        if end == start {
            return Ok(());
        }
        let is_covered = self.map.read().covers(start, end);
        match advice {
            Advice::Nothing => {}
            Advice::DontNeed { with_locked } => {
                let refused =
                    if with_locked { Flags::SPECIAL } else { Flags::LOCKED | Flags::SPECIAL };
                self.discard(start, end, |region| !region.flags.intersects(refused))?;
            }
            Advice::Free => self.discard(start, end, |region| {
                region.is_anonymous() && !region.flags.contains(Flags::LOCKED)
            })?,
            Advice::Mark { set, clear } => self.mark(start, end, set, clear)?,
            Advice::WillNeed => self.read_ahead(start, end),
            Advice::Remove => self.remove_contents(start, end)?,
            Advice::Populate(access) => {
                self.check_populated(start, end, access)?;
                if !is_covered {
                    return Err(Errno::ENOMEM);
                }
                self.populate(start, end - start, access).map_err(|_| Errno::EFAULT)?;
            }
            Advice::Collapse => self.check_collapsible(start, end)?,
        }
        if is_covered { Ok(()) } else { Err(Errno::ENOMEM) }
    }

    /// Checks that the regions up to the first hole allow the access for which pages are made present.
    fn check_populated(&self, start: u64, end: u64, access: Access) -> Result<(), Errno> {
        let map = self.map.read();
        let end = map.covered_end(start, end);
        let needed = match access {
            Access::Write => Protection::WRITE,
            _ => Protection::READ,
        };
        let is_refused = |region: &Region| {
            !region.protection.contains(needed) || region.flags.contains(Flags::SPECIAL)
        };
        let is_any_refused = map.overlapping(start, end).any(is_refused);
        if is_any_refused { Err(Errno::EINVAL) } else { Ok(()) }
    }

    /// Checks that all regions have room for a large page, and do not forbid large pages.
    fn check_collapsible(&self, start: u64, end: u64) -> Result<(), Errno> {
        let map = self.map.read();
        let can_be_large = |region: &Region| {
            const LARGE: u64 = LARGE_BYTES as u64;
            let last = region.end & !(LARGE - 1);
            let has_room = last.checked_sub(LARGE).is_some_and(|first| first >= region.start);
            has_room && !region.flags.intersects(Flags::SPECIAL | Flags::NO_LARGE)
        };
        let are_all = map.overlapping(start, end).all(can_be_large);
        if are_all { Ok(()) } else { Err(Errno::EINVAL) }
    }

    /// Removes the pages from the space, up to the first region that must keep them.
    fn discard(
        &self,
        start: u64,
        end: u64,
        may_lose: impl Fn(&Region) -> bool,
    ) -> Result<(), Errno> {
        let map = self.map.write();
        for region in map.overlapping(start, end) {
            if !may_lose(region) {
                return Err(Errno::EINVAL);
            }
            if let Some(pages) = range(region.start.max(start), region.end.min(end)) {
                self.space.unmap(pages)?;
            }
        }
        Ok(())
    }

    fn mark(&self, start: u64, end: u64, set: Flags, clear: Flags) -> Result<(), Errno> {
        self.update(|map| {
            if set.contains(Flags::WIPE_ON_FORK) {
                let mut regions = map.overlapping(start, end);
                if regions.any(|region| !region.is_anonymous()) {
                    return Err(Errno::EINVAL);
                }
            }
            let mut reserved = map.reserve(2)?;
            map.change(start, end, &mut reserved, |region| {
                region.flags.remove(clear);
                region.flags.insert(set);
            });
            Ok(())
        })
    }

    /// Returns the parts of objects between `start` and `end`: object, first page, number of pages.
    fn objects(&self, start: u64, end: u64) -> Vec<(Arc<dyn Mappable>, u64, u64)> {
        let map = self.map.read();
        map.overlapping(start, end)
            .filter_map(|region| {
                let part = region.part(region.start.max(start), region.end.min(end));
                let pages = part.pages();
                match part.backing {
                    Backing::Anonymous => None,
                    Backing::Object { object, first, .. } => Some((object, first, pages)),
                }
            })
            .collect()
    }

    fn read_ahead(&self, start: u64, end: u64) {
        let owner = self.owner();
        let caller = owner.as_deref().unwrap_or(NOBODY);
        for (object, first, pages) in self.objects(start, end) {
            let _ = read_ahead(&*object, first, pages, caller);
        }
    }

    /// Does `MADV_REMOVE`: drops pages of shared anonymous memory.
    fn remove_contents(&self, start: u64, end: u64) -> Result<(), Errno> {
        let map = self.map.write();
        for region in map.overlapping(start, end) {
            let part = region.part(region.start.max(start), region.end.min(end));
            let Backing::Object { object, first, .. } = &part.backing else {
                return Err(Errno::EINVAL);
            };
            if region.is_private() || region.flags.contains(Flags::LOCKED) {
                return Err(Errno::EINVAL);
            }
            if !object.discard(*first, part.pages()) {
                return Err(Errno::EOPNOTSUPP);
            }
            if let Some(pages) = part.range() {
                self.space.unmap(pages)?;
            }
        }
        Ok(())
    }

    /// Does mincore for `who`: returns one byte for each page up to the first hole, 1 if the page is in memory. Pages of
    /// a file that `who` neither owns nor may write all count as present, and those of any file to a subject that does not see
    /// all levels: the cached ones would show how other programs use the file.
    ///
    /// # Errors
    /// `EINVAL` for a misaligned start; `ENOMEM` if it is not mapped.
    pub fn residency(&self, start: u64, pages: usize, who: &Credentials) -> Result<Vec<u8>, Errno> {
        let end = checked_end(start, pages as u64 * PAGE).ok_or(Errno::ENOMEM)?;
        let map = self.map.read();
        let end = map.covered_end(start, end);
        if end == start {
            return Err(Errno::ENOMEM);
        }
        let mut present = vec![0; ((end - start) / PAGE) as usize];
        for region in map.overlapping(start, end) {
            let part = region.part(region.start.max(start), region.end.min(end));
            let offset = ((part.start - start) / PAGE) as usize;
            let pages = present.get_mut(offset..).unwrap_or_default();
            let mut mark = |index: usize| {
                if let Some(page) = pages.get_mut(index) {
                    *page = 1;
                }
            };
            if !may_know_residency(&part.backing, who) {
                (0..part.pages() as usize).for_each(mark);
                continue;
            }
            if let Backing::Object { object, first, .. } = &part.backing {
                object.resident(*first, part.pages() as usize, &mut |index, _| {
                    mark(index.wrapping_sub(*first) as usize);
                });
            }
            self.space.each_present(part.start, part.end, |address| {
                mark(((address - part.start) / PAGE) as usize);
                true
            });
        }
        Ok(present)
    }

    /// Returns the shared files mapped in `bytes` bytes from `start` on, for msync.
    ///
    /// # Errors
    /// `EINVAL`; `ENOMEM` if part of it is not mapped.
    pub fn files_to_sync(&self, start: u64, bytes: u64) -> Result<Vec<Arc<OpenFile>>, Errno> {
        self.files_without(start, bytes, Flags::empty())
    }
    /// Does the same as [`AddressSpace::files_to_sync`] for MS_INVALIDATE.
    ///
    /// # Errors
    /// `EBUSY` if part of it is locked, and those of [`AddressSpace::files_to_sync`].
    pub fn files_to_invalidate(&self, start: u64, bytes: u64) -> Result<Vec<Arc<OpenFile>>, Errno> {
        self.files_without(start, bytes, Flags::LOCKED)
    }
    /// Returns the shared files of a range; fails with `EBUSY` if a region has one of the flags in `refused`.
    fn files_without(
        &self,
        start: u64,
        bytes: u64,
        refused: Flags,
    ) -> Result<Vec<Arc<OpenFile>>, Errno> {
        // A length that overflows when rounded to pages counts as zero.
        let bytes = bytes.wrapping_add(PAGE - 1) & !(PAGE - 1);
        if bytes == 0 {
            return Ok(Vec::new());
        }
        let end = checked_end(start, bytes).ok_or(Errno::ENOMEM)?;
        let mut files = Vec::new();
        if start == end {
            return Ok(files);
        }
        let map = self.map.read();
        let mut take = |region: &Region| {
            if region.flags.intersects(refused) {
                return Err(Errno::EBUSY);
            }
            if let Backing::Object { origin: Origin::File(file), .. } = &region.backing
                && !region.is_private()
            {
                files.push(file.clone());
            }
            Ok(())
        };
        // Most often one region has all of it.
        if let Some(region) = map.find(start).filter(|region| region.end >= end) {
            return take(region).map(|()| files);
        }
        map.overlapping(start, end).try_for_each(take)?;
        if map.covers(start, end) { Ok(files) } else { Err(Errno::ENOMEM) }
    }
}

/// Returns whether `who` owns the file behind a region, or may write it, or there is no file.
fn may_know_residency(backing: &Backing, who: &Credentials) -> bool {
    match backing {
        Backing::Object { origin: Origin::File(file), .. } => {
            // Programs of all levels bring the pages in.
            security::has(&who.subject, Privileges::SEE_ALL)
                && (permission::is_owner(file.vnode(), who)
                    || permission::check(file.vnode(), who, Want::WRITE).is_ok())
        }
        _ => true,
    }
}
