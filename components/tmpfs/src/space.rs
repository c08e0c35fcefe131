//! The limits of a mount: pages of file contents, and memory of inodes, counted without a lock.
//!
//! As on Linux (`free_ispace` of mm/shmem.c since 6.6), an inode stands for [`INODE_BYTES`] of memory, and so does each further
//! link; extended attributes and long targets take their bytes from the same limit. So no part of a tmpfs is without one.
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use interfaces::file_system::{FsError, Usage};
use rt::PAGE_BYTES;

/// Memory that one inode of the limit stands for (`BOGO_INODE_SIZE` of Linux).
pub(crate) const INODE_BYTES: u64 = 1024;

/// Memory that one inode may stand for where the mount has no limit of inodes: a file without a name (memfd_create(2)) is
/// limited by its descriptor alone.
const INODE_BYTES_MAX: u64 = 128 << 10;

/// The limit of a mount without one.
const UNLIMITED: u64 = u64::MAX;

/// Pages and inodes used, and how many may be.
pub(crate) struct Space {
    page_limit: u64,
    inode_limit: u64,
    pages: AtomicU64,
    inode_bytes: AtomicU64,
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
        let inode_limit = limit(inodes).saturating_mul(INODE_BYTES);
        let (pages, inode_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Space { page_limit, inode_limit, pages, inode_bytes }
    }

    /// Sets `pages` pages aside.
    pub(crate) fn take_pages(&self, pages: u64) -> Result<(), FsError> {
        take(&self.pages, pages, self.page_limit)
    }

    /// Gives pages back.
    pub(crate) fn give_pages(&self, pages: u64) {
        self.pages.fetch_sub(pages, Relaxed);
    }

    /// Sets `bytes` of memory of inodes aside.
    pub(crate) fn take_inode_bytes(&self, bytes: u64) -> Result<(), FsError> {
        take(&self.inode_bytes, bytes, self.inode_limit)
    }

    /// Gives memory of inodes back.
    pub(crate) fn give_inode_bytes(&self, bytes: u64) {
        self.inode_bytes.fetch_sub(bytes, Relaxed);
    }

    /// Changes what is set aside for one inode beside itself from `charged` to `wanted`.
    ///
    /// # Errors
    /// [`FsError::NoSpace`]; nothing has changed.
    pub(crate) fn change_inode_bytes(&self, charged: &mut u64, wanted: u64) -> Result<(), FsError> {
        match wanted.checked_sub(*charged) {
            Some(_) if self.inode_limit == UNLIMITED && wanted > INODE_BYTES_MAX => {
                return Err(FsError::NoSpace);
            }
            Some(more) => self.take_inode_bytes(more)?,
            None => self.give_inode_bytes(*charged - wanted),
        }
        *charged = wanted;
        Ok(())
    }

    /// For `statfs`, which tells zeroes where there is no limit.
    pub(crate) fn usage(&self) -> Usage {
        let shown = |limit: u64, used: &AtomicU64| match limit {
            UNLIMITED => (0, 0),
            limit => (limit, limit.saturating_sub(used.load(Relaxed))),
        };
        let (blocks, free) = shown(self.page_limit, &self.pages);
        let (files, files_free) = shown(self.inode_limit, &self.inode_bytes);
        let (files, files_free) = (files / INODE_BYTES, files_free / INODE_BYTES);
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
