//! fork: the map is copied, pages are shared by range, copy-on-write (B5, K5).
use super::{
    AddressSpace,
    region::{Flags, range},
};
use alloc::sync::Arc;
use rt::{
    NoMemory,
    user::{CloneMode, PageRange},
};
use vfs::Errno;

/// Pages that a small new space will need at once: tables, stack, first copies.
const SPACE_PAGES: usize = 64;

impl AddressSpace {
    /// A copy of this address space for a child. Only ranges with pages of their own are gone
    /// through; pages of objects are entered again by faults.
    ///
    /// # Errors
    /// `ENOMEM`.
    ///
    /// # Locks
    /// `memory.map` to read: faults of other threads go on; each page is either shared before a
    /// store or the store's copy is private to the parent.
    pub fn fork(&self) -> Result<Arc<AddressSpace>, Errno> {
        vfs::make_room(SPACE_PAGES);
        let parent = self.map.read();
        let child = AddressSpace::with_top(parent.search_top)?;
        let mut pending: Option<(u64, u64)> = None;
        child.set_limits(self.limits.get());
        {
            let mut map = child.map.write();
            for region in parent.iter().filter(|region| !region.flags.contains(Flags::DONT_FORK)) {
                let mut reserved = map.reserve(1)?;
                let mut copy = region.clone();
                copy.flags.remove(Flags::LOCKED);
                map.insert(copy, &mut reserved);
            }
            child.note_sizes(&map, 0);
        }
        for region in parent.iter().filter(|region| !region.flags.contains(Flags::DONT_FORK)) {
            child.watch_object(region);
            if !region.may_have_copies() || region.flags.contains(Flags::WIPE_ON_FORK) {
                continue;
            }
            pending = match pending {
                Some((start, end)) if end == region.start => Some((start, region.end)),
                before => {
                    self.share_pages(&child, before)?;
                    Some((region.start, region.end))
                }
            };
        }
        self.share_pages(&child, pending)?;
        drop(parent);
        child.set_layout(self.layout());
        if let Some(file) = self.executable() {
            child.set_executable(file)?;
        }
        Ok(child)
    }
    fn share_pages(&self, child: &AddressSpace, run: Option<(u64, u64)>) -> Result<(), NoMemory> {
        let pages: Option<PageRange> = run.and_then(|(start, end)| range(start, end));
        if let Some(pages) = pages {
            self.space.clone_range(&child.space, pages, CloneMode::Pages)?;
        }
        Ok(())
    }
}
