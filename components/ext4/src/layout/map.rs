//! The mapping from a file's blocks to the volume's: runs of either type of tree.
use crate::layout::{
    extent, indirect, inode::Inode, raw::inode::FLAG_EXTENTS, run::Run, volume::Volume,
};
use interfaces::file_system::FsError;

/// Returns the run that begins with block `logical`, at most `max` blocks long.
///
/// # Errors
/// [`FsError::Corrupt`] where the tree makes no sense or leaves the volume; as [`crate::store::Store::block`].
pub(crate) fn map(volume: &Volume, inode: &Inode, logical: u64, max: u64) -> Result<Run, FsError> {
    let mut run = match u32::try_from(logical) {
        Err(_) => Run::hole(max),
        Ok(logical) if inode.has_flag(FLAG_EXTENTS) => extent::map(volume, inode, logical)?,
        Ok(logical) => indirect::map(volume, inode, logical, max)?,
    };
    run.blocks = run.blocks.clamp(1, max.max(1));
    if run.start.is_some_and(|start| !volume.geometry.holds(start, run.blocks)) {
        return Err(FsError::Corrupt);
    }
    Ok(run)
}
