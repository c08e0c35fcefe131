//! Copies between a file's pages and a program (or the personality), one copy each.
use super::{
    BATCH, Hit, PAGE, PageCache, Readahead,
    index::{Page, Touch},
};
use crate::{
    errno::Errno,
    io::{Sink, Source},
    shrink,
};
use core::{ops::Range, sync::atomic::Ordering};
use interfaces::file_system::Backing;
use rt::{PAGE_BYTES, memory::Frame, sync::Mutex};

impl PageCache {
    /// Copies from the file at `offset` to `sink` until either ends; returns the bytes copied.
    ///
    /// # Errors
    /// `EFAULT`, `EIO`, `ENOMEM` where nothing was copied before.
    pub(crate) fn read(
        &self,
        offset: u64,
        sink: &mut dyn Sink,
        readahead: &Mutex<Readahead>,
    ) -> Result<usize, Errno> {
        let mut done = 0;
        while sink.remaining() > 0 {
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
    fn read_some(
        &self,
        at: u64,
        left: u64,
        sink: &mut dyn Sink,
        readahead: &Mutex<Readahead>,
    ) -> Result<usize, Errno> {
        let wanted = at / PAGE..(at + left).div_ceil(PAGE);
        let mut frames: [Option<Frame>; BATCH] = [const { None }; BATCH];
        let count = self.ready(wanted.clone(), &mut frames);
        if count == 0 {
            return match self.backing {
                Backing::Cache => self.read_hole(at, left, sink),
                Backing::Storage => {
                    let frame = self.wait_for(wanted, readahead)?;
                    copy_out(&frame, at, left, sink)
                }
            };
        }
        if self.backing == Backing::Storage {
            self.read_ahead(wanted.start..wanted.start + count as u64, readahead, Hit::Yes);
        }
        let mut done = 0;
        for frame in frames.iter().flatten() {
            let rest = left - done as u64;
            let length = rest.min(PAGE - (at + done as u64) % PAGE);
            let copied = match copy_out(frame, at + done as u64, rest, sink) {
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
                Ok(copied) => copied,
            };
            done += copied;
            if (copied as u64) < length {
                break;
            }
        }
        Ok(done)
    }
    /// Collects the ready pages at the start of a range.
    fn ready(&self, wanted: Range<u64>, frames: &mut [Option<Frame>; BATCH]) -> usize {
        let index = self.index.read();
        let mut count = 0;
        for (page, place) in wanted.zip(frames.iter_mut()) {
            let Page::Ready(frame) = index.get(page, Touch::Read) else { break };
            *place = Some(frame);
            count += 1;
        }
        count
    }
    fn read_hole(&self, at: u64, left: u64, sink: &mut dyn Sink) -> Result<usize, Errno> {
        let next = self.index.read().next_present(at / PAGE);
        let length = next.map_or(left, |page| left.min((page * PAGE).saturating_sub(at)));
        sink.put_zeroes(usize::try_from(length).unwrap_or(usize::MAX))
    }
    /// Copies from `source` into the pages from `offset` on; the size grows with it. The caller
    /// holds the vnode's `contents` lock to write.
    ///
    /// # Errors
    /// `EROFS` for storage; `EFAULT`, `ENOSPC`, `ENOMEM` where nothing was copied before.
    pub(crate) fn write(&self, offset: u64, source: &mut dyn Source) -> Result<usize, Errno> {
        if self.backing == Backing::Storage {
            return Err(Errno::EROFS);
        }
        if offset > self.size() {
            self.zero_tail(self.size());
        }
        let mut done = 0;
        while source.remaining() > 0 {
            let at = offset + done as u64;
            match self.write_page(at, source) {
                Ok(0) => break,
                Ok(count) => {
                    done += count;
                    self.size.fetch_max(at + count as u64, Ordering::AcqRel);
                }
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }
    /// Copies into one page.
    fn write_page(&self, at: u64, source: &mut dyn Source) -> Result<usize, Errno> {
        let (index, within) = (at / PAGE, (at % PAGE) as usize);
        let length = source.remaining().min(PAGE_BYTES - within);
        let found = self.index.read().get(index, Touch::Write);
        if let Page::Ready(frame) = found {
            return source.take_into_frame(&frame, within, length);
        }
        let is_whole = length == PAGE_BYTES;
        let frame = shrink::with_reclaim(|| Frame::allocate(!is_whole))?;
        let count = source.take_into_frame(&frame, within, length)?;
        if is_whole && count < PAGE_BYTES {
            frame.zero(count, PAGE_BYTES - count);
        }
        self.put_written(index, &frame, within, count)?;
        Ok(count)
    }
    /// Puts a written page in place, or its bytes into the page a fault has put there meanwhile.
    fn put_written(
        &self,
        index: u64,
        frame: &Frame,
        within: usize,
        count: usize,
    ) -> Result<(), Errno> {
        self.put_new(index, frame.clone(), Touch::Write)?;
        let found = self.index.read().get(index, Touch::Write);
        if let Page::Ready(present) = found
            && present.id() != frame.id()
        {
            let mut bytes = alloc::vec![0; count];
            frame.read(within, &mut bytes);
            present.write(within, &bytes);
        }
        Ok(())
    }
}

/// Copies what a page holds from byte `at` of the file on, at most `left` bytes.
fn copy_out(frame: &Frame, at: u64, left: u64, sink: &mut dyn Sink) -> Result<usize, Errno> {
    let within = (at % PAGE) as usize;
    let length = (PAGE_BYTES - within).min(usize::try_from(left).unwrap_or(usize::MAX));
    sink.put_frame(frame, within, length)
}
