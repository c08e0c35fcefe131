//! Copies between a file's pages and a program (or the personality), one copy each.
use super::{
    BATCH, PAGE, PageCache,
    index::{Page, Touch},
    readahead::Readahead,
};
use crate::{
    base::{
        errno::Errno,
        io::{Sink, Source},
        principal::StorageIo,
    },
    pages::memory,
};
use alloc::vec::Vec;
use core::{ops::Range, sync::atomic::Ordering};
use interfaces::file_system::Backing;
use rt::{PAGE_BYTES, memory::Frame, sync::Mutex};

/// Number of pages after which a long write checks the limits of dirty pages.
const BALANCE_PAGES: u64 = 32;
/// Number of bytes between two checks.
const LOOK_BYTES: usize = 1 << 20;
/// Bytes of a hole read at once.
const HOLE_BYTES: usize = 1 << 20;

/// The place at which a long transfer looks next whether its program is to end: nobody waits for the transfer then. It looks once
/// in so many bytes, as Linux does once in a page (`fatal_signal_pending`).
struct Look {
    next: usize,
}

impl Look {
    fn new() -> Look {
        Look { next: LOOK_BYTES }
    }
    /// Returns whether to look now, after `done` bytes.
    #[inline]
    fn is_due(&mut self, done: usize) -> bool {
        let is_due = done >= self.next;
        if is_due {
            self.next = done.saturating_add(LOOK_BYTES);
        }
        is_due
    }
}

impl PageCache {
    /// Copies from the file at `offset` to `sink` until either ends; returns the bytes copied.
    ///
    /// # Errors
    /// `EFAULT`, `EIO`, `ENOMEM` if nothing was copied before.
    #[inline]
    pub(crate) fn read(
        &self,
        offset: u64,
        sink: &mut dyn Sink,
        readahead: &Mutex<Readahead>,
    ) -> Result<usize, Errno> {
        let (mut done, mut look) = (0, Look::new());
        while sink.remaining() > 0 {
            if look.is_due(done) && sink.caller().is_ending() {
                break;
            }
            let at = offset.saturating_add(done as u64);
            let left = self.size().saturating_sub(at).min(sink.remaining() as u64);
            if left == 0 {
                break;
            }
            match self.read_some(at, left, sink, readahead) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }
    /// Copies a run of pages, or of zeroes, of at most `left` bytes.
    #[inline]
    fn read_some(
        &self,
        at: u64,
        left: u64,
        sink: &mut dyn Sink,
        readahead: &Mutex<Readahead>,
    ) -> Result<usize, Errno> {
        let wanted = at / PAGE..(at + left).div_ceil(PAGE);
        let (mut one, mut several) = (None, Vec::new());
        let count = if wanted.end - wanted.start == 1 {
            one = self.ready_page(wanted.start);
            usize::from(one.is_some())
        } else {
            self.ready(wanted.clone(), &mut several);
            several.len()
        };
        if count == 0 {
            return match self.backing {
                Backing::Cache => self.read_hole(at, left, sink),
                Backing::Storage => {
                    let frame = self.wait_for(wanted, readahead, sink.caller())?;
                    copy_out(&frame, at, left, sink)
                }
            };
        }
        if self.backing == Backing::Storage {
            let used = wanted.start..wanted.start + count as u64;
            if let Some(range) = self.plan(used, readahead) {
                let _ = self.start_reads(range, sink.caller());
            }
        }
        if let Some(frame) = one {
            return copy_out(&frame, at, left, sink);
        }
        let within = (at % PAGE) as usize;
        let present = (count * PAGE_BYTES).saturating_sub(within);
        let length = present.min(usize::try_from(left).unwrap_or(usize::MAX));
        let result = sink.keep_frames(&mut several, within, length);
        Frame::release_all(several);
        result
    }
    fn ready_page(&self, page: u64) -> Option<Frame> {
        match self.index.read().get(page, Touch::Read) {
            Page::Ready(frame) => Some(frame),
            _ => None,
        }
    }
    /// Collects the ready pages at the start of a range, as many as are copied at once.
    fn ready(&self, wanted: Range<u64>, frames: &mut Vec<Frame>) {
        frames.reserve_exact((wanted.end - wanted.start).min(BATCH as u64) as usize);
        let end = wanted.end.min(wanted.start.saturating_add(BATCH as u64));
        self.index.read().ready(wanted.start..end, frames);
    }
    fn read_hole(&self, at: u64, left: u64, sink: &mut dyn Sink) -> Result<usize, Errno> {
        let next = self.index.read().next_present(at / PAGE);
        let length = next.map_or(left, |page| left.min((page * PAGE).saturating_sub(at)));
        sink.put_zeroes(usize::try_from(length).map_or(HOLE_BYTES, |length| length.min(HOLE_BYTES)))
    }
    /// Copies from `source` into the pages from `offset` on; the size grows with it. The caller
    /// holds the vnode's `contents` lock to write.
    ///
    /// # Errors
    /// `EFAULT`, `EIO`, `ENOSPC`, `ENOMEM` if nothing was copied before.
    pub(crate) fn write(&self, offset: u64, source: &mut dyn Source) -> Result<usize, Errno> {
        let _tail = self.tail.lock();
        if offset > self.size() {
            self.zero_tail(self.size());
        }
        let (mut done, mut dirtied, mut look) = (0, 0, Look::new());
        while source.remaining() > 0 {
            if look.is_due(done) && source.caller().is_ending() {
                break;
            }
            let at = offset + done as u64;
            match self.write_page(at, source, &mut dirtied) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
            // A write that only overwrites dirty pages does not increase their number.
            if dirtied > 0
                && self.backing == Backing::Storage
                && (at / PAGE).is_multiple_of(BALANCE_PAGES)
            {
                self.throttle.balance();
            }
        }
        if dirtied > 0 {
            self.charge(source.caller(), StorageIo::Write, dirtied);
        }
        Ok(done)
    }
    /// Copies into one page, and counts it in `dirtied` if it was clean. The size is changed before the page is made
    /// dirty, so that the thread that writes the page includes the new bytes.
    fn write_page(
        &self,
        at: u64,
        source: &mut dyn Source,
        dirtied: &mut u64,
    ) -> Result<usize, Errno> {
        let (index, within) = (at / PAGE, (at % PAGE) as usize);
        let length = source.remaining().min(PAGE_BYTES - within);
        let (page, is_reserved) = self.index.read().get_for_write(index);
        let mut found = if let Page::Ready(frame) = page { Some(frame) } else { None };
        let is_new = length == PAGE_BYTES || index >= self.size().div_ceil(PAGE);
        if found.is_none() && self.backing == Backing::Storage && !is_new {
            found = Some(self.wait_for(index..index + 1, &self.faults, source.caller())?);
        }
        let Some(frame) = found else { return self.write_new_page(at, length, source, dirtied) };
        let reserved = if is_reserved { Ok(()) } else { self.reserve_stored(index) };
        let taken = reserved.and_then(|()| source.take_into_frame(&frame, within, length));
        if taken.is_err() {
            self.index.read().unreserve(index);
        }
        let count = taken?;
        *dirtied += self.note_written(at, count);
        Ok(count)
    }
    /// Records that bytes of a page were written. Returns the number of pages that became dirty.
    fn note_written(&self, at: u64, count: usize) -> u64 {
        self.size.fetch_max(at + count as u64, Ordering::AcqRel);
        u64::from(self.index.read().mark_dirty(at / PAGE))
    }
    /// Makes sure that storage has room for a page that is about to become dirty.
    pub(super) fn reserve_stored(&self, index: u64) -> Result<(), Errno> {
        if self.backing == Backing::Storage {
            self.fs.reserve_range(self.inode, index, 1)?;
            self.note_blocks();
        }
        Ok(())
    }
    /// Copies into a page of which nothing needs to be read.
    fn write_new_page(
        &self,
        at: u64,
        length: usize,
        source: &mut dyn Source,
        dirtied: &mut u64,
    ) -> Result<usize, Errno> {
        let (index, within) = (at / PAGE, (at % PAGE) as usize);
        let is_whole = length == PAGE_BYTES;
        memory::make_room(1);
        let frame = self.allocate_frame(if is_whole { Frame::unfilled } else { Frame::zeroed })?;
        self.reserve_stored(index)?;
        let count = source.take_into_frame(&frame, within, length)?;
        let must_merge = is_whole && count < PAGE_BYTES;
        if must_merge && self.backing == Backing::Storage && index * PAGE < self.size() {
            // The source had a whole page but could not supply all of it: the rest of the page is read from storage.
            let present = self.wait_for(index..index + 1, &self.faults, source.caller())?;
            return Ok(self.merge(at, count, &frame, &present, dirtied));
        }
        if must_merge {
            frame.zero(count, PAGE_BYTES - count);
        }
        self.put_written(at, count, &frame, dirtied)
    }
    /// Puts a written page in place, or its bytes into the page that another thread has put there meanwhile.
    fn put_written(
        &self,
        at: u64,
        count: usize,
        frame: &Frame,
        dirtied: &mut u64,
    ) -> Result<usize, Errno> {
        let index = at / PAGE;
        loop {
            let ticket = self.arrived.ticket();
            self.put_new(index, frame.clone(), Touch::Read)?;
            let found = self.index.read().get(index, Touch::Read);
            match found {
                Page::Ready(present) if present.id() == frame.id() => {
                    *dirtied += self.note_written(at, count);
                    return Ok(count);
                }
                Page::Ready(present) => return Ok(self.merge(at, count, frame, &present, dirtied)),
                Page::Reading => {
                    let _ = self.arrived.wait(ticket, None);
                }
                Page::Failed | Page::Refused | Page::Absent => {}
            }
        }
    }
    /// Copies `count` bytes at `at` of the file from `frame` to the page that is in place.
    fn merge(
        &self,
        at: u64,
        count: usize,
        frame: &Frame,
        present: &Frame,
        dirtied: &mut u64,
    ) -> usize {
        let within = (at % PAGE) as usize;
        let mut bytes = alloc::vec![0; count];
        frame.read(within, &mut bytes);
        present.write(within, &bytes);
        *dirtied += self.note_written(at, count);
        count
    }
}

/// Copies at most `left` bytes of a page, from byte `at` of the file on.
fn copy_out(frame: &Frame, at: u64, left: u64, sink: &mut dyn Sink) -> Result<usize, Errno> {
    let within = (at % PAGE) as usize;
    let length = (PAGE_BYTES - within).min(usize::try_from(left).unwrap_or(usize::MAX));
    sink.put_frame(frame, within, length)
}
