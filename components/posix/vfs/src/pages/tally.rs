//! Numbers of dirty pages and of pages being written, by file system and in all, and their limits.
//!
//! The limits are Linux's defaults: of the memory that files could have (free, or clean file pages),
//! writing begins in the background at a tenth, and writers are slowed towards a fifth.
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use rt::sync::Event;

/// `vm.dirty_background_ratio`, as a divisor of the memory.
const BACKGROUND_SHARE: u64 = 10;
/// `vm.dirty_ratio`, as a divisor of the memory.
const HARD_SHARE: u64 = 5;

static CACHED: AtomicU64 = AtomicU64::new(0);
static STORED: AtomicU64 = AtomicU64::new(0);
static DIRTY: AtomicU64 = AtomicU64::new(0);
static WRITING: AtomicU64 = AtomicU64::new(0);
static WRITTEN: AtomicU64 = AtomicU64::new(0);
static READ: AtomicU64 = AtomicU64::new(0);
static DIRTIED: AtomicU64 = AtomicU64::new(0);
static AWAITED: AtomicU64 = AtomicU64::new(0);
static UNAWAITED: AtomicU64 = AtomicU64::new(0);

/// Dirty pages of one file system.
#[derive(Debug)]
pub(crate) struct Tally {
    dirty: AtomicU64,
    is_counted: bool,
}

/// Pages of all file systems on storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirtyPages {
    /// Pages that are dirty now.
    pub dirty: u64,
    /// Pages that are being written now.
    pub writing: u64,
    /// Pages that became dirty since the start.
    pub dirtied: u64,
    /// Pages written since the start.
    pub written: u64,
    /// Pages read from storage since the start.
    pub read: u64,
    /// Reads and writes whose end woke a waiting thread, since the start.
    pub awaited: u64,
    /// Reads and writes that ended while no thread waited (readahead, write-back), since the start.
    pub unawaited: u64,
}

/// Returns the counts of dirty and written pages, present and since the start.
pub fn dirty_pages() -> DirtyPages {
    DirtyPages {
        dirty: DIRTY.load(Ordering::Relaxed),
        writing: WRITING.load(Ordering::Relaxed),
        dirtied: DIRTIED.load(Ordering::Relaxed),
        written: WRITTEN.load(Ordering::Relaxed),
        read: READ.load(Ordering::Relaxed),
        awaited: AWAITED.load(Ordering::Relaxed),
        unawaited: UNAWAITED.load(Ordering::Relaxed),
    }
}

/// Returns the number of pages of files in memory, of all file systems (`Cached` in
/// `/proc/meminfo`).
pub fn cached_pages() -> u64 {
    CACHED.load(Ordering::Relaxed)
}

/// Returns the number of pages in memory that are on storage too or will be, and so can be dropped
/// sooner or later.
pub fn stored_pages() -> u64 {
    STORED.load(Ordering::Relaxed)
}

/// Counts pages that were read from storage.
pub(crate) fn note_read(pages: u64) {
    READ.fetch_add(pages, Ordering::Relaxed);
}

/// Signals `arrived`, the end of a read or write of pages, and counts whether a thread waited for it (M2).
pub(crate) fn signal_end(arrived: &Event) {
    let count = if arrived.signal_awaited() { &AWAITED } else { &UNAWAITED };
    count.fetch_add(1, Ordering::Relaxed);
}

/// Limits of the pages that are dirty or being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyLimits {
    /// Pages above which writing begins in the background.
    pub background: u64,
    /// Number of dirty pages above which writers wait.
    pub hard: u64,
}

/// Returns the current limits. Memory that programs have filled does not count as available for
/// dirty pages.
pub fn limits() -> DirtyLimits {
    let memory = rt::memory::statistics();
    let busy = DIRTY.load(Ordering::Relaxed) + WRITING.load(Ordering::Relaxed);
    let clean = STORED.load(Ordering::Relaxed).saturating_sub(busy);
    let available = (memory.free_frames + clean).min(memory.total_frames);
    DirtyLimits { background: available / BACKGROUND_SHARE, hard: available / HARD_SHARE }
}

impl Tally {
    /// Makes the counts of a file system on storage.
    pub(crate) fn of_storage() -> Arc<Tally> {
        Arc::new(Tally { dirty: AtomicU64::new(0), is_counted: true })
    }
    /// Makes the counts of a file system whose pages are never written.
    pub(crate) fn of_cache() -> Arc<Tally> {
        Arc::new(Tally { dirty: AtomicU64::new(0), is_counted: false })
    }
    /// Returns the number of pages that are dirty now.
    pub(crate) fn dirty(&self) -> u64 {
        self.dirty.load(Ordering::Relaxed)
    }
    pub(crate) fn grow(&self, pages: u64) {
        CACHED.fetch_add(pages, Ordering::Relaxed);
        if self.is_counted {
            STORED.fetch_add(pages, Ordering::Relaxed);
        }
    }
    pub(crate) fn shrink(&self, pages: u64) {
        CACHED.fetch_sub(pages, Ordering::Relaxed);
        if self.is_counted {
            STORED.fetch_sub(pages, Ordering::Relaxed);
        }
    }
    pub(crate) fn mark_dirty(&self, pages: u64) {
        self.dirty.fetch_add(pages, Ordering::Relaxed);
        if self.is_counted {
            DIRTY.fetch_add(pages, Ordering::Relaxed);
            DIRTIED.fetch_add(pages, Ordering::Relaxed);
        }
    }
    pub(crate) fn clean(&self, pages: u64) {
        self.dirty.fetch_sub(pages, Ordering::Relaxed);
        if self.is_counted {
            DIRTY.fetch_sub(pages, Ordering::Relaxed);
        }
    }
    pub(crate) fn begin_write(&self, pages: u64) {
        if self.is_counted {
            WRITING.fetch_add(pages, Ordering::Relaxed);
        }
    }
    pub(crate) fn end_write(&self, pages: u64) {
        if self.is_counted {
            WRITING.fetch_sub(pages, Ordering::Relaxed);
            WRITTEN.fetch_add(pages, Ordering::Relaxed);
        }
    }
}
