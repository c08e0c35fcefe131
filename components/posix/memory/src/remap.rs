//! mremap: growing, shrinking and moving a region.
use super::{
    map::{Map, lowest},
    mapping::checked_end,
    region::{Backing, Flags, PAGE, Region, range, round_up},
    space::AddressSpace,
};
use alloc::{sync::Arc, vec::Vec};
use bitflags::bitflags;
use rt::user::{PageRange, USER_END};
use vfs::Errno;

bitflags! {
    /// `MREMAP_` flags.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RemapFlags: u32 {
        /// The region may be moved.
        const MAY_MOVE = 1;
        /// The region is moved to the given address; present mappings there are replaced.
        const FIXED = 2;
        /// The old addresses stay mapped, empty.
        const DONT_UNMAP = 4;
    }
}

/// The checked arguments of mremap.
struct Remap {
    old: u64,
    old_bytes: u64,
    new_bytes: u64,
    flags: RemapFlags,
    target: Option<u64>,
}

impl Remap {
    /// Returns the number of bytes that the old region and the new one share.
    fn kept_bytes(&self) -> u64 {
        self.old_bytes.min(self.new_bytes)
    }
    /// Returns whether the region is moved to another place, whatever its size.
    fn moves(&self) -> bool {
        self.target.is_some() || self.flags.contains(RemapFlags::DONT_UNMAP)
    }
}

impl AddressSpace {
    /// Changes the length of the `old_bytes` at `old` to `new_bytes`, and moves them if `flags` say
    /// so. Returns the address.
    ///
    /// # Errors
    /// `EINVAL` for invalid arguments; `EFAULT` if `old` is not one region; `ENOMEM` if there is no
    /// room or a limit is exceeded; `EAGAIN` for the limit of locked memory.
    pub fn remap(
        self: &Arc<Self>,
        old: u64,
        old_bytes: u64,
        new_bytes: u64,
        flags: RemapFlags,
        target: u64,
    ) -> Result<u64, Errno> {
        check_shape(old, (old_bytes, new_bytes), flags)?;
        let is_private = self.map.read().find(old).ok_or(Errno::EFAULT)?.is_private();
        if old_bytes == 0 && is_private {
            return Err(Errno::EINVAL);
        }
        let remap = decode_remap(old, old_bytes, new_bytes, flags, target)?;
        let mut removed = Vec::new();
        let (address, grown) = self.update(|map| self.apply_remap(map, &remap, &mut removed))?;
        drop(removed);
        if let Some(grown) = grown.filter(|grown| grown.flags.contains(Flags::LOCKED)) {
            let _ = self.populate_region(&grown);
        }
        Ok(address)
    }

    /// Does the remap. Returns the address, and the part that is new.
    fn apply_remap(
        &self,
        map: &mut Map,
        remap: &Remap,
        removed: &mut Vec<Region>,
    ) -> Result<(u64, Option<Region>), Errno> {
        let region = map.find(remap.old).ok_or(Errno::EFAULT)?.clone();
        check_region(&region, remap)?;
        let may_stay = !remap.moves();
        let old_end = remap.old + remap.old_bytes;
        let new_end = remap.old + remap.new_bytes;
        if new_end < old_end {
            removed.extend(self.take_out(map, new_end, old_end, 0, |_, _| {})?);
        }
        if may_stay && new_end <= old_end && remap.old_bytes > 0 {
            return Ok((remap.old, None));
        }
        let remap = &Remap { old_bytes: remap.kept_bytes(), ..*remap };
        if remap.new_bytes > remap.old_bytes {
            self.check_growth(map, &region, remap)?;
        }
        let can_extend = may_stay
            && remap.old_bytes > 0
            && region.end == old_end
            && new_end <= USER_END
            && map.is_free(old_end, new_end);
        if can_extend {
            let grown = region.part(region.start, region.end);
            map.extend_up(region.start, new_end);
            let grown = Region { end: new_end, ..grown }.part(old_end, new_end);
            return Ok((remap.old, Some(grown)));
        }
        if !remap.flags.contains(RemapFlags::MAY_MOVE) {
            return Err(Errno::ENOMEM);
        }
        self.move_region(map, &region, remap, removed)
    }

    fn check_growth(&self, map: &mut Map, region: &Region, remap: &Remap) -> Result<(), Errno> {
        let grown = Region { start: 0, end: remap.new_bytes - remap.old_bytes, ..region.clone() };
        self.promise(map, &grown)?;
        let mut nowhere = Map::new(0);
        (nowhere.total_pages, nowhere.data_pages) = (map.total_pages, map.data_pages);
        nowhere.locked_pages = map.locked_pages;
        self.check_limits(&nowhere, &grown)
    }

    fn move_region(
        &self,
        map: &mut Map,
        region: &Region,
        remap: &Remap,
        removed: &mut Vec<Region>,
    ) -> Result<(u64, Option<Region>), Errno> {
        let target = match remap.target {
            Some(target) if remap.flags.contains(RemapFlags::FIXED) => target,
            Some(hint) if map.is_free(hint, hint + remap.new_bytes) => hint,
            _ => map.find_room(remap.new_bytes)?,
        };
        if remap.flags.contains(RemapFlags::DONT_UNMAP) {
            self.promise(map, &region.part(remap.old, remap.old + remap.old_bytes))?;
        }
        let mut reserved = map.reserve(6)?;
        self.note_resident();
        let target_end = target + remap.new_bytes;
        if let Some(pages) = range(target, target_end) {
            self.space.unmap(pages)?;
        }
        removed.extend(map.remove(target, target_end, &mut reserved));
        if let Some(pages) = range(remap.old, remap.old + remap.kept_bytes()) {
            self.move_pages(pages, target)?;
        }
        let from = region.part(remap.old, (remap.old + remap.old_bytes).max(remap.old + PAGE));
        let moved = Region { start: target, end: target_end, ..from };
        map.insert(moved.clone(), &mut reserved);
        self.leave_old(map, remap, &mut reserved, removed);
        let grown = (remap.new_bytes > remap.old_bytes)
            .then(|| moved.part(target + remap.old_bytes, target_end));
        Ok((target, grown))
    }

    /// Moves all pages or none.
    fn move_pages(&self, pages: PageRange, target: u64) -> Result<(), Errno> {
        if self.space.move_range(pages, target).is_ok() {
            return Ok(());
        }
        // The tables of the old place still exist, so moving the pages back needs no memory.
        if let Some(moved) = PageRange::new(target, pages.pages()) {
            let _ = self.space.move_range(moved, pages.start());
        }
        Err(Errno::Refused)
    }

    /// Handles the old addresses after a move.
    fn leave_old(
        &self,
        map: &mut Map,
        remap: &Remap,
        reserved: &mut super::map::Reserved,
        removed: &mut Vec<Region>,
    ) {
        let old_end = remap.old + remap.old_bytes;
        if remap.old_bytes == 0 {
            return;
        }
        if remap.flags.contains(RemapFlags::DONT_UNMAP) {
            map.change(remap.old, old_end, reserved, |region| region.flags.remove(Flags::LOCKED));
            return;
        }
        // The pages of the old region have been moved already.
        removed.extend(map.remove(remap.old, old_end, reserved));
    }
}

/// Makes the checks that do not depend on mappings.
fn check_shape(
    old: u64,
    (old_bytes, new_bytes): (u64, u64),
    flags: RemapFlags,
) -> Result<(), Errno> {
    let moves = flags.intersects(RemapFlags::FIXED | RemapFlags::DONT_UNMAP);
    let is_shaped = old.is_multiple_of(PAGE)
        && round_up(new_bytes).is_some_and(|bytes| bytes > 0)
        && (!moves || flags.contains(RemapFlags::MAY_MOVE))
        && (!flags.contains(RemapFlags::DONT_UNMAP) || old_bytes == new_bytes);
    if is_shaped { Ok(()) } else { Err(Errno::EINVAL) }
}

fn decode_remap(
    old: u64,
    old_bytes: u64,
    new_bytes: u64,
    flags: RemapFlags,
    target: u64,
) -> Result<Remap, Errno> {
    let old_bytes = round_up(old_bytes).ok_or(Errno::EINVAL)?;
    let new_bytes = round_up(new_bytes).ok_or(Errno::EINVAL)?;
    if checked_end(old, old_bytes).is_none() {
        return Err(Errno::EINVAL);
    }
    let moves = flags.intersects(RemapFlags::FIXED | RemapFlags::DONT_UNMAP);
    if new_bytes > USER_END {
        return Err(if moves { Errno::EINVAL } else { Errno::ENOMEM });
    }
    let mut remap = Remap { old, old_bytes, new_bytes, flags, target: None };
    if moves {
        let end = checked_end(target, new_bytes).ok_or(Errno::EINVAL)?;
        if target < old + old_bytes && old < end && flags.contains(RemapFlags::FIXED) {
            return Err(Errno::EINVAL);
        }
        let is_fixed = flags.contains(RemapFlags::FIXED);
        if is_fixed && target < lowest() {
            return Err(Errno::EPERM);
        }
        remap.target = (is_fixed || target >= lowest()).then_some(target);
    }
    Ok(remap)
}

fn check_region(region: &Region, remap: &Remap) -> Result<(), Errno> {
    if remap.old_bytes == 0 && region.is_private() {
        return Err(Errno::EINVAL);
    }
    if remap.flags.contains(RemapFlags::DONT_UNMAP) && region.flags.contains(Flags::SPECIAL) {
        return Err(Errno::EINVAL);
    }
    // The part that is cut off may consist of several regions; so may the rest, if it stays in
    // place.
    let only_shrinks = !remap.moves() && remap.new_bytes <= remap.old_bytes;
    if !only_shrinks && remap.old + remap.kept_bytes() > region.end {
        return Err(Errno::EFAULT);
    }
    if remap.new_bytes > remap.old_bytes && region.flags.contains(Flags::SPECIAL) {
        return Err(Errno::EFAULT);
    }
    if let Backing::Object { first, .. } = &region.backing {
        let index = first + (remap.old - region.start) / PAGE;
        index.checked_add(remap.new_bytes / PAGE).ok_or(Errno::EINVAL)?;
    }
    Ok(())
}
