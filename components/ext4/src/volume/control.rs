//! The mount as a whole: made durable, read-only, writable again, left; free space told to the device.
use crate::{
    files::orphans,
    layout::{
        groups::{Groups, blocks},
        inode_table::Node,
        superblock_edit::{self, Mark},
        volume::Volume,
    },
    store::journal::Journal,
    volume::{background, mount::Ext4},
};
use interfaces::{
    block::SECTOR_BYTES,
    file_system::{Access, FsError, SyncKind},
};

/// Makes the volume writable: journal, groups, orphans.
///
/// # Errors
/// [`FsError::ReadOnly`] where the device, the volume's features or its errors forbid it; what
/// reading and writing met.
pub(crate) fn make_writable(volume: &Volume) -> Result<(), FsError> {
    let geometry = &volume.geometry;
    // A later replay of the journal would undo writes past it.
    if volume.device.is_read_only() || geometry.forbids_writing || geometry.needs_recovery {
        return Err(FsError::ReadOnly);
    }
    volume.device.reserve_frames()?;
    if volume.groups().is_err() {
        // Both or neither: what has a journal is not written past it.
        let groups = Groups::load(volume)?;
        if volume.geometry.has_journal() {
            volume.log.set_journal(open_journal(volume)?);
        }
        volume.set_groups(groups);
    }
    volume.health.allow()?;
    superblock_edit::mark(volume, Mark::Mounted).inspect_err(|_| volume.health.forbid())?;
    clean_orphans(volume)
}

/// Frees the inodes that a crash left without names, unless the volume has errors: then `e2fsck` is to look first.
fn clean_orphans(volume: &Volume) -> Result<(), FsError> {
    let name = volume.device.name();
    let first = core::mem::take(&mut *volume.orphans_found.lock());
    // A change that is committed before the list is loaded would end the list on the volume.
    orphans::load(volume, first).inspect_err(|error| {
        log::error!("ext4: {name}: orphans: {error:?}");
        *volume.orphans_found.lock() = first;
        volume.health.forbid();
    })?;
    if volume.health.has_errors() {
        if first != 0 {
            log::warn!("ext4: {name}: the volume has errors: its orphans stay for e2fsck");
        }
        return Ok(());
    }
    match orphans::clean(volume, first) {
        Ok(0) => {}
        Ok(count) => log::info!("ext4: {name}: {count} orphans freed"),
        Err(error) => log::warn!("ext4: {name}: orphans: {error:?}"),
    }
    Ok(())
}

/// The journal, to be written; `None` where it is too short.
fn open_journal(volume: &Volume) -> Result<Option<Journal>, FsError> {
    let mut journal = Journal::open(volume)?;
    if !journal.is_usable() {
        return Ok(None);
    }
    volume.log.set_limit(journal.capacity() as usize / 4);
    journal.prepare(volume)?;
    Ok(Some(journal))
}

impl Ext4 {
    /// Everything is durable.
    pub(crate) fn sync_all(&self) -> Result<(), FsError> {
        self.make_durable(Volume::sync)
    }

    /// Has `how` make everything durable, and errors known.
    fn make_durable(&self, how: fn(&Volume) -> Result<(), FsError>) -> Result<(), FsError> {
        if self.volume.groups().is_err() {
            return Ok(());
        }
        let result = how(&self.volume);
        if self.volume.health.has_errors() {
            // The transaction that would have said so may never end.
            superblock_edit::mark(&self.volume, Mark::Errors)?;
        }
        result
    }

    /// Makes the changes of one inode durable.
    pub(crate) fn sync_node(&self, node: &Node, _kind: SyncKind) -> Result<(), FsError> {
        if self.volume.groups().is_err() {
            return Ok(());
        }
        let result = self.volume.commit_inode(node.last_change(), node.last_kept());
        result.inspect_err(|_| self.volume.let_go())
    }

    /// Writes everything and leaves the volume; nothing may be written after.
    pub(crate) fn leave(&self) -> Result<(), FsError> {
        let volume = &self.volume;
        if volume.groups().is_err() || volume.health.check_writable().is_err() {
            return if volume.health.has_failed() { self.sync_all() } else { Ok(()) };
        }
        volume.health.forbid();
        self.make_durable(Volume::settle_all)?;
        superblock_edit::mark(volume, Mark::Left)
    }

    /// Changes what the mount may do.
    pub(crate) fn change_access(&self, access: Access) -> Result<(), FsError> {
        match access {
            Access::ReadOnly => self.leave(),
            Access::Writable if self.volume.health.check_writable().is_ok() => Ok(()),
            Access::Writable => {
                make_writable(&self.volume)?;
                background::start(&self.volume, self.commit_ns);
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
        let (volume, geometry) = (&self.volume, &self.volume.geometry);
        if !volume.device.has_discard() {
            return Err(FsError::Unsupported);
        }
        volume.health.check_writable()?;
        // Space that is free only since the last commit must stay readable until that is durable.
        volume.settle_all()?;
        let block_bytes = geometry.block_bytes as u64;
        let first = start.div_ceil(block_bytes);
        let end = start.saturating_add(length) / block_bytes;
        let minimum = minimum.div_ceil(block_bytes).max(1);
        let sectors = block_bytes / SECTOR_BYTES as u64;
        let mut told = 0;
        for number in 0..volume.groups()?.count() {
            blocks::with_free_runs(volume, number, first..end, minimum, |run, count| {
                volume.device.discard(run * sectors, count * sectors)?;
                told += count * block_bytes;
                Ok(())
            })?;
        }
        Ok(told)
    }
}
