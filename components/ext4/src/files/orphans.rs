//! Inodes put on the list of orphans, and taken off ([`crate::layout::orphans`]).
use crate::{
    layout::{inode::Inode, inode_store::store_link, volume::Volume},
    store::log::Operation,
};
use interfaces::file_system::FsError;

/// Adds an inode to the list; the caller stores it.
///
/// # Errors
/// [`FsError::ReadOnly`].
pub(crate) fn add(volume: &Volume, inode: &mut Inode) -> Result<(), FsError> {
    if volume.store.log.has_journal() {
        volume.groups()?.orphans.push(inode.number);
    } else {
        inode.deleted = (rt::time::wall_ns() / 1_000_000_000) as u32;
    }
    Ok(())
}

/// Removes an inode from the list; the caller stores it.
///
/// # Errors
/// Errors of storing its neighbour.
pub(crate) fn remove(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
) -> Result<(), FsError> {
    inode.deleted = 0;
    match volume.groups()?.orphans.take(inode.number) {
        Some(previous) => store_link(volume, operation, previous),
        None => Ok(()),
    }
}
