//! Write-back of a vnode: while storage lacks data or attributes of it, its file system's flusher lists it.
use super::Vnode;
use crate::{
    base::{errno::Errno, principal::Principal},
    pages::{cache::WHOLE, flush::WriteBack},
};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use interfaces::file_system::{Backing, InodeNumber, SyncKind};

impl WriteBack for Vnode {
    fn inode(&self) -> InodeNumber {
        self.inode
    }
    fn listed_ns(&self) -> &AtomicU64 {
        &self.listed_ns
    }
    /// Starts writing its dirty pages, and tells the file system its attributes.
    fn start_write_back(&self) {
        let is_started = self.pages.as_ref().is_none_or(|pages| pages.try_start_writes());
        if !is_started || self.flush().is_err() {
            self.enlist();
        }
    }
    fn end_write_back(&self) -> bool {
        let Some(pages) = &self.pages else { return true };
        pages.wait_written(WHOLE);
        let is_dirty = pages.is_dirty();
        if is_dirty {
            self.enlist();
        }
        !is_dirty
    }
}

impl Vnode {
    /// Puts it on the flusher's list, which holds it until its changes are written.
    pub(crate) fn enlist(&self) {
        if self.instance.info().backing == Backing::Storage
            && self.node.is_none()
            && self.listed_ns.load(Ordering::Relaxed) == 0
            && let Some(myself) = self.instance.find(self.inode)
        {
            let links = self.links();
            self.instance.flusher().enlist(&myself, links);
        }
    }
    /// Makes its contents durable, and its attributes according to `kind`.
    ///
    /// # Errors
    /// Errors of the file system; errors of writing pages are asked of `PageCache::check`.
    pub(crate) fn sync(&self, kind: SyncKind) -> Result<(), Errno> {
        let fs = self.instance.file_system()?;
        // A file system that lives in the caches has nowhere to write to.
        if self.instance.is_read_only() || self.instance.is_kept() {
            return Ok(());
        }
        let flushed = if kind == SyncKind::All { self.flush() } else { Ok(()) };
        let Some(pages) = &self.pages else {
            flushed?;
            return Ok(fs.sync_inode(self.inode, kind)?);
        };
        let is_along = flushed.is_ok() && pages.write_along();
        if !is_along {
            pages.write_and_wait(WHOLE);
            flushed?;
        }
        // Pages written along with others may complete only at the end: between the start of the write and this call
        // nothing waits.
        let result = fs.sync_inode(self.inode, kind);
        if is_along {
            pages.wait_written(WHOLE);
        }
        Ok(result?)
    }
}

impl Vnode {
    /// Drops a use of the vnode on behalf of `caller`. If no other is left and the file has no name, its dirty pages end
    /// with it, and the caller is charged for their cancelled writes. A use that is dropped otherwise charges nobody: such
    /// are the last mapping of a file, and a description that was in a message. Nor is anybody charged if the last two uses
    /// are dropped at the same time.
    #[inline]
    pub(crate) fn release_for(self: Arc<Self>, caller: &dyn Principal) {
        if let Some(pages) = &self.pages
            && pages.backing() == Backing::Storage
            && Arc::strong_count(&self) == 1
            && self.links() == 0
        {
            pages.charge_lost(caller);
        }
    }
}

impl Drop for Vnode {
    fn drop(&mut self) {
        if self.node.is_some() {
            return;
        }
        if self.instance.is_kept() {
            return self.end_kept();
        }
        self.instance.flusher().delist(self);
        let has_name = self.links() > 0;
        if let Some(pages) = &self.pages {
            if has_name && pages.backing() == Backing::Storage {
                pages.write_and_wait(WHOLE);
            }
            pages.wait_idle();
            pages.release();
        }
        if has_name && self.flush().is_err() {
            log::warn!("vfs: attributes of inode {} were lost", self.inode);
        }
        self.instance.release(self.inode, self.counts.load(Ordering::Acquire));
    }
}
