//! fork: the map is copied, pages are shared by range, copy-on-write (B5, K5).
//!
//! A page table that maps only anonymous memory that the child inherits may be shared whole. A table with pages of objects
//! is not shared: its pages are taken out when a file is truncated or written back, which cannot wait for memory.
use super::{
    map::Map,
    region::{Flags, Region, range},
    space::AddressSpace,
};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use rt::{
    NoMemory,
    user::{CloneMode, USER_END},
};
use vfs::Errno;

/// Number of pages that a new address space will soon need: tables, stack, first copies.
const SPACE_PAGES: usize = 64;
/// The bytes that one page table maps.
const TABLE_BYTES: u64 = 2 << 20;

/// Consecutive regions of one kind, with the free addresses around them as far as their page tables reach.
#[derive(Clone, Copy)]
struct Run {
    start: u64,
    end: u64,
    mode: CloneMode,
}

impl AddressSpace {
    /// Makes a copy of this address space for a child. Only ranges with private pages are visited; pages of objects are
    /// made present again by faults.
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
        let child = AddressSpace::with_top(self.host, parent.search_top)?;
        child.set_limits(self.limits.get());
        {
            let mut map = child.map.write();
            // Until the child exists its memory is promised to the parent.
            map.owner = parent.owner.clone();
            let copied = copy_regions(&parent, &child, &mut map);
            child.note_sizes(&mut map, 0);
            copied?;
        }
        parent.iter().filter(is_inherited).for_each(|region| child.watch_object(region));
        self.share_pages(&parent, &child)?;
        drop(parent);
        child.set_layout(self.layout());
        child.set_large_pages(self.has_large_pages());
        child.set_dumpable(self.dumpable());
        child.barriers().store(self.barriers().load(Ordering::Relaxed), Ordering::Relaxed);
        if let Some(file) = self.executable() {
            child.set_executable(file)?;
        }
        Ok(child)
    }

    /// Shares the private pages of this address space with `child`.
    fn share_pages(&self, map: &Map, child: &AddressSpace) -> Result<(), NoMemory> {
        let mut pending: Option<Run> = None;
        let mut free_from = 0;
        let mut regions = map.iter().peekable();
        while let Some(region) = regions.next() {
            let free_until = regions.peek().map_or(USER_END, |next| next.start);
            let start = (region.start & !(TABLE_BYTES - 1)).max(free_from);
            let end = region.end.next_multiple_of(TABLE_BYTES).min(free_until);
            free_from = region.end;
            let is_left_out = region.flags.contains(Flags::WIPE_ON_FORK) || !is_inherited(&region);
            if is_left_out || !region.may_have_copies() {
                continue;
            }
            let mode = if region.is_anonymous() { CloneMode::Tables } else { CloneMode::Pages };
            pending = match pending {
                Some(run) if run.mode == mode && run.end >= start => Some(Run { end, ..run }),
                before => {
                    self.share_run(child, before)?;
                    Some(Run { start, end, mode })
                }
            };
        }
        self.share_run(child, pending)
    }

    fn share_run(&self, child: &AddressSpace, run: Option<Run>) -> Result<(), NoMemory> {
        if let Some(Run { start, end, mode }) = run
            && let Some(pages) = range(start, end)
        {
            self.space.clone_range(&child.space, pages, mode)?;
        }
        Ok(())
    }
}

/// Adds the regions that the child inherits to its map.
fn copy_regions(parent: &Map, child: &AddressSpace, map: &mut Map) -> Result<(), Errno> {
    for region in parent.iter().filter(is_inherited) {
        let mut reserved = map.reserve(1)?;
        child.promise(map, region)?;
        let mut copy = region.clone();
        copy.flags.remove(Flags::LOCKED);
        map.insert(copy, &mut reserved);
    }
    Ok(())
}

fn is_inherited(region: &&Region) -> bool {
    !region.flags.contains(Flags::DONT_FORK)
}
