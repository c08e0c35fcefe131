//! The limits of a mount: pages of file contents and inodes, counted without a lock.
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use interfaces::file_system::{FsError, Usage};
use rt::PAGE_BYTES;

/// The limit of a mount without one.
const UNLIMITED: u64 = u64::MAX;

/// Pages and inodes used, and how many may be.
pub(crate) struct Space {
    page_limit: u64,
    inode_limit: u64,
    pages: AtomicU64,
    inodes: AtomicU64,
}

impl Space {
    /// Nothing used.
    pub(crate) fn new(size_bytes: Option<u64>, inodes: Option<u64>) -> Space {
        let frames = rt::memory::statistics().total_frames;
        let limit = |wanted: Option<u64>| match wanted {
            None => frames / 2,
            Some(0) => UNLIMITED,
            Some(most) => most,
        };
        let page_limit = limit(size_bytes.map(|bytes| bytes.div_ceil(PAGE_BYTES as u64)));
        let inode_limit = limit(inodes);
        Space { page_limit, inode_limit, pages: AtomicU64::new(0), inodes: AtomicU64::new(0) }
    }

    /// Sets `pages` pages aside.
    pub(crate) fn take_pages(&self, pages: u64) -> Result<(), FsError> {
        take(&self.pages, pages, self.page_limit)
    }

    /// Gives pages back.
    pub(crate) fn give_pages(&self, pages: u64) {
        self.pages.fetch_sub(pages, Relaxed);
    }

    /// Sets an inode aside.
    pub(crate) fn take_inode(&self) -> Result<(), FsError> {
        take(&self.inodes, 1, self.inode_limit)
    }

    /// Gives an inode back.
    pub(crate) fn give_inode(&self) {
        self.inodes.fetch_sub(1, Relaxed);
    }

    /// For `statfs`, which tells zeroes where there is no limit.
    pub(crate) fn usage(&self) -> Usage {
        let shown = |limit: u64, used: &AtomicU64| match limit {
            UNLIMITED => (0, 0),
            limit => (limit, limit.saturating_sub(used.load(Relaxed))),
        };
        let (blocks, free) = shown(self.page_limit, &self.pages);
        let (files, files_free) = shown(self.inode_limit, &self.inodes);
        Usage {
            magic: crate::MAGIC,
            block_bytes: PAGE_BYTES as u32,
            blocks,
            free,
            available: free,
            files,
            files_free,
            id: 0,
            name_max: crate::NAME_MAX as u32,
        }
    }
}

fn take(used: &AtomicU64, count: u64, limit: u64) -> Result<(), FsError> {
    let more = |now: u64| now.checked_add(count).filter(|sum| *sum <= limit);
    used.try_update(Relaxed, Relaxed, more).map(|_| ()).map_err(|_| FsError::NoSpace)
}
