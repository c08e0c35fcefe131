//! The states of pages that are written to storage: dirty, being written, clean.
use super::{CHUNK_PAGES, Index, Page, Touch, bits, set_bit, slots_in, split};
use alloc::vec::Vec;
use core::ops::Range;
use rt::memory::Frame;

/// Outcome of the write of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// The page is on storage, or never will be: it counts as clean.
    Settled,
    /// The page is still dirty and will be written again.
    Again,
}

/// Adjacent dirty pages that are being written now.
pub(crate) struct Picked {
    pub first: u64,
    pub frames: Vec<Frame>,
}

impl Index {
    /// Returns the number of pages being written.
    pub(crate) fn writing(&self) -> u64 {
        self.writing
    }
    /// Returns the number of dirty pages.
    pub(crate) fn dirty(&self) -> u64 {
        self.tally.dirty.load(core::sync::atomic::Ordering::Relaxed)
    }
    /// Records a write to the page `index`, if it is ready. Returns whether it was clean.
    pub(crate) fn mark_dirty(&self, index: u64) -> bool {
        let (key, slot) = split(index);
        let bit = 1 << slot;
        let chunk = self.chunks.get(&key).filter(|chunk| chunk.up_to_date & bit != 0);
        chunk.is_some_and(|chunk| {
            set_bit(&chunk.used, bit);
            let was_clean = set_bit(&chunk.dirty, bit);
            if was_clean {
                self.tally.mark_dirty(index);
            }
            was_clean
        })
    }
    /// Does the same as [`Index::get`] for a page that is to be written to. Also returns whether storage had reserved room for
    /// it before; from now on it counts as reserved.
    pub(crate) fn get_for_write(&self, index: u64) -> (Page, bool) {
        let page = self.get(index, Touch::Read);
        let (key, slot) = split(index);
        let chunk = self.chunks.get(&key).filter(|_| matches!(page, Page::Ready(_)));
        let is_reserved = chunk.is_some_and(|chunk| !set_bit(&chunk.reserved, 1 << slot));
        (page, is_reserved)
    }
    /// Records that storage has no room reserved for the page.
    pub(crate) fn unreserve(&self, index: u64) {
        let (key, slot) = split(index);
        if let Some(chunk) = self.chunks.get(&key) {
            chunk.reserved.fetch_and(!(1 << slot), core::sync::atomic::Ordering::Relaxed);
        }
    }
    /// Called when storage may have released the reserved room of any page.
    pub(crate) fn unreserve_all(&mut self) {
        self.chunks.values_mut().for_each(|chunk| *chunk.reserved.get_mut() = 0);
    }
    /// Returns the number of dirty pages from `first` on.
    pub(crate) fn dirty_from(&self, first: u64) -> u64 {
        let (first_key, slot) = split(first);
        let dirty = self.chunks.range(first_key..).map(|(&key, chunk)| {
            let below = if key == first_key { (1 << slot) - 1 } else { 0 };
            let dirty = chunk.dirty.load(core::sync::atomic::Ordering::Relaxed);
            u64::from((dirty & !below).count_ones())
        });
        dirty.sum()
    }
    /// Takes the first run of dirty pages of a range, at most `most`, for writing; they become clean. Pages that are being
    /// written already are skipped, and `passed` is set.
    pub(crate) fn begin_write(
        &mut self,
        range: Range<u64>,
        most: usize,
        passed: &mut bool,
    ) -> Option<Picked> {
        if self.dirty() == 0 {
            return None;
        }
        let mut picked: Option<Picked> = None;
        let first_dirty = *self.tally.first_dirty.get_mut();
        let (first_key, _) = split(range.start.max(first_dirty));
        for (key, chunk) in self.chunks.range_mut(first_key..) {
            let base = key * CHUNK_PAGES;
            let next = picked.as_ref().map(|run| run.first + run.frames.len() as u64);
            if base >= range.end || next.is_some_and(|next| next < base) {
                break;
            }
            let dirty = *chunk.dirty.get_mut() & chunk.up_to_date;
            for slot in bits(dirty & slots_in(&range, base)) {
                let index = base + slot;
                if chunk.writing & (1 << slot) != 0 {
                    *passed = true;
                    continue;
                }
                let run = picked.get_or_insert_with(|| Picked { first: index, frames: Vec::new() });
                let is_next = run.first + run.frames.len() as u64 == index;
                let Some(frame) = chunk.frame(slot).filter(|_| is_next && run.frames.len() < most)
                else {
                    return picked;
                };
                run.frames.push(frame.clone());
                chunk.writing |= 1 << slot;
                *chunk.dirty.get_mut() &= !(1 << slot);
                *chunk.reserved.get_mut() &= !(1 << slot);
                self.writing += 1;
                self.tally.clean(1);
                self.tally.whole.begin_write(1);
            }
        }
        if self.dirty() == 0 {
            *self.tally.first_dirty.get_mut() = u64::MAX;
        }
        picked
    }
    /// Records the end of the write of a page.
    pub(crate) fn end_write(&mut self, index: u64, outcome: Written) {
        let (key, slot) = split(index);
        let bit = 1 << slot;
        let Some(chunk) = self.chunks.get_mut(&key).filter(|chunk| chunk.writing & bit != 0) else {
            return;
        };
        chunk.writing &= !bit;
        self.writing -= 1;
        self.tally.whole.end_write(1);
        if outcome == Written::Again {
            self.mark_dirty(index);
        }
    }
    /// Returns whether a page of the range is being written.
    pub(crate) fn is_writing(&self, range: Range<u64>) -> bool {
        self.writing > 0 && self.any(range, |chunk| chunk.writing)
    }
    /// Returns whether a page of the range is dirty.
    pub(crate) fn is_dirty(&self, range: Range<u64>) -> bool {
        self.dirty() > 0
            && self.any(range, |chunk| chunk.dirty.load(core::sync::atomic::Ordering::Relaxed))
    }
    /// Returns whether a page of the range is being read.
    pub(crate) fn is_reading(&self, range: Range<u64>) -> bool {
        self.reading > 0 && self.any(range, |chunk| chunk.reading)
    }
    fn any(&self, range: Range<u64>, state: impl Fn(&super::Chunk) -> u64) -> bool {
        self.chunks_of(&range).any(|(base, chunk)| state(chunk) & slots_in(&range, base) != 0)
    }
}
