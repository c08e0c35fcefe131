//! Replay of a journal: the blocks of its committed transactions are written in place, the newest version of each
//! block, unless a later transaction revoked it.
//!
//! First the end of the log is found ([`super::scan`]). Then there are two passes over the log up to the end: the first
//! remembers the transaction up to which each block is revoked, the second checks each logged block and remembers the
//! place of its newest version. Only then is anything written. The work is bounded by the log's length.
use super::{Checksums, Journal, format::*};
use crate::store::{
    bytes::{big32, put_big32},
    device::{ChunkBytes, VolumeDevice},
};
use alloc::{collections::BTreeMap, vec::Vec};
use interfaces::file_system::FsError;
use rt::{PAGE_BYTES, memory::Charge};

/// A logged block of a transaction.
pub(super) struct Tag {
    block: u64,
    flags: u32,
    checksum: u32,
}

/// The place of the newest version of a block.
#[derive(Clone, Copy)]
struct Version {
    at: u32,
    is_escaped: bool,
}

/// Memory charge of one recorded block.
const REMEMBERED_BYTES: usize = 64;
/// Chunks that are read at once when the log is scanned.
const CHUNKS_AT_ONCE: u64 = 64;

/// The blocks found in the transactions so far.
struct Found {
    versions: BTreeMap<u64, Version>,
    /// Last transaction that revoked a block.
    revoked: BTreeMap<u64, u32>,
    charge: Charge,
}

impl Found {
    /// Charges memory, because the log decides how much must be remembered.
    fn pay(&mut self) -> Result<(), FsError> {
        let bytes = (self.versions.len() + self.revoked.len()) * REMEMBERED_BYTES;
        let missing = bytes.saturating_sub(self.charge.bytes());
        self.charge.grow(missing).map_err(|_| FsError::NoMemory)
    }

    fn is_revoked(&self, block: u64, sequence: u32) -> bool {
        // Sequence numbers wrap around.
        self.revoked.get(&block).is_some_and(|by| by.wrapping_sub(sequence) as i32 >= 0)
    }
}

impl Journal {
    /// Writes all blocks of the journal in place, and empties it. Returns the number of blocks written.
    ///
    /// # Errors
    /// [`FsError::Corrupt`], with nothing written, if a committed transaction is damaged or a logged block is outside
    /// the volume; errors of I/O.
    pub(crate) fn replay(
        &mut self,
        device: &VolumeDevice,
        mount_seconds: u32,
    ) -> Result<u64, FsError> {
        let start = self.start();
        if start == 0 {
            return Ok(0);
        }
        if start < self.first || start >= self.end {
            return Err(FsError::Corrupt);
        }
        let end = self.find_end(device, (start, mount_seconds))?;
        let found = self.find(device, (start, end))?;
        for (block, version) in &found.versions {
            let mut bytes = self.read(device, version.at)?;
            if version.is_escaped {
                put_big32(&mut bytes, 0, MAGIC);
            }
            device.write(&[(self.area.sector(*block), &bytes)])?;
        }
        device.flush()?;
        self.sequence = end.wrapping_add(1);
        self.write_super(device, 0, self.sequence)?;
        device.flush()?;
        Ok(found.versions.len() as u64)
    }

    pub(super) fn read(&self, device: &VolumeDevice, at: u32) -> Result<Vec<u8>, FsError> {
        device.read_block(self.area.block_bytes, self.place(at)?)
    }

    /// Reports the place at which the log is damaged.
    pub(super) fn damage(&self, device: &VolumeDevice, sequence: u32, at: u32) -> FsError {
        let name = device.name();
        log::error!(
            "ext4: {name}: journal: wrong checksum in block {at}, of transaction {sequence}, \
             which was committed: not replayed, e2fsck is needed"
        );
        FsError::Corrupt
    }

    /// Finds the logged and the revoked blocks in the log from `start` until transaction `end`.
    fn find(&self, device: &VolumeDevice, (start, end): (u32, u32)) -> Result<Found, FsError> {
        let (versions, revoked) = (BTreeMap::new(), BTreeMap::new());
        let mut found = Found { versions, revoked, charge: Charge::none() };
        self.walk(device, (start, end), |kind, bytes, (_, sequence)| {
            if kind == REVOKE {
                self.take_revoked(bytes, sequence, &mut found)?;
            }
            found.pay()
        })?;
        self.walk(device, (start, end), |kind, bytes, place| {
            if kind == DESCRIPTOR {
                self.take_tags(device, bytes, place, &mut found)?;
            }
            found.pay()
        })?;
        Ok(found)
    }

    /// Calls `visit` with the log's own blocks until transaction `end`: type, bytes, and the place behind the block,
    /// with the transaction.
    fn walk(
        &self,
        device: &VolumeDevice,
        (start, end): (u32, u32),
        mut visit: impl FnMut(u32, &[u8], (u32, u32)) -> Result<(), FsError>,
    ) -> Result<(), FsError> {
        let (mut at, mut sequence) = (start, self.sequence);
        while sequence != end {
            let bytes = self.read(device, at)?;
            let is_own = big32(&bytes, 0) == Some(MAGIC) && big32(&bytes, 8) == Some(sequence);
            let kind = big32(&bytes, 4).filter(|_| is_own).ok_or(FsError::Io)?;
            at = self.after(at, 1);
            visit(kind, &bytes, (at, sequence))?;
            match kind {
                DESCRIPTOR => at = self.after(at, self.tags(&bytes).len() as u32),
                COMMIT => sequence = sequence.wrapping_add(1),
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks and records the blocks that follow a descriptor.
    fn take_tags(
        &self,
        device: &VolumeDevice,
        bytes: &[u8],
        (first, sequence): (u32, u32),
        found: &mut Found,
    ) -> Result<(), FsError> {
        for (index, tag) in self.tags(bytes).iter().enumerate() {
            if found.is_revoked(tag.block, sequence) {
                continue;
            }
            let at = self.after(first, index as u32);
            if self.checksums.are_of_blocks() {
                let sum = self.block_checksum(sequence, &self.read(device, at)?);
                let sum = if self.checksums == Checksums::V2 { sum & 0xffff } else { sum };
                if sum != tag.checksum {
                    return Err(self.damage(device, sequence, at));
                }
            }
            if tag.block >= self.area.end {
                log::error!("ext4: {}: journal: no block {}", device.name(), tag.block);
                return Err(FsError::Corrupt);
            }
            let is_escaped = tag.flags & TAG_ESCAPED != 0;
            found.versions.insert(tag.block, Version { at, is_escaped });
        }
        Ok(())
    }

    fn take_revoked(&self, bytes: &[u8], sequence: u32, found: &mut Found) -> Result<(), FsError> {
        let end = big32(bytes, HEADER_BYTES).unwrap_or(0) as usize;
        if end > bytes.len() - self.tail_bytes() {
            log::error!("ext4: journal: a revoke block of transaction {sequence} makes no sense");
            return Err(FsError::Corrupt);
        }
        let mut at = REVOKED_OFFSET;
        let step = if self.is_wide { 8 } else { 4 };
        while at + step <= end {
            let high = if self.is_wide { big32(bytes, at).unwrap_or(0) } else { 0 };
            let low = big32(bytes, at + step - 4).unwrap_or(0);
            found.revoked.insert(u64::from(high) << 32 | u64::from(low), sequence);
            at += step;
        }
        Ok(())
    }

    /// Returns the tags of a descriptor.
    pub(super) fn tags(&self, bytes: &[u8]) -> Vec<Tag> {
        let end = bytes.len() - self.tail_bytes();
        let mut tags = Vec::new();
        let mut at = HEADER_BYTES;
        while at + self.tag_bytes() <= end {
            let word = |offset| big32(bytes, at + offset).unwrap_or(0);
            let (flags, checksum, high) = match self.checksums {
                Checksums::V3 => (word(4), word(12), word(8)),
                _ => (word(4) & 0xffff, word(4) >> 16, if self.is_wide { word(8) } else { 0 }),
            };
            let high = if self.is_wide { high } else { 0 };
            let block = u64::from(high) << 32 | u64::from(word(0));
            tags.push(Tag { block, flags, checksum });
            at += self.tag_bytes();
            if flags & TAG_SAME_UUID == 0 {
                at += UUID_BYTES;
            }
            if flags & TAG_LAST != 0 {
                break;
            }
        }
        tags
    }

    /// Passes `count` blocks of the log from `first` on to `visit`, with their places; many are read at once.
    ///
    /// # Errors
    /// The error of the device if a block cannot be read; [`FsError::Corrupt`] if the journal has no such block; the
    /// error of `visit` if it returns one.
    pub(super) fn each_block(
        &self,
        device: &VolumeDevice,
        first: u32,
        count: u32,
        mut visit: impl FnMut(u32, &[u8]) -> Result<(), FsError>,
    ) -> Result<(), FsError> {
        let a_page = (PAGE_BYTES / self.area.block_bytes) as u64;
        let mut known: (u64, Vec<ChunkBytes>) = (0, Vec::new());
        for index in 0..count {
            let at = self.after(first, index);
            let block = self.place(at)?;
            let chunk = block / a_page;
            let is_known = chunk >= known.0 && chunk - known.0 < known.1.len() as u64;
            if !is_known {
                known = (chunk, device.read(chunk, CHUNKS_AT_ONCE)?);
            }
            let bytes = known.1.get((chunk - known.0) as usize).ok_or(FsError::Io)?.as_slice();
            let offset = (block % a_page) as usize * self.area.block_bytes;
            visit(at, bytes.get(offset..offset + self.area.block_bytes).ok_or(FsError::Io)?)?;
        }
        Ok(())
    }
}
