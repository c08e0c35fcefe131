//! Parts of files written past the page cache, as steps of other changes.
use crate::{
    layout::{inode::Inode, map, raw::inode::FLAG_INLINE_DATA, volume::Volume},
    store::{bytes, device::Piece},
};
use core::ops::Range;
use interfaces::file_system::FsError;

/// Clears bytes of one block on the device, if it holds data.
///
/// # Errors
/// Those of [`map::map`]; errors of I/O.
pub(crate) fn clear(volume: &Volume, inode: &Inode, bytes: Range<u64>) -> Result<(), FsError> {
    if bytes.start >= bytes.end || inode.has_flag(FLAG_INLINE_DATA) {
        return Ok(());
    }
    let block_bytes = volume.geometry.block_bytes;
    let logical = bytes.start / block_bytes as u64;
    let Some(block) = map::map(volume, inode, logical, 1)?.start else { return Ok(()) };
    let mut contents = volume.store.device.read_block(block_bytes, block)?;
    let offset = (bytes.start % block_bytes as u64) as usize;
    bytes::clear(&mut contents, offset, (bytes.end - bytes.start) as usize);
    write(volume, block, &contents)
}

/// Writes a block of data past the cache.
///
/// # Errors
/// As [`crate::store::device::VolumeDevice::write`].
pub(crate) fn write(volume: &Volume, block: u64, bytes: &[u8]) -> Result<(), FsError> {
    let piece: Piece<'_> = (volume.store.area.sector(block), bytes);
    volume.store.device.write(&[piece])?;
    volume.store.log.note_written();
    Ok(())
}
