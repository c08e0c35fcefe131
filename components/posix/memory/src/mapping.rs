//! mmap and munmap.
use super::{
    anonymous::Anonymous,
    commit::{self, Commitment, Policy},
    fault::BadAccess,
    map::{Map, lowest},
    region::{Backing, Flags, Label, Origin, PAGE, Region, page_of, range, round_up},
    space::AddressSpace,
};
use alloc::{sync::Arc, vec::Vec};
use bitflags::bitflags;
use core::sync::atomic::Ordering;
use rt::user::{Access, Protection, USER_END};
use vfs::{
    Errno,
    file::{Mappable, Watcher},
};

/// End of the addresses `MAP_32BIT` asks for, and their start, as on Linux.
const LOW_AREA: (u64, u64) = (0x4000_0000, 0x8000_0000);

bitflags! {
    /// Flags of a request for a mapping.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct MapFlags: u8 {
        /// Do not count as committed.
        const NO_RESERVE = 1;
        /// Grows down on faults below it.
        const GROWS_DOWN = 2;
        /// Lock in memory.
        const LOCKED = 4;
        /// Enter the pages now.
        const POPULATE = 8;
        /// In the low 2 GiB.
        const LOW = 16;
    }
}

/// The wanted place of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Anywhere.
    Anywhere,
    /// There if it is free, else anywhere.
    Hint(u64),
    /// There; what was there goes.
    Fixed(u64),
    /// There, or `EEXIST`.
    FixedFree(u64),
}

/// The object that a mapping is of.
#[derive(Clone)]
pub enum Source {
    /// Zeroes, private.
    Anonymous,
    /// Zeroes, shared with children.
    SharedAnonymous,
    /// An object.
    Object {
        /// The object.
        object: Arc<dyn Mappable>,
        /// Its first page.
        first: u64,
        /// The file or object behind it.
        origin: Origin,
        /// The maximum protection that mprotect may set.
        allowed: Protection,
        /// Stores go to the object, not to copies.
        is_shared: bool,
    },
}

/// The arguments of mmap.
#[derive(Clone)]
pub struct MapRequest {
    /// The place wanted for the mapping.
    pub place: Place,
    /// Length in bytes; rounded up to pages.
    pub bytes: u64,
    /// The accesses that the program is allowed.
    pub protection: Protection,
    /// Flags of the request.
    pub flags: MapFlags,
    /// The object to map.
    pub source: Source,
}

impl MapRequest {
    /// Private zeroes at `place`.
    pub fn anonymous(place: Place, bytes: u64, protection: Protection) -> MapRequest {
        let flags = MapFlags::empty();
        MapRequest { place, bytes, protection, flags, source: Source::Anonymous }
    }
}

impl AddressSpace {
    /// Maps; returns the address.
    ///
    /// # Errors
    /// `EINVAL` for a length of 0 or a misaligned fixed address; `EEXIST`; `EPERM` below the lowest
    /// address, for stores to what is sealed, and where it is to be locked and nothing may be; `EAGAIN` where the limit of
    /// locked memory is passed; `ENOMEM` for no room, too many regions, a limit passed, or more than the machine has.
    pub fn map(self: &Arc<Self>, request: &MapRequest) -> Result<u64, Errno> {
        if request.bytes == 0 {
            return Err(Errno::EINVAL);
        }
        let bytes =
            round_up(request.bytes).filter(|bytes| *bytes <= USER_END).ok_or(Errno::ENOMEM)?;
        let mut region = self.region_of(request, bytes)?;
        if self.locks_future.load(Ordering::Relaxed) {
            region.flags |= Flags::LOCKED;
        }
        self.watch_object(&region);
        let (start, removed) = self.update(|map| {
            let start = choose_place(map, request, bytes)?;
            (region.start, region.end) = (start, start + bytes);
            if request.flags.contains(MapFlags::LOCKED) && self.limits.get().locked == 0 {
                return Err(Errno::EPERM);
            }
            heed_seals(&mut region)?;
            self.check_limits(map, &region)?;
            self.promise(map, &region)?;
            let removed = self.take_out(map, start, start + bytes, 1, |map, reserved| {
                map.insert(region.clone(), reserved);
            })?;
            Ok((start, removed))
        })?;
        drop(removed);
        if request.flags.contains(MapFlags::POPULATE) || region.flags.contains(Flags::LOCKED) {
            let _ = self.populate_region(&region);
        }
        Ok(start)
    }
    /// The region as asked for, not placed yet.
    fn region_of(&self, request: &MapRequest, bytes: u64) -> Result<Region, Errno> {
        let everything = Protection::all();
        let is_strict = commit::policy() == Policy::Strict;
        let may_lack = request.flags.contains(MapFlags::NO_RESERVE) && !is_strict;
        let (backing, allowed, is_shared) = match &request.source {
            Source::Anonymous => (Backing::Anonymous, everything, false),
            Source::SharedAnonymous => {
                (self.shared_anonymous(bytes / PAGE, may_lack)?, everything, true)
            }
            Source::Object { object, first, origin, allowed, is_shared } => {
                let (object, origin) = (object.clone(), origin.clone());
                (Backing::Object { object, first: *first, origin }, *allowed, *is_shared)
            }
        };
        let is_writable = request.protection.contains(Protection::WRITE);
        let mut flags = Flags::empty();
        flags.set(Flags::SHARED, is_shared);
        flags.set(Flags::NO_RESERVE, may_lack);
        flags.set(Flags::GROWS_DOWN, request.flags.contains(MapFlags::GROWS_DOWN));
        flags.set(Flags::LOCKED, request.flags.contains(MapFlags::LOCKED));
        if let Backing::Object { origin: Origin::System(Label::Vdso | Label::Vvar), .. } = &backing
        {
            flags |= Flags::SPECIAL;
        }
        flags.set(Flags::WAS_WRITABLE, is_writable && !is_shared);
        let protection = request.protection;
        Ok(Region { start: 0, end: bytes, protection, allowed, flags, backing })
    }
    /// Shared memory, of which all is promised at once unless it `may_lack` memory.
    fn shared_anonymous(&self, pages: u64, may_lack: bool) -> Result<Backing, Errno> {
        let commitment = match may_lack {
            true => Commitment::none(),
            false => Commitment::take(pages, self.claimant())?,
        };
        let origin = Origin::System(Label::SharedAnonymous);
        Ok(Backing::Object { object: Anonymous::new(pages, commitment), first: 0, origin })
    }
    /// Unmaps everything between `start` and `start + bytes`.
    ///
    /// # Errors
    /// `EINVAL` for a misaligned start, a length of 0, or a range that is no program's; `ENOMEM`
    /// where the split would make too many regions, or a page table shared since a fork must be copied.
    pub fn unmap(&self, start: u64, bytes: u64) -> Result<(), Errno> {
        let end = checked_end(start, bytes).ok_or(Errno::EINVAL)?;
        if end == start {
            return Err(Errno::EINVAL);
        }
        let removed = self.update(|map| self.take_out(map, start, end, 0, |_, _| {}))?;
        drop(removed);
        Ok(())
    }
    /// Takes regions and pages between `start` and `end` out, then lets `fill` enter up to `more`
    /// regions. Nothing is changed where charges are refused.
    pub(super) fn take_out(
        &self,
        map: &mut Map,
        start: u64,
        end: u64,
        more: usize,
        fill: impl FnOnce(&mut Map, &mut super::map::Reserved),
    ) -> Result<Vec<Region>, Errno> {
        let is_occupied = map.overlapping(start, end).next().is_some();
        let mut reserved = map.reserve(more + if is_occupied { 2 } else { 0 })?;
        let mut removed = Vec::new();
        if is_occupied {
            self.note_resident();
            if let Some(pages) = range(start, end) {
                self.space.unmap(pages)?;
            }
            removed = map.remove(start, end, &mut reserved);
        }
        fill(map, &mut reserved);
        Ok(removed)
    }
    /// The limits allow `region`, which may replace what is there.
    pub(super) fn check_limits(&self, map: &Map, region: &Region) -> Result<(), Errno> {
        let limits = self.limits.get();
        let replaced: u64 = map
            .overlapping(region.start, region.end)
            .map(|old| (old.end.min(region.end) - old.start.max(region.start)) / PAGE)
            .sum();
        let total = map.total_pages.saturating_sub(replaced) + region.pages();
        if total.saturating_mul(PAGE) > limits.address_space {
            return Err(Errno::ENOMEM);
        }
        if region.is_data() && (map.data_pages + region.pages()).saturating_mul(PAGE) > limits.data
        {
            return Err(Errno::ENOMEM);
        }
        let locked = (map.locked_pages + region.pages()).saturating_mul(PAGE);
        if region.flags.contains(Flags::LOCKED) && locked > limits.locked {
            return Err(Errno::EAGAIN);
        }
        Ok(())
    }
    /// Enters the pages of a region as far as that goes.
    ///
    /// # Errors
    /// `ENOMEM` where a page is nobody's to touch, or is not there; `EAGAIN` for want of memory.
    pub(super) fn populate_region(&self, region: &Region) -> Result<(), Errno> {
        let access = match region.protection {
            none if none.is_empty() => return Err(Errno::ENOMEM),
            all if all.contains(Protection::WRITE) && region.is_private() => Access::Write,
            all if all.contains(Protection::READ) => Access::Read,
            all if all.contains(Protection::WRITE) => Access::Write,
            _ => Access::Execute,
        };
        self.populate(region.start, region.bytes(), access).map_err(|error| match error {
            BadAccess::NO_MEMORY => Errno::EAGAIN,
            _ => Errno::ENOMEM,
        })
    }
    /// Has the region's object tell us when pages go away.
    pub(super) fn watch_object(self: &Arc<Self>, region: &Region) {
        if let Backing::Object { object, .. } = &region.backing
            && object.identity() != 0
        {
            let watcher: Arc<dyn Watcher> = self.clone();
            object.watch(Arc::downgrade(&watcher));
        }
    }
}

/// `start .. start + bytes` rounded up; `None` where it is misaligned or not a program's.
pub(super) fn checked_end(start: u64, bytes: u64) -> Option<u64> {
    let end = start.checked_add(round_up(bytes)?)?;
    (start.is_multiple_of(PAGE) && end <= USER_END).then_some(end)
}

/// A shared mapping of a file sealed against writes is never stored to.
fn heed_seals(region: &mut Region) -> Result<(), Errno> {
    if let Backing::Object { object, .. } = &region.backing
        && region.may_be_stored_to()
        && object.refuses_stores()
    {
        if region.protection.contains(Protection::WRITE) {
            return Err(Errno::EPERM);
        }
        region.allowed.remove(Protection::WRITE);
    }
    Ok(())
}

fn choose_place(map: &Map, request: &MapRequest, bytes: u64) -> Result<u64, Errno> {
    match request.place {
        Place::Fixed(start) | Place::FixedFree(start) => {
            if !start.is_multiple_of(PAGE) {
                return Err(Errno::EINVAL);
            }
            let end =
                start.checked_add(bytes).filter(|end| *end <= USER_END).ok_or(Errno::ENOMEM)?;
            if start < lowest() {
                return Err(Errno::EPERM);
            }
            let must_be_free = matches!(request.place, Place::FixedFree(_));
            if must_be_free && map.overlapping(start, end).next().is_some() {
                return Err(Errno::EEXIST);
            }
            Ok(start)
        }
        Place::Hint(hint) => {
            let start = page_of(hint).max(lowest());
            match start.checked_add(bytes) {
                Some(end) if end <= USER_END && map.is_free(start, end) => Ok(start),
                _ => find_anywhere(map, request, bytes),
            }
        }
        Place::Anywhere => find_anywhere(map, request, bytes),
    }
}

fn find_anywhere(map: &Map, request: &MapRequest, bytes: u64) -> Result<u64, Errno> {
    if request.flags.contains(MapFlags::LOW) {
        let (bottom, top) = LOW_AREA;
        return map.find_room_below(bytes, bottom, top).ok_or(Errno::ENOMEM);
    }
    map.find_room(bytes)
}
