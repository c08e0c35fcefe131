//! The index of a file's pages: chunks of 64 pages, sorted by position, with one bit for each page and
//! state.
//!
//! A page is absent, being read, up to date, or failed or refused (by its last read; it has no frame then).
//! Up-to-date pages may be dirty, and may be being written; a page stored to while it is written is both.
//! Bits that readers set (`dirty`, `used`) are atomic; all else changes under the index's write lock.
pub(super) mod writing;

use crate::{base::errno::Errno, pages::tally::Tally};
use alloc::{boxed::Box, collections::BTreeMap, sync::Arc, vec::Vec};
use core::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};
use interfaces::file_system::FsError;
use rt::memory::{Charge, Frame};

/// Pages of a chunk: as many as a word has bits.
const CHUNK_PAGES: u64 = 64;

struct Chunk {
    frames: [Option<Frame>; CHUNK_PAGES as usize],
    up_to_date: u64,
    reading: u64,
    writing: u64,
    failed: u64,
    refused: u64,
    dirty: AtomicU64,
    /// Storage has reserved room for all of the page since it was sent last.
    reserved: AtomicU64,
    used: AtomicU64,
    _charge: Charge,
}

impl Chunk {
    fn new() -> Result<Box<Chunk>, Errno> {
        let charge = Charge::take(size_of::<Chunk>())?;
        Ok(Box::new(Chunk {
            frames: [const { None }; CHUNK_PAGES as usize],
            up_to_date: 0,
            reading: 0,
            writing: 0,
            failed: 0,
            refused: 0,
            dirty: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
            used: AtomicU64::new(0),
            _charge: charge,
        }))
    }
    fn frame(&self, slot: u64) -> Option<&Frame> {
        self.frames.get(slot as usize)?.as_ref()
    }
    /// Removes the frame and clears every state.
    fn take(&mut self, slot: u64, tally: &TallyShare) -> Option<Frame> {
        let mask = !(1 << slot);
        if *self.dirty.get_mut() & !mask != 0 {
            tally.clean(1);
        }
        self.up_to_date &= mask;
        self.reading &= mask;
        self.failed &= mask;
        self.refused &= mask;
        *self.dirty.get_mut() &= mask;
        *self.reserved.get_mut() &= mask;
        *self.used.get_mut() &= mask;
        self.frames.get_mut(slot as usize)?.take()
    }
    fn is_empty(&self) -> bool {
        self.up_to_date | self.reading | self.failed | self.refused == 0
    }
}

/// The state of a page.
#[derive(Debug)]
pub(super) enum Page {
    /// The page is up to date and has this frame.
    Ready(Frame),
    /// The page is being read.
    Reading,
    /// The last attempt to read it failed.
    Failed,
    /// The last attempt to read it lacked memory.
    Refused,
    /// The page is not in memory.
    Absent,
}

/// The record that a write to a page needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touch {
    Read,
    Write,
}

/// A file's share of the tally of its file system.
struct TallyShare {
    whole: Arc<Tally>,
    /// Number of dirty pages of the file.
    dirty: AtomicU64,
    /// No page before this one is dirty.
    first_dirty: AtomicU64,
}

impl TallyShare {
    fn mark_dirty(&self, page: u64) {
        self.dirty.fetch_add(1, Ordering::Relaxed);
        if page < self.first_dirty.load(Ordering::Relaxed) {
            self.first_dirty.fetch_min(page, Ordering::Relaxed);
        }
        self.whole.mark_dirty(1);
    }
    fn clean(&self, pages: u64) {
        self.dirty.fetch_sub(pages, Ordering::Relaxed);
        self.whole.clean(pages);
    }
}

/// The pages of one file that are in memory.
pub(super) struct Index {
    chunks: BTreeMap<u64, Box<Chunk>>,
    pages: u64,
    reading: u64,
    writing: u64,
    tally: TallyShare,
}

fn split(index: u64) -> (u64, u64) {
    (index / CHUNK_PAGES, index % CHUNK_PAGES)
}

impl Index {
    /// Makes an empty index; dirty pages are counted in `tally`.
    pub(super) fn new(tally: Arc<Tally>) -> Index {
        let tally = TallyShare {
            whole: tally,
            dirty: AtomicU64::new(0),
            first_dirty: AtomicU64::new(u64::MAX),
        };
        Index { chunks: BTreeMap::new(), pages: 0, reading: 0, writing: 0, tally }
    }
    /// Returns the number of pages with a frame.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }
    fn add_pages(&mut self, pages: u64) {
        self.pages += pages;
        self.tally.whole.grow(pages);
    }
    fn remove_pages(&mut self, pages: u64) {
        self.pages -= pages;
        self.tally.whole.shrink(pages);
    }
    /// Returns the number of pages being read.
    pub(super) fn reading(&self) -> u64 {
        self.reading
    }
    /// Looks a page up; a ready one is marked used, and dirty if `touch` says so.
    pub(super) fn get(&self, index: u64, touch: Touch) -> Page {
        let (key, slot) = split(index);
        let Some(chunk) = self.chunks.get(&key) else { return Page::Absent };
        let bit = 1 << slot;
        if chunk.up_to_date & bit != 0
            && let Some(frame) = chunk.frame(slot)
        {
            set_bit(&chunk.used, bit);
            if touch == Touch::Write && set_bit(&chunk.dirty, bit) {
                self.tally.mark_dirty(index);
            }
            return Page::Ready(frame.clone());
        }
        match bit {
            _ if chunk.reading & bit != 0 => Page::Reading,
            _ if chunk.failed & bit != 0 => Page::Failed,
            _ if chunk.refused & bit != 0 => Page::Refused,
            _ => Page::Absent,
        }
    }
    /// Appends the frames of the ready pages at the start of `range` to `frames`, and marks them used.
    pub(super) fn ready(&self, range: Range<u64>, frames: &mut Vec<Frame>) {
        let mut next = range.start;
        while next < range.end {
            let (key, slot) = split(next);
            let Some(chunk) = self.chunks.get(&key) else { return };
            let wanted = (range.end - next).min(CHUNK_PAGES - slot);
            let count = wanted.min((chunk.up_to_date >> slot).trailing_ones().into());
            let places = slot as usize..(slot + count) as usize;
            let found = chunk.frames.get(places).unwrap_or_default();
            frames.extend(found.iter().map_while(Option::clone));
            let used = slots_in(&(next..next + count), key * CHUNK_PAGES);
            if chunk.used.load(Ordering::Relaxed) & used != used {
                chunk.used.fetch_or(used, Ordering::Relaxed);
            }
            if count < wanted {
                return;
            }
            next += count;
        }
    }
    /// Returns the number of pages of `range` that would have to be read.
    pub(super) fn missing(&self, range: Range<u64>) -> usize {
        let known = self
            .chunks_of(&range)
            .map(|(base, chunk)| (chunk.up_to_date | chunk.reading) & slots_in(&range, base));
        let known: u32 = known.map(u64::count_ones).sum();
        (range.end.saturating_sub(range.start)).saturating_sub(u64::from(known)) as usize
    }
    /// Returns the chunks that hold pages of `range`, each with its first page.
    fn chunks_of(&self, range: &Range<u64>) -> impl Iterator<Item = (u64, &Chunk)> {
        let (first_key, _) = split(range.start);
        let end = range.end;
        let chunks = self.chunks.range(first_key..);
        let chunks = chunks.map(|(key, chunk)| (key * CHUNK_PAGES, &**chunk));
        chunks.take_while(move |(base, _)| *base < end)
    }
    fn chunk(&mut self, key: u64) -> Result<&mut Box<Chunk>, Errno> {
        match self.chunks.entry(key) {
            alloc::collections::btree_map::Entry::Occupied(chunk) => Ok(chunk.into_mut()),
            alloc::collections::btree_map::Entry::Vacant(place) => Ok(place.insert(Chunk::new()?)),
        }
    }
    /// Puts a frame in place as up to date. Returns the frame if the page has one already or is being read.
    pub(super) fn insert_ready(
        &mut self,
        index: u64,
        frame: Frame,
        touch: Touch,
    ) -> Result<Option<Frame>, Errno> {
        let (key, slot) = split(index);
        let chunk = self.chunk(key)?;
        let bit = 1 << slot;
        if (chunk.up_to_date | chunk.reading) & bit != 0 {
            return Ok(Some(frame));
        }
        if let Some(place) = chunk.frames.get_mut(slot as usize) {
            *place = Some(frame);
        }
        chunk.up_to_date |= bit;
        chunk.failed &= !bit;
        chunk.refused &= !bit;
        *chunk.used.get_mut() |= bit;
        if touch == Touch::Write {
            *chunk.dirty.get_mut() |= bit;
            self.tally.mark_dirty(index);
        }
        self.add_pages(1);
        Ok(None)
    }
    /// Puts a frame in place of an absent page as being read; returns `false` if the page is not absent.
    pub(super) fn begin_read(&mut self, index: u64, frame: Frame) -> Result<bool, Errno> {
        let (key, slot) = split(index);
        let chunk = self.chunk(key)?;
        let bit = 1 << slot;
        if (chunk.up_to_date | chunk.reading) & bit != 0 {
            return Ok(false);
        }
        if let Some(place) = chunk.frames.get_mut(slot as usize) {
            *place = Some(frame);
        }
        chunk.failed &= !bit;
        chunk.refused &= !bit;
        chunk.reading |= bit;
        self.add_pages(1);
        self.reading += 1;
        Ok(true)
    }
    /// Records the end of the read of a page. Returns its frame if the read failed.
    pub(super) fn end_read(&mut self, index: u64, result: Result<(), FsError>) -> Option<Frame> {
        let (key, slot) = split(index);
        let bit = 1 << slot;
        let chunk = self.chunks.get_mut(&key).filter(|chunk| chunk.reading & bit != 0)?;
        self.reading -= 1;
        if result.is_ok() {
            chunk.reading &= !bit;
            chunk.up_to_date |= bit;
            *chunk.used.get_mut() |= bit;
            return None;
        }
        let frame = chunk.take(slot, &self.tally);
        match result {
            Err(FsError::NoMemory) => chunk.refused |= bit,
            _ => chunk.failed |= bit,
        }
        self.remove_pages(1);
        frame
    }
    /// Removes every page from `first` on; no transfer of them is under way.
    pub(super) fn truncate(&mut self, first: u64) -> Vec<Frame> {
        let mut gone = Vec::new();
        let (key, slot) = split(first);
        let beyond = self.chunks.split_off(&(key + u64::from(slot > 0)));
        for mut chunk in beyond.into_values() {
            gone.extend((0..CHUNK_PAGES).filter_map(|slot| chunk.take(slot, &self.tally)));
        }
        if slot > 0
            && let Some(chunk) = self.chunks.get_mut(&key)
        {
            gone.extend((slot..CHUNK_PAGES).filter_map(|slot| chunk.take(slot, &self.tally)));
        }
        self.remove_pages(gone.len() as u64);
        gone
    }
    /// Removes the pages of a range that have no other user; the others are returned to be zeroed, and
    /// become clean.
    pub(super) fn punch(&mut self, range: Range<u64>) -> (Vec<Frame>, Vec<Frame>) {
        let (mut gone, mut shared) = (Vec::new(), Vec::new());
        let (first_key, _) = split(range.start);
        for (key, chunk) in self.chunks.range_mut(first_key..) {
            let base = key * CHUNK_PAGES;
            if base >= range.end {
                break;
            }
            for slot in bits(chunk.up_to_date & slots_in(&range, base)) {
                match chunk.frame(slot) {
                    Some(frame) if frame.references() > 1 => {
                        shared.push(frame.clone());
                        if *chunk.dirty.get_mut() & (1 << slot) != 0 {
                            *chunk.dirty.get_mut() &= !(1 << slot);
                            self.tally.clean(1);
                        }
                    }
                    _ => gone.extend(chunk.take(slot, &self.tally)),
                }
            }
        }
        self.remove_pages(gone.len() as u64);
        (gone, shared)
    }
    /// Removes clean pages that have no other user and were not used since the last call.
    pub(super) fn evict(&mut self, most: usize) -> Vec<Frame> {
        let mut gone = Vec::new();
        for chunk in self.chunks.values_mut() {
            if gone.len() >= most {
                break;
            }
            let busy = chunk.writing | *chunk.dirty.get_mut() | *chunk.used.get_mut();
            let idle = chunk.up_to_date & !busy;
            *chunk.used.get_mut() = 0;
            for slot in bits(idle) {
                let is_ours = chunk.frame(slot).is_some_and(|frame| frame.references() == 1);
                if is_ours && gone.len() < most {
                    gone.extend(chunk.take(slot, &self.tally));
                }
            }
        }
        self.chunks.retain(|_, chunk| !chunk.is_empty());
        self.remove_pages(gone.len() as u64);
        gone
    }
    /// Removes the clean pages of a range that have no other user.
    pub(super) fn forget(&mut self, range: Range<u64>) -> Vec<Frame> {
        let mut gone = Vec::new();
        let (first_key, _) = split(range.start);
        for (key, chunk) in self.chunks.range_mut(first_key..) {
            let base = key * CHUNK_PAGES;
            if base >= range.end {
                break;
            }
            let clean = chunk.up_to_date & !(chunk.writing | *chunk.dirty.get_mut());
            for slot in bits(clean & slots_in(&range, base)) {
                if chunk.frame(slot).is_some_and(|frame| frame.references() == 1) {
                    gone.extend(chunk.take(slot, &self.tally));
                }
            }
        }
        self.chunks.retain(|_, chunk| !chunk.is_empty());
        self.remove_pages(gone.len() as u64);
        gone
    }
    /// Calls the visitor with the ready pages of a range.
    pub(super) fn visit(&self, range: Range<u64>, visit: &mut dyn FnMut(u64, &Frame)) {
        for (base, chunk) in self.chunks_of(&range) {
            let ready = chunk.up_to_date & slots_in(&range, base);
            if ready & !chunk.used.load(Ordering::Relaxed) != 0 {
                chunk.used.fetch_or(ready, Ordering::Relaxed);
            }
            for slot in bits(ready) {
                if let Some(frame) = chunk.frame(slot) {
                    visit(base + slot, frame);
                }
            }
        }
    }
    /// Returns the first page from `first` on that is in memory.
    pub(super) fn next_present(&self, first: u64) -> Option<u64> {
        let (first_key, slot) = split(first);
        self.chunks.range(first_key..).find_map(|(key, chunk)| {
            let mask = if *key == first_key { u64::MAX << slot } else { u64::MAX };
            bits(chunk.up_to_date & mask).next().map(|slot| key * CHUNK_PAGES + slot)
        })
    }
    /// Returns the first page from `first` on that is not in memory.
    pub(super) fn next_absent(&self, first: u64) -> u64 {
        let mut index = first;
        while matches!(self.get(index, Touch::Read), Page::Ready(_)) {
            index += 1;
        }
        index
    }
    /// Returns the dirty pages in ascending order.
    #[cfg(test)]
    pub(super) fn dirty_pages(&self) -> Vec<u64> {
        let mut pages = Vec::new();
        for (key, chunk) in &self.chunks {
            let base = key * CHUNK_PAGES;
            pages.extend(bits(chunk.dirty.load(Ordering::Relaxed)).map(|slot| base + slot));
        }
        pages
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        let dirty = self.chunks.values_mut().map(|chunk| chunk.dirty.get_mut().count_ones());
        self.tally.clean(dirty.map(u64::from).sum());
        self.tally.whole.shrink(self.pages);
    }
}

/// Sets a bit unless it is set, so that a cache line that many threads read stays shared. Returns whether
/// it was clear.
fn set_bit(word: &AtomicU64, bit: u64) -> bool {
    word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
}

/// Returns a mask of the slots of `range` in the chunk that begins with page `base`.
fn slots_in(range: &Range<u64>, base: u64) -> u64 {
    let from = |page: u64| {
        let slot = page.saturating_sub(base).min(CHUNK_PAGES);
        u64::MAX.checked_shl(slot as u32).unwrap_or(0)
    };
    from(range.start) & !from(range.end)
}

/// Returns the numbers of the bits that are set.
fn bits(word: u64) -> impl Iterator<Item = u64> {
    let next = |rest: &u64| Some(rest & (rest - 1)).filter(|rest| *rest != 0);
    core::iter::successors(Some(word).filter(|word| *word != 0), next)
        .map(|rest| u64::from(rest.trailing_zeros()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_pages_are_those_before_the_first_absent_one_and_used_then() {
        let mut index = Index::new(Tally::of_cache());
        let mut frames = Vec::new();
        for page in (60..70).filter(|page| *page != 66) {
            let frame = Frame::zeroed().unwrap();
            frames.push(frame.clone());
            assert_eq!(index.insert_ready(page, frame, Touch::Read), Ok(None));
        }
        for chunk in index.chunks.values_mut() {
            *chunk.used.get_mut() = 0;
        }
        let used = |index: &Index, page| {
            let (key, slot) = split(page);
            index.chunks.get(&key).unwrap().used.load(Ordering::Relaxed) & 1 << slot != 0
        };
        for range in [59..62, 61..61, 66..68, 300..301] {
            let mut found = Vec::new();
            index.ready(range, &mut found);
            assert_eq!(found, []);
        }
        let mut found = Vec::new();
        index.ready(61..70, &mut found);
        assert_eq!(found, frames[1..6]);
        assert!((60..70).all(|page| used(&index, page) == (61..66).contains(&page)));
        found.clear();
        index.ready(62..64, &mut found);
        assert_eq!(found, frames[2..4]);
    }

    #[test]
    fn a_chunks_slots_in_a_range_are_those_of_its_pages_there() {
        let expected = |range: &Range<u64>, base| {
            let is_in = |slot: &u64| range.contains(&(base + slot));
            (0..CHUNK_PAGES).filter(is_in).fold(0, |sum, slot| sum | 1 << slot)
        };
        let ends = [0, 1, 63, 64, 65, 100, 127, 128, 129, 192, u64::MAX];
        for (start, end) in ends.iter().flat_map(|&start| ends.map(|end| (start, end))) {
            for base in [0, 64, 128] {
                let range = start..end;
                assert_eq!(slots_in(&range, base), expected(&range, base), "{range:?} {base}");
            }
        }
    }
}
