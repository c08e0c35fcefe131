//! A volume: its geometry, and its metadata blocks through the cache.
use crate::{
    cache::{BlockRef, Cache},
    device::Device,
    superblock::Geometry,
};
use interfaces::file_system::FsError;
use rt::PAGE_BYTES;

/// What every part of the file system reads through.
pub(crate) struct Volume {
    /// The superblock, checked.
    pub(crate) geometry: Geometry,
    /// The device below.
    pub(crate) device: Device,
    cache: Cache,
}

impl Volume {
    /// A volume on `device`.
    pub(crate) fn new(geometry: Geometry, device: Device, cache: Cache) -> Volume {
        Volume { geometry, device, cache }
    }

    /// A metadata block.
    ///
    /// # Errors
    /// [`FsError::Corrupt`] where the volume has no such block; `Io`, `NoMemory`, `Restarted`.
    pub(crate) fn block(&self, number: u64) -> Result<BlockRef, FsError> {
        if !self.geometry.holds(number, 1) {
            return Err(FsError::Corrupt);
        }
        self.part(number, 0, self.geometry.block_bytes, 1)
    }

    /// `length` bytes at `offset` of a block, on a miss with `ahead` chunks read at once. They
    /// must not pass a chunk's end, which parts of one block do not.
    pub(crate) fn part(
        &self,
        block: u64,
        offset: usize,
        length: usize,
        ahead: u64,
    ) -> Result<BlockRef, FsError> {
        let start = block
            .checked_mul(self.geometry.block_bytes as u64)
            .and_then(|start| start.checked_add(offset as u64))
            .ok_or(FsError::Corrupt)?;
        let page = PAGE_BYTES as u64;
        let chunk = self.cache.get(&self.device, start / page, ahead)?;
        Ok(BlockRef::new(chunk, (start % page) as usize, length))
    }
}
