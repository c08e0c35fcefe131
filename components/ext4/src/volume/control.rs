//! Operations on the mount as a whole: sync, remount read-only or writable, unmount, and reporting free space to
//! the device.
use crate::{
    layout::{
        groups::blocks,
        inode_table::LiveInode,
        superblock_edit::{self, Mark},
    },
    transactions::mount::Mount,
    volume::{background, ext4::Ext4, writable::make_writable},
};
use interfaces::{
    block::SECTOR_BYTES,
    file_system::{FsError, MountAccess, SyncKind},
};

impl Ext4 {
    /// Makes everything durable.
    pub(crate) fn sync_all(&self) -> Result<(), FsError> {
        self.make_durable(Mount::sync)
    }

    /// Makes everything durable by `how`, and marks errors on the volume.
    fn make_durable(&self, how: fn(&Mount) -> Result<(), FsError>) -> Result<(), FsError> {
        if self.mount.volume.groups().is_err() {
            return Ok(());
        }
        let result = how(&self.mount);
        if self.mount.volume.store.health.has_errors() {
            // The transaction that would have set the mark may never end.
            superblock_edit::mark(&self.mount.volume, Mark::Errors)?;
        }
        result
    }

    /// Makes the changes of one inode durable.
    pub(crate) fn sync_node(&self, node: &LiveInode, _kind: SyncKind) -> Result<(), FsError> {
        if self.mount.volume.groups().is_err() {
            return Ok(());
        }
        let result = self.mount.commit_inode(node.last_change(), node.last_kept());
        result.inspect_err(|_| self.mount.let_go())
    }

    /// Writes everything and marks the volume as unmounted; no writes may follow.
    pub(crate) fn leave(&self) -> Result<(), FsError> {
        let volume = &self.mount.volume;
        if volume.groups().is_err() || volume.store.health.check_writable().is_err() {
            return if volume.store.health.has_failed() { self.sync_all() } else { Ok(()) };
        }
        volume.store.health.forbid();
        self.make_durable(Mount::settle_all)?;
        superblock_edit::mark(volume, Mark::Left)
    }

    /// Changes the access of the mount.
    pub(crate) fn change_access(&self, access: MountAccess) -> Result<(), FsError> {
        match access {
            MountAccess::ReadOnly => self.leave(),
            MountAccess::Writable if self.mount.volume.store.health.check_writable().is_ok() => {
                Ok(())
            }
            MountAccess::Writable => {
                make_writable(&self.mount)?;
                background::start(&self.mount, self.commit_ns);
                Ok(())
            }
        }
    }

    /// Tells the device of free blocks.
    pub(crate) fn discard_free(
        &self,
        start: u64,
        length: u64,
        minimum: u64,
    ) -> Result<u64, FsError> {
        let volume = &self.mount.volume;
        let geometry = &volume.geometry;
        if !volume.store.device.has_discard() {
            return Err(FsError::Unsupported);
        }
        volume.store.health.check_writable()?;
        // Space that is free only since the last commit must stay readable until that is durable.
        self.mount.settle_all()?;
        let block_bytes = geometry.block_bytes as u64;
        let first = start.div_ceil(block_bytes);
        let end = start.saturating_add(length) / block_bytes;
        let minimum = minimum.div_ceil(block_bytes).max(1);
        let sectors = block_bytes / SECTOR_BYTES as u64;
        let mut told = 0;
        for number in 0..volume.groups()?.count() {
            blocks::with_free_runs(volume, number, first..end, minimum, |run, count| {
                volume.store.device.discard(run * sectors, count * sectors)?;
                told += count * block_bytes;
                Ok(())
            })?;
        }
        Ok(told)
    }
}
