//! Changes of a file's shape: truncation, holes, space set aside; and where its holes are.
use super::{
    PAGE, PageCache,
    index::{Page, Touch},
};
use crate::{errno::Errno, file::Watcher};
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use core::{ops::Range, sync::atomic::Ordering};
use interfaces::file_system::Backing;
use rt::PAGE_BYTES;

impl PageCache {
    /// Sets the size: pages beyond go (from mappings too), the rest of the last one is zeroed. The
    /// caller holds the vnode's `contents` lock to write, and has told the file system.
    pub(crate) fn truncate(&self, size: u64) {
        let before = self.size();
        if size >= before {
            self.zero_tail(before);
            self.size.store(size, Ordering::Release);
            return;
        }
        self.size.store(size, Ordering::Release);
        let first = size.div_ceil(PAGE);
        self.tell_watchers(first);
        let gone = loop {
            let ticket = self.arrived.ticket();
            let mut index = self.index.write();
            if !index.is_reading_from(first) {
                break index.truncate(first);
            }
            drop(index);
            let _ = self.arrived.wait(ticket, None, false);
        };
        if self.backing == Backing::Cache {
            self.fs.release(self.inode, gone.len() as u64);
        }
        self.zero_tail(size);
    }
    /// Makes a hole of a byte range within the file. Pages that are mapped stay, zeroed: a private
    /// mapping's own copies must not be touched.
    ///
    /// # Errors
    /// `EROFS` for storage.
    pub(crate) fn punch(&self, range: Range<u64>) -> Result<(), Errno> {
        if self.backing == Backing::Storage {
            return Err(Errno::EROFS);
        }
        let whole = range.start.div_ceil(PAGE)..range.end / PAGE;
        if whole.start > whole.end {
            self.zero_within(range.start, range.end);
            return Ok(());
        }
        self.zero_within(range.start, whole.start * PAGE);
        self.zero_within(whole.end * PAGE, range.end);
        let (gone, shared) = self.index.write().punch(whole);
        shared.iter().for_each(|frame| frame.zero(0, PAGE_BYTES));
        self.fs.release(self.inode, gone.len() as u64);
        Ok(())
    }
    /// Zeroes bytes `start .. end` of one page, if it is in memory.
    fn zero_within(&self, start: u64, end: u64) {
        let found = self.index.read().get(start / PAGE, Touch::Read);
        if start < end
            && let Page::Ready(frame) = found
        {
            frame.zero((start % PAGE) as usize, (end - start) as usize);
        }
    }
    /// Makes a page of every hole in a byte range, beyond the end too; the size stays.
    ///
    /// # Errors
    /// `EROFS` for storage; `ENOSPC`, `ENOMEM`, with the pages before made.
    pub(crate) fn allocate(&self, range: Range<u64>) -> Result<(), Errno> {
        if self.backing == Backing::Storage {
            return Err(Errno::EROFS);
        }
        for page in range.start / PAGE..range.end.div_ceil(PAGE) {
            if self.index.read().missing(page..page + 1) > 0 {
                self.fill_zeroes(page, Touch::Read)?;
            }
        }
        Ok(())
    }
    fn tell_watchers(&self, first: u64) {
        let watchers: Vec<Arc<dyn Watcher>> =
            self.watchers.lock().iter().filter_map(Weak::upgrade).collect();
        for watcher in watchers {
            watcher.truncated(self.identity, first);
        }
    }
    /// Zeroes the page that holds byte `size` from there on.
    pub(super) fn zero_tail(&self, size: u64) {
        let within = (size % PAGE) as usize;
        if within > 0
            && let Page::Ready(frame) = self.index.read().get(size / PAGE, Touch::Read)
        {
            frame.zero(within, PAGE_BYTES - within);
        }
    }
    /// The first byte of data at or after `offset`; `ENXIO` if none is left.
    ///
    /// # Errors
    /// `ENXIO`.
    pub(crate) fn next_data(&self, offset: u64) -> Result<u64, Errno> {
        let size = self.size();
        if offset >= size {
            return Err(Errno::ENXIO);
        }
        if self.backing == Backing::Storage {
            return Ok(offset);
        }
        let page = self.index.read().next_present(offset / PAGE).ok_or(Errno::ENXIO)?;
        Some((page * PAGE).max(offset)).filter(|at| *at < size).ok_or(Errno::ENXIO)
    }
    /// The first byte of a hole at or after `offset`; the end counts as one.
    ///
    /// # Errors
    /// `ENXIO` at or beyond the end.
    pub(crate) fn next_hole(&self, offset: u64) -> Result<u64, Errno> {
        let size = self.size();
        if offset >= size {
            return Err(Errno::ENXIO);
        }
        if self.backing == Backing::Storage {
            return Ok(size);
        }
        let page = self.index.read().next_absent(offset / PAGE);
        Ok((page * PAGE).max(offset).min(size))
    }
}
