//! The journal (jbd2): its place, its own superblock, and the format of its checksums.
//!
//! [`replay`] puts what a volume's journal holds in place when it is mounted, after [`scan`] has found where it ends
//! and that nothing of it is damaged; [`mod@write`] appends transactions. Blocks of the log form a ring from `first` to `length`.
//!
//! Source: Linux fs/jbd2, Documentation/filesystems/ext4/journal.rst.
mod format;
pub(crate) mod replay;
mod scan;
pub(crate) mod write;

use crate::store::{
    area::VolumeArea,
    bytes::{big32, put_big32},
    checksum::crc32c,
    device::VolumeDevice,
};
use alloc::vec::Vec;
use format::*;
use interfaces::file_system::FsError;

/// Fewest blocks of a log that is used for transactions.
const LOG_BLOCKS_MIN: u32 = 256;

/// The kind of checksum that protects the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checksums {
    None,
    /// One checksum for a whole transaction, in its commit block. Supported for reading only.
    V1,
    V2,
    V3,
}

impl Checksums {
    /// Returns whether each block of the log, and the superblock, has a checksum.
    fn are_of_blocks(self) -> bool {
        matches!(self, Checksums::V2 | Checksums::V3)
    }
}

/// The blocks of the volume that a journal takes.
pub(crate) struct Location {
    /// Consecutive pieces of the journal: first block on the volume, and number of blocks.
    pub(crate) runs: Vec<(u64, u64)>,
    /// Their sum.
    pub(crate) blocks: u64,
    /// The volume's blocks.
    pub(crate) area: VolumeArea,
}

/// The journal of a volume.
pub(crate) struct Journal {
    /// As in [`Location`].
    runs: Vec<(u64, u64)>,
    area: VolumeArea,
    /// The journal's superblock as it is on the device.
    raw: Vec<u8>,
    checksums: Checksums,
    /// Commit blocks may be on the device before the blocks that they commit.
    is_asynchronous: bool,
    is_wide: bool,
    seed: u32,
    /// First block of the log, and the one after its last.
    first: u32,
    end: u32,
    /// Block where the next transaction begins.
    head: u32,
    /// Number of the next transaction.
    sequence: u32,
    /// Number of blocks between the log's tail and its head.
    used: u32,
}

impl Journal {
    /// The journal that lies at `location`.
    ///
    /// # Errors
    /// [`FsError::Corrupt`] if it is malformed, [`FsError::Unsupported`] for unknown features; errors of reading it.
    pub(crate) fn open(device: &VolumeDevice, location: Location) -> Result<Journal, FsError> {
        let (start, _) = *location.runs.first().ok_or(FsError::Corrupt)?;
        let mut raw = device.read_block(location.area.block_bytes, start)?;
        raw.truncate(SUPERBLOCK_BYTES);
        Journal::decode(location, raw)
    }

    fn decode(location: Location, raw: Vec<u8>) -> Result<Journal, FsError> {
        let word = |offset| big32(&raw, offset).ok_or(FsError::Corrupt);
        let is_known = word(0)? == MAGIC && SUPERBLOCKS.contains(&word(4)?);
        if !is_known || word(BLOCK_BYTES_OFFSET)? as usize != location.area.block_bytes {
            return Err(FsError::Corrupt);
        }
        let incompat = if word(4)? == SUPERBLOCKS[1] { word(INCOMPAT_OFFSET)? } else { 0 };
        let known = FEATURE_REVOKE
            | FEATURE_WIDE
            | FEATURE_ASYNC_COMMIT
            | FEATURE_CHECKSUM_V2
            | FEATURE_CHECKSUM_V3;
        if incompat & !known != 0 {
            return Err(FsError::Unsupported);
        }
        let (first, end) = (word(FIRST_OFFSET)?, word(LENGTH_OFFSET)?);
        if first == 0 || first >= end || u64::from(end) > location.blocks {
            return Err(FsError::Corrupt);
        }
        let compat = if word(4)? == SUPERBLOCKS[1] { word(COMPAT_OFFSET)? } else { 0 };
        let has_v1 = compat & FEATURE_CHECKSUM_V1 != 0;
        let checksums = match (incompat & (FEATURE_CHECKSUM_V2 | FEATURE_CHECKSUM_V3), has_v1) {
            (0, false) => Checksums::None,
            (0, true) => Checksums::V1,
            (FEATURE_CHECKSUM_V2, false) => Checksums::V2,
            (FEATURE_CHECKSUM_V3, false) => Checksums::V3,
            _ => return Err(FsError::Corrupt),
        };
        if checksums.are_of_blocks() && super_checksum(&raw) != word(CHECKSUM_OFFSET)? {
            return Err(FsError::Corrupt);
        }
        let uuid = raw.get(UUID_OFFSET..UUID_OFFSET + UUID_BYTES).unwrap_or(&[]);
        Ok(Journal {
            seed: crc32c(!0, uuid),
            sequence: word(SEQUENCE_OFFSET)?,
            head: first,
            used: 0,
            is_asynchronous: incompat & FEATURE_ASYNC_COMMIT != 0,
            is_wide: incompat & FEATURE_WIDE != 0,
            runs: location.runs,
            area: location.area,
            checksums,
            first,
            end,
            raw,
        })
    }

    /// Returns whether it is long enough for transactions to be written to it.
    pub(crate) fn is_usable(&self) -> bool {
        self.end - self.first >= LOG_BLOCKS_MIN
    }

    /// Returns the start of the log to be replayed; zero if it is empty.
    fn start(&self) -> u32 {
        big32(&self.raw, START_OFFSET).unwrap_or(0)
    }

    /// Returns the number of blocks of the log.
    pub(crate) fn capacity(&self) -> u32 {
        self.end - self.first
    }

    /// Returns the number on the volume of block `at` of the journal.
    fn place(&self, at: u32) -> Result<u64, FsError> {
        let mut left = u64::from(at);
        for (start, count) in &self.runs {
            if left < *count {
                return Ok(start + left);
            }
            left -= count;
        }
        Err(FsError::Corrupt)
    }

    /// Returns the block of the log that is `blocks` blocks behind `at`.
    fn after(&self, at: u32, blocks: u32) -> u32 {
        self.first + (at - self.first + blocks) % self.capacity()
    }

    /// Returns the length of a tag in bytes, and of the checksum in it.
    fn tag_bytes(&self) -> usize {
        match (self.checksums, self.is_wide) {
            (Checksums::V3, _) => TAG_V3_BYTES,
            (checksums, is_wide) => {
                8 + if is_wide { 4 } else { 0 } + if checksums == Checksums::V2 { 2 } else { 0 }
            }
        }
    }

    /// Returns the number of bytes at the end of descriptors and revoke blocks that hold their checksum.
    fn tail_bytes(&self) -> usize {
        if self.checksums.are_of_blocks() { TAIL_BYTES } else { 0 }
    }

    /// Computes the checksum of a logged block.
    fn block_checksum(&self, sequence: u32, bytes: &[u8]) -> u32 {
        crc32c(crc32c(self.seed, &sequence.to_be_bytes()), bytes)
    }

    /// Writes the journal's superblock, which says that the log begins at `start` with `sequence`.
    fn write_super(
        &mut self,
        device: &VolumeDevice,
        start: u32,
        sequence: u32,
    ) -> Result<(), FsError> {
        put_big32(&mut self.raw, START_OFFSET, start);
        put_big32(&mut self.raw, SEQUENCE_OFFSET, sequence);
        if self.checksums.are_of_blocks() {
            let sum = super_checksum(&self.raw);
            put_big32(&mut self.raw, CHECKSUM_OFFSET, sum);
        }
        device.write(&[(self.area.sector(self.place(0)?), &self.raw)])
    }
}

fn super_checksum(raw: &[u8]) -> u32 {
    let mut copy = raw.to_vec();
    put_big32(&mut copy, CHECKSUM_OFFSET, 0);
    crc32c(!0, &copy)
}
