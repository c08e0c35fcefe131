//! The page cache of a file: pages by position, read when they are needed and ahead of that (B4).
//!
//! [`PageCache`] belongs to one vnode. Readers look pages up under the index's lock shared and copy from the frames
//! with no lock held. Reads from storage are asynchronous: frames are put in place as "being read", the file system
//! is asked for each run of them with one call, and the [`PageSink`] side marks them when they arrive, on the
//! driver's thread, and wakes the waiting threads.
//!
//! A task that changes the size or writes holds the vnode's `contents` lock. `shape` is held shared while a transfer
//! is started, and exclusively while the file is cut or its blocks are moved, with no transfer under way: so a
//! transfer never uses blocks that were freed. `tail` is held by writers, and tried by a thread that zeroes bytes
//! after the end. The index's lock is never held over a call to a file system, a copy to or from a program, or a
//! wait.
mod change;
mod copy;
mod index;
pub(crate) mod readahead;
mod write_back;

use crate::{
    base::{
        errno::Errno,
        errors::ErrorSequence,
        file::{PageUse, Watcher},
        principal::{Principal, StorageIo},
    },
    pages::{memory, tally, throttle::Throttle},
};
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use core::{
    ops::Range,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};
use index::{Index, Page, Touch};
use interfaces::file_system::{Attributes, Backing, FileSystem, FsError, InodeNumber, PageSink};
use readahead::{Hit, Readahead};
use rt::{
    PAGE_BYTES, lock_class,
    memory::Frame,
    sync::{Event, Mutex, RwLock},
};

lock_class! {
    static INDEX = "vfs.pages.index";
    static WATCHERS = "vfs.pages.watchers";
    static READAHEAD = "vfs.pages.readahead";
    static SHAPE = "vfs.pages.shape";
    static TAIL = "vfs.pages.tail";
}

const PAGE: u64 = PAGE_BYTES as u64;
/// The range of all pages.
pub(crate) const WHOLE: Range<u64> = 0..u64::MAX;
const SECTORS_A_PAGE: u64 = PAGE / 512;
/// The read of a page that the thread waiting for the page relies on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Not,
    /// A read with other pages, by any thread.
    Together,
    /// Only this page is read, after a read together with others failed.
    Alone,
}

/// Number of frames copied from with one lookup in the index.
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
    /// Whether the vnode knows the blocks that storage uses for it.
    are_blocks_known: AtomicBool,
    /// The length was set to zero since the last close.
    was_emptied: AtomicBool,
    shape: RwLock<()>,
    tail: Mutex<()>,
    index: RwLock<Index>,
    /// Event: a read or write of pages has ended.
    arrived: Event,
    throttle: Arc<Throttle>,
    errors: ErrorSequence,
    faults: Mutex<Readahead>,
    watchers: Mutex<Vec<Weak<dyn Watcher>>>,
}

impl PageCache {
    pub(crate) fn new(
        fs: &Arc<dyn FileSystem>,
        backing: Backing,
        throttle: &Arc<Throttle>,
        known: &Attributes,
    ) -> Arc<PageCache> {
        Arc::new_cyclic(|myself| PageCache {
            myself: myself.clone(),
            identity: NEXT_IDENTITY.fetch_add(1, Ordering::Relaxed),
            fs: fs.clone(),
            inode: known.inode,
            backing,
            size: AtomicU64::new(known.size),
            are_blocks_known: AtomicBool::new(false),
            was_emptied: AtomicBool::new(false),
            shape: RwLock::new(&SHAPE, ()),
            tail: Mutex::new(&TAIL, ()),
            index: RwLock::new(&INDEX, Index::new(throttle.tally().clone())),
            arrived: Event::new(),
            throttle: throttle.clone(),
            errors: ErrorSequence::new(),
            faults: Mutex::new(&READAHEAD, Readahead::default()),
            watchers: Mutex::new(&WATCHERS, Vec::new()),
        })
    }
    /// Returns the file's length in bytes.
    pub fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }
    /// Returns the number of used units of 512 bytes, if only the cache knows it.
    pub(crate) fn blocks(&self) -> Option<u64> {
        (self.backing == Backing::Cache).then(|| self.index.read().pages() * SECTORS_A_PAGE)
    }
    /// Returns whether the caller must ask the file system for the blocks that it uses. The caller does so now, with
    /// the vnode's `state` locked, and keeps the answer.
    pub(crate) fn are_blocks_to_be_asked(&self) -> bool {
        !self.are_blocks_known.load(Ordering::Acquire)
            && !self.are_blocks_known.swap(true, Ordering::AcqRel)
    }
    /// Called after an operation that may have changed the blocks that the file system uses.
    pub(crate) fn note_blocks(&self) {
        self.are_blocks_known.store(false, Ordering::Release);
    }
    /// Returns the number of pages in memory.
    pub fn resident_pages(&self) -> u64 {
        self.index.read().pages()
    }
    pub(crate) fn identity(&self) -> u64 {
        self.identity
    }
    pub(crate) fn backing(&self) -> Backing {
        self.backing
    }
    pub(crate) fn watch(&self, watcher: Weak<dyn Watcher>) {
        let mut watchers = self.watchers.lock();
        watchers.retain(|known| known.strong_count() > 0 && !known.ptr_eq(&watcher));
        watchers.push(watcher);
    }
    fn live_watchers(&self) -> Vec<Arc<dyn Watcher>> {
        self.watchers.lock().iter().filter_map(Weak::upgrade).collect()
    }
    /// Returns whether some program maps it shared and may store to it.
    pub(crate) fn is_stored_to(&self) -> bool {
        self.live_watchers().iter().any(|watcher| watcher.may_store(self.identity))
    }
    pub(crate) fn forget_ended_watchers(&self) {
        self.watchers.lock().retain(|known| known.strong_count() > 0);
    }

    /// Returns the frame of page `index` for a mapping, read for `caller` if necessary; the page is made dirty if it is to be
    /// written to.
    ///
    /// # Errors
    /// `ENXIO` beyond the end, `EIO`, `ENOMEM`, `ENOSPC`.
    pub(crate) fn page(
        &self,
        index: u64,
        wanted: PageUse,
        caller: &dyn Principal,
    ) -> Result<Frame, Errno> {
        let touch = if wanted == PageUse::Store { Touch::Write } else { Touch::Read };
        let (mut asked, mut refusals) = (Asked::Not, 0);
        loop {
            if index >= self.size().div_ceil(PAGE) {
                return Err(Errno::ENXIO);
            }
            let ticket = self.arrived.ticket();
            let found = self.find(index, touch, caller)?;
            match (found, self.backing) {
                (Page::Ready(frame), _) => {
                    if self.backing == Backing::Storage && asked == Asked::Not {
                        self.read_ahead(index..index + 1, &self.faults, caller);
                    }
                    return Ok(frame);
                }
                (Page::Reading, _) => {
                    if asked == Asked::Not {
                        self.read_ahead(index..index + 1, &self.faults, caller);
                        asked = Asked::Together;
                    }
                    let _ = self.arrived.wait(ticket, None);
                }
                (Page::Failed, _) if asked != Asked::Not => {
                    asked = self.ask_alone(index, asked, caller)?;
                }
                (Page::Refused, _) if asked != Asked::Not => {
                    memory::after_refusal(&mut refusals, self.throttle.host())?;
                    self.bring_in(index..index + 1, &self.faults, caller)?;
                }
                (_, Backing::Cache) => self.fill_zeroes(index, touch)?,
                (_, Backing::Storage) => {
                    self.bring_in(index..index + 1, &self.faults, caller)?;
                    asked = Asked::Together;
                }
            }
        }
    }
    /// Returns the state of a page; if it is to be written to, storage has room for it afterwards.
    fn find(&self, index: u64, touch: Touch, caller: &dyn Principal) -> Result<Page, Errno> {
        if touch == Touch::Read || self.backing == Backing::Cache {
            return Ok(self.index.read().get(index, touch));
        }
        // No page may become dirty while the file is cut or its blocks are moved.
        let shape = self.shape.read();
        if index >= self.size().div_ceil(PAGE) {
            return Err(Errno::ENXIO);
        }
        self.reserve_stored(index)?;
        let pages = self.index.read();
        let found = pages.get(index, Touch::Read);
        let dirtied = u64::from(pages.mark_dirty(index));
        drop((pages, shape));
        self.charge(caller, StorageIo::Write, dirtied);
        Ok(found)
    }
    /// Charges I/O of this many pages to `caller`, if the file is on storage.
    fn charge(&self, caller: &dyn Principal, io: StorageIo, pages: u64) {
        if pages > 0 && self.backing == Backing::Storage {
            caller.charge(io, pages * PAGE);
        }
    }
    /// A frame that the caller cannot do without.
    fn allocate_frame(
        &self,
        allocate: impl Fn() -> Result<Frame, rt::NoMemory>,
    ) -> Result<Frame, Errno> {
        memory::allocate_frame(allocate, self.throttle.host())
    }
    /// Visits the pages of a range that are in memory and lie within the file.
    pub(crate) fn resident(&self, first: u64, count: usize, visit: &mut dyn FnMut(u64, &Frame)) {
        let limit = self.size().div_ceil(PAGE);
        let end = first.saturating_add(count as u64).min(limit);
        if first < end {
            self.index.read().visit(first..end, visit);
        }
    }
    /// Waits for the first page of a range, which is requested if necessary together with the pages planned ahead;
    /// if that fails it is requested alone, so that a bad sector near it does not keep it from being read.
    fn wait_for(
        &self,
        wanted: Range<u64>,
        readahead: &Mutex<Readahead>,
        caller: &dyn Principal,
    ) -> Result<Frame, Errno> {
        let (mut asked, mut refusals) = (Asked::Not, 0);
        loop {
            let ticket = self.arrived.ticket();
            let found = self.index.read().get(wanted.start, Touch::Read);
            match found {
                Page::Ready(frame) => return Ok(frame),
                Page::Reading => {
                    if asked == Asked::Not {
                        let used = wanted.start..wanted.start + 1;
                        self.read_ahead(used, readahead, caller);
                        asked = Asked::Together;
                    }
                    let _ = self.arrived.wait(ticket, None);
                }
                Page::Failed if asked != Asked::Not => {
                    asked = self.ask_alone(wanted.start, asked, caller)?;
                }
                Page::Refused if asked != Asked::Not => {
                    memory::after_refusal(&mut refusals, self.throttle.host())?;
                    self.bring_in(wanted.start..wanted.start + 1, readahead, caller)?;
                }
                Page::Failed | Page::Refused | Page::Absent => {
                    self.bring_in(wanted.clone(), readahead, caller)?;
                    asked = Asked::Together;
                }
            }
        }
    }
    /// Requests a page that could not be read once more, alone.
    fn ask_alone(&self, index: u64, asked: Asked, caller: &dyn Principal) -> Result<Asked, Errno> {
        if asked == Asked::Alone {
            return Err(Errno::EIO);
        }
        self.start_reads(index..index + 1, caller)?;
        Ok(Asked::Alone)
    }
    /// Requests a range that is absent, and pages ahead.
    fn bring_in(
        &self,
        wanted: Range<u64>,
        readahead: &Mutex<Readahead>,
        caller: &dyn Principal,
    ) -> Result<(), Errno> {
        let limit = self.size().div_ceil(PAGE);
        let wanted = wanted.start..wanted.end.min(wanted.start + BATCH as u64);
        let planned = readahead.lock().plan(wanted.clone(), limit, Hit::No);
        let range = planned.unwrap_or(wanted.clone());
        match self.start_reads(range, caller) {
            Err(Errno::Refused) => self.start_reads(wanted.start..wanted.start + 1, caller),
            result => result,
        }
    }
    /// Requests the pages that a reader will probably want soon, after a hit on those in `used`; failures are ignored.
    fn read_ahead(&self, used: Range<u64>, readahead: &Mutex<Readahead>, caller: &dyn Principal) {
        if let Some(range) = self.plan(used, readahead) {
            let _ = self.start_reads(range, caller);
        }
    }
    /// Returns the pages to request ahead after a hit on those in `used`.
    #[inline]
    fn plan(&self, used: Range<u64>, readahead: &Mutex<Readahead>) -> Option<Range<u64>> {
        let limit = self.size().div_ceil(PAGE);
        readahead.lock().plan(used, limit, Hit::Yes)
    }
    /// Starts reading the absent pages of a range for `caller`, with one request for each run.
    fn start_reads(&self, range: Range<u64>, caller: &dyn Principal) -> Result<(), Errno> {
        let missing = self.index.read().missing(range.clone());
        let Some(myself) = self.myself.upgrade().filter(|_| missing > 0) else { return Ok(()) };
        let sink: Arc<dyn PageSink> = myself;
        let mut frames = Vec::new();
        memory::make_room(missing);
        match missing {
            1 => frames.push(self.allocate_frame(Frame::unfilled)?),
            _ => memory::with_reclaim(|| Frame::allocate_unfilled(missing, &mut frames))?,
        }
        frames.reverse();
        let shape = self.shape.read();
        // The file may have been cut since the plan was made: a page after the end would be read from freed blocks.
        let range = range.start..range.end.min(self.size().div_ceil(PAGE));
        let runs = self.place_frames(range, frames)?;
        let pages = runs.iter().map(|(_, frames)| frames.len() as u64).sum();
        for (first, frames) in runs {
            self.fs.read_pages(self.inode, first, frames, first, &sink);
        }
        drop(shape);
        self.charge(caller, StorageIo::Read, pages);
        Ok(())
    }
    /// Puts frames (the last one first) in place of absent pages. Returns the runs to read.
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
                    _ => {
                        let mut run = Vec::with_capacity(1 + frames.len());
                        run.push(frame);
                        runs.push((page, run));
                    }
                },
                Ok(false) => frames.push(frame),
                Err(error) if runs.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(runs)
    }
    /// Makes a page of zeroes if there is none.
    fn fill_zeroes(&self, index: u64, touch: Touch) -> Result<(), Errno> {
        let frame = self.allocate_frame(Frame::zeroed)?;
        self.put_new(index, frame, touch)
    }
    /// Puts a new page in place; one that is there already stays.
    fn put_new(&self, index: u64, frame: Frame, touch: Touch) -> Result<(), Errno> {
        self.fs.reserve(self.inode, 1)?;
        let outcome = self.put_reserved(index, frame, touch);
        if outcome != Ok(true) {
            self.fs.release(self.inode, 1);
        }
        outcome.map(|_| ())
    }
    /// Does the same as [`PageCache::put_new`] for a frame that is charged already. Returns whether it was used.
    fn put_reserved(&self, index: u64, frame: Frame, touch: Touch) -> Result<bool, Errno> {
        let there_already = self.index.write().insert_ready(index, frame, touch)?;
        Ok(there_already.is_none())
    }
    /// Drops clean pages that are on storage too, least recently used first. Returns their number.
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
    /// Drops the clean pages of a range that are on storage too and have no other user.
    pub fn forget(&self, range: Range<u64>) {
        if self.backing == Backing::Storage {
            let gone = self.index.write().forget(range);
            drop(gone);
        }
    }
    /// Waits until no transfer of a page is under way, from storage or to it.
    pub(crate) fn wait_idle(&self) {
        loop {
            let ticket = self.arrived.ticket();
            let is_idle = {
                let index = self.index.read();
                index.reading() + index.writing() == 0
            };
            if is_idle {
                return;
            }
            let _ = self.arrived.wait(ticket, None);
        }
    }
    /// Charges the writes of dirty pages that end with the file to `caller`, as cancelled.
    pub(crate) fn charge_lost(&self, caller: &dyn Principal) {
        let dirty = self.index.read().dirty_from(0);
        self.charge(caller, StorageIo::Cancelled, dirty);
    }
    /// Called when the vnode ends: releases the space reserved for its pages.
    pub(crate) fn release(&self) {
        let pages = if self.backing == Backing::Cache { self.index.read().pages() } else { 0 };
        if pages > 0 {
            self.fs.release(self.inode, pages);
        }
    }
    /// Returns the positions of the pages written since they were read.
    #[cfg(test)]
    pub(crate) fn dirty_pages(&self) -> Vec<u64> {
        self.index.read().dirty_pages()
    }
}

impl PageSink for PageCache {
    fn pages_done(&self, _: u64, first: u64, count: usize, result: Result<(), FsError>) {
        if let Err(error) = result
            && error != FsError::NoMemory
        {
            log::error!("vfs: inode {}: pages from {first}: {error:?}", self.inode);
        }
        tally::note_read(count as u64);
        let mut failed = Vec::new();
        let mut index = self.index.write();
        for page in first..first.saturating_add(count as u64) {
            failed.extend(index.end_read(page, result));
        }
        drop(index);
        drop(failed);
        tally::signal_end(&self.arrived);
    }
}
