//! The calls mmap and munmap.
use super::{
    anonymous::Anonymous,
    commit::{self, Commitment, Policy},
    fault::FaultError,
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

/// Start and end of the addresses for `MAP_32BIT`, as on Linux.
const LOW_AREA: (u64, u64) = (0x4000_0000, 0x8000_0000);

bitflags! {
    /// Flags of a request for a mapping.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct MapFlags: u8 {
        /// The pages do not count as committed.
        const NO_RESERVE = 1;
        /// Grows down on faults below it.
        const GROWS_DOWN = 2;
        /// The pages are locked in memory.
        const LOCKED = 4;
        /// The pages are made present at once.
        const POPULATE = 8;
        /// The address must be in the low 2 GiB.
        const LOW = 16;
    }
}

/// The wanted place of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingPlace {
    /// At any address.
    Anywhere,
    /// At this address if it is free, else at any.
    Hint(u64),
    /// At this address; present mappings there are replaced.
    Fixed(u64),
    /// At this address; `EEXIST` if it is not free.
    FixedFree(u64),
}

/// The source of the pages of a mapping.
#[derive(Clone)]
pub enum MappingSource {
    /// Private zeroes.
    Anonymous,
    /// Zeroes, shared with children.
    SharedAnonymous,
    /// The pages of an object.
    Object {
        /// The object to map.
        object: Arc<dyn Mappable>,
        /// First page of the object.
        first: u64,
        /// The file or other source behind it.
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
    pub place: MappingPlace,
    /// Length in bytes; rounded up to pages.
    pub bytes: u64,
    /// The accesses that the program is allowed.
    pub protection: Protection,
    /// Flags of the request.
    pub flags: MapFlags,
    /// The object to map.
    pub source: MappingSource,
}

impl MapRequest {
    /// Makes a request for private zeroes at `place`.
    pub fn anonymous(place: MappingPlace, bytes: u64, protection: Protection) -> MapRequest {
        let flags = MapFlags::empty();
        MapRequest { place, bytes, protection, flags, source: MappingSource::Anonymous }
    }
}

impl AddressSpace {
    /// Maps memory. Returns the address.
    ///
    /// # Errors
    /// `EINVAL` for a length of 0 or a misaligned fixed address; `EEXIST`; `EPERM` below the lowest address, for stores to
    /// a sealed file, and for locking if no memory may be locked; `EAGAIN` if the limit of locked memory is exceeded;
    /// `ENOMEM` if there is no room, for too many regions, if a limit is exceeded, or for more memory than the machine
    /// has.
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
    /// Returns the requested region, without its place.
    fn region_of(&self, request: &MapRequest, bytes: u64) -> Result<Region, Errno> {
        let everything = Protection::all();
        let is_strict = commit::policy() == Policy::Strict;
        let may_lack = request.flags.contains(MapFlags::NO_RESERVE) && !is_strict;
        let (backing, allowed, is_shared) = match &request.source {
            MappingSource::Anonymous => (Backing::Anonymous, everything, false),
            MappingSource::SharedAnonymous => {
                let commitment = match may_lack {
                    true => Commitment::none(),
                    false => Commitment::take(bytes / PAGE, self.claimant())?,
                };
                (shared_anonymous(bytes / PAGE, commitment), everything, true)
            }
            MappingSource::Object { object, first, origin, allowed, is_shared } => {
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
    /// Unmaps everything between `start` and `start + bytes`.
    ///
    /// # Errors
    /// `EINVAL` for a misaligned start, a length of 0, or a range outside the addresses of programs; `ENOMEM` if the split
    /// would make too many regions, or a page table shared since a fork must be copied.
    pub fn unmap(&self, start: u64, bytes: u64) -> Result<(), Errno> {
        let end = checked_end(start, bytes).ok_or(Errno::EINVAL)?;
        if end == start {
            return Err(Errno::EINVAL);
        }
        let removed = self.update(|map| self.take_out(map, start, end, 0, |_, _| {}))?;
        drop(removed);
        Ok(())
    }
    /// Removes regions and pages between `start` and `end`, then calls `fill` to add up to `more` regions. Nothing is
    /// changed if charges are refused.
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
    /// Checks that the limits allow `region`, which may replace present mappings.
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
    /// Makes the pages of a region present until one fails.
    ///
    /// # Errors
    /// `ENOMEM` if a page cannot be accessed, or does not exist; `EAGAIN` if memory is short.
    pub(super) fn populate_region(&self, region: &Region) -> Result<(), Errno> {
        let access = match region.protection {
            none if none.is_empty() => return Err(Errno::ENOMEM),
            all if all.contains(Protection::WRITE) && region.is_private() => Access::Write,
            all if all.contains(Protection::READ) => Access::Read,
            all if all.contains(Protection::WRITE) => Access::Write,
            _ => Access::Execute,
        };
        self.populate(region.start, region.bytes(), access).map_err(|error| match error {
            FaultError::NoMemory => Errno::EAGAIN,
            _ => Errno::ENOMEM,
        })
    }
    /// Registers with the region's object to be told of removed pages.
    pub(super) fn watch_object(self: &Arc<Self>, region: &Region) {
        if let Backing::Object { object, .. } = &region.backing
            && object.identity() != 0
        {
            let watcher: Arc<dyn Watcher> = self.clone();
            object.watch(Arc::downgrade(&watcher));
        }
    }
}

/// Returns `start .. start + bytes` rounded up; `None` if it is misaligned or outside the addresses of programs.
pub(super) fn checked_end(start: u64, bytes: u64) -> Option<u64> {
    let end = start.checked_add(round_up(bytes)?)?;
    (start.is_multiple_of(PAGE) && end <= USER_END).then_some(end)
}

/// Removes the write permission of a shared mapping of a file that is sealed against writes.
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

/// Makes shared memory to which `commitment` is given.
fn shared_anonymous(pages: u64, commitment: Commitment) -> Backing {
    let origin = Origin::System(Label::SharedAnonymous);
    Backing::Object { object: Anonymous::new(pages, commitment), first: 0, origin }
}

fn choose_place(map: &Map, request: &MapRequest, bytes: u64) -> Result<u64, Errno> {
    match request.place {
        MappingPlace::Fixed(start) | MappingPlace::FixedFree(start) => {
            if !start.is_multiple_of(PAGE) {
                return Err(Errno::EINVAL);
            }
            let end =
                start.checked_add(bytes).filter(|end| *end <= USER_END).ok_or(Errno::ENOMEM)?;
            if start < lowest() {
                return Err(Errno::EPERM);
            }
            let must_be_free = matches!(request.place, MappingPlace::FixedFree(_));
            if must_be_free && map.overlapping(start, end).next().is_some() {
                return Err(Errno::EEXIST);
            }
            Ok(start)
        }
        MappingPlace::Hint(hint) => {
            let start = page_of(hint).max(lowest());
            match start.checked_add(bytes) {
                Some(end) if end <= USER_END && map.is_free(start, end) => Ok(start),
                _ => find_anywhere(map, request, bytes),
            }
        }
        MappingPlace::Anywhere => find_anywhere(map, request, bytes),
    }
}

fn find_anywhere(map: &Map, request: &MapRequest, bytes: u64) -> Result<u64, Errno> {
    if request.flags.contains(MapFlags::LOW) {
        let (bottom, top) = LOW_AREA;
        return map.find_room_below(bytes, bottom, top).ok_or(Errno::ENOMEM);
    }
    map.find_room(bytes)
}
