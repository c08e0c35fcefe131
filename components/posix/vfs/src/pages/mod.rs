//! The page cache of a file: pages by position, brought in when needed and ahead of it (B4).
//!
//! [`PageCache`] belongs to one vnode. Readers look pages up under the index's lock shared and copy
//! from the frames with no lock held. Reads from storage are asynchronous: frames are put in
//! place as "being read", the file system is asked for each run of them with one call, and the
//! [`PageSink`] side marks them when they arrive, on the driver's thread, and wakes who waits.
//!
//! Who changes the size or writes holds the vnode's `contents` lock. The index's lock is never
//! held over a call to a file system, a copy to or from a program, or a wait.
mod index;
mod readahead;
pub(crate) use readahead::{Hit, Readahead};

use crate::{
    errno::Errno,
    file::Watcher,
    instance::Instance,
    io::{Sink, Source},
    shrink,
};
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use core::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};
use index::{Index, Page, Touch};
use interfaces::file_system::{Attributes, Backing, FileSystem, FsError, InodeNumber, PageSink};
use rt::{
    PAGE_BYTES, lock_class,
    memory::Frame,
    sync::{Event, Mutex, RwLock},
};

lock_class! {
    static INDEX = "vfs.pages.index";
    static WATCHERS = "vfs.pages.watchers";
    static READAHEAD = "vfs.pages.readahead";
}

const PAGE: u64 = PAGE_BYTES as u64;
const SECTORS_A_PAGE: u64 = PAGE / 512;
/// Frames copied from with one visit of the index.
const BATCH: usize = 16;

static NEXT_IDENTITY: AtomicU64 = AtomicU64::new(1);

/// The pages of one regular file.
pub struct PageCache {
    myself: Weak<PageCache>,
    identity: u64,
    fs: Arc<dyn FileSystem>,
    inode: InodeNumber,
    backing: Backing,
    size: AtomicU64,
    index: RwLock<Index>,
    arrived: Event,
    faults: Mutex<Readahead>,
    watchers: Mutex<Vec<Weak<dyn Watcher>>>,
}

impl PageCache {
    pub(crate) fn new(
        fs: &Arc<dyn FileSystem>,
        instance: &Instance,
        known: &Attributes,
    ) -> Arc<PageCache> {
        Arc::new_cyclic(|myself| PageCache {
            myself: myself.clone(),
            identity: NEXT_IDENTITY.fetch_add(1, Ordering::Relaxed),
            fs: fs.clone(),
            inode: known.inode,
            backing: instance.info().backing,
            size: AtomicU64::new(known.size),
            index: RwLock::new(&INDEX, Index::default()),
            arrived: Event::new(),
            faults: Mutex::new(&READAHEAD, Readahead::default()),
            watchers: Mutex::new(&WATCHERS, Vec::new()),
        })
    }
    /// The file's length in bytes.
    pub fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }
    /// Units of 512 bytes used, where only the cache knows.
    pub(crate) fn blocks(&self) -> Option<u64> {
        (self.backing == Backing::Cache).then(|| self.index.read().pages() * SECTORS_A_PAGE)
    }
    /// Pages in memory.
    pub fn resident_pages(&self) -> u64 {
        self.index.read().pages()
    }
    pub(crate) fn identity(&self) -> u64 {
        self.identity
    }
    pub(crate) fn watch(&self, watcher: Weak<dyn Watcher>) {
        let mut watchers = self.watchers.lock();
        watchers.retain(|known| known.strong_count() > 0 && !known.ptr_eq(&watcher));
        watchers.push(watcher);
    }

    /// The frame of page `index` for a mapping, brought in if need be.
    ///
    /// # Errors
    /// `ENXIO` beyond the end, `EIO`, `ENOMEM`, `ENOSPC`; `EROFS` for a write to storage.
    pub(crate) fn page(&self, index: u64, for_write: bool) -> Result<Frame, Errno> {
        let touch = match (for_write, self.backing) {
            (false, _) => Touch::Read,
            (true, Backing::Cache) => Touch::Write,
            (true, Backing::Storage) => return Err(Errno::EROFS),
        };
        let mut was_asked = false;
        loop {
            if index >= self.size().div_ceil(PAGE) {
                return Err(Errno::ENXIO);
            }
            let ticket = self.arrived.ticket();
            let found = self.index.read().get(index, touch);
            match (found, self.backing) {
                (Page::Ready(frame), _) => {
                    if self.backing == Backing::Storage && !was_asked {
                        self.read_ahead(index..index + 1, &self.faults, Hit::Yes);
                    }
                    return Ok(frame);
                }
                (Page::Reading, _) => {
                    if !was_asked {
                        self.read_ahead(index..index + 1, &self.faults, Hit::Yes);
                    }
                    was_asked = true;
                    let _ = self.arrived.wait(ticket, None, false);
                }
                (Page::Failed, _) if was_asked => return Err(Errno::EIO),
                (_, Backing::Cache) => self.fill_zeroes(index, touch)?,
                (_, Backing::Storage) => {
                    self.bring_in(index..index + 1, &self.faults)?;
                    was_asked = true;
                }
            }
        }
    }
    /// Visits the pages of a range that are in memory and lie within the file.
    pub(crate) fn resident(&self, first: u64, count: usize, visit: &mut dyn FnMut(u64, &Frame)) {
        let limit = self.size().div_ceil(PAGE);
        let end = first.saturating_add(count as u64).min(limit);
        if first < end {
            self.index.read().visit(first..end, visit);
        }
    }
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
    /// The first page of a range, asked for if need be together with what is planned ahead.
    fn wait_for(&self, wanted: Range<u64>, readahead: &Mutex<Readahead>) -> Result<Frame, Errno> {
        let mut was_asked = false;
        loop {
            let ticket = self.arrived.ticket();
            let found = self.index.read().get(wanted.start, Touch::Read);
            match found {
                Page::Ready(frame) => return Ok(frame),
                Page::Reading => {
                    if !was_asked {
                        self.read_ahead(wanted.start..wanted.start + 1, readahead, Hit::Yes);
                    }
                    was_asked = true;
                    let _ = self.arrived.wait(ticket, None, false);
                }
                Page::Failed if was_asked => return Err(Errno::EIO),
                Page::Failed | Page::Absent => {
                    self.bring_in(wanted.clone(), readahead)?;
                    was_asked = true;
                }
            }
        }
    }
    /// Asks for a range that is not there, and ahead.
    fn bring_in(&self, wanted: Range<u64>, readahead: &Mutex<Readahead>) -> Result<(), Errno> {
        let limit = self.size().div_ceil(PAGE);
        let wanted = wanted.start..wanted.end.min(wanted.start + BATCH as u64);
        let planned = readahead.lock().plan(wanted.clone(), limit, Hit::No);
        let range = planned.unwrap_or(wanted.clone());
        match self.start_reads(range) {
            Err(Errno::ENOMEM) => self.start_reads(wanted.start..wanted.start + 1),
            result => result,
        }
    }
    /// Asks for what the reader will want soon; failing does not matter.
    fn read_ahead(&self, used: Range<u64>, readahead: &Mutex<Readahead>, hit: Hit) {
        let limit = self.size().div_ceil(PAGE);
        let planned = readahead.lock().plan(used, limit, hit);
        if let Some(range) = planned {
            let _ = self.start_reads(range);
        }
    }
    /// Starts reading the absent pages of a range, one request a run.
    fn start_reads(&self, range: Range<u64>) -> Result<(), Errno> {
        let missing = self.index.read().missing(range.clone());
        let Some(myself) = self.myself.upgrade().filter(|_| missing > 0) else { return Ok(()) };
        let sink: Arc<dyn PageSink> = myself;
        let mut frames = Vec::new();
        shrink::make_room(missing);
        shrink::with_reclaim(|| Frame::allocate_many(missing, false, &mut frames))?;
        frames.reverse();
        let runs = self.place_frames(range, frames)?;
        for (first, frames) in runs {
            self.fs.read_pages(self.inode, first, frames, first, &sink);
        }
        Ok(())
    }
    /// Puts frames (the last one first) in place of absent pages; returns the runs to read.
    fn place_frames(
        &self,
        range: Range<u64>,
        mut frames: Vec<Frame>,
    ) -> Result<Vec<(u64, Vec<Frame>)>, Errno> {
        let mut runs: Vec<(u64, Vec<Frame>)> = Vec::new();
        let mut index = self.index.write();
        for page in range {
            let Some(frame) = frames.pop() else { break };
            match index.begin_read(page, frame.clone()) {
                Ok(true) => match runs.last_mut() {
                    Some((first, run)) if *first + run.len() as u64 == page => run.push(frame),
                    _ => runs.push((page, alloc::vec![frame])),
                },
                Ok(false) => frames.push(frame),
                Err(error) if runs.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(runs)
    }
    /// Makes a page of zeroes where there is none.
    fn fill_zeroes(&self, index: u64, touch: Touch) -> Result<(), Errno> {
        let frame = shrink::with_reclaim(|| Frame::allocate(true))?;
        self.put_new(index, frame, touch)
    }
    /// Puts a new page in place; one that is there already stays.
    fn put_new(&self, index: u64, frame: Frame, touch: Touch) -> Result<(), Errno> {
        self.fs.reserve(self.inode, 1)?;
        let outcome = self.index.write().insert_ready(index, frame, touch);
        if !matches!(outcome, Ok(None)) {
            self.fs.release(self.inode, 1);
        }
        outcome.map(|_| ())
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
    fn zero_tail(&self, size: u64) {
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
    /// Drops clean pages that storage has too, least recently used first; returns how many.
    pub(crate) fn shrink(&self, most: usize) -> usize {
        if self.backing == Backing::Cache {
            return 0;
        }
        let gone = match self.index.try_write() {
            Some(mut index) => index.evict(most),
            None => return 0,
        };
        gone.len()
    }
    /// Waits until no page is on its way.
    pub(crate) fn wait_idle(&self) {
        loop {
            let ticket = self.arrived.ticket();
            if self.index.read().reading() == 0 {
                return;
            }
            let _ = self.arrived.wait(ticket, None, false);
        }
    }
    /// The vnode ends: what was reserved for the pages is given back.
    pub(crate) fn release(&self) {
        let pages = self.index.read().pages();
        if self.backing == Backing::Cache && pages > 0 {
            self.fs.release(self.inode, pages);
        }
    }
    /// Positions of the pages written since they came.
    #[cfg(test)]
    pub(crate) fn dirty_pages(&self) -> Vec<u64> {
        self.index.read().dirty_pages()
    }
}

impl PageSink for PageCache {
    fn pages_done(&self, _: u64, first: u64, count: usize, result: Result<(), FsError>) {
        if let Err(error) = result {
            log::error!("vfs: inode {}: pages from {first}: {error:?}", self.inode);
        }
        let mut failed = Vec::new();
        let mut index = self.index.write();
        for page in first..first.saturating_add(count as u64) {
            failed.extend(index.end_read(page, result.is_ok()));
        }
        drop(index);
        drop(failed);
        self.arrived.signal();
    }
}

/// Copies what a page holds from byte `at` of the file on, at most `left` bytes.
fn copy_out(frame: &Frame, at: u64, left: u64, sink: &mut dyn Sink) -> Result<usize, Errno> {
    let within = (at % PAGE) as usize;
    let length = (PAGE_BYTES - within).min(usize::try_from(left).unwrap_or(usize::MAX));
    sink.put_frame(frame, within, length)
}
