//! Writing everything that a mounted file system has not on storage yet: sync(2), syncfs(2), remounting, unmounting.
use super::{Instance, instances};
use crate::{base::errno::Errno, pages::cache::WHOLE, tree::vnode::Vnode};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::Ordering;
use interfaces::file_system::MountAccess;

impl Instance {
    /// Writes everything: dirty pages, attributes, and changes that the file system holds.
    ///
    /// # Errors
    /// The first failure of the file system; errors of pages are kept for fsync and syncfs.
    pub fn sync(&self) -> Result<(), Errno> {
        let Some(fs) = self.fs.as_ref().filter(|_| !self.is_read_only()) else { return Ok(()) };
        let written = self.write_listed();
        written.and(fs.sync().map_err(Errno::from))
    }
    /// Passes changes that are not on storage yet to the file system: dirty pages, attributes.
    fn write_listed(&self) -> Result<(), Errno> {
        // The vnodes come in the order in which they became dirty. Files made one after the other are next to each other
        // on storage, and so are their inodes: fewer blocks change in a transaction.
        for vnode in self.flusher.batches().flatten() {
            vnode.pages().map(|pages| pages.start_writes(WHOLE));
        }
        let mut result = Ok(());
        self.flusher.take_all(|batch| {
            write_and_wait(batch);
            for vnode in batch {
                let flushed = vnode.flush();
                if flushed.is_err() || vnode.pages().is_some_and(|pages| pages.is_dirty()) {
                    vnode.enlist();
                }
                result = result.and(flushed);
            }
        });
        result
    }
    /// Makes it read-only or writable (`MS_REMOUNT`).
    ///
    /// # Errors
    /// `EBUSY` while a file is open for writing; `EROFS` if the medium forbids writing; `EIO`.
    pub(crate) fn remount(&self, access: MountAccess) -> Result<(), Errno> {
        let Some(fs) = &self.fs else { return Ok(()) };
        if access == MountAccess::Writable {
            fs.remount(access)?;
            self.is_read_only.store(false, Ordering::Relaxed);
            return Ok(());
        }
        if self.refuses_changes() {
            self.is_read_only.store(true, Ordering::Relaxed);
            return Ok(());
        }
        let told = self.sync();
        // From here on no file is opened for writing; files opened before are seen by the check.
        self.is_read_only.store(true, Ordering::Relaxed);
        let is_written = self.written.load(Ordering::Acquire) > 0;
        let result = match is_written {
            true => Err(Errno::EBUSY),
            false => told.and(fs.remount(access).map_err(Errno::from)),
        };
        if result.is_err() {
            self.is_read_only.store(false, Ordering::Relaxed);
        }
        result
    }
}

/// Writes the current dirty pages of `vnodes`.
fn write_and_wait(vnodes: &[Arc<Vnode>]) {
    let pages = || vnodes.iter().filter_map(|vnode| vnode.pages());
    let passed: Vec<_> = pages().filter(|pages| pages.start_writes(WHOLE)).collect();
    pages().for_each(|pages| pages.wait_written(WHOLE));
    passed.into_iter().for_each(|pages| pages.write_and_wait(WHOLE));
}

/// Makes every file system write its pending changes.
///
/// # Errors
/// The first failure; the other file systems are written all the same.
pub fn sync_all() -> Result<(), Errno> {
    let mut result = Ok(());
    for instance in instances() {
        result = result.and(instance.sync());
    }
    result
}
