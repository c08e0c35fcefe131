//! Writing dirty pages to storage.
//!
//! Whole runs of dirty pages are passed to the file system, several at once; it passes the frames to the device. A page is
//! marked clean, then write-protected wherever it is mapped, then sent: a store before the protection is included, one after it
//! faults and makes the page dirty again. Pages may be stored to while they are sent (they are then sent again), but are never
//! sent twice at once. [`WriteSink`] is told of the end, on the driver's thread.
use super::{PAGE, PageCache, WHOLE, index::writing::Written};
use crate::{
    base::{errno::Errno, errors::ReportedErrors},
    pages::tally,
};
use alloc::sync::Arc;
use core::{ops::Range, sync::atomic::Ordering};
use interfaces::file_system::{Backing, FsError, PageSink};
use rt::PAGE_BYTES;

/// The greatest number of pages of one call to a file system.
const RUN_PAGES: usize = 256;

/// The greatest number of pages that are written along with a commit.
const ALONG_PAGES: u64 = 64;

/// The receiver of the results of writes.
struct WriteSink(Arc<PageCache>);

impl PageCache {
    /// Starts writing the dirty pages of a range. Returns whether some were skipped, because they are being written already.
    pub(crate) fn start_writes(&self, range: Range<u64>) -> bool {
        let _shape = self.shape.read();
        self.submit_writes(range)
    }
    /// Returns whether the length was set to zero since the last call.
    pub(crate) fn take_emptied(&self) -> bool {
        self.was_emptied.load(Ordering::Relaxed) && self.was_emptied.swap(false, Ordering::Relaxed)
    }
    /// Does the same as [`PageCache::start_writes`]. Returns `false` if the file is being cut or its blocks are being moved.
    pub(crate) fn try_start_writes(&self) -> bool {
        let Some(_shape) = self.shape.try_read() else { return false };
        self.submit_writes(WHOLE);
        true
    }
    /// Starts writes of the dirty pages of a range. The caller holds `shape`.
    pub(super) fn submit_writes(&self, range: Range<u64>) -> bool {
        // Memory is reserved because pages that cannot be written would keep their own.
        rt::memory::with_reserve(|| self.submit_from_reserve(range))
    }
    fn submit_from_reserve(&self, range: Range<u64>) -> bool {
        let mut has_passed = false;
        let is_stored = self.backing == Backing::Storage;
        let Some(myself) = self.myself.upgrade().filter(|_| is_stored) else { return false };
        // Most files that are checked have nothing to write.
        let mut sink = None;
        let mut rest = range;
        loop {
            let picked = self.index.write().begin_write(rest.clone(), RUN_PAGES, &mut has_passed);
            let Some(picked) = picked else { return has_passed };
            let new_sink = || -> Arc<dyn PageSink> { Arc::new(WriteSink(myself.clone())) };
            let sink = sink.get_or_insert_with(new_sink);
            let (first, count) = (picked.first, picked.frames.len() as u64);
            rest.start = first + count;
            self.protect_mapped(first, count);
            let size = self.clear_behind_end(first, &picked.frames);
            self.fs.write_pages(self.inode, first, picked.frames, size, first, sink);
            self.note_blocks();
        }
    }
    /// Makes the file system write the dirty pages along with the [`FileSystem::sync_inode`] that the caller begins at once, if
    /// they are adjacent and no other page of the file is being written. Returns whether it does: they are waited for after
    /// that.
    ///
    /// [`FileSystem::sync_inode`]: interfaces::file_system::FileSystem::sync_inode
    pub(crate) fn write_along(&self) -> bool {
        let _shape = self.shape.read();
        rt::memory::with_reserve(|| self.write_along_from_reserve())
    }
    fn write_along_from_reserve(&self) -> bool {
        let is_stored = self.backing == Backing::Storage;
        let Some(myself) = self.myself.upgrade().filter(|_| is_stored) else { return false };
        let (picked, is_all) = {
            let mut index = self.index.write();
            if index.writing() > 0 || index.dirty() > ALONG_PAGES {
                return false;
            }
            let picked = index.begin_write(WHOLE, RUN_PAGES, &mut false);
            let Some(picked) = picked else { return false };
            (picked, index.dirty() == 0)
        };
        let sink: Arc<dyn PageSink> = Arc::new(WriteSink(myself));
        let first = picked.first;
        self.protect_mapped(first, picked.frames.len() as u64);
        let size = self.clear_behind_end(first, &picked.frames);
        let is_along = if is_all {
            self.fs.write_along(self.inode, first, picked.frames, size, first, &sink)
        } else {
            self.fs.write_pages(self.inode, first, picked.frames, size, first, &sink);
            false
        };
        self.note_blocks();
        is_along
    }
    /// Zeroes bytes that a mapping may have stored beyond the file's end. The size is sampled after the pages were chosen. A
    /// writer that extends the file holds `tail`: then its bytes stay, and as it makes the page dirty again afterwards, the
    /// next write clears the bytes behind them.
    fn clear_behind_end(&self, first: u64, frames: &[rt::memory::Frame]) -> u64 {
        let _tail = self.tail.try_lock();
        let size = self.size();
        let within = (size % PAGE) as usize;
        if _tail.is_some()
            && within > 0
            && let Some(at) = (size / PAGE).checked_sub(first)
            && let Some(frame) = frames.get(at as usize)
        {
            frame.zero(within, PAGE_BYTES - within);
        }
        size
    }
    /// Makes pages read-only in every mapping, so that the next store is noticed.
    pub(super) fn protect_mapped(&self, first: u64, count: u64) {
        for watcher in self.live_watchers() {
            watcher.cleaned(self.identity, first, count);
        }
    }
    /// Waits until no page of a range is being written.
    pub(crate) fn wait_written(&self, range: Range<u64>) {
        loop {
            let ticket = self.arrived.ticket();
            if !self.index.read().is_writing(range.clone()) {
                return;
            }
            let _ = self.arrived.wait(ticket, None);
        }
    }
    /// Writes the pages of a range that are dirty now, and waits. The result is available from [`PageCache::check`].
    pub(crate) fn write_and_wait(&self, range: Range<u64>) {
        if self.backing == Backing::Cache {
            return;
        }
        let has_passed = self.start_writes(range.clone());
        self.wait_written(range.clone());
        // A skipped page was sent before it became dirty again. A page that is skipped now was taken after this call began, so
        // it holds the data to be written.
        if has_passed {
            self.start_writes(range.clone());
            self.wait_written(range);
        }
    }
    /// Slows a thread that makes pages dirty if there are too many of them.
    pub(crate) fn balance(&self) {
        if self.backing == Backing::Storage {
            self.throttle.balance();
        }
    }
    /// Returns whether any page is to be written.
    pub(crate) fn is_dirty(&self) -> bool {
        self.backing == Backing::Storage && self.index.read().is_dirty(WHOLE)
    }
    /// Returns the position at which a new description begins to report errors.
    pub(crate) fn told(&self) -> ReportedErrors {
        self.errors.sample()
    }
    /// Reports the errors of writing since `told`.
    ///
    /// # Errors
    /// `EIO`, `ENOSPC` and other errors of the file system.
    pub(crate) fn check(&self, told: &ReportedErrors) -> Result<(), Errno> {
        self.errors.check(told)
    }
}

impl PageSink for WriteSink {
    fn pages_done(&self, _: u64, first: u64, count: usize, result: Result<(), FsError>) {
        let cache = &self.0;
        let outcome = match result {
            Err(FsError::NoMemory | FsError::Restarted) => Written::Again,
            _ => Written::Settled,
        };
        if let Err(error) = result {
            log::error!("vfs: inode {}: writing from page {first}: {error:?}", cache.inode);
            cache.errors.record(error.into());
            cache.throttle.errors().record(error.into());
        }
        let mut index = cache.index.write();
        for page in first..first.saturating_add(count as u64) {
            index.end_write(page, outcome);
        }
        drop(index);
        cache.note_blocks();
        tally::signal_end(&cache.arrived);
        cache.throttle.note_progress();
    }
}
