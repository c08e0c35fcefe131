//! [`VolumeArea`]: the blocks of a volume.
use interfaces::block::SECTOR_BYTES;

/// The blocks of a volume on its device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VolumeArea {
    /// Bytes of a block: 1024, 2048 or 4096.
    pub(crate) block_bytes: usize,
    /// The first block behind that of the superblock.
    pub(crate) first: u64,
    /// The number of blocks.
    pub(crate) end: u64,
}

impl VolumeArea {
    /// Blocks `start ..` of that many lie on the volume, behind the superblock.
    pub(crate) fn holds(&self, start: u64, count: u64) -> bool {
        start >= self.first && start.checked_add(count).is_some_and(|end| end <= self.end)
    }

    /// The first sector of a block.
    pub(crate) fn sector(&self, block: u64) -> u64 {
        block * (self.block_bytes / SECTOR_BYTES) as u64
    }
}
