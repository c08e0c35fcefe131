//! The limits of a mount: pages of file contents, and memory of inodes, counted without a lock.
//!
//! As on Linux (`free_ispace` of mm/shmem.c since 6.6), an inode is charged as [`INODE_BYTES`] of memory, and so is each
//! further link; extended attributes and long targets are charged against the same limit. So every part of a tmpfs has a limit.
use crate::slot_of;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use interfaces::file_system::{FileSystemUsage, FsError, InodeNumber, LEVEL_SLOTS};
use rt::PAGE_BYTES;

/// Memory that an inode is charged as (`BOGO_INODE_SIZE` of Linux).
pub(crate) const INODE_BYTES: u64 = 1024;

/// The greatest amount of memory that one inode may be charged if the mount has no limit of inodes. A file without a name
/// (memfd_create(2)) is limited only by its descriptor.
const INODE_BYTES_MAX: u64 = 128 << 10;

/// Value of a limit that stands for no limit.
const UNLIMITED: u64 = u64::MAX;

/// The pages and the memory of inodes that one level uses.
#[derive(Default)]
struct Used {
    pages: AtomicU64,
    inode_bytes: AtomicU64,
}

/// The limits of a mount, and what each level uses. Each level has the limits for itself, as if it were alone: an operation that
/// fails tells nothing about other levels.
pub(crate) struct Space {
    page_limit: u64,
    inode_limit: u64,
    /// The slot 0, which is the only one in a system without levels.
    first: Used,
    others: [Used; LEVEL_SLOTS - 1],
}

/// The part of the level whose process made an inode.
#[derive(Clone, Copy)]
pub(crate) struct LevelSpace<'s> {
    space: &'s Space,
    used: &'s Used,
}

impl Space {
    /// Makes the space of a mount with nothing used.
    pub(crate) fn new(size_bytes: Option<u64>, inodes: Option<u64>) -> Space {
        let frames = rt::memory::statistics().total_frames;
        let limit = |wanted: Option<u64>| match wanted {
            None => frames / 2,
            Some(0) => UNLIMITED,
            Some(most) => most,
        };
        let page_limit = limit(size_bytes.map(|bytes| bytes.div_ceil(PAGE_BYTES as u64)));
        let inode_limit = limit(inodes).saturating_mul(INODE_BYTES);
        let others = [const { Used { pages: AtomicU64::new(0), inode_bytes: AtomicU64::new(0) } };
            LEVEL_SLOTS - 1];
        Space { page_limit, inode_limit, first: Used::default(), others }
    }

    /// Returns the part of the level whose process made `inode`.
    pub(crate) fn part(&self, inode: InodeNumber) -> LevelSpace<'_> {
        let index = slot_of(inode).checked_sub(1);
        let used = index.and_then(|index| self.others.get(index)).unwrap_or(&self.first);
        LevelSpace { space: self, used }
    }

    /// Returns the usage of all levels together for `statfs`, with zeroes if there is no limit.
    pub(crate) fn usage(&self) -> FileSystemUsage {
        let used = || core::iter::once(&self.first).chain(&self.others);
        let pages: u64 = used().map(|used| used.pages.load(Relaxed)).sum();
        let inode_bytes: u64 = used().map(|used| used.inode_bytes.load(Relaxed)).sum();
        let shown = |limit: u64, used: u64| match limit {
            UNLIMITED => (0, 0),
            limit => (limit, limit.saturating_sub(used)),
        };
        let (blocks, free) = shown(self.page_limit, pages);
        let (files, files_free) = shown(self.inode_limit, inode_bytes);
        let (files, files_free) = (files / INODE_BYTES, files_free / INODE_BYTES);
        FileSystemUsage {
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

impl LevelSpace<'_> {
    /// Reserves `pages` pages.
    pub(crate) fn take_pages(self, pages: u64) -> Result<(), FsError> {
        take(&self.used.pages, pages, self.space.page_limit)
    }

    /// Releases `pages` pages.
    pub(crate) fn give_pages(self, pages: u64) {
        self.used.pages.fetch_sub(pages, Relaxed);
    }

    /// Reserves `bytes` of memory of inodes.
    pub(crate) fn take_inode_bytes(self, bytes: u64) -> Result<(), FsError> {
        take(&self.used.inode_bytes, bytes, self.space.inode_limit)
    }

    /// Releases `bytes` of memory of inodes.
    pub(crate) fn give_inode_bytes(self, bytes: u64) {
        self.used.inode_bytes.fetch_sub(bytes, Relaxed);
    }

    /// Changes the reservation of one inode in addition to its own from `charged` to `wanted`.
    ///
    /// # Errors
    /// [`FsError::NoSpace`]; nothing has changed.
    pub(crate) fn change_inode_bytes(self, charged: &mut u64, wanted: u64) -> Result<(), FsError> {
        match wanted.checked_sub(*charged) {
            Some(_) if self.space.inode_limit == UNLIMITED && wanted > INODE_BYTES_MAX => {
                return Err(FsError::NoSpace);
            }
            Some(more) => self.take_inode_bytes(more)?,
            None => self.give_inode_bytes(*charged - wanted),
        }
        *charged = wanted;
        Ok(())
    }
}

fn take(used: &AtomicU64, count: u64, limit: u64) -> Result<(), FsError> {
    let more = |now: u64| now.checked_add(count).filter(|sum| *sum <= limit);
    used.try_update(Relaxed, Relaxed, more).map(|_| ()).map_err(|_| FsError::NoSpace)
}
