//! [`Map`]: the regions of an address space, ordered by address, never overlapping.
//!
//! Pure bookkeeping: no page is touched here. Every region holds a memory charge; operations that
//! may split take their charges first ([`Map::reserve`]), so that what follows cannot fail.
use super::region::{Flags, PAGE, Region, page_of};
use crate::setting::Setting;
use alloc::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    vec::Vec,
};
use rt::{memory::Charge, user::USER_END};
use vfs::{Errno, NOBODY, Principal};

/// The greatest number of regions of an address space (`/proc/sys/vm/max_map_count`).
pub static REGIONS_MAX: Setting = Setting::count(65530);
/// The lowest address that may be mapped, as set in `/proc/sys/vm/mmap_min_addr`.
pub static LOWEST: Setting = Setting::new(0x1_0000, 0, USER_END as i64);

/// Returns the lowest address that may be mapped: never the first page.
pub fn lowest() -> u64 {
    page_of((LOWEST.get() as u64).saturating_add(PAGE - 1)).max(PAGE)
}

/// Distance kept free below a region that grows down (Linux's `stack_guard_gap`).
pub const GUARD_GAP: u64 = 256 * PAGE;

/// Heap bytes of a region: its record and its share of a tree node.
const REGION_BYTES: usize = 160;

struct MapEntry {
    region: Region,
    _charge: Charge,
}

/// Charges taken ahead for regions about to be made.
pub struct Reserved(Vec<Charge>);

impl Reserved {
    /// Returns a charge from the reserve; callers have reserved enough, so that it is never empty.
    fn take(&mut self) -> Charge {
        self.0.pop().unwrap_or_else(Charge::none)
    }
}

/// The regions of an address space, with their sums.
pub struct Map {
    entries: BTreeMap<u64, MapEntry>,
    /// Number of pages of all regions.
    pub total_pages: u64,
    /// Number of pages that count against `RLIMIT_DATA`.
    pub data_pages: u64,
    /// Number of pages of locked regions.
    pub locked_pages: u64,
    /// Number of committed pages ([`Region::committed_pages`]).
    pub committed_pages: u64,
    /// Number of pages committed ahead of the change that is under way.
    pub promised_pages: u64,
    /// The process to which the address space belongs, once it has one.
    pub owner: Option<Weak<dyn Principal>>,
    /// Address below which new regions are placed; the search for room goes downwards from it.
    pub search_top: u64,
}

impl Map {
    /// Makes a map without regions that places new ones below `search_top`.
    pub fn new(search_top: u64) -> Map {
        Map {
            entries: BTreeMap::new(),
            total_pages: 0,
            data_pages: 0,
            locked_pages: 0,
            committed_pages: 0,
            promised_pages: 0,
            owner: None,
            search_top,
        }
    }
    /// Returns the process to which the address space belongs, unless that has ended.
    pub fn owner(&self) -> Option<Arc<dyn Principal>> {
        self.owner.as_ref().and_then(Weak::upgrade)
    }
    /// Returns the number of regions.
    pub fn count(&self) -> usize {
        self.entries.len()
    }
    /// Returns all regions, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Region> {
        self.entries.values().map(|entry| &entry.region)
    }
    /// Returns the region in which `address` lies.
    pub fn find(&self, address: u64) -> Option<&Region> {
        self.at_or_below(address).filter(|region| region.contains(address))
    }
    fn at_or_below(&self, address: u64) -> Option<&Region> {
        self.entries.range(..=address).next_back().map(|(_, entry)| &entry.region)
    }
    /// Returns the first region that ends above `address`: the one in which it lies, or the next.
    pub fn at_or_above(&self, address: u64) -> Option<&Region> {
        self.find(address)
            .or_else(|| self.entries.range(address..).next().map(|(_, entry)| &entry.region))
    }
    /// Returns the regions that start at `address` or above.
    pub fn from(&self, address: u64) -> impl Iterator<Item = &Region> {
        self.entries.range(address..).map(|(_, entry)| &entry.region)
    }
    /// Returns the last region that starts below `address`.
    pub fn below(&self, address: u64) -> Option<&Region> {
        self.entries.range(..address).next_back().map(|(_, entry)| &entry.region)
    }
    /// Regions that overlap `start .. end`, in order.
    pub fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = &Region> {
        let from = self.find(start).map_or(start, |region| region.start);
        let end = end.max(from);
        self.entries.range(from..end).map(|(_, entry)| &entry.region)
    }
    /// Returns whether the whole of `start .. end` is in regions.
    pub fn covers(&self, start: u64, end: u64) -> bool {
        self.covered_end(start, end) == end
    }
    /// Returns the start of the first hole in `start .. end`; `end` if there is none.
    pub fn covered_end(&self, start: u64, end: u64) -> u64 {
        let mut at = start;
        for region in self.overlapping(start, end) {
            if region.start > at {
                break;
            }
            at = region.end;
        }
        at.min(end)
    }
    /// Takes the charges for `count` new regions.
    ///
    /// # Errors
    /// `ENOMEM` if memory was refused or there would be too many regions.
    pub fn reserve(&self, count: usize) -> Result<Reserved, Errno> {
        if self.count() + count > REGIONS_MAX.size() + 2 {
            return Err(Errno::ENOMEM);
        }
        let mut charges = Vec::with_capacity(count);
        for _ in 0..count {
            charges.push(Charge::take(REGION_BYTES)?);
        }
        Ok(Reserved(charges))
    }
    fn account(&mut self, region: &Region, sign: i64) {
        let pages = sign * region.pages() as i64;
        let add = |sum: &mut u64, is_counted: bool| {
            if is_counted {
                *sum = sum.wrapping_add_signed(pages);
            }
        };
        add(&mut self.total_pages, true);
        add(&mut self.data_pages, region.is_data());
        add(&mut self.locked_pages, region.flags.contains(Flags::LOCKED));
        add(&mut self.committed_pages, region.is_committed());
    }
    /// Tells the segment behind a region that it was added.
    fn attached(&self, region: &Region) {
        if let Some(segment) = region.segment() {
            segment.attached(self.owner().as_deref().unwrap_or(NOBODY));
        }
    }
    /// Tells the segment behind a region that it is removed.
    fn detached(&self, region: &Region) {
        if let Some(segment) = region.segment() {
            segment.detached(self.owner().as_deref().unwrap_or(NOBODY));
        }
    }
    /// Adds `region`, which nothing overlaps, and joins it with its neighbours if they are alike.
    pub fn insert(&mut self, region: Region, reserved: &mut Reserved) {
        let (start, end) = (region.start, region.end);
        self.attached(&region);
        self.enter(region, reserved.take());
        self.join(start);
        self.join(end);
    }
    fn enter(&mut self, region: Region, charge: Charge) {
        self.account(&region, 1);
        self.entries.insert(region.start, MapEntry { region, _charge: charge });
    }
    fn leave(&mut self, start: u64) -> Option<MapEntry> {
        let entry = self.entries.remove(&start)?;
        self.account(&entry.region, -1);
        Some(entry)
    }
    /// Joins the region that ends at `boundary` with the one that starts there, if they are alike.
    fn join(&mut self, boundary: u64) {
        let Some(left) = self.below(boundary).filter(|left| left.end == boundary) else { return };
        let left_start = left.start;
        let Some(right) = self.entries.get(&boundary) else { return };
        if !left.is_followed_by(&right.region) {
            return;
        }
        let end = right.region.end;
        self.leave(boundary);
        self.set_end(left_start, end);
    }
    /// Moves the end of the region at `start`.
    fn set_end(&mut self, start: u64, end: u64) {
        if let Some(mut entry) = self.leave(start) {
            entry.region.end = end;
            self.enter(entry.region, entry._charge);
        }
    }
    /// Splits a region at `boundary`, if one lies across it.
    fn split(&mut self, boundary: u64, reserved: &mut Reserved) {
        let Some(whole) = self.find(boundary).filter(|whole| whole.start < boundary) else {
            return;
        };
        let (start, right) = (whole.start, whole.part(boundary, whole.end));
        self.set_end(start, boundary);
        self.attached(&right);
        self.enter(right, reserved.take());
    }
    /// Removes everything between `start` and `end`. The regions are returned, to be dropped after
    /// the lock. May use two charges.
    pub fn remove(&mut self, start: u64, end: u64, reserved: &mut Reserved) -> Vec<Region> {
        self.split(start, reserved);
        self.split(end, reserved);
        let starts: Vec<u64> =
            self.entries.range(start..end.max(start)).map(|(at, _)| *at).collect();
        let removed = starts.into_iter().filter_map(|at| self.leave(at));
        let removed: Vec<Region> = removed.map(|entry| entry.region).collect();
        removed.iter().for_each(|region| self.detached(region));
        removed
    }
    /// Changes every region (or part of one) between `start` and `end`. May use two charges.
    pub fn change(
        &mut self,
        start: u64,
        end: u64,
        reserved: &mut Reserved,
        mut change: impl FnMut(&mut Region),
    ) {
        self.split(start, reserved);
        self.split(end, reserved);
        let starts: Vec<u64> =
            self.entries.range(start..end.max(start)).map(|(at, _)| *at).collect();
        for at in &starts {
            if let Some(mut entry) = self.leave(*at) {
                change(&mut entry.region);
                self.enter(entry.region, entry._charge);
            }
        }
        starts.into_iter().for_each(|at| self.join(at));
        self.join(end);
    }
    /// Moves the start of the region at `start` down to `to` (the stack grows).
    pub fn extend_down(&mut self, start: u64, to: u64) {
        if let Some(mut entry) = self.leave(start) {
            entry.region.start = to;
            self.enter(entry.region, entry._charge);
        }
    }
    /// Called when the address space ends: tells segments that they are no longer attached.
    pub fn end(&self) {
        self.iter().for_each(|region| self.detached(region));
    }
    /// Moves the end of the region at `start` up to `to`; the range is free.
    pub fn extend_up(&mut self, start: u64, to: u64) {
        self.set_end(start, to);
        self.join(to);
    }
    /// Returns whether nothing lies between `start` and `end`, and no stack above needs the room.
    pub fn is_free(&self, start: u64, end: u64) -> bool {
        self.overlapping(start, end).next().is_none()
            && self.at_or_above(end).is_none_or(|above| end <= low_edge(above))
    }
    /// Finds room for `bytes` between `bottom` and `top`, as high as possible.
    pub fn find_room_below(&self, bytes: u64, bottom: u64, top: u64) -> Option<u64> {
        let mut high = match self.at_or_above(top) {
            Some(above) => top.min(low_edge(above)),
            None => top,
        };
        for (_, entry) in self.entries.range(..top).rev() {
            if high.checked_sub(entry.region.end.max(bottom)).is_some_and(|room| room >= bytes) {
                break;
            }
            high = high.min(low_edge(&entry.region));
        }
        high.checked_sub(bytes).filter(|start| *start >= bottom)
    }
    /// Finds room for `bytes` anywhere: below the search's top, else above it.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn find_room(&self, bytes: u64) -> Result<u64, Errno> {
        self.find_room_below(bytes, lowest(), self.search_top)
            .or_else(|| self.find_room_below(bytes, self.search_top, USER_END))
            .ok_or(Errno::ENOMEM)
    }
}

/// Returns the first address below `region` that must stay free of other regions.
fn low_edge(region: &Region) -> u64 {
    match region.flags.contains(Flags::GROWS_DOWN) {
        true => region.start.saturating_sub(GUARD_GAP),
        false => region.start,
    }
}
