//! Inline data: the first 60 bytes in the inode's body, the rest in the attribute `system.data`.
use crate::{
    layout::{inode::Inode, raw::inode::BODY_BYTES, volume::Volume},
    names::xattr,
};
use alloc::vec::Vec;
use interfaces::file_system::FsError;

/// Returns all bytes that the inode holds, at most an inode's size; not cut at the file's size.
pub(crate) fn load(volume: &Volume, inode: &Inode) -> Result<Vec<u8>, FsError> {
    let rest = xattr::inline_value(volume, inode)?.unwrap_or_default();
    let mut bytes = Vec::with_capacity(BODY_BYTES + rest.len());
    bytes.extend_from_slice(&inode.body);
    bytes.extend_from_slice(&rest);
    Ok(bytes)
}

/// Returns the data of a file: exactly as many bytes as its size.
pub(crate) fn load_sized(volume: &Volume, inode: &Inode) -> Result<Vec<u8>, FsError> {
    let mut bytes = load(volume, inode)?;
    let size = usize::try_from(inode.attributes.size).map_err(|_| FsError::Corrupt)?;
    if size > bytes.len() {
        return Err(FsError::Corrupt);
    }
    bytes.truncate(size);
    Ok(bytes)
}
