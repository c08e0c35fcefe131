//! Symbolic links: the target in the inode's body, in inline data, or in a block.
use crate::{
    layout::{
        inode::Inode,
        map,
        raw::inode::{BODY_BYTES, FLAG_EXTENTS, FLAG_INLINE_DATA},
        volume::Volume,
    },
    names::inline,
};
use alloc::vec::Vec;
use interfaces::file_system::{FileType, FsError};

/// Returns the target.
///
/// # Errors
/// [`FsError::Invalid`] if the inode is not a symbolic link, [`FsError::Corrupt`] for an empty or
/// impossible target.
pub(crate) fn target(volume: &Volume, inode: &Inode) -> Result<Vec<u8>, FsError> {
    if inode.attributes.file_type != FileType::Symlink {
        return Err(FsError::Invalid);
    }
    let length = usize::try_from(inode.attributes.size).map_err(|_| FsError::Corrupt)?;
    let target = if inode.has_flag(FLAG_INLINE_DATA) {
        inline::load_sized(volume, inode)?
    } else if length < BODY_BYTES && !inode.has_flag(FLAG_EXTENTS) {
        inode.body.get(..length).unwrap_or(&[]).to_vec()
    } else {
        let start = map::map(volume, inode, 0, 1)?.start.ok_or(FsError::Corrupt)?;
        volume.store.block(start)?.bytes().get(..length).ok_or(FsError::Corrupt)?.to_vec()
    };
    if target.is_empty() || target.contains(&0) { Err(FsError::Corrupt) } else { Ok(target) }
}
