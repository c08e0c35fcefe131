//! A volume made writable.
use crate::{
    files::recovery,
    layout::{
        features::Incompat,
        groups::Groups,
        journal,
        superblock_edit::{self, Mark},
        volume::Volume,
    },
    store::journal::{Journal, write::Format},
    transactions::mount::Mount,
};
use interfaces::file_system::FsError;

/// Makes the volume writable: loads journal, groups and orphans.
///
/// # Errors
/// [`FsError::ReadOnly`] if the device, the volume's features or its errors forbid it; errors of reading and
/// writing.
pub(crate) fn make_writable(mount: &Mount) -> Result<(), FsError> {
    let volume = &mount.volume;
    let geometry = &volume.geometry;
    // A later replay of the journal would undo writes past it.
    if volume.store.device.is_read_only() || geometry.forbids_writing || geometry.needs_recovery {
        return Err(FsError::ReadOnly);
    }
    volume.store.device.reserve_frames()?;
    if volume.groups().is_err() {
        // Both are set or neither: a volume with a journal is not written past it.
        let groups = Groups::load(&volume.store, geometry)?;
        if geometry.has_journal() {
            volume.store.log.set_journal(open_journal(volume)?);
        }
        volume.set_groups(groups);
    }
    volume.store.health.allow()?;
    superblock_edit::mark(volume, Mark::Mounted).inspect_err(|_| volume.store.health.forbid())?;
    clean_orphans(mount)
}

/// Frees the inodes that a crash left without names, unless the volume has errors: then `e2fsck` is to check it
/// first.
fn clean_orphans(mount: &Mount) -> Result<(), FsError> {
    let volume = &mount.volume;
    let name = volume.store.device.name();
    let first = core::mem::take(&mut *mount.orphans_found.lock());
    // A change that is committed before the list is loaded would end the list on the volume.
    recovery::load(volume, first).inspect_err(|error| {
        log::error!("ext4: {name}: orphans: {error:?}");
        *mount.orphans_found.lock() = first;
        volume.store.health.forbid();
    })?;
    if volume.store.health.has_errors() {
        if first != 0 {
            log::warn!("ext4: {name}: the volume has errors: its orphans stay for e2fsck");
        }
        return Ok(());
    }
    match recovery::clean(mount, first) {
        Ok(0) => {}
        Ok(count) => log::info!("ext4: {name}: {count} orphans freed"),
        Err(error) => log::warn!("ext4: {name}: orphans: {error:?}"),
    }
    Ok(())
}

/// Opens the journal for writing; `None` if it is too short.
fn open_journal(volume: &Volume) -> Result<Option<Journal>, FsError> {
    let mut journal = journal::open(volume)?;
    if !journal.is_usable() {
        return Ok(None);
    }
    volume.store.log.set_limit(journal.capacity() as usize / 4);
    let is_wide = volume.geometry.incompat.contains(Incompat::WIDE);
    let format = Format { is_wide, has_checksums: volume.geometry.has_checksums() };
    journal.prepare(&volume.store.device, format)?;
    Ok(Some(journal))
}
