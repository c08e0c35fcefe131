//! Changes of a file's shape: truncation, holes, reserved space, and the search for holes.
use super::{
    PAGE, PageCache,
    index::{Page, Touch},
};
use crate::base::{
    errno::Errno,
    file::PageUse,
    principal::{Principal, StorageIo},
};
use alloc::vec::Vec;
use core::{ops::Range, sync::atomic::Ordering};
use interfaces::file_system::{Allocation, Backing, FsError, Seek};
use rt::{PAGE_BYTES, memory::Frame};

/// Number of rounds of writing before blocks are moved: the first skips pages that were stored to while they were
/// being written, one more is for a device that was reset.
const SETTLE_TRIES: usize = 3;

impl PageCache {
    /// Sets the size of a file whose pages exist in the cache only: pages beyond are removed (from mappings too), and
    /// the rest of the last one is zeroed. The caller holds the vnode's `contents` lock to write, and has told the
    /// file system.
    pub(crate) fn truncate(&self, size: u64) {
        let before = self.size();
        if size >= before {
            self.zero_tail(before);
            self.size.store(size, Ordering::Release);
            return;
        }
        self.size.store(size, Ordering::Release);
        let (gone, _) = self.drop_from(size.div_ceil(PAGE));
        self.fs.release(self.inode, gone.len() as u64);
        self.zero_tail(size);
    }
    /// Sets the size of a file on storage, and calls `tell` to tell the file system while no transfer is under way.
    /// The caller holds the vnode's `contents` lock to write.
    ///
    /// # Errors
    /// Errors of reading or writing the last page, and of `tell`.
    pub(crate) fn truncate_stored(
        &self,
        size: u64,
        caller: &dyn Principal,
        tell: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let before = self.size();
        if size < before {
            self.clear_stored_tail(size, caller)?;
        }
        let mut cancelled = 0;
        let shape = self.shape.write();
        self.zero_tail(before);
        self.size.store(size, Ordering::Release);
        if size < before {
            cancelled = self.drop_from(size.div_ceil(PAGE)).1;
            self.index.write().unreserve_all();
        }
        self.wait_written(super::WHOLE);
        // The file is cut: allocations must not fail now.
        let told = rt::memory::with_reserve(tell);
        if told.is_err() {
            self.size.store(before, Ordering::Release);
        } else if size == 0 {
            self.was_emptied.store(true, Ordering::Relaxed);
        }
        drop(shape);
        self.charge(caller, StorageIo::Cancelled, cancelled);
        told
    }
    /// Removes every page from `first` on, also from mappings, once no transfer of such a page is under way. Returns
    /// the frames and the number of dirty ones.
    fn drop_from(&self, first: u64) -> (Vec<Frame>, u64) {
        self.tell_watchers(first);
        loop {
            let ticket = self.arrived.ticket();
            let mut index = self.index.write();
            if !index.is_reading(first..u64::MAX) && !index.is_writing(first..u64::MAX) {
                let dirty = index.dirty_from(first);
                return (index.truncate(first), dirty);
            }
            drop(index);
            let _ = self.arrived.wait(ticket, None);
        }
    }
    /// Zeroes the page of byte `size` from that byte on before the file is cut there, on storage too: the page is read
    /// and made dirty, unless the file has no data there.
    fn clear_stored_tail(&self, size: u64, caller: &dyn Principal) -> Result<(), Errno> {
        let (page, within) = (size / PAGE, (size % PAGE) as usize);
        if within == 0 || !self.has_data(page)? {
            return Ok(());
        }
        let frame = self.page(page, PageUse::Store, caller)?;
        frame.zero(within, PAGE_BYTES - within);
        let dirtied = u64::from(self.index.read().mark_dirty(page));
        self.charge(caller, StorageIo::Write, dirtied);
        Ok(())
    }
    /// Returns whether the page is dirty, or storage has blocks for it.
    fn has_data(&self, page: u64) -> Result<bool, Errno> {
        let range = page..page + 1;
        {
            let index = self.index.read();
            if index.is_dirty(range.clone()) || index.is_writing(range) {
                return Ok(true);
            }
        }
        match self.fs.seek(self.inode, page * PAGE, Seek::Data) {
            Ok(at) => Ok(at < (page + 1) * PAGE),
            Err(FsError::NotFound) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
    /// Makes a hole of a byte range within the file. Pages that are mapped stay, zeroed: a private
    /// mapping's own copies must not be touched.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for storage, which has [`PageCache::reshape`].
    pub(crate) fn punch(&self, range: Range<u64>) -> Result<(), Errno> {
        if self.backing == Backing::Storage {
            return Err(Errno::EOPNOTSUPP);
        }
        self.clear(range);
        Ok(())
    }
    /// Drops or zeroes pages of a byte range, which become clean.
    fn clear(&self, range: Range<u64>) {
        let whole = range.start.div_ceil(PAGE)..range.end / PAGE;
        if whole.start > whole.end {
            return self.zero_within(range.start, range.end);
        }
        self.zero_within(range.start, whole.start * PAGE);
        self.zero_within(whole.end * PAGE, range.end);
        if self.backing == Backing::Storage {
            self.protect_mapped(whole.start, whole.end - whole.start);
        }
        let (gone, shared) = self.index.write().punch(whole);
        shared.iter().for_each(|frame| frame.zero(0, PAGE_BYTES));
        if self.backing == Backing::Cache {
            self.fs.release(self.inode, gone.len() as u64);
        }
    }
    /// Changes the blocks of a byte range of a file on storage: `tell` makes the file system do it, while no transfer
    /// is under way and the pages that move are written. The caller holds the vnode's `contents` lock to write.
    ///
    /// # Errors
    /// Errors of `tell`; nothing is changed then.
    pub(crate) fn reshape(
        &self,
        range: Range<u64>,
        how: Allocation,
        tell: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let (before, length) = (self.size(), range.end - range.start);
        let moves = matches!(how, Allocation::Collapse | Allocation::Insert);
        let _shape = self.shape.write();
        self.index.write().unreserve_all();
        if moves {
            self.tell_watchers(range.start / PAGE);
        }
        // A later failure leaves the old contents: they are written first.
        let last = if moves { u64::MAX } else { range.end.div_ceil(PAGE) };
        self.settle(range.start / PAGE..last)?;
        let told = tell();
        self.note_blocks();
        told?;
        match how {
            Allocation::Extend | Allocation::KeepSize => {}
            Allocation::PunchHole | Allocation::Zero | Allocation::ZeroKeepSize => {
                self.clear(range.start.min(before)..range.end.min(before.next_multiple_of(PAGE)));
            }
            Allocation::Collapse | Allocation::Insert => {
                drop(self.drop_from(range.start / PAGE));
            }
        }
        let after = match how {
            Allocation::Extend | Allocation::Zero => before.max(range.end),
            Allocation::Collapse => before - length,
            Allocation::Insert => before + length,
            _ => before,
        };
        if after > before && !moves {
            self.zero_tail(before);
        }
        self.size.store(after, Ordering::Release);
        Ok(())
    }
    /// Writes the pages of a range until none is dirty and no transfer of the file is under way. The caller holds
    /// `shape` exclusively, so that no page becomes dirty meanwhile.
    ///
    /// # Errors
    /// `Refused` if a page stays dirty because its write could not be started.
    fn settle(&self, pages: Range<u64>) -> Result<(), Errno> {
        for _ in 0..SETTLE_TRIES {
            self.submit_writes(pages.clone());
            self.wait_idle();
            if !self.index.read().is_dirty(pages.clone()) {
                return Ok(());
            }
        }
        Err(Errno::Refused)
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
    /// `ENOSPC` without a change, if the file system or all of memory has no room for it; `ENOMEM` after some pages
    /// were made.
    pub(crate) fn allocate(&self, range: Range<u64>) -> Result<(), Errno> {
        let pages = range.start / PAGE..range.end.div_ceil(PAGE);
        let at_least = (pages.end - pages.start).saturating_sub(self.resident_pages());
        if at_least > rt::memory::statistics().total_frames {
            return Err(Errno::ENOSPC);
        }
        let mut reserved = self.index.read().missing(pages.clone()) as u64;
        self.fs.reserve(self.inode, reserved)?;
        let mut outcome = Ok(());
        for page in pages {
            if reserved == 0 || outcome.is_err() {
                break;
            }
            if self.index.read().missing(page..page + 1) > 0 {
                let made = self.allocate_frame(Frame::zeroed);
                let made = made.and_then(|frame| self.put_reserved(page, frame, Touch::Read));
                reserved -= u64::from(made == Ok(true));
                outcome = made.map(|_| ());
            }
        }
        self.fs.release(self.inode, reserved);
        outcome
    }
    fn tell_watchers(&self, first: u64) {
        for watcher in self.live_watchers() {
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
    /// Returns the first byte of data at or after `offset`.
    ///
    /// # Errors
    /// `ENXIO` if there is none.
    pub(crate) fn next_data(&self, offset: u64) -> Result<u64, Errno> {
        let size = self.size();
        if offset >= size {
            return Err(Errno::ENXIO);
        }
        if self.backing == Backing::Storage {
            return self.seek_stored(offset, Seek::Data);
        }
        let page = self.index.read().next_present(offset / PAGE).ok_or(Errno::ENXIO)?;
        Some((page * PAGE).max(offset)).filter(|at| *at < size).ok_or(Errno::ENXIO)
    }
    /// Returns the first byte of a hole at or after `offset`; the end counts as one.
    ///
    /// # Errors
    /// `ENXIO` at or beyond the end.
    pub(crate) fn next_hole(&self, offset: u64) -> Result<u64, Errno> {
        let size = self.size();
        if offset >= size {
            return Err(Errno::ENXIO);
        }
        if self.backing == Backing::Storage {
            return self.seek_stored(offset, Seek::Hole);
        }
        let page = self.index.read().next_absent(offset / PAGE);
        Ok((page * PAGE).max(offset).min(size))
    }
    /// Returns the answer of storage after all dirty pages were written.
    fn seek_stored(&self, offset: u64, what: Seek) -> Result<u64, Errno> {
        if self.is_dirty() {
            self.write_and_wait(super::WHOLE);
        }
        match self.fs.seek(self.inode, offset, what) {
            Ok(at) => Ok(at.min(self.size())),
            // The last hole reaches to the end, which storage may not know yet.
            Err(FsError::NotFound) if what == Seek::Hole => Ok(offset),
            Err(FsError::NotFound) => Err(Errno::ENXIO),
            Err(error) => Err(error.into()),
        }
    }
}
