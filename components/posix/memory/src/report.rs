//! The view of an address space in /proc.
use super::{
    fault_counts::Faults,
    region::{Backing, Flags, Label, Origin, PAGE, Region, page_of},
    space::{AddressSpace, ProgramLayout},
};
use alloc::{sync::Arc, vec::Vec};
use core::{ops::Range, sync::atomic::Ordering};
use rt::user::{Access, Mapping, PAGES_MAX, Protection};
use vfs::{Errno, OpenFile, file::Mappable};

/// Sizes of an address space, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Mapped pages.
    pub total: u64,
    /// The greatest number of mapped pages so far.
    pub peak_total: u64,
    /// Present pages.
    pub resident: u64,
    /// The greatest number of present pages so far.
    pub peak_resident: u64,
    /// Pages of page tables.
    pub tables: u64,
    /// Private writable pages, without stacks.
    pub data: u64,
    /// Pages of the stack.
    pub stack: u64,
    /// Pages of the program's code.
    pub code: u64,
    /// Executable pages of other files.
    pub libraries: u64,
    /// Locked pages.
    pub locked: u64,
}

/// Present pages that are an object's own, not copies made of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectPages {
    /// Pages of files on storage.
    pub files: u64,
    /// Pages of files in memory, and of shared memory without a name.
    pub shared_memory: u64,
}

/// The name in a line of `/proc/PID/maps`.
#[derive(Clone)]
pub enum Name {
    /// The region has no name.
    None,
    /// `[heap]`.
    Heap,
    /// `[stack]`.
    Stack,
    /// Memory of the system: `[vdso]`, `[vvar]`, `/dev/zero (deleted)`.
    System(Label),
    /// The region maps a file.
    File(Arc<OpenFile>),
    /// A segment of System V shared memory: its key and its identifier.
    Segment(i32, i32),
}

/// A line of `/proc/PID/maps`.
#[derive(Clone)]
pub struct RegionReport {
    /// First address of the region.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// The accesses that the program is allowed.
    pub protection: Protection,
    /// The maximum protection that mprotect may set.
    pub allowed: Protection,
    /// The mapping is shared.
    pub is_shared: bool,
    /// Offset of the region in the file in bytes.
    pub offset: u64,
    /// Its name.
    pub name: Name,
    /// Flags.
    pub flags: Flags,
    /// Large pages may be used.
    pub takes_large: bool,
}

/// The amount that [`PageUsage::share`] counts for a page that only one address space maps.
pub const SHARE_ONE: u64 = 1 << 12;

/// Present pages of a region, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageUsage {
    /// All present pages.
    pub pages: u64,
    /// All pages, each divided by the number of address spaces that map it, in parts of [`SHARE_ONE`].
    pub share: u64,
    /// The part of `share` that dirty pages have.
    pub dirty_share: u64,
    /// Pages that other address spaces map too and that are unchanged from their file.
    pub shared_clean: u64,
    /// Pages that other address spaces map too and that were written.
    pub shared_dirty: u64,
    /// Pages mapped only here that are unchanged from their file.
    pub private_clean: u64,
    /// Pages mapped only here that were written.
    pub private_dirty: u64,
    /// Pages accessed since they were mapped.
    pub accessed: u64,
    /// Pages that belong to no object.
    pub anonymous: u64,
    /// Pages that are part of large pages.
    pub large: u64,
}

/// A page that is present.
#[derive(Debug)]
pub struct PresentPage {
    /// Address of the page.
    pub address: u64,
    /// The page's entry in the page table.
    pub mapping: Mapping,
    /// The page belongs to its object, and is not a private copy.
    pub is_of_object: bool,
    /// Number of mappings of the page, judged by the references to its frame; at least 1.
    pub mappers: u32,
}

impl PageUsage {
    /// Returns the sums of both.
    pub fn plus(&self, other: &PageUsage) -> PageUsage {
        PageUsage {
            pages: self.pages + other.pages,
            share: self.share + other.share,
            dirty_share: self.dirty_share + other.dirty_share,
            shared_clean: self.shared_clean + other.shared_clean,
            shared_dirty: self.shared_dirty + other.shared_dirty,
            private_clean: self.private_clean + other.private_clean,
            private_dirty: self.private_dirty + other.private_dirty,
            accessed: self.accessed + other.accessed,
            anonymous: self.anonymous + other.anonymous,
            large: self.large + other.large,
        }
    }
}

impl AddressSpace {
    /// Returns the number of faults so far.
    pub fn faults(&self) -> Faults {
        self.faults.get()
    }
    /// Returns its current sizes.
    pub fn sizes(&self) -> Sizes {
        let layout = self.layout();
        let map = self.map.read();
        let resident = self.space.resident_pages() as u64;
        let sum = |is_wanted: &dyn Fn(&Region) -> bool| -> u64 {
            map.iter().filter(|region| is_wanted(region)).map(Region::pages).sum()
        };
        let executable = sum(&|region| {
            region.protection.contains(Protection::EXECUTE) && !region.is_anonymous()
        });
        let code = layout.code.1.saturating_sub(layout.code.0).div_ceil(PAGE);
        Sizes {
            total: map.total_pages,
            peak_total: self.peak_total_pages.load(Ordering::Relaxed),
            resident,
            tables: self.space.table_pages() as u64,
            peak_resident: self.peak_resident(),
            data: map.data_pages,
            stack: sum(&|region| region.flags.contains(Flags::GROWS_DOWN)),
            code,
            libraries: executable.saturating_sub(code),
            locked: map.locked_pages,
        }
    }
    /// Returns the largest resident size so far, in pages.
    pub fn peak_resident(&self) -> u64 {
        self.note_resident();
        self.peak_pages.load(Ordering::Relaxed)
    }
    /// Counts the present pages of objects by visiting them all.
    ///
    /// # Locks
    /// `memory.map`, to read.
    pub fn object_pages(&self) -> ObjectPages {
        let mut pages = ObjectPages::default();
        for region in self.map.read().iter().filter(|region| !region.is_anonymous()) {
            let count =
                if region.is_in_memory() { &mut pages.shared_memory } else { &mut pages.files };
            if !region.is_private() || !region.was_writable() {
                // No page of such a region can be a copy.
                *count += self.present_pages(region.start..region.end);
                continue;
            }
            self.each_of_region(region, region.start..region.end, &mut |page| {
                *count += u64::from(page.is_of_object);
            });
        }
        pages
    }
    /// Returns every region, in order.
    pub fn regions(&self) -> Vec<RegionReport> {
        let layout = self.layout();
        self.map.read().iter().map(|region| self.describe(region, &layout)).collect()
    }
    /// Calls `take` with the position in an object that `address` refers to, by which futexes of several
    /// processes find each other: the object and the byte offset. Passes `None` if the word is private to this
    /// address space.
    ///
    /// # Errors
    /// `EFAULT` if `access` to the word is not allowed, and for memory that is never writable and belongs to no
    /// object.
    ///
    /// # Locks
    /// `memory.map`, to read, over `take`.
    pub fn shared_place<T>(
        &self,
        address: u64,
        access: Access,
        take: impl FnOnce(&Arc<dyn Mappable>, u64) -> T,
    ) -> Result<Option<T>, Errno> {
        let map = self.map.read();
        let region = map.find(address).ok_or(Errno::EFAULT)?;
        let is_writable = region.protection.contains(Protection::WRITE);
        let is_readable = region.protection.contains(Protection::READ);
        if !is_writable && (access == Access::Write || !is_readable) {
            return Err(Errno::EFAULT);
        }
        if is_writable && region.is_private() {
            return Ok(None);
        }
        let Backing::Object { object, first, .. } = &region.backing else {
            return Err(Errno::EFAULT);
        };
        if region.is_private() && region.was_writable() && self.is_copied(region, address) {
            return Err(Errno::EFAULT);
        }
        let offset = first.wrapping_mul(PAGE).wrapping_add(address - region.start);
        Ok(Some(take(object, offset)))
    }
    /// Returns the file whose word at `address` several address spaces may wait for, unless this one may store to it.
    pub fn file_only_read(&self, address: u64) -> Option<Arc<OpenFile>> {
        let map = self.map.read();
        let region = map.find(address)?;
        let may_store = !region.is_private() && region.allowed.contains(Protection::WRITE);
        match &region.backing {
            Backing::Object { origin: Origin::File(file), .. } if !may_store => Some(file.clone()),
            _ => None,
        }
    }
    /// Returns whether the page of `region` at `address` is a private copy.
    fn is_copied(&self, region: &Region, address: u64) -> bool {
        let page = page_of(address);
        let mut is_copied = false;
        self.each_of_region(region, page..page + PAGE, &mut |found| {
            is_copied = !found.is_of_object
        });
        is_copied
    }
    /// Returns every region, in order, with the use of its present pages.
    ///
    /// # Locks
    /// `memory.map`, to read.
    pub fn usages(&self) -> Vec<(RegionReport, PageUsage)> {
        let layout = self.layout();
        let map = self.map.read();
        map.iter().map(|region| (self.describe(region, &layout), self.usage(region))).collect()
    }
    /// Passes every present page from `start` to before `end` to `take`, in order.
    ///
    /// # Locks
    /// `memory.map`, to read.
    pub fn each_present(&self, start: u64, end: u64, mut take: impl FnMut(&PresentPage)) {
        let map = self.map.read();
        for region in map.overlapping(start, end) {
            self.each_of_region(region, start.max(region.start)..end.min(region.end), &mut take);
        }
    }
    fn each_of_region(
        &self,
        region: &Region,
        range: Range<u64>,
        take: &mut impl FnMut(&PresentPage),
    ) {
        let mut at = range.start;
        while at < range.end {
            let (mut found, mut addresses, mut count) =
                ([const { None }; PAGES_MAX], [0; PAGES_MAX], 0);
            self.space.each_page(at, range.end, |address, mapping| {
                if let Some((page, place)) = found.get_mut(count).zip(addresses.get_mut(count)) {
                    (*page, *place) = (Some(mapping), address);
                    count += 1;
                }
                count < PAGES_MAX
            });
            let addresses = addresses.get(..count).unwrap_or_default();
            at = match addresses.last() {
                Some(last) if count == PAGES_MAX => last + PAGE,
                _ => range.end,
            };
            let mut own = [None; PAGES_MAX];
            region.object_frames(addresses, &mut own);
            for ((&address, mapping), own) in addresses.iter().zip(found).zip(own) {
                let Some(mapping) = mapping else { continue };
                let is_of_object = own == Some(mapping.id);
                // One reference is the object's.
                let mappers = mapping.references.saturating_sub(is_of_object.into()).max(1);
                take(&PresentPage { address, mapping, is_of_object, mappers });
            }
        }
    }
    fn present_pages(&self, range: Range<u64>) -> u64 {
        let mut count = 0;
        self.space.each_present(range.start, range.end, |_| {
            count += 1;
            true
        });
        count
    }
    fn usage(&self, region: &Region) -> PageUsage {
        let mut usage = PageUsage::default();
        self.each_of_region(region, region.start..region.end, &mut |page| {
            let &PresentPage { ref mapping, is_of_object, mappers, .. } = page;
            let is_dirty = mapping.is_dirty || !is_of_object;
            let share = SHARE_ONE / u64::from(mappers);
            usage.pages += 1;
            usage.share += share;
            usage.dirty_share += if is_dirty { share } else { 0 };
            usage.accessed += u64::from(mapping.is_accessed);
            usage.anonymous += u64::from(!is_of_object);
            usage.large += u64::from(mapping.is_large);
            let count = match (mappers > 1, is_dirty) {
                (true, true) => &mut usage.shared_dirty,
                (true, false) => &mut usage.shared_clean,
                (false, true) => &mut usage.private_dirty,
                (false, false) => &mut usage.private_clean,
            };
            *count += 1;
        });
        usage
    }
    fn describe(&self, region: &Region, layout: &ProgramLayout) -> RegionReport {
        let heap = layout.heap_start..layout.heap_end;
        let is_heap = !heap.is_empty() && region.start < heap.end && heap.start < region.end;
        let (name, offset) = match &region.backing {
            Backing::Anonymous if is_heap => (Name::Heap, 0),
            Backing::Anonymous if region.contains(layout.stack_start) => (Name::Stack, 0),
            Backing::Anonymous => (Name::None, 0),
            Backing::Object { first, origin, .. } => match origin {
                Origin::File(file) => (Name::File(file.clone()), first.wrapping_mul(PAGE)),
                Origin::System(label) => (Name::System(*label), 0),
                Origin::Segment(segment) => {
                    (Name::Segment(segment.name(), segment.id()), first.wrapping_mul(PAGE))
                }
            },
        };
        RegionReport {
            start: region.start,
            end: region.end,
            protection: region.protection,
            allowed: region.allowed,
            is_shared: !region.is_private(),
            offset,
            name,
            flags: region.flags,
            takes_large: self.takes_large(region),
        }
    }
}
